"""A kernel of an exercise, run on the emulator with every diagnosis, and on the GPU if there is one."""

import os
from contextlib import contextmanager

import numpy as np

from llmc import cuda
from llmc.course.checks.comparison import compare
from llmc.course.checks.guards.inputs import BAND, guard_of, guarded
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.errors import NoCompiler, UserError
from llmc.kernels.tensor_cores import compute_capability

SECONDS = 10  # a launch of an exercise takes milliseconds; one that never ends should not take a minute to say so
AGREE = 1e-3  # relative to the largest entry: emulator and GPU add in different orders, and their exps differ
CANCELLED = 16 * 2.0**-23  # of the largest float32 that a launch reads: what is smaller everywhere may be rounding
AGREE_IN_16_BITS = 2.0**-7  # relative: where those digits decide, a bfloat16 is rounded to the other neighbour


def emulate(code, kernel, grid, block, arguments, *, shared_mem=0, options=(), outputs=(), look=""):
    """The emulator's Report of one launch; NumPy arrays are written. outputs: indices of arrays to be overwritten.

    WrongAnswer if the kernel cannot be compiled, is refused, or does not fit its arguments. look: where to look then.
    """
    try:
        kernel = cuda.RawKernel(code, kernel, options)
        with patience(SECONDS):
            return cuda.inspect(kernel, grid, block, tuple(arguments), shared_mem, outputs=outputs)
    except NoCompiler as error:  # not the kernel's fault
        raise WrongAnswer(f"this check cannot run here: {error}") from None
    except (cuda.KernelError, UserError) as error:
        first, *rest = str(error).split("\n")
        raise WrongAnswer(f"the kernel does not run. {first}", Kind.EMULATOR, more=rest, look=look) from None


@contextmanager
def patience(seconds):
    """Let the emulator stop launches that take longer, unless the user has set another limit."""
    mine = "LLMC_EMULATOR_SECONDS" not in os.environ
    if mine:
        os.environ["LLMC_EMULATOR_SECONDS"] = str(seconds)
    try:
        yield
    finally:
        if mine:
            del os.environ["LLMC_EMULATOR_SECONDS"]


def on_gpu(capability=0) -> bool:
    """Would llmc.cuda launch on a GPU, and on one of at least this compute capability, 90 for Hopper?"""
    return cuda.device() == "gpu" and (not capability or compute_capability("gpu") >= capability)


def run_on_gpu(code, kernel, grid, block, arguments, *, shared_mem=0, options=()):
    """The same launch on the GPU, of copies: a list of what its arrays hold afterwards, None for scalars.

    WrongAnswer if something just outside of an array was written: that did not happen on the emulator.
    """
    wholes = {id(a): _banded(a) for a in arguments if isinstance(a, np.ndarray)}
    given = [_inner(wholes[id(a)], a) if id(a) in wholes else a for a in arguments]
    try:
        cuda.RawKernel(code, kernel, options, check=False)(grid, block, tuple(given), shared_mem=shared_mem)
        cuda.synchronize()
    except Exception as error:  # NVRTC's, the driver's or the runtime's, each of another class
        why = str(error).strip() or type(error).__name__
        raise WrongAnswer(f"right on the emulator, but it does not run on the GPU: {why}") from None
    after = {key: cuda.asnumpy(whole) for key, whole in wholes.items()}
    for k, a in enumerate(arguments):
        if id(a) in after and not _bands_whole(after[id(a)]):
            raise WrongAnswer(f"on the GPU, argument {k} of {kernel} was written outside of its bounds.")
    return [_inner(after[id(a)], a) if id(a) in after else None for a in arguments]


def agree(name, gpu, emulator, read=()):
    """WrongAnswer if an array from the GPU differs from the emulator's where the latter is finite.

    read: the arrays that the launch only reads. If an array is no larger than their rounding, as where numbers
    cancel, each side may have its own.
    """
    tolerance = absolute = None
    if not np.issubdtype(emulator.dtype, np.integer):
        finite = np.isfinite(emulator.astype(np.float64))
        tolerance = AGREE if emulator.itemsize > 2 else AGREE_IN_16_BITS
        gpu, emulator = gpu[finite], emulator[finite]
        sizes = [np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in read if a.dtype == np.float32]
        rounding = CANCELLED * max(sizes, default=0.0)
        absolute = rounding if np.abs(emulator.astype(np.float64)).max(initial=0.0) <= rounding else None
    if emulator.size:
        compare(f"{name} on the GPU, compared with the emulator's,", gpu, emulator, tolerance, absolute)


def _banded(array):
    """A device array with the array's elements between guard elements."""
    return cuda.xp.asarray(guarded(array).whole)


def _inner(whole, array):
    return whole[BAND : BAND + array.size].reshape(array.shape)


def _bands_whole(whole) -> bool:
    guard = guard_of(whole.dtype)
    return bool((whole[:BAND] == guard).all() and (whole[-BAND:] == guard).all())
