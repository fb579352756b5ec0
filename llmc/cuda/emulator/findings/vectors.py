"""Vectors such as float4 in the text of a kernel, as far as advice about their index needs them."""

import re

from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.findings.guards import ASSIGNED, NAME, VALUE, computed_from, names_in_index
from llmc.cuda.emulator.findings.values import declared, evaluated, function_around, listed, of_the_launch, value

VECTORS = re.compile(r"\b[a-z]+[234]\s*\*\s*(?:__restrict__\s+)?(\w+)\s*[=,;)]")  # float4* p
BEGINS = r"\b{0}\s*=\s*(?:\([^()]*\*\s*\)|reinterpret_cast<[^<>]*>)\s*\(?\s*{1}\s*\)?\s*\+\s*({2})[;,]"


def made_by_division(found, many, check) -> bool:
    """Is something a quotient of a division by `many`, as in `quads = C / 4`, or a row's length one, as in `row * 8`?

    Something of the index on the line of a Finding, or of the Condition that checks it.
    """
    if _rows_in_vectors(found, many):
        return True
    lines = mask(found.raw.code).splitlines()[: found.line]
    names = computed_from(names_in_index(lines[-1]) | check.names, lines) if lines else set()
    sources = [value for text in lines for target, value in ASSIGNED.findall(text) if target in names]
    return any(re.search(rf"/\s*{many}\b|>>\s*{many // 2}\b", value) for value in (*sources, check.text, *lines[-1:]))


def _rows_in_vectors(found, many) -> bool:
    """Does the line multiply by the vectors of a row, as `row * 8 + c` of rows of 32 numbers?"""
    if found.array is None or found.array.ndim < 2 or not found.line:
        return False
    vectors, line = found.array.shape[-1] // many, mask(found.raw.code).splitlines()[found.line - 1]
    return vectors > 1 and bool(re.search(rf"\*\s*{vectors}\b|\b{vectors}\s*\*", line))


def begins_outside(found, many) -> str:
    """A sentence if a vector pointer on the line, `p = (float4*)x + row * quads`, already begins past the end."""
    lines, known = mask(found.raw.code).splitlines(), of_the_launch(found)
    text, at = function_around(lines, found.line)
    values, end = evaluated(declared(text, at), known), found.array.size // many
    for name in re.findall(r"\b(\w+)\s*\[", lines[found.line - 1]):
        step = re.search(BEGINS.format(name, re.escape(found.name), VALUE), text)
        begins = value(step[1], known | values) if step else None
        if begins is not None and begins >= end:
            there = listed({part: values[part] for part in NAME.findall(step[1]) if part in values})
            return (
                f"`{name}` itself begins at vector {begins} of {found.name}{f', with {there}' if there else ''}: is a "
                "check missing that keeps this thread away, or is what is added to the pointer wrong?"
            )
    return ""


def counts_in_vectors(found) -> bool:
    """Is it a vector access by the index of a vector pointer, and would the element of that index be inside?

    `p[i]` for a `float4* p`, and `((float4*)x)[i]`; not `*p`, nor `p[0]`, whose index says nothing.
    """
    size, array = found.problem.size, found.array
    if size <= array.itemsize or found.problem.offset % size or found.problem.offset // size >= array.size:
        return False
    source = mask(found.raw.code)
    line = source.splitlines()[found.line - 1] if found.line else ""
    names = set(VECTORS.findall(source)) & set(re.findall(r"(\w+)\s*\[\s*(?!0\s*\])", line))
    return bool(names or re.search(r"\b\w+[234]\s*\*\s*[>)].*\)\s*\[\s*(?!0\s*\])", line))
