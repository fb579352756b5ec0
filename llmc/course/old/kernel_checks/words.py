"""How the check of a CUDA kernel explains itself: from the emulator's report to the message of a WrongAnswer."""

import math
import re
from dataclasses import dataclass

from llmc.course.old.kernel_checks.given import behind, called_in, moved_before, own_lines
from llmc.course.old.kernel_checks.left import idle_leave, left_early, too_few_each
from llmc.course.old.kernel_checks.source import literal_block, literal_warps, parameters
from llmc.course.old.kernel_checks.unwritten import skipped
from llmc.course.old.kernel_checks.writers import seen_of_writers
from llmc.cuda.emulator.compiling.source import global_names
from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.findings.advice import BELOW, DYNAMIC
from llmc.cuda.emulator.findings.barrier_advice import READ_FIRST
from llmc.cuda.emulator.findings.copy_advice import COPIES_OVER
from llmc.cuda.emulator.findings.fill_advice import FILL
from llmc.cuda.emulator.findings.fixed_arrays import OR_SMALL
from llmc.cuda.emulator.findings.kinds import GRAVITY, KINDS
from llmc.cuda.emulator.findings.race_advice import NOT_ONE_TO_ONE

DRAWN = {kind.name for kind in KINDS if kind.drawn}
THREADS_FOR_FOURS = (
    "Thread {thread} begins at element {thread}: with a float4 for each thread it should begin at element {first}. "
    "A pointer to single numbers moves by single numbers: an index that counts fours is multiplied by 4 there."
)
LITERAL = "There is a "
NO_LOOP = re.compile(r"with `\w+` (?:in place of `\w+`|and `\w+` in the other order), everywhere")  # as if of one turn
IN_GLOBAL = "race in global memory"
COPY_OVER = "copy over what is read"
DRAW = "To see which thread touches what:  c.report.plot()"
DECLARES = re.compile(r"\bline (\d+) declares ")  # findings/fixed_arrays.py
OF_ANOTHER = re.compile(r"For the call in line (\d+),")  # findings/absences.py
TITLE = re.compile(r"(?P<title>[^:]+): kernel \S+?(?:, lines? [^:]+)?: ")  # how a report's paragraph begins


@dataclass(frozen=True)
class Launch:
    """What distinguishes launches: source, kernel, grid and block (x, y, z), descriptions of the arguments.

    inputs: a number that stands for what the inputs hold.
    """

    code: str
    kernel: str
    grid: tuple
    block: tuple
    arguments: tuple
    inputs: int = 0


def call_text(launch, names) -> str:
    """ "gelu_kernel((4,), (32,), (out (127,) float32, inp (127,) float32, n 127))": as CuPy has it."""
    named = [f"{name} {value}" for name, value in zip(names, launch.arguments)]
    return f"{launch.kernel}({_short(launch.grid)}, {_short(launch.block)}, ({', '.join(named)}))"


def _short(size) -> str:
    """(4, 1, 1) as "(4,)"."""
    kept = size[: 3 if size[2] > 1 else 2 if size[1] > 1 else 1]
    return f"({', '.join(map(str, kept))}{',' * (len(kept) == 1)})"


