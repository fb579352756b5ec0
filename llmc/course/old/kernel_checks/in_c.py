"""Messages whose terms are NumPy's, or which quote a kernel's model, in the terms of C.

What is only in a model has no name there: it is put into other words, or nothing is said of it.
"""

import re

from llmc.cuda.emulator.compiling.text import mask

PART = r"((?:[^(),]|\([^()]*\))+)"  # an argument, perhaps with brackets
ONE_OF_FOUR = "it moves only the first of each four numbers: a thread must move all four, as one float4"
TERMS = [
    (re.compile(python), c)
    for python, c in (
        (r"look at reshape and transpose", "look at how the index is made"),
        (r"without the line `([^`=]* (?:<|>=|==|>|<=) [^`=]*)`", r"without the check `if (\1)`"),
        (r"the lines of `if ([^`]*):`", r"the lines of `if (\1)`"),
        (r"without the line `(\w+)\[[^`]*\bslots\] \+?= [^`]*`", r"without the line that writes float4s to \1"),
        (r"without the line `range\(", r"without the loop `range("),
        (r"without the term `slots` in `\(([^(),`]+), ", r"without the term `i` in `(\1, "),
        (r" in `\(([^(),`]+), ([^(),`]+) \+ slots\)`", r" in `[\1][\2 + i]`"),
        (r" in `\(([^(),`]+), ([^(),`]+)\)`", r" in `[\1][\2]`"),
        (r"without the term `slots`, everywhere", f"when {ONE_OF_FOUR}"),
        (r"without the term `slots` in `(\w+)\[", r"with the first of each four numbers in all four places in `\1["),
        (r"(`|= )([^`=]+?) if ([^`]+?) else ([^`]+)`", r"\1\3 ? \2 : \4`"),
        (rf"\bhalves\({PART}, {PART}\)", r"for (gap = \1; gap > \2; gap /= 2)"),
        (r"with // in place of", "with / in place of"),
        (r"\bsum4\((\w+)\)", r"\1.x + \1.y + \1.z + \1.w"),
        (r" \+ slots\b", ""),
        (r"\b(as_|bs|tile)\[([^][]+), ([^][]+)\]", r"\1[\2][\3]"),
        (r"\bas_", "as"),
        (r", in stored\b", ", where results are written"),
        (r"\bALL\b", "0xffffffff"),
        (r", in (warp_sum|warp_max)\b", lambda match: THEIR_PLACES[match[1]]),
    )
]

ADD, ADD_FOURS = "holds, with +=", "holds, number by number: a float4 has no +="
OF_FOURS = ": in the whole fours, and not behind them."

RANGE = re.compile(rf"\brange\({PART}, {PART}, {PART}\)")
ONE_BY_ONE = re.compile(rf"`for (\w+) in range\({PART}, {PART}, 1\):`")
ROUNDED_DOWN = re.compile(r"(?<=[\w)]) // (?=[\w(])")
NEAR = 4  # characters on either side that tell where something stands

# functions that some kernels have, and others write as a loop, whose variable is not `v`
REDUCTIONS = {"warp_sum": "sum", "warp_max": "maximum"}
THEIR_PLACES = {
    "warp_sum": ", where the lanes' sums are added up",
    "warp_max": ", where the lanes' maxima are compared",
}
LINE_OF_V = re.compile(r" in `v [^`]*`(?=, where the lanes')")
OURS = r"slots|halves|sum4|outer|row_of|pick|fetch|tile_row|tile_column|thread_row|thread_column"
WORDS = r"added|multiplied"  # functions of models whose names are words, too: "with the offset added twice"
ONLY_IN_MODELS = re.compile(
    rf"\b(?:{OURS})\b|\b(?:{WORDS})\(|, in (?:{WORDS})\b|without (?:{WORDS})\b|\bshared\(|without shared\b"
)
CHOSEN = re.compile(r"with `([A-Za-z_]\w*)` in place of")
OF_A_LOOP = re.compile(r"`for \((\S+) = ([^;`]+); \1 < ([^;`]+); \1(?:\+\+| \+= ([^`]+))\)`")
VALUES = re.compile(r"has the values that our solution gives .*")


