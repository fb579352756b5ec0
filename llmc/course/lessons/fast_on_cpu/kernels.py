"""Lesson 11: what checks ask of a kernel besides its numbers: does it compile, race, hide a NaN, compute in float64?

A learner's function may be a Numba kernel, call some, or be plain NumPy, and then there is nothing to ask.
"""

import re
from pathlib import Path
from traceback import walk_tb
from types import FunctionType

import numba
from numba.core.errors import NumbaError

from llmc.course.checks.explain import WrongAnswer, source_line
from llmc.course.checks.inputs import read_only

# where to look; a test compares these titles with the headings of notebooks/11_fast_on_cpu.ipynb
RACE = 'lesson 11, section "9.1 · A race"'
HIDDEN = 'lesson 11, section "9.2 · A NaN that stays hidden"'
CONSTANTS = 'lesson 11, section "3.1 · Compile it"'
COMPILED = 'lesson 11, section "3 · Your first kernel"'
NUMBA = str(Path(numba.__file__).parent)
NAN_LOST = (
    "a NaN went in and a number came out. Is the kernel compiled with fastmath=True, which assumes that there is none? "
    f"Or does a comparison replace it with a limit? A loss that diverged must stay visible; {HIDDEN}"
)


def no_race(watch):
    """Raise WrongAnswer if `find_races` saw a race; None, when it could not look, is no evidence."""
    if watch is not None and watch.races:
        raise WrongAnswer(
            f"a race: {watch.races[0]}. Numba may run both at the same time, and then one of the two is lost.\n"
            f"→ Where to look: {RACE}."
        )


def compile_first(function, *arguments, outputs):
    """Call the function on copies, the first `outputs` of them writable: inside c.call, compiling takes far longer.

    Raises WrongAnswer if Numba cannot compile it. Any other error comes again in c.call, which explains it.
    """
    copies = [array.copy() if k < outputs else read_only(array) for k, array in enumerate(arguments)]
    try:
        function(*copies)
    except NumbaError as error:
        raise WrongAnswer(_why(str(error))) from None
    except NotImplementedError as error:
        if str(error):  # Numba's own; that of a fresh stub is empty
            raise WrongAnswer(f"Numba cannot compile your code; it does not know this: {error}.") from None
    except Exception as error:
        places = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
        if places[-1].startswith(NUMBA):  # the compiler itself stumbled
            said = f"Numba cannot compile your code, and says only {type(error).__name__}: {error}"
            raise WrongAnswer(f"{said}. Do you write to an input, or change a variable's type?") from None


def _why(message) -> str:
    """The two lines of Numba's long message that matter, and the line of code."""
    if "setitem(readonly array" in message:
        return "An input was written to. Inputs must stay as they are: write to the outputs, or to a new array."
    lines = [line.strip() for line in message.splitlines() if line.strip() and "nopython mode pipeline" not in line]
    places = re.findall(r'File "([^"]+)", line (\d+)', message)
    code = source_line(places[-1][0], int(places[-1][1])) if places else ""
    at = [f"    in the line  {code}"] if code else []
    advice = "Remove the line `@njit(…)` above the function and run it on small arrays: Python says more."
    return "\n".join(["Numba cannot compile your code: " + " ".join(lines[:2]), *at, advice])


def float64_operations(function) -> int:
    """Count the float64 operations in the compiled kernels that this function is, or calls, for float32 arrays."""
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
    """ "", or a remark on a right answer whose kernels compute in float64."""
    count = float64_operations(function)
    remark = f"Its kernel has {count} operations in float64: is there a bare constant in it? ({CONSTANTS})"
    return remark if count else ""
