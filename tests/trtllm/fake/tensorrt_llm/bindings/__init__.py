"""The bindings of the C++ runtime."""

from tensorrt_llm.bindings import executor

__all__ = ["executor"]
