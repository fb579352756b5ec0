"""Which static `__shared__` arrays a kernel has, and where in a block's shared memory each of them lies.

They are thread-local variables of the library, and its symbol table names them: `_ZZ9layernormE5cache` is `cache` in
the function `layernorm`. The table is read from the file itself (ELF, https://refspecs.linuxfoundation.org/elf/elf.pdf);
elsewhere (macOS) the list is empty, and a place in shared memory is known only by its byte.
"""

import re
import struct
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from llmc.cuda.emulator.compiling.source import bare_name

SYMBOLS, SYMBOL_SIZE, THREAD_LOCAL = 2, 24, 6  # a kind of section, the bytes of a symbol, a type of symbol
ANCHOR = "llmc_shared_anchor"


class SharedArray(NamedTuple):
    """A static `__shared__` variable: its name, its mangled name, and where it lies, in bytes."""

    name: str
    symbol: str
    offset: int
    size: int

    @property
    def mark(self) -> bool:
        """Whether it belongs to the compiler: a mark that a variable's constructor has run."""
        return self.symbol.startswith(("_ZGV", "__tls_guard"))


@lru_cache(maxsize=256)
def shared_arrays(library: Path) -> tuple[SharedArray, ...]:
    """All static `__shared__` variables of a library, in the order of their offsets."""
    data = library.read_bytes()
    if data[:5] != b"\x7fELF\x02":
        return ()
    found = (SharedArray(_plain(name), name, offset, size) for name, offset, size in _thread_locals(data))
    return tuple(sorted((one for one in found if one.size and ANCHOR not in one.symbol), key=lambda one: one.offset))


def of_kernel(library: Path, kernel: str, kernels) -> tuple[SharedArray, ...]:
    """The ones that `kernel` can use: not those declared inside another of the library's `kernels`."""
    others = {bare_name(name) for name in kernels} - {bare_name(kernel)}
    return tuple(one for one in shared_arrays(library) if not any(_inside(name).match(one.symbol) for name in others))


def _inside(kernel):
    """What the symbols of a kernel's own variables begin with, where it may stand in a namespace."""
    return re.compile(rf"_ZZ(?:N\w*?)?{len(kernel)}{kernel}")


def size_of(arrays, kernel: str) -> int:
    """Bytes of a kernel's arrays. Instances of one template do not add up: the largest with its numbers counts."""
    name, numbers = bare_name(kernel), re.findall(r"\b\d+\b", kernel.partition("<")[2])
    fits = re.compile(".*?".join(rf"(?<!\d){number}E" for number in numbers))
    sizes = Counter()
    for array in arrays:
        if not array.mark:
            sizes[re.sub(r"E\d+\w*$", "", array.symbol) if _inside(name).match(array.symbol) else ""] += array.size
    everywhere = sizes.pop("", 0)
    fitting = [size for instance, size in sizes.items() if fits.search(instance)]
    return everywhere + max(fitting or sizes.values(), default=0)


def _plain(symbol):
    """ "_ZZ9layernormE5cache_0" -> "cache"; a variable outside all functions keeps its name."""
    ends = re.findall(r"E(\d+)([A-Za-z_]\w*)$", symbol)
    return ends[-1][1][: int(ends[-1][0])] if ends else symbol


def _thread_locals(data):
    """(name, offset, size) of each thread-local symbol in a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * entry) for i in range(count)]
    for _, kind, _, _, start, size, link, *_ in sections:
        if kind != SYMBOLS:
            continue
        names = sections[link][4]
        for at in range(start, start + size, SYMBOL_SIZE):
            name, info, _, _, value, length = struct.unpack_from("<IBBHQQ", data, at)
            if info & 15 == THREAD_LOCAL:
                text = data[names + name : data.index(b"\0", names + name)].decode(errors="replace")
                yield text, value, length
