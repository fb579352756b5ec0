"""Why some threads do not get to where all should meet, as far as a kernel's text shows: advice from a Finding.

They may be in another branch, have a different number of rounds in a loop, or have left on an earlier line.
"""

import re
from math import prod

from llmc.cuda.emulator.compiling.text import closing, statements
from llmc.cuda.emulator.findings.guards import ASSIGNED
from llmc.cuda.emulator.findings.loops import IF, LOOP, end_of_statement, head_of, loop_around

WARP, ALL_LANES = 32, 0xFFFFFFFF
MASK = re.compile(r"_sync\s*\(\s*(0x[0-9a-fA-F]+|\d+)u?\s*,")
SECOND = re.compile(r"_sync\s*\(\s*[^,()]+,\s*0x[fF]{8}u?\b")  # the mask in place of the value
FUNCTION = re.compile(r"__global__|__device__")
MEETS = re.compile(r"sync|__shfl|__ballot|__all|__any|arrive")  # what threads do together
OURS = re.compile(r"__device__[^;{}()]*?(\w+)\s*\(")
HALVES = re.compile(r"/=|>>=")
NAME, ON_LINE = re.compile(r"(?<![\w.])[A-Za-z_]\w*"), re.compile(r"on line (\d+)")  # not a component, x of threadIdx.x
A_WARP = re.compile(r"(?:/\s*(?:32|warpSize|WARP)|>>\s*5)\s*$|threadIdx\.x\s*(?:/\s*(?:32|warpSize|WARP)|>>\s*5)\b")
LEAVES = re.compile(r"\b(return|break|continue)\b")
BARRIER = re.compile(r"[\w.:]*(?:sync|arrive_and_wait)\w*\s*\([^()]*\)\s*;?")


LEAVE_TOGETHER, LANE = "the lanes of a warp must leave together, or all stay.", " Does it depend on the lane?"
TOGETHER = LEAVE_TOGETHER + LANE
ITSELF = re.compile(r"threadIdx\.x(?:\s*(?:%\s*(?:32|warpSize|WARP)|&\s*31))?")  # the thread, or its lane
STAY = "let all threads stay, and put an `if` around their work."
ALL_CALL = (
    "let all lanes of the warp make the call, those without a number of their own with one that changes nothing (0 in "
    "a sum), and put only what is done with the result into an `if`."
)
BEGINS = re.compile(r"\bfor\s*\([^;=]*?(\w+)\s*=(?!=)\s*([^;]+?)\s*;")


def what_keeps_threads_away(code, line, lanes=False) -> list[tuple[str, str]]:
    """(what the text shows, what to do about it) for everything that may keep threads from this line.

    lanes: are they those of a warp, at a call that takes a number from each?
    """
    found = []
    if head := _branch(code, line):
        found.append((f"the `if` on line {head}", ALL_CALL if lanes else _out_of(code, head, line)))
    for head in _loops(code, line):
        if lanes or _may_part(code, head):
            found.append((f"the loop on line {head}", _rounds(code, head, lanes)))
    for number, word in exits(code, line):
        found.append((f"the `{word}` on line {number}", TOGETHER if lanes else STAY))
    return found


def _out_of(code, head, line) -> str:
    """How a barrier on this line gets out of the `if` that begins on line `head`: by what else is in it."""
    texts, loop = statements(code).splitlines(), head_of(code, LOOP, line)
    if loop > head:
        return f"let all threads go through the loop on line {loop}, and put the `if` in there, around anything else."
    start = IF.search(texts[head - 1]).start()
    statement = end_of_statement(texts, head, start)[1]
    opening = statement.find("(") if statement.startswith("if") else -1
    first = closing(statement, opening) + 1 if opening >= 0 else len("else")
    begin = sum(len(text) + 1 for text in texts[head - 1 : line - 1]) - start if line > head else first
    call = BARRIER.search(statement, max(begin, first))
    before, after = statement[first : call.start()] if call else "?", statement[call.end() :] if call else "?"
    before, after = (re.search(r"[\w?]", part) for part in (before, after))
    if before and after:
        return "end the `if` before it, and begin another one after it."
    alone = "begin the `if` after it." if after else "take the barrier out of the `if`."
    return "end the `if` before it." if before else alone


def _may_part(code, head) -> bool:
    """May threads leave this loop in different rounds? Its head looks at what differs in a block, or it has an exit."""
    texts = statements(code).splitlines()
    loop = LOOP.search(texts[head - 1])
    statement = end_of_statement(texts, head, loop.start())[1]
    asked = statement[: closing(statement, statement.index("(")) + 1] if loop[1] else ""
    function = next((text for text in texts[head - 1 :: -1] if FUNCTION.search(text)), "")
    if not asked or "__global__" not in function:  # what a helper is called with may differ
        return True
    return bool(thread_names(code) & {*NAME.findall(asked)} or LEAVES.search(statement))


