"""Anthropic's API: its bodies to those of OpenAI's chats, and answers to its messages."""
