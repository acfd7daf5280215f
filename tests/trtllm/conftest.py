"""The fake is imported as TensorRT-LLM would be: from the path, before a real one."""

from __future__ import annotations

import sys
from pathlib import Path

FAKE = Path(__file__).parent / "fake"
sys.path.insert(0, str(FAKE))
