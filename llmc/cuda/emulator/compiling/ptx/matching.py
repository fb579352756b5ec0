"""From an instruction's name to its rows in the table, forms.py."""

import re
from functools import lru_cache
from typing import NamedTuple

from llmc.cuda.emulator.compiling.ptx import forms as table

DEFAULTS = {"n": "1", "S": "global", "t": "false", "R": "rn", "relu": "false", "v": ""}
WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


class Form(NamedTuple):
    """One way to write an instruction."""

    pattern: re.Pattern
    operands: tuple[str, ...]
    call: str


def _regex(pattern):
    """The regular expression for an instruction as the table writes it."""
    words = {"[": "(?:", "]": ")?"}
    parts = []
    for part in re.split(r"(<[^>]*>|\[|\])", pattern):
        if part.startswith("<="):
            parts.append(f"(?P={part[2:-1]})")
        elif part.startswith("<"):
            name = re.match(r"(\w+):(?!:)", part[1:])
            choices = "|".join(map(re.escape, part[1 + (name.end() if name else 0) : -1].split("|")))
            parts.append(f"(?P<{name[1]}>{choices})" if name else f"(?:{choices})")
        else:
            parts.append(words.get(part) or re.escape(part))
    return re.compile("".join(parts))


def _form(pattern, operands, call):
    return Form(_regex(pattern), tuple(operands.split()), call)


@lru_cache(maxsize=1)
def forms() -> tuple[Form, ...]:
    """The whole table."""
    rows = [*table.COPIES, *table.MATRICES, *table.LOADS, *table.ARITHMETIC, *table.CONVERSIONS, *table.THREADS]
    rows += [*table.BARRIERS, *table.BULK_COPIES, *table.WARPGROUPS]
    for what, operands, call in table.ATOMICS:
        rows.append((f"atom[.<S:global|shared>].{what}", operands, call))
        rows.append((f"red[.<S:global|shared>].{what}", operands.split(maxsplit=1)[1], call))
    return tuple(_form(*row) for row in rows)


# What makes no difference here, and is left out before the table is searched.
EVERYWHERE = re.compile(r"\.(?:ftz|noftz|L1::\w+|L2::(?:cache_hint|64B|128B|256B|evict_\w+)(?!\.b64))(?=\.|$)")
OF_MEMORY = re.compile(r"\.(?:weak|nc|ca|cg|cs|cv|lu|wb|wt|cta|gpu|sys)(?=\.|$)")
OF_BARRIERS = re.compile(r"\.(?:release|relaxed|acquire|cta|cluster)(?=\.|$)")
ORDERED = re.compile(r"\.(?:volatile|relaxed|acquire|release|acq_rel|mmio)(?=\.|$)")


def canonical(opcode: str) -> str:
    """The opcode without hints: "ld.relaxed.gpu.global.L1::no_allocate.v4.f32" -> "ld.global.volatile.v4.f32"."""
    short = opcode.replace("shared::cta", "shared").replace("shared::cluster", "shared")
    if not short.startswith(("prefetch", "createpolicy")):
        short = EVERYWHERE.sub("", short)
    base = short.split(".")[0]
    if base == "mbarrier":
        short = OF_BARRIERS.sub("", short)
    if base in ("ld", "ldu", "st", "atom", "red"):
        ordered = ".volatile" if ORDERED.search(short) and base in ("ld", "st") else ""
        rest = ORDERED.sub("", OF_MEMORY.sub("", short))[len(base) :]
        space = next((each for each in (".global", ".shared") if each in rest), "")
        short = f"{base.replace('ldu', 'ld')}{space}{ordered}{rest.replace(space, '', 1) if space else rest}"
    return short


def matching(opcode: str):
    """(form, its groups) for each form that is written like this opcode."""
    short = canonical(opcode)
    for form in forms():
        if match := form.pattern.fullmatch(short):
            groups = DEFAULTS | {name: value for name, value in match.groupdict().items() if value is not None}
            groups["W"] = WIDE.get(groups.get("T", ""), "")
            groups["O"] = groups.get("o", "").capitalize()
            groups["v"] = "_volatile" if groups["v"] else ""
            yield form, groups
