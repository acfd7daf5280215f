"""The plug-in for vLLM: llgtrt's constraints as a back end of its structured outputs.

vLLM calls `register` in each of its processes, through the entry point `vllm.general_plugins`. What the
plug-in replaces is in `hook`; which requests it takes, in `frontend`; the work of a request, in `backend`.
"""

from __future__ import annotations

import importlib.util
import logging
import os

VARIABLE = "LLGTRT_VLLM"
MODES = ("auto", "always", "off")

SPEC = "llgtrt: "
"""Begins a grammar that is a constraint of llgtrt's server in JSON, checked before it comes to vLLM."""

SETTINGS = "llgtrt_grammar"
"""The key of vLLM's `additional_config` with the group `grammar` of `runtime.json`."""


def register() -> None:
    """Puts the back end into vLLM, once per process; does nothing where vLLM is not installed.

    Warns once, and leaves vLLM as it is, where vLLM is not as the plug-in knows it.

    Raises:
        ValueError: the variable `LLGTRT_VLLM` has a value that it doesn't take.
    """
    mode = read_mode()
    if mode == "off" or importlib.util.find_spec("vllm") is None:
        return
    from llgtrt.vllm_plugin import hook

    if hook.is_installed():
        return
    missing = hook.missing()
    if missing:
        logger().warning(
            "llgtrt: vLLM keeps its own back ends of structured outputs, because it lacks what the plug-in "
            "replaces or calls: %s",
            "; ".join(missing),
        )
        return
    hook.install(mode)


def missing() -> list[str]:
    """What the plug-in needs and this vLLM does not have, each in words; empty: nothing."""
    from llgtrt.vllm_plugin import hook

    return [] if hook.is_installed() else hook.missing()


def read_mode() -> str:
    """One of `MODES`: which requests the plug-in takes.

    Raises:
        ValueError: the variable has another value.
    """
    mode = os.environ.get(VARIABLE) or "auto"
    if mode not in MODES:
        raise ValueError(f"{VARIABLE} is {mode!r}, but has to be one of {', '.join(MODES)}")
    return mode


def logger() -> logging.Logger:
    """Below vLLM's own logger, so lines look like vLLM's."""
    return logging.getLogger("vllm.llgtrt")
