"""What the notebooks use: checks that explain a mistake, gradient checks, progress, one look for all plots.

In an exercise:  `with check("layernorm_forward") as c:` around asserts, `compare` and `gradient_check`.
In a lesson:     `use_style()`, `gradient_check`, `compare`.
Around them:     `hint("layernorm_backward")`, `progress()`, `glossary("rstd")`.
Only NumPy is imported here; matplotlib and IPython are, when something needs them.
"""

from llmc.course.checks import check
from llmc.course.comparison import compare
from llmc.course.doctor import doctor
from llmc.course.explain import WrongAnswer
from llmc.course.glossary import glossary
from llmc.course.gradients import gradient_check
from llmc.course.hints import hint
from llmc.course.inputs import awkward, guarded
from llmc.course.journal import progress, recording
from llmc.course.style import use_style
from llmc.course.timing import race

__all__ = [
    "WrongAnswer",
    "awkward",
    "check",
    "compare",
    "doctor",
    "glossary",
    "gradient_check",
    "guarded",
    "hint",
    "progress",
    "race",
    "recording",
    "use_style",
]
