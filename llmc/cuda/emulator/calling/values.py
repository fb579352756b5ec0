"""Numbers and structs that a kernel takes by value. Bytes are passed on, never converted: see arguments.py."""

import struct

import numpy as np

from llmc.cuda.emulator.calling.parameters import FORMATS, described, dtype_name, is_cupy, numpy_name


def value_bytes(parameter, value) -> bytes:
    """The bytes of a parameter that is passed by value."""
    kind = parameter.kind
    if kind[0] == "s" or parameter.count > 1:
        return _bytes_of_struct(parameter, value)
    if isinstance(value, np.ndarray) or is_cupy(value):
        raise parameter.wrong(f"is {described(value)}, but `{parameter.declared}` takes one number: x.item() is one")
    if not isinstance(value, (bool, int, float, np.generic)):
        raise parameter.wrong(f"is {described(value)}, but `{parameter.declared}` takes a number")
    return _float(parameter, value) if kind[0] in "fbem" else _integer(parameter, value)


def _integer(parameter, value):
    mend = "round it with int(...)" if parameter.kind != "?1" else "pass True or False"
    if isinstance(value, float) or isinstance(value, np.generic) and value.dtype.kind not in "iub":
        raise parameter.wrong(f"is {described(value)}, but `{parameter.declared}` takes an integer: {mend}")
    if isinstance(value, np.generic) and value.itemsize < parameter.size:
        sizes = f"has {value.itemsize} bytes where `{parameter.declared}` reads {parameter.size}"
        mend = f"pass int(...) or np.{dtype_name(parameter)}(...)"
        raise parameter.wrong(f"is a NumPy {value.dtype}, which {sizes}: {mend}")
    number = int(value)
    if parameter.kind == "?1" and number not in (0, 1):
        raise parameter.wrong(f"is {number}, but `{parameter.declared}` is True or False")
    try:
        return struct.pack(FORMATS[parameter.kind], number)
    except struct.error:
        bits = 8 * parameter.size
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if parameter.kind[0] == "i" else (0, 2**bits - 1)
        raise parameter.wrong(f"is {number}, which `{parameter.declared}` cannot hold ({low} to {high})") from None


def _float(parameter, value):
    """Only the parameter's own type will do: any other has other bytes, and nothing converts them on a GPU."""
    wanted = dtype_name(parameter)
    if isinstance(value, np.generic):
        if value.dtype.name == wanted or parameter.kind[0] in "bem" and value.dtype == f"u{parameter.size}":
            return value.tobytes()
    elif isinstance(value, float) and wanted == "float64":
        return struct.pack("d", value)
    known = "a Python float, which CuPy passes on as a double" if type(value) is float else described(value)
    write = f"{numpy_name(parameter)}({_short(value)})"
    raise parameter.wrong(f"is {known}, but `{parameter.declared}` reads {wanted}: write {write}")


def _short(value):
    """A number as one would write it: 0.5, not np.float64(0.5)."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def _bytes_of_struct(parameter, value):
    if isinstance(value, complex) and not isinstance(value, np.generic):
        value = np.complex128(value)
    if isinstance(value, (np.ndarray, np.generic)) and value.nbytes == parameter.size:
        return value.tobytes()
    mend = f"pass a NumPy array or scalar of {parameter.size} bytes"
    raise parameter.wrong(f"is {described(value)}, but `{parameter.declared}` is passed by value: {mend}")
