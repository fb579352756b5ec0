"""Environment variables that Numba reads: a wrong one becomes a sentence here; Numba's own answer is a traceback.

Call `check` before the first import of Numba. Where a notebook has imported Numba already, it has said what it had to.
"""

import os
import re
import warnings
from functools import cache

from llmc.errors import UserError

ALWAYS_FINE = 32  # threads: each takes memory of its own
# How Numba's warning about a value of the wrong type begins; it goes on with a traceback.
UNREADABLE = re.compile(
    r"Environment variable '(\w+)' is defined but its associated value '(.*?)' could not", re.DOTALL
)


@cache
def check():
    """Import Numba. Raises UserError for a variable that it, or this backend, cannot work with."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")  # also under PYTHONWARNINGS=error
        try:
            import numba
        except ValueError as error:
            raise _refusal("NUMBA_NUM_THREADS", error) from None
    for warning in said:
        if found := UNREADABLE.match(str(warning.message)):
            raise UserError(f"{found[1]} is {found[2]!r}, which Numba cannot read; correct it or unset it.")
    most = max(ALWAYS_FINE, 2 * (os.cpu_count() or 1))
    if numba.config.NUMBA_NUM_THREADS > most:
        threads = numba.config.NUMBA_NUM_THREADS
        raise UserError(
            f"NUMBA_NUM_THREADS is {threads}, far more threads than this machine has cores; choose at most {most}."
        )
    if numba.config.DISABLE_JIT:
        raise UserError("NUMBA_DISABLE_JIT leaves the cpu backend without its kernels; unset it, or choose numpy.")


def check_threads():
    """Start Numba's threads. Raises UserError when a variable asks for a kind of threads that is not available."""
    import numba

    try:
        numba.get_num_threads()
    except (ValueError, RuntimeError) as error:
        raise _refusal("NUMBA_THREADING_LAYER", error) from None


def _refusal(name, error) -> UserError:
    text = " ".join(str(error).split(".")[0].split())
    return UserError(f"{name} is {os.environ.get(name, '')!r}, and Numba says: {text}; correct it or unset it.")
