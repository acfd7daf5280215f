"""`llgtrt.grammar`: the library, and the examples of docs/grammar-library.md."""

from __future__ import annotations

import json
import random
import re
import sys
import threading
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llgtrt import grammar as library
from llgtrt.grammar import GrammarError, InvalidRequest, Matcher, Vocabulary

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "grammar-library.md").read_text()
TARGET = ROOT / "demo" / "target"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "kind": {"enum": ["town", "village"]}},
    "required": ["city", "kind"],
    "additionalProperties": False,
}
END = 256


def letters(*more: bytes, **options: Any) -> Vocabulary:
    """256 bytes, an end token, and more tokens."""
    tokens = [bytes([byte]) for byte in range(256)]
    return Vocabulary.from_tokens([*tokens, b"<end>", *more], [END], special=[END], **options)


def bits(row: np.ndarray[Any, Any]) -> list[int]:
    unpacked = np.unpackbits(row.view(np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(unpacked)]


def mask(vocabulary: Vocabulary, matcher: Matcher) -> list[int]:
    row = np.full((vocabulary.size + 31) // 32, -1, dtype=np.int32)
    matcher.fill_bitmask(row)
    return bits(row)


def drawn(vocabulary: Vocabulary, matcher: Matcher, seed: int) -> str:
    """A random output, of ASCII where that is possible."""
    dice = random.Random(seed)
    while not matcher.is_terminated():
        allowed = mask(vocabulary, matcher)
        plain = [
            token for token in allowed if token in vocabulary.eos or vocabulary.token_bytes(token).isascii()
        ]
        assert matcher.accept([dice.choice(plain or allowed)])
    return b"".join(map(vocabulary.token_bytes, matcher.tokens[:-1])).decode()


def test_outputs_are_complete_within_their_budget() -> None:
    vocabulary = letters()
    grammar = vocabulary.compile_json_schema(SCHEMA)
    least = grammar.min_tokens
    assert least is not None
    for seed in range(40):
        budget = least + seed
        matcher = grammar.matcher(max_tokens=budget)
        answer = json.loads(drawn(vocabulary, matcher, seed))
        assert answer["kind"] in ("town", "village")
        assert len(matcher.tokens) <= budget + 1
    with pytest.raises(
        InvalidRequest, match=f"max_tokens: is {least - 1}, but .* needs at least {least} tokens"
    ):
        grammar.matcher(max_tokens=least - 1)


def test_tokens_are_taken_and_given_back() -> None:
    vocabulary = letters()
    matcher = vocabulary.compile_choice(["alpha", "alps"]).matcher()
    assert matcher.accept(list(b"al"))
    assert not matcher.accept(list(b"px"))
    assert matcher.validate(list(b"phantom")) == 3
    assert bytes(matcher.tokens) == b"al"
    other = matcher.copy()
    assert matcher.accept(list(b"pha"))
    assert matcher.is_complete()
    assert matcher.may_end()
    assert mask(vocabulary, matcher) == [END]
    assert matcher.accept([END])
    assert matcher.is_terminated()
    matcher.rollback(4)
    assert matcher.tokens == other.tokens == list(b"al")
    assert mask(vocabulary, matcher) == mask(vocabulary, other)
    with pytest.raises(InvalidRequest, match="n: is 3, but only 2 tokens were accepted"):
        matcher.rollback(3)
    matcher.reset()
    assert matcher.tokens == []


def test_forced_tokens_are_the_tokenizers_own() -> None:
    calls: list[str] = []

    def encode(text: str) -> list[int]:
        calls.append(text)
        return list(text.encode())

    words = ["alpha", "alps"]
    assert letters(b"al").compile_choice(words).matcher().forced() == []
    matcher = letters(b"al", encode=encode).compile_choice(words).matcher()
    assert bytes(matcher.forced()) == b"alp"
    assert calls


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda v: v.compile_regex("[0-9]{4}"), "2026"),
        (lambda v: v.compile_lark('start: "a" "b"+'), "abb"),
        (lambda v: v.compile_gbnf('root ::= "x" [0-9]'), "x7"),
        (lambda v: v.compile_ebnf('root ::= "x" [0-9]'), "x7"),
        (lambda v: v.compile_json_object(), '{"a": 1}'),
        (lambda v: v.compile_json_schema(json.dumps({"const": 5})), "5"),
        (lambda v: v.compile_json_schema(True), "[]"),
        (lambda v: v.compile_json_schema({"const": [1, 2]}, whitespace="compact"), "[1,2]"),
        (
            lambda v: v.compile_structural_tag(
                {
                    "type": "structural_tag",
                    "triggers": ["<f>"],
                    "structures": [{"begin": "<f>", "schema": {"const": 1}, "end": "</f>"}],
                }
            ),
            "so <f>1</f> it is",
        ),
    ],
)
def test_all_kinds_of_constraints(made: Any, text: str) -> None:
    matcher = made(letters()).matcher()
    assert matcher.validate(list(text.encode())) == len(text)
    assert matcher.accept(list(text.encode()))
    assert matcher.may_end()


