"""Bad input is one exception with one sentence for the user. A bug in llmc is no UserError and keeps its traceback."""


class UserError(ValueError):
    """Bad input, told in one sentence: what is wrong, what to do. The command line prints it and exits with 2."""


def why(error: OSError) -> str:
    """The operating system's own words for an OSError, without number and path: "No space left on device"."""
    return error.strerror or str(error)
