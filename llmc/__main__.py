"""The command `llmc`, also as `python -m llmc`: what is in cli.py, and Ctrl-C while that is being imported."""

import sys

from llmc.interrupts import leave_at_once


def main() -> int:
    """Run the command line; returns the exit status."""
    leave_at_once()
    from llmc import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
