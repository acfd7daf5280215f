"""The engine process: ``llgtrt.engine_child [--json-log] <descriptor>``. Imports nothing of the server."""

import os
import sys

from llgtrt import _core

if __name__ == "__main__":
    if "--json-log" in sys.argv:
        os.environ["LLGTRT_LOG_FORMAT"] = "json"
    sys.exit(_core.engine_process(int(sys.argv[-1])))
