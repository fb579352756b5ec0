"""Our headers, parsed once and kept: for a small kernel that takes as long as all the rest of its compilation.

For each header, g++ looks in each folder for one of that name which was precompiled, and passes over those made with
other flags or by another g++. Clang looks for nothing, so we give it nothing.
"""

from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from llmc.cuda.emulator.compiling.source import INCLUDE
from llmc.cuda.emulator.compiling.store import is_whole, whole
from llmc.errors import KernelError

HEADER = INCLUDE / "llmc_cuda.h"


@lru_cache(maxsize=64)
def precompiled(command, flags, folder, run) -> tuple[str, ...]:
    """What to add to the flags so that g++ finds the header precompiled in `folder`; () where it cannot make or use it.

    command: the words that start the compiler. flags: those of the kernel. run: runs a command in a folder; the third
    argument turns what the compiler says into an error.
    """
    made, found = folder / f"{HEADER.name}.gch", ("-I", str(folder))
    with suppress(KernelError):
        if not is_whole(made):
            folder.mkdir(exist_ok=True)
            with whole(made) as out:
                run([*command, *flags, "-x", "c++-header", str(HEADER), "-o", str(out)], out.parent, KernelError)
                use = out.with_name("use.cpp")  # an old g++ fails where it cannot map the file to the same addresses
                use.write_text(f'#include "{HEADER.name}"\n')
                run([*command, "-I", str(out.parent), *flags, "-fsyntax-only", str(use)], out.parent, KernelError)
        return found
    return ()


def without_headers(command) -> list[str]:
    """The command without what `precompiled` adds: g++ may fail to map the file where a process is loaded elsewhere."""
    folders = {k for k, word in enumerate(command) if Path(word).name.startswith("headers-") and command[k - 1] == "-I"}
    return [word for k, word in enumerate(command) if not {k, k + 1} & folders]
