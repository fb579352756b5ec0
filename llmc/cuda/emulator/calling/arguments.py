"""The arguments of a launch, checked: everything that can be wrong with them is found here.

A launch never converts. CuPy passes on an array's address and a number's bytes as they are: a Python int as 8 bytes, a
Python float as a double, NumPy's scalars as their own types. Whatever a kernel would then misread is refused here (a
Python float for a `float`, say), so that the same call works on both. A longer integer is accepted for a shorter
parameter if its value fits, which has the same effect on a GPU. 0 is the null pointer; None is refused, since CuPy
turns it into a different address.
"""

import ctypes
from dataclasses import dataclass

import numpy as np

from llmc.cuda.emulator.calling.maps import SIZE, TensorMap, described_by
from llmc.cuda.emulator.calling.parameters import Parameter, described, dtype_name, is_cupy, numpy_name, parse
from llmc.cuda.emulator.calling.values import value_bytes
from llmc.errors import KernelError

FIRST, LAST = 1 << 16, 1 << 48  # all arrays lie between them
MOST = 1 << 20  # bytes of an argument that are searched for addresses


@dataclass(frozen=True)
class Argument:
    """What one parameter receives: an array's memory, or a value.

    packed: the bytes of a value; None for a pointer. A pointer without an array is the null pointer. map: a tensor map,
    given by value or by pointer; then `array` is what it describes. points: there may be addresses in it.
    """

    name: str
    array: np.ndarray | None
    packed: bytes | None
    const: bool
    map: TensorMap | None = None
    points: bool = False

    def words(self) -> np.ndarray:
        """The 8-byte words that may be addresses, (words,) uint64."""
        if self.array is not None:
            data = self.array.tobytes() if self.array.nbytes <= MOST else b""
        else:
            data = self.packed or b""
        words = np.frombuffer(data[: len(data) // 8 * 8], np.uint64)
        return words[(words >= FIRST) & (words < LAST)]


def convert(signature: str, names, args, kernel: str = "kernel") -> list[Argument]:
    """The arguments of a launch as Argument objects, one for each parameter.

    Raises KernelError: wrong count, wrong dtype, not contiguous, read-only, a number for an array or the reverse.
    """
    parameters = parse(signature, names, kernel)
    check_count(parameters, args, kernel)
    return [one(parameter, value) for parameter, value in zip(parameters, args)]


def check_count(parameters, args, kernel):
    """Raise KernelError unless there is one argument for each parameter."""
    if not isinstance(args, (tuple, list)):
        hint = " (a tuple of one has a comma: (x,))" if len(parameters) == 1 else ""
        raise KernelError(f"{kernel}: the arguments are {described(args)}; write them as a tuple{hint}.")
    if len(args) < len(parameters):
        missing = ", ".join(parameter.declared for parameter in parameters[len(args) :])
        raise KernelError(f"{kernel}: only {len(args)} of {len(parameters)} arguments were passed; missing: {missing}.")
    if len(args) > len(parameters):
        wanted = ", ".join(parameter.declared for parameter in parameters) or "none"
        raise KernelError(f"{kernel}: {len(args)} arguments were passed, but it takes {len(parameters)}: {wanted}.")


def one(parameter: Parameter, value) -> Argument:
    """One argument, checked. Raises KernelError."""
    if parameter.kind == f"s{SIZE}" and (found := described_by(value)) is not None:
        if is_cupy(found.array):
            raise parameter.wrong("maps a CuPy array, but this kernel runs on the emulator")
        packed = None if parameter.pointer else found.tobytes()
        return Argument(parameter.name, found.memory, packed, not found.array.flags.writeable, found)
    if parameter.pointer:
        return _pointer(parameter, value)
    return Argument(parameter.name, None, value_bytes(parameter, value), True, points=parameter.kind[0] == "s")


# ------------------------------------------------------------------------------------------------------ arrays


def _pointer(parameter, value):
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value == 0:
        return Argument(parameter.name, None, None, parameter.const)
    if isinstance(value, ctypes.Array):  # what get_global returns
        value = np.frombuffer(value, np.uint8)  # (bytes,)
    elif not isinstance(value, np.ndarray):
        raise _no_array(parameter, value)
    elif not _fits(parameter, value.dtype):
        raise _wrong_dtype(parameter, value)
    if value.flags.f_contiguous and value.ndim > 1:
        value = value.T  # a kernel sees the memory, which is the same
    if not value.flags.c_contiguous:
        raise parameter.wrong(
            f"is not contiguous (shape {value.shape}, strides {value.strides}); a kernel would also "
            "see the elements in between: pass a copy made with np.ascontiguousarray"
        )
    if not value.flags.writeable and not parameter.const:
        raise parameter.wrong(
            f"is read-only, but `{parameter.declared}` may write to it; copy the array, or declare the parameter const"
        )
    points = parameter.kind[0] == "s" and int(parameter.kind[1:]) >= 8  # an address has 8 bytes
    return Argument(parameter.name, value, None, parameter.const, points=points)


def _no_array(parameter, value):
    """The error for something that is not an array where an array belongs."""
    if value is None:
        return parameter.wrong("is None; for the null pointer, pass 0")
    if is_cupy(value):
        return parameter.wrong(
            "is a CuPy array, but this kernel runs on the emulator; convert it with llmc.cuda.asnumpy"
        )
    if isinstance(value, (list, tuple)):
        made = f"np.array(..., {numpy_name(parameter)})"
        return parameter.wrong(f"is a {type(value).__name__}; turn it into an array with {made}")
    return parameter.wrong(f"is {described(value)}, but `{parameter.declared}` takes an array")


def _fits(parameter, dtype):
    """Whether a kernel that expects `parameter` reads elements of this dtype correctly."""
    kind, count = parameter.kind, parameter.count
    if kind == "?0" or kind[0] == "s":
        return True
    if not dtype.isnative:
        return False
    if dtype.itemsize == parameter.size and (dtype.kind == "V" and count > 1 or dtype.kind == "c" and count == 2):
        return dtype.kind != "c" or kind[0] == "f"
    if dtype.itemsize != int(kind[1:]):
        return False
    if kind[0] in "bem":
        return dtype.name == dtype_name(parameter) or dtype.kind in "iu"  # or its bits
    return dtype.kind == "f" if kind[0] == "f" else dtype.kind in "iub"


def _wrong_dtype(parameter, value):
    expected = dtype_name(parameter)
    mend = numpy_name(parameter)
    was = value.dtype if value.dtype.isnative else f"{value.dtype} (the other byte order)"
    told = f"is {was}, but `{parameter.declared}` expects {expected}: convert it with .astype({mend})"
    if parameter.count > 1 and value.nbytes % parameter.size == 0:
        told += f", or take its bytes as they are with .view({mend})"
    return parameter.wrong(told)
