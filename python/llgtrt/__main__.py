"""``python -m llgtrt serve …`` and the console script."""

import sys


def main() -> int:
    """Runs the command line; the exit code."""
    try:
        from llgtrt.cli import main
    except ImportError as e:
        # What is missing is the machine's or the installation's, and is told in one line.
        print(f"llgtrt: {e}", file=sys.stderr)
        return 2
    return main()


if __name__ == "__main__":
    sys.exit(main())
