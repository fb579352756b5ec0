"""Which C++ compiler this machine has. It is looked for once, without running anything."""

import os
import shlex
import shutil
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from llmc.errors import NoCompiler
from llmc.terminal import pip


class Toolchain(NamedTuple):
    """A compiler: the words that start it, whether it wants clang's flags or GCC's, and which one exactly it is."""

    command: tuple[str, ...]
    clang: bool
    identity: str  # path, size and date of the program, so that an update changes it


def find() -> Toolchain:
    """LLMC_CXX, else g++, c++ or clang++ on PATH, else CXX, else the compiler in the package ziglang."""
    return _find(os.environ.get("LLMC_CXX", ""), os.environ.get("PATH", ""), os.environ.get("CXX", ""))


@lru_cache(maxsize=8)
def _find(wanted, path, usual):
    for words in (wanted, "g++", "c++", "clang++", usual):
        command = tuple(shlex.split(words))
        if command and (program := shutil.which(command[0], path=path)):
            return _toolchain((program, *command[1:]), Path(program).resolve())
        if words and words == wanted:
            raise NoCompiler(
                f"LLMC_CXX is {wanted!r}, but there is no such program on the PATH; correct it or unset it."
            )
    if spec := find_spec("ziglang"):
        return _toolchain((sys.executable, "-m", "ziglang", "c++"), Path(spec.origin).resolve())
    raise none_found()


def _toolchain(command, program):
    about = program.stat()
    words = " ".join([program.name, *command[1:]])
    clang = sys.platform == "darwin" or "clang" in words or "zig" in words
    return Toolchain(command, clang, f"{' '.join(command)} {program} {about.st_size} {about.st_mtime_ns}")


def none_found() -> NoCompiler:
    """The sentence for a machine without a compiler."""
    here = {"darwin": "xcode-select --install", "win32": "wsl --install"}.get(sys.platform, "sudo apt install g++")
    zig = pip("install", "ziglang")
    return NoCompiler(f"the emulator needs a C++ compiler and found none; run `{here}` or `{zig}`.")
