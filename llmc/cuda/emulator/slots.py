"""Where the arrays of a launch lie in memory: those that overlap (views, an in-place kernel) belong together."""

from llmc.errors import KernelError

MOST_ARRAYS = 64


class Slot:
    """Arrays whose memory overlaps, and their common copy in the arena."""

    def __init__(self, index, low, high, members):
        self.index, self.low, self.high, self.members = index, low, high, members
        self.itemsize = min(argument.array.dtype.itemsize for _, argument in members)
        self.shift = {1: 0, 2: 1}.get(self.itemsize, 2)  # a shadow cell for each element, or each 4 bytes of one
        self.written = None  # (cells,) uint8: which were written, where that matters
        self.place = 0

    def cells_of(self, argument):
        """Slice of `written` that belongs to an argument's array."""
        start = argument.array.ctypes.data - self.low
        return slice(start >> self.shift, (start + argument.array.nbytes + (1 << self.shift) - 1) >> self.shift)


def slots_of(arguments):
    """The slots of a list of arguments, those that overlap together; arrays without elements get none."""
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
