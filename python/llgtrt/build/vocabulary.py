"""A `tokenizer.json` as the tables of a GGUF file.

The engine folder keeps `tokenizer.json`, and the server encodes with that. The tables must agree with it in
every token's bytes. The `.gguf` file works on its own if llama.cpp knows how its vocabulary splits text.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gguf import GGUFWriter, TokenType

from llgtrt.build.folder import read_json
from llgtrt.settings import StartError

log = logging.getLogger(__name__)

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_SIGNS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CUTS = {
    _WORDS + r"\p{N}{1,3}" + _SIGNS: "llama-bpe",
    _WORDS + r"\p{N}" + _SIGNS: "qwen2",
    _TEKKEN: "tekken",
}
"""llama.cpp's names for ways to cut text before merging, by their regular expression."""

_NEVER_MERGED = -1e6
"""Score of a token that no merge makes."""


@dataclass
class Vocabulary:
    """Lists are by token id. Byte-level vocabularies have no `scores`, SentencePiece ones no `merges`."""

    model: str
    tokens: list[str]
    types: list[TokenType]
    ids: dict[str, int]
    """"bos", "eos", "unk" and "pad", as far as there are such."""
    add_bos: bool
    pre: str = "default"
    merges: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    space_prefix: bool = False

    def write(self, writer: GGUFWriter, rows: int) -> None:
        """Writes the tables, filled up with unused tokens to the rows of the embedding."""
        spare = range(len(self.tokens), rows)
        writer.add_tokenizer_model(self.model)
        writer.add_tokenizer_pre(self.pre)
        writer.add_token_list(self.tokens + [f"[PAD{number}]" for number in spare])
        writer.add_token_types(self.types + [TokenType.UNUSED for _ in spare])
        if self.scores:
            writer.add_token_scores(self.scores + [_NEVER_MERGED for _ in spare])
            writer.add_add_space_prefix(self.space_prefix)
        if self.merges:
            writer.add_token_merges(self.merges)
        for name, number in self.ids.items():
            getattr(writer, f"add_{name}_token_id")(number)
        writer.add_add_bos_token(self.add_bos)


def read(folder: Path, config: dict[str, Any]) -> Vocabulary:
    """The vocabulary of a Hugging Face folder whose `config.json` is `config`.

    Raises:
        StartError: there is none, or it is of a kind that llama.cpp has no tables for.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise StartError(
            f"{folder}: no tokenizer.json there; make one: "
            "transformers.AutoTokenizer.from_pretrained(folder, use_fast=True).save_pretrained(folder)"
        )
    stored = {"added_tokens": [], **read_json(file)}
    model = stored.get("model") or {}
    level = any(
        step["type"] == "ByteLevel"
        for part in ("pre_tokenizer", "decoder")
        for step in _steps(stored.get(part))
    )
    if model.get("type", "BPE") != "BPE" or not (level or model.get("byte_fallback")):
        kind = f"{model.get('type', 'nameless')} vocabulary"
        raise StartError(f"{file}: has a {kind}; only BPE with byte-level or byte-fallback tokens is read")
    by_id = {number: text for text, number in model["vocab"].items()}
    added = {token["id"]: token for token in stored["added_tokens"]}
    by_id |= {number: token["content"] for number, token in added.items()}
    tokens = [by_id.get(number, f"[PAD{number}]") for number in range(max(by_id) + 1)]
    settings = folder / "tokenizer_config.json"
    named = read_json(settings) if settings.is_file() else {}
    ids = _ids(config, named, tokens)
    merges = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    vocabulary = Vocabulary(
        model="gpt2" if level else "llama",
        tokens=tokens,
        types=[_type(number, by_id, added, level, ids) for number in range(len(tokens))],
        ids=ids,
        add_bos=_adds_bos(stored, named, tokens, ids),
    )
    if level:
        vocabulary.merges, vocabulary.pre = [" ".join(pair) for pair in merges], _cut(stored, file)
    else:
        vocabulary.scores, vocabulary.space_prefix = _scores(tokens, merges), _begins_with_space(stored)
    return vocabulary


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """A pipeline's part, or the steps of a sequence."""
    if part is None:
        return
    if part["type"] != "Sequence":
        yield part
    for name in ("decoders", "pretokenizers", "normalizers", "processors"):
        for step in part.get(name, []) if part["type"] == "Sequence" else []:
            yield from _steps(step)


def _type(
    number: int, by_id: dict[int, str], added: dict[int, Any], level: bool, ids: dict[str, int]
) -> TokenType:
    if number not in by_id:
        return TokenType.UNUSED
    if number in added:
        if not level and number == ids.get("unk"):
            return TokenType.UNKNOWN
        return TokenType.CONTROL if added[number].get("special") else TokenType.USER_DEFINED
    fallback = not level and re.fullmatch("<0x[0-9A-F]{2}>", by_id[number])
    return TokenType.BYTE if fallback else TokenType.NORMAL


def _ids(config: dict[str, Any], named: dict[str, Any], tokens: list[str]) -> dict[str, int]:
    """Special ids: the tokenizer's, which chat models mean, before the model's."""
    by_text = {text: number for number, text in enumerate(tokens)}
    found = {}
    for name in ("bos", "eos", "unk", "pad"):
        token = named.get(f"{name}_token")
        text = token["content"] if isinstance(token, dict) else token
        number = config.get(f"{name}_token_id") if text is None else by_text.get(text)
        number = number[0] if isinstance(number, list) and number else number
        if isinstance(number, int) and 0 <= number < len(tokens):
            found[name] = number
    return found


def _adds_bos(stored: dict[str, Any], named: dict[str, Any], tokens: list[str], ids: dict[str, int]) -> bool:
    """Whether texts begin with the begin token: as the settings say, or else the pipeline's last part."""
    if isinstance(named.get("add_bos_token"), bool):
        return "bos" in ids and bool(named["add_bos_token"])
    for step in _steps(stored.get("post_processor")):
        first: dict[str, Any] = next(iter(step.get("single", [])), {})
        if "SpecialToken" in first:
            return "bos" in ids and first["SpecialToken"]["id"] == tokens[ids["bos"]]
    return False


def _cut(stored: dict[str, Any], file: Path) -> str:
    """llama.cpp's name for the way in which text is cut."""
    steps = list(_steps(stored.get("pre_tokenizer")))
    expressions = [step["pattern"].get("Regex") for step in steps if step["type"] == "Split"]
    if len(expressions) == 1 and expressions[0] in _CUTS:
        return _CUTS[expressions[0]]
    if not expressions and any(step["type"] == "ByteLevel" and step.get("use_regex", True) for step in steps):
        digits = [step.get("individual_digits") for step in steps if step["type"] == "Digits"]
        if digits in ([], [True]):
            return "smollm" if digits else "gpt-2"
    log.warning("%s: cuts text in its own way; model.gguf encodes well only beside it", file)
    return "default"


def _scores(tokens: list[str], merges: list[list[str]]) -> list[float]:
    """SentencePiece's scores: the earlier a token's first merge, the higher."""
    order: dict[str, float] = {}
    for rank, pair in enumerate(merges):
        order.setdefault("".join(pair), -float(rank))
    return [order.get(text, _NEVER_MERGED) for text in tokens]


def _begins_with_space(stored: dict[str, Any]) -> bool:
    for step in _steps(stored.get("normalizer")):
        if step["type"] == "Prepend":
            return True
    for step in _steps(stored.get("pre_tokenizer")):
        if step["type"] == "Metaspace":
            always = "first" if step.get("add_prefix_space", True) else "never"
            return bool(step.get("prepend_scheme", always) != "never")
    return False
