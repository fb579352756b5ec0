"""What a kernel keeps from one launch to the next: a __device__ variable that its second launch finds changed."""

import copy
from contextlib import suppress

import numpy as np

from llmc.cuda.emulator.build import Build
from llmc.cuda.emulator.compiling.source import global_names
from llmc.errors import KernelError, NoCompiler, UserError

CLOSE = dict(rtol=1e-3, atol=1e-4, equal_nan=True)


class Kept:
    """Made before the first launch of a check, on which `after` looks back; of kernels without such variables nothing.

    arguments: of that launch.
    """

    def __init__(self, code, kernel, options, arguments):
        self._first = self._again = None
        self._variables, self._held = {}, {}
        with suppress(KernelError, NoCompiler, UserError):  # of which the launch itself will tell
            if names := global_names(code):
                build = Build(code, (kernel,), options)
                self._variables = {name: build.variable(name, True) for name in names}
        if self._variables:
            self._held = {name: bytes(each) for name, each in self._variables.items()}
            self._arguments = copy.deepcopy(arguments)

    def after(self, arguments, again):
        """Note what that launch, which was right, left; again(arguments): makes it once more and returns the report."""
        if any(bytes(each) != self._held[name] for name, each in self._variables.items()):
            self._first, self._again = copy.deepcopy(arguments), again

    def told(self) -> str:
        """A sentence if a second launch on the same numbers gives others; else "". It is made only once.

        The variables then hold again what they held before the first launch, for the next check of this kernel.
        """
        if self._again is None:
            return ""
        first, again, self._again = self._first, self._again, None
        changed = [name for name, each in self._variables.items() if bytes(each) != self._held[name]]
        report = again(self._arguments)
        alike = all(np.allclose(a, b, **CLOSE) for a, b in zip(first, self._arguments) if isinstance(a, np.ndarray))
        if alike and not report.problems or not changed:
            return ""
        for name, each in self._variables.items():
            each[:] = self._held[name]
        names = " and ".join(f"`{name}`" for name in changed)
        keeps, they = ("keeps", "it") if len(changed) == 1 else ("keep", "them")
        return (
            f"right, but only the first time: a second launch on the same numbers gives others. {names} {keeps} what "
            f"the last launch left: set {they} back at its end, or do without {they}."
        )
