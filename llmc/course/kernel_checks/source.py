"""What a check can see in CUDA source itself: is it a stub, does it define the kernel, is blockDim a literal number?"""

import re

from llmc.course.checks.diagnosis import WrongAnswer, describe
from llmc.course.exercises.stubs import STUB_IN_C

BLOCK_SIZES = {"64", "96", "128", "256", "512", "1024"}  # not 32: that is a warp, and many kernels need it
# a factor of the block's number, how far a loop steps, where a tree begins, what a thread's number is compared with
AS_A_BLOCK = re.compile(
    r"blockIdx\.\w\s*\*\s*(\d+)\b|\b(\d+)\s*\*\s*blockIdx|\+=\s*(\d+)\s*[);]|threadIdx\.\w\s*[<>=]=?\s*(\d+)\b"
    r"|=\s*(\d+)\s*(?:/\s*2\s*)?;[^;]*;[^;{]*(?:/=|>>=)"
)
A_WARPS_STEP = re.compile(r"=\s*(?:[^;=]*\*\s*)?(\d+)\b[^;=]*;[^;]*;[^;]*\+=\s*(\d+)\s*\)")  # c = lane * 8; …; c += 256
CONSTANT = re.compile(r"\bconst(?:expr)?\s+(?:unsigned\s+)?int\s+(\w+)\s*=\s*(\d+)\s*;|#define\s+(\w+)\s+(\d+)\s*\n")
AS_A_FACTOR = re.compile(r"blockIdx\.\w\s*\*\s*(\d+)\b|\b(\d+)\s*\*\s*blockIdx")
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


def literal_block(code, threads):
    """A number such as "256" that is used as a block size and differs from `threads`, or None.

    A kernel that declares its block by `__launch_bounds__` may rely on it.
    """
    if f"__launch_bounds__({threads}" in code:
        return None
    text = _with_numbers(_without_comments(code))
    text = A_WARPS_STEP.sub(lambda loop: "" if int(loop[2]) == 32 * int(loop[1]) else loop[0], text)
    found = (number for groups in AS_A_BLOCK.findall(text) for number in groups)
    return next((number for number in found if number in BLOCK_SIZES and int(number) != threads), None)


def _with_numbers(text) -> str:
    """The text with the numbers themselves in place of the names of constants."""
    for match in CONSTANT.finditer(text):
        name, number = filter(None, match.groups())
        declared = re.escape(match[0])
        text = re.sub(rf"({declared})|\b{name}\b", lambda found, number=number: found[1] or number, text)
    return text


def literal_warps(code, threads, right):
    """A number that multiplies the block's, and is the warps of a block that was right, but not of one of `threads`."""
    for first, second in AS_A_FACTOR.findall(_without_comments(code)):
        warps = int(first or second)
        if 32 * warps != threads and 32 * warps in right:
            return warps
    return None


def _without_comments(code) -> str:
    from llmc.cuda.emulator.compiling.source import mask

    return mask(code)
