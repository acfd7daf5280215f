"""Measurements: tables on the terminal, JSON and SVG in `bench/results/`; `COMMAND --help` says more."""

from __future__ import annotations

import argparse
import signal
import sys
from types import ModuleType

import busy
import calls
import commonbench
import compare
import complete
import constrained
import dataset
import decisions
import library
import limit
import masks
import overhead
import peers
import replay
import scale
import smoke
import transparent

COMMANDS: dict[str, ModuleType] = {
    "load": replay,
    "commonbench": commonbench,
    "peers": peers,
    "busy": busy,
    "calls": calls,
    "compare": compare,
    "complete": complete,
    "constrained": constrained,
    "dataset": dataset,
    "decisions": decisions,
    "library": library,
    "limit": limit,
    "overhead": overhead,
    "masks": masks,
    "scale": scale,
    "smoke": smoke,
    "transparent": transparent,
}


def main() -> int:
    """Runs one of them."""
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        told = (module.__doc__ or "").strip()
        module.add_arguments(commands.add_parser(name, help=told.splitlines()[0], description=told))
    args = parser.parse_args()
    # Servers end with this process, even when it is told to.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    code: int = COMMANDS[args.command].run(args)
    return code


if __name__ == "__main__":
    sys.exit(main())
