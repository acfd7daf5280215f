"""Typed decisions: one option of several, with the probability of each, in place of generated text."""
