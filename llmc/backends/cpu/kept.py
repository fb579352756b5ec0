"""Compiled kernels on the disk: where they are, and which process compiles them.

Numba can keep a compiled kernel on the disk, and later runs load it. It leaves two things to us. It looks at a kernel's
own file only, so a change in `compiled.py` would go unnoticed. And it optimises a kernel once more when it stores it:
the process that compiles a kernel rounds its sums differently from those that load it, and a run that was interrupted
on its first day would not resume bit for bit. So another process compiles all kernels for float32 into a folder that is
named after the sources and the machine, and every run loads them. Kernels for other types (float64) are compiled where
they are first called, and kept in the same folder.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

import numba
from llvmlite import binding

LIST = "kernels.txt"  # in the folder: "name size" of each file that the other process has written


def keep(kernels, compiler):
    """Let Numba keep these kernels (its dispatchers) on the disk; what is missing there, `python -m compiler` compiles.

    That takes some ten seconds, once for each version of the sources, of Python and of Numba, and each kind of
    processor. Where it fails, or nothing can be written, this process compiles, and only the last bits are at stake.
    """
    try:
        kernels[0].enable_caching()
    except RuntimeError:  # no folder that Numba could use
        return
    folder = Path(kernels[0].stats.cache_path) / fingerprint(Path(__file__).parent)
    try:
        if not is_whole(folder):
            _fill(folder, compiler)
    except OSError:
        pass
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
    try:
        for kernel in kernels:
            kernel.enable_caching()
    finally:
        numba.config.CACHE_DIR = before


def fingerprint(sources) -> str:
    """ "kernels-SOURCES-MACHINE": what the Python files in the folder `sources`, and what this machine, compile to."""
    text = b"".join(path.name.encode() + path.read_bytes() for path in sorted(Path(sources).glob("*.py")))
    machine = sys.implementation.cache_tag, numba.__version__, binding.get_host_cpu_name()
    machine += (binding.get_host_cpu_features().flatten(),)
    return "-".join(["kernels", *(hashlib.sha256(part).hexdigest()[:12] for part in (text, repr(machine).encode()))])


def is_whole(folder) -> bool:
    """Whether the other process has filled this folder, and no file has been lost or cut short since."""
    try:
        rows = [row.rpartition(" ") for row in (folder / LIST).read_text(encoding="utf-8").splitlines()]
        return all((folder / name).stat().st_size >= int(size) for name, _, size in rows)
    except (OSError, ValueError):
        return False


def _fill(folder, compiler):
    """Compile in another process, then move what it has written here as a whole; forget kernels of other sources."""
    with TemporaryDirectory(prefix=f"{folder.name}-", dir=folder.parent) as place:
        new = Path(place) / "kernels"
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(new), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", compiler]
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode == 0 and not is_whole(folder):  # another run may have been quicker
            files = [file for file in new.rglob("*") if file.is_file()]
            rows = "".join(f"{file.relative_to(new).as_posix()} {file.stat().st_size}\n" for file in files)
            (new / LIST).write_text(rows, encoding="utf-8")
            rmtree(folder, ignore_errors=True)  # damaged, or not there
            new.rename(folder)
    sources = folder.name.rpartition("-")[0]
    for other in folder.parent.glob("kernels-*"):
        if not other.name.startswith(sources):
            rmtree(other, ignore_errors=True)
