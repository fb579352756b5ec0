"""The life of the ranks in one command: they connect, work and leave together, or end together if one of them fails."""

import sys
import traceback
from contextlib import contextmanager

from llmc.distributed.ranks import RankLost
from llmc.distributed.start import connect


@contextmanager
def together(say=None, **where):
    """`with together(rank=…, …) as ranks:` connects like `start.connect`, and leaves at the end.

    If this rank fails, the others learn why: from its UserError or, for any other error, that it was a bug in llmc.
    """
    ranks = connect(say=say or _to_stderr, **where)
    try:
        yield ranks
    except BaseException as error:
        ranks.close(_reason(error, ranks))
        ranks.abort()
        raise
    ranks.close()


def _reason(error, ranks):
    """The reason that the other ranks are told."""
    if isinstance(error, RankLost):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "it was interrupted."
    if ranks.ends_when_closed and not isinstance(error, ValueError):  # nobody else will have the time to print it
        traceback.print_exc()
    return str(error) or type(error).__name__


def _to_stderr(line):
    print(f"llmc: {line}", file=sys.stderr, flush=True)
