"""What is said about mbarriers, bulk copies and products of warpgroups: sentences and advice from a Finding.

The runtime says in `detail` what it is about, in a few words and numbers; they are read here.
"""

import re

from llmc.cuda.emulator.findings.doers import first_to_do_it, two
from llmc.cuda.emulator.findings.finding import Finding
from llmc.cuda.emulator.findings.places import plural, position


def _numbers(found) -> list[int]:
    return [int(each) for each in re.findall(r"-?\d+", found.problem.detail)]


def _there(found, otherwise="") -> str:
    """ "line 12: `…`", of the other party."""
    return f"line {found.line2}: {found.quoted2.rstrip()}" if found.line2 else otherwise


# ------------------------------------------------------------------------------------------------ mbarriers


def stuck_barrier(found) -> str:
    """ "`…` waits for phase 2 of the mbarrier full[0] to end, but 1 of its 2 arrivals come"."""
    came, of, phase = _numbers(found)
    where = f"the mbarrier {found.place}" if found.place else "an mbarrier"
    waits = f"{found.quoted or 'the kernel '}waits for phase {phase} of {where} to end"
    if found.problem.detail.startswith("arrivals"):
        return f"{waits}, but {came} of its {of} arrivals come"
    more = "too many" if came > of else "too few"
    return f"{waits}: all arrivals have come, but {of:,} bytes were expected and {came:,} arrive, {more}"


def deadlock_advice(found) -> str:
    """For an mbarrier: by what is missing. Phases are counted from 0, and so are their parities."""
    detail = found.problem.detail
    if detail.startswith("bytes"):
        return (
            "expect_tx must announce exactly as many bytes as the copies of this phase bring: the whole box of a "
            "tensor map counts, even where it reaches past the tensor's edge."
        )
    if detail.startswith("arrivals"):
        return _also_stuck(found) + (
            "The number given to mbarrier.init is how many arrivals end a phase: does everybody who was counted "
            "arrive, and in every round? A wait for the parity of a phase that is still to come looks the same: a "
            "barrier begins with phase 0, whose parity is 0, and a wait for the one before it (parity 1) ends at once."
        )
    return (
        "Some threads wait for something that others will never do: look for a barrier or a warp function in a branch "
        "that only some of the threads take, or for a lock that is never released."
    )


def _also_stuck(found) -> str:
    """Sentences about other mbarriers for which threads wait: which of them is the cause, only a reader can tell."""
    said = ""
    for other in found.raw.problems:
        where = Finding(found.raw, other).place
        if other.kind != "deadlock" or not other.detail.startswith("arrivals") or where == found.place:
            continue
        came, of, phase = re.findall(r"\d+", other.detail)
        said += f"Thread {other.thread} waits, too, for phase {phase} of {where}: {came} of its {of} arrivals come. "
    return said


def mbarrier(found) -> str:
    """ "`…` uses the mbarrier full[0], which was not initialised"."""
    detail, where = found.problem.detail, found.place or "at an address outside shared memory"
    call = found.quoted or "the kernel "
    if detail.startswith("one arrival too many"):
        missing, expected = _numbers(found)
        of = f"phase needs {plural(expected, 'arrival')}, and {missing} of them were still to come"
        return f"{call}arrives at the mbarrier {where} more often than its phase allows: a {of}"
    if detail == "not initialised":
        return f"{call}uses the mbarrier {where}, which nobody has initialised"
    if detail == "written over":
        return f"{call}uses the mbarrier {where}, over which something else has been written"
    if detail.startswith("a count"):
        return f"{call}initialises the mbarrier {where} with something other than {detail}"
    return f"{call}finds the mbarrier {where} {detail or 'in use'}"


def mbarrier_advice(found) -> str:
    """By what is wrong with it."""
    detail = found.problem.detail
    if detail.startswith("one arrival"):
        return "Count who arrives in one phase: that is the number for mbarrier.init. arrive.expect_tx counts as one."
    if detail == "not initialised":
        return (
            "One thread initialises each barrier with mbarrier.init (cuda::barrier: `init(&bar, n)`), then the whole "
            "block meets at `__syncthreads();`, and only then does anybody use it. Is the address the barrier's own?"
        )
    if detail == "written over":
        return "A barrier's 8 bytes belong to it alone, until mbarrier.inval: does an array reach into it?"
    return "Initialise a barrier once, before anybody uses it; mbarrier.inval frees its memory for something else."


