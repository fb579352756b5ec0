"""A kernel's text as libraries in memory: the plain build and the checked one, and the variables of both."""

import ctypes

from llmc.cuda.emulator.compiling import compiler
from llmc.cuda.emulator.compiling.compile_errors import undefined
from llmc.cuda.emulator.compiling.source import global_names
from llmc.cuda.emulator.launching import native
from llmc.errors import KernelError


class Build:
    """A text, the kernels wanted from it, the compiler's options. Each library is compiled when it is first needed.

    quick: compiled in less time, to be run a few times.
    """

    def __init__(self, code: str, names, options=(), quick=False):
        if not isinstance(code, str):
            raise KernelError(f"code is a {type(code).__name__}; pass the text of the kernel.")
        self.code, self.names, self.options, self.quick = code, tuple(names), options, quick
        self._libraries = {}

    def library(self, checked: bool) -> native.Library:
        """The library in memory."""
        if checked not in self._libraries:
            path = compiler.compile(self.code, self.names, self.options, checked, self.quick)
            try:
                self._libraries[checked] = native.load(path)
            except OSError as error:
                raise undefined(str(error), self.code) or error from None
        return self._libraries[checked]

    def variable(self, name: str, checked: bool) -> ctypes.Array:
        """The bytes of a __device__ or __constant__ variable: an object with the buffer protocol."""
        found = self.library(checked).global_variable(name) if name in global_names(self.code) else None
        if found is None:
            there = ", ".join(global_names(self.code)) or "none"
            raise KernelError(
                f"there is no __device__ or __constant__ variable {name!r} at file scope; there is {there}."
            )
        address, size = found
        return (ctypes.c_ubyte * size).from_address(address)

    def copy_variables(self, checked: bool):
        """Give the variables of the build `checked` the values that they have in the other build."""
        for name in global_names(self.code):
            source, target = self.variable(name, not checked), self.variable(name, checked)
            ctypes.memmove(target, source, len(source))
