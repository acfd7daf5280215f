"""Constraints as a library: masks for any engine, without a server.

    vocabulary = Vocabulary.from_huggingface("path/to/model")
    grammar = vocabulary.compile_json_schema({"type": "object", ...})
    matcher = grammar.matcher(max_tokens=300)
    while not matcher.is_terminated():
        matcher.fill_bitmask(row)  # int32, (size + 31) // 32 words
        token = ...  # drawn from the model's logits, where the row allows it
        matcher.accept([token])

A matcher with `max_tokens` allows a token only where enough tokens are left to complete the output behind it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llgtrt import _core
from llgtrt._core import Grammar, GrammarError, InvalidRequest, Matcher, fill_bitmasks

__all__ = ["Grammar", "GrammarError", "InvalidRequest", "Matcher", "Vocabulary", "fill_bitmasks"]

Json = Mapping[str, Any]


class Vocabulary:
    """The tokens of a model, and a compiler of constraints on its outputs, with a cache.

    `settings` of all constructors is the group `grammar` of `runtime.json`, such as
    ``{"key_order": "any"}``; see docs/grammars.md. Several threads may use a vocabulary.
    """

    def __init__(self, core: _core.Vocabulary) -> None:
        self._core = core

    @classmethod
    def from_huggingface(
        cls,
        path: str | Path,
        eos: Sequence[int] | None = None,
        *,
        size: int | None = None,
        settings: Json | None = None,
    ) -> Vocabulary:
        """From a `tokenizer.json`, or the folder of a model that has one.

        eos: the end tokens; None = those that `generation_config.json` or `config.json` in the folder name.
        size: width of the model's logits; None = `vocab_size` of `config.json`, or as many as the tokenizer
        has.

        Raises:
            InvalidRequest: the file cannot be read or is of a kind that is not supported, or no end token is
                known.
        """
        file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
        try:
            text = file.read_bytes()
        except OSError as e:
            raise _invalid("path", f"{file} cannot be read ({e}); give a tokenizer.json or its folder") from e
        model = _model_config(file.parent)
        eos = _end_tokens(file.parent, model) if eos is None else eos
        if not eos:
            raise _invalid("eos", f"no end token is named beside {file}; give eos=[...]")
        if size is None and "vocab_size" in model:
            # Some files name fewer than the tokenizer has, for tokens that were added later.
            size = max(model["vocab_size"], _tokens_of(text))
        return cls.from_tokenizer_json(text, eos, size=size, settings=settings)

    @classmethod
    def from_tokenizer_json(
        cls,
        text: str | bytes,
        eos: Sequence[int],
        *,
        size: int | None = None,
        settings: Json | None = None,
    ) -> Vocabulary:
        """From the text of a `tokenizer.json`, such as transformers' `tokenizer.backend_tokenizer.to_str()`.

        Raises:
            InvalidRequest: it is damaged or of a kind that is not supported.
        """
        data = text.encode() if isinstance(text, str) else text
        core = _core.Vocabulary.from_tokenizer_json(data, list(eos), size, _settings(settings))
        return cls(core)

    @classmethod
    def from_gguf(cls, path: str | Path, *, settings: Json | None = None) -> Vocabulary:
        """From a GGUF file, with the file's end tokens.

        Raises:
            InvalidRequest: it cannot be read or its tokenizer is not supported.
        """
        return cls(_core.Vocabulary.from_gguf(str(path), _settings(settings)))

    @classmethod
    def from_tokens(
        cls,
        tokens: Sequence[bytes | None],
        eos: Sequence[int],
        *,
        special: Sequence[int] = (),
        encode: Callable[[str], Sequence[int]] | None = None,
        settings: Json | None = None,
    ) -> Vocabulary:
        """From the bytes of each token by its id; None, or no bytes, for an id without a meaning.

        eos: the end tokens. special: tokens that are no text; their bytes are what they are written as.
        encode: text to ids, without special tokens, as the model's tokenizer does it; it may be called from
        any thread. Text that must come is then forced in the model's own tokens. Without it, any tokens that
        spell the text are allowed.

        Raises:
            InvalidRequest: an id is not below their number, or there is no end token.
        """
        listed = [None if token is None else bytes(token) for token in tokens]
        call = None if encode is None else lambda text: list(encode(text))
        core = _core.Vocabulary.from_tokens(listed, (list(eos), list(special)), call, _settings(settings))
        return cls(core)

    @property
    def size(self) -> int:
        """Number of ids; a mask has (size + 31) // 32 words."""
        return self._core.size

    @property
    def eos(self) -> list[int]:
        """The end tokens, ascending."""
        return self._core.eos

    @property
    def hash(self) -> str:
        """16 hexadecimal digits that are the same for equal tokens and end tokens."""
        return self._core.hash

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, none of them special.

        Raises:
            InvalidRequest: the tokenizer cannot encode it.
        """
        return self._core.encode(text)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of a token: what a special one is written as, b"" for an id without a meaning."""
        return self._core.token_bytes(token)

    def compile_json_schema(self, schema: str | bytes | bool | Json, **style: str | None) -> Grammar:
        """A grammar of the JSON that a schema describes.

        Text keeps the order of keys, which is the order of the output; so does a dict. style: `key_order`,
        `undeclared_keys`, `whitespace` and `whitespace_pattern`, as in `json_style` of docs/grammars.md.

        Raises:
            GrammarError: it cannot be enforced: JSON pointer, keyword, and what to write instead.
            InvalidRequest: a style has an unknown name or value.
        """
        if isinstance(schema, bytes):
            schema = schema.decode()
        text = schema if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False)
        return self._compile({"json_schema": text}, style)

    def compile_json_object(self, **style: str | None) -> Grammar:
        """A grammar of all JSON objects; style as for a schema."""
        return self._compile("json_object", style)

    def compile_regex(self, pattern: str) -> Grammar:
        """A grammar of all texts that match a regular expression as a whole.

        Raises:
            GrammarError: it is no regular expression, or has a part that is not supported.
        """
        return self._compile({"regex": pattern})

    def compile_choice(self, texts: Sequence[str]) -> Grammar:
        """A grammar of these texts.

        Raises:
            GrammarError: there are none, or too many.
        """
        return self._compile({"choice": list(texts)})

    def compile_lark(self, text: str) -> Grammar:
        """A grammar in llguidance's dialect of Lark.

        Raises:
            GrammarError: it has an error, or a part that is not supported.
        """
        return self._compile({"lark_grammar": text})

    def compile_gbnf(self, text: str) -> Grammar:
        """A grammar in llama.cpp's GBNF.

        Raises:
            GrammarError: it has an error.
        """
        return self._compile({"gbnf": text})

    def compile_ebnf(self, text: str) -> Grammar:
        """A grammar in XGrammar's EBNF.

        Raises:
            GrammarError: it has an error.
        """
        return self._compile({"ebnf": text})

    def compile_structural_tag(self, tag: str | Json) -> Grammar:
        """Free text with constrained parts: `structures` and `triggers`, or XGrammar's `format`.

        Raises:
            GrammarError: it is incomplete, or a part cannot be enforced.
        """
        from llgtrt.openai import errors, structural

        text = tag if isinstance(tag, str) else json.dumps(tag, ensure_ascii=False)
        try:
            spec = structural.read(text, "structural_tag")
        except errors.ApiError as e:
            raise _grammar_error("structural_tag", str(e)) from e
        if spec is None:
            raise _grammar_error(
                "structural_tag", "nothing is constrained; write another format than any_text"
            )
        return self._compile(spec)

    def compile_spec(self, spec: str) -> Grammar:
        """A grammar from a constraint as llgtrt's server writes it for its engines, in JSON.

        Raises:
            GrammarError: as when the server compiled it.
            InvalidRequest: it is of another version.
        """
        return self._core.compile(spec)

    def deserialize(self, data: bytes) -> Grammar:
        """A grammar from what `Grammar.serialize` wrote, for the same vocabulary. It is compiled again.

        Raises:
            InvalidRequest: it is of another format or of another vocabulary.
            GrammarError: as when it was compiled.
        """
        return self._core.deserialize(data)

    def _compile(self, spec: Any, style: Mapping[str, str | None] | None = None) -> Grammar:
        given = {name: said for name, said in (style or {}).items() if said is not None}
        if given:
            spec = {"styled": {"style": given, "grammar": spec}}
        return self._core.compile(json.dumps(spec, ensure_ascii=False))


