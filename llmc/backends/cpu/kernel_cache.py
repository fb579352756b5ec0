"""Compiled kernels on disk: where they are, and which process compiles them.

Numba can keep a compiled kernel on the disk, and later runs load it. It leaves two things to us. It looks at a kernel's
own file only, so a change in `compiled.py` would go unnoticed. And it optimises a kernel once more when it stores it:
the process that compiles a kernel rounds its sums differently from those that load it, and a run that was interrupted
on its first day would not resume bit for bit. So other processes compile all kernels of a precision into a folder that
is named after the sources and the machine, and every run loads them. Kernels for other types (float64) are compiled
where they are first called, and kept in the same folder.
"""

import atexit
import hashlib
import os
import pickle
import subprocess
import sys
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from shutil import copytree, rmtree
from tempfile import TemporaryDirectory

import numba
from llvmlite import binding
from numba.core.caching import FunctionCache

from llmc.files.cache_folder import OPEN, is_open_to_others

LIST = "kernels.txt"  # in the folder: "digest name" of each file that the other processes have written
PRECISIONS, HALVES = ("fp32", "bf16"), ("0", "1")  # halves of the kernels of each, which two processes compile
DONE = "compiled."  # a file of that name and precision says that all its kernels are there
INDEX = ".nbi"  # how the names of Numba's indices end; they change when it adds kernels for other types


def keep(kernels, compiler, precision="fp32"):
    """Let Numba keep these kernels (its dispatchers) on disk.

    `python -m compiler precision half` compiles what a precision lacks there. That takes ten to thirty seconds, once
    for each precision, version of the sources, of Python and of Numba, and kind of processor; where no folder can be
    written, in each process, and the user is told once. Where it fails, this process compiles, and only the last bits
    are at stake.
    """
    try:
        folder = _place(kernels[0]) / fingerprint(Path(__file__).parent)
    except OSError:  # there is not even a temporary folder
        return
    with suppress(OSError):
        if not is_whole(folder, precision):
            _fill(folder, compiler, precision)
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
    try:
        for kernel in kernels:
            enable(kernel)
    except RuntimeError:  # no folder that Numba could use after all
        pass
    finally:
        numba.config.CACHE_DIR = before


def enable(kernel):
    """Numba's enable_caching, after which a damaged file or a full disk is no reason to fail."""
    kernel.enable_caching()
    if isinstance(getattr(kernel, "_cache", None), FunctionCache):
        kernel._cache = Forgiving(kernel.py_func)


class Forgiving(FunctionCache):
    """Numba's cache of one kernel. What cannot be read is compiled; what cannot be written is not kept."""

    def _index_key(self, sig, codegen):
        """Numba's, without the processor's features: the folder is named after them, and `_wide_vectors` adds one."""
        types, _, code = super()._index_key(sig, codegen)
        return types, code

    def load_overload(self, sig, target_context):
        """The kernel for these types, or None. After damage that `is_whole` missed, the next start fills it anew."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # of any kind: a damaged pickle raises whatever it likes
            with suppress(OSError):
                (Path(self.cache_path).parent / LIST).unlink()
            return None

    def save_overload(self, sig, data):
        """Keep it if that is possible."""
        with suppress(Exception):  # from a full disk, or from the damaged index that it is to be added to
            super().save_overload(sig, data)


def _place(kernel) -> Path:
    """Where Numba would keep this kernel or, if it cannot write there or others can, a temporary folder.

    Raises OSError where there is no place for that either.
    """
    before, mask = numba.config.CACHE_DIR, os.umask(0o077)  # Numba makes folders, which are to be this user's alone
    try:
        against = _refused(kernel)
        if against:
            numba.config.CACHE_DIR = temporary_folder(against)
            kernel.enable_caching()
    finally:
        os.umask(mask)
        numba.config.CACHE_DIR = before
    return Path(kernel.stats.cache_path)


def _refused(kernel) -> str:
    """Why Numba's folder, which is one below that of NUMBA_CACHE_DIR, is not used; "" if it is."""
    try:
        kernel.enable_caching()
    except RuntimeError:
        return "there is no folder to keep compiled kernels in"
    place = Path(kernel.stats.cache_path)
    if place == Path(__file__).parent / "__pycache__":  # whoever can write there can change llmc itself
        return ""
    return next((f"{folder} {OPEN}" for folder in (place.parent, place) if is_open_to_others(folder)), "")


