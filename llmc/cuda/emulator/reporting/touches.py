"""Which thread touches which element: the recorded accesses of a small launch, sorted into panels for a picture.

A panel is one instruction on one array. What a GPU executes at once is a request: one execution of that instruction by
the threads of a warp.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmc.cuda.emulator.findings.places import plural
from llmc.cuda.emulator.reporting.measures import SECTOR

WARP = 32
BANKS, WORD = 32, 4  # of shared memory; bytes
THREADS = 64  # the most that a picture can show
MOST_SECTORS = 40  # with more, a picture shows the first warp only


@dataclass
class Panel:
    """One instruction on one array.

    first: the accesses of the first execution by the threads shown; later: all others of those threads.
    Both are structured arrays with the fields thread (number in the picture), warp, round, offset and size (bytes).
    """

    line: int
    space: str
    name: str
    write: bool
    array: np.ndarray | None
    first: np.ndarray
    later: np.ndarray

    @cached_property
    def requests(self) -> list[np.ndarray]:
        """The accesses of each warp in each round."""
        rows = np.concatenate([self.first, self.later])
        keys = rows["warp"] * (int(rows["round"].max()) + 1) + rows["round"]  # (accesses,)
        return [rows[keys == key] for key in np.unique(keys)]

    @property
    def worst(self) -> np.ndarray:
        """The request that loses the most passes to bank conflicts."""
        return max(self.requests, key=lambda rows: np.subtract(*passes(rows)))

    @property
    def title(self) -> str:
        """What there is to see: "line 4 reads x: 32 sectors …, a different one for each thread; 4 would do"."""
        verb = "writes" if self.write else "reads"
        where = self.name if self.space == "global" else "shared memory"
        found = self._sectors() if self.space == "global" else self._passes()
        return f"line {self.line or '?'} {verb} {where}: {found}"

    def _sectors(self) -> str:
        """The worst request of the first round, which is drawn."""
        first = [rows for rows in self.requests if rows["round"][0] == 0]
        rows = max(first, key=lambda rows: sectors(rows).size - fewest_sectors(rows))
        count, ideal = sectors(rows).size, fewest_sectors(rows)
        if np.unique(rows["offset"]).size == 1 and rows.size > 1:
            return f"all {rows.size} threads of a warp touch the same element, 1 sector"
        if count <= ideal:
            full = np.unique(_units(rows, 1)).size == SECTOR * count
            rest = "every byte of them used" if full else "as few as possible"
            return f"{plural(count, 'sector')} for the {plural(rows.size, 'thread')} of a warp, {rest}"
        each = ", a different one for each thread" if count == rows.size else ""
        return f"{count} sectors for the {rows.size} threads of a warp{each}; {ideal} would do"

    def _passes(self) -> str:
        """The worst request, in passes through the banks."""
        count, ideal = passes(self.worst)
        if count <= ideal:
            return f"{plural(count, 'pass', 'passes')}, no conflict between banks"
        return f"{count} passes where {ideal} would do, since a bank delivers one word per pass"


def panels(raw, line_of, space_of) -> list[Panel]:
    """A recorded launch's panels in the order of execution; line_of(pc) and space_of(pc, argument) describe each."""
    trace = np.sort(raw.trace, order="step")
    threads = _shown(trace, raw)
    found = []
    for pc, argument in _first_seen(trace):
        space = space_of(pc, argument)
        rows = trace[(trace["pc"] == pc) & (trace["argument"] == argument)]
        touched = _touched(rows, threads, raw)
        known = space == "global" and 0 <= argument < len(raw.arguments)
        name, array = (raw.arguments[argument].name, raw.arguments[argument].array) if known else (space, None)
        first, later = touched[touched["round"] == 0], touched[touched["round"] > 0]
        if first.size:
            found.append(Panel(line_of(pc), space, name, bool(rows["write"][0]), array, first, later))
    return found


def labels(raw) -> dict[int, tuple[int, int]]:
    """{number in the picture: (block, thread)} of the threads that a picture shows."""
    return {number: key for key, number in _shown(np.sort(raw.trace, order="step"), raw).items()}


def sectors(rows) -> np.ndarray:
    """Numbers of the 32-byte sectors that these accesses touch."""
    return np.unique(_units(rows, SECTOR))


def fewest_sectors(rows) -> int:
    """How many would hold the same bytes if these lay side by side."""
    return -(-np.unique(_units(rows, 1)).size // SECTOR)


def passes(rows) -> tuple[int, int]:
    """(passes that one request takes, passes without conflicts).

    8-byte accesses are served by half-warps, 16-byte ones by quarter-warps; lanes that want the same word share it.
    """
    lanes = max(1, WARP * WORD // max(WORD, int(rows["size"].max())))  # served together
    groups = [rows[rows["lane"] // lanes == group] for group in np.unique(rows["lane"] // lanes)]
    taken = [np.bincount(np.unique(_units(group, WORD)) % BANKS).max() for group in groups]
    return int(sum(taken)), len(taken)


def _units(rows, unit) -> np.ndarray:
    """Numbers of the `unit`-byte pieces of memory that the accesses touch, with repetitions."""
    first, last = rows["offset"] // unit, (rows["offset"] + rows["size"] - 1) // unit  # (accesses,)
    steps = np.arange(int((last - first).max()) + 1)
    pieces = first[:, None] + steps  # (accesses, pieces of the longest)
    return pieces[pieces <= last[:, None]]


def _first_seen(trace) -> list[tuple[int, int]]:
    """(pc, argument) of each instruction, in the order of its first execution."""
    pairs = zip(trace["pc"].tolist(), trace["argument"].tolist())
    return list(dict.fromkeys(pairs))


def _shown(trace, raw) -> dict[tuple[int, int], int]:
    """{(block, thread): number in the picture}: the first 64 threads, or one warp where more would be a blur."""
    keys = sorted(set(zip(trace["block"].tolist(), trace["thread"].tolist())))[:THREADS]
    for pc, argument in _first_seen(trace):
        rows = trace[(trace["pc"] == pc) & (trace["argument"] == argument)]
        rows = _touched(rows, {key: i for i, key in enumerate(keys)}, raw)
        if sectors(rows[rows["round"] == 0]).size > MOST_SECTORS if rows.size else False:
            keys = [key for key in keys if (key[0], key[1] // WARP) == (keys[0][0], keys[0][1] // WARP)]
    return {key: i for i, key in enumerate(keys)}


TOUCH = [(name, np.int64) for name in ("thread", "lane", "warp", "round", "offset", "size")]


def _touched(rows, threads, raw) -> np.ndarray:
    """The accesses of one instruction by the threads shown; round: how many times the thread has executed it before."""
    warps = -(-int(np.prod(raw.block)) // WARP)  # in a block
    rounds, found = {}, []
    for row in rows:
        key = int(row["block"]), int(row["thread"])
        if key in threads:
            rounds[key] = rounds.get(key, -1) + 1
            warp = key[0] * warps + key[1] // WARP
            found.append((threads[key], key[1] % WARP, warp, rounds[key], int(row["offset"]), int(row["size"])))
    return np.array(found, dtype=TOUCH)
