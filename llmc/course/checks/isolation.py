"""What a learner's function must not use while it is checked, because it could then pass by accident.

- Variables of check cells: a function that ignores an argument would find the right array in the notebook's globals.
- llmc itself: a call of the finished layer is not an answer.
"""

import dis
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from llmc.course.checks.explain import WrongAnswer

PACKAGE = Path(__file__).parents[2]  # …/llmc; not resolved, because code objects name their files as imported
OPEN = (__file__, str(PACKAGE / "tests"))  # this module itself; tests, which define answers of their own
_check_cell_names = set()  # of all check cells run so far in this kernel


def remember_names(code):
    """Note which global variables a check cell assigns; its imports do not count, for the set-up cell has them too."""
    steps = list(dis.get_instructions(code))
    for before, step in zip([None, *steps], steps):
        if step.opname in ("STORE_NAME", "STORE_GLOBAL") and not before.opname.startswith("IMPORT_"):
            _check_cell_names.add(step.argval)


def is_check_name(name) -> bool:
    """Is this a variable of a check cell?"""
    return name in _check_cell_names


@contextmanager
def only_arguments(variables: dict):
    """Take the check cells' variables out of the notebook's globals, then put them back."""
    names = [name for name in _check_cell_names & variables.keys() if not isinstance(variables[name], ModuleType)]
    taken = {name: variables.pop(name) for name in names}
    try:
        yield
    finally:
        variables.update(taken)


@contextmanager
def without_llmc():
    """Raise WrongAnswer as soon as a function of llmc is called, however it was imported."""

    def watch(frame, event, argument):
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(PACKAGE)) and not file.startswith(OPEN):
            name = f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}".removesuffix(".<module>")
            raise WrongAnswer(f"your code uses {name}. Write it yourself, with NumPy: this checks your own code.")

    previous = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(previous)
