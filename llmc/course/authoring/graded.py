"""The checks of notebooks that nbgrader runs, where a cell earns its points unless it raises or writes to stderr.

So a stub raises too, warnings go to stdout, and what nbgrader finds is not recorded as the teacher's progress. All else
is as in `check` and `kernel_check`. The names differ, because a check that runs its cell again looks for its own name.
"""

import os
import sys

from llmc.course.checks.check import check
from llmc.course.checks.messages.diagnosis import Diagnosis, Kind
from llmc.course.kernel_checks.check import kernel_check
from llmc.course.learner import journal


class _Graded:
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        if "NBGRADER_EXECUTION" in os.environ and journal.recording(False):  # the first check in this kernel
            sys.stderr = sys.stdout

    def _conclude(self, error, traceback):
        if super()._conclude(error, traceback):  # it has said "not done yet", and how to go on
            raise self._wrong(Diagnosis(Kind.RULE, "not done yet, so there are no points")) from None


class graded_check(_Graded, check):
    """`check`, for a cell that earns points."""


class graded_kernel_check(_Graded, kernel_check):
    """`kernel_check`, for a cell that earns points."""
