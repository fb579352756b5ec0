"""`make gpu-test`: what needs a GPU: kernels, the "cuda" backend, `llmc verify`, lessons 12 to 20 and answers to them.

    python -m llmc.tests.on_gpu [--part PART ...]      parts: tests, verify, answers, lessons; by default all of them

It installs nothing and needs no network: it uses the CuPy and pytest of its own Python, and PyTorch (for GPT-2 124M), a
C++ compiler (for tests that also use the emulator) and Jupyter if they are there; it says which are missing.
"""

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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
TESTS = [path for room in ("cuda", "kernels") for path in sorted(ROOT.glob(f"llmc/tests/{room}/test_*.py"))]
TESTS.append(ROOT / "llmc/tests/commands/test_bench_kernels.py")
AT_ONCE = 4  # processes: each is mostly at work on the host
NAMES = (  # of 18, nothing runs on a GPU
    "12_first_kernels",
    "13_reductions",
    "14_backward_kernels",
    "15_matmul_kernels",
    "16_attention_kernels",
    "17_gpu_training",
    "19_tensor_cores",
    "20_mixed_precision_training",
    "25_fp8_training",
)
LESSONS = [f"{folder}/{name}.ipynb" for name in NAMES for folder in ("notebooks", "solutions")]
EMULATOR_ONLY = "emulator or coalesced or problem or diagnos"  # tests that need the emulator's compiler


def main(words=None) -> int:
    """Run the parts; returns 0 when all passed, else 1. Raises UserError when they cannot run."""
    parser = argparse.ArgumentParser(prog="python -m llmc.tests.on_gpu")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=[*PARTS], help="some of them (default: all)")
    wanted = parser.parse_args(words).part
    prepare()
    failed, told, begin = [], [], perf_counter()
    for part in wanted:
        start, mine = perf_counter(), PARTS[part]()
        failed += mine
        told.append(f"{part:<8} {'FAILED' if mine else 'passed'} {perf_counter() - start:>4.0f} s")
    print("", *told, sep="\n")
    print(f"gpu-test, {perf_counter() - begin:.0f} s: {'all passed' if not failed else 'failed: ' + ', '.join(failed)}")
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


def python(*words, quiet=False) -> bool:
    """Run this Python in the repository; returns whether it succeeded. quiet: of one that did, nothing is shown."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "MPLBACKEND": "Agg"}
    environment.pop("LLMC_DEVICE", None)  # there is a GPU, so use it; some tests choose for themselves
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=quiet, text=True)
    if quiet and done.returncode:
        print(done.stdout, done.stderr, sep="\n", flush=True)
    return done.returncode == 0


# ------------------------------------------------------------------------------------------------------ the parts


def tests() -> list[str]:
    """Run pytest; returns the names of the files with failures."""
    chosen = [] if compiler() else ["-k", f"not ({EMULATOR_ONLY})"]
    # without the options in pyproject.toml, which need nbval
    options = ["-o", "addopts=", "-p", "no:cacheprovider", "-q", "--durations=5", *chosen]
    return _several("pytest", [[*options, file] for file in TESTS])


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


def answers() -> list[str]:
    """Give the checks of lessons 12 to 20 all right answers and one wrong one in five; returns those that failed."""
    return _several("llmc.course.authoring.answers", [["--one-in", 5, name] for name in NAMES])


def lessons() -> list[str]:
    """Run every cell of lessons 12 to 20, and of their solutions; returns the names of the failures."""
    return _several("llmc.course.exercises.cells", [[name] for name in LESSONS])


def _several(module, jobs) -> list[str]:
    """Run a module with these words each, some at once; returns the last words of those that fail."""

    def run(words):
        start, name = perf_counter(), Path(words[-1]).name
        okay = python("-m", module, *words, quiet=True)
        print(f"{'ok' if okay else 'FAILED':<8} {name} {perf_counter() - start:.0f} s", flush=True)
        return [] if okay else [name]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [name for failed in pool.map(run, jobs) for name in failed]


PARTS = {"tests": tests, "verify": verify, "answers": answers, "lessons": lessons}

if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"gpu-test: {error}")
