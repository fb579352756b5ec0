"""The checks of lessons that have not been moved to the new ones yet."""

from llmc.course.figures.showing import use_style
from llmc.course.learner.glossary import glossary
from llmc.course.learner.hints import hint
from llmc.course.learner.journal import progress, recording
from llmc.course.machine.doctor import doctor
from llmc.course.old.checks.check import check
from llmc.course.old.checks.comparison import compare
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.checks.gradients import gradient_check
from llmc.course.old.checks.inputs import awkward, guarded
from llmc.course.old.checks.timing import faster, race

__all__ = [
    "WrongAnswer",
    "awkward",
    "check",
    "compare",
    "doctor",
    "faster",
    "glossary",
    "gradient_check",
    "guarded",
    "hint",
    "progress",
    "race",
    "recording",
    "use_style",
]
