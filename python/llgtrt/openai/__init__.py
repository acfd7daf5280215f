"""OpenAI's HTTP API: bodies in, core requests out; core events in, bodies and server-sent events out."""
