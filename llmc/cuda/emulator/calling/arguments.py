"""From what a learner hands to a kernel to what the kernel is called with; and everything that can be wrong with it.

A launch never converts. CuPy hands over an array's address and a number's bytes as they are: a Python int as 8 bytes, a
Python float as a double, NumPy's scalars as their own types. What a kernel would read wrongly there is refused here (a
Python float for a `float`, say), so that the same call works on both. Longer integers are taken for shorter parameters
if their value fits, which on a GPU comes to the same. 0 is the null pointer; None is refused, since CuPy makes another
address of it.
"""

import ctypes
from dataclasses import dataclass

import numpy as np

from llmc.cuda.emulator.calling.parameters import Parameter, described, dtype_name, is_cupy, parse
from llmc.cuda.emulator.calling.values import value_bytes
from llmc.errors import KernelError


@dataclass(frozen=True)
class Argument:
    """What one parameter gets: an array's memory, or a value.

    packed: the bytes of a value; None for a pointer. A pointer without an array is the null pointer.
    """

    name: str
    array: np.ndarray | None
    packed: bytes | None
    const: bool


def convert(signature: str, names, args, kernel: str = "kernel") -> list[Argument]:
    """The arguments of a launch as Argument objects, one for each parameter.

    Raises KernelError: wrong count, wrong dtype, not contiguous, read-only, number for an array and the reverse.
    """
    parameters = parse(signature, names, kernel)
    check_count(parameters, args, kernel)
    return [one(parameter, value) for parameter, value in zip(parameters, args)]


def check_count(parameters, args, kernel):
    """Raise KernelError unless there is one argument for each parameter."""
    if not isinstance(args, (tuple, list)):
        hint = " (one argument is (x,), with a comma)" if len(parameters) == 1 else ""
        raise KernelError(f"{kernel}: the arguments are {described(args)}; write them as a tuple{hint}.")
    if len(args) < len(parameters):
        missing = ", ".join(parameter.declared for parameter in parameters[len(args) :])
        raise KernelError(f"{kernel}: {len(args)} arguments of {len(parameters)}; missing: {missing}.")
    if len(args) > len(parameters):
        wanted = ", ".join(parameter.declared for parameter in parameters) or "none"
        raise KernelError(f"{kernel}: {len(args)} arguments, but it takes {len(parameters)}: {wanted}.")


def one(parameter: Parameter, value) -> Argument:
    """One argument, checked. Raises KernelError."""
    if parameter.pointer:
        return _pointer(parameter, value)
    return Argument(parameter.name, None, value_bytes(parameter, value), True)


# ------------------------------------------------------------------------------------------------------ arrays


def _pointer(parameter, value):
    if isinstance(value, int) and not isinstance(value, bool) and value == 0:
        return Argument(parameter.name, None, None, parameter.const)
    if isinstance(value, ctypes.Array):  # what get_global returns
        value = np.frombuffer(value, np.uint8)  # (bytes,)
    elif not isinstance(value, np.ndarray):
        raise _no_array(parameter, value)
    elif not _fits(parameter, value.dtype):
        raise _wrong_dtype(parameter, value)
    if not value.flags.c_contiguous:
        raise parameter.wrong(f"is not contiguous (shape {value.shape}, strides {value.strides}); {_mend_order(value)}")
    if not value.flags.writeable and not parameter.const:
        raise parameter.wrong(f"is read-only, and `{parameter.declared}` may write; copy the array or declare it const")
    return Argument(parameter.name, value, None, parameter.const)


def _mend_order(value):
    if value.T.flags.c_contiguous:
        return "hand over its transpose .T, which lies in memory as it is, or a copy made with np.ascontiguousarray"
    return "a kernel would see the elements in between too: hand over a copy made with np.ascontiguousarray"


def _no_array(parameter, value):
    """The error for something else where an array belongs."""
    if value is None:
        return parameter.wrong("is None; the null pointer is written 0")
    if is_cupy(value):
        return parameter.wrong(
            "is a CuPy array, and this kernel runs on the emulator; convert it with llmc.cuda.asnumpy"
        )
    if isinstance(value, (list, tuple)):
        made = f"np.array(..., np.{dtype_name(parameter)})"
        return parameter.wrong(f"is a {type(value).__name__}; make it an array: {made}")
    return parameter.wrong(f"is {described(value)}, and `{parameter.declared}` takes an array")


def _fits(parameter, dtype):
    """Whether a kernel that expects `parameter` reads elements of this dtype rightly."""
    kind, count = parameter.kind, parameter.count
    if kind == "?0" or kind[0] == "s":
        return True
    if not dtype.isnative:
        return False
    if dtype.itemsize == parameter.size and (dtype.kind == "V" and count > 1 or dtype.kind == "c" and count == 2):
        return dtype.kind != "c" or kind[0] == "f"
    if dtype.itemsize != int(kind[1:]):
        return False
    if kind[0] == "b":
        return dtype.name == "bfloat16" or dtype.kind in "iu"  # or its bits
    return dtype.kind == "f" if kind[0] == "f" else dtype.kind in "iub"


def _wrong_dtype(parameter, value):
    expected = dtype_name(parameter)
    mend = "ml_dtypes.bfloat16" if expected == "bfloat16" else f"np.{expected}"
    was = value.dtype if value.dtype.isnative else f"{value.dtype} (the other byte order)"
    return parameter.wrong(f"is {was}, but `{parameter.declared}` expects {expected}: convert it with .astype({mend})")
