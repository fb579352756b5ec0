"""A float4 in shared memory of which a thread reads or writes all four components: nvcc makes one access of them.

The emulator counts four, since only the compiler can know that nothing comes between them. A demand on shared memory
counts one, so that it never refuses a kernel for requests and conflicts that a GPU does not see.
"""

import re

from llmc.cuda.emulator.compiling.text import mask

VECTORS = re.compile(r"\bfloat4\s*[&*]\s*(?:const\s+|__restrict__\s+)*(\w+)|__shared__\s+float4\s+([^;]*);")
COMPONENT = re.compile(r"(\w+)(\[[^\[\]]*\])?\.([xyzw])\b")
SLOTS = 4


def shared_requests(report) -> int:
    """Requests of a warp to shared memory, one for the four components of a float4."""
    apart = _taken_apart(report)
    return _of(report, "requests") - sum(access.requests for group in apart for access in group[1:])


def bank_conflicts(report) -> int:
    """Extra passes; of a float4 taken apart those that one access of 16 bytes would have at the least."""
    apart = _taken_apart(report)
    counted = sum(access.passes - access.ideal for group in apart for access in group)
    needed = (max(access.passes - SLOTS * access.requests for access in group) for group in apart)
    return report.bank_conflicts - counted + sum(max(0, extra) for extra in needed)


def _of(report, what) -> int:
    return sum(getattr(use, what) for use in report.lines if use.space == "shared")


def _taken_apart(report) -> list:
    """The four RawAccess of each float4: of .x, .y, .z and .w of one name, equally often, all reads or all writes."""
    text, runs = mask(report.raw.code), {}
    lines, names = text.splitlines(), _names(text)
    for access in sorted(report.raw.accesses, key=lambda access: access.pc):
        line = report.line_of(access.pc)
        if access.space == "shared" and access.size == 4 and not access.atomic and line:
            alike = access.write, access.argument, access.requests, access.lanes
            runs.setdefault(alike, []).append((access, _components(lines[line - 1], names)))
    return [group for run in runs.values() for group in _groups(run)]


def _names(text) -> set[str]:
    """Of shared arrays of float4, and of references and pointers to one."""
    return {
        name for one, several in VECTORS.findall(text) for name in re.findall(r"(\w+)\s*(?:\[|,|$)", one or several)
    }


def _components(line, names) -> list[tuple[str, str]]:
    """("sums[i]", "x") of every component on the line."""
    return [(vector + index, slot) for vector, index, slot in COMPONENT.findall(line) if vector in names]


def _groups(run) -> list:
    """Of accesses in the order of the program, with the components on their lines, each four that belong together."""
    found, at = [], 0
    while at + SLOTS <= len(run):
        four = run[at : at + SLOTS]
        whole = any(all((name, slot) in parts for slot, (_, parts) in zip("xyzw", four)) for name, _ in four[0][1])
        found += [[access for access, _ in four]] * whole
        at += SLOTS if whole else 1
    return found
