"""Tests of the Python layer alone. Where the core is not built, a stand-in takes its place."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "python"))

if importlib.util.find_spec("llgtrt._core") is None:
    from . import fake_core

    fake_core.install()
