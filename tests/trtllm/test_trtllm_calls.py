"""Every class, member, call and keyword that is used of TensorRT-LLM is in the lists of its signatures."""

from __future__ import annotations

import ast
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server.serving import ROOT

from llgtrt import trtllm

SHARED = Path(os.environ.get("LLGTRT_DATA", ROOT.parent / "shared" / "data")).parent / "reference"
OWN = Path(__file__).parent / "signatures"
LISTS = {
    "own": [OWN / "executor.pyi", OWN / "requests.pyi"],
    "reference": [SHARED / "tensorrt_llm_signatures.pyi"],
}
OBJECTS = {"self._executor": "Executor", "response": "Response", "result": "Result"}
"""Names of the source whose attributes are those of a class."""
UNSAID = {
    "ExecutorConfig": set(),
    # Without a property, and None by default in every release that has it.
    "KvCacheConfig": {"runtime_defaults"},
    "SchedulerConfig": set(),
    "DynamicBatchConfig": set(),
    "ParallelConfig": set(),
    "OrchestratorConfig": set(),
    "LogitsPostProcessorConfig": set(),
    "SpeculativeDecodingConfig": set(),
    "ExternalDraftTokensConfig": set(),
    "ExtendedRuntimePerfKnobConfig": set(),
}
"""Arguments of configurations that are left at their defaults."""
SOURCE = ast.parse(inspect.getsource(trtllm))
OPTIONS = (ROOT / "rust/src/exec/trtllm/options.rs").read_text()


@pytest.fixture(scope="module", params=LISTS)
def classes(request: pytest.FixtureRequest) -> dict[str, ast.ClassDef]:
    files = LISTS[request.param]
    if not all(file.exists() for file in files):
        pytest.skip("skipped: no data")
    nodes = [node for file in files for node in ast.parse(file.read_text()).body]
    return {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}


def functions(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}


def arguments(function: ast.FunctionDef) -> list[str]:
    given = function.args
    return [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs) if a.arg != "self"]


def members(node: ast.ClassDef) -> set[str]:
    plain = {
        i.target.id for i in node.body if isinstance(i, ast.AnnAssign) and isinstance(i.target, ast.Name)
    }
    init = functions(node).get("__init__")
    return plain | set(functions(node)) | set(arguments(init) if init else [])


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Class, method and call of everything that is called in the bindings."""
    for node in ast.walk(SOURCE):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        base = ast.unparse(node.func.value)
        if base in ("bindings", "self._bindings"):
            yield node.func.attr, "__init__", node
        elif base in OBJECTS:
            yield OBJECTS[base], node.func.attr, node


def keywords(call: ast.Call) -> set[str]:
    """Names of its keywords; those that come as a group from the core or from the release's own list, too."""
    found = {k.arg for k in call.keywords if k.arg}
    for group in (k.value for k in call.keywords if k.arg is None):
        assert isinstance(group, ast.Call) or ast.unparse(group) == "more", ast.unparse(group)
        texts = [n.value for n in ast.walk(group) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        for text in texts if isinstance(group, ast.Call) else ["cache_salt_id"]:
            found |= fields(text) if text in ("executor", "kv_cache") else {text}
    return found


def fields(group: str) -> set[str]:
    """What the core's options say in a group."""
    name = {"executor": "ExecutorOptions", "kv_cache": "KvCacheOptions"}[group]
    body = re.search(rf"struct {name} \{{(.*?)\n\}}", OPTIONS, re.S)
    assert body is not None
    return set(re.findall(r"^ +pub\(crate\) (\w+):", body[1], re.M))


def test_calls_bind_to_the_listed_signatures(classes: dict[str, ast.ClassDef]) -> None:
    seen = set()
    for name, method, call in calls():
        function = functions(classes[name]).get(method)
        if function is None:
            assert method == "__init__", f"{name}.{method}"
            assert not call.args
            assert not call.keywords
            continue
        assert not call.args, f"{name}.{method}: keywords only"
        # `ids` and `id` of the overloads stand in comments; only `timeout` is used.
        unknown = keywords(call) - set(arguments(function))
        assert not unknown, f"{name}.{method} has no {unknown}"
        needed = arguments(function)[: len(arguments(function)) - len(function.args.defaults)]
        positional = [a for a in needed if a not in [k.arg for k in function.args.kwonlyargs]]
        assert set(positional) <= keywords(call), f"{name}.{method}"
        seen.add(name)
    assert {"Executor", "Request", "SamplingConfig", "OutputConfig", *UNSAID} <= seen


def test_configurations_leave_nothing_to_defaults(classes: dict[str, ast.ClassDef]) -> None:
    said: dict[str, set[str]] = {}
    for name, method, call in calls():
        if method == "__init__" and name in UNSAID:
            said[name] = said.get(name, set()) | keywords(call)
    for name, unsaid in UNSAID.items():
        wanted = set(arguments(functions(classes[name])["__init__"]))
        assert wanted - said[name] == unsaid, name


def test_members_are_listed(classes: dict[str, ast.ClassDef]) -> None:
    seen = set()
    for node in ast.walk(SOURCE):
        if not isinstance(node, ast.Attribute):
            continue
        base = ast.unparse(node.value)
        found = OBJECTS.get(base) or base.removeprefix("self._bindings.").removeprefix("bindings.")
        if found in classes and (base in OBJECTS or "bindings." in base):
            assert node.attr in members(classes[found]), f"{found}.{node.attr}"
            seen.add((found, node.attr))
    assert {("FinishReason", "END_ID"), ("Result", "log_probs"), ("Response", "client_id")} <= seen
    for policy in ("GUARANTEED_NO_EVICT", "MAX_UTILIZATION"):
        assert f'"{policy}"' in OPTIONS
        assert policy in members(classes["CapacitySchedulerPolicy"])
    assert '"FIRST_COME_FIRST_SERVED"' in OPTIONS
    assert "FIRST_COME_FIRST_SERVED" in members(classes["ContextChunkingPolicy"])


def test_the_callback_has_the_listed_arguments(classes: dict[str, ast.ClassDef]) -> None:
    # (req_ids, logits, token_ids, stream_ptr, client_ids), as the list of LLM classes names them.
    given: list[Any] = list(inspect.signature(trtllm.Executor._process).parameters)
    assert given == ["self", "req_ids", "logits", "token_ids", "stream_ptr", "client_ids"]


def test_the_release_is_probed_by_its_classes() -> None:
    assert trtllm.abilities() == ["cache_salt_id", "prompt_ignore_length", "min_p"]
