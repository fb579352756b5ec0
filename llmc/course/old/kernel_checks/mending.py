"""The change of a learner's kernel with which the whole check passes: it names the line, and what should stand there.

Hundreds of changes are compiled into one text (`switched`) and tried on the launch that went wrong. One that makes it
right is only believed if the check's cell, run twice more on other numbers, accepts the changed kernel.
"""

import copy
import inspect
import io
import re
import time
import warnings
from contextlib import contextmanager, redirect_stdout, suppress

import numpy as np

from llmc.course.learner import journal
from llmc.course.old.checks.evidence import explaining
from llmc.course.old.kernel_checks import runs
from llmc.course.old.kernel_checks.experiments import ALIKE
from llmc.course.old.kernel_checks.given import own_lines
from llmc.course.old.kernel_checks.lines import NAMED
from llmc.course.old.kernel_checks.modelled import MODELS
from llmc.course.old.kernel_checks.pieces import OTHERWISE, TURNS, head_of
from llmc.course.old.kernel_checks.repairs import repairs
from llmc.course.old.kernel_checks.solutions import source_of
from llmc.course.old.kernel_checks.switched import Switched, changed
from llmc.course.old.kernel_checks.wider import wider
from llmc.cuda.emulator.compiling.text import line_at, mask, statements
from llmc.errors import KernelError, NoCompiler, UserError

SECONDS, LEISURE = 3.0, 15.0  # of processor time for all launches; where nobody waits
ENDLESS = 0.15  # seconds after which a changed kernel is taken for one that never ends
MOST = 12  # changes that the whole check is run with
SHOWN = 60  # characters of source that a sentence quotes at most
SEEDS = 5, 6  # of the numbers that a change must be right for, besides the check's own
COMPARES = re.compile(r"[^-<>=][<>]=?[^<>=]")
ALL = 9  # a rank beyond all
SLIPS = 1.5  # the rank up to which something is another than it should be, and nothing is missing
NO_FACTORS = 2.9  # … and no result is multiplied by a factor
SIMPLE = r"[a-z_]\w*(?:\.[xyz])?"
OFF_BY_ONE = re.compile(r"\s*[-+] 1\b")
WORD = re.compile(r"[A-Za-z_]\w*")
KEYWORDS = {"break", "continue", "do", "else", "false", "float", "for", "if", "int", "return", "true", "while"}
LEAVES = re.compile(r"\)\s*\{?\s*return\s*;")  # behind a condition
NEEDLESS = re.compile(rf"(?<!\w)\((?:(-3\.4e38f|threadIdx\.x [%/] 32)\)(?! [*/%])|({SIMPLE})\)(?= [-+*/] ))")

_seconds = SECONDS


@contextmanager
def searching(seconds):
    """Inside the block, repairs are searched for so many seconds of processor time."""
    global _seconds
    was, _seconds = _seconds, seconds
    try:
        yield
    finally:
        _seconds = was


def mended(code, kernel, launch, ours, confirmed, most=ALL, bounds=False) -> str | None:
    """The sentence on the first change that mends the kernel; None without one.

    launch: (grid, block, arguments before it, indices of outputs, bytes of shared memory, options) of the wrong launch.
    most: the rank of repairs that are tried. ours: the arguments as a right kernel leaves them. confirmed(code): does
    the whole check accept this kernel? bounds: changes of comparisons come first.
    """
    own = own_lines(code, kernel)  # an exercise has its kernel's name
    tried = [each for each in repairs(code, own) if each.rank <= most]
    if bounds:
        tried.sort(key=lambda each: each.rank - any(COMPARES.search(new) for _, new in each.changes))
    last = own and most == ALL and kernel not in MODELS  # where a model says what is wrong, this would only fit
    several = [tried, wider(code, own)] if last else [tried]
    return next(filter(None, (_first(code, kernel, launch, ours, confirmed, each) for each in several)), None)


def _first(code, kernel, launch, ours, confirmed, several) -> str | None:
    """The sentence on the first of these repairs that mends the kernel."""
    grid, block, arguments, outputs, shared_mem, options = launch
    tried = 0
    with suppress(KernelError, NoCompiler, UserError), runs.patience(ENDLESS):
        switched, end = Switched(code, kernel, several, options), time.process_time() + _seconds
        for k in sorted(switched.alive):
            if time.process_time() > end or tried == MOST:
                return None
            given = copy.deepcopy(arguments)
            try:
                report = switched.launch(k, grid, block, given, outputs, shared_mem)
            except (KernelError, UserError):  # it never ended, say; others may
                continue
            if report.raw.problems or not alike(given, ours):
                continue
            tried += 1
            if not _brings_in(code, changed(code, several[k]), kernel) and confirmed(changed(code, several[k])):
                staying = _staying(code, several[k])
                return sentence(code, staying if staying and confirmed(changed(code, staying)) else several[k])
    return None


def _brings_in(code, now, kernel) -> bool:
    """Does the change need a name, gridDim say, that neither the kernel nor our solution has?

    It may then make up for another mistake.
    """
    before, after, ours = (set(WORD.findall(mask(text))) for text in (code, now, source_of(kernel) or now))
    return bool(after - before - ours - KEYWORDS)


def _staying(code, repair):
    """The repair that leaves out a `return`, where this one changes when it is made; None for others."""
    (piece, new), *others = repair.changes
    one_off = OFF_BY_ONE.sub("", code[piece.start : piece.end]) == new  # then the 1 is the mistake
    if others or one_off or not LEAVES.match(mask(code), piece.end):
        return None
    return repair._replace(changes=((piece, "false"),), new="false")


