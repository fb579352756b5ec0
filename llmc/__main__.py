"""`python -m llmc` is the command `llmc`."""

import sys

from llmc.cli import main

if __name__ == "__main__":
    sys.exit(main())
