import sys

from llgtrt.cluster.driver import main

if __name__ == "__main__":
    sys.exit(main())
