"""What to do about a read of what an asynchronous copy may not have brought yet: advice from a Finding.

The runtime says in `detail` how far the copy was (describe_copy in runtime/copies.cpp); the words are the kernel's own:
its helpers around cp.async, or those of the interface that it uses.
"""

import re

from llmc.cuda.emulator.compiling.text import statements
from llmc.cuda.emulator.findings.barrier_advice import lines_in_one_function
from llmc.cuda.emulator.findings.hopper import copy_race_advice
from llmc.cuda.emulator.findings.loops import BLOCK_BARRIER, loop_around

INTERFACES = (  # by what a kernel names: how a group ends, how a thread waits
    ("__pipeline_memcpy_async", "__pipeline_commit()", "__pipeline_wait_prior(0)"),
    ("make_pipeline|pipeline<", "pipe.producer_commit()", "pipe.consumer_wait()"),
    ("cuda::barrier", "", "barrier.arrive_and_wait()"),
    ("memcpy_async", "", "cg::wait(block)"),
    ("", "cp.async.commit_group", "cp.async.wait_group 0"),
)
ENDS = re.compile(r"cp\.async\.commit_group|__pipeline_commit|producer_commit")
WAITS = re.compile(r"cp\.async\.wait_|__pipeline_wait_prior|consumer_wait|arrive_and_wait|\bwait(?:_prior)?\s*[<(]")
HELPER = re.compile(r"(?<!__global__\s)\bvoid\s+(\w+)\s*\([^()]*\)\s*\{([^{}]*)\}")
COPIES_OVER = "a new copy into this place, which held a number already."
MEET = "let the block meet at `__syncthreads();`, and only then read"


def copy_race(found) -> str:
    """By how far the copy was, and whose it is."""
    problem, code = found.problem, found.raw.code
    if said := copy_race_advice(found):
        return said
    own = problem.thread2 in (None, problem.thread)
    _, ends, waits = next(row for row in INTERFACES if re.search(row[0], code))
    end, wait = _named(code, ENDS, ends), _named(code, WAITS, waits)
    if problem.write:
        return (
            f"Which of the two comes last is luck: wait ({wait}) for the copy before anything else writes there, or "
            "use another place. A ring of stages needs one more than there may be copies under way."
        )
    left = re.fullmatch(r"left by wait (\d+)", problem.detail)
    if problem.detail in ("over", "no wait") and (said := _into_what_is_read(found)):
        return said
    if problem.detail == "over" and not own:
        return (
            f"Between the same two barriers the other thread asks for {COPIES_OVER} If this thread still needs the old "
            f"one, ask only after a barrier that follows the read; if it needs the new one, wait for it, {MEET}."
        )
    if problem.detail == "no group":
        return f"The copy is in no group: {end} has not come since it was asked for, and a wait is for ended groups."
    if problem.detail == "ended after the wait":
        return f"Its group was ended only after the wait, which is for ended groups: {end} first, then {wait}."
    if left:
        return _left(code, int(left[1]), wait)
    if not own and WAITS.search(code):
        return (
            "That thread has not waited for the copy yet, and a thread waits for its own copies alone: after the wait, "
            f"{MEET} what other threads have copied."
        )
    ended = f"end the group ({end}), " if "no group" in problem.detail and ends else ""
    other = " Or is another buffer meant, whose copy has been waited for?" if _is_called(code, WAITS) else ""
    return f"A copy is under way until the thread that made it waits for it: {ended}wait ({wait}), then {MEET}.{other}"


def _into_what_is_read(found) -> str:
    """A sentence if a loop waits and meets, then asks for this copy, and only then reads; else ""."""
    read, copied, _ = lines_in_one_function(found)
    loop = loop_around(found.raw.code, copied, read) if 0 < copied < read else None
    if not loop or not found.problem.array:
        return ""
    texts = statements(found.raw.code).splitlines()
    waits = re.compile("|".join([WAITS.pattern, *(rf"\b{name}\b" for name in _helpers(found.raw.code, WAITS))]))

    def last(pattern, first, end):
        return next((number for number in range(end - 1, first - 1, -1) if pattern.search(texts[number - 1])), 0)

    waited, met = (last(pattern, loop[0], copied) for pattern in (waits, BLOCK_BARRIER))
    if not waited or not met or last(waits, copied + 1, read):
        return ""
    array = found.problem.array
    return (
        f"The wait (line {waited}) and the barrier (line {met}) are for what has been copied before. Line {copied} "
        f"then starts another copy into the place in {array} that line {read} is about to read: a copy for a later "
        f"turn belongs in another part of {array}, and one for this turn must be waited for after line {copied}."
    )


def _left(code, groups, wait) -> str:
    """The last wait let this copy's group go on."""
    texts = set(re.findall(rf"\w*wait\w*\s*(?:<\s*{groups}\s*>\s*\(\s*\)|\(\s*{groups}\s*\))", code))
    call = f"`{texts.pop()}`" if len(texts) == 1 else f"The last wait, {wait},"
    last = "the last group" if groups == 1 else f"the last {groups} groups"
    return (
        f"{call} does not wait for {last}, which include{'s' * (groups == 1)} this copy: leave fewer groups under way "
        "(0 waits for all), or let a newer group be asked for before this wait."
    )


def _named(code, pattern, otherwise) -> str:
    """The kernel's own helper that does what the pattern finds, or else this."""
    return f"`{next(iter(_helpers(code, pattern)), otherwise)}`"


def _helpers(code, pattern) -> list[str]:
    return [name for name, body in HELPER.findall(code) if pattern.search(body)]


def _is_called(code, pattern) -> bool:
    """Does the code do that anywhere, by itself or by a helper, and not only define one?"""
    rest = HELPER.sub("", code)
    return bool(pattern.search(rest)) or any(re.search(rf"\b{name}\b", rest) for name in _helpers(code, pattern))
