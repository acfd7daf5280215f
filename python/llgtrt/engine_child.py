"""The engine process: ``python -m llgtrt.engine_child <descriptor>``. Imports the core and nothing else."""

import sys

from llgtrt import _core

if __name__ == "__main__":
    rank = [sys.executable, *(["-I"] if sys.flags.isolated else []), "-m", "llgtrt.rank"]
    sys.exit(_core.engine_process(int(sys.argv[-1]), rank))
