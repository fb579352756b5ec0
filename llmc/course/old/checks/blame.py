"""From an exception to its explanation: which line raised it, and which call led there?

An exception comes from the learner's own function, from the check cell, or from a comparison that found a wrong value.
"""

import ast
import inspect
import io
import re
import sys
import sysconfig
import textwrap
import traceback as tb
from contextlib import redirect_stdout, suppress
from pathlib import Path

import numpy as np

from llmc.course.old.checks.compiling import by_compiler, why_not_compiled
from llmc.course.old.checks.evidence import is_explaining
from llmc.course.old.checks.explain import WrongAnswer, arrays_in, source_line
from llmc.course.old.checks.isolation import PACKAGE
from llmc.course.old.checks.largest import largest_arrays
from llmc.course.old.checks.nothing import why_nothing
from llmc.course.old.checks.text import never_read
from llmc.course.old.checks.unreached import single_turns
from llmc.course.old.checks.whole_arrays import instead, without_advice
from llmc.course.old.mutants.hidden import hiding
from llmc.course.old.mutants.replay import arrays_in as every_array
from llmc.course.old.mutants.solution import Solution
from llmc.course.own_names import is_check_name, is_learners_name

NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*")  # in a line of code, but not of an attribute
WRITTEN = re.compile(r"([A-Za-z_]\w*)\s*(?:\[.*\]\s*)?(?:[-+*/@%]|//|\*\*)?=(?!=)")  # what a line of code writes to
TESTS = str(PACKAGE / "tests")
FOREIGN = (str(PACKAGE), str(Path(np.__file__).parents[1]), sysconfig.get_path("stdlib"))  # not written by the learner
WRITTEN_TO = "An input was written to. Inputs must stay as they are: compute into a new array."
CALLERS = 8  # from a helper of the learner's up to the call that the check makes
SET_UP = "hint"  # every set-up cell imports it


def explain_error(check, cell, error, traceback) -> str:
    """The whole message for an exception that left the block of `check` in the frame `cell`."""
    if isinstance(error, WrongAnswer):
        lines = [f"✗ {check.name}: {error.message}"]
    elif isinstance(error, NameError) and SET_UP not in cell.f_globals and not _borrowed(error, cell, traceback):
        return (
            f"✗ {check.name}: run the set-up cell at the top first, then the cell with your answer, then this one.\n"
            f"The kernel has been started or restarted, and `{error.name}` is not defined yet."
        )
    elif by_compiler(error):
        lines = [f"✗ {check.name}: {why_not_compiled(error)}"]
    else:
        frame, line = _innermost_own(traceback, cell)
        inside = frame.f_code is not cell.f_code
        lines = _learners_line(check, error, frame, line) if inside else _check_line(check, error, frame, line)
        lines += _ignored(check._evidence) if isinstance(error, AssertionError) else []
    lines += why_nothing(check._evidence.function, lines[0])
    lines += single_turns(check._evidence.function)
    lines += largest_arrays(check._evidence.function, check._evidence.replays, lines[0])
    if check.calls:
        call, returned = check.calls[-1]
        lines.append(f"The call was {call}.")
        if returned not in (None, "None"):  # an in-place function rightly returns None
            lines.append(f"It returned {returned}.")
    return "\n".join(lines)


def _borrowed(error, cell, traceback) -> bool:
    """Does a function of the learner's use a variable of a check cell, which its own cell does not define?"""
    return is_check_name(error.name) and _innermost_own(traceback, cell)[0].f_code is not cell.f_code


def _innermost_own(traceback, cell):
    """(frame, line number) closest to the error that is neither ours nor a library's; else the check cell's."""
    return next(reversed(own_frames(traceback, cell)), (cell, traceback.tb_lineno))


def own_frames(traceback, cell):
    """[(frame, line number)] of the learner's functions that were running, the innermost last."""
    frames = [(frame, line) for frame, line in tb.walk_tb(traceback) if frame is not cell]
    files = [frame.f_code.co_filename for frame, _ in frames]
    return [it for it, file in zip(frames, files) if file.startswith(TESTS) or not file.startswith(FOREIGN)]


def _learners_line(check, error, frame, line):
    """An error in the learner's own code: the line, the shapes in it, and the usual cause of such an error."""
    code = source_line(frame.f_code.co_filename, line)
    shapes = arrays_in(code, frame.f_locals)
    lines = [f"✗ {check.name}: your code stopped with {without_advice(_text(error), error)}"]
    lines.append(f"    in {frame.f_code.co_name}, line {line}:  {code}")
    if shapes:
        lines.append(f"    with {shapes}")
    lines += [
        f"`{name}` is not an argument of your function, but a variable of one of your own cells."
        for name in dict.fromkeys(NAME.findall(code))
        if name in frame.f_code.co_names and is_learners_name(name)
    ]
    lines += [*getattr(error, "__notes__", ()), *_hidden(frame, line)]  # notes: of the check cell
    lines += instead(error, code, {**frame.f_globals, **frame.f_locals})
    if "no '...' ellipsis provided" in str(error) and "..." in code:  # and for einsum
        lines.append("np.einsum keeps the axes that `...` stands for, it cannot sum over them: flatten them first.")
    if "broadcast" in str(error) and "bincount(" in code and "minlength" not in code:
        lines.append("np.bincount makes as many numbers as its largest index + 1, or more with `minlength=`.")
    if "core dimension" in str(error):  # NumPy's words for matmul
        fits = _fits_transposed(code, {**frame.f_globals, **frame.f_locals})
        transposed = ": is a transpose missing, or one too many?" if fits else "."
        lines.append(f"In a @ b, the last axis of a must be as long as the second-to-last of b{transposed}")
    if "read-only" in str(error):
        lines += _locked(code, frame) or [WRITTEN_TO, *_views(code, frame)]
    if isinstance(error, UnboundLocalError):
        name = re.search("'(.+?)'", str(error))
        lines += [f"No line that ran before this one gave `{name[1]}` a value inside of your function."] * bool(name)
    elif isinstance(error, NameError) and is_check_name(error.name):
        lines.append(f"`{error.name}` is a variable of the check cell. Your function can use only its own arguments.")
    elif isinstance(error, NameError) and error.name in sys.stdlib_module_names and f"{error.name}." in code:
        lines.append(f"Is `import {error.name}` missing in your cell?")
    elif isinstance(error, NameError):
        lines.append(f"If a cell above defines `{error.name}`, run that cell first.")
    return lines


