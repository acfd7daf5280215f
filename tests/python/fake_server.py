"""`llgtrt` with the stand-in core, as a process: `python fake_server.py serve toy --port 0`."""

import sys

import fake_core

if __name__ == "__main__":
    fake_core.install()
    from llgtrt.cli import main

    sys.exit(main())
