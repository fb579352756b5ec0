"""What the notebooks use: checks that explain a mistake, gradient checks, progress, one look for all plots.

In an exercise:  `with check("layernorm_forward") as c:` around `c.compare`, `compare` and `gradient_check`.
In a lesson:     `use_style()`, `gradient_check`, `compare`.
Around them:     `hint("layernorm_backward")`, `progress()`, `glossary("rstd")`.
Only NumPy is imported here; matplotlib and IPython are imported when something needs them.
"""

from llmc.course.checks.check import check
from llmc.course.checks.comparison import compare
from llmc.course.checks.gradients import gradient_check
from llmc.course.checks.guards.inputs import awkward, guarded
from llmc.course.checks.messages.diagnosis import WrongAnswer
from llmc.course.checks.speed.timing import faster, race
from llmc.course.figures.showing import use_style
from llmc.course.learner.glossary import glossary
from llmc.course.learner.hints import hint
from llmc.course.learner.journal import progress, recording
from llmc.course.machine.doctor import doctor

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
