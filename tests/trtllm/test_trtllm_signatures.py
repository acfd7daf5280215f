"""The fake's classes, arguments, defaults and members are those that TensorRT-LLM is known to have."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest
from tensorrt_llm.bindings import executor

FOLDER = Path(__file__).parent / "signatures"
LISTS = ("executor", "requests")
OVERLOADED = {("Executor", "await_responses")}
"""Tested by calls."""
ELSEWHERE = {"KVCacheEventManager"}
"""In a module of its own, and only where events are asked for."""


def classes() -> dict[str, ast.ClassDef]:
    nodes = [node for name in LISTS for node in ast.parse((FOLDER / f"{name}.pyi").read_text()).body]
    return {
        node.name: node for node in nodes if isinstance(node, ast.ClassDef) and node.name not in ELSEWHERE
    }


CLASSES = classes()


def parameters(function: ast.FunctionDef) -> list[tuple[str, Any, str | None]]:
    """Name, kind and default's text of each parameter."""
    arguments = function.args
    found: list[tuple[str, Any, str | None]] = []
    plain: list[tuple[ast.arg, Any]] = [(a, inspect.Parameter.POSITIONAL_ONLY) for a in arguments.posonlyargs]
    plain += [(a, inspect.Parameter.POSITIONAL_OR_KEYWORD) for a in arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    for (argument, kind), default in zip(plain, [*defaults, *arguments.defaults], strict=True):
        found.append((argument.arg, kind, ast.unparse(default) if default else None))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(
            (argument.arg, inspect.Parameter.KEYWORD_ONLY, ast.unparse(default) if default else None)
        )
    return [item for item in found if item[0] != "self"]


def written(default: Any) -> str | None:
    """A default as its list writes it."""
    if default is inspect.Parameter.empty:
        return None
    name = type(default).__name__
    return f"{name}.{default.name}" if hasattr(default, "name") else repr(default)


def check(function: ast.FunctionDef, made: Any) -> None:
    own = [p for p in inspect.signature(made).parameters.values() if p.name != "self"]
    listed = parameters(function)
    assert [(p.name, p.kind) for p in own] == [(name, kind) for name, kind, _ in listed]
    for parameter, (name, _, default) in zip(own, listed, strict=True):
        if default == "...":
            assert parameter.default is not inspect.Parameter.empty, name
        else:
            wanted = None if default is None else default.replace("'", '"')
            assert (written(parameter.default) or "None").replace("'", '"') == (wanted or "None"), name
            assert (default is None) == (parameter.default is inspect.Parameter.empty), name


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_is_as_listed(name: str) -> None:
    node, made = CLASSES[name], getattr(executor, name)
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and (name, item.name) not in OVERLOADED:
            check(item, getattr(made, item.name))
        elif isinstance(item, ast.ClassDef):
            inner = getattr(made, item.name)
            members = members_of(item)
            assert not members or {member.name for member in inner} == set(members)
    members = members_of(node)
    if members and name != "Request":
        assert {member.name for member in made} == set(members)


def declared(node: ast.ClassDef) -> dict[str, str]:
    """What is declared with a type, by name."""
    found = [item for item in node.body if isinstance(item, ast.AnnAssign)]
    return {ast.unparse(item.target): ast.unparse(item.annotation) for item in found}


def members_of(node: ast.ClassDef) -> list[str]:
    """Those of an enumeration."""
    return [name for name, kind in declared(node).items() if "ClassVar" in kind]


def test_there_is_nothing_else() -> None:
    public = {name for name in dir(executor) if inspect.isclass(getattr(executor, name)) and name[0] != "_"}
    assert public == set(CLASSES)
    for name in public:
        listed = {item.name for item in CLASSES[name].body if isinstance(item, ast.FunctionDef)}
        listed |= declared(CLASSES[name]).keys()
        listed |= {item.name for item in CLASSES[name].body if isinstance(item, ast.ClassDef)}
        listed |= {p for f in CLASSES[name].body if isinstance(f, ast.FunctionDef) for p, *_ in parameters(f)}
        extra = {n for n in vars(getattr(executor, name)) if n[0] != "_"} - listed
        assert extra <= {"to_json_str"}, name


def test_constructor_arguments_are_properties_but_some() -> None:
    hidden = ("priority", "type", "encoder_output_length", "num_return_sequences", "language_adapter_uid")
    for name in (
        "ExecutorConfig",
        "KvCacheConfig",
        "SchedulerConfig",
        "SamplingConfig",
        "OutputConfig",
        "Request",
    ):
        init = next(i for i in CLASSES[name].body if isinstance(i, ast.FunctionDef) and i.name == "__init__")
        for argument, *_ in parameters(init):
            assert hasattr(getattr(executor, name), argument) != (name == "Request" and argument in hidden)


@pytest.mark.parametrize(
    ("name", "given", "named"),
    [
        ("ExecutorConfig", (), {"max_batch_size": 8.0}),
        ("ExecutorConfig", (), {"batching_type": "INFLIGHT"}),
        ("ExecutorConfig", (True,), {}),
        ("SamplingConfig", (1, 5), {}),
        ("DynamicBatchConfig", (True, True), {}),
        ("Request", (), {"input_token_ids": "text", "max_tokens": 1}),
        ("Request", ([1], 1), {"client_id": "one"}),
    ],
)
def test_other_types_are_refused(name: str, given: Any, named: Any) -> None:
    with pytest.raises(TypeError):
        getattr(executor, name)(*given, **named)


def test_what_is_read_only_stays() -> None:
    config: Any = executor.SchedulerConfig()
    with pytest.raises(AttributeError):
        config.dynamic_batch_config = None
    executor.KvCacheConfig().max_tokens = 7
