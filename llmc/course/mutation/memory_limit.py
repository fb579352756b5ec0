"""A changed function may ask for any amount of memory: one axis too many, and an array takes all that a machine has."""

from contextlib import contextmanager
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None

MORE = 4 << 30  # bytes on top of what is in use: far more than the arrays of any check and all that a launch needs


@contextmanager
def little_memory():
    """Inside the block, an array that takes this process far beyond what it has now is a MemoryError (on Linux)."""
    used = _used()
    if used is None:
        yield
        return
    was, hard = resource.getrlimit(resource.RLIMIT_AS)
    lower = used + MORE if was == resource.RLIM_INFINITY else min(used + MORE, was)
    resource.setrlimit(resource.RLIMIT_AS, (lower, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (was, hard))


def _used() -> int | None:
    """Bytes of addresses that this process has; None where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return pages * resource.getpagesize() if resource else None
    except (OSError, ValueError, IndexError):
        return None