@cache
def temporary_folder(against) -> str:
    """A folder that is removed when this process ends; the processes that it starts find the kernels there, too."""
    place = TemporaryDirectory(prefix="llmc-kernels-")
    atexit.register(place.cleanup)
    os.environ["NUMBA_CACHE_DIR"] = place.name
    print(
        f"llmc: {against}, so each start takes ten to thirty seconds longer; "
        "set NUMBA_CACHE_DIR to a folder of your own.",
        file=sys.stderr,
    )
    return place.name


def fingerprint(sources) -> str:
    """ "kernels-SOURCES-MACHINE": names what the Python files in the folder `sources` compile to on this machine."""
    text = b"".join(path.name.encode() + path.read_bytes() for path in sorted(Path(sources).glob("*.py")))
    machine = sys.implementation.cache_tag, numba.__version__, binding.get_host_cpu_name()
    machine += (binding.get_host_cpu_features().flatten(),)
    return "-".join(["kernels", *(hashlib.sha256(part).hexdigest()[:12] for part in (text, repr(machine).encode()))])


def is_whole(folder, precision="fp32") -> bool:
    """Whether the other processes have compiled this precision there, and no file has been lost or damaged since."""
    try:
        rows = [row.split(" ", 1) for row in (folder / LIST).read_text(encoding="utf-8").splitlines()]
        found = {name for digest, name in rows if _is_as_written(folder / name, digest)}
        return len(found) == len(rows) and f"{DONE}{precision}" in found
    except (OSError, ValueError):
        return False


def _is_as_written(path, digest) -> bool:
    """Machine code must be as it was, to the bit: wrong code would end the process. An index must be readable."""
    data = path.read_bytes()
    return hashlib.sha256(data).hexdigest() == digest or (path.suffix == INDEX and _is_index(data))


def _is_index(data) -> bool:
    try:
        file = BytesIO(data)
        return isinstance(pickle.load(file), str) and len(pickle.load(file)) == 2  # version, (stamp, names)
    except Exception:  # of any kind: a damaged pickle raises whatever it likes
        return False


def _fill(folder, compiler, precision):
    """Compile in other processes, then move what they have written here all at once; forget kernels of other sources.

    What other precisions have in the folder stays, unless it is damaged.
    """
    with TemporaryDirectory(prefix=f"{folder.name}-", dir=folder.parent) as place:
        new = Path(place) / "kernels"
        places = {"NUMBA_CACHE_DIR": str(new), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        environment = {**_wide_vectors(), **os.environ, **places}
        if any(is_whole(folder, other) for other in PRECISIONS):
            copytree(folder, new)
        done = _run([[sys.executable, "-m", compiler, precision, half] for half in HALVES], environment)
        if done and not is_whole(folder, precision):  # another run may have been quicker
            (new / f"{DONE}{precision}").touch()
            files = [file for file in new.rglob("*") if file.is_file() and file.name != LIST]
            rows = "".join(f"{_digest(file)} {file.relative_to(new).as_posix()}\n" for file in files)
            (new / LIST).write_text(rows, encoding="utf-8")
            _remove(folder)  # damaged, or not there
            new.rename(folder)
    sources = folder.name.rpartition("-")[0]
    for other in folder.parent.glob("kernels-*"):
        if not other.name.startswith(sources):
            _remove(other)


def _wide_vectors() -> dict:
    """Environment variables that make Numba compile for vectors of 512 bits, where the processor has good ones.

    LLVM prefers those of 256 bits: the first processors with wider ones lowered their clock for them. Since Ice Lake
    and Zen 4 the wider ones are faster: a softmax by a quarter.
    """
    features = binding.get_host_cpu_features()
    return {"NUMBA_CPU_FEATURES": features.flatten() + ",-prefer-256-bit"} if features.get("avx512vbmi2") else {}


def _run(commands, environment) -> bool:
    """Run commands at the same time, without output; whether all succeeded. None of them outlives this call."""
    silent, running = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL), []
    try:
        for command in commands:
            running.append(subprocess.Popen(command, env=environment, **silent))
        return not any([process.wait() for process in running])
    finally:
        for process in running:
            process.kill()
            process.wait()


def _digest(file) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _remove(place):
    """Delete a folder with all that is in it, or a file that is in its place."""
    with suppress(OSError):
        place.chmod(0o700)
    rmtree(place, ignore_errors=True)
    if not place.is_dir():
        place.unlink(missing_ok=True)
