"""The engine process: ``python -m llgtrt.engine_child <descriptor>``. Imports nothing of the server."""

import sys

from llgtrt import _core

if __name__ == "__main__":
    sys.exit(_core.engine_process(int(sys.argv[-1])))
