"""Core events to `chat.completion` and its chunks."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from llgtrt.engine import Delta, Logprob
from llgtrt.openai.custom import InputText
from llgtrt.openai.parse import Grammar, Parser, pieces, whole
from llgtrt.openai.pieces import Arguments, Call, Content, Piece, Reasoning
from llgtrt.openai.render import LEAST_LOGPROB, Json, Render, Whole, piece_of
from llgtrt.openai.reply import Reply
from llgtrt.openai.scores import Scores
from llgtrt.openai.tools import call_id
from llgtrt.prompt import Vocabulary


class ChatRender(Render):
    """`chat.completion` and its chunks."""

    prefix = "chatcmpl"
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def __init__(self, model: str, fingerprint: str, vocabulary: Vocabulary, logprobs: int | None) -> None:
        super().__init__(model, fingerprint, vocabulary, logprobs)
        self.reply: Reply | None = None
        self.parts: Grammar | None = None
        self._parsers: dict[int, Parser] = {}
        self._scores: dict[int, Scores] = {}
        self._inputs: dict[tuple[int, int], InputText] = {}
        """Of the calls of custom tools, by choice and number."""

    def answer_in(self, reply: Reply) -> None:
        """Tells answers apart into the parts that they may have."""
        self.reply, self.parts = reply, reply.parts()

    def whole(self, index: int, choice: Whole) -> Json:
        """A choice with its `message`."""
        message: Json = {"role": "assistant", "content": choice.text, "refusal": None}
        if self.parts is not None:
            parser = self._parsers[index] = Parser(self.parts)
            told = self._told(index, whole(parser, choice.text, choice.finish_reason))
            for call in told.get("tool_calls", ()):
                del call["index"]
            message |= {"content": None if parser.calls else "", **told}
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(index, choice.logprobs, choice.finish_reason),
            "finish_reason": self._reason(index, choice.finish_reason),
        }

    def _told(self, index: int, pieces: Sequence[Piece]) -> Json:
        """Members of a message or of a delta, in which what belongs together is one."""
        told: Json = {}
        calls: dict[int, Json] = {}
        for piece in pieces:
            match piece:
                case Content(text):
                    told["content"] = told.get("content", "") + text
                case Reasoning(text):
                    told["reasoning_content"] = told.get("reasoning_content", "") + text
                case Call(number, name):
                    calls[number] = self._begun(index, number, name)
                case Arguments(number, text):
                    self._extend(index, calls, number, text)
        if calls and self._legacy:
            told["function_call"] = calls[0]["function"]
        elif calls:
            told["tool_calls"] = list(calls.values())
        return told

    def _begun(self, index: int, number: int, name: str) -> Json:
        """A call of which its name is known."""
        begun = {"index": number, "id": self.call(index, number)}
        if self.reply and self.reply.tools and name in self.reply.tools.custom:
            self._inputs[index, number] = InputText()
            return {**begun, "type": "custom", "custom": {"name": name, "input": ""}}
        return {**begun, "type": "function", "function": {"name": name, "arguments": ""}}

    def _extend(self, index: int, calls: dict[int, Json], number: int, text: str) -> None:
        """Adds to the arguments of a call."""
        own = self._inputs.get((index, number))
        if own is not None:
            call = calls.setdefault(number, {"index": number, "custom": {"input": ""}})
            call["custom"]["input"] += own.feed(text)
        else:
            call = calls.setdefault(number, {"index": number, "function": {"arguments": ""}})
            call["function"]["arguments"] += text

    def call(self, index: int, number: int) -> str:
        """The id of a choice's call."""
        return call_id(self.reply.format if self.reply else None, f"{self._unique}/{index}/{number}")

    @property
    def _legacy(self) -> bool:
        return bool(self.reply and self.reply.tools and self.reply.tools.legacy)

    def _reason(self, index: int, reason: str | None) -> str | None:
        """Why a choice ended: a call is a reason of its own."""
        parser = self._parsers.get(index)
        if reason != "stop" or parser is None or not parser.calls:
            return reason
        return "function_call" if self._legacy else "tool_calls"

    def beside(self, choices: Sequence[Whole]) -> Json:
        """The prompt is that of all choices, and its log-probabilities stand where vLLM has them."""
        return self.prompt(choices[0])

    def first(self, index: int) -> Json | None:
        """The chunk that names the role."""
        return self._chunk(index, {"role": "assistant", "content": "", "refusal": None})

    def piece(self, delta: Delta) -> Json | None:
        """A chunk with new text, or parts of the answer."""
        told: Json = {"content": delta.text} if delta.text or delta.logprobs else {}
        if self.parts is not None:
            parser = self._parsers.setdefault(delta.index, Parser(self.parts))
            told = self._told(delta.index, pieces(parser, delta.text, delta.finish_reason))
        if not told and not delta.logprobs and not delta.origins:
            return None
        chunk = self._chunk(
            delta.index, told, self._logprobs(delta.index, delta.logprobs, delta.finish_reason)
        )
        return {**chunk, **self.origins(delta)}

    def last(self, index: int, finish_reason: str) -> Json:
        """The chunk that says why the choice ended."""
        return self._chunk(index, {}, finish_reason=self._reason(index, finish_reason))

    def _chunk(
        self, index: int, delta: Json, logprobs: Json | None = None, finish_reason: str | None = None
    ) -> Json:
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}

    def _logprobs(self, index: int, logprobs: Sequence[Logprob], finish_reason: str | None) -> Json | None:
        """Those of the content: tokens of reasoning and calls are left out."""
        if self._top is None:
            return None
        shown = self.visible(logprobs, finish_reason)
        if self.parts is not None:
            scores = self._scores.setdefault(index, Scores(self.parts, self.lookup))
            scores.feed(shown)
            if finish_reason is not None:
                scores.finish()
            shown = scores.settled()
        return {"content": self.entries(shown), "refusal": None}

    @property
    def scored(self) -> bool:
        """Log-probabilities are asked for."""
        return self._top is not None

    def lookup(self, token: int) -> tuple[bytes, bool]:
        """A token's bytes, and whether it is special."""
        return self._vocabulary.lookup(token)

    def entries(self, logprobs: Sequence[Logprob]) -> list[msgspec.Raw]:
        """Tokens with their log-probabilities and alternatives."""
        return [self._listed(*drawn) for drawn in logprobs]

    def _listed(self, token: int, logprob: float, top: Sequence[tuple[int, float]]) -> msgspec.Raw:
        # Clients look for the drawn token among the alternatives, but it may not be one of the likeliest.
        if top and all(other != token for other, _ in top):
            top = [*top, (token, logprob)]
        return piece_of({**self._entry(token, logprob), "top_logprobs": [self._entry(*one) for one in top]})

    def _entry(self, token: int, logprob: float) -> Json:
        shown, written = self.token(token)
        return {"token": shown, "logprob": max(logprob, LEAST_LOGPROB), "bytes": list(written)}
