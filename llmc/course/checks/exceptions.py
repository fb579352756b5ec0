"""From an exception to its Diagnosis: which line raised it, and which call led there?

An exception comes from the learner's own function, from the check cell, or from a comparison that found a wrong value.
"""

import linecache
import re
import sys
from traceback import walk_tb

from llmc.course.checks.guards.isolation import is_foreign
from llmc.course.checks.messages.diagnosis import Diagnosis, Kind, WrongAnswer, arrays_in
from llmc.course.checks.messages.numba_errors import by_compiler, why_not_compiled
from llmc.course.own_names import is_check_name, is_learners_name

NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*")  # in a line of code, but not an attribute's
SET_UP = "hint"  # every set-up cell imports it
ONE_NUMBER = ("only length-1 arrays", "only 0-dimensional arrays", "only size-1")
WHOLE_ARRAYS = {  # what wants one number or one truth value, and what works number by number instead
    r"\bif\b": "`if` decides once for a whole array: `np.where(condition, …, …)` decides for each number.",
    r"\band\b": "`and` needs one truth value on each side: `(…) & (…)` works number by number.",
    r"\bor\b": "`or` needs one truth value on each side: `(…) | (…)` works number by number.",
    r"(?<!\.)\bmax\(": "`max` compares whole things: `np.maximum(a, b)` works number by number.",
    r"(?<!\.)\bmin\(": "`min` compares whole things: `np.minimum(a, b)` works number by number.",
    r"\bmath\.": "the functions of `math` take one number: those of `np` work number by number.",
}
LOCKED = "Inputs must stay as they are, and so must views of them: `.copy()` makes an array that can be written to."


def diagnosis_of(check, cell, error, traceback) -> Diagnosis:
    """The Diagnosis of an exception that left the block of `check` in the frame `cell`."""
    if isinstance(error, WrongAnswer):
        return error.diagnosis
    frame, line = _innermost_own(traceback, cell)
    inside = frame.f_code is not cell.f_code
    if isinstance(error, NameError) and SET_UP not in cell.f_globals and not (inside and is_check_name(error.name)):
        first = "run the set-up cell at the top first, then the cell with your answer, then this one"
        again = f"The kernel has been started or restarted, and `{error.name}` is not defined yet."
        return Diagnosis(Kind.EXCEPTION, first, more=[again])
    if by_compiler(error):
        sentence, more = why_not_compiled(error)
        return Diagnosis(Kind.EXCEPTION, sentence, more=more)
    return _in_learners_line(error, frame, line) if inside else _in_check_cell(check, error, frame, line)


def own_frames(traceback, cell):
    """[(frame, line number)] of the learner's functions that were running, the innermost last."""
    frames = [(frame, line) for frame, line in walk_tb(traceback) if frame is not cell]
    return [(frame, line) for frame, line in frames if not is_foreign(frame.f_code.co_filename)]


def _innermost_own(traceback, cell):
    """(frame, line number) closest to the error that is neither ours nor a library's; else the check cell's."""
    return next(reversed(own_frames(traceback, cell)), (cell, traceback.tb_lineno))


def _in_learners_line(error, frame, line) -> Diagnosis:
    """The line, the shapes in it, and the usual cause of such an error."""
    code = linecache.getline(frame.f_code.co_filename, line).strip()
    name = "your function" if frame.f_code.co_name == "<lambda>" else frame.f_code.co_name
    shapes = arrays_in(code, frame.f_locals)
    more = [f"    in {name}, line {line}:  {code}", *([f"    with {shapes}"] if shapes else [])]
    more += [
        f"`{name}` is not an argument of your function, but a variable of one of your own cells."
        for name in dict.fromkeys(NAME.findall(code))
        if name in frame.f_code.co_names and is_learners_name(name)
    ]
    more += [*getattr(error, "__notes__", ()), *_usual_cause(error, code)]
    return Diagnosis(Kind.EXCEPTION, f"your code stopped with {_text(error)}", more=more)


def _usual_cause(error, code) -> list[str]:
    said = str(error)
    if "truth value of an array" in said or any(each in said for each in ONE_NUMBER):
        return _one_number(code)
    if "read-only" in said:
        return [LOCKED]
    if "core dimension" in said:  # of NumPy, for matmul
        return ["In a @ b, the last axis of a must be as long as the second-to-last of b."]
    if isinstance(error, UnboundLocalError):
        name = said.split("'")[1] if "'" in said else "it"  # error.name is None before Python 3.12
        return [f"No line that ran before this one gave `{name}` a value inside your function."]
    if isinstance(error, NameError) and is_check_name(error.name):
        return [f"`{error.name}` is a variable of the check cell. Your function can use only its own arguments."]
    if isinstance(error, NameError) and error.name in sys.stdlib_module_names and f"{error.name}." in code:
        return [f"Is `import {error.name}` missing in your cell?"]
    if isinstance(error, NameError):
        return [f"If a cell above defines `{error.name}`, run that cell first."]
    return []


def _one_number(code) -> list[str]:
    """A sentence if one thing in the line wants one number and may have got an array; [] where several may."""
    found = [advice for pattern, advice in WHOLE_ARRAYS.items() if re.search(pattern, code)]
    return found if len(found) == 1 else []


def _in_check_cell(check, error, frame, line) -> Diagnosis:
    """An error in the check cell itself: a failed assertion, or a result that it could not use."""
    code = linecache.getline(frame.f_code.co_filename, line).strip()
    returned = check.calls[-1].described if check.calls else None
    if isinstance(error, AssertionError):
        return Diagnosis(Kind.RULE, str(error) or f"this should hold:  {code}")
    if isinstance(error, NameError) and not check.calls:
        first = f"`{error.name}` is not defined. Run the cell with your answer first, then this one"
        return Diagnosis(Kind.EXCEPTION, first)
    if isinstance(error, TypeError) and check.calls and returned is None:  # it did not even begin
        return Diagnosis(Kind.EXCEPTION, f"your function cannot be called with these arguments: {_text(error)}")
    if isinstance(error, ValueError | TypeError) and "unpack" in str(error) and returned:
        wanted = code.split("=")[0].strip()
        return Diagnosis(Kind.SHAPE, f"expected {wanted}, but your function returned {returned}")
    missing = ["It returned None. Is a `return` missing?"] if returned == "None" else []
    sentence = f"the check could not use what your function returned ({_text(error)})"
    return Diagnosis(Kind.EXCEPTION, sentence, more=[f"    at  {code}", *missing])


def _text(error) -> str:
    """ "ValueError: operands could not be broadcast", without NumPy's own advice."""
    return f"{type(error).__name__}: {error}".removesuffix(" Use a.any() or a.all()").rstrip(": ")
