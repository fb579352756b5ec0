"""From an address in a compiled kernel to the line of the learner's source, through the library's debug information.

`addr2line` comes with every g++ (binutils), `llvm-symbolizer` with clang, `atos` with macOS. Without any of them a
report still says what happened, but not on which line.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from llmc.cuda.emulator.compiling.dynamic_shared import KERNEL_FILE

INSTALL = "xcode-select --install" if sys.platform == "darwin" else "your system's binutils (apt install binutils)"
FRAME = re.compile(r"(\S+):(\d+)")
APPLE_FRAME = re.compile(r"\((\S+):(\d+)\)\s*$")

_known: dict[tuple[Path, int], tuple[int, ...]] = {}  # a library is named after its content and never changes


def source_lines(library, addresses) -> dict[int, tuple[int, ...]]:
    """{address: (line, the line that called its function, the line that called that one's, …)}; () if not found.

    addresses: return addresses, as offsets into `library`. All lines are the learner's: functions of our headers are
    looked through.
    """
    library = Path(library)
    new = sorted({address for address in addresses if (library, address) not in _known})
    if new:
        found = _look_up(library, new)
        _known.update({(library, address): found.get(address, ()) for address in new})
    return {address: _known[library, address] for address in addresses}


def symbolizer() -> list[str] | None:
    """The command that reads debug information, up to the library's name; None if this machine has none."""
    for name, options in [
        ("addr2line", ["-a", "-i", "-e"]),
        ("llvm-addr2line", ["-a", "-i", "-e"]),
        ("llvm-symbolizer", ["--output-style=GNU", "--functions=none", "-a", "-i", "-e"]),
        ("atos", ["-i", "-offset", "-o"]),
    ]:
        if path := shutil.which(name):
            return [path, *options]
    return None


def _look_up(library, addresses) -> dict[int, tuple[int, ...]]:
    """One process looks up all of them; nothing is found if it fails."""
    command = symbolizer()
    if command is None or not library.is_file():
        return {}
    # A return address points past the call, perhaps into the next line; one byte earlier is still in the call.
    words = [hex(address - 1) for address in addresses]
    try:
        done = subprocess.run([*command, str(library), *words], capture_output=True, encoding="utf-8", timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    read = _read_atos if Path(command[0]).name == "atos" else _read_gnu
    return {address + 1: lines for address, lines in read(done.stdout, [a - 1 for a in addresses]).items()}


def _read_gnu(text, addresses) -> dict[int, tuple[int, ...]]:
    """An address on a line of its own, then file:line of each inlined frame, innermost first."""
    found, address = {}, None
    for row in text.splitlines():
        if row.startswith("0x"):
            address = int(row, 16)
        elif (frame := FRAME.match(row)) and Path(frame[1]).name == KERNEL_FILE:
            found[address] = (*found.get(address, ()), int(frame[2]))
    return found


def _read_atos(text, addresses) -> dict[int, tuple[int, ...]]:
    """The frames of each address as "function (in library) (file:line)", and an empty line after each address."""
    found = {}
    for address, frames in zip(addresses, text.split("\n\n")):
        for frame in map(APPLE_FRAME.search, frames.splitlines()):
            if frame and frame[1] == KERNEL_FILE:
                found[address] = (*found.get(address, ()), int(frame[2]))
    return found
