"""What is asked of the LLM API for one request: the listed keywords, and no others."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

_LIST = Path(__file__).parents[2] / "signatures" / "llmapi.pyi"


def _keywords(name: str) -> dict[str, Any]:
    """Keywords of a listed class, with their defaults."""
    nodes = [node for node in ast.walk(ast.parse(_LIST.read_text())) if isinstance(node, ast.ClassDef)]
    found = next(node for node in nodes if node.name == name)
    init = next(i for i in found.body if isinstance(i, ast.FunctionDef) and i.name == "__init__")
    defaults = [ast.literal_eval(default) for default in init.args.kw_defaults if default is not None]
    return dict(zip([a.arg for a in init.args.kwonlyargs], defaults, strict=True))


class _Listed:
    """Takes what is listed."""

    def __init__(self, **given: Any) -> None:
        known = _keywords(type(self).__name__)
        unknown = set(given) - set(known)
        if unknown:
            raise TypeError(f"{type(self).__name__}.__init__() got unexpected keywords {unknown}")
        self.__dict__.update(known | given)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class GuidedDecodingParams(_Listed):
    pass


class SamplingParams(_Listed):
    pass
