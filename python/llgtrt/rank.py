"""`llgtrt rank`: a process over whose device models are split. Imports the core and the flags alone."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys

from llgtrt import _core, flags

USAGE_ERROR = 2
"""Exit code where it cannot listen."""


def main(parsed: argparse.Namespace) -> int:
    """Serves the device until the process is ended; the exit code where it cannot."""
    # The core computes without looking at Python's signals. A worker ends with its engine.
    ends = signal.SIG_IGN if parsed.worker else signal.SIG_DFL
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ends)
    host = "127.0.0.1" if parsed.host in (None, "localhost") else parsed.host
    options = {"host": host, "port": parsed.port or 0, "threads": parsed.threads or 0, "gpu": parsed.gpu}
    try:
        _core.rank_process(json.dumps(options | {"worker": parsed.worker}))
    except _core.CoreError as e:
        print(f"llgtrt: rank: {e}", file=sys.stderr)
    return USAGE_ERROR


if __name__ == "__main__":
    os.environ.setdefault("LLGTRT_LOG", "info")
    sys.exit(main(flags.parse(["rank", *sys.argv[1:]])))