def alike(given, ours) -> bool:
    """Are all arrays the same, but for rounding?"""
    for got, right in zip(given, ours):
        if not isinstance(got, np.ndarray):
            continue
        allowed = ALIKE if got.itemsize > 2 else runs.AGREE_IN_16_BITS
        with np.errstate(all="ignore"):  # of NaN in bfloat16
            got, right = got.astype(np.float64), right.astype(np.float64)
        finite = np.isfinite(right)
        if not np.array_equal(finite, np.isfinite(got)):
            return False
        size = np.abs(right[finite]).max(initial=0.0)
        if (np.abs(got[finite] - right[finite]) > allowed * size).any():
            return False
    return True


def accepts(cell, kind, name, code) -> bool:
    """Does the check of that frame, run again with another kernel, accept it? kind: the class of the check."""
    if cell.f_code.co_flags & inspect.CO_OPTIMIZED or cell.f_globals.get("kernel_check") is not kind:
        return False
    again = [type("Again", (kind,), {"__enter__": _entering(seed), "__exit__": _exit}) for seed in SEEDS]
    was_recording, was_explaining = journal.recording(False), explaining(False)
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for each in again:
                exec(cell.f_code, {**cell.f_globals, "kernel_check": each, name: code})
    except Exception:  # the check's refusal, or whatever the cell cannot do a second time
        return False
    finally:
        journal.recording(was_recording)
        explaining(was_explaining)
    return True


def _entering(seed):
    def enter(self):
        self.rng = np.random.default_rng(seed)
        return self

    return enter


def _exit(self, kind, error, traceback):
    return False


# ------------------------------------------------------------------------------------------------------- in words


def sentence(code, repair) -> str:
    """ "The whole check passes with `lane == 0` in place of `threadIdx.x == 0` in line 24." """
    (piece, new), *others = repair.changes
    old, line = " ".join(code[piece.start : piece.end].split()), line_at(code, repair.at)
    passes = "Your kernel passes this whole check"
    lines = sorted({line_at(code, each.start) for each, _ in repair.changes})
    where = f"lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}" if lines[1:] else f"line {lines[0]}"
    if others and "` and `" in repair.old:  # two names, or the values of two, exchanged
        return f"{passes} with `{repair.new}` in place of `{repair.old}` in {where}."
    if piece.kind == TURNS:
        loop = f"`while ({_cut(new)}) {{ … }}` in place of `do {{ … }} while ({_cut(new)});`"
        return f"{passes} with {loop} in line {line}: the first turn, too, needs the condition."
    if others and not _is_order(code, repair):
        return f"{passes} with `{_plain(repair.new)}` in place of `{_plain(repair.old)}` in {where}."
    if others:
        return f"{passes} with `{_cut(old)};` and `{_cut(new)};` in the other order, line {line}."
    new = _plain(new)
    if not new:
        return f"{passes} {_left_out(code, piece)}"
    if new == "false":
        return f"{passes} without the `return` in line {line}."
    if new == "true":
        return f"{passes} without the condition `{_cut(old)}` in line {line}."
    before, after = _around(old, new)
    whole = code.splitlines()[line - 1]
    name = NAMED.search(code, 0, piece.start) if whole.count(before) > 1 else None  # one of several of that text
    before, after = (f"{name[0]}{each}" for each in (before, after)) if name else (before, after)
    return f"{passes} with `{after}` in place of `{before}` in line {line}."


def _left_out(code, piece) -> str:
    """ "without `if (lane > 0) return;` in line 24.": an `if` that has nothing left to do goes, too."""
    text, line = statements(code), line_at(code, piece.start)
    start = head_of(text, piece.start)
    if start < piece.start and OTHERWISE.match(text, piece.end):
        return f"with `;` in place of `{_cut(code[piece.start : piece.end])};` in line {line}."
    return f"without `{_cut(code[start : piece.end])};` in line {line_at(code, start)}."


def _is_order(code, repair) -> bool:
    """Do two statements change places?"""
    texts = [code[piece.start : piece.end] for piece, _ in repair.changes]
    return len(texts) == 2 and [new for _, new in repair.changes] == texts[::-1]


def _plain(text) -> str:
    """Without brackets that only the change needs."""
    return NEEDLESS.sub(r"\1\2", " ".join(text.split()))


def _cut(text) -> str:
    """Shortened in the middle."""
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else f"{text[: SHOWN // 2].rstrip()} … {text[-SHOWN // 2 :].lstrip()}"


def _around(old, new) -> tuple[str, str]:
    """The part of two texts in which they differ, with something around it where they are long."""
    if max(len(old), len(new)) <= SHOWN:
        return old, new
    same = next((k for k, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
    tail = next(
        (k for k, (a, b) in enumerate(zip(old[same:][::-1], new[same:][::-1])) if a != b),
        min(len(old), len(new)) - same,
    )
    start = max(0, same - 20)
    start = start and old.find(" ", start, same) + 1 or start
    ends = [min(len(each), len(each) - tail + 20) for each in (old, new)]
    ends = [each.find(" ", end) if each.find(" ", end) >= 0 else len(each) for each, end in zip((old, new), ends)]
    return tuple(
        f"{'… ' * (start > 0)}{each[start:end].strip()}{' …' * (end < len(each))}"
        for each, end in zip((old, new), ends)
    )
