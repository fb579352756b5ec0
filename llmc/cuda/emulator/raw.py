"""What a launch on the emulator leaves behind, before anybody has put it into words.

`launch.py` fills these in; `report.py` turns them into sentences, `measures.py` into numbers, `plot.py` into pictures.
Addresses in code are offsets into the compiled library (`lines.py` makes source lines of them), addresses in memory are
bytes from the start of an array.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

KINDS = (
    "out-of-bounds",
    "misaligned",
    "invalid-pointer",
    "race",
    "missing-syncwarp",
    "uninitialised",
    "never-written",
    "barrier-divergence",
    "deadlock",
    "inactive-lane",
    "runaway",
    "stack-overflow",
    "division-by-zero",
    "integer-overflow",
    "bounds",
    "assert",
    "crash",
)
NOTES = ("early-return", "different-barriers")


@dataclass(frozen=True)
class RawProblem:
    """One kind of mistake at one line, or at one pair of lines; block and thread are those of the first time."""

    kind: str  # of KINDS or NOTES
    pc: int = 0  # where in the library the access was made; 0: unknown
    pc2: int = 0  # the other party of a race
    line: int = 0  # 0 unless known without the pc: barriers, collectives, static array bounds
    line2: int = 0
    block: tuple = (0, 0, 0)
    thread: tuple = (0, 0, 0)
    block2: tuple | None = None
    thread2: tuple | None = None
    space: str = ""  # "global", "shared", "local" or ""
    argument: int = -1  # index of the array among the arguments
    offset: int = 0  # bytes from the start of the array, or of the block's shared memory; may lie outside
    size: int = 0  # bytes of the access
    write: bool = False
    write2: bool = False
    count: int = 1  # how often this happened; of "never-written": how many elements
    lanes: int = 0  # mask of a warp's lanes; of a barrier: how many threads ended without coming to it
    array: str = ""  # of shared memory: the static array that `offset` counts from, where it is known
    detail: str = ""  # race: "shared" or "global"; bounds: index and array type; assert: the condition


@dataclass(frozen=True)
class RawAccess:
    """All that one load or store instruction did in a measured launch."""

    pc: int
    space: str  # "global", "shared" or "local"
    write: bool
    atomic: bool
    size: int  # bytes a lane
    argument: int  # -1: shared or local
    requests: int  # executions by a warp
    lanes: int  # accesses by single lanes
    sectors: int = 0  # 32-byte sectors that the requests moved (global)
    ideal: int = 0  # the fewest sectors that hold the bytes asked for (global); passes without conflicts (shared)
    ways: int = 0  # passes through the banks, one after the other, over all requests (shared)
    worst: int = 0  # passes of the worst request (shared)


@dataclass
class Raw:
    """A launch: what ran, what went wrong, what was measured.

    trace: None, or the accesses of a small launch as a structured array with the integer fields pc, block, thread (both
    linear), argument (-1: shared), offset and size (bytes), write, step (their order).
    """

    library: Path
    code: str
    kernel: str
    grid: tuple
    block: tuple
    arguments: list  # of Argument: name, array (None for a scalar), const
    problems: list[RawProblem] = field(default_factory=list)
    notes: list[RawProblem] = field(default_factory=list)
    accesses: list[RawAccess] = field(default_factory=list)
    barriers: int = 0
    blocks_run: int = 0
    lost_threads: int = 0  # that were ended early, because of a problem
    seconds: float = 0.0
    printed: str = ""
    trace: np.ndarray | None = None
    shared_arrays: tuple = ()  # statics.SharedArray: the static ones, where they are known
