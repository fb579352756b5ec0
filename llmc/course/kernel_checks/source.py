"""What a check reads in CUDA source itself: is it a stub, is the kernel in it, which number stands for blockDim?"""

import re

from llmc.course.checks.explain import WrongAnswer, describe
from llmc.course.exercises.stubs import STUB_IN_C

BLOCK_SIZES = {"64", "96", "128", "256", "512", "1024"}  # 32 is a warp's, and rightly stands in many kernels


class Unfinished(NotImplementedError):
    """The source is a stub, or has one left."""


def unfinished(code) -> bool:
    """Is a stub left in it? WrongAnswer when it is no CUDA source at all."""
    if not isinstance(code, str):
        raise WrongAnswer(f'the answer should be CUDA C in a string, r"""…""", but is {describe(code)}.')
    return bool(re.search(rf"^[ \t]*{STUB_IN_C}", _without_comments(code), re.MULTILINE))


def one_index(code):
    """WrongAnswer for x[i, j]: it compiles in C, where it means x[j]."""
    from llmc.cuda.emulator.compiling.python_habits import ONE_INDEX

    text, opened = _without_comments(code), []  # opened: (bracket, is it an index?)
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
    """The name, if a kernel of that name is in the source; else WrongAnswer says which are."""
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


def literal_block(code, threads):
    """A number that could be the threads of a block, and is not `threads`: "256", else None. No length of an array."""
    plain = re.sub(r"\[[^\]]*\]", "", _without_comments(code))
    found = (number for number in re.findall(r"(?<![\w.])\d+(?![\w.])", plain) if number in BLOCK_SIZES)
    return next((number for number in found if int(number) != threads), None)


def _without_comments(code) -> str:
    from llmc.cuda.emulator.compiling.source import mask

    return mask(code)
