"""The doctor's rows about training in several processes: MPI between machines, NCCL between GPUs."""

import ctypes.util
import os
import shutil
import sys
from importlib import metadata
from pathlib import Path

from llmc.course.machine import facts
from llmc.course.machine.advice import Row
from llmc.terminal import pip

NCCL = {"nvidia-nccl-cu13": "cupy-cuda13x", "nvidia-nccl-cu12": "cupy-cuda12x"}  # package -> the CuPy that loads it


def mpi(what) -> Row:
    """mpi4py and mpirun, which belong together."""
    package, mpirun = _version("mpi4py"), _mpirun()
    if package and mpirun:
        return Row(what, f"mpi4py {package}, {mpirun}")
    if not package and not mpirun:
        costs = (
            'nothing on this machine, where --ranks starts the processes; across machines, the extra "mpi" is one way'
        )
        return Row(what, "not installed", "missing", costs)
    found, lacking = (f"mpi4py {package}", "mpich") if package else (mpirun, "mpi4py")
    costs = "mpirun starts processes that do not know of one another" if mpirun else "nothing starts MPI programs"
    return Row(what, f"{found}, but no {'mpi4py' if mpirun else 'mpirun'}", "warning", costs, pip("install", lacking))


def nccl(what) -> Row:
    """NVIDIA's library for several GPUs, from its metadata: loading it would take seconds."""
    here = next((f"{name} {version}" for name in NCCL if (version := _version(name))), None)
    here = here or ctypes.util.find_library("nccl")
    if here:
        return Row(what, here)
    try:
        several = len(facts.gpus()) > 1
    except (ValueError, OSError):
        several = False
    if not several:
        return Row(what, "not installed", "missing", "nothing on a machine without several GPUs")
    fitting = next((name for name, cupy in NCCL.items() if _version(cupy)), next(iter(NCCL)))
    costs = "no model can be trained on several GPUs"
    return Row(what, "not installed", "missing", costs, pip("install", fitting))


def _mpirun() -> str | None:
    """Where mpirun is: that of this environment comes first."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return shutil.which("mpirun", path=places)


def _version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
