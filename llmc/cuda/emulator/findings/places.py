"""Where an access went, in words: an array's name and index, a byte of shared memory, a thread of a block."""

import re

import numpy as np

from llmc.cuda.emulator.compiling.text import statements

WIDTH = 100  # characters of a source line that a message repeats
SIZES = {"double": 8, "float": 4, "int": 4, "unsigned": 4, "half": 2, "__half": 2, "__nv_bfloat16": 2, "char": 1}
DECLARED = (
    r"__shared__[^;()]*?(?:\([^()]*\)[^;()]*?)?\b(\w+)\s+"  # the type; alignas(16) may stand before it
    r"(?:\w+\s*(?:\[[^;\]]*\]\s*)*,\s*)*{}\s*\["  # others of that type, and then this array
)
CONSTANT = r"^[ \t]*#[ \t]*define[ \t]+{0}[ \t]+([^\n/]+)|\bconst(?:expr)?\s+(?:unsigned\s+)?\w+\s+{0}\s*=\s*([^;,]+)"
VECTOR = re.compile(r"(?:float|int|uint)([234])")


def source_line(code, line) -> str:
    """The text of a line of the kernel, stripped and cut; "" where the line is not known."""
    lines = code.splitlines()
    return cut(lines[line - 1].strip(), WIDTH) if 0 < line <= len(lines) else ""


def cut(text, width) -> str:
    """The text, or as much of it as fits into `width` characters, and " ..."."""
    return text if len(text) <= width else text[: width - 4] + " ..."


def place(raw, problem) -> str:
    """The element or the bytes that an access of `problem` is about: "out[1024]", "shared memory, byte 128 (…)"."""
    array = array_of(raw, problem)
    if array is not None:
        return element(raw.arguments[problem.argument].name, array, problem.offset, problem.size)
    item = item_of(raw.code, problem)
    if problem.array and item and problem.offset % item == 0:
        first, many = problem.offset // item, problem.size // item
        if many > 1:
            return f"{problem.size} bytes of {problem.array}, elements {first} to {first + many - 1}"
        return f"{problem.array}{_indices(raw.code, problem.array, first)}"
    if problem.space == "shared":
        return shared(problem.offset, problem.size)
    return "global memory" if problem.space == "global" else ""


def _indices(code, array, flat) -> str:
    """ "[2][3]", the indices of an element of a shared array by its declaration; "[69]" where that is not plain."""
    match = re.search(
        DECLARED.format(array).removesuffix(r"\[") + r"\[[^;\]]*\]((?:\s*\[[^;\]]*\])+)", statements(code)
    )
    sizes = [_value(code, size) for size in re.findall(r"\[([^\]]*)\]", match[2])] if match else []
    if not sizes or not all(sizes):
        return f"[{flat}]"
    found = []
    for size in reversed(sizes):
        flat, last = divmod(flat, size)
        found.append(last)
    return "".join(f"[{index}]" for index in [flat, *reversed(found)])


def _value(code, text, depth=4) -> int | None:
    """What a size in the text is: a number, a macro or constant of the text, a sum or a product of such; else None."""
    for word in set(re.findall(r"[A-Za-z_]\w*", text)):
        meant = re.search(CONSTANT.format(word), code, re.MULTILINE)
        value = _value(code, meant[1] or meant[2], depth - 1) if meant and depth else None
        if value is None:
            return None
        text = re.sub(rf"\b{word}\b", str(value), text)
    return eval(text.replace("/", "//")) if re.fullmatch(r"[\d\s()]*\d[\d\s()+*/-]*", text) else None


def item_of(code, problem) -> int:
    """Bytes of an element of the shared array that `problem` is about, by its declaration; else those of the access.

    An access may take several elements at once, and the kernel counts these.
    """
    match = re.search(DECLARED.format(problem.array), statements(code)) if problem.array else None
    if not match:
        return problem.size
    vector = VECTOR.fullmatch(match[1])
    item = 4 * int(vector[1]) if vector else SIZES.get(match[1], problem.size)
    return item if problem.size % item == 0 else problem.size


def bare_index(raw, problem) -> str:
    """For a fixed array, whose name nobody knows: "[33]", from the detail "33 'float [32]'"."""
    return f"[{problem.detail.split()[0]}]" if problem.detail else ""


def array_of(raw, problem):
    """The array of the launch that `problem` is about, or None."""
    if 0 <= problem.argument < len(raw.arguments):
        return raw.arguments[problem.argument].array
    return None


def element(name, array, offset, size) -> str:
    """The elements that `size` bytes at byte `offset` belong to, by their flat index, as the kernel counts.

    "x[6] (row 1, column 2)" for a matrix; "16 bytes of x, elements 4 to 7" for a vector access.
    """
    item = array.itemsize
    first, last = offset // item, (offset + max(size, 1) - 1) // item
    if first == last and offset % item == 0:
        return f"{name}[{first}]{position(array, first)}"
    if offset % item:
        return f"{size} bytes of {name} starting at byte {offset}, inside element {first}{position(array, first)}"
    return f"{size} bytes of {name}, elements {first} to {last}"


def position(array, index) -> str:
    """Where the flat index is in an array of more than one dimension: " (row 1, column 2)"."""
    if array.ndim < 2 or not 0 <= index < array.size:
        return ""
    where = [int(i) for i in np.unravel_index(index, array.shape)]
    if array.ndim == 2:
        return f" (row {where[0]}, column {where[1]})"
    return f" (index {', '.join(map(str, where))})"


def extent(name, array) -> str:
    """How long the array is: "out has 1024 elements (0 to 1023)"."""
    if not array.size:
        return f"{name} is empty"
    shape = f"shape {array.shape}: " if array.ndim > 1 else ""
    return f"{name} has {shape}{plural(array.size, 'element')} (0 to {array.size - 1})"


def shared(offset, size) -> str:
    """A place in shared memory whose array is not known: only its bytes are."""
    if size in (2, 4, 8) and offset % size == 0:
        return f"shared memory, byte {offset} ({size}-byte element {offset // size})"
    if size == 16 and offset % 16 == 0:
        return f"shared memory, bytes {offset} to {offset + 15} (4-byte elements {offset // 4} to {offset // 4 + 3})"
    return f"shared memory, {plural(size, 'byte')} starting at byte {offset}"


def thread(index, block=None) -> str:
    """ "thread (3, 0, 0) of block (1, 0, 0)"."""
    return f"thread {triple(index)}" + (f" of block {triple(block)}" if block is not None else "")


def triple(index) -> str:
    """ "(3, 0, 0)"."""
    return f"({', '.join(str(int(i)) for i in index)})"


def plural(number, noun, several=None) -> str:
    """ "1 thread", "2 threads"."""
    return f"{number} {noun if number == 1 else several or noun + 's'}"


def lane_list(mask) -> str:
    """The lanes of a warp in `mask`: "lanes 0 to 15 and 31"."""
    lanes = [lane for lane in range(32) if mask >> lane & 1]
    runs = []
    for lane in lanes:
        if runs and runs[-1][-1] == lane - 1:
            runs[-1].append(lane)
        else:
            runs.append([lane])
    words = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    noun = "lane" if len(lanes) == 1 else "lanes"
    return f"{noun} " + (words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}") if words else ""
