"""Core events to OpenAI's objects: choices of whole answers and of stream chunks, for both APIs."""

from __future__ import annotations

import abc
import codecs
import dataclasses
import time
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from llgtrt.engine import Delta, Generation, Logprob, Usage
from llgtrt.openai import origins
from llgtrt.prompt import Vocabulary

Json = dict[str, Any]

LEAST_LOGPROB = -9999.0
"""Stands for minus infinity, which JSON does not have."""

_encoder = msgspec.json.Encoder()


def piece_of(value: Json) -> msgspec.Raw:
    """Encodes the log-probabilities of one token.

    As objects a long answer would take ten times the memory, and all of it at once hold other requests up.
    """
    return msgspec.Raw(_encoder.encode(value))


@dataclasses.dataclass
class Whole:
    """A choice as far as it has come."""

    text: str = ""
    logprobs: list[Logprob] = dataclasses.field(default_factory=list)
    prompt: list[Logprob] = dataclasses.field(default_factory=list)
    """Of the prompt's tokens, from the second on."""
    tokens: list[int] = dataclasses.field(default_factory=list)
    """Where the generation keeps them."""
    probabilities: Json | None = None
    """By JSON pointer, those of the values at this place; None where the client does not ask."""
    finish_reason: str | None = None

    def add(self, delta: Delta) -> None:
        """Appends news."""
        self.text += delta.text
        self.tokens += delta.tokens
        self.logprobs += delta.logprobs
        self.prompt += delta.prompt
        self.finish_reason = delta.finish_reason


def usage(counts: Usage) -> Json:
    """OpenAI's `usage`."""
    return {
        "prompt_tokens": counts.prompt,
        "completion_tokens": counts.completion,
        "total_tokens": counts.prompt + counts.completion,
        "prompt_tokens_details": {"cached_tokens": counts.cached},
        "completion_tokens_details": {
            "reasoning_tokens": counts.reasoning,
            "accepted_prediction_tokens": counts.drafts["prediction", "accepted"],
            "rejected_prediction_tokens": counts.drafts["prediction", "refused"],
        },
    }


def drafts(counts: Usage) -> Json:
    """The extension field `speculative` of `usage`: drafted tokens by source, and the share emitted."""
    sources = {source for source, _ in counts.drafts}
    by_source = {
        s: {"drafted": counts.drafts[s, "drafted"], "accepted": counts.drafts[s, "accepted"]}
        for s in sorted(sources)
    }
    drafted = sum(c["drafted"] for c in by_source.values())
    accepted = sum(c["accepted"] for c in by_source.values())
    return {"sources": by_source, "acceptance": accepted / drafted if drafted else None}


def timings(going: Generation) -> Json:
    """Token counts and times (ms) of a request so far, under llama-server's names."""
    counts = going.usage()
    queued = going.queued or 0.0
    first = going.first if going.first is not None else going.last
    computed = counts.prompt - counts.cached
    told: Json = {"queue_ms": queued * 1e3, "cache_n": counts.cached}
    told |= _speed("prompt", computed, first - going.begun - queued)
    # The pass that reads the end of the prompt gives the first token.
    told |= _speed("predicted", counts.completion, going.last - first)
    if counts.drafts:
        for name, fate in ("draft_n", "drafted"), ("draft_n_accepted", "accepted"):
            told[name] = sum(count for (_, own), count in counts.drafts.items() if own == fate)
    return told


def _speed(name: str, count: int, seconds: float) -> Json:
    seconds = max(seconds, 0.0)
    told = {f"{name}_n": count, f"{name}_ms": seconds * 1e3}
    if count and seconds:
        told |= {f"{name}_per_token_ms": seconds * 1e3 / count, f"{name}_per_second": count / seconds}
    return told


def narrowed(counts: Usage) -> list[Json]:
    """The extension field `narrowed` of `usage`: where less is allowed than a schema says."""
    keys = ("pointer", "keyword", "reason")
    return [dict(zip(keys, place, strict=True)) for place in counts.narrowed]


def _probabilities(choice: Whole) -> Json:
    return {} if choice.probabilities is None else {"probabilities": choice.probabilities}


class Writer(abc.ABC):
    """One answer, as its API has it."""

    with_prompt = False
    """The client asks for `prompt_logprobs`."""
    generation: Generation | None = None
    """The generation behind the answer; None before it is submitted."""

    def named(self, request: str) -> None:  # noqa: B027 (some answers have ids of their own)
        """Makes the answer's id from the request's."""

    @abc.abstractmethod
    def body(self, choices: Sequence[Whole], usage: Json) -> Json:
        """An answer that is not streamed; `usage`: OpenAI's."""


