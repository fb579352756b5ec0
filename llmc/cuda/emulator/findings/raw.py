"""What a launch on the emulator leaves behind, before anything is put into words.

`launching/` fills these records in; `reporting/` turns them into sentences, numbers and pictures. Addresses in code
are offsets into the compiled library (`reporting/lines.py` finds their source lines); addresses in memory are bytes
from the start of an array.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class RawProblem:
    """One kind of mistake at one line, or at one pair of lines; block and thread are those of the first time."""

    kind: str  # a name in kinds.py
    pc: int = 0  # where in the library the access was made; 0: unknown
    pc2: int = 0  # the other party of a race
    line: int = 0  # 0 unless known without the pc: barriers, collectives, static array bounds
    line2: int = 0
    block: tuple = (0, 0, 0)
    thread: tuple = (0, 0, 0)
    block2: tuple | None = None
    thread2: tuple | None = None
    space: str = ""  # "global", "shared" or ""
    argument: int = -1  # index of the array among the arguments
    offset: int = 0  # bytes from the start of the array, or of the block's shared memory; may lie outside it
    size: int = 0  # bytes of the access
    write: bool = False
    write2: bool = False
    atomic: bool = False  # the write is an atomic
    atomic2: bool = False
    count: int = 1  # how many times this happened; for "never-written": how many elements
    lanes: int = 0  # mask of a warp's lanes
    absent: int = 0  # how many threads did not come to a barrier
    array: str = ""  # in shared memory: the static array that `offset` counts from, where it is known
    # what else there is to say: for "assert" the condition, for "bounds" the index and the array's type, for
    # "never-written" which part of the array
    detail: str = ""


@dataclass(frozen=True)
class RawAccess:
    """All that one load or store instruction did in a measured launch."""

    pc: int
    space: str  # "global" or "shared"
    write: bool
    atomic: bool
    size: int  # bytes a lane
    argument: int  # -1: of no argument
    requests: int  # executions by a warp
    lanes: int  # accesses by single lanes
    sectors: int = 0  # 32-byte sectors that the requests moved (global)
    passes: int = 0  # passes through the banks, one after the other, over all requests (shared)
    ideal: int = 0  # the fewest sectors that hold the bytes asked for (global); passes without conflicts (shared)
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
    arguments: list  # of calling.arguments.Argument
    problems: list[RawProblem] = field(default_factory=list)
    notes: list[RawProblem] = field(default_factory=list)
    accesses: list[RawAccess] = field(default_factory=list)
    barriers: int = 0
    shuffles: int = 0
    blocks_run: int = 0
    lost_threads: int = 0  # threads that were ended early because of a problem
    printed: str = ""
    trace: np.ndarray | None = None
    excused: tuple = ()  # addresses of plain reads that an atomic of the same thread settles, seen at least once
    shared_arrays: tuple = ()  # of launching.statics.SharedArray: the static ones, where they are known
