"""What Numba says about code that it cannot compile: of its long messages, the lines that matter."""

import re
import sys
from pathlib import Path
from traceback import walk_tb

from llmc.course.old.checks.explain import source_line

STAY = "Inputs must stay as they are: write to the outputs, or to a new array."
WRITES = ("setitem(readonly array", "Cannot modify readonly array", "explicit output that is read-only")
ADVICE = "Remove the line `@njit(…)` above the function and run it on small arrays: Python says more."
PARALLEL = (
    "Plain Python has nothing against it, but the turns of a prange run at the same time, in any order: leave its "
    "index as it is, and use other names for what changes from turn to turn."
)
PYTHON_ONLY = (
    "Plain Python may have nothing against it: Numba knows only a part of the language. Write it in other words."
)


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


def why_not_compiled(error) -> str:
    """Two or three lines: what Numba could not compile, the line of code, what to do."""
    message = str(error)
    places = re.findall(r'File "([^"]+)", line (\d+)', message)
    code = source_line(places[-1][0], int(places[-1][1])) if places else ""
    at = [f"    in the line  {code}"] if code else []
    if writes_to_input(error):
        return "\n".join([f"An input was written to. {STAY}", *at])
    if isinstance(error, NotImplementedError):
        return f"Numba cannot compile your code; it does not know this: {error}."
    if not type(error).__module__.startswith("numba."):  # the compiler itself stumbled
        said = f"Numba cannot compile your code, and says only {type(error).__name__}: {error}"
        return f"{said}. Do you write to an input, or change a variable's type?"
    lines = [line.strip() for line in message.splitlines() if line.strip() and "nopython mode pipeline" not in line]
    return "\n".join(["Numba cannot compile your code: " + " ".join(lines[:2]), *at, _advice(error)])


def _advice(error) -> str:
    """What to do. Python without Numba says more of a wrong type or name, and nothing of what Numba alone forbids."""
    if "parallel loop" in str(error) or "prange" in str(error):
        return PARALLEL
    return PYTHON_ONLY if type(error).__name__.startswith("Unsupported") else ADVICE