def _rounds(code, head, lanes) -> str:
    """What to do about a loop that some threads go through more times than others."""
    first = BEGINS.search(statements(code).splitlines()[head - 1])
    if lanes and first and lane_names(code) & {*NAME.findall(first[2])}:
        name, begins = first[1], f"{first[1]} = {' '.join(first[2].split())}"
        return (
            f"each lane goes through it with numbers of its own (`{begins}`). If the call is meant for what the lanes "
            "have gathered, put it after the loop; if it is meant in every turn, all lanes need the same number of "
            f"turns, with the same `{name}` if it puts together what they have for one `{name}`."
        )
    who, apart = ("lanes", ", but not around the call") if lanes else ("threads", "")
    return (
        f"let all {who} go through the loop the same number of times, and put an `if` around what only some should "
        f"do{apart}."
    )


def barrier_divergence(found) -> str:
    """Some threads of a block do not reach a barrier."""
    return why_not_all(found.raw.code, found.line)


def why_not_all(code, line) -> str:
    """The rule for the barrier on this line, and what keeps threads from it."""
    rule = "Every thread of the block must reach the same barrier the same number of times"
    return _explained(rule, what_keeps_threads_away(code, line))


def inactive_lane(found) -> str:
    """A lane that takes no part: does the block have no such lane, does the mask not name it, or does it not come?"""
    mask = MASK.search(found.quoted)
    other = found.problem.detail == "mask without the caller" or mask and int(mask[1], 0) != ALL_LANES
    if other or SECOND.search(found.quoted):
        return (
            "The mask, which is the first argument, must name every lane that makes the call, and every lane that is "
            "read from: 0xffffffff if the whole warp makes it."
        )
    if missing := _of_no_thread(found):
        return missing
    rule = "Every lane that the mask names, and every lane that is read from, must execute the same call"
    code, reasons = found.raw.code, {}
    if loop := _left_by_some(code, found.line, found.line2):
        return (
            f"{rule}, but lanes leave the loop on line {loop} at different turns: put the call after the loop, or let "
            "all lanes go through it the same number of times."
        )
    caller, of_another = (*found.chains[0], 0, 0)[1], {}
    calls = _calls(code, found.line, caller)  # lanes that are ahead may be in another call of it
    for line in sorted((found.line, *calls), key=lambda line: line in calls and line != caller):
        more = {what: to_do for what, to_do in what_keeps_threads_away(code, line, lanes=True) if what not in reasons}
        of_another |= {what: line for what in more if caller and line not in (found.line, caller)}
        reasons |= more
    reasons = _of_lanes(code, reasons)
    ended = found.problem.detail == "read from an absent lane"  # so they wait nowhere
    if met := "" if ended else _two_calls(code, calls, reasons):
        return f"{rule}. {met}"
    return _explained(rule, [*reasons.items()], "lanes", "a part of a warp", of_another)


def _of_lanes(code, reasons) -> dict:
    """Those that ask about the lane, which divide a warp; all of them where none does."""
    names, texts = lane_names(code), statements(code).splitlines()
    lines = {what: int(ON_LINE.search(what)[1]) for what in reasons}
    asking = {what for what, line in lines.items() if names & {*NAME.findall(texts[line - 1])}}
    found = {what: _of_a_thread(texts, lines[what], to_do) for what, to_do in reasons.items() if what in asking}
    return found or reasons


def _of_a_thread(texts, line, to_do) -> str:
    """What to do about that line; for a `return` that asks about the thread's own value, also what that may be."""
    names = NAME.findall(texts[line - 1].partition("return")[0]) if to_do == TOGETHER else ()
    asked = {name: "" for name in names}  # {a name: how the one that is asked for is made from it}
    for number in range(line, 0, -1):
        for name, value in ASSIGNED.findall(texts[number - 1]):
            if name not in asked or A_WARP.search(value) or ITSELF.fullmatch(value):
                continue
            if "threadIdx" in value:
                return (
                    f"it asks for {asked[name]}`{name}`, which differs between the lanes of a warp (line {number}). If "
                    f"a whole warp should have one `{name}`, divide the thread's number by 32 there; else "
                    f"{LEAVE_TOGETHER}"
                )
            asked |= {made: f"`{name}`, which is made from " for made in NAME.findall(value) if made not in asked}
        if FUNCTION.search(texts[number - 1]):
            break
    return to_do.removesuffix(LANE)


def _two_calls(code, calls, reasons) -> str:
    """A sentence if one of several calls of a function stands in the only `if` that divides the lanes; else ""."""
    (what, *others), branches = list(reasons) or [""], {line: _branch(code, line) for line in calls}
    inside = [line for line, head in branches.items() if what == f"the `if` on line {head}"]
    outside = [line for line in calls if line not in inside]
    if others or len(inside) != 1:
        return ""
    (line,) = inside
    later = [other for other in outside if other > line] or [
        other for other in outside if loop_around(code, other, line)
    ]
    if not later:  # the others have made that call, and do not come to this one
        return ""
    return (
        f"Line {line} makes the call in {what}, so only some lanes make it there; they wait for the others, which come "
        f"to the call in line {later[0]}. Take the call out of the `if`."
    )


