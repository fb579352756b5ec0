"""A float4 or uint4 in memory, of which a thread reads or writes all four components: nvcc makes one access of them.

The emulator counts four, since only the compiler can know that nothing comes between them. A demand counts one, so that
it never refuses a kernel for requests, sectors and conflicts that a GPU does not see.
"""

import re

from llmc.cuda.emulator.compiling.text import mask

FLOAT4 = r"\b(?:float4|uint4)\s*(?:const\s*)?"
NAMES = (
    re.compile(rf"{FLOAT4}\*\s*(?:const\s+|__restrict__\s+)*(\w+)"),  # const float4* x
    re.compile(r"[\w>]\s*(?:const\s*)?&\s*(?:__restrict__\s+)?(\w+)"),  # const float4& a, const auto& a, V& a
    re.compile(rf"(\w+)\s*=\s*(?:reinterpret_cast\s*<|\()\s*(?:const\s+)?{FLOAT4}\*"),  # auto x4 = (float4*)x
)
SHARED = re.compile(r"__shared__\s+float4\s+([^;]*);")
COMPONENT = re.compile(r"(\w+)(\[[^\[\]]*\])?\.([xyzw])\b")
BOUND = re.compile(r"\bauto\s*&&?\s*\[\s*(\w+)\s*,\s*(\w+)\s*,\s*(\w+)\s*,\s*(\w+)\s*\]")  # auto& [x, y, z, w]
SLOTS = 4


def shared_requests(report) -> int:
    """Requests of a warp to shared memory, one for the four components of a float4."""
    return _requests(report, "shared")


def requests(report) -> int:
    """Requests of a warp to global memory, counted in the same way."""
    return _requests(report, "global")


def sectors(report) -> int:
    """Sectors of global memory that the warps moved; the four components of a float4 lie in the same ones."""
    apart = _taken_apart(report, "global")
    return report.sectors - sum(sum(a.sectors for a in four) - max(a.sectors for a in four) for four in apart)


def efficiency(report) -> float:
    """Ideal sectors over these: 1.0 is coalesced."""
    moved = sectors(report)
    return report.ideal_sectors / moved if moved else 1.0


def bank_conflicts(report) -> int:
    """Extra passes; for a float4 taken apart, those that one access of 16 bytes would have at least."""
    apart = _taken_apart(report, "shared")
    counted = sum(access.passes - access.ideal for four in apart for access in four)
    needed = (max(access.passes - SLOTS * access.requests for access in four) for four in apart)
    return report.bank_conflicts - counted + sum(max(0, extra) for extra in needed)


def _requests(report, space) -> int:
    counted = sum(use.requests for use in report.lines if use.space == space)
    return counted - sum(access.requests for four in _taken_apart(report, space) for access in four[1:])


def _taken_apart(report, space) -> list:
    """The four RawAccess of each float4: of .x, .y, .z and .w, equally often, all reads or all writes of one array."""
    text, runs = mask(report.raw.code), {}
    slots = _slots_by_line(text)
    for access in sorted(report.raw.accesses, key=lambda access: access.pc):
        line = report.line_of(access.pc)
        if access.space == space and access.size == 4 and not access.atomic and line:
            alike = access.write, access.argument, access.requests, access.lanes
            runs.setdefault(alike, []).append((access, slots[line - 1]))
    fours = [four for run in runs.values() for four in _fours(run)]
    return [four for four in fours if not _comes_between(four, report.raw.accesses)]


def _comes_between(four, accesses) -> bool:
    """Is another array written between four reads, or read between four writes? It may be the same memory."""
    first, last = min(access.pc for access in four), max(access.pc for access in four)
    return any(
        first < other.pc < last and other.write != four[0].write and other.argument != four[0].argument
        for other in accesses
    )


def _slots_by_line(text) -> list[str]:
    """For each line which components it has of float4s in memory: "x", "xyzw"; "" if it indexes anything else, too."""
    names = {name for pattern in NAMES for name in pattern.findall(text)}
    names |= {name for several in SHARED.findall(text) for name in re.findall(r"(\w+)\s*(?:\[|,|$)", several)}
    bound = {name: slot for four in BOUND.findall(text) for name, slot in zip(four, "xyzw")}
    return [_slots(line, names, bound) for line in text.splitlines()]


def _slots(line, names, bound) -> str:
    found = {slot for name, _, slot in COMPONENT.findall(line) if name in names}
    found |= {bound[word] for word in re.findall(r"\w+", line) if word in bound}
    rest = re.sub(rf"\b(?:{'|'.join(names)})\s*\[", "", BOUND.sub("", COMPONENT.sub("", line))) if names else line
    return "".join(sorted(found, key="xyzw".index)) if "[" not in rest else ""


def _fours(run) -> list[tuple]:
    """From accesses with the components of their lines, each four that belong together."""
    single = {slot: [access for access, slots in run if slots == slot] for slot in "xyzw"}
    several = [access for access, slots in run if len(slots) > 1]
    all_there = {slot for _, slots in run if len(slots) > 1 for slot in slots} == set("xyzw")
    last = len(several) - SLOTS + 1 if all_there else 0
    return [*zip(*single.values()), *(tuple(several[i : i + SLOTS]) for i in range(0, last, SLOTS))]
