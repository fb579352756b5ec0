"""Lesson 11: what its checks ask of a kernel beside its numbers: does it compile, race, hide a NaN, compute in float64?

A learner's function may be a Numba kernel, call some, or be plain NumPy; then there is nothing to ask.
"""

import re
from pathlib import Path
from traceback import walk_tb
from types import FunctionType

import numba
from numba.core.errors import NumbaError

from llmc.course.checks.explain import WrongAnswer, source_line
from llmc.course.checks.inputs import read_only

# where to look; a test holds these titles against the headings of notebooks/11_fast_on_cpu.ipynb
RACE = 'lesson 11, section "9.1 · A race"'
HIDDEN = 'lesson 11, section "9.2 · A NaN that nobody sees"'
CONSTANTS = 'lesson 11, section "3.1 · Compile it"'
COMPILED = 'lesson 11, section "3 · Your first kernel"'
NUMBA = str(Path(numba.__file__).parent)
NAN_LOST = (
    "a NaN went in and a number came out. Was the kernel compiled with fastmath=True, which assumes there is none? "
    f"Or does a comparison turn it into a limit? A loss that diverged must stay visible; {HIDDEN}"
)


def no_race(watch):
    """Raise WrongAnswer when `find_races` saw one; None (it could not look) is no evidence."""
    if watch is not None and watch.races:
        raise WrongAnswer(
            f"a race: {watch.races[0]}. Numba may run both at the same time, and then one of them is lost.\n"
            f"→ Where to look: {RACE}."
        )


def compile_first(function, *arguments, outputs):
    """Call the function on copies, the first `outputs` of them writable: inside of c.call, compiling takes far longer.

    Raises WrongAnswer when Numba cannot compile it. What else goes wrong here goes wrong in c.call again, explained.
    """
    copies = [array.copy() if k < outputs else read_only(array) for k, array in enumerate(arguments)]
    try:
        function(*copies)
    except NumbaError as error:
        raise WrongAnswer(_why(str(error))) from None
    except NotImplementedError as error:
        if str(error):  # Numba's; that of a fresh stub has nothing to say
            raise WrongAnswer(f"Numba cannot compile your code, it does not know this: {error}.") from None
    except Exception as error:
        places = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
        if places[-1].startswith(NUMBA):  # not in anybody's code: the compiler stumbled
            told = f"Numba cannot compile your code, and all that it says is {type(error).__name__}: {error}"
            raise WrongAnswer(f"{told}. Is an input written to, or a type changed on the way?") from None


def _why(told) -> str:
    """The two lines that matter of the many that Numba says, and the line of code."""
    if "setitem(readonly array" in told:
        return "An input was written to. Inputs must stay as they are: compute into outputs, or a new array."
    lines = [line.strip() for line in told.splitlines() if line.strip() and "nopython mode pipeline" not in line]
    places = re.findall(r'File "([^"]+)", line (\d+)', told)
    code = source_line(places[-1][0], int(places[-1][1])) if places else ""
    at = [f"    in the line  {code}"] if code else []
    help_ = "Without the line `@njit(…)` above the function, Python says more (with small arrays)."
    return "\n".join(["Numba cannot compile your code: " + " ".join(lines[:2]), *at, help_])


def float64_operations(function) -> int:
    """Operations on float64 in the compiled kernels that this function is, or calls, for arrays of float32."""
    count, seen, todo = 0, set(), [function]
    while todo:
        function = todo.pop()
        plain = getattr(function, "py_func", function)
        if not isinstance(plain, FunctionType) or plain in seen:
            continue
        seen.add(plain)
        for signature in getattr(function, "signatures", ()):
            if "array(float32" in str(signature).lower():
                count += len(re.findall(r"= f\w+ [^\n]*\bdouble\b", function.inspect_llvm(signature)))
        todo += [plain.__globals__[name] for name in plain.__code__.co_names if name in plain.__globals__]
    return count


def float64_note(function) -> str:
    """ "", or what is said of a right answer whose kernels compute in float64."""
    count = float64_operations(function)
    asked = f"Its kernel does {count} operations in float64: is there a bare constant in it? ({CONSTANTS})"
    return asked if count else ""
