"""``python -m llgtrt serve …``: the same as the console script."""

import sys

from llgtrt.cli import main

if __name__ == "__main__":
    sys.exit(main())
