"""What a check can see in CUDA source itself: is it a stub, does it define the kernel, has an index a comma?"""

import re

from llmc.course.checks.diagnosis import WrongAnswer, describe
from llmc.course.exercises.stubs import STUB_IN_C

# what is no index though a comma stands in it: auto [q, r], a lambda behind return, at<16, 17>
NO_INDEX = re.compile(r"\b(?:auto\s*&{0,2}|return)\s*\[[^\[\]]*\]|\b\w+<[^<>;(){}\[\]]*>")


class Unfinished(NotImplementedError):
    """The source is a stub, or still contains one."""


def unfinished(code) -> bool:
    """Is a stub left in it? WrongAnswer if it is not a string."""
    if not isinstance(code, str):
        raise WrongAnswer(f'the answer should be CUDA C in a string, r"""…""", but is {describe(code)}.')
    return bool(re.search(rf"^[ \t]*{STUB_IN_C}", _without_comments(code), re.MULTILINE))


def one_index(code):
    """WrongAnswer for x[i, j], which compiles in C but means x[j]."""
    from llmc.cuda.emulator.compiling.python_habits import ONE_INDEX

    text, opened = _without_comments(code), []  # opened: (bracket, is it an index?)
    text = NO_INDEX.sub(lambda found: found[0].replace("[", "{").replace("]", "}").replace(",", ";"), text)
    for match in re.finditer(r"[\w)\]]\s*\[|[\[({\])},]", text):
        mark = match.group()[-1]
        if opened and match.group()[0] in ")]" and len(match.group()) > 1:  # of x[b][t], or f(x)[i]
            opened.pop()
        if mark in "[({":
            opened.append((mark, len(match.group()) > 1))
        elif mark in "])}" and opened:
            opened.pop()
        elif mark == "," and opened and opened[-1] == ("[", True):
            line = text.count("\n", 0, match.start()) + 1
            raise WrongAnswer(f"a comma in an index, line {line}: it compiles, but [i, j] means [j]. {ONE_INDEX}.")


def kernel_of(code, name) -> str:
    """The name, if the source has a kernel of that name; otherwise WrongAnswer says which kernels it has."""
    from llmc.cuda.emulator.compiling.source import kernels

    names = list(dict.fromkeys(kernel.name for kernel in kernels(code)))
    if name.split("<")[0] not in names:
        there = f"it has {', '.join(names)}" if names else "it has no __global__ function"
        raise WrongAnswer(f"the source should have a kernel called {name}; {there}.")
    return name


def parameters(code, kernel) -> tuple[str, ...]:
    """Names of the kernel's parameters."""
    from llmc.cuda.emulator.compiling.source import parameter_names

    return parameter_names(code, kernel)


def _without_comments(code) -> str:
    from llmc.cuda.emulator.compiling.source import mask

    return mask(code)