def test_what_cannot_be_enforced_is_refused_with_its_place() -> None:
    vocabulary = letters()
    with pytest.raises(GrammarError) as refused:
        vocabulary.compile_json_schema({"properties": {"a": {"type": "strin"}}})
    assert (refused.value.pointer, refused.value.keyword) == ("/properties/a", "type")
    with pytest.raises(GrammarError) as refused:
        vocabulary.compile_structural_tag({"type": "structural_tag", "triggers": ["<f>"]})
    assert refused.value.keyword == "structural_tag"
    with pytest.raises(InvalidRequest, match="whitespace"):
        vocabulary.compile_json_schema({}, whitespace="much")
    with pytest.raises(InvalidRequest, match=r"grammar\.key_orders"):
        letters(settings={"key_orders": "any"})
    with pytest.raises(InvalidRequest, match="eos: must have at least one token"):
        Vocabulary.from_tokens([b"a"], [])
    with pytest.raises(InvalidRequest, match="cannot be read"):
        Vocabulary.from_huggingface("/nowhere")


def test_grammars_travel_to_other_processes() -> None:
    vocabulary = letters()
    data = vocabulary.compile_json_schema(SCHEMA, key_order="any").serialize()
    again = letters().deserialize(data).matcher()
    assert again.accept(list(b'{"kind": "town"'))
    other = Vocabulary.from_tokens([bytes([byte]) for byte in range(256)], [0])
    with pytest.raises(InvalidRequest, match="data: was compiled for another vocabulary"):
        other.deserialize(data)
    with pytest.raises(InvalidRequest, match="data: is no serialized grammar"):
        vocabulary.deserialize(b"{}")
    with pytest.raises(InvalidRequest, match="data: has the format 99"):
        vocabulary.deserialize(data.replace(b'"llgtrt_grammar":1', b'"llgtrt_grammar":99'))


def test_rows_of_a_batch_are_filled_at_once() -> None:
    vocabulary = letters()
    grammar = vocabulary.compile_regex("[a-z]+[0-9]")
    matchers = [grammar.matcher() for _ in range(5)]
    for i, matcher in enumerate(matchers):
        assert matcher.accept(list(b"abcde"[:i]))
    words = (vocabulary.size + 31) // 32
    rows = np.zeros((8, words + 1), dtype=np.int32)
    library.fill_bitmasks(matchers, rows, [7, 5, 3, 1, 0])
    for row, matcher in zip([7, 5, 3, 1, 0], matchers, strict=True):
        assert bits(rows[row]) == mask(vocabulary, matcher)
    assert not rows[[2, 4, 6]].any()
    every_second = np.zeros((10, words), dtype=np.uint32)[::2]
    library.fill_bitmasks(matchers, every_second)
    assert bits(np.ascontiguousarray(every_second[4])) == mask(vocabulary, matchers[4])


