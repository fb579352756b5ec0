"""How much memory this process may still allocate: what is free on the machine, or what its container allows."""

import sys
from pathlib import Path

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")  # where Linux keeps its numbers, and the limits of a container


def memory() -> int:
    """Bytes that this process could still allocate; sys.maxsize where the system does not say (except on Linux)."""
    return max(0, min(_machine(), _address_space(), *_containers()))


def _machine() -> int:
    """Free memory, memory that the system can free by dropping caches, and free swap."""
    try:
        lines = (PROC / "meminfo").read_text().splitlines()
        kibibytes = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
        return 1024 * (kibibytes["MemAvailable"] + kibibytes.get("SwapFree", 0))
    except (OSError, ValueError, KeyError, IndexError):
        return sys.maxsize


def _address_space() -> int:
    """What `ulimit -v` leaves."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        taken = int((PROC / "self" / "statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):  # Windows, macOS
        return sys.maxsize
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit - taken


def _containers():
    """What is left in each of this process's groups: limit - used + caches, which the system would drop."""
    try:
        lines = [line.split(":", 2) for line in (PROC / "self" / "cgroup").read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers == "":  # version 2
            names = "memory.max", "memory.current", ("inactive_file", "active_file")
            yield from (_left(folder, *names) for folder in _up(CGROUP, path))
        elif "memory" in controllers.split(","):  # version 1
            names = "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")
            yield from (_left(folder, *names) for folder in _up(CGROUP / "memory", path))


def _up(root, path):
    """The folders of a group and of the groups that contain it; in a container the innermost may be the root."""
    inner = root / path.strip("/")
    return [root, *(place for place in (inner, *inner.parents) if place.is_relative_to(root) and place != root)]


def _left(folder, limit, taken, caches) -> int:
    try:
        most, now = int((folder / limit).read_text()), int((folder / taken).read_text())
        rows = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return most - now + sum(int(rows.get(name, 0)) for name in caches)
    except (OSError, ValueError):  # no such group here, or its limit is "max"
        return sys.maxsize
