"""Mutant schemata: a kernel with all edits of it in one text, one of which is switched on before a launch.

    schemata = Schemata(code, "scale", edits, options)                # one compilation for all of them
    report = schemata.launch(3, grid, block, arguments, outputs)     # with edits[3]

`i < n` becomes `(!llmc_here[7] ? (i < n) : (i <= n))`, a statement an `if` with several branches. In front of each
stands `llmc_here[7] &&`, which is 1 where the change is: one look at memory is all that the others cost. A change that
does not compile is left out. Loops count their turns and end when none are left: no edit runs for ever.
"""

import copy
import ctypes
import re
from collections import defaultdict

from llmc.course.mutation.c_source import STATEMENT
from llmc.course.mutation.c_source import pieces as pieces_of
from llmc.cuda.emulator.build import Build
from llmc.cuda.emulator.compiling.compiler import faulty_lines
from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.kernels import RawKernel

SWITCH, HERE, LEFT = "llmc_change", "llmc_here", "llmc_left"
ALL = 1 << 24  # turns
TURNS, FEWEST = 10, 2000  # times as many turns of its loops as the kernel makes, and the fewest that an edit may make
HEAD = (  # on one line
    f"__constant__ int {SWITCH} = {{}}; __constant__ unsigned char {HERE}[{{}}] = {{}}; __device__ int {LEFT} = 0; "
    f'__device__ __attribute__((noinline, no_sanitize("thread"))) bool llmc_turn() {{ return --{LEFT} >= 0; }}\n'
)
NONE = -1
TRIES = 6  # of leaving out what does not compile
STATEMENTS = "{{ if (!{}[{}]) {{ {}; }} else ", "\nif ({} == {}) {{ {}; }} else", "\n{{ {}; }} }}"
EXPRESSIONS = "(!{}[{}] ? ({}) : ", "", "\n)"  # and `_chosen` between them
# GCC does not notice a store of what a function returns if that is a structure; it notices the structure's own copy
INLINED = re.compile(r"(__device__)(?= (?!void|float|double|int|unsigned|bool|size_t|long)\w+ \w+\()")
ONE_BY_ONE = "(0 * {}[{}], ", "\n(void)({} == {} ? ({}) : ({old})), ", "\n({}))"  # or the first error would hide others


class Schemata:
    """edits: a list of Edit, whose changes are (piece, new text). alive: the indices of those that compile.

    Raises KernelError if nothing does.
    """

    def __init__(self, code, kernel, edits, options=()):
        self.alive, self._edits = set(range(len(edits))), edits
        tests = {piece for piece in pieces_of(code) if piece.test}
        self._pieces = sorted({piece for edit in edits for piece, _ in edit.changes} | tests)
        for left in reversed(range(TRIES)):
            some = [(k, each) for k, each in enumerate(edits) if k in self.alive]
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
            text, _ = _combined(code, [(k, each) for k, each in enumerate(edits) if k in self.alive], self._pieces)
        self._build = Build(text, (kernel,), options, quick=True)
        self._kernel = RawKernel.of(self._build, kernel, True)
        self._switch = ctypes.c_int.from_buffer(self._build.variable(SWITCH, True))
        self._here = self._build.variable(HERE, True)
        self._left = ctypes.c_int.from_buffer(self._build.variable(LEFT, True))
        self._turns = 0  # that an edit may make

    def _beside(self, guilty) -> set:
        """These, and all others that change the same pieces: an error may hide what comes after it."""
        there = {piece for k in guilty for piece, _ in self._edits[k].changes}
        return {k for k in self.alive if any(piece in there for piece, _ in self._edits[k].changes)}

    def launch(self, k, grid, block, arguments, outputs=(), shared_mem=0):
        """The report of a launch with the k-th edit, until something is wrong; arrays are written."""
        if not self._turns:
            self._examined(NONE, grid, block, copy.deepcopy(tuple(arguments)), shared_mem, outputs)
            self._turns = max(FEWEST, TURNS * (ALL - self._left.value))
        return self._examined(k, grid, block, tuple(arguments), shared_mem, outputs)

    def _examined(self, k, grid, block, arguments, shared_mem, outputs):
        there = [] if k == NONE else [piece for piece, _ in self._edits[k].changes]
        self._switch.value, self._left.value = k, self._turns or ALL
        self._here[:] = [piece in there for piece in self._pieces]
        return self._kernel.examine(grid, block, arguments, shared_mem, outputs, first=k != NONE)


def with_edit(code, edit) -> str:
    """The code with one edit made."""
    for piece, new in sorted(edit.changes, reverse=True):
        code = code[: piece.start] + new + code[piece.end :]
    return code


def _combined(code, edits, pieces, expressions=EXPRESSIONS) -> tuple[str, dict]:
    """(the text with all of them, {line: which edits are there})."""
    others = defaultdict(list)
    for k, edit in edits:
        for piece, new in edit.changes:
            others[piece].append((k, " ".join(new.split())))
    text = HEAD.replace("{}", str(NONE), 1).replace("{}", str(len(pieces)), 1)
    masked, lines, at = mask(code), {}, 0
    for number, piece in enumerate(pieces):
        text += code[at : piece.start] + "(llmc_turn() && (" * piece.test
        changes, at = others[piece], piece.end
        if changes:
            old, several = " ".join(masked[piece.start : piece.end].split()), {k for k, _ in changes}
            first, each, last = STATEMENTS if piece.kind == STATEMENT else expressions
            text += first.format(HERE, number, old)
            line = text.count("\n") + 1
            lines |= {line: lines.get(line, several), line + 1 + len(changes): several}
            lines |= {line + 1 + n: {k} for n, (k, _) in enumerate(changes)}
            text += "".join(each.format(SWITCH, k, new, old=old) for k, new in changes) if each else _chosen(changes)
            text += last.format(old)
            at += piece.kind == STATEMENT  # with its semicolon
        else:
            text += code[piece.start : piece.end]
        text += "))" * piece.test
    return INLINED.sub(r"\1 __forceinline__", text + code[at:]), lines


def _chosen(several) -> str:
    """One of these expressions, [(k, its text)], each on a line of its own: a chain of them would take GCC seconds."""
    if len(several) == 1:
        return f"\n({several[0][1]})"
    half = len(several) // 2
    return f"({SWITCH} < {several[half][0]} ? {_chosen(several[:half])} : {_chosen(several[half:])})"
