"""The plug-in for vLLM, against what vLLM 0.32.0 has where the plug-in touches it (`fake_vllm`)."""

from __future__ import annotations

import json
import logging
import random
import re
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import llgtrt
from llgtrt import demo, vllm_plugin

from . import fake_vllm

TOKENS = Path(demo.pair()[0]) / "tokenizer.json"
SIZE, END, OTHER_END = 2048, 2047, 2045
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "multipleOf": 3}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
PLAIN = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
NOT = {"type": "string", "not": {"const": "a"}}
IMPOSSIBLE = {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}, "required": ["a"]}


def config(**fields: Any) -> Any:
    """vLLM's settings, as far as they are read; each group of them is this one object."""
    text = TOKENS.read_text()
    tokenizer = types.SimpleNamespace(
        eos_token_id=END, backend_tokenizer=types.SimpleNamespace(to_str=lambda: text)
    )
    made = types.SimpleNamespace(
        **{"reasoner": None, "is_async": True, "tokenizer": tokenizer, "num_speculative_tokens": 0},
        **{"max_num_seqs": 4, "max_model_len": 1000, "is_diffusion": False, "reasoning_parser": ""},
        **{"disable_any_whitespace": False, "disable_additional_properties": False, "backend": "auto"},
        get_vocab_size=lambda: SIZE,
        try_get_generation_config=lambda: {"eos_token_id": [END, OTHER_END]},
    )
    vars(made).update({"additional_config": {}} | fields)
    made.model_config = made.scheduler_config = made.structured_outputs_config = made
    return made


class Engine:
    """vLLM's front end and engine, with dice for a model."""

    def __init__(self, modules: dict[str, Any], **fields: Any) -> None:
        self.config = config(**fields)
        self.params = modules["vllm.sampling_params"].SamplingParams
        self.manager = modules["vllm.v1.structured_output"].StructuredOutputManager(self.config)
        self.dice = random.Random(1)

    def check(self, **fields: Any) -> Any:
        """The front end's part; the parameters as they go to the engine."""
        params = self.params(**fields)
        params._validate_structured_outputs(self.config, self.config, self.config.tokenizer)
        return params

    def backend(self, **fields: Any) -> str:
        name: str = self.check(**fields).structured_outputs._backend
        return name

    def request(self, prompt: int = 5, **fields: Any) -> Any:
        made = fake_vllm.Request(self.check(**fields), prompt)
        self.manager.grammar_init(made)
        made.structured_output_request.grammar = made.structured_output_request.grammar.result()
        return made

    def rows(self, requests: dict[str, Any], drafts: dict[str, list[int]] | None = None) -> Any:
        return self.manager.grammar_bitmask(requests, list(requests), drafts or {}).copy()

    def step(self, requests: dict[str, Any]) -> None:
        """One token for each request that has not ended."""
        running = {name: each for name, each in requests.items() if not ended(each)}
        for row, each in zip(self.rows(running), running.values(), strict=True):
            token = self.dice.choice(allowed(row))
            each.output.append(token)
            assert each.structured_output_request.grammar.accept_tokens("", [token])

    def finish(self, **requests: Any) -> list[str]:
        while not all(map(ended, requests.values())):
            self.step(requests)
        return [text(each.output) for each in requests.values()]


def ended(request: Any) -> bool:
    done: bool = request.structured_output_request.grammar.is_terminated()
    assert done or len(request.output) < request.max_tokens, text(request.output)
    return done


