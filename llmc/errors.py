"""Errors for anything wrong with the user's input. A bug in llmc raises none of these and keeps its traceback."""

import errno


class UserError(ValueError):
    """Bad input, explained in one sentence: what is wrong and what to do. The command line exits with its `status`."""

    status = 2


class KernelError(RuntimeError):
    """A mistake in a CUDA kernel. Its text says what is wrong, where, and what to do.

    `report` is the Report of the launch that went wrong, or None if there was no launch because the emulator refused
    the kernel, it did not compile, or its arguments did not fit. `line` is the line in the kernel, or 0 if there is
    none.
    """

    def __init__(self, report_or_text, line: int = 0):
        super().__init__(str(report_or_text))
        self.report = None if isinstance(report_or_text, str) else report_or_text
        self.line = line


class NoCompiler(KernelError, UserError):
    """There is no C++ compiler here, so the emulator cannot run kernels: a problem with the machine, not the kernel."""


def cannot(what, error: OSError, other="choose another folder") -> UserError:
    """ "cannot write x: No space left on device; free some space or choose another folder"; other: what else to try."""
    advice = f"free some space or {other}" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else other
    if error.errno in (errno.EMFILE, errno.ENFILE):
        advice = "close some files, or allow more with `ulimit -n`"
    return UserError(f"cannot {what}: {why(error)}; {advice}.")


def why(error: OSError) -> str:
    """The operating system's description of an OSError, without number and path: "No space left on device"."""
    return error.strerror or str(error)
