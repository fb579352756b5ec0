"""What someone who knows Python writes in C out of habit, recognised in the line that the compiler stumbled over."""

import re

ONE_INDEX = "C has one index: for [p, q, r] of a (P, Q, R) array write [(p * Q + q) * R + r]"
BRACKETS = "the condition goes in brackets and what follows in braces, without a colon: `if (i < n) { … }`"
NO_FLOOR = "`//` starts a comment, so the rest of this line is gone; `/` between two ints rounds down by itself"
FLOORED = r"^[^\"]*[\w)\]]\s*//\s*[\w(][^;]*;"  # i // C;
SOURCE = (  # (pattern in the source line, hint)
    (
        r"\bfor\s*\([^;)]*,[^;)]*,[^;)]*\)",
        "the three parts of a loop are separated by `;`: `for (int c = 0; c < C; c++)`",
    ),
    (r"=[^=;]+\bif\b[^;]+\belse\b", "a choice between two values is `condition ? a : b`"),
    (r"^\s*for\s+\w+\s+in\b", "a counting loop is `for (int c = 0; c < C; c++) { … }`"),
    (r"^\s*(?:if|while|else|elif|for)\b.*:\s*$|^\s*(?:if|while|elif)\s+[^(\s]", BRACKETS),
    (r"^\s*#\s+\w|[;{}]\s*#", "a comment begins with `//`; `#` is Python's"),
    (FLOORED, NO_FLOOR),
    (r"[\w)\]]\s*\*\*\s*[\w(]", "C has no power operator: write x * x, or powf(x, 3.0f)"),
)
FLOAT4 = "there is no arithmetic on a float4: add a.x and b.x, a.y and b.y, …, and join the sums with make_float4"
SAID = (  # (pattern in the compiler's message, hint)
    (
        r"\[(?:float|double)\]' for array subscript|subscript is not an integer",
        "an index is an integer: int i, or (int)x",
    ),
    (r"invalid types .* for array subscript|subscripted value is not", ONE_INDEX),
    (r"operator[+*/-].*'(?:const )?float4'|binary expression \('(?:const )?float4'", FLOAT4),
)
NAMES = {
    "len": "in C an array does not know its length: pass it as an argument, such as n",
    "range": "a counting loop is `for (int c = 0; c < C; c++) { … }`",
    "True": "in C it is `true`",
    "False": "in C it is `false`",
    "None": "there is no None in C",
    "lambda": "in C++ it is `[=](float v) { return v + 1; }`",
    "elif": "in C it is `else if (…)`",
    "def": "a function begins with the type of its result: `__device__ float f(float x) { … }`",
    "max": "for floats it is fmaxf(a, b)",
    "min": "for floats it is fminf(a, b)",
    "abs": "for floats it is fabsf(x)",
    "ceil_div": "that is a Python function; in C, n / d rounded up is (n + d - 1) / d",
}
COORDINATES = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\b(?!\s*\.)")


def floored(line) -> bool:
    """Does this line divide with //, so that C sees no semicolon?"""
    return bool(re.search(FLOORED, line))


def habit(text, source, unknown="") -> str | None:
    """The hint, or None, for something that would be right in Python and is wrong in C.

    text: the compiler's message. source: the line of the kernel that it is about. unknown: a name that is not declared.
    """
    if unknown in NAMES:
        return NAMES[unknown]
    if unknown and re.match(rf"\s*{re.escape(unknown)}\s*=(?!=)", source):
        return f"a variable is declared with its type, once: `int {unknown} = …;`, or float"
    if missing := COORDINATES.search(source):
        return f".x is missing: {missing[1]}.x"
    said = next((hint for pattern, hint in SAID if re.search(pattern, text)), None)
    return said or next((hint for pattern, hint in SOURCE if re.search(pattern, source)), None)
