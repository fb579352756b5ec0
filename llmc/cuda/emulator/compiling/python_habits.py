"""What somebody who knows Python writes in C by habit, told from the line that the compiler stumbled over."""

import re

ONE_INDEX = "C has one index: for [b, c, t] of a (B, C, T) array write [(b * C + c) * T + t]"
BRACKETS = "the condition stands in brackets and what follows in braces, without a colon: `if (i < n) { … }`"
NO_FLOOR = "`//` starts a comment, so the rest of this line is gone; `/` of two int rounds down as it is"
FLOORED = r"^[^\"]*[\w)\]]\s*//\s*[\w(][^;]*;"  # i // C;
SOURCE = (  # (pattern in the source line, hint)
    (r"^\s*for\s+\w+\s+in\b", "a loop that counts is `for (int c = 0; c < C; c++) { … }`"),
    (r"^\s*(?:if|while|else|elif|for)\b.*:\s*$|^\s*(?:if|while|elif)\s+[^(\s]", BRACKETS),
    (r"^\s*#\s+\w|[;{}]\s*#", "a comment begins with `//`; `#` is Python's"),
    (FLOORED, NO_FLOOR),
    (r"[\w)\]]\s*\*\*\s*[\w(]", "there is no power in C: x * x, or powf(x, 3.0f)"),
)
FLOAT4 = "there is no arithmetic on a float4: add a.x and b.x, a.y and b.y, …, and put them together with make_float4"
SAID = (  # (pattern in the compiler's message, hint)
    (r"invalid types .* for array subscript|subscripted value is not", ONE_INDEX),
    (r"operator[+*/-].*'(?:const )?float4'|binary expression \('(?:const )?float4'", FLOAT4),
)
NAMES = {
    "len": "an array does not know its length in C: it has to come as an argument, such as n",
    "range": "a loop that counts is `for (int c = 0; c < C; c++) { … }`",
    "True": "in C it is true",
    "False": "in C it is false",
    "None": "there is no None in C",
    "elif": "in C it is `else if (…)`",
    "def": "a function begins with the type of its result: `__device__ float f(float x) { … }`",
    "max": "for floats it is fmaxf(a, b)",
    "min": "for floats it is fminf(a, b)",
    "abs": "for floats it is fabsf(x)",
    "ceil_div": "that is Python's; in C, rounded up, n / d is (n + d - 1) / d",
}
COORDINATES = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\b(?!\s*\.)")


def floored(line) -> bool:
    """Does this line divide with //, so that its semicolon is missing in C?"""
    return bool(re.search(FLOORED, line))


def habit(text, source, unknown="") -> str | None:
    """The hint, or None, for what would be right in Python and is not in C.

    text: the compiler's message. source: the line of the kernel that it is about. unknown: a name declared nowhere.
    """
    if unknown in NAMES:
        return NAMES[unknown]
    if unknown and re.match(rf"\s*{re.escape(unknown)}\s*=(?!=)", source):
        return f"a variable is declared with its type, once: `int {unknown} = …;`, or float"
    if missing := COORDINATES.search(source):
        return f".x is missing: {missing[1]}.x"
    said = next((hint for pattern, hint in SAID if re.search(pattern, text)), None)
    return said or next((hint for pattern, hint in SOURCE if re.search(pattern, source)), None)
