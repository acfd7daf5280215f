"""Products that hold output to a JSON schema, each as a grammar over single bytes, for coverage_peers.py."""

# ruff: noqa: D102 -- what the methods do is said where they are abstract
from __future__ import annotations

import json
import math
import os
import select
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

END = 256
"""The token that ends a text; tokens below it are bytes."""
LONGEST = 1500
"""Tokens after which a walk is given up."""
NOISE = 6.0
"""Logits of the weightless engine vary by so much from token to token; other walks vary as much."""
LIKING = {b: 0.0 if b in range(0x20, 0x7F) else -30.0 for b in range(END)} | {
    END: 3.0,
    **dict.fromkeys(b'"}]', 2.5),
    **dict.fromkeys(b",", 1.0),
    **dict.fromkeys(b" ", -1.0),
    **dict.fromkeys(b"\\\n", -3.0),
}
"""Log-weight of each token in a walk: texts of some letters, what closes rather than goes on, ASCII."""


class Refused(Exception):
    """The product does not take the schema, and says why."""


class Product(ABC):
    """Holds one schema at a time."""

    @abstractmethod
    def compile(self, schema: str) -> None:
        """Raises `Refused`."""

    @abstractmethod
    def begins(self, text: str) -> bool:
        """Whether an output can begin with all of it."""

    @abstractmethod
    def accepts(self, text: str) -> bool:
        """Whether all of it can be the whole output."""

    @abstractmethod
    def walks(self, count: int, dice: Random) -> Iterator[bytes | None]:
        """Outputs drawn at random; None for one that does not come to its end."""


class Masked(Product):
    """One whose masks say what may come next."""

    def accepts(self, text: str) -> bool:
        """Whether the text may end there."""
        return self.begins(text) and END in self.allowed()

    @abstractmethod
    def begin(self) -> None:
        """Begins a text."""

    @abstractmethod
    def allowed(self) -> list[int]:
        """Tokens that may come next."""

    @abstractmethod
    def commit(self, token: int) -> None:
        """Continues the text."""

    def walks(self, count: int, dice: Random) -> Iterator[bytes | None]:
        """Draws from the masks."""
        for _ in range(count):
            yield self.walk(dice)

    def walk(self, dice: Random) -> bytes | None:
        """One of them: the likeliest of Gumbel's, which draws by weight."""

        def score(token: int) -> float:
            return LIKING[token] + NOISE * dice.random() - math.log(-math.log(1 - dice.random() or 0.5))

        self.begin()
        text = bytearray()
        for _ in range(LONGEST):
            tokens = self.allowed()
            token = max(tokens, key=score, default=None)
            if token == END:
                return bytes(text)
            if token is None:
                return None
            self.commit(token)
            text.append(token)
        return None


class XGrammar(Masked):
    """`strict`: its default, in which objects have no undeclared members unless the schema names them."""

    def __init__(self, strict: bool = False) -> None:
        import xgrammar

        tokens = [bytes([b]) for b in range(END)] + [b"<end>"]
        info = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, stop_token_ids=[END])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.mask = xgrammar.allocate_token_bitmask(1, END + 1)
        self.new, self.strict = xgrammar.GrammarMatcher, strict

    def compile(self, schema: str) -> None:
        self.matcher = self.new(self.compiler.compile_json_schema(schema, strict_mode=self.strict))

    def begins(self, text: str) -> bool:
        self.begin()
        return bool(self.matcher.accept_string(text))

    def begin(self) -> None:
        self.matcher.reset()

    def allowed(self) -> list[int]:
        self.matcher.fill_next_token_bitmask(self.mask)
        return bits(self.mask.numpy().tobytes())

    def commit(self, token: int) -> None:
        self.matcher.accept_token(token)


def bits(mask: bytes, end: int = END) -> list[int]:
    """Tokens of a mask whose bits begin with the least; `end` is the one that ends a text."""
    number = int.from_bytes(mask, "little")
    return [b for b in range(END) if number >> b & 1] + [END] * (number >> end & 1)


class Llguidance(Masked):
    """Called directly."""

    def __init__(self) -> None:
        import llguidance

        self.tokens, self.new = llguidance.LLTokenizer("byte"), llguidance.LLMatcher

    def compile(self, schema: str) -> None:
        self.pristine = self.new(self.tokens, self.new.grammar_from_json_schema(schema))
        if self.pristine.is_error():
            raise Refused(self.pristine.get_error())

    def begins(self, text: str) -> bool:
        self.begin()
        letters = list(text.encode())
        return bool(self.matcher.try_consume_tokens(letters) == len(letters))

    def begin(self) -> None:
        self.matcher = self.pristine.deep_copy()

    def allowed(self) -> list[int]:
        if self.matcher.is_stopped():  # what is over has no mask
            return [] if self.matcher.is_error() else [END]
        return bits(self.matcher.compute_bitmask(), self.tokens.eos_token)

    def commit(self, token: int) -> None:
        self.matcher.consume_token(token)


class Outlines(Masked):
    """outlines-core: a regular expression, and the automaton of it."""

    def __init__(self) -> None:
        import outlines_core

        self.core = outlines_core
        self.vocabulary = outlines_core.Vocabulary(END, {bytes([b]): [b] for b in range(END)})

    def compile(self, schema: str) -> None:
        from outlines_core import json_schema

        self.index = self.core.Index(json_schema.build_regex_from_schema(schema), self.vocabulary)

    def begins(self, text: str) -> bool:
        self.begin()
        try:
            for letter in text.encode():
                self.commit(letter)
        except ValueError:
            return False
        return True

    def begin(self) -> None:
        self.guide = self.core.Guide(self.index)

    def allowed(self) -> list[int]:
        return list(self.guide.get_tokens())

    def commit(self, token: int) -> None:
        self.guide.advance(token, False)