def unsupported_advice(found) -> str:
    """For a cluster of several blocks, and for a barrier of the whole grid."""
    if "cluster" in found.problem.detail:
        return "The emulator runs blocks one after the other: test the kernel with clusters of one block."
    return (
        "The emulator runs blocks one after the other, so all of them can never meet: end the kernel there and launch "
        "a second one, or use a grid of one block."
    )


# ------------------------------------------------------------------------------------------------ tiles


def wrong_tile(found) -> str:
    """What is wrong with the form of a bulk copy or of a wgmma's matrix."""
    detail, call, where = found.problem.detail, found.quoted or "the kernel ", found.place or "memory"
    if detail.startswith("swizzle"):
        reads, holds = (_swizzle(each) for each in _numbers(found))
        copy = _there(found, "another line")
        return f"{call}reads a tile in {where} {reads}, but the copy of {copy} put it there {holds}"
    if detail.startswith("aligned"):
        first = _first_of(found) or where
        return f"{call}begins a copy at {first}, which is not at a multiple of {_numbers(found)[0]} bytes"
    if detail.startswith("axes"):
        asked, has = _numbers(found)
        return f"{call}gives {plural(asked, 'coordinate')}, but the tensor map has {plural(has, 'axis', 'axes')}"
    if detail.startswith("coordinate"):
        first, size = _numbers(found)
        return f"{call}begins at element {first} of a row, byte {first * size}, which is not a multiple of 16 bytes"
    if detail == "bytes":
        return f"{call}copies a number of bytes that is not a multiple of 16"
    return f"{call}finds no tensor map at the address that it gives"


def _first_of(found) -> str:
    """ "x[130] (row 1, column 2)": at which number of an array it begins; "" where that is not known."""
    array, offset = found.array, found.problem.offset
    if array is None or offset % array.itemsize:
        return ""
    first = offset // array.itemsize
    return f"{found.name}[{first}]{position(array, first)}"


def _swizzle(span) -> str:
    return f"with the {span}-byte swizzle" if span else "without a swizzle"


def wrong_tile_advice(found) -> str:
    """By what is wrong with it."""
    detail = found.problem.detail
    if detail.startswith("swizzle"):
        return (
            "Bits 62 and 63 of the descriptor say how the tile lies (0: no swizzle, 1: 128 bytes, 2: 64, 3: 32), and "
            "must say the same as the swizzle of the tensor map."
        )
    if detail.startswith("aligned") and found.array is not None:
        return (
            "A bulk copy begins at a multiple of 16 bytes, in global memory too, and so does every array: is the index "
            "counted in single elements, where it should be counted in whole rows?"
        )
    if detail.startswith("aligned"):
        return (
            "A tile of a tensor copy begins at a multiple of 128 bytes in shared memory (of 1024 with the 128-byte "
            "swizzle); a bulk copy of bytes takes multiples of 16: `__align__` the array."
        )
    if detail.startswith("coordinate"):
        return (
            "A tensor copy begins at multiples of 16 bytes of a row: its first coordinate is a multiple of 4 for float,"
            " of 8 for numbers of 16 bits. The other coordinates may be any."
        )
    if detail == "no tensor map":
        return (
            "Make the map with llmc.cuda.tensor_map and declare the parameter `const __grid_constant__ CUtensorMap "
            "map`, whose address is &map."
        )
    return "Look at the box of the tensor map, and at the instruction's own number of axes."


# ------------------------------------------------------------------------------------------------ fences


