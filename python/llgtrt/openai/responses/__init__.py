"""`/v1/responses`, OpenAI's Responses API, on the path that answers chats.

A body becomes that of a chat (`fields`, `items`, `as_chat`), whose prompt, grammar and generation are the
chat's. What is generated becomes items and events (`output`, `answer`), and is kept (`store`).
"""
