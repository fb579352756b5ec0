"""What can be wrong with what the user gave us. A bug in llmc is none of these and keeps its traceback."""

import errno


class UserError(ValueError):
    """Bad input, explained in one sentence: what is wrong, what to do. The command line exits with its `status`."""

    status = 2


class KernelError(RuntimeError):
    """A CUDA kernel that is wrong. Its text says what and where, and what to do.

    `report` is the Report of the launch that went wrong, None when there was no launch: a kernel that the emulator
    refuses, that does not compile, or whose arguments do not fit. `line` is the line of the kernel, 0 if there is none.
    """

    def __init__(self, report_or_text, line: int = 0):
        super().__init__(str(report_or_text))
        self.report = None if isinstance(report_or_text, str) else report_or_text
        self.line = line


class NoCompiler(KernelError, UserError):
    """There is no C++ compiler here, so no kernel runs on the emulator: a matter of the machine, not of the kernel."""


def cannot(what, error: OSError, other="choose another folder") -> UserError:
    """ "cannot write x: No space left on device; free some space or choose another folder"; other: what else to do."""
    advice = f"free some space or {other}" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else other
    if error.errno in (errno.EMFILE, errno.ENFILE):
        advice = "close some files, or allow more with `ulimit -n`"
    return UserError(f"cannot {what}: {why(error)}; {advice}.")


def why(error: OSError) -> str:
    """The operating system's own words for an OSError, without number and path: "No space left on device"."""
    return error.strerror or str(error)
