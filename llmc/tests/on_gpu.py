"""`make gpu-test`: the tests that need a GPU: the kernels, the "cuda" backend, `llmc verify`, lessons 12 to 17, 20.

    python -m llmc.tests.on_gpu [PART ...]      parts: tests, verify, lessons; by default all of them

It installs nothing and needs no network: it uses the CuPy and pytest of its own Python, and PyTorch (for GPT-2 124M), a
C++ compiler (for tests that also use the emulator) and Jupyter if they are there; it says which are missing.
"""

import argparse
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from llmc import cuda
from llmc.course.exercises.cells import has_jupyter
from llmc.errors import UserError
from llmc.parity.cases import CASES
from llmc.terminal import pip
from llmc.tests.llmc_files import write_files

ROOT = Path(__file__).resolve().parents[2]
TESTS = [ROOT / "llmc/tests/kernels", ROOT / "llmc/tests/commands/test_bench_kernels.py"]
NAMES = (
    "12_first_kernels",
    "13_reductions",
    "14_backward_kernels",
    "15_matmul_kernels",
    "16_attention_kernels",
    "17_gpu_training",
    "19_tensor_cores",
    "20_mixed_precision_training",
)
LESSONS = [f"{folder}/{name}.ipynb" for name in NAMES for folder in ("notebooks", "solutions")]
EMULATOR_ONLY = "emulator or coalesced or problem or diagnos"  # tests that need the emulator's compiler


def main(words=None) -> int:
    """Run the parts; returns 0 when all passed, else 1. Raises UserError when they cannot run."""
    parser = argparse.ArgumentParser(prog="python -m llmc.tests.on_gpu")
    parser.add_argument("parts", nargs="*", metavar="PART", help="tests, verify or lessons (default: all of them)")
    wanted = parser.parse_args(words).parts or list(PARTS)
    if unknown := set(wanted) - set(PARTS):
        raise UserError(f"there is no part {min(unknown)!r}; choose from {', '.join(PARTS)}.")
    prepare()
    failed = [name for part in wanted for name in PARTS[part]()]
    print(f"\ngpu-test: {'all passed' if not failed else 'failed: ' + ', '.join(failed)}")
    return 1 if failed else 0


def prepare():
    """Print what this machine has. Raises UserError when it has no GPU or no pytest."""
    if cuda.device("gpu") and find_spec("pytest") is None:
        raise UserError(f"gpu-test needs pytest; install it with `{pip('install', 'pytest')}`.")
    import cupy

    from llmc.cuda import name_of_gpu

    print(f"{name_of_gpu()}, CuPy {cupy.__version__}, Python {sys.version.split()[0]}")
    if not compiler():
        print("no C++ compiler: the tests that use the emulator are left out (apt install g++, or pip install ziglang)")
    if find_spec("torch") is None:
        print("no PyTorch: the comparison with GPT-2 124M is left out")
    if not has_jupyter():
        print("no Jupyter: the cells of the lessons run as plain Python")
    sys.stdout.flush()


def compiler() -> bool:
    """Whether there is a C++ compiler for the emulator."""
    from llmc.cuda.emulator.compiling import toolchain
    from llmc.errors import NoCompiler

    try:
        return bool(toolchain.find())
    except NoCompiler:
        return False


def python(*words) -> bool:
    """Run this Python in the repository; returns whether it succeeded."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "MPLBACKEND": "Agg"}
    environment.pop("LLMC_DEVICE", None)  # there is a GPU, so use it; some tests choose for themselves
    return subprocess.run([sys.executable, *map(str, words)], cwd=ROOT, env=environment).returncode == 0


# ------------------------------------------------------------------------------------------------------ the parts


def tests() -> list[str]:
    """Run pytest; returns the names of the failures."""
    chosen = [] if compiler() else ["-k", f"not ({EMULATOR_ONLY})"]
    # without the options in pyproject.toml, which need nbval
    options = ["-o", "addopts=", "-p", "no:cacheprovider", "-q", "--durations=5", *chosen]
    return [] if python("-m", "pytest", *options, *TESTS) else ["tests"]


def verify() -> list[str]:
    """Run `llmc verify --backend cuda` on the fixtures that PyTorch made; returns the names of the failures."""
    failed = []
    for case in CASES:
        with TemporaryDirectory() as folder:
            model, state, losses = write_files(case, Path(folder))
            for recipe in "AB":
                options = "--backend", "cuda", "--recipe", recipe, "--losses", losses
                okay = python("-m", "llmc.cli", "verify", model, state, *options)
                failed += [] if okay else [f"verify {case.name} {recipe}"]
    return failed


def lessons() -> list[str]:
    """Run every cell of lessons 12 to 17 and 20, and of their solutions; returns the names of the failures."""
    failed = []
    for name in LESSONS:
        start = perf_counter()
        okay = python("-m", "llmc.course.exercises.cells", ROOT / name)
        print(f"{'ok' if okay else 'FAILED':<8} {name} {perf_counter() - start:.0f} s", flush=True)
        failed += [] if okay else [name]
    return failed


PARTS = {"tests": tests, "verify": verify, "lessons": lessons}

if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"gpu-test: {error}")
