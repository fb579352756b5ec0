"""How much memory a function takes."""

import tracemalloc


def peak_bytes(function) -> int:
    """The most memory that NumPy held at once for arrays made while function() ran, its result included."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = function()  # noqa: F841   alive until the peak is read
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
