"""What Numba says about code that it cannot compile: of its long messages, the lines that matter."""

import linecache
import re
import sys
from pathlib import Path
from traceback import walk_tb

WRITES = ("setitem(readonly array", "Cannot modify readonly array", "explicit output that is read-only")
PARALLEL = (
    "Plain Python allows it, but the turns of a prange run at the same time, in any order: leave its "
    "index as it is, and use other names for what changes from turn to turn."
)
ADVICE = "Remove the line `@njit(…)` above the function and run it on small arrays: Python says more."


def by_compiler(error) -> bool:
    """Did Numba raise this while it compiled? An exception that compiled code raises is the learner's own."""
    if "numba" not in sys.modules:
        return False
    if type(error).__module__.startswith("numba."):
        return True
    numba = str(Path(sys.modules["numba"].__file__).parent)
    files = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    return bool(files) and files[-1].startswith(numba) and "No matching definition" not in str(error)


def writes_to_input(error) -> bool:
    """Does Numba refuse to write to a read-only array?"""
    return any(words in str(error) for words in WRITES)


def why_not_compiled(error) -> tuple[str, list[str]]:
    """(what Numba could not compile, further lines: the line of code, what to do)."""
    said = str(error)
    places = re.findall(r'File "([^"]+)", line (\d+)', said)
    code = linecache.getline(places[-1][0], int(places[-1][1])).strip() if places else ""
    at = [f"    in line {places[-1][1]}:  {code}"] if code else []
    if writes_to_input(error):
        return "an input was written to. Inputs must stay as they are: write to the outputs, or to a new array", at
    if isinstance(error, NotImplementedError):
        return f"Numba cannot compile your code; it does not know this: {error}", at
    if not type(error).__module__.startswith("numba."):  # the compiler itself stumbled
        return f"Numba cannot compile your code, and says only {type(error).__name__}: {error}", at
    lines = [line.strip() for line in said.splitlines() if line.strip() and "nopython mode pipeline" not in line]
    parallel = "parallel loop" in said or "prange" in said
    return "Numba cannot compile your code: " + " ".join(lines[:2]), [*at, PARALLEL if parallel else ADVICE]
