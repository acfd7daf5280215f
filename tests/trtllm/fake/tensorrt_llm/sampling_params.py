"""`tensorrt_llm.sampling_params`."""

from tensorrt_llm._fake.sampling_params import GuidedDecodingParams, SamplingParams

__all__ = ["GuidedDecodingParams", "SamplingParams"]
