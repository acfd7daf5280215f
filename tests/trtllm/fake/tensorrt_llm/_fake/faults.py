"""Faults that tests ask for: in an engine file, or for every executor in `FAKE_TRTLLM`, as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Faults:
    """Which faults there are. Requests, calls and iterations are counted from 1; 0 is none."""

    error_every: int = 0
    """Every so many requests one ends with an error after its first token."""
    refuse_every: int = 0
    """Every so many requests one is answered with an error at once."""
    late_ms: int = 0
    """Responses come so much later."""
    twice: bool = False
    """The last response of a request comes again, as long after as `late_ms` says."""
    silent_cancel: bool = False
    """Nothing comes after a cancellation."""
    broken_logits: int = 0
    """The callback's call of this number gets logits without a shape."""
    stop_after: int = 0
    """The executor shuts itself down in this iteration."""
    hang_after: int = 0
    """From this iteration on nothing happens any more, until it is shut down."""
    fail_at: int = 0
    """The forward pass of this iteration fails."""
    early_calls: bool = True
    """No fault: the callback is called for every chunk of a prompt, not the last alone."""
    one_step: bool = False
    """An old release: on an engine for external drafts every request ends after one token."""
    iteration_ms: float = 0.0
    """What an iteration takes at least."""
    enqueue_ms: float = 0.0
    """How long `enqueue_request` takes, and with it the GIL."""

    @staticmethod
    def of(file: Path) -> Faults:
        """Those of an engine file, and over them those of the environment."""
        content = json.loads(file.read_bytes()).get("faults", {}) if file.exists() else {}
        return Faults(**{**content, **json.loads(os.environ.get("FAKE_TRTLLM", "{}"))})
