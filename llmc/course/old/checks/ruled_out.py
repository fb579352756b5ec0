"""Of known mistakes that give the same numbers, which ones does the text of the learner's function rule out?

`1 / sqrt(variance + 1e-12)` and `1 / sqrt(variance)` agree in all digits: only the text shows whether there is a 1e-12.
"""

import inspect
import re
from contextlib import suppress
from types import FunctionType

from llmc.course.old.checks import evidence
from llmc.course.old.checks.remains import names_read
from llmc.cuda.emulator.compiling.text import mask

NUMBER = re.compile(r"(?<![\w.])(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
SMALL = re.compile(r"(?<!in place of )\b\d+e-\d+\b")  # in a sentence: "with 1e-12 in place of 1e-5"
AN_EPS = re.compile(r"(without )?\beps\b")
ABOVE = re.compile(r"\bis above (\d+)\b")  # "clipped where norm is above 1"
COMPARED = r"[<>]=?\s*{0}(?:\.0*)?f?(?![\w.])|(?<![\w.]){0}(?:\.0*)?f?\s*[<>]"
CHOOSES = re.compile(r"max|where|clip|\bif\b|\?")
LARGER = re.compile(r"\bof at least\b")  # max(p, eps)
IN_A_MAXIMUM = r"(?:max[fi]?|maximum|clip)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*?(?<![\w.]){0}(?!\w)"
IN_A_SUM = r"\+\s*{0}(?!\w)|(?<![\w.]){0}\s*\+"
COMPUTED = re.compile(r"\*\*\s*\(?-|\bfinfo\b|\btiny\b|\bpow")  # a small number that is written otherwise
LEAST = 1e-2  # no eps is larger


def ruled_out(sentences) -> set[str]:
    """Those that the text rules out; none if it is not known, or would rule out all."""
    text = _text()
    known = bool(text) and not COMPUTED.search(text)
    out = {each for each in sentences if known and _contradicted(each, text)}
    return out if len(out) < len(set(sentences)) else set()


def _contradicted(sentence, text) -> bool:
    """Does the sentence tell of a number, a bound or an eps that the text does not have, or has in another place?"""
    formula = sentence.partition(": ")[0]
    numbers = {float(found) for found in NUMBER.findall(text)}
    claimed = SMALL.findall(formula)
    if any(float(each) not in numbers for each in claimed):
        return True
    has_eps = any(0 < each <= LEAST for each in numbers) or bool(re.search("eps", text, re.IGNORECASE))
    eps = AN_EPS.search(formula)
    if eps and has_eps == bool(eps[1]):
        return True
    if "the larger of" in formula and not CHOOSES.search(text):
        return True
    above = ABOVE.search(formula)
    if above and not re.search(COMPARED.format(above[1]), text):
        return True
    other = IN_A_SUM if LARGER.search(formula) else IN_A_MAXIMUM if "added to" in formula else None
    written = [re.escape(found) for found in NUMBER.findall(text) if float(found) in map(float, claimed)]
    return bool(other) and any(re.search(other.format(each), text) for each in written)


def _text() -> str:
    """The learner's kernel, or function with the numbers of the globals that it reads; "" where it is not known."""
    check = evidence.running()
    last = check and check.replays and check.replays[-1]
    if not last:
        return ""
    report = getattr(last, "report", None)
    if report is not None:
        return mask(report.raw.code)
    function = getattr(check.function, "py_func", check.function)
    seen = {}
    with suppress(OSError, TypeError):
        _collect(function, seen)
        return "\n".join(seen.values())
    return ""


def _collect(function, seen):
    """Note the source of the function, and of the learner's that it reads by name."""
    seen[function] = re.sub(r"#.*", "", inspect.getsource(function))
    for name in names_read(function.__code__):
        value = function.__globals__.get(name)
        value = getattr(value, "py_func", value)
        if isinstance(value, FunctionType) and value not in seen and value.__globals__ is function.__globals__:
            _collect(value, seen)
        elif isinstance(value, float):
            seen[name] = f"{name} = {value!r}"