def lane_names(code) -> set[str]:
    """The names that differ between the lanes of a warp: threadIdx, and what is made from it, not a warp's number."""
    return thread_names(code, A_WARP)


def thread_names(code, alike=None) -> set[str]:
    """threadIdx, and the names that are made from it, except those whose values match the pattern `alike`."""
    names, made = {"threadIdx"}, ASSIGNED.findall(statements(code))
    made = [(name, {*NAME.findall(value)}) for name, value in made if not (alike and alike.search(value))]
    for _ in made:
        more = {name for name, words in made if words & names}
        if more <= names:
            break
        names |= more
    return names


def _left_by_some(code, line, other) -> int:
    """Line of the outermost loop around this call that lanes at the other call, after it, have left; else 0."""
    texts, found = statements(code).splitlines(), 0
    for head in _loops(code, line) if other > line else ():
        if end_of_statement(texts, head, LOOP.search(texts[head - 1]).start())[0] < other:
            found = head
    return found if _branch(code, line) <= found else 0  # with an `if` in the loop, that may be why


def _of_no_thread(found) -> str:
    """A sentence if the last warp of the block is not full, and lacks the lane that is read from; else ""."""
    problem, (x, y, _) = found.problem, found.raw.block
    threads, (i, j, k) = prod(found.raw.block), problem.thread
    first = (i + x * (j + y * k)) // WARP * WARP  # thread of this warp
    if problem.detail != "read from an absent lane" or first + problem.lanes.bit_length() - 1 < threads:
        return ""
    return (
        f"A block has {threads} threads here, so its last warp has only {threads - first} lanes: read from those alone."
    )


def _explained(rule, reasons, who="threads", few="a part of the block", of_another=()) -> str:
    """The rule, and which of these it is: as a fact if there is only one, else as what to look at.

    of_another: {what the text shows: line} where it is true of a call other than the one reported.
    """
    if not reasons:
        return f"{rule}: look for a branch, a loop or a `return` that only {few} takes."
    if len(reasons) == 1:
        (what, to_do), *_ = reasons
        where = f". For the call in line {of_another[what]}," if what in of_another else ", and"
        return f"{rule}{where} {what} keeps some {who} away: {to_do}"
    *some, last = (what for what, _ in reasons)
    return f"{rule}. Which of these keeps some {who} away: {', '.join(some)} or {last}?"


def _calls(code, line, caller=0) -> list[int]:
    """Lines that call the function that this line is in, if it is a __device__ function.

    caller: one of them, if it is known; then those of the same function.
    """
    texts = statements(code).splitlines()
    head = next((text for text in texts[line - 1 :: -1] if FUNCTION.search(text)), "") if line else ""
    name = re.search(r"__device__.*?(\w+)\s*\(", head)
    called = [number for number, text in enumerate(texts, 1) if name and re.search(rf"\b{name[1]}\s*\(", text)]
    called = [number for number in called if not FUNCTION.search(texts[number - 1])]
    return [number for number in called if not caller or _one_function(texts, number, caller)]


def _one_function(texts, line, other) -> bool:
    return not any(FUNCTION.search(text) for text in texts[min(line, other) : max(line, other)])


def exits(code, line) -> list[tuple[int, str]]:
    """(line, "return") of what may lead a thread past this line: before it, in the same function or the same loop."""
    texts, found = statements(code).splitlines(), []
    for number in range(min(line, len(texts)), 0, -1):
        word = LEAVES.search(texts[number - 1]) if number < line else None
        if word and (word[1] == "return" or _in_its_loop(code, number, line)):
            found.append((number, word[1]))
        if FUNCTION.search(texts[number - 1]):
            break
    return found[::-1]


def _loops(code, line) -> list[int]:
    """Lines of the loops around it, except those that halve something in each round, as all threads do."""
    texts, found = statements(code).splitlines(), []
    for number in range(line, 0, -1):
        head = LOOP.search(texts[number - 1])
        if head and end_of_statement(texts, number, head.start())[0] >= line and not HALVES.search(texts[number - 1]):
            found.append(number)
        if FUNCTION.search(texts[number - 1]):
            break
    return found


def _in_its_loop(code, number, line) -> bool:
    loop = loop_around(code, number)
    return bool(loop) and line <= loop[1]


def _branch(code, line) -> int:
    """Line of the innermost `if` that holds what threads do together on this line, 0 if there is none."""
    texts, head = statements(code).splitlines(), head_of(code, IF, line)
    if not head:
        return 0
    last, statement = end_of_statement(texts, head, IF.search(texts[head - 1]).start())
    return head if last > line or head < line or MEETS.search(statement) or _calls_ours(code, statement) else 0


def _calls_ours(code, statement) -> bool:
    """Does it call a function of the kernel's own, in which threads may meet?"""
    return any(re.search(rf"\b{name}\s*\(", statement) for name in OURS.findall(statements(code)))
