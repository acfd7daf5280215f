"""An in-memory stand-in for the compiled core, for tests of the Python layer alone: the same contract.

Its "model" writes words drawn from (seed, choice, position), or a short text that the grammar allows, one
character a token. As a script it is the command line on this core: `python fake_core.py serve toy --port 0`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import threading
import time
import types
from collections import Counter
from typing import Any

from llgtrt._core import (
    CoreError,
    EngineClosed,
    EngineError,
    GrammarError,
    InvalidRequest,
    Overloaded,
)
from llgtrt._core import (
    NotFound as NotFound,
)

SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|bos|>"]
FIRST_SPECIAL = 0x110000
END = FIRST_SPECIAL + 1
CONTEXT = 4096
BUCKET_COUNT = 19


def invalid(what: str, why: str, code: str | None = None) -> InvalidRequest:
    error = InvalidRequest(f"{what}: {why}")
    error.what, error.why, error.code = what, why, code
    return error


def unsupported(pointer: str, keyword: str, why: str) -> GrammarError:
    error = GrammarError(f"{keyword} at {pointer}: {why}")
    error.pointer, error.keyword, error.why = pointer, keyword, why
    return error


class Event(types.SimpleNamespace):
    pass


def _special(token: int) -> str:
    return SPECIAL[token - FIRST_SPECIAL]


def _logprobs(token: int, top: int) -> tuple[int, float, list[tuple[int, float]]]:
    return token, -0.5, [(token + i, -0.5 - i) for i in range(top)]


class _Choice:
    """A running choice: what it will say, and how far it has come."""

    def __init__(self, spec: dict[str, Any], index: int) -> None:
        self.spec, self.index, self.at, self.ended, self.sent = spec, index, 0, False, 0
        self.tokens = [ord(c) for c in _script(spec, index)] + [END]
        if spec["ignore_eos"] and spec["grammar"] is None:
            self.tokens = self.tokens[:-1] * (1 + CONTEXT // len(self.tokens))
        room = CONTEXT - len(spec["prompt"])
        self.most = room if spec["max_tokens"] is None else spec["max_tokens"]

    def step(self, request: int) -> Event:
        token = self.tokens[self.at]
        self.at += 1
        text = "".join(chr(t) for t in self.tokens[: self.at] if t < FIRST_SPECIAL)
        finish = "stop" if token == END else "length" if self.at >= self.most else None
        for stop in self.spec["stop"]:
            if stop in text:
                text, finish = text[: text.index(stop)], "stop"
        hold = 0 if finish else max((len(s) - 1 for s in self.spec["stop"]), default=0)
        new = text[self.sent : max(len(text) - hold, self.sent)]
        self.sent += len(new)
        self.ended = finish is not None
        top = self.spec["logprobs"]
        return Event(
            **_news(request, self),
            text=new,
            tokens=[token],
            logprobs=[] if top is None else [_logprobs(token, top)],
            finish_reason=finish,
            error=None,
        )


def _news(request: int, choice: _Choice) -> dict[str, Any]:
    """What is in every event."""
    counts = {"prompt_tokens": len(choice.spec["prompt"]), "completion_tokens": choice.at, "cached_tokens": 0}
    counts["reasoning_tokens"] = 0
    counts["shortened"] = 0
    rest: dict[str, Any] = {
        "drafts": {},
        "prompt_logprobs": [],
        "origins": [],
        "allowed": [],
        "queue_seconds": 0.0,
    }
    rest["compile_seconds"] = 0.0
    rest["narrowed"] = []
    rest["successors"] = []
    return {"request": request, "choice": choice.index, **counts, **rest}


def _script(spec: dict[str, Any], choice: int) -> str:
    draw = random.Random(f"{spec['sampling'].get('seed') or os.urandom(8).hex()}/{choice}")
    match spec["grammar"]:
        case None:
            return " ".join(
                draw.choice(["alpha", "beta", "gamma", "déjà", "😀"]) for _ in range(draw.randint(8, 40))
            )
        case "json_object":
            return '{"a": 1}'
        case {"json_schema": text}:
            return json.dumps(_instance(json.loads(text)))
        case {"choice": choices}:
            return str(draw.choice(choices))
        case _:
            return "42"


def _instance(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {k: _instance(v) for k, v in schema.get("properties", {}).items()}
        case "array":
            return []
        case "integer" | "number":
            return 7
        case "boolean":
            return True
    return "x"


def _check(spec: dict[str, Any]) -> None:
    if not 1 <= spec["n"] <= 128:
        raise invalid("n", "must be 1 to 128")
    if spec["max_tokens"] == 0:
        raise invalid("max_tokens", "must be at least 1")
    if not spec["prompt"]:
        raise invalid("prompt", "must not be empty")
    if len(spec["prompt"]) + (spec["max_tokens"] or 1) > CONTEXT:
        raise invalid("prompt", f"longer than {CONTEXT} tokens with max_tokens", "context_length_exceeded")
    if not 0 <= spec["sampling"].get("temperature", 1.0) <= 2:
        raise invalid("temperature", "must be 0 to 2")
    if len(spec["stop"]) > 16 or "" in spec["stop"]:
        raise invalid("stop", "must be up to 16 strings, none empty")
    if (spec["logprobs"] or 0) > 20:
        raise invalid("top_logprobs", "must be 0 to 20")


class Engine:
    load_seconds = 0.05
    step_seconds = 0.0005
    max_queue = 1000
    fail: str | None = None

    def __init__(self, target: str, config: str, child: object = None) -> None:
        self._config = json.loads(config)
        self._lock = threading.Lock()
        self._state = ("loading", "the model is being read")
        self._running: dict[int, list[_Choice]] = {}
        self._events: dict[tuple[int, int], Event] = {}
        self._next = 1
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self.totals: Counter[str] = Counter()
        self.submitted: list[dict[str, Any]] = []
        threading.Thread(target=self._run, daemon=True).start()

    def state(self) -> tuple[str, str]:
        return self._state

    def info(self) -> str:
        if self._state[0] == "loading":
            raise EngineClosed("the model is being loaded")
        limits = {"n_vocab": FIRST_SPECIAL + len(SPECIAL), "context": CONTEXT, "faults": True}
        limits["max_prompt"] = CONTEXT
        texts = {"bos_text": "<|bos|>", "eos_text": "<|im_end|>", "chat_template": None}
        facts = {
            "max_running": 128,
            "kv_tokens": CONTEXT,
            "threads": 1,
            "promise": "BitIdentical",
            "summary": "fake",
            "weights": 1,
            "eog": [END],
        }
        return json.dumps({"limits": limits, **facts, **texts})

    def encode(self, parts: list[tuple[str, bool]]) -> list[int]:
        tokens: list[int] = []
        for text, parse in parts:
            while text:
                found = next((i for i, s in enumerate(SPECIAL) if parse and text.startswith(s)), None)
                tokens.append(ord(text[0]) if found is None else FIRST_SPECIAL + found)
                text = text[1 if found is None else len(SPECIAL[found]) :]
        return tokens

    def decode(self, tokens: list[int]) -> str:
        return "".join(chr(t) for t in tokens if t < FIRST_SPECIAL)

    def token_bytes(self, token: int) -> bytes:
        return (chr(token) if token < FIRST_SPECIAL else _special(token)).encode("utf-8", "replace")

    def longest_token(self) -> int:
        return max(map(len, SPECIAL))

    def bos_token(self) -> int | None:
        return FIRST_SPECIAL + 3

    def submit(self, request: str) -> int:
        spec = {"n": 1, "ignore_eos": False, **json.loads(request)}
        if self._state[0] != "ready":
            raise EngineClosed(self._state[1])
        _check(spec)
        with self._lock:
            if len(self._running) >= self.max_queue:
                raise Overloaded("the waiting line is full")
            number, self._next = self._next, self._next + 1
            self.submitted.append(spec)
            self._running[number] = [_Choice(spec, i) for i in range(spec["n"])]
        return number

    def cancel(self, request: int) -> None:
        with self._lock:
            if self._running.pop(request, None) is not None:
                self.totals["requests_cancelled"] += 1

    def drain(self) -> list[Event]:
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 4096)
        with self._lock:
            events, self._events = list(self._events.values()), {}
        return events

    def fileno(self) -> int:
        return self._read

    def metrics(self) -> str:
        histogram = {"counts": [0] * BUCKET_COUNT, "sum": 0.0}
        names = ["prompt_tokens", "cached_tokens", "generated_tokens", "computed_tokens", "drafted_tokens"]
        names += ["accepted_tokens", "preemptions", "choices_shortened", "kv_returned_tokens", "steps"]
        names += ["grammar_cache_hits", "grammar_cache_misses"]
        names += [f"requests_{o}" for o in ("stop", "length", "cancelled", "refused", "failed")]
        histograms = ["time_to_first_token", "inter_token", "end_to_end", "step", "mask", "compile"]
        histograms += ["queue", "verify"]
        totals: dict[str, Any] = {n: self.totals[n] for n in names} | dict.fromkeys(histograms, histogram)
        totals["draft"] = [histogram] * 9
        fates = dict.fromkeys(["drafted", "accepted", "target", "grammar", "stop", "unverified"], 0)
        totals["drafting"] = {"sources": {"forced": fates}, "accepted_at": [0] * 17, "lengths": [0] * 17}
        gauges = dict.fromkeys(["waiting", "kv_used", "kv_total", "kv_kept", "grammar_cache_entries"], 0)
        gauges |= dict.fromkeys(["draft_kv_used", "drafters_failed", "kv_resident"], 0)
        with self._lock:
            gauges["running"] = sum(not c.ended for cs in self._running.values() for c in cs)
        return json.dumps({"totals": totals, "gauges": gauges, "restarts": 0})

    def close(self) -> None:
        if self._state[0] != "closed":
            self._set_state("closed", "the engine was closed")
            self._fail_all(EngineClosed("the server is shutting down"))

    def break_down(self) -> None:
        """What a dying engine process does to its running requests."""
        self._fail_all(EngineError("the engine process died"))

    def _set_state(self, state: str, why: str) -> None:
        self._state = (state, why)
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"x")

    def _fail_all(self, error: CoreError) -> None:
        with self._lock:
            for number, choices in self._running.items():
                for choice in choices:
                    self._put(self._failure(number, choice, error))
            self._running = {}
        self._wake()

    def _failure(self, number: int, choice: _Choice, error: CoreError) -> Event:
        news = _news(number, choice)
        return Event(**news, text="", tokens=[], logprobs=[], finish_reason=None, error=error)

    def _put(self, event: Event) -> None:
        waiting = self._events.get((event.request, event.choice))
        if waiting is not None:
            event.text = waiting.text + event.text
            event.tokens = waiting.tokens + event.tokens
            event.logprobs = waiting.logprobs + event.logprobs
        self._events[event.request, event.choice] = event

    def _run(self) -> None:
        time.sleep(self.load_seconds)
        if self.fail is not None:
            self._set_state("failed", self.fail)
            return
        self._set_state("ready", "")
        while self._state[0] != "closed":
            time.sleep(self.step_seconds)
            with self._lock:
                for number, choices in list(self._running.items()):
                    self._step(number, choices)
            if self._events:
                self._wake()

    def _step(self, number: int, choices: list[_Choice]) -> None:
        grammar = choices[0].spec["grammar"]
        if isinstance(grammar, dict) and "unsupportedKeyword" in str(grammar):
            del self._running[number]
            self.totals["requests_refused"] += 1
            error = unsupported("/properties/a", "unsupportedKeyword", "cannot be enforced")
            self._put(self._failure(number, choices[0], error))
            return
        for choice in choices:
            if not choice.ended:
                event = choice.step(number)
                self._put(event)
                self.totals["generated_tokens"] += 1
        if all(c.ended for c in choices):
            del self._running[number]
            self.totals[f"requests_{event.finish_reason}"] += 1


DEFAULT_SERVER = {
    "host": "127.0.0.1",
    "port": 3000,
    "served_model_name": None,
    "served_model_aliases": [],
    "api_keys": [],
    "chat_template": None,
    "tool_format": "auto",
    "reasoning_markers": None,
    "decision_prompts": {"choice": None, "score": None, "noul": None},
    "send_timeout": 30.0,
    "grace_period": 30.0,
    "max_body_bytes": 16 * 1024 * 1024,
    "page": True,
    "engine_process": True,
}


def load_config(text: str | None, overrides: str) -> str:
    server = dict(DEFAULT_SERVER)
    for source in (json.loads(text) if text else {}, json.loads(overrides)):
        for key, value in source.get("server", {}).items():
            if key not in server:
                raise invalid(f"server.{key}", "unknown key")
            server[key] = value
    others = {"engine": {"generation_config": "none"}, "sampling": {}}
    return json.dumps({"server": server, **others})


def print_config(effective: str) -> str:
    return json.dumps(json.loads(effective), indent=2)


def engine_process(fd: int) -> int:
    return 0


def follow(target: str, config: str) -> None:
    raise invalid("target", "has no ranks")


def install() -> None:
    """Takes the compiled core's place, also where there is one."""
    sys.modules["llgtrt._core"] = sys.modules[__name__]
    import llgtrt

    llgtrt._core = sys.modules[__name__]


if __name__ == "__main__":
    install()
    from llgtrt.cli import main

    sys.exit(main())
