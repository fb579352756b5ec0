"""Messages whose terms are NumPy's, or which quote a kernel's model, in the terms of C."""

import re

PART = r"((?:[^(),]|\([^()]*\))+)"  # an argument, perhaps with brackets
TERMS = [
    (re.compile(python), c)
    for python, c in (
        (r"look at reshape and transpose", "look at how the index is made"),
        (r"without the line `([^`=]* (?:<|>=|==|>|<=) [^`=]*)`", r"without the check `if (\1)`"),
        (r"without the line `range\(", r"without the loop `range("),
        (rf"\brange\({PART}, {PART}, {PART}\)", r"for (c = \1; c < \2; c += \3)"),
        (rf"\bhalves\({PART}, {PART}\)", r"for (gap = \1; gap > \2; gap /= 2)"),
        (r"(?<=[\w)]) // (?=[\w(])", " / "),
        (r"\bsum4\((\w+)\)", r"\1.x + \1.y + \1.z + \1.w"),
        (r" \+ slots\b", ""),
        (r"\bALL\b", "0xffffffff"),
        (r", in warp_sum\b", ", where the lanes' sums are added up"),
        (r", in warp_max\b", ", where the lanes' maxima are compared"),
    )
]


def in_c(message) -> str:
    """ "in `for (gap = 16; gap > 0; gap /= 2)`" for "in `halves(16, 0)`"."""
    for python, c in TERMS:
        message = python.sub(c, message)
    return message
