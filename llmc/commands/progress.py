"""`llmc progress`: which exercises are done, and what comes next."""

from llmc.course import progress


def add_arguments(parser):
    """`llmc progress` takes none."""


def run(args) -> int:
    """Print the board; always 0."""
    print(progress())
    return 0
