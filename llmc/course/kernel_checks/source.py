"""What a check can see in CUDA source itself: is it a stub, does it define the kernel, does an index have a comma?"""

import re

from llmc.course.checks.messages.diagnosis import WrongAnswer, describe
from llmc.course.exercises.stubs import STUB_IN_C
from llmc.cuda.emulator.compiling.python_habits import ONE_INDEX
from llmc.cuda.emulator.compiling.source import kernels, mask

# what is not an index though it has a comma: auto [q, r], a lambda behind return, at<16, 17>
NO_INDEX = re.compile(r"\b(?:auto\s*&{0,2}|return)\s*\[[^\[\]]*\]|\b\w+<[^<>;(){}\[\]]*>")

INNERMOST = re.compile(r"(\w\s*)?([(\[])([^()\[\]]*)[)\]]")  # brackets, and what they belong to


class Unfinished(NotImplementedError):
    """The source is a stub, or still contains one."""


def unfinished(code) -> bool:
    """Is a stub left in it? WrongAnswer if it is not a string."""
    if not isinstance(code, str):
        raise WrongAnswer(f'the answer should be CUDA C in a string, r"""…""", but is {describe(code)}.')
    return bool(re.search(rf"^[ \t]*{STUB_IN_C}", mask(code), re.MULTILINE))


def one_index(code):
    """WrongAnswer for x[i, j], which compiles in C but means x[j]."""
    text = mask(code)
    text = NO_INDEX.sub(lambda found: found[0].replace("[", "{").replace("]", "}").replace(",", ";"), text)
    while match := INNERMOST.search(text):
        before, bracket, inside = match.groups()
        if before and bracket == "[" and "," in inside:
            line = text.count("\n", 0, match.start(2) + 1 + inside.index(",")) + 1
            raise WrongAnswer(f"a comma in an index, line {line}: it compiles, but [i, j] means [j]. {ONE_INDEX}.")
        text = text[: match.start()] + re.sub(r"[^\n]", "x", match[0]) + text[match.end() :]


def kernel_of(code, name) -> str:
    """The name, if the source has a kernel of that name; otherwise WrongAnswer says which kernels it has."""
    names = list(dict.fromkeys(kernel.name for kernel in kernels(code)))
    if name.split("<")[0] not in names:
        there = f"it has {', '.join(names)}" if names else "it has no __global__ function"
        raise WrongAnswer(f"the source should have a kernel called {name}; {there}.")
    return name