def allowed(row: Any) -> list[int]:
    return [token for token in range(SIZE) if (int(row[token // 32]) >> (token % 32)) & 1]


def is_person(answer: str) -> bool:
    jsonschema.validate(json.loads(answer), PERSON)
    return True


def text(tokens: list[int]) -> str:
    from tokenizers import Tokenizer

    decoded: str = Tokenizer.from_file(str(TOKENS)).decode([t for t in tokens if t < OTHER_END])
    return decoded


@pytest.fixture(name="vllm")
def fixture_vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """vLLM is installed, and the plug-in was not imported yet."""
    for name in [name for name in sys.modules if name.startswith("llgtrt.vllm_plugin.")]:
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr(vllm_plugin, name.rpartition(".")[2], raising=False)
    modules = fake_vllm.modules()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    yield modules
    for name in [name for name in sys.modules if name.startswith("llgtrt.vllm_plugin.")]:
        del sys.modules[name]
        delattr(vllm_plugin, name.rpartition(".")[2])


@pytest.fixture(name="start")
def fixture_start(vllm: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Engine]:
    def start(mode: str = "always", **fields: Any) -> Engine:
        monkeypatch.setenv("LLGTRT_VLLM", mode)
        vllm_plugin.register()
        return Engine(vllm, **fields)

    return start


def test_without_vllm_nothing_is_imported() -> None:
    code = (
        "import sys; from llgtrt.vllm_plugin import register; register()\n"
        "print([n for n in ('torch', 'vllm', 'llgtrt.grammar', 'llgtrt._core') if n in sys.modules])"
    )
    folder = Path(llgtrt.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_vllm_finds_the_plug_in() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    entry = '[project.entry-points."vllm.general_plugins"]\nllgtrt = "llgtrt.vllm_plugin:register"\n'
    assert entry in project
    assert callable(vllm_plugin.register)


def test_the_variable_has_three_values(start: Callable[..., Engine]) -> None:
    with pytest.raises(ValueError, match="LLGTRT_VLLM is 'on', but has to be one of auto, always, off"):
        start("on")
    assert start("off").backend(json=PERSON) == "guidance"


def test_what_vllm_lacks_is_told_once_and_nothing_is_replaced(
    vllm: dict[str, Any], start: Callable[..., Engine], caplog: pytest.LogCaptureFixture
) -> None:
    manager = vllm["vllm.v1.structured_output"].StructuredOutputManager
    manager.grammar_init = lambda self, request, priority: None
    del manager._fill_bitmasks
    vllm["vllm.v1.structured_output.backend_types"].StructuredOutputGrammar = type(
        "More", (), {"__abstractmethods__": frozenset({"fork"})}
    )
    with caplog.at_level(logging.WARNING):
        engine = start()
    assert engine.backend(json=PERSON) == "guidance"
    (record,) = caplog.records
    assert (
        "there is no vllm.v1.structured_output:StructuredOutputManager._fill_bitmasks" in record.getMessage()
    )
    assert "grammar_init takes (self, request, priority), not (self, request)" in record.getMessage()
    assert "StructuredOutputGrammar asks for ['fork'], not for" in record.getMessage()


def test_it_is_put_in_once(
    start: Callable[..., Engine], vllm: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    start()
    check = vllm["vllm.sampling_params"].SamplingParams._validate_structured_outputs
    start()
    assert vllm["vllm.sampling_params"].SamplingParams._validate_structured_outputs is check
    assert not caplog.records


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    ("constraint", "right"),
    [
        ({"json": PERSON}, is_person),
        ({"json": json.dumps(PERSON)}, is_person),
        ({"json_object": True}, lambda t: isinstance(json.loads(t), dict)),
        ({"regex": "[a-c]{3,9}x"}, re.compile("[a-c]{3,9}x$").match),
        ({"choice": ["red", 'a "b"']}, ["red", 'a "b"'].__contains__),
        ({"grammar": 'root ::= "yes" | "no"'}, ["yes", "no"].__contains__),
        ({"grammar": 'start: "yes" | "no"'}, ["yes", "no"].__contains__),
        (
            {"structural_tag": {"type": "structural_tag", "format": {"type": "const_string", "value": "ab"}}},
            ["ab"].__contains__,
        ),
    ],
)
def test_each_kind_is_enforced_and_complete(
    start: Callable[..., Engine], constraint: dict[str, Any], right: Callable[[str], Any], is_async: bool
) -> None:
    if "structural_tag" in constraint:
        constraint = {"structural_tag": json.dumps(constraint["structural_tag"])}
    engine = start(is_async=is_async)
    (answer,) = engine.finish(a=engine.request(max_tokens=40, **constraint))
    assert right(answer)


def test_a_batch_is_complete_within_each_ones_tokens(start: Callable[..., Engine]) -> None:
    engine = start()
    for answer in engine.finish(**{str(n): engine.request(max_tokens=n, json=PERSON) for n in (30, 31, 50)}):
        assert is_person(answer)


def test_the_context_bounds_an_answer_too(start: Callable[..., Engine]) -> None:
    engine = start(max_model_len=100)
    request = engine.request(prompt=60, max_tokens=90, json=PERSON)
    engine.finish(a=request)
    assert len(request.output) <= 40


def test_auto_takes_what_xgrammar_does_not_enforce(start: Callable[..., Engine]) -> None:
    engine = start("auto")
    assert engine.backend(json=PLAIN) == "xgrammar"
    assert engine.backend(json=json.dumps(PLAIN)) == "xgrammar"
    assert engine.backend(json_object=True) == "xgrammar"
    assert engine.backend(regex="[a-z]+") == "xgrammar"
    assert engine.backend(choice=["a"]) == "xgrammar"
    assert engine.backend(json=NOT) == "llgtrt"
    assert engine.backend(json=PERSON) == "llgtrt"  # guidance's otherwise
    assert engine.backend(json={"type": "object", "patternProperties": {"^a": {"type": "null"}}}) == "llgtrt"
    assert engine.backend(regex=r"a\b.*") in ("llgtrt", "xgrammar")


def test_both_back_ends_serve_in_one_engine(start: Callable[..., Engine]) -> None:
    engine = start("auto")
    ours = engine.request(max_tokens=30, json=PERSON)
    assert engine.manager.backend is None
    engine.rows({"a": ours})
    other = engine.request(max_tokens=30, json=PLAIN)
    assert other.structured_output_request.grammar == engine.manager.backend == "vLLM's own"


@pytest.mark.parametrize("mode", ["always", "auto"])
def test_what_nobody_enforces_is_refused_with_its_place(start: Callable[..., Engine], mode: str) -> None:
    engine = start(mode)
    with pytest.raises(fake_vllm.VLLMValidationError, match=r"llgtrt: .*") as refused:
        engine.check(regex="(")
    assert refused.value.parameter == "structured_outputs.regex"
    impossible = IMPOSSIBLE | {"patternProperties": {"b": True}}
    with pytest.raises(fake_vllm.VLLMValidationError, match=r"llgtrt: \$ref at /properties/a: ") as refused:
        engine.check(json=impossible)
    assert refused.value.parameter == "structured_outputs.json"


def test_auto_leaves_to_vllm_what_it_alone_takes(start: Callable[..., Engine]) -> None:
    assert start("auto").backend(json=IMPOSSIBLE) == "xgrammar"


def test_too_few_tokens_are_refused_with_the_number_that_is_enough(start: Callable[..., Engine]) -> None:
    engine = start()
    with pytest.raises(fake_vllm.VLLMValidationError, match=r"needs at least (\d+) tokens") as refused:
        engine.check(max_tokens=3, json=PERSON)
    found = re.search(r"at least (\d+)", str(refused.value))
    assert found is not None
    assert refused.value.parameter == "max_tokens"
    request = engine.request(max_tokens=int(found[1]), json=PERSON)
    for _ in range(request.max_tokens):
        engine.step({"a": request})
    assert is_person(text(request.output))


def test_parameters_can_be_used_again(start: Callable[..., Engine]) -> None:
    engine = start("auto")
    params = engine.check(json=PERSON)
    params._validate_structured_outputs(engine.config, engine.config, engine.config.tokenizer)
    assert params.structured_outputs._backend == "llgtrt"


def test_rows_of_drafts_are_those_of_the_tokens_one_by_one(start: Callable[..., Engine]) -> None:
    engine = start(num_speculative_tokens=3)
    one, two = (engine.request(max_tokens=40, json=PERSON) for _ in range(2))
    one_by_one, tokens = [], []
    for _ in range(4):
        (row,) = engine.rows({"a": one})
        one_by_one.append(row)
        tokens.append(engine.dice.choice(allowed(row)))
        one.output.append(tokens[-1])
        assert one.structured_output_request.grammar.accept_tokens("", tokens[-1:])
    other = engine.request(max_tokens=40, json=PLAIN)
    rows = engine.rows({"b": other, "a": two}, {"a": tokens[:3]})
    assert np.array_equal(rows[1:], one_by_one)
    grammar = two.structured_output_request.grammar
    assert grammar.validate_tokens([*tokens[:2], END]) == tokens[:2]
    two.output += tokens[:2]
    assert grammar.accept_tokens("", tokens[:2])
    assert np.array_equal(engine.rows({"a": two}), [one_by_one[2]])
    assert not grammar.accept_tokens("", [END])
    grammar.reset()
    two.output.clear()
    assert np.array_equal(engine.rows({"a": two}), [one_by_one[0]])


def test_an_end_that_was_drafted_is_taken_back(start: Callable[..., Engine]) -> None:
    engine = start(num_speculative_tokens=3)
    request = engine.request(max_tokens=9, regex="a")
    (letter,) = (token for token in allowed(engine.rows({"a": request})[0]) if text([token]) == "a")
    grammar = request.structured_output_request.grammar
    rows = engine.rows({"a": request}, {"a": [letter, OTHER_END]})
    assert set(allowed(rows[1])) == {END, OTHER_END}
    assert len(allowed(rows[2])) == SIZE  # vLLM constrains nothing behind the end
    assert not grammar.is_terminated()
    assert grammar.validate_tokens([letter, END, letter]) == [letter, END]
    request.output += [letter, END]
    assert grammar.accept_tokens("", [letter, END])
    assert grammar.is_terminated()
    assert grammar.accept_tokens("", [letter])
    assert grammar.validate_tokens([letter]) == []


def test_a_stop_token_of_the_request_is_allowed_at_the_end_alone(start: Callable[..., Engine]) -> None:
    engine = start()
    letters = {text([token]): token for token in range(OTHER_END)}
    stop = letters["b"]
    request = engine.request(max_tokens=9, regex="[ab]{2,4}", stops=[stop])
    seen = []
    for _ in range(2):
        (row,) = engine.rows({"a": request})
        seen.append(stop in allowed(row))
        request.output.append(letters["a"])
        assert request.structured_output_request.grammar.accept_tokens("", [letters["a"]])
    (row,) = engine.rows({"a": request})
    assert (seen, stop in allowed(row)) == ([False, False], True)
    assert request.structured_output_request.grammar.validate_tokens([stop, stop]) == [stop]
    assert request.structured_output_request.grammar.accept_tokens("", [stop])
    assert request.structured_output_request.grammar.is_terminated()


@pytest.mark.parametrize("drafted", [0, 3])
def test_reasoning_takes_its_part_of_the_tokens(start: Callable[..., Engine], drafted: int) -> None:
    engine = start(reasoner="any", reasoning_parser="any", num_speculative_tokens=drafted)
    request = engine.request(max_tokens=60, json=PERSON)
    structured = request.structured_output_request
    structured.reasoning_ended = False
    for _ in range(3):
        # Drafts that end the reasoning, and are rejected.
        (row,) = engine.rows({"a": request})
        assert structured.grammar.validate_tokens([allowed(row)[0]])
        request.output += [1] * 8
    structured.reasoning_ended = True
    assert structured.grammar.accept_tokens("", [])
    engine.finish(a=request)
    assert is_person(text(request.output[24:]))


def test_settings_about_json_are_followed(start: Callable[..., Engine]) -> None:
    engine = start(disable_any_whitespace=True)
    for answer in engine.finish(a=engine.request(max_tokens=40, json=PERSON)):
        assert answer == json.dumps(json.loads(answer), ensure_ascii=False, separators=(",", ":"))


def test_a_constraint_of_llgtrts_own_server_is_taken_as_it_is(start: Callable[..., Engine]) -> None:
    spec = vllm_plugin.SPEC + json.dumps({"json_schema": '{"const": [1, 2]}'})
    engine = start("auto", additional_config={vllm_plugin.SETTINGS: {"whitespace": "compact"}})
    assert engine.backend(grammar=spec) == "llgtrt"
    assert engine.finish(a=engine.request(grammar=spec, max_tokens=9)) == ["[1,2]"]
