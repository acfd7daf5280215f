"""Ollama's API, on the path of OpenAI's chats and completions."""