def _fits_transposed(code, variables) -> bool:
    """Would a product `a @ b` in that line, of arrays that have names, fit with one of the two transposed?"""
    with suppress(Exception):
        for node in ast.walk(ast.parse(textwrap.dedent(code))):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
                parts = [compile(ast.Expression(part), "<part>", "eval") for part in (node.left, node.right)]
                calls = any(isinstance(each, ast.Call) for each in ast.walk(node))
                a, b = (np.shape(eval(part, {}, dict(variables))) for part in parts) if not calls else ((), ())
                if min(len(a), len(b)) > 1 and a[-1] != b[-2]:
                    return a[-1] == b[-1] or a[-2] == b[-2]
    return False


def _locked(code, frame) -> list[str]:
    """A sentence if what that line writes to is read-only, and no argument: a broadcast view of another array, say."""
    name, array = _written_in(code, frame)
    if not isinstance(array, np.ndarray) or array.flags.writeable:
        return []
    for _ in range(CALLERS):  # the arguments of all that called it, too
        names = frame.f_code.co_varnames[: frame.f_code.co_argcount] if frame else ()
        if any(_shares(array, given) for given in every_array([frame.f_locals.get(each) for each in names])):
            return []
        frame = frame and frame.f_back
    return [f"`{name}` is not an input, but a view that cannot be written to: `.copy()`, or np.zeros, makes an array."]


def _written_in(code, frame) -> tuple:
    """(name, array) that a line writes to."""
    name = WRITTEN.match(code)
    return (name[1], frame.f_locals.get(name[1])) if name else ("", None)


def _views(code, frame) -> list[str]:
    """A sentence if what that line writes to has a name of its own, but is the memory of an argument."""
    name, array = _written_in(code, frame)
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    array = None if name in names else array
    given = [each for each in names if _shares(array, frame.f_locals.get(each))]
    if len(given) != 1:
        return []
    what = "another name" if array is frame.f_locals[given[0]] else "a view"
    return [f"`{name}` is no array of its own, but {what} of `{given[0]}`: `.copy()`, or np.empty, makes a new one."]


def _shares(array, other) -> bool:
    both = isinstance(array, np.ndarray) and isinstance(other, np.ndarray)
    return both and bool(np.may_share_memory(array, other))


def _hidden(frame, line) -> list[str]:
    """Sentences about loops that have given the name of an argument to their index, if that line reads it."""
    try:
        function = ast.parse(textwrap.dedent(inspect.getsource(frame.f_code))).body[0]
    except (OSError, TypeError, SyntaxError):
        return []
    at = line - frame.f_code.co_firstlineno + 1
    return hiding(function, at) if isinstance(function, ast.FunctionDef) else []


def _check_line(check, error, frame, line):
    """An error in the check cell itself: a failed assertion, or a result that it could not use."""
    code = source_line(frame.f_code.co_filename, line)
    if isinstance(error, AssertionError):
        return [f"✗ {check.name}: {error}" if str(error) else f"✗ {check.name}: this should hold:  {code}"]
    if isinstance(error, NameError) and not check.calls:
        return [f"✗ {check.name}: `{error.name}` is not defined. Run the cell with your answer first, then this one."]
    if isinstance(error, TypeError) and check.calls and check.calls[-1][1] is None:  # it did not even begin
        return [f"✗ {check.name}: your function cannot be called with these arguments: {_text(error)}."]
    if isinstance(error, ValueError | TypeError) and "unpack" in str(error) and check.calls:
        given = check.calls[-1][1]
        return [f"✗ {check.name}: expected {code.split('=')[0].strip()}, but your function returned {given}."]
    if "inhomogeneous" in str(error) and check.calls and "values: " in str(check.calls[-1][1]):
        given = check.calls[-1][1]
        return [f"✗ {check.name}: one array is expected, but your function returned {given}."]
    lines = [f"✗ {check.name}: the check could not use what your function returned ({_text(error)})", f"    at  {code}"]
    if check.calls and check.calls[-1][1] == "None":
        lines.append("It returned None. Is a `return` missing?")
    return lines


def _ignored(evidence) -> list[str]:
    """A sentence about an argument of the last call that the learner's function never reads, and ours does."""
    solution = evidence.solution() if evidence.replays and is_explaining() else None
    if not isinstance(solution, Solution):
        return []
    with redirect_stdout(io.StringIO()), np.errstate(all="ignore"), suppress(Exception):
        return list(never_read(evidence.function, solution, evidence.replays[-1]))
    return []


def _text(error) -> str:
    """ "ValueError: operands could not be broadcast"."""
    return f"{type(error).__name__}: {error}".rstrip(": ")