class Llama(Masked):
    """llama.cpp's conversion to GBNF and its parser, in a program made from coverage_llama.cpp."""

    def __init__(self, program: Path) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [program], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, command: str) -> str:
        """Its answer; raises `EOFError` where it has ended."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(command + "\n")
        stdin.flush()
        if not (answer := stdout.readline()):
            raise EOFError("llama.cpp ended")
        return answer.removesuffix("\n")

    def compile(self, schema: str) -> None:
        if (answer := self.ask(f"g {schema}")) != "ok":
            raise Refused(answer)

    def begins(self, text: str) -> bool:
        self.begin()
        return self.ask(f"a {text}") == "1"

    def begin(self) -> None:
        self.ask("r")

    def allowed(self) -> list[int]:
        return [END if word == "end" else int(word) for word in self.ask("m").split()]

    def commit(self, token: int) -> None:
        if self.ask(f"a {chr(token)}") != "1":
            raise ValueError(f"{token} was allowed")


class Ours(Product):
    """Our own core, walked by its weightless engine."""

    def __init__(self, documents: dict[str, Any]) -> None:
        from llgtrt import _core

        self.core, self.folder = _core, tempfile.TemporaryDirectory()
        files = {}
        for i, (uri, document) in enumerate(documents.items()):
            file = Path(self.folder.name) / f"{i}.json"
            file.write_text(json.dumps(document))
            files[uri] = str(file)
        # By the letter of JSON Schema: by default, objects have no keys that their schemas do not name.
        # `--patience` bounds the time of all products, as it is of the processor and not of the clock.
        grammar = {"documents": files, "undeclared_keys": "schema", "compile_seconds": 600}
        config = {"grammar": grammar}
        self.engine = _core.Engine("toy:slots=8", _core.load_config(None, json.dumps(config)))
        while self.engine.state()[0] == "loading":
            time.sleep(0.01)
        tokens = range(min(self.engine_ends()))
        self.bias = {token: self.liking(self.engine.token_bytes(token)) for token in tokens}
        self.bias |= dict.fromkeys(self.engine_ends(), LIKING[END] - 1)

    def engine_ends(self) -> list[int]:
        """Tokens that end a text."""
        return [int(token) for token in json.loads(self.engine.info())["eog"]]

    @staticmethod
    def liking(token: bytes) -> float:
        """As in other walks, less what the engine itself adds (`bonus_of` in exec/toy.rs); bytes only."""
        if len(token) != 1:
            return -100.0
        letter = token.decode("latin-1")
        own = 3.0 if letter.isascii() and (letter.isalnum() or letter == " ") else 1.5
        return LIKING[token[0]] - (own if token[0] in range(0x20, 0x7F) else 0.0)

    def compile(self, schema: str) -> None:
        self.spec = {"json_schema": schema}
        self.report()

    def report(self, text: str | None = None) -> Any:
        """What the core says of the schema, and of a text."""
        try:
            return json.loads(self.engine.check_grammar(json.dumps(self.spec), text))
        except (self.core.GrammarError, self.core.InvalidRequest) as error:
            raise Refused(str(error)) from error

    def begins(self, text: str) -> bool:
        return bool(self.report(text)["matched"] == len(text))

    def accepts(self, text: str) -> bool:
        return bool(self.report(text)["matches"])

    def walks(self, count: int, dice: Random) -> Iterator[bytes | None]:
        """Draws by the engine's sampler."""
        sampling = {"temperature": 1.0, "logit_bias": self.bias, "seed": dice.randrange(1 << 32)}
        request = {
            "prompt": [65],
            "n": count,
            "max_tokens": LONGEST,
            "sampling": sampling,
            "grammar": self.spec,
        }
        self.engine.submit(json.dumps(request))
        texts, left = [""] * count, count
        while left:
            select.select([self.engine.fileno()], [], [])
            for event in self.engine.drain():
                texts[event.choice] += event.text
                if event.error is not None:
                    raise event.error
                if event.finish_reason is not None:
                    left -= 1
                    yield texts[event.choice].encode() if event.finish_reason == "stop" else None


PRODUCTS = {
    "llgtrt": "this product",
    "llguidance": "llguidance",
    "xgrammar": "xgrammar",
    "xgrammar-strict": "xgrammar",
    "outlines-core": "outlines-core",
    "llama.cpp": "LLAMA_COVERAGE, a program made from coverage_llama.cpp,",
}
"""Names, and what each needs: a wheel mostly."""


def make(name: str, documents: dict[str, Any]) -> Product:
    """A product; raises `ImportError` or `KeyError` where what it needs is not there.

    documents: files by URI that schemas may refer to; only ours can be given any.
    """
    if name == "llgtrt":
        return Ours(documents)
    if name == "llama.cpp":
        return Llama(Path(os.environ["LLAMA_COVERAGE"]))
    if name.startswith("xgrammar"):
        return XGrammar(strict=name.endswith("strict"))
    return Llguidance() if name == "llguidance" else Outlines()


def version_of(name: str) -> str:
    """Its version; raises what `make` raises."""
    if name == "llgtrt":
        return "this version"
    if name == "llama.cpp":
        return subprocess.run(
            [os.environ["LLAMA_COVERAGE"], "--version"], capture_output=True, text=True, check=True
        ).stdout.strip()
    return version(PRODUCTS[name])
