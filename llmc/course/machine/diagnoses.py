"""The doctor's rows about the machine: from facts (facts.py, openblas.py) to what they mean for the course."""

import os
import platform
import subprocess
import sys
from collections import Counter
from pathlib import Path

from llmc.course.machine import facts, openblas
from llmc.course.machine.advice import Row, install_compiler, set_variable, unset_variables
from llmc.errors import NoCompiler
from llmc.terminal import llmc_command, pip

GiB = 2**30
ENOUGH_MEMORY = 1 * GiB  # `llmc train` takes a fraction of it


def system(what) -> Row:
    """Operating system and kind of CPU."""
    return Row(what, f"{platform.system()} on {platform.machine()}")


def cores(what) -> Row:
    """The cores that this process may use."""
    usable, there = facts.cores()
    found = f"{usable:g}" if usable == there else f"{usable:g} of {there}; this process may not use the others"
    if usable >= 2:
        return Row(what, found)
    return Row(what, found, "warning", "training takes about twice as long as the lessons say")


def memory(what) -> Row:
    """The memory that this process may use."""
    size = facts.memory()
    found = f"{size / GiB:.{0 if size > 9.5 * GiB else 1}f} GiB"
    if size >= ENOUGH_MEMORY:
        return Row(what, found)
    smaller = llmc_command("train", "--batch-size", "4")
    return Row(what, found, "warning", "training may not fit; a smaller batch would", smaller)


def blas(what) -> Row:
    """Which BLAS multiplies matrices, and whether it uses all that this CPU can do, on all cores."""
    name, version = openblas.build()
    if not name:
        costs = "matrix products, most of the work, run many times slower"
        return Row(what, "none", "missing", costs, pip("install", "--force-reinstall", "numpy"))
    asked = openblas.loaded() if "mkl" not in name and "accelerate" not in name else None  # these two choose well
    if asked is None:
        return Row(what, f"{name} {version}".strip())
    kernels, threads = asked
    instructions = openblas.KERNELS.get(kernels.lower())
    found = f"{name} {version}, {kernels} kernels{f' ({instructions})' if instructions else ''}, {threads} thread"
    found += "s" * (threads != 1)
    return _slow_kernels(what, found, kernels) or _few_threads(what, found, threads) or Row(what, found)


def _slow_kernels(what, found, kernels):
    flags = facts.cpu_flags()
    if not openblas.falls_short(kernels, flags):
        return None
    best, instructions = openblas.best_level(flags), openblas.KERNELS[kernels.lower()]
    costs = f"this CPU has {best}, but BLAS uses {instructions}: matrix products may take twice as long"
    if os.environ.get("OPENBLAS_CORETYPE"):
        costs += "; the variable OPENBLAS_CORETYPE is the reason"
        return Row(what, found, "warning", costs, unset_variables("OPENBLAS_CORETYPE"))
    return Row(what, found, "warning", costs, set_variable("OPENBLAS_CORETYPE", openblas.FORCE[best]))


def _few_threads(what, found, threads):
    """A row only when a variable is the reason: OpenBLAS has a limit of its own on very large machines."""
    names = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
    limits, usable = [name for name in names if os.environ.get(name)], int(facts.cores()[0])
    if threads >= usable or not limits:
        return None
    return Row(what, found, "warning", f"matrix products use {threads} of {usable} cores", unset_variables(*limits))


def compiler(what) -> Row:
    """A C++ compiler: the emulated GPU compiles kernels with it, even next to a real GPU."""
    costs = "no kernel runs on the emulated GPU, so no CUDA lesson (12 and later) and no check of a CUDA exercise"
    if sys.platform == "win32":
        return Row(what, "not looked for: the emulated GPU needs Linux or macOS", "missing", costs, "wsl --install")
    try:
        command = facts.compiler()
    except NoCompiler:
        found = f"LLMC_CXX is {os.environ['LLMC_CXX']}, which is not installed"
        return Row(what, found, "warning", costs, unset_variables("LLMC_CXX"))
    if command:
        return Row(what, " ".join([Path(command[0]).name, *command[1:]]))
    package = pip("install", "ziglang")
    install = install_compiler()
    costs += f"; without administrator rights, run `{package}` instead" * bool(install)
    return Row(what, "not found", "missing", costs, install or package)


def gpu(what) -> Row:
    """NVIDIA GPUs, the only ones that the course's kernels run on."""
    try:
        here = Counter(f"{name}, {size:.0f} GiB".removesuffix(", nan GiB") for name, size, _ in facts.gpus())
    except (ValueError, subprocess.SubprocessError):
        costs = "the GPU stays idle; after a driver update, restart the machine"
        return Row(what, "nvidia-smi does not answer properly", "warning", costs, "nvidia-smi")
    if here:
        return Row(what, "; ".join(f"{n} × {name}" if n > 1 else name for name, n in here.items()))
    costs = "the CUDA lessons run on an emulated GPU: correct, but slow"
    return Row(what, "no NVIDIA GPU", "missing", costs)
