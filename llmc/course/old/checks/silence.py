"""LAPACK complains about NaN on the process's own stdout, which no `redirect_stdout` reaches: here it cannot."""

import os
import sys
from contextlib import ExitStack, contextmanager

STREAMS = (1, 2)  # file descriptors of stdout and stderr


@contextmanager
def silent_libraries():
    """Inside the block, what compiled libraries write to stdout and stderr is dropped."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None and not stream.closed:
            stream.flush()
    with ExitStack() as at_the_end:
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            at_the_end.callback(os.close, nowhere)
            for stream in STREAMS:
                kept = os.dup(stream)
                at_the_end.callback(os.close, kept)
                at_the_end.callback(os.dup2, kept, stream)
                os.dup2(nowhere, stream)
        except OSError:  # there is no such stream
            pass
        yield
