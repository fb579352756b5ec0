"""Lesson 14: why a kernel may leave numbers unwritten, or add to numbers that nobody has set."""

import re
from contextlib import contextmanager, suppress

import numpy as np

from llmc.course.lessons.backward_kernels.layernorm_gradients import add_up
from llmc.course.lessons.backward_kernels.places import REGISTERS, STAGES
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.kernel_checks.runs import emulate
from llmc.cuda.emulator.compiling.text import line_at, mask
from llmc.cuda.emulator.findings.absences import NAME, thread_names

RETURN = re.compile(r"\breturn\s*;")
DECLARED = re.compile(r"\bfloat[24]?\s+([^;()*]*);")  # what follows the type, up to the semicolon
NOT_SET = re.compile(r"(?:^|,)\s*(\w+)\[\w+\]\s*(?=,|$)")  # an array without = {} in it
IF = re.compile(r"\bif\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")


@contextmanager
def explained(why):
    """Around a launch: if it leaves something unwritten, the message begins with why(), unless that is ""."""
    try:
        yield
    except WrongAnswer as wrong:
        words = why() if "ever written" in wrong.message else ""
        if words:
            wrong.message = f"{words}\n{wrong.message}"
        raise


def idle_blocks(partial, expected, N) -> str:
    """Words if just the blocks without a row of x are missing. partial, expected: (blocks, 2, C)."""
    blocks = len(expected)
    if N >= blocks or not np.allclose(partial[:N], expected[:N], rtol=1e-4, atol=1e-4):
        return ""
    which = f"blocks {N} to {blocks - 1} have" if blocks - N > 1 else f"block {N} has"
    return f"{which} no row of x, because there are only {N}, and must write zeros.\n→ Where to look: {STAGES}."


def idle_warps(code, N, blocks) -> str:
    """Words if some of a block's 8 warps have no row, and the source of the kernel has a return.

    One whose condition asks for the block alone lets whole blocks leave.
    """
    if N >= 8 * blocks or not RETURN.search(code, _kernel(code)):
        return ""
    busy = -(-N // 8)
    which = f"blocks {busy} to {blocks - 1} have" if blocks - busy > 1 else f"block {busy} has"
    zeros = f"{which} none, and must write zeros to partial, of which all blocks are added up"
    if line := _leave_as_blocks(code):
        if busy == blocks:
            return ""
        return f"line {line} lets whole blocks return. With N = {N} rows, {zeros}.\n→ Where to look: {STAGES}."
    some = zeros if busy < blocks else "some of the 8 warps of a block have none"
    return f"with N = {N} rows, {some}.\n→ Where to look: {REGISTERS}."


def _kernel(code) -> int:
    """Where the kernel begins, behind its helpers."""
    return max(0, code.find('extern "C"'))


def _leave_as_blocks(code) -> int:
    """The line of the only return, if its condition asks for the block, and for nothing that differs in it; else 0."""
    text = mask(code)
    match, *others = RETURN.finditer(text, _kernel(code))
    heads = [head for head in IF.finditer(text, 0, match.start()) if not text[head.end() : match.start()].strip(" \n{")]
    names = {*NAME.findall(heads[-1][0])} if heads and not others else set()
    return line_at(text, match.start()) if "blockIdx" in names and not names & thread_names(code) else 0


def never_set(code, blocks, arguments, sums):
    """WrongAnswer if a kernel whose sums are wrong adds to local arrays that nothing sets, and is right with zeros.

    arguments: of its launch; the second is partial (blocks, 2, C). sums: what partial should be.
    """

    def right(changed):
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        with suppress(WrongAnswer):
            report = emulate(changed, "fused_layernorm_backward", (blocks,), (256,), given, shared_mem=4 * sums[0].size)
            return not report.problems and add_up(given[1], sums)
        return False

    names = [f"`{name}`" for name in never_set_arrays(code, right)]
    if names:
        raise WrongAnswer(
            f"partial is wrong, because nothing sets {' and '.join(names)} before your kernel adds to "
            f"{'them' if names[1:] else 'it'}. A local array holds anything at first: `float4 a[8] = {{}};` sets one "
            f"to zeros.\n→ Where to look: {REGISTERS}."
        )


def never_set_arrays(code, right) -> list[str]:
    """The local arrays to which the source adds, and which nothing sets; [] if zeros in them do not make it right.

    right(source): are the sums of a kernel right?
    """
    names = []
    for name in (name for declared in DECLARED.findall(code) for name in NOT_SET.findall(declared)):
        place = rf"\b{name}\[[^\]]*\](?:\.\w)?\s*"
        if re.search(place + r"\+=", code) and not re.search(place + r"=(?!=)", code):
            names.append(name)
    if not names or not right(_begun(names, code)):
        return []
    return [name for name in names if not right(_begun(names, code, name))]  # a helper may fill the others


def _begun(names, code, spoilt="") -> str:
    """The source with zeros in these local arrays, and NaN in the spoilt one, where they are declared."""
    for name in names:
        place = re.search(rf"\b{name}\[\w+\](?=\s*[,;])", code)  # its declaration comes first
        end = code.index(";", place.end()) + 1
        nan = f" memset({name}, 255, sizeof {name});" if name == spoilt else ""
        code = f"{code[: place.end()]} = {{}}{code[place.end() : end]}{nan}{code[end:]}"
    return code
