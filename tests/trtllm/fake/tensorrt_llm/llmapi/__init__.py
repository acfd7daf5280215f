"""`tensorrt_llm.llmapi`."""

from tensorrt_llm._fake.llm import LLM
from tensorrt_llm._fake.llmapi import (
    CompletionOutput,
    DraftTargetDecodingConfig,
    RequestError,
    RequestOutput,
)
from tensorrt_llm._fake.sampling_params import GuidedDecodingParams, SamplingParams

__all__ = [
    "LLM",
    "CompletionOutput",
    "DraftTargetDecodingConfig",
    "GuidedDecodingParams",
    "RequestError",
    "RequestOutput",
    "SamplingParams",
]
