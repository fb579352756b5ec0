"""Where the arrays of a launch lie in memory. Those that overlap (views, an in-place kernel) belong together."""

from llmc.cuda.emulator.launching.records import CONSTANTS
from llmc.errors import KernelError

MOST_ARRAYS = CONSTANTS["MOST_ARRAYS"]


class Slot:
    """Arrays whose memory overlaps, and their common copy in the arena."""

    def __init__(self, index, low, high, members):
        self.index, self.low, self.high, self.members = index, low, high, members
        self.itemsize = min(argument.array.dtype.itemsize for _, argument in members)
        self.shift = {1: 0, 2: 1}.get(self.itemsize, 2)  # a shadow cell per element, or per 4 bytes of a longer one
        self.written = None  # (cells,) uint8: which of them were written, where that matters
        self.place = 0  # address in the arena

    def cells_of(self, argument):
        """Slice of `written` that belongs to an argument's array."""
        start = argument.array.ctypes.data - self.low
        return slice(start >> self.shift, (start + argument.array.nbytes + (1 << self.shift) - 1) >> self.shift)


def slots_of(arguments):
    """The slots of a list of arguments: one for arrays that overlap, none for those without elements."""
    arrays = [(i, a) for i, a in enumerate(arguments) if a.array is not None and a.array.nbytes]
    spans = sorted((a.array.ctypes.data, a.array.ctypes.data + a.array.nbytes, i) for i, a in arrays)
    merged = []
    for low, high, i in spans:
        if merged and low < merged[-1][1]:
            merged[-1][1] = max(high, merged[-1][1])
            merged[-1][2].append(i)
        else:
            merged.append([low, high, [i]])
    if len(merged) > MOST_ARRAYS:
        raise KernelError(f"a checked launch takes at most {MOST_ARRAYS} arrays, not {len(merged)}; use check=False.")
    return [Slot(k, low, high, [(i, arguments[i]) for i in sorted(i)]) for k, (low, high, i) in enumerate(merged)]