def problem_text(report, where, cause=None, compared=False, again=lambda code: None, mend=None, order=None) -> str:
    """The message for a report with problems: the gravest in full, the others by name.

    cause: words for the change of the solution that leads to the same; they take the place of general advice.
    again: launches changed source, and returns the report, or None.
    mend: a sentence about a change that makes the kernel right; it takes the place of all advice.
    order(problem): (a sentence that takes the place of a race's advice, or "", is it about a barrier that helps?).
    compared: does the message also get a `comparison`? Then it does not guess that a bound is too small.
    """
    early = any(p.kind == "copy-race" for p in report.problems)  # comes before a wait that never ends
    gravity = {**GRAVITY, "deadlock": len(GRAVITY)} if early else GRAVITY
    first, *others = sorted(report.problems, key=lambda p: gravity[p.kind])  # often the cause of the others
    said, *rest = TITLE.sub("", first.text, count=1).split("\n")
    one = first.calls and first.line2 in (0, first.line)
    called = f", called at {_in_lines(first)}" if one else ""
    lines = [f"{head(first)}{called}.", said[:1].upper() + said[1:], *rest[:-1]]
    unwritten, unfilled = first.kind == "never-written", first.kind == "uninitialised"
    decided = skipped(report) if unwritten and not cause else ""  # by a condition
    too_few = too_few_each(report) if unwritten and not mend and (not cause or NO_LOOP.match(cause)) else ""
    outside = first.kind in ("bounds", "out-of-bounds")
    given = _behind(report.raw.code, first) if outside else ""
    instead, helps = order(first) if order and not (mend or cause) else ("", True)
    barrier = not mend and "put `__sync" in first.text
    helps = helps and (barrier or not _both_write(first) or first.found.problem.space != "shared")
    elsewhere = _elements_exchanged(first, others) if barrier and not cause else ""
    if mend or instead or elsewhere:
        lines.append(mend or instead or elsewhere)
    elif decided or too_few:
        lines.append(decided or too_few)
    elif cause and "one too many" not in first.text:
        lines.append(f"Our solution does exactly the same {cause}.")
    elif given:
        lines.append(given)
    elif ";" not in where.get(first.kind, "") or not (unfilled or _one_place_for_two(report)):  # else the check's words
        lines += [_advice(report, first, rest[-1], not others and not compared, again)] if rest else []
        called_from = called_in(report.raw.code, first.line, first.calls) if outside and first.calls else ""
        lines += [called_from] if called_from else []
    names = [name for name in dict.fromkeys(map(head, others)) if name != head(first)]
    if names:
        lines.append(f"The report also has: {'; '.join(names[:3])}{'; …' * (len(names) > 3)}.")
    lines += [DRAW] * (first.kind in DRAWN)
    return "\n".join(lines + _look_for(first, where if helps and not decided else {}))


def _elements_exchanged(race, others) -> str:
    """A sentence about a race in an array, if elements of an array are never written: no barrier would mend that."""
    problem = race.found.problem if race.found else None
    missing = next((other for other in others if other.kind == "never-written"), None)
    if missing is None or problem is None or problem.space != "global":
        return ""
    asked = (
        "does a thread come to another one's element in place of its own? Work out the indices of both lines by hand."
    )
    return f"Nothing writes {missing.where} either: {asked}"


def _in_lines(problem) -> str:
    """ "line 25"; "lines 21 and 25" where the advice is about another call of the function than the one that failed."""
    other = OF_ANOTHER.search(problem.text)
    lines = sorted({problem.calls[0], int(other[1]) if other else problem.calls[0]})
    return f"line{'s' * (len(lines) > 1)} {' and '.join(map(str, lines))}"


def _behind(code, problem) -> str:
    """A sentence about the learner's line behind an access in a line that is not theirs, or in a function."""
    if problem.calls:
        return moved_before(code, problem.line, problem.calls, problem.where.partition("[")[0])
    return behind(code, problem.line)


def may_be_a_slip(report) -> str:
    """The kind of the gravest problem, if a wrong index may lead to it, and not a missing barrier or value; else ""."""
    first = min(report.problems, key=lambda p: GRAVITY[p.kind])
    shared = first.kind == "race" and first.text.startswith("race in shared") and not _both_write(first)
    shared = shared and READ_FIRST not in first.text
    if first.kind == "missing-syncwarp" and first.line2 in (0, first.line) and "shared memory" not in first.text:
        return "race"  # of two lanes at one place of an array
    if first.kind == "uninitialised" and first.found and first.found.array is not None:
        return first.kind  # of an output: `+=` for `=`, say
    if first.kind == "never-written" and _never_named(report):
        return ""
    slips = "never-written", "out-of-bounds", "bounds", "race", "copy-race", "deadlock"
    return first.kind if first.kind in slips and not shared else ""


def _look_for(problem, where) -> list[str]:
    """Where to look: for the kind of problem in this array, or in any."""
    one_to_one = NOT_ONE_TO_ONE in problem.text  # a race, but not one that waiting would end
    kind = "never-written" if one_to_one and "never-written" in where else problem.kind
    kind = COPY_OVER if COPIES_OVER in problem.text else kind
    if IN_GLOBAL in where and (kind == "race" and problem.text.startswith(IN_GLOBAL) or _no_barrier_helps(problem)):
        kind = IN_GLOBAL
    if kind == "missing-syncwarp" and problem.line2 in (0, problem.line) and "two threads write" in problem.text:
        if "shared memory" in problem.text:  # no wait makes two numbers out of one place: the index is wrong
            return []
        kind = IN_GLOBAL if IN_GLOBAL in where else "never-written"
    in_this_array = f"{kind} {problem.where.partition('[')[0]}"
    return look(where, in_this_array if in_this_array in where else kind)


