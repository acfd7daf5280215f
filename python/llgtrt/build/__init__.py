"""`llgtrt build`: makes an engine folder from a Hugging Face folder.

Only this module is loaded before the command line is checked: the others need `gguf` and `numpy`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from llgtrt.flags import TRTLLM_BUILD
from llgtrt.settings import StartError


def main(parsed: argparse.Namespace) -> int:
    """Builds; the exit code.

    Raises:
        StartError: a flag or a file cannot be used, or a package or a tool is missing or fails.
    """
    source, output = Path(parsed.source), Path(parsed.output)
    if not (source / "config.json").is_file():
        raise StartError(f"{source}: no config.json there; give the folder of a Hugging Face model")
    if output.exists() and not output.is_dir():
        raise StartError(f"--output: {output} is a file; name a folder")
    if output.exists() and output.samefile(source):
        raise StartError(f"--output: {output} is the model itself; name another folder")
    if parsed.engine == "trtllm":
        from llgtrt.build import trtllm

        return trtllm.build(source, output, trtllm.Options.of(parsed))
    _refuse_trtllm_flags(parsed)
    try:
        import gguf  # noqa: F401
        import numpy  # noqa: F401
    except ImportError as e:
        raise StartError(f"{e.name} is missing; install it: pip install 'llgtrt[build]'") from e
    from llgtrt.build import llama

    return llama.build(source, output, parsed.qformat or llama.DEFAULT)


def _refuse_trtllm_flags(parsed: argparse.Namespace) -> None:
    """A flag that llama.cpp's engine folders know nothing of is a mistake, not something to pass over.

    Raises:
        StartError: there is one; the message names it.
    """
    for flag in TRTLLM_BUILD:
        if getattr(parsed, flag.removeprefix("--").replace("-", "_")) not in (None, False):
            raise StartError(f"{flag} is TensorRT-LLM's; leave it out, or add --engine trtllm")
