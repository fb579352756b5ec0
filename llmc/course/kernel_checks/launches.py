"""What the launches of a check have in common that were right, and the one that went wrong has not: one sentence."""

import math
import re
from dataclasses import dataclass

from llmc.cuda.emulator.compiling.source import parameter_names
from llmc.cuda.emulator.compiling.text import mask


@dataclass(frozen=True)
class Launch:
    """What distinguishes launches: source, kernel, grid and block (x, y, z), descriptions of the arguments.

    inputs: a number that stands for what the inputs hold.
    """

    code: str
    kernel: str
    grid: tuple
    block: tuple
    arguments: tuple
    inputs: int = 0

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
        others = ", with other numbers" * all(each.inputs != last.inputs for each in alike)
        return f"A launch of the same sizes was right before{others}."
    blocks = math.prod(last.grid)
    if alike and blocks > 1 == max(math.prod(each.grid) for each in alike) and "blockIdx" not in mask(last.code):
        return f"Right with 1 block, wrong with {blocks}: blockIdx does not occur in the kernel."
    if alike:
        by_block = [each for each in alike if each.block == last.block]
        if by_block:
            return f"Right with {_counts(each.grid for each in by_block)} blocks, wrong with {_counts([last.grid])}."
        blocks, text = [math.prod(each.block) for each in alike], mask(last.code)
        number = next((n for n in blocks if n > 32 and "__shfl" not in text and re.search(rf"\b{n}\b", text)), None)
        assumed = f" There is a {number} in the kernel: blockDim says how many threads a block has." if number else ""
        threads = _counts(each.block for each in alike)
        return f"Right with blocks of {threads} threads, wrong with {_counts([last.block])}.{assumed}"
    return _larger(same, last)


def _larger(same, last) -> str:
    """A sentence if one size is beyond all those that were right."""
    if len({each.arguments for each in same}) < 2:
        return ""
    named = zip(parameter_names(last.code, last.kernel), zip(*(each.arguments for each in same)), last.arguments)
    grown = [
        (name, max(map(int, sizes)), size)
        for name, sizes, size in named
        if all(each.isdecimal() for each in (*sizes, size)) and int(size) > max(map(int, sizes))
    ]
    return (
        "Right with {0} up to {1}; this is the first launch with {0} = {2}.".format(*grown[0])
        if len(grown) == 1
        else ""
    )


def _short(size) -> str:
    """(4, 1, 1) as "(4,)"."""
    kept = size[: 3 if size[2] > 1 else 2 if size[1] > 1 else 1]
    return f"({', '.join(map(str, kept))}{',' * (len(kept) == 1)})"


def _counts(sizes) -> str:
    """ "256, 128 and 96": how many threads or blocks each of these has."""
    counts = list(dict.fromkeys(str(math.prod(size)) for size in sizes))
    return " and ".join([", ".join(counts[:-1]), counts[-1]] if counts[1:] else counts)