def _no_barrier_helps(problem) -> bool:
    """Do two lanes of a warp write one element of an array in the same line?"""
    return problem.kind == "missing-syncwarp" and _both_write(problem) and problem.found.problem.space == "global"


def _both_write(problem) -> bool:
    """Do both threads of a race write, in the same line?"""
    found = problem.found.problem if problem.found else None
    return bool(found and found.write and found.write2 and problem.line2 in (0, problem.line))


def _advice(report, problem, general, guess, again) -> str:
    """What to do about a problem: the report's general sentence, or one for a launch whose size the check has given."""
    if problem.kind == "uninitialised":
        return general.replace(f", {FILL}", "")  # the launch is given
    if problem.kind == "bounds":
        return _of_given(report, general)
    if problem.kind == "misaligned":
        return _threads_for_fours(report) or general
    if problem.kind != "never-written":
        return general.replace(
            f"{DYNAMIC}, {BELOW}", "the launch, which is given, has enough, so the index is too large"
        )
    if name := _never_named(report):
        return f"Nothing in your kernel uses the array {name}."
    if shown := left_early(report, again) or idle_leave(report, again) or seen_of_writers(report):
        return shown
    launch = "The launch is given, and large enough."
    if guess and _only_the_end(report):
        launch = "Everything before it is written."
    return f"{launch} Work out by hand which thread should write {problem.where}."


def _of_given(report, general) -> str:
    """The advice without a doubt about an array that the exercise has declared."""
    declared, own = DECLARES.search(general), own_lines(report.raw.code, report.raw.kernel)
    given = declared and own and int(declared[1]) not in own
    return general.replace(OR_SMALL, "") if given else general


def _never_named(report) -> str:
    """The array of the first "never-written" if the kernel has it among its parameters alone; else ""."""
    missing, text = _raw(report, "never-written").argument, mask(report.raw.code)
    head = re.search(rf"\b{re.escape(report.raw.kernel)}\s*\(", text)
    if missing < 0 or not head:
        return ""
    name = report.raw.arguments[missing].name
    return name if len(re.findall(rf"(?<![\w.])(?<!->){name}\b", text[head.start() :])) == 1 else ""


def _raw(report, kind):
    """The emulator's record of the first problem of a kind."""
    return next(p for p in report.raw.problems if p.kind == kind)


def _threads_for_fours(report) -> str:
    """The sentence for a vector access at the thread's own number; else ""."""
    found = _raw(report, "misaligned")
    array = report.raw.arguments[found.argument].array if found.argument >= 0 else None
    thread = found.block[0] * report.raw.block[0] + found.thread[0]
    if array is None or found.size != 4 * array.itemsize or found.offset != thread * array.itemsize:
        return ""
    return THREADS_FOR_FOURS.format(thread=thread, first=4 * thread)


def _only_the_end(report) -> bool:
    """Is the array written but for its end, of which no more is missing than a block's share?"""
    missing, blocks = _raw(report, "never-written"), math.prod(report.raw.grid)
    array = report.raw.arguments[missing.argument].array
    to_the_end = missing.offset // array.itemsize + missing.count == array.size
    return missing.offset > 0 and to_the_end and missing.count * blocks <= array.size


def _one_place_for_two(report) -> bool:
    """Do two threads write one place of shared memory in the same line? A barrier would not mend that."""
    return any(race.line2 in (0, race.line) for race in races_in_shared(report))


def races_in_shared(report) -> list:
    """The races whose place is in shared memory, also in an array that has a name."""
    return [p for p in report.problems if p.kind == "race" and p.text.startswith("race in shared")]


def no_waiting_helps(report) -> bool:
    """Do threads of two blocks meet in the gravest problem, or two writes of one line in one place of shared memory?"""
    first = min(report.raw.problems, key=lambda p: GRAVITY[p.kind])
    told = min(report.problems, key=lambda p: GRAVITY[p.kind])
    in_shared = told.text.startswith("race in shared") and _both_write(told)
    return first.kind == "race" and (first.block2 not in (None, first.block) or in_shared)


def head(problem) -> str:
    """ "race in shared memory, lines 9 and 12": in the words of the report."""
    title = TITLE.match(problem.text)
    lines = sorted({problem.line, problem.line2} - {0})
    place = f", line{'s' * (len(lines) > 1)} {' and '.join(map(str, lines))}" if lines else ""
    return (title["title"] if title else problem.kind) + place


