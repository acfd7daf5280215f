"""Typed decisions: one option of several, with the probability of each, instead of generated text."""
