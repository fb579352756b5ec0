"""How large may the numbers become until a kernel goes wrong? Found by making them smaller until it is right."""

import re

import numpy as np

from llmc.course.old.kernel_checks.experiments import Enough
from llmc.cuda.emulator.compiling.text import line_at, mask

LARGE = 20.0  # an ordinary input is smaller, and right
STEPS = 14  # of the bisection
INF, ZERO = (83.0, 96.0), (96.0, 112.0)  # around 88.7, where exp becomes inf, and 103.9, below which it is 0
OVERFLOWS, VANISHES = "exp of more than 88.7 is inf", "exp of less than -103.9 is 0"
ZERO_BELOW = (90.0, 112.0)
LOWEST = "If it stands for less than every number, take -3.4e38."
NEAR = 0.06  # a constant is that far from the limit at the most
CONSTANT = re.compile(r"(?<![\w.])\d+(?:\.\d*(?:e[+-]?\d+)?|e[+-]?\d+)", re.IGNORECASE)  # of a float
SHORTENED = re.compile(
    r"(?P<what>[^\n]* (?:has NaN or infinite entries|entries that are NaN or infinite, first at [^:]*?"
    r"|is infinite everywhere|is all zeros)[^:\n]*?)(?::[^\n]*?(?P<look>lesson [^\n;]*)?\.?|\?)(?=\n|$)"
)
REASONS = re.compile(r"\n(?!→)[^\n]*?(lesson \d+, section \"[^\"\n]*\")\.(?=\n|$)")


def goes_wrong_at(experiment, code) -> list[str]:
    """Sentences about an input that is too large for the kernel, or of which it reads what it should not; or []."""
    try:
        for k in experiment.inputs if experiment.wrong(*experiment.base) else ():
            found = _foreign(experiment, k) or _limit(experiment, k, code)
            if found:
                return [*found, *_right_all_the_same(experiment)]
    except Enough:
        pass
    return []


def _right_all_the_same(experiment) -> list[str]:
    """A sentence about other outputs that are right."""
    wrong = experiment.wrong(*experiment.base)
    right = [experiment.names[k] for k in experiment.outputs if k not in wrong]
    return [f"{' and '.join(right)} {'is' if len(right) == 1 else 'are'} right here."] if right else []


def _foreign(experiment, k) -> list[str]:
    """A sentence if all is right once the numbers that our solution never reads are 0."""
    read = experiment.read[k]
    if read.all() or not read.any():
        return []
    values = experiment.arguments[k].reshape(-1)
    if not experiment.is_right(experiment.changed(k, np.where(read, values, values[read].min()))):
        return []
    name, first = experiment.names[k], experiment.place(k, int(np.flatnonzero(~read)[0]))
    told = (
        f"The same launch is right with other numbers where none of {name} should be looked at, in {first} and the like"
    )
    wrong = experiment.wrong(*experiment.base)
    if wrong.keys() == {k} and not wrong[k][read].any():  # an array that is changed in place
        return [f"{told}. Only what is left there is wrong: it is made of these numbers, and 0 times inf is NaN."]
    return [f"{told}: they count somewhere, in a maximum or in a sum."]


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
    told = f"The same launch is right with {experiment.names[k]} divided by {_number(np.exp(-low))}"
    which = "which then lies" if experiment.read[k].all() else "of which what it should look at then lies"
    lies = f"{which} between {between}, and wrong when it is a little larger"
    return [f"{told}, {lies}. {_why(experiment, k, bounds, code)}".rstrip()]


def _why(experiment, k, bounds, code) -> str:
    """What happens at numbers of this size."""
    mine, ours = experiment.base
    first = next(iter(experiment.wrong(mine, ours)))
    got = mine[first][np.isfinite(ours[first])]
    found = _constant(bounds, code)
    if not found and "exp" in mask(code):
        found = _of_exp(experiment, k, bounds, got, code)
    if found:
        return found
    return "inf - inf, inf / inf, 0 · inf and 0 / 0 are NaN." if np.isnan(got).any() else ""


def _of_exp(experiment, k, bounds, got, code) -> str:
    """Which of the limits of exp these numbers reach; "" for none."""
    low, high = bounds
    if high < 0 and INF[0] <= -low <= ZERO[1]:
        shifted = experiment.is_right(experiment.changed(k, _below_zero(experiment, k)))
        return f"{VANISHES}: does a maximum start at 0, or is none subtracted?" if shifted else f"{VANISHES}."
    if INF[0] <= high <= INF[1] and experiment.is_right(experiment.changed(k, _below_zero(experiment, k))):
        return f"{OVERFLOWS}: is exp taken of these numbers without the largest subtracted?"
    if INF[0] <= high - low <= INF[1]:
        return f"{OVERFLOWS}: is what is subtracted before exp the largest of them all?"
    if ZERO[0] <= high - low <= ZERO[1]:
        logs = np.isinf(got).any() and not np.isnan(got).any() and "log" in mask(code)
        asked = ": is a logarithm taken of it, -inf?" if logs else "."
        return f"{VANISHES}, and these numbers lie that far apart{asked}"
    return ""


def _below_zero(experiment, k):
    """The k-th argument less its largest number."""
    values = experiment.arguments[k].reshape(-1)
    return values - values[experiment.read[k]].max()


def _constant(bounds, code) -> str:
    """A sentence about a number in the code that is as large as the limit, or 103.9 above it, where exp becomes 0."""
    text = mask(code)
    for match in CONSTANT.finditer(text):
        sign = "-" if text[: match.start()].rstrip().endswith("-") else ""
        value = float(sign + match[0])
        told = f"Line {line_at(text, match.start())} has the number {sign}{match[0]}"
        if not LARGE < abs(value) < 1e30:
            continue
        if ZERO[1] < abs(value) and any(abs(bound - value) <= NEAR * abs(value) for bound in bounds):
            return f"{told}: they can be beyond that. {LOWEST if sign else ''}".rstrip()
        if sign and all(ZERO_BELOW[0] <= value - bound <= ZERO_BELOW[1] for bound in bounds):
            return f"{told}, and {VANISHES}, of numbers so far below it. {LOWEST}"
    return ""


def _number(value) -> str:
    """ "-10,004", "0.52"."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def without_reasons(message) -> str:
    """The message without such a list, also where it is a line of its own; where to look stays."""
    return REASONS.sub(r"\n→ Where to look: \1.", shortened(message))


def shortened(message) -> str:
    """The message without the list of what may make NaN or infinity."""
    match = SHORTENED.match(message)
    if not match:
        return message
    look = f"\n→ Where to look: {match['look'].rstrip('.')}." if match["look"] else ""
    return match["what"].rstrip() + "." + look + message[match.end() :]