def in_c(message, code="") -> str:
    """ "in `for (gap = 16; gap > 0; gap /= 2)`" for "in `halves(16, 0)`"; code: the learner's, whose names may stay."""
    message = _translated(message, code)
    for name, word in REDUCTIONS.items():
        if name not in code:
            message = re.sub(rf"\b{name}\(", f"the lanes' {word} of (", message)
            message = re.sub(rf"\b{name}\b", f"the lanes' {word}", message)
            lines = message.split("\n")
            message = "\n".join(_of_any_variable(line) if THEIR_PLACES[name] in line else line for line in lines)
    old, new = (ADD, ADD_FOURS) if "float4" in code else (OF_FOURS, ".")
    message = message.replace(old, new)
    return "\n".join(_said(line, code) for line in message.split("\n"))


def _of_any_variable(line) -> str:
    """A line about a change inside of such a function, without its `v`."""
    return re.sub(r"(?<=[`(, ])v(?=[`), ])", "…", LINE_OF_V.sub("", line))


def can_be_said(words) -> bool:
    """Are words for a mutant of a model free of what is only in the model, once they are in C?"""
    return not ONLY_IN_MODELS.search(_translated(words))


def _translated(message, code=""):
    for python, c in TERMS:
        message = python.sub(c, message)
    message = ONE_BY_ONE.sub(r"`for (int \1 = \2; \1 < \3; \1++)`", message)
    message = ROUNDED_DOWN.sub(lambda found: found[0] if _is_quoted(found, code) else " / ", message)
    return RANGE.sub(lambda match: _loop(*match.groups(), code), message)


def _is_quoted(found, code) -> bool:
    """Does the message have it from the learner's code, with what stands around it?"""
    return found.string[max(0, found.start() - NEAR) : found.end() + NEAR] in code


def _loop(start, stop, step, code) -> str:
    """`for (i = lane; i < C; i += 32)` with the variable of such a loop in the learner's code, or else without one."""
    name = _their_loop(start, stop, step, code) or "…"
    return f"for ({name} = {start}; {name} < {stop}; {name}{'++' if step == '1' else f' += {step}'})"


def _their_loop(start, stop, step, code) -> str:
    """The variable of such a loop in the learner's code, or ""."""
    begins, ends, steps = (re.escape(re.sub(r"\s+", "", piece)) for piece in (start, stop, step))
    on = rf"\1\+={steps}" if step != "1" else r"(?:\1\+\+|\+\+\1|\1\+=1)"
    squeezed = re.sub(r"\bint\b|\s+", "", mask(code))
    found = re.search(rf"for\(([A-Za-z_]\w*)={begins};\1<{ends};{on}\)", squeezed)
    return found[1] if found else ""


def quotes_their_loop(words, code) -> bool:
    """Is the change one of a loop that the learner's code has, word for word? Then another loop is wrong, or none."""
    loop = OF_A_LOOP.search(_translated(words, code))
    there = any(each in words for each in ("only where", " in front of `"))  # it is the place of another change
    return bool(loop) and not there and bool(_their_loop(loop[2], loop[3], loop[4] or "1", code))


def names_a_stranger(words, code) -> bool:
    """Is the change the choice of a variable that the learner's code does not have?"""
    return any(not re.search(rf"\b{name}\b", code) for name in CHOSEN.findall(words))


def _said(line, code):
    """A line about our solution, unless it names something of the model."""
    mine = not ONLY_IN_MODELS.search(line) and not names_a_stranger(line, code)
    if "our solution" not in line.lower() or mine:
        several = quotes_their_loop(line, code)  # it may have it in one place, and not in another
        return OF_A_LOOP.sub(r"\g<0> (one of them, where there are several)", line) if several else line
    return VALUES.sub("has wrong values.", line) if VALUES.search(line) else ""
