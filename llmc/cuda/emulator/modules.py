"""The emulator's RawModule."""

import ctypes

from llmc.cuda.emulator.build import Build
from llmc.cuda.emulator.compiling.source import kernels
from llmc.cuda.emulator.kernels import RawKernel, checks_by_default, refuse_name
from llmc.errors import KernelError


class RawModule:
    """Several kernels of one text: RawModule(code=..., name_expressions=["scale<float>"]).get_function(name).

    It has the extern "C" kernels, and the instances of templates that name_expressions lists.
    """

    def __init__(self, *, code: str, options=(), name_expressions=None, check: bool | None = None, **of_cupy):
        unknown = set(of_cupy) - {"backend", "translate_cucomplex", "enable_cooperative_groups", "jitify"}
        if unknown:
            raise TypeError(f"RawModule has no argument {sorted(unknown)[0]!r}")
        self.check = checks_by_default() if check is None else bool(check)
        self._expressions = tuple(name_expressions or ())
        linked = [each.name for each in kernels(code) if each.c_linkage and each.certain and not each.template]
        self._build = Build(code, dict.fromkeys([*self._expressions, *linked]), options)

    @property
    def code(self) -> str:
        """The CUDA C text."""
        return self._build.code

    def compile(self, log_stream=None):
        """Compile the module now, not at the first launch."""
        self._build.library(self.check)

    def get_function(self, name: str) -> RawKernel:
        """The kernel of that name, or of a name expression, written just as in name_expressions."""
        if name in self._build.names:
            return RawKernel.of(self._build, name, self.check)
        refuse_name(self.code, name)
        if any(each.name == name for each in kernels(self.code)):  # inside an #if: a build of its own
            return RawKernel.of(Build(self.code, (*self._build.names, name), self._build.options), name, self.check)
        there = ", ".join(self._build.names) or "none"
        raise KernelError(f"there is no kernel {name!r} in this module; there is {there}.")

    def get_global(self, name: str) -> ctypes.Array:
        """The memory of a __device__ or __constant__ variable: xp.ndarray(shape, dtype, module.get_global(name))."""
        return self._build.variable(name, self.check)
