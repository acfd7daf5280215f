#!/usr/bin/env python3
"""Serves replicas of a model with Ray Serve: `ray_serve.py <target> [<draft>] --replicas 2 [flags]`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from llgtrt.cluster.driver import main

if __name__ == "__main__":
    sys.exit(main())
