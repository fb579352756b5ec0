"""What a kernel keeps from one launch to the next: a __device__ variable that its second launch finds changed."""

import copy
from contextlib import suppress

import numpy as np

from llmc.cuda.emulator.build import Build
from llmc.cuda.emulator.compiling.source import global_names
from llmc.errors import KernelError, NoCompiler, UserError

CLOSE = dict(rtol=1e-3, atol=1e-4, equal_nan=True)


class Kept:
    """Made before the first launch of a check, on which `after` looks back; for kernels without such variables nothing.

    arguments: of that launch.
    """

    def __init__(self, code, kernel, options, arguments):
        self._variables, self._again = {}, None
        with suppress(KernelError, NoCompiler, UserError):  # of which the launch itself will tell
            if names := global_names(code):
                build = Build(code, (kernel,), options)
                self._variables = {name: build.variable(name, True) for name in names}
        self._held, self._arguments = self._now(), copy.deepcopy(arguments) if self._variables else None

    def _now(self) -> dict:
        return {name: bytes(each) for name, each in self._variables.items()}

    def after(self, arguments, again):
        """Note what that launch, which was right, left; again(arguments): makes it once more and returns the report."""
        if self._now() != self._held:
            self._first, self._again = copy.deepcopy(arguments), again

    def told(self) -> str:
        """A sentence if a second launch on the same numbers gives others; else "". It is made only once.

        The variables are then as they were before the first launch, for the next check of this kernel.
        """
        again, self._again = self._again, None
        changed = [name for name, each in self._now().items() if each != self._held[name]] if again else []
        report = again(self._arguments) if again else None
        pairs = zip(self._first, self._arguments) if again else ()
        alike = all(np.allclose(a, b, **CLOSE) for a, b in pairs if isinstance(a, np.ndarray))
        if not changed or alike and not report.problems:
            return ""
        for name, each in self._variables.items():
            each[:] = self._held[name]
        names = " and ".join(f"`{name}`" for name in changed)
        keeps, they = ("keeps", "it") if len(changed) == 1 else ("keep", "them")
        return (
            f"right, but only the first time: a second launch on the same numbers gives different results. {names} "
            f"{keeps} what the last launch left: reset {they} at the end of the kernel, or do without {they}."
        )
