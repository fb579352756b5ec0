"""Compiled kernels on the disk: whose sources they are, and who compiles them.

Numba keeps a kernel where `cache=True` says so, and later runs load it. Two things it leaves to us. It looks at a
kernel's own file only, so a change in `compiled.py` would go unnoticed. And it optimises a kernel once more when it
stores it: the process that compiles a kernel rounds its sums otherwise than those that load it, and a run that was
interrupted on its first day would not resume bit for bit. So another process compiles, and every run loads.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

IN_CHILD = "LLMC_COMPILING"  # set in the process that compiles


def sources(folder) -> str:
    """A fingerprint of the Python files in `folder`."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(folder).glob("*.py")))).hexdigest()


def forget_kernels_of_other_sources(folder):
    """Delete the compiled kernels in `folder` that were made from other sources than those that are there now.

    Where nothing can be written, Numba keeps its kernels elsewhere and this does nothing.
    """
    stamp = Path(folder) / "__pycache__" / "kernels.sha256"
    try:
        if stamp.is_file() and stamp.read_text() == sources(folder):
            return
        for kernel in stamp.parent.glob("*.nb[ic]"):
            kernel.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(sources(folder))
    except OSError:
        pass


def compile_once(folder, cache):
    """Let another process compile the kernels of `folder` into Numba's folder `cache`, unless one has done so.

    Takes some ten seconds, once for each version of the sources, of Python and of Numba, and each kind of processor.
    When it fails this process compiles, and only the last bits are at stake.
    """
    import llvmlite.binding
    import numba

    if os.environ.get(IN_CHILD):
        return
    stamp = Path(cache) / f"compiled.{sys.implementation.cache_tag}"
    about = f"{sources(folder)} {numba.__version__} {llvmlite.binding.get_host_cpu_name()}"
    try:
        if stamp.is_file() and stamp.read_text() == about:
            return
        environment = {**os.environ, IN_CHILD: "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", "llmc.compile_kernels"]
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode == 0:
            stamp.write_text(about)
    except OSError:
        pass
