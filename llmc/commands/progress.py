"""`llmc progress`: show which exercises are done and what comes next."""

from llmc.course import progress


def add_arguments(parser):
    """`llmc progress` takes no arguments."""


def run(args) -> int:
    """Print the progress board. Always returns 0."""
    print(progress())
    return 0
