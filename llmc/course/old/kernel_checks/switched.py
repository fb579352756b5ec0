"""A kernel with all changes of it in one text, one of which is switched on before a launch: one compilation for all.

    switched = Switched(code, "scale", repairs, options)
    report = switched.launch(3, grid, block, arguments, outputs)     # with the change repairs[3], or None without any

`i < n` becomes `(!llmc_here[7] ? (i < n) : (i <= n))`, a statement an `if` with several branches. In front of each
stands `llmc_here[7] &&`, which is 1 where the change is: one look at memory is all that the others cost. A change that
does not compile is left out.
"""

import ctypes
import re
from collections import defaultdict

from llmc.course.old.kernel_checks.pieces import STATEMENT, TURNS
from llmc.cuda.emulator.build import Build
from llmc.cuda.emulator.compiling.compiler import faulty_lines
from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.kernels import RawKernel

SWITCH, HERE = "llmc_change", "llmc_here"
NONE = -1
TRIES = 6  # of leaving out what does not compile
STATEMENTS = "{{ if (!{}[{}]) {{ {}; }} else ", "\nif ({} == {}) {{ {}; }} else", "\n{{ {}; }} }}"
EXPRESSIONS = "(!{}[{}] ? ({}) : ", "", "\n)"  # and `_chosen` between them
# GCC does not notice a store of what a function returns if that is a structure; it notices the structure's own copy
INLINED = re.compile(r"(__device__)(?= (?!void|float|double|int|unsigned|bool|size_t|long)\w+ \w+\()")
ONE_BY_ONE = "(0 * {}[{}], ", "\n(void)({} == {} ? ({}) : ({old})), ", "\n({}))"  # or the first error would hide others


class Switched:
    """repairs: a list of Repair. alive: the indices of those that compile. Raises KernelError if nothing does."""

    def __init__(self, code, kernel, repairs, options=()):
        self.alive, self._repairs = set(range(len(repairs))), repairs
        self._pieces = sorted({piece for repair in repairs for piece, _ in repair.changes})
        for left in reversed(range(TRIES)):
            some = [(k, each) for k, each in enumerate(repairs) if k in self.alive]
            text, lines = _combined(code, some, self._pieces, ONE_BY_ONE)
            wrong = faulty_lines(text, (kernel,), options)
            if not wrong:
                text, lines = _combined(code, some, self._pieces)
                wrong = faulty_lines(text, (kernel,), options)
            known = [lines[line] for line in wrong if line in lines]
            if not known:
                break
            # where what was there does not compile either, a change before it is to blame: of a name's declaration
            innocent = set().union(*(found for found in known if len(found) > 1))
            alone = [found for found in known if len(found) == 1]
            guilty = [found for found in alone if not found & innocent]
            guilty = set().union(*(guilty or alone or known))
            self.alive -= guilty if left else self._beside(guilty)
        else:  # the text still has those that were left out last
            text, _ = _combined(code, [(k, each) for k, each in enumerate(repairs) if k in self.alive], self._pieces)
        self._build = Build(text, (kernel,), options, quick=True)
        self._kernel = RawKernel.of(self._build, kernel, True)
        self._switch = ctypes.c_int.from_buffer(self._build.variable(SWITCH, True))
        self._here = self._build.variable(HERE, True)

    def _beside(self, guilty) -> set:
        """These, and all others that change the same pieces: an error may hide what comes after it."""
        there = {piece for k in guilty for piece, _ in self._repairs[k].changes}
        return {k for k in self.alive if any(piece in there for piece, _ in self._repairs[k].changes)}

    def launch(self, k, grid, block, arguments, outputs=(), shared_mem=0):
        """The report of a launch with the k-th change, or with none if that is None; arrays are written."""
        self._switch.value = NONE if k is None else k
        there = () if k is None else [piece for piece, _ in self._repairs[k].changes]
        self._here[:] = [piece in there for piece in self._pieces]
        return self._kernel.examine(grid, block, tuple(arguments), shared_mem, outputs)


def changed(code, repair) -> str:
    """The code with one repair made."""
    for piece, new in sorted(repair.changes, reverse=True):
        code = code[: piece.start] + (f"if ({new}) " if piece.kind == TURNS else new) + code[piece.end :]
    return code


def _combined(code, repairs, pieces, expressions=EXPRESSIONS) -> tuple[str, dict]:
    """(the text with all of them, {line: which repairs stand there})."""
    others = defaultdict(list)
    for k, repair in repairs:
        for piece, new in repair.changes:
            others[piece].append((k, " ".join(new.split())))
    head = f"__constant__ int {SWITCH} = {NONE}; __constant__ unsigned char {HERE}[{len(pieces)}] = {{}};\n"
    masked, parts, lines, at, line = mask(code), [head], {}, 0, 2
    for number, piece in enumerate(pieces):
        if piece not in others:
            continue
        old = "true" if piece.kind == TURNS else " ".join(masked[piece.start : piece.end].split())
        first, each, last = STATEMENTS if piece.kind == STATEMENT else expressions
        guard = "if (" * (piece.kind == TURNS)
        parts.append(code[at : piece.start] + guard + first.format(HERE, number, old))
        line += code.count("\n", at, piece.start)
        several = {k for k, _ in others[piece]}
        lines.setdefault(line, several)
        lines.update({line + 1 + n: {k} for n, (k, _) in enumerate(others[piece])})
        line += len(others[piece])
        parts += (
            [each.format(SWITCH, k, new, old=old) for k, new in others[piece]] if each else [_chosen(others[piece])]
        )
        line += 1
        lines[line] = several
        parts.append(last.format(old) + ") " * bool(guard))
        at = piece.end + (piece.kind == STATEMENT)  # with its semicolon
    parts.append(code[at:])
    return INLINED.sub(r"\1 __forceinline__", "".join(parts)), lines


def _chosen(several) -> str:
    """One of these expressions, [(k, its text)], each on a line of its own: a chain of them would take GCC seconds."""
    if len(several) == 1:
        return f"\n({several[0][1]})"
    half = len(several) // 2
    return f"({SWITCH} < {several[half][0]} ? {_chosen(several[:half])} : {_chosen(several[half:])})"
