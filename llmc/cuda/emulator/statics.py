"""Which static `__shared__` arrays a kernel has, and where in a block's shared memory each of them lies.

They are thread-local variables of the library, and its symbol table names them: `_ZZ9layernormE5cache` is `cache` in
the function `layernorm`. Read from the file itself (ELF, https://refspecs.linuxfoundation.org/elf/elf.pdf); elsewhere
(macOS) the list is empty, and shared memory is known by bytes alone.
"""

import re
import struct
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

SYMBOLS, SYMBOL_SIZE, THREAD_LOCAL = 2, 24, 6  # kind of a section, bytes of one symbol, type of a symbol
ANCHOR = "llmc_shared_anchor"


class SharedArray(NamedTuple):
    """A static `__shared__` variable: its name, the mangled name, and where it lies, in bytes."""

    name: str
    symbol: str
    offset: int
    size: int

    @property
    def mark(self) -> bool:
        """Whether it is the compiler's own: a mark that a variable's constructor has run."""
        return self.symbol.startswith(("_ZGV", "__tls_guard"))


@lru_cache(maxsize=256)
def shared_arrays(library: Path) -> tuple[SharedArray, ...]:
    """All static `__shared__` variables of a library, in the order of their places."""
    data = library.read_bytes()
    if data[:5] != b"\x7fELF\x02":
        return ()
    found = (SharedArray(_plain(name), name, offset, size) for name, offset, size in _thread_locals(data))
    return tuple(sorted((one for one in found if one.size and ANCHOR not in one.symbol), key=lambda one: one.offset))


def of_kernel(library: Path, kernel: str, kernels) -> tuple[SharedArray, ...]:
    """Those that `kernel` can use: not the ones declared inside another of the library's `kernels`."""
    own = kernel.split("<")[0].split("::")[-1]
    others = [name.split("<")[0].split("::")[-1] for name in kernels]
    inside = tuple(f"_ZZ{n}{len(name)}{name}" for name in others if name != own for n in ("", "N"))
    return tuple(one for one in shared_arrays(library) if not one.symbol.startswith(inside))


def _plain(symbol):
    """ "_ZZ9layernormE5cache_0" -> "cache"; a variable outside of functions keeps its name."""
    ends = re.findall(r"E(\d+)([A-Za-z_]\w*)$", symbol)
    return ends[-1][1][: int(ends[-1][0])] if ends else symbol


def _thread_locals(data):
    """(name, offset, size) of each thread-local symbol of an ELF file of 64 bits."""
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
