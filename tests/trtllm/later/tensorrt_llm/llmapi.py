"""The configurations that the LLM API takes, as far as they are used."""

from __future__ import annotations

import ast
from pathlib import Path

_LIST = Path(__file__).parents[2] / "signatures" / "llmapi.pyi"


def _fields(name: str) -> set[str]:
    nodes = [node for node in ast.walk(ast.parse(_LIST.read_text())) if isinstance(node, ast.ClassDef)]
    found = next(node for node in nodes if node.name == name)
    targets = [item.target for item in found.body if isinstance(item, ast.AnnAssign)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


ARGUMENTS = _fields("BaseLlmArgs")


class DraftTargetDecodingConfig:
    def __init__(self, *, max_draft_len: int, speculative_model_dir: str) -> None:
        self.max_draft_len, self.speculative_model_dir = max_draft_len, speculative_model_dir
