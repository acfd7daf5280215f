"""A fake of TensorRT-LLM for tests: its interfaces and semantics on a weightless model, without a GPU.

What it does not do is an error, never an omission.
"""

__version__ = "1.2.1"

from tensorrt_llm._fake.llm import LLM
from tensorrt_llm._fake.sampling_params import SamplingParams

__all__ = ["LLM", "SamplingParams", "__version__"]
