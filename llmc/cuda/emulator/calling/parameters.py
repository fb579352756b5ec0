"""What a kernel takes: its parameters, as its compiled library describes them.

The description is a text of items joined by commas: "p" (pointer), "P" (pointer to const) or "v" (value), then letter
and bytes of an element (f4, i8, b2 for bfloat16, e1 and m1 for fp8, ?1 for bool, ?0 for void, s24 for a struct of 24
bytes), and "x4" where four of them belong together (float4).
"""

import re
from typing import NamedTuple

import numpy as np

from llmc.errors import KernelError

WORDS = {  # the names of these types in C++
    **{"f2": "__half", "f4": "float", "f8": "double", "b2": "__nv_bfloat16", "?0": "void", "?1": "bool"},
    **{"e1": "__nv_fp8_e4m3", "m1": "__nv_fp8_e5m2"},
    **{"i1": "char", "i2": "short", "i4": "int", "i8": "long long"},
    **{"u1": "unsigned char", "u2": "unsigned short", "u4": "unsigned int", "u8": "unsigned long long"},
}
FORMATS = {"i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q"} | {
    **{"f2": "e", "f4": "f", "f8": "d", "?1": "?"}
}


class Parameter(NamedTuple):
    """One parameter of a kernel."""

    kernel: str
    index: int
    name: str
    pointer: bool
    const: bool
    kind: str  # letter and bytes of an element: "f4"
    count: int  # elements in its type: 4 for float4

    @property
    def size(self) -> int:
        """Bytes of the value, or of what the pointer points to."""
        return int(self.kind[1:]) * self.count

    @property
    def type(self) -> str:
        """The C++ name of the element's type."""
        if self.kind[0] == "s":
            return f"struct of {self.size} bytes"
        if self.count == 1:
            return WORDS[self.kind]
        return f"{'uint' if self.kind == 'u4' else WORDS[self.kind]}{self.count}"

    @property
    def declared(self) -> str:
        """The parameter as the kernel may declare it: "const float* x"."""
        return f"{'const ' * self.const}{self.type}{'*' * self.pointer} {self.name}"

    def wrong(self, what: str) -> KernelError:
        """The error for an argument that does not fit."""
        named = "" if self.name.startswith("argument ") else f" ({self.name})"
        return KernelError(f"{self.kernel}: argument {self.index}{named} {what}.")


def parse(signature: str, names=(), kernel: str = "kernel") -> tuple[Parameter, ...]:
    """The parameters of a signature; without a complete list of names they are called "argument 2" and so on."""
    items = signature.split(",") if signature else []
    found = []
    for i, item in enumerate(items):
        match = re.fullmatch(r"([pPv])([a-z?]\d+)(?:x(\d+))?", item)
        name = names[i] if len(names) == len(items) else f"argument {i}"
        found.append(Parameter(kernel, i, name, match[1] in "pP", match[1] == "P", match[2], int(match[3] or 1)))
    return tuple(found)


def dtype_name(parameter):
    """Name of the dtype that a parameter expects."""
    whole = {"b": "bfloat16", "e": "float8_e4m3fn", "m": "float8_e5m2", "?": "bool"}
    kind = {"f": "float", "i": "int", "u": "uint"}.get(parameter.kind[0])
    return f"{kind}{8 * int(parameter.kind[1:])}" if kind else whole.get(parameter.kind[0], "void")


def numpy_name(parameter):
    """How Python writes that dtype: "np.float32", "ml_dtypes.bfloat16"."""
    return f"{'ml_dtypes' if parameter.kind[0] in 'bem' else 'np'}.{dtype_name(parameter)}"


def is_cupy(value):
    return type(value).__module__.split(".")[0] == "cupy"


def described(value):
    """What was passed, in a few words."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with shape {value.shape}"
    if isinstance(value, (int, float, complex, np.generic)):
        return f"the number {value!r}"
    return f"a {type(value).__name__}"