def missing_fence(found) -> str:
    """ "`…` reads s[0], which line 9 has written: …, without fence.proxy.async in between"."""
    call, there = found.quoted or "the kernel ", _there(found, "another line")
    if found.problem.detail == "proxy":
        return f"{call}reads {found.place}, which an ordinary store wrote ({there}), without a fence in between"
    if found.problem.detail == "registers":
        return f"{call}uses registers that other code has used since the last wgmma.fence ({there})"
    return f"{call}comes before any wgmma.fence"


def missing_fence_advice(found) -> str:
    """Which fence, and where."""
    if found.problem.detail == "proxy":
        return (
            "Copies and tensor cores look at shared memory in a way of their own (the asynchronous proxy), and may "
            "miss ordinary stores: `fence.proxy.async.shared::cta;` by every thread that wrote, then a barrier."
        )
    return (
        "`wgmma.fence.sync.aligned;` comes before the first wgmma, and again whenever the kernel itself has read or "
        "written the registers of a sum."
    )


# ------------------------------------------------------------------------------------------------ never waited for


def unfinished_product(found) -> str:
    """ "`…` uses a register of the wgmma of line 9 before it has been waited for"."""
    which = _there(found, "another line")
    return f"{found.quoted or 'the kernel '}uses a sum of the wgmma of {which}, which has not been waited for"


def unfinished_product_advice(found) -> str:
    """A group to end, a wait."""
    if found.problem.detail == "group":
        return "It is in no group yet: `wgmma.commit_group.sync.aligned;` and then `wgmma.wait_group.sync.aligned 0;`."
    return "`wgmma.wait_group.sync.aligned 0;` waits for all groups; N leaves the last N groups under way."


def never_waited_for(found) -> str:
    """ "the block ended before the wgmma `…` had been waited for"."""
    what = "wgmma" if "wgmma" in found.problem.detail else "bulk store"
    return f"the block ended, and nothing has waited for the {what} {found.quoted}".rstrip()


def never_waited_for_advice(found) -> str:
    """What to wait with."""
    first = "cp.async.bulk" if "store" in found.problem.detail else "wgmma"
    tail = ".sync.aligned" if first == "wgmma" else ""
    ended = f"`{first}.commit_group{tail};` ends a group, and " if "without" in found.problem.detail else ""
    why = (
        "Its sums never reach the registers"
        if first == "wgmma"
        else "Shared memory ends with the block, before it is copied"
    )
    return f"{why}: {ended}`{first}.wait_group{tail} 0;` waits for all groups."


# ------------------------------------------------------------------------------------------------ warpgroups


def part_of_a_warpgroup(found) -> str:
    """ "`…` is executed by 2 of the 4 warps of a warpgroup"."""
    detail, call = found.problem.detail, found.quoted or "a wgmma "
    if detail == "not full":
        return f"{call}takes the 128 threads of a warpgroup, but the block's last one has fewer"
    if detail == "another instruction":
        there = _there(found, "another instruction")
        return f"{call}is executed by some warps of a warpgroup while others execute {there}"
    whole = (*_numbers(found), 0)[0]
    return f"{call}is executed by {plural(whole, 'whole warp')} of a warpgroup, but it takes all 4"


def group_threads(found) -> str:
    """Who waits, and who does not come."""
    if found.problem.thread2 is None:
        return first_to_do_it(found)
    return two("waits there", "but {} never comes")(found)


def copy_race_advice(found) -> str | None:
    """For a read of what a bulk copy has not brought, or has brought without this thread's wait."""
    if "cp.async.bulk" not in found.raw.code and "cp_async_bulk" not in found.raw.code:
        return None
    if found.problem.write:
        return (
            "Which of the two comes last is luck: before a stage is filled again or written to, wait for the mbarrier "
            "that counts the copy into it, and for all who read what it brings."
        )
    again = (
        " The barrier has ended phases before: is this the parity of the phase that counts this copy? It changes from "
        "round to round. Or did the phase end without the copy, because nobody has announced its bytes (expect_tx)?"
        if found.problem.detail == "bulk phase"
        else ""
    )
    return (
        "A bulk copy is visible to those who have waited for its mbarrier: mbarrier.try_wait.parity in a loop, by "
        f"every thread that reads, or by one and then `__syncthreads();`.{again}"
    )
