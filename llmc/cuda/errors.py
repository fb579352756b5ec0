"""What a learner is told when a kernel cannot be compiled, cannot be launched, or does something wrong."""

from llmc.errors import UserError


class KernelError(RuntimeError):
    """A kernel that is wrong. Its text says what and where, and what to do.

    `report` is the Report of the launch that went wrong, None when there was no launch yet: a kernel that the emulator
    refuses, that does not compile, or whose arguments do not fit. `line` is the line of the kernel, 0 if none.
    """

    def __init__(self, told, line: int = 0):
        super().__init__(str(told))
        self.report = None if isinstance(told, str) else told
        self.line = line


class NoCompiler(KernelError, UserError):
    """There is no C++ compiler here, so no kernel runs on the emulator: a matter of the machine, not of the kernel."""
