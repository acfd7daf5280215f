"""`python -m demo.reexport` writes the folders of all three models anew, from the last checkpoint."""

from __future__ import annotations

import argparse
from pathlib import Path

from demo import speculator
from demo.export import export_pair, vocabulary
from demo.train import fresh, load


def main() -> None:
    """Export all models from the last checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--work", type=Path, default=Path(__file__).parent / "work")
    args = parser.parse_args()
    state, number = load(args.work / "checkpoint.npz", fresh(0, vocabulary(args.work)[0]))
    export_pair(state, args.work, args.out)
    speculator.export(state["params"]["speculator"], args.out / "speculator")
    print(f"exported after {number} steps")


if __name__ == "__main__":
    main()
