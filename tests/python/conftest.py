"""Tests of the Python layer alone. Where the core is not built, a stand-in takes its place."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

if importlib.util.find_spec("llgtrt._core") is None:
    import fake_core

    fake_core.install()
