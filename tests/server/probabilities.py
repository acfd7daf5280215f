"""What constrained completions say of probabilities, token by token."""

from __future__ import annotations

import math
import re

from .serving import Server

STATE = "Customer message: I was charged twice for my order last week."
ENDS = range(265, 268)
"""The special tokens of the weightless engine."""
BARE = {"server": {"decision_prompts": dict.fromkeys(("choice", "score", "noul"), "{state}")}}
"""Prompts that are the state alone."""


def brute_force(
    server: Server, prompt: list[int], options: list[str], begun: bytes = b""
) -> dict[str, float]:
    """What constrained completions say: each token's probability, over all token paths."""
    left = [option for option in options if option.encode().startswith(begun)]
    if left == [begun.decode()]:
        return {left[0]: 1.0}
    rests = [re.escape(option.encode()[len(begun) :].decode()) for option in left]
    body = {
        "prompt": prompt,
        "response_format": {"type": "regex", "regex": "|".join(rests)},
        "logprobs": 20,
        "logprobs_of": "allowed",
        # An end token that is drawn is not listed. Biases leave the probabilities as they are.
        "logit_bias": {str(end): -100 for end in ENDS},
        "temperature": 0,
    }
    answer = server.http.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    total = dict.fromkeys(options, 0.0)
    for text, logprob in answer.json()["choices"][0]["logprobs"]["top_logprobs"][0].items():
        ids = server.http.post("/tokenize", json={"prompt": text, "add_special_tokens": False}).json()
        (token,) = ids["tokens"]
        own = b"" if text.startswith("<|") else text.encode()
        share = math.exp(logprob)
        if not own:
            total[begun.decode()] += share
            continue
        for option, part in brute_force(server, [*prompt, token], left, begun + own).items():
            total[option] += share * part
    return total
