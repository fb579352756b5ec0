"""Facts about this machine, one small function each. What they mean for the course is in diagnoses.py.

None of them hangs for long or writes anything. A function that cannot know raises (OSError, ValueError, …), which
doctor.py expects.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

from llmc.cuda.emulator.compiling import toolchain
from llmc.errors import NoCompiler

PATIENCE = 4.0  # seconds a command may take: the first answer of a sleeping NVIDIA driver can need three
CGROUP = Path("/sys/fs/cgroup")  # where Linux keeps the limits of a container


def ask(*command) -> str:
    """What a command prints on stdout. Raises OSError (not found), TimeoutExpired or CalledProcessError (it failed)."""
    options = dict(stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    return subprocess.run(command, **options, timeout=PATIENCE, check=True).stdout.strip()


# ------------------------------------------------------------------------------------------- cores and memory


def cores() -> tuple[float, int]:
    """(how many cores this process may use, how many the machine has); a container may allow 1.5."""
    there = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else there
    return min(usable, _cpu_quota()), there


def _cpu_quota() -> float:
    """Cores a Linux container may use; infinity without a limit. The file says "150000 100000" or "max 100000"."""
    try:
        quota, period = (CGROUP / "cpu.max").read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):
        return float("inf")


def memory() -> int:
    """Bytes this process may use: the machine's memory, or a Linux container's part of it."""
    limits = [CGROUP / "memory.max", CGROUP / "memory" / "memory.limit_in_bytes"]  # version 2, version 1
    return min(_physical_memory(), *(_number_in(path) for path in limits))


def _number_in(path):
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # not there, or "max"
        return sys.maxsize


def _physical_memory() -> int:
    if sys.platform == "win32":
        return _windows_memory()
    if sys.platform == "darwin":
        return int(ask("sysctl", "-n", "hw.memsize"))
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _windows_memory() -> int:
    """GlobalMemoryStatusEx fills a struct of two 32-bit and seven 64-bit numbers; the second 64-bit one is free."""

    class Status(ctypes.Structure):
        _fields_ = [("size", ctypes.c_uint32), ("load", ctypes.c_uint32), ("numbers", ctypes.c_uint64 * 7)]

    status = Status(size=ctypes.sizeof(Status))
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        raise OSError("Windows did not say")
    return status.numbers[0]


# ------------------------------------------------------------------------------------------------------- CPU


def cpu_flags() -> set[str]:
    """Names of the instruction sets this CPU has, lower case: {"avx2", "avx512f", ...}."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").lower().splitlines()
        return set(next(line for line in lines if line.startswith(("flags", "features"))).split(":")[1].split())
    except (OSError, StopIteration):  # not Linux: NumPy has asked the CPU itself
        from numpy._core._multiarray_umath import __cpu_features__

        return {name.lower() for name, there in __cpu_features__.items() if there}


# ------------------------------------------------------------------------------------------ compiler and GPU


def compiler() -> tuple[str, ...] | None:
    """The words of the command that starts the emulated GPU's C++ compiler, or None.

    Raises NoCompiler when LLMC_CXX names one that is not there.
    """
    try:
        command = toolchain.find().command
    except NoCompiler:
        if os.environ.get("LLMC_CXX"):
            raise
        return None
    apples = sys.platform == "darwin" and command[0].startswith("/usr/bin/")
    return None if apples and not _has_developer_tools() else command


def _has_developer_tools() -> bool:
    """A bare macOS also has a `c++`, which opens a dialog instead of compiling. This question is safe to ask."""
    try:
        return bool(ask("xcode-select", "-p"))
    except (OSError, subprocess.SubprocessError):
        return False


def gpus() -> list[tuple[str, float, int]]:
    """(name, GiB, major version of the driver) of each NVIDIA GPU; [] without NVIDIA's driver.

    Raises CalledProcessError when the driver is there but does not answer, ValueError when its answer makes no sense.
    """
    if not shutil.which("nvidia-smi"):
        return []
    answer = ask("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")
    rows = [line.rsplit(",", 2) for line in answer.splitlines()]
    return [(name.strip(), _mebibytes(size) / 1024, int(driver.split(".")[0])) for name, size, driver in rows]


def _mebibytes(text) -> float:
    """ "23034"; "[N/A]" where GPU and CPU share one memory."""
    return float("nan") if "N/A" in text else float(text)
