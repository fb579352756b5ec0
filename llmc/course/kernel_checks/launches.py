"""What the launches of a check that were right have in common, and the one that went wrong lacks: one sentence."""

import math
from dataclasses import dataclass

from llmc.course.checks.messages.diagnosis import listed
from llmc.cuda.emulator.compiling.text import mask


@dataclass(frozen=True)
class Launch:
    """What distinguishes launches: source, kernel, grid and block (x, y, z), descriptions of the arguments."""

    code: str
    kernel: str
    grid: tuple
    block: tuple
    arguments: tuple

    def text(self, names) -> str:
        """ "gelu_kernel((4,), (32,), (out (127,) float32, inp (127,) float32, n 127))": as CuPy has it."""
        named = [f"{name} {value}" for name, value in zip(names, self.arguments)]
        return f"{self.kernel}({_short(self.grid)}, {_short(self.block)}, ({', '.join(named)}))"


def difference(launches) -> str:
    """One sentence about grid, block or size of the last launch, which failed; "" if they tell nothing."""
    *before, last = launches
    same = [each for each in before if (each.code, each.kernel) == (last.code, last.kernel)]
    alike = [each for each in same if each.arguments == last.arguments]
    if any((each.grid, each.block) == (last.grid, last.block) for each in alike):
        return "A launch of the same sizes was right before."
    if not alike:
        return ""
    grids, blocks = {math.prod(each.grid): 0 for each in alike}, {math.prod(each.block): 0 for each in alike}
    if [*grids] == [1] != [math.prod(last.grid)] and "blockIdx" not in mask(last.code):
        return f"Right with 1 block, wrong with {math.prod(last.grid)}: blockIdx does not occur in the kernel."
    by_block = [each for each in alike if each.block == last.block]
    if by_block:
        grids = listed({math.prod(each.grid): 0 for each in by_block})
        return f"Right with {grids} blocks, wrong with {math.prod(last.grid)}."
    return f"Right with blocks of {listed(blocks)} threads, wrong with {math.prod(last.block)}."


def _short(size) -> str:
    """(4, 1, 1) as "(4,)"."""
    kept = size[: 3 if size[2] > 1 else 2 if size[1] > 1 else 1]
    return f"({', '.join(map(str, kept))}{',' * (len(kept) == 1)})"