def look(where, kind) -> list[str]:
    """The line that says where to look, if the lesson has a place for this kind."""
    return [f"→ Where to look: {where[kind]}."] if kind in where else []


def with_comparison(message, launches, numbers=False) -> str:
    """The message; after its first line, how the last launch, which failed, differs from those that were right."""
    sentence = comparison(launches, numbers) or (None if numbers else larger(launches))
    return with_sentences(message, [sentence] if sentence else [])


def with_sentences(message, sentences) -> str:
    """The message, with these behind its first line."""
    first, *rest = message.split("\n")
    return "\n".join([first, *sentences, *rest])


def comparison(launches, numbers=False) -> str | None:
    """One sentence about grid and block of the last launch, which failed, or None.

    numbers: are its numbers wrong? Then only launches with the same inputs tell something about grid and block.
    """
    if not launches:
        return None
    *before, last = launches
    known = [a for a in before if (a.code, a.kernel, a.arguments) == (last.code, last.kernel, last.arguments)]
    right = [a for a in known if a.inputs == last.inputs or not numbers]
    same_size = [a for a in known if (a.grid, a.block) == (last.grid, last.block)]
    if same_size:
        others = ", with other numbers" * all(a.inputs != last.inputs for a in same_size)
        kept = global_names(last.code)  # which outlives a launch
        over = f": is something left over in `{kept[0]}`, or does it depend on the numbers?" if kept else "."
        return f"A launch of the same sizes was right before{others}{over}"
    same_block = [a for a in right if a.block == last.block]
    if same_block:
        return f"Right with {_listed(a.grid for a in same_block)} blocks, wrong with {_listed([last.grid])}."
    threads = _listed([last.block])
    steps_by_warps = not right and "__shfl" in last.code  # then a 64 may well be two warps
    number = None if steps_by_warps else literal_block(last.code, int(threads))
    warps = None if number else literal_warps(last.code, int(threads), [math.prod(a.block) for a in right])
    if right and not number and not warps and {_listed([a.grid]) for a in right} == {"1"} != {_listed([last.grid])}:
        other = any(a.block != last.block for a in right)
        names = ("blockIdx", "blockDim") if other else ("blockIdx",)  # a block that stays may be taken as it is
        absent = [name for name in names if name not in mask(last.code)]
        verb = "does" if len(absent) == 1 else "do"
        part = f": {' and '.join(absent)} {verb} not occur in the kernel"
        blocks = _listed([last.grid])
        if not absent:  # it may be the number of threads
            return f"Right with 1 block of {_listed(a.block for a in right)} threads, wrong with {blocks} of {threads}."
        return f"Right with 1 block, wrong with {blocks}{part}."
    lines = [f"Right with blocks of {_listed(a.block for a in right)} threads, wrong with {threads}"] * bool(right)
    beside = "" if right else f", and this block has {threads} threads"
    if warps:
        told = f"There is {_a(warps)} in the kernel, the warps of {32 * warps} threads"
        return f"{lines[0]}. {told}: does it assume how many warps a block has? Take blockDim.x / 32."
    lines += [f"{LITERAL}{number} in the kernel{beside}"] * bool(number)
    asked = ": does it assume how many threads a block has? Take blockDim."
    asked = (
        asked if number else ": blockDim does not occur in the kernel." if "blockDim" not in mask(last.code) else "."
    )
    return f"{'. '.join(lines)}{asked}" if lines else None


def larger(launches) -> str | None:
    """A sentence if one size of the last launch, which failed, is beyond all those that were right; or None."""
    *before, last = launches or [None]
    same = [a for a in before if (a.code, a.kernel) == (last.code, last.kernel)]
    if len({a.arguments for a in same}) < 2:
        return None
    given = zip(parameters(last.code, last.kernel), zip(*(a.arguments for a in same)), last.arguments)
    grown = [
        (name, max(map(int, sizes)), size)
        for name, sizes, size in given
        if all(each.isdecimal() for each in (*sizes, size)) and int(size) > max(map(int, sizes))
    ]
    if len(grown) != 1:
        return None
    return "Right with {0} up to {1}; this launch is the first with {0} = {2}.".format(*grown[0])


def _a(number) -> str:
    return f"an {number}" if number == 8 else f"a {number}"


def _listed(sizes) -> str:
    """ "256, 128 and 96": how many threads or blocks each of these has."""
    counts = list(dict.fromkeys(str(a * b * c) for a, b, c in sizes))
    return " and ".join([", ".join(counts[:-1]), counts[-1]] if counts[1:] else counts)