def _settings(settings: Json | None) -> str:
    return json.dumps({"grammar": dict(settings or {})})


def _invalid(what: str, why: str) -> InvalidRequest:
    error = InvalidRequest(f"{what}: {why}")
    error.what, error.why, error.code = what, why, None
    return error


def _grammar_error(keyword: str, why: str) -> GrammarError:
    error = GrammarError(f"{keyword} at the root: {why}")
    error.pointer, error.keyword, error.why = "", keyword, why
    return error


def _model_config(folder: Path) -> dict[str, Any]:
    """`config.json`, or its part about the text model; empty where there is none."""
    config = _read_json(folder / "config.json")
    text = config.get("text_config")
    return {**config, **text} if isinstance(text, dict) else config


def _end_tokens(folder: Path, model: Json) -> list[int]:
    for config in (_read_json(folder / "generation_config.json"), model):
        found = config.get("eos_token_id")
        if found is not None:
            return found if isinstance(found, list) else [found]
    return []


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as e:
        raise _invalid("path", f"{path} cannot be read ({e})") from e
    return found if isinstance(found, dict) else {}


def _tokens_of(text: bytes) -> int:
    """One more than the highest id of a tokenizer.json; 0 if it cannot be read."""
    try:
        file = json.loads(text)
        listed = file["model"]["vocab"]
        ids = listed.values() if isinstance(listed, dict) else range(len(listed))
        return max([*ids, *(added["id"] for added in file.get("added_tokens") or [])], default=-1) + 1
    except (ValueError, KeyError, TypeError):
        return 0
