"""Where the demo pair lies: in the package of a wheel, beside the package in the source."""

from __future__ import annotations

from pathlib import Path

from llgtrt.settings import StartError


def pair() -> tuple[str, str]:
    """Folders of the target and its draft model.

    Raises:
        StartError: they are not there.
    """
    package = Path(__file__).parent
    places = (package / "demo_pair", package.parent.parent / "demo")
    for place in places:
        if (place / "target").is_dir():
            return str(place / "target"), str(place / "draft")
    raise StartError(f"--demo: the demo pair is in neither {places[0]} nor {places[1]}")
