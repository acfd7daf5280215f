"""llgtrt: an OpenAI-compatible inference server for constrained decoding.

`LLM` and `SamplingParams` use the same engine without a server; `Client` asks a server for typed decisions.
Light to import: the engine process starts through this package too, and needs neither the web stack nor
templates.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from llgtrt import baseline

if TYPE_CHECKING:
    from llgtrt.client import Client
    from llgtrt.llm import LLM, CompletionOutput, RequestOutput, SamplingParams, StructuredOutputsParams

__version__ = "0.2.0"

__all__ = [
    "LLM",
    "Client",
    "CompletionOutput",
    "RequestOutput",
    "SamplingParams",
    "StructuredOutputsParams",
    "__version__",
]

baseline.check(Path(__file__).parent)


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from llgtrt import client, llm

    return getattr(client if name == "Client" else llm, name)