@pytest.mark.parametrize(
    ("array", "why"),
    [
        ([0] * 9, "must be a NumPy array"),
        (np.zeros(9, dtype=np.int64), "must have 32-bit whole numbers"),
        (np.zeros(9, dtype=np.float32), "must have 32-bit whole numbers"),
        (np.zeros((1, 1, 9), dtype=np.int32), "must have one dimension"),
        (np.zeros((9, 9), dtype=np.int32), "has 9 rows; give one"),
        (np.zeros(18, dtype=np.int32)[::2], "one after another"),
        (np.zeros(8, dtype=np.int32), "has 8 words, but a mask of 257 tokens has 9"),
        (np.frombuffer(bytes(36), dtype=np.int32), "readonly"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(array: Any, why: str) -> None:
    matcher = letters().compile_regex("a").matcher()
    with pytest.raises((TypeError, ValueError, BufferError), match=why):
        matcher.fill_bitmask(array)


def test_batches_that_do_not_fit_are_refused() -> None:
    matcher = letters().compile_regex("a").matcher()
    rows = np.zeros((2, 9), dtype=np.int32)
    for numbers, why in [
        ([0], "there are 2 matchers, but 1 rows"),
        ([0, 0], "row 0 is named"),
        ([0, 2], "row 2 is"),
    ]:
        with pytest.raises(ValueError, match=why):
            library.fill_bitmasks([matcher, matcher.copy()], rows, numbers)


def test_a_vocabulary_serves_several_threads() -> None:
    vocabulary = letters()
    found: list[str] = []

    def work(seed: int) -> None:
        matcher = vocabulary.compile_json_schema({**SCHEMA, "title": str(seed)}).matcher(max_tokens=80)
        found.append(drawn(vocabulary, matcher, seed))

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(json.loads(text)["kind"] in ("town", "village") for text in found) == [True] * 8


def test_no_engine_is_started() -> None:
    assert "llgtrt.engine_child" not in sys.modules


def example(heading: str) -> str:
    found = re.search(rf"^## {heading}\n.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with the demo's tokenizer."""
    (tmp_path / "tokenizer.json").write_bytes((TARGET / "tokenizer.json").read_bytes())
    end = json.loads((TARGET / "generation_config.json").read_text())["eos_token_id"]
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": end, "vocab_size": 1}))
    return tmp_path


def test_the_example_of_a_loop_runs(folder: Path) -> None:
    size = Vocabulary.from_huggingface(folder).size
    names = {
        "model_folder": folder,
        "next_logits": lambda tokens: np.random.default_rng(len(tokens)).random(size),
    }
    exec(example("A loop of your own"), names)
    assert list(json.loads(str(names["text"]))) == ["city"]


def test_the_example_for_llama_cpp_python_runs(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    vocabulary = Vocabulary.from_huggingface(folder)
    monkeypatch.setattr(Vocabulary, "from_gguf", lambda path: vocabulary)
    names: dict[str, Any] = {"model_path": "model.gguf"}
    exec(example("llama-cpp-python"), names)
    ids, dice = [5, 6, 7], np.random.default_rng(3)
    while ids[-1] not in vocabulary.eos:
        scores = names["processor"](np.array(ids), dice.random(vocabulary.size, dtype=np.float32))
        assert scores.dtype == np.float32
        ids.append(int(scores.argmax()))
    text = b"".join(map(vocabulary.token_bytes, ids[3:-1])).decode()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", text)


def test_the_example_for_maskbench_runs() -> None:
    package = types.ModuleType("engines")
    engine = types.ModuleType("engines.engine")
    vars(engine)["Engine"] = object
    sys.modules |= {"engines": package, "engines.engine": engine}
    names: dict[str, Any] = {"__package__": "engines", "__name__": "engines.llgtrt"}
    exec(example("MaskBench"), names)
    del sys.modules["engines"], sys.modules["engines.engine"]
    made = names["LlgtrtEngine"]()
    text = (TARGET / "tokenizer.json").read_text()
    end = Vocabulary.from_huggingface(TARGET).eos[0]
    backend = types.SimpleNamespace(to_str=lambda: text)
    made.tokenizer = types.SimpleNamespace(backend_tokenizer=backend, eos_token_id=end)
    made.init()
    made.compile_grammar({"const": "abc"})
    for good, instance in [(True, '"abc"'), (False, '"abd"')]:
        made.reset()
        taken = []
        for token in made.vocabulary.encode(instance):
            made.compute_mask()
            taken.append(made.commit_token(token))
        assert all(taken) == good


def test_the_example_for_transformers_runs(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    vocabulary = Vocabulary.from_huggingface(folder)
    (end,) = vocabulary.eos
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=vocabulary.size, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, eos_token_id=end, pad_token_id=end,
    )  # fmt: skip
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    names: dict[str, Any] = {
        "model_folder": folder, "schema": SCHEMA, "tokenizer": tokenizer, "prompt": "Where? ",
        "model": transformers.LlamaForCausalLM(config),
    }  # fmt: skip
    exec(example("transformers"), names)
    assert json.loads(names["text"])["kind"] in ("town", "village")