class Render(Writer):
    """One answer: its identity, and how its choices look."""

    prefix: str
    whole_object: str
    chunk_object: str

    def __init__(self, model: str, fingerprint: str, vocabulary: Vocabulary, logprobs: int | None) -> None:
        """`logprobs`: alternatives per token; none = the client did not ask."""
        self._vocabulary = vocabulary
        self._top = logprobs
        self._unique = uuid.uuid4().hex
        """For ids of calls: clients may send the same request id many times."""
        self._id = f"{self.prefix}-{self._unique}"
        self._created = int(time.time())
        self._model = model
        self._fingerprint = fingerprint

    def named(self, request: str) -> None:
        """Makes the answer's id from the request's, which log and header have, too."""
        self._id = f"{self.prefix}-{request}"

    def body(self, choices: Sequence[Whole], usage: Json) -> Json:
        """All choices, and what stands around and beside them."""
        wholes = [self.whole(i, c) | _probabilities(c) for i, c in enumerate(choices)]
        told = self.envelope(self.whole_object, wholes)
        return {**told, **self.beside(choices), "usage": usage}

    def envelope(self, kind: str, choices: Sequence[Json]) -> Json:
        """What stands around choices."""
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model,
            "system_fingerprint": self._fingerprint,
            "choices": choices,
        }

    def beside(self, choices: Sequence[Whole]) -> Json:
        """What an answer that is not streamed has beside its choices."""
        return {}

    @abc.abstractmethod
    def whole(self, index: int, choice: Whole) -> Json:
        """A choice of an answer that is not streamed."""

    @abc.abstractmethod
    def first(self, index: int) -> Json | None:
        """What a choice's stream begins with, if anything."""

    @abc.abstractmethod
    def piece(self, delta: Delta) -> Json | None:
        """A choice's news, if there is anything to show."""

    @abc.abstractmethod
    def last(self, index: int, finish_reason: str) -> Json:
        """The end of a choice's stream."""

    def prompt(self, choice: Whole) -> Json:
        """The `prompt_logprobs` of a choice, as vLLM's: for each token its own and the likeliest, by id."""
        if not self.with_prompt:
            return {}
        return {"prompt_logprobs": [None, *(piece_of(self._ranked(*entry)) for entry in choice.prompt)]}

    def _ranked(self, token: int, logprob: float, top: Sequence[tuple[int, float]]) -> Json:
        ranks: dict[int, tuple[float, int | None]] = {t: (v, rank) for rank, (t, v) in enumerate(top, 1)}
        ranks.setdefault(token, (logprob, None))
        return {
            str(t): {
                "logprob": max(value, LEAST_LOGPROB),
                "rank": rank,
                "decoded_token": self.token(t)[0],
            }
            for t, (value, rank) in ranks.items()
        }

    def origins(self, delta: Delta) -> Json:
        """The extension field `token_origins` of a chunk's choice, where it is asked for."""
        if not delta.origins:
            return {}
        told = [piece_of(origins.entry(origin, self._shown)) for origin in delta.origins]
        return {"token_origins": told}

    def _shown(self, token: int) -> Json:
        return {"id": token, "token": self.token(token)[0]}

    def visible(self, logprobs: Sequence[Logprob], finish_reason: str | None) -> Sequence[Logprob]:
        """Leaves out the token that ended the choice by itself: it is no part of the text."""
        if finish_reason == "stop" and logprobs and self._vocabulary.lookup(logprobs[-1][0])[1]:
            return logprobs[:-1]
        return logprobs

    def token(self, token: int) -> tuple[str, bytes]:
        r"""How a token is shown, and its bytes. Part of a character is shown as `bytes:\xe2\x80`."""
        written, _ = self._vocabulary.lookup(token)
        try:
            return written.decode(), written
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{b:02x}" for b in written), written


class _Offset:
    """Where a choice's next token begins, in characters of its text."""

    def __init__(self, prompt: str) -> None:
        """`prompt`: the text before the output, where it is echoed."""
        self._prompt = prompt
        self._characters = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def after(self, written: bytes, is_special: bool, are_shown: bool) -> int:
        """Returns where a token begins, and moves behind it. All parts of a character begin where it begins.

        `are_shown`: special tokens of the output are part of its text. In a prompt, some are and some not.
        """
        begin = self._characters
        text = self._decoder.decode(written)
        in_prompt = begin < len(self._prompt)
        if not is_special or (self._prompt.startswith(text, begin) if in_prompt else are_shown):
            self._characters += len(text)
        return begin


def _likelihood(choice: Whole) -> float:
    """Log-probability per token, end token included."""
    count = len(choice.logprobs)
    return sum(logprob for _, logprob, _ in choice.logprobs) / count if count else float("-inf")


