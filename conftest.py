"""How pytest runs the notebooks, on top of nbval (a cell is a test), and what every test run has in common.

nbval's lax mode passes every cell that does not raise. This file adds what that would hide: it skips the cells after a
failure, because the first one is the cause, allows for slow outputs, and fails solutions that say "not done yet". What
can be seen without running (tags that exempt a cell, shell lines) is refused by llmc/tests/house/test_house.py.
"""

import gc
import os
import signal
import sys
from pathlib import Path

import pytest

try:
    from nbval.plugin import IPyNbCell
except ImportError:  # no [test] extras: plain tests still run with `pytest -o addopts= llmc/tests`
    IPyNbCell = ()

os.environ["MPLBACKEND"] = "Agg"  # before anything imports matplotlib: no test opens a window
# Two workers share the machine: with one BLAS thread each, the suite takes two thirds of the processor time. Without
# workers it is the same: how sums are rounded must not depend on how pytest was called. NumPy reads these on import.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "2")  # the "cpu" backend's: two, on every machine, so that cuts are tested
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait leave the cores to the other worker
os.environ.setdefault("LLMC_EMULATOR_THREADS", "1")  # its own tests ask for more; the timed exercises want a quiet core

OF_TESTS = {name: os.environ[name] for name in ("MPLBACKEND", "NUMBA_NUM_THREADS")}

# Some tests send signals; a shell that runs the suite under nohup, or in the background, has them ignored.
for name in ("SIGINT", "SIGHUP"):
    if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
        signal.signal(getattr(signal, name), signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)

# The CUDA emulator does not run on Windows, only inside WSL; on Windows its tests and lessons are not collected.
CUDA = (
    "tests/cuda/",
    "tests/emulator/",
    "tests/kernels/",
    "test_bench_kernels",
    "test_kernel_checks",
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
OF_COURSE = ("first_kernels", "reductions", "backward_kernels", "matmul_kernels", "attention_kernels")
OF_COURSE += ("gpu_training", "mixed_training", "tensor_cores", "fp8_training")
CUDA += tuple(f"course/test_{topic}" for topic in OF_COURSE)


def pytest_ignore_collect(collection_path):
    if sys.platform == "win32" and any(part in collection_path.as_posix() for part in CUDA):
        return True


def pytest_collection_modifyitems(items):
    for item in items:
        if isinstance(item, IPyNbCell):
            item.output_timeout = 60  # seconds between two messages of a cell; nbval's 5 are few on a busy machine


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # eight thousand tests that no later collection need look at


def pytest_xdist_make_scheduler(config, log):
    """As with loadscope, all tests of a module go to one worker; of `test_answers.py`, all tests of a lesson."""
    from xdist.scheduler import LoadScopeScheduling

    class ByLesson(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            module, _, test = nodeid.rpartition("::")
            return module + test.partition("[")[2] * module.endswith("test_answers.py")

    return ByLesson(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if not isinstance(item, IPyNbCell):
        os.environ.update(OF_TESTS)
        if "numba" in sys.modules:  # cuts are the engine's matter; elsewhere the other worker may have the core
            sys.modules["numba"].set_num_threads(2 if "tests/engine" in item.path.as_posix() else 1)
        return
    # The kernel starts in a moment. It must draw inline, as in JupyterLab; and two workers' notebooks that train with
    # two threads each would take half as long again, on two cores, as with one.
    os.environ.pop("MPLBACKEND", None)
    os.environ["NUMBA_NUM_THREADS"] = "1"
    if hasattr(item.parent, "first_failure"):
        pytest.skip(f"{item.parent.first_failure} of this notebook failed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    result = yield
    if isinstance(item, IPyNbCell) and Path(item.path).parent.name == "solutions":
        text = "".join(output.get("text", "") for output in item.test_outputs or [])
        if "not done yet" in text.lower():
            pytest.fail(f"a solution says that it is not done:\n{text}", pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and isinstance(item, IPyNbCell) and not hasattr(item.parent, "first_failure"):
        item.parent.first_failure = item.name
    return report
