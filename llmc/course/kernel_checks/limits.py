"""How large may the numbers become until a kernel goes wrong? Found by making them smaller until it is right."""

import re

import numpy as np

from llmc.course.kernel_checks.experiments import Enough
from llmc.cuda.emulator.compiling.text import line_at, mask

LARGE = 20.0  # an ordinary input is smaller, and right
STEPS = 14  # of the bisection
EXP = (83.0, 110.0)  # around 88.7, where exp becomes inf, and 103.9, below which it is 0
NEAR = 0.06  # a constant is that far from the limit at the most
CONSTANT = re.compile(r"(?<![\w.])\d[\d_']*(?:\.\d*)?(?:e[+-]?\d+)?(?=f?\b|f?[^\w.])", re.IGNORECASE)
SHORTENED = re.compile(
    r"(?P<what>[^\n]* (?:has NaN or infinite entries|entries that are NaN or infinite, first at [^:]*?"
    r"|is infinite everywhere|is all zeros)[^:\n]*?)(?::[^\n]*?(?P<look>lesson [^\n;]*)?\.?|\?)(?=\n|$)"
)


def goes_wrong_at(experiment, code) -> list[str]:
    """Sentences about an input that is too large for the kernel, or of which it reads what it should not; or []."""
    try:
        for k in experiment.inputs:
            found = _foreign(experiment, k) or _limit(experiment, k, code)
            if found:
                return found
    except Enough:
        pass
    return []


def _foreign(experiment, k) -> list[str]:
    """A sentence if all is right once the numbers that our solution never reads are 0."""
    read = experiment.read[k]
    if read.all() or not read.any():
        return []
    values = experiment.arguments[k].reshape(-1)
    if not experiment.is_right(experiment.changed(k, np.where(read, values, values[read].min()))):
        return []
    name, first = experiment.names[k], experiment.place(k, int(np.flatnonzero(~read)[0]))
    return [
        f"The same launch is right with other numbers where none of {name} should be looked at, in {first} and the like: "
        "they count somewhere, in a maximum or in a sum."
    ]


def _limit(experiment, k, code) -> list[str]:
    """Sentences about the size of numbers from which on the launch is wrong."""
    values = experiment.arguments[k].reshape(-1)
    read = values[experiment.read[k]]
    largest = np.abs(read).max(initial=0.0)
    if largest < LARGE or not experiment.is_right(experiment.changed(k, values * (2.0 / largest))):
        return []
    low, high = np.log(2.0 / largest), 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        if experiment.is_right(experiment.changed(k, values * np.exp(middle))):
            low = middle
        else:
            high = middle
    bounds = read.min() * np.exp(low), read.max() * np.exp(low)
    between = " and ".join(_number(b) for b in bounds)
    told = f"The same launch is right with {experiment.names[k]} divided by {_number(np.exp(-low))}, which then lies between {between}"
    return [f"{told}, and wrong when it is a little larger. {_why(bounds, code)}"]


def _why(bounds, code) -> str:
    """What happens at numbers of this size."""
    low, high = bounds
    found = _constant(bounds, code)
    if found:
        return found
    if EXP[0] <= high <= EXP[1]:
        return "exp of more than 88.7 is inf: is exp taken of these numbers themselves, without the largest subtracted?"
    if high < 0 and EXP[0] <= -high <= EXP[1]:
        return (
            "exp of less than -103.9 is 0: is what is subtracted larger than all of them, as a maximum that begins at "
            "0 is?"
        )
    if EXP[0] <= -low <= EXP[1]:
        return "exp of more than 88.7 is inf, and exp of less than -103.9 is 0: of what is it taken?"
    return "Something overflows there: to inf, whose quotients, differences and products with 0 are NaN."


def _constant(bounds, code) -> str:
    """A sentence about a number in the code that is as large as the limit."""
    text = mask(code)
    for match in CONSTANT.finditer(text):
        value = float(re.sub(r"[_']", "", match[0]))
        for bound in bounds:
            if value > LARGE and abs(abs(bound) - value) <= NEAR * value and EXP[1] < value < 1e30:
                sign = "-" if bound < 0 else ""
                told = f"Line {line_at(text, match.start())} has the number {sign}{match[0]}: they can be beyond that"
                return f"{told}. If it stands for less than every number, take -3.4e38." if sign else f"{told}."
    return ""


def _number(value) -> str:
    """ "-10,004", "0.52"."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def shortened(message) -> str:
    """The message without the list of what may make NaN or infinity."""
    match = SHORTENED.match(message)
    if not match:
        return message
    look = f"\n→ Where to look: {match['look'].rstrip('.')}." if match["look"] else ""
    return match["what"].rstrip() + "." + look + message[match.end() :]
