"""The command `llmc`, or `python -m llmc`: runs cli.py, and handles Ctrl-C while that is being imported."""

import sys

from llmc.interrupts import leave_at_once


def main() -> int:
    """Run the command line and return the exit status."""
    leave_at_once()
    from llmc import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