class CompletionRender(Render):
    """`text_completion`, whose chunks look like the whole."""

    prefix = "cmpl"
    whole_object = "text_completion"
    chunk_object = "text_completion"

    def __init__(self, model: str, fingerprint: str, vocabulary: Vocabulary, logprobs: int | None) -> None:
        super().__init__(model, fingerprint, vocabulary, logprobs)
        self._echo: Sequence[str] = ()
        self._tokens: Sequence[Sequence[int]] = ()
        self._n = 1
        self._alone = False
        self._offsets: dict[int, _Offset] = {}
        self._given = self._made = 1
        self._shows_special = False

    def best(self, given: int, made: int) -> None:
        """Gives so many of the choices `made` for each prompt: the likeliest, where not all."""
        self._given, self._made = given, made

    def show_special(self) -> None:
        """The output's text contains special tokens."""
        self._shows_special = True

    def body(self, choices: Sequence[Whole], usage: Json) -> Json:
        """The choices that are given."""
        if self._given < self._made:
            each = (choices[at : at + self._made] for at in range(0, len(choices), self._made))
            best = (sorted(made, key=_likelihood, reverse=True)[: self._given] for made in each)
            choices = [choice for chosen in best for choice in chosen]
        if self._alone:
            usage = usage | {"completion_tokens": 0, "total_tokens": usage["prompt_tokens"]}
        return super().body(choices, usage)

    def echo(
        self, prompts: Sequence[str], tokens: Sequence[Sequence[int]], n: int, alone: bool = False
    ) -> None:
        """Puts each prompt's text before its `n` choices, of which nothing else is shown where `alone`."""
        self._echo, self._tokens, self._n, self._alone = prompts, tokens, n, alone

    def whole(self, index: int, choice: Whole) -> Json:
        """A choice with its `text`."""
        if self._alone:
            choice.text, choice.logprobs, choice.finish_reason = "", [], "length"
        lists = self._echoed(index, choice)
        logprobs = self._logprobs(index, choice.logprobs, choice.finish_reason, lists)
        text = self._prompt(index) + choice.text
        return {**self._choice(index, text, logprobs, choice.finish_reason), **self.prompt(choice)}

    def first(self, index: int) -> Json | None:
        """The chunk with the prompt, where it is echoed."""
        prompt = self._prompt(index)
        return self._choice(index, prompt) if prompt else None

    def piece(self, delta: Delta) -> Json | None:
        """A chunk with new text."""
        if not delta.text and not delta.logprobs and not delta.origins:
            return None
        logprobs = self._logprobs(delta.index, delta.logprobs, delta.finish_reason)
        return {**self._choice(delta.index, delta.text, logprobs), **self.origins(delta)}

    def last(self, index: int, finish_reason: str) -> Json:
        """The chunk that says why the choice ended."""
        return self._choice(index, "", finish_reason=finish_reason)

    def _choice(
        self, index: int, text: str, logprobs: Json | None = None, finish_reason: str | None = None
    ) -> Json:
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}

    def _prompt(self, index: int) -> str:
        return self._echo[index // self._n] if self._echo else ""

    def _echoed(self, index: int, choice: Whole) -> Json | None:
        """The lists of the prompt's tokens, where it is echoed; of the first there is no log-probability."""
        if self._top is None or not self._echo:
            return None
        first = self._tokens[index // self._n][0]
        lists = self._lists()
        self._append(index, lists, first, None, None)
        for token, logprob, top in choice.prompt:
            self._append(index, lists, token, logprob, top[: self._top])
        return lists

    @staticmethod
    def _lists() -> Json:
        return {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}

    def _append(
        self,
        index: int,
        lists: Json,
        token: int,
        logprob: float | None,
        top: Sequence[tuple[int, float]] | None,
    ) -> None:
        shown = self.token(token)[0]
        likely = None
        if logprob is not None and top is not None:
            logprob = max(logprob, LEAST_LOGPROB)
            likely = {self.token(t)[0]: max(value, LEAST_LOGPROB) for t, value in top}
            likely.setdefault(shown, logprob)
        offsets = self._offsets.setdefault(index, _Offset(self._prompt(index)))
        offset = offsets.after(*self._vocabulary.lookup(token), self._shows_special)
        for name, value in zip(lists, (shown, logprob, likely and piece_of(likely), offset), strict=True):
            lists[name].append(value)

    def _logprobs(
        self,
        index: int,
        logprobs: Sequence[Logprob],
        finish_reason: str | None,
        before: Json | None = None,
    ) -> Json | None:
        if self._top is None:
            return None
        lists = self._lists() if before is None else before
        for token, logprob, top in self.visible(logprobs, finish_reason):
            self._append(index, lists, token, logprob, top)
        return lists
