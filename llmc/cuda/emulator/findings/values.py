"""What the integers of an index are in one thread: `int row = blockIdx.x * 8 + threadIdx.x / 32;` is worked out.

Only variables that are declared once, with a value, and never changed; those of loops have many values: rounds.py.
"""

import ast
import re
from functools import lru_cache

from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.findings.guards import ASSIGNED, FUNCTION, VALUE
from llmc.cuda.emulator.findings.loops import end_after

INTEGERS = re.compile(r"\b(?:int|unsigned|size_t|long long|auto)\s+(?=\w+\s*=)")
DECLARED = re.compile(rf"(\w+)\s*=\s*({VALUE})([,;])\s*")
CAST = re.compile(r"\(\s*(?:unsigned|int|size_t|long long|unsigned int)\s*\)")
NAME = re.compile(r"[A-Za-z_]\w*")
CONSTANT = re.compile(r"\bconst(?:expr)?\s+(?:int|unsigned|size_t)\s+(\w+)\s*=\s*(\d+)\s*;")
ARITHMETIC = (ast.Expression, ast.BinOp, ast.Name, ast.Constant, ast.operator, ast.Load, ast.UnaryOp, ast.unaryop)
SAFE = (*ARITHMETIC, ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop)
MOST = 8  # values that a sentence lists


def worked_out(found, second=False) -> str:
    """ "i = 15, b = 1 and t = 0" for the thread of a Finding, or for the second one of a race; "" where nothing is."""
    return listed(of_the_index(found, second))


def of_the_index(found, second=False) -> dict:
    """{name: value} of the variables that the index on its line is made of, in one of the threads."""
    line = found.line2 if second else found.line
    lines = mask(found.raw.code).splitlines()
    known = of_the_launch(found, second)
    if not 0 < line <= len(lines) or not known:
        return {}
    text, at = function_around(lines, line)
    values = evaluated(declared(text, at), known)
    return {name: number for name, number in values.items() if name in needed(indices_on(lines[line - 1]), text)}


def of_the_launch(found, second=False) -> dict:
    """What stays the same in a function for one thread: its place, constants, and in the kernel itself the arguments.

    {} without a thread.
    """
    problem, code = found.problem, mask(found.raw.code)
    thread, block = (problem.thread2, problem.block2) if second else (problem.thread, problem.block)
    if thread is None or block is None:
        return {}
    text, _ = function_around(code.splitlines(), found.line2 if second else found.line)
    body, given = text.partition("{")[2], scalars(found.raw) if "__global__" in text.partition("(")[0] else {}
    constants = {name: int(number) for name, number in CONSTANT.findall(code)}
    unchanged = {name: number for name, number in given.items() if not _changes(name, body)}
    return _places(found.raw, thread, block) | unchanged | constants


def evaluated(expressions, known) -> dict:
    """{name: value} of those {name: expression} that can be worked out from what is known, and from one another."""
    values = {}
    for name, expression in expressions.items():
        number = value(expression, known | values)
        if number is not None:
            values[name] = number
    return values


def function_around(lines, line) -> tuple[str, int]:
    """The text of the function that this line is in, and where the line ends there."""
    heads = [number for number, text in enumerate(lines, 1) if FUNCTION.search(text)]
    first = max((number for number in heads if number <= line), default=1)
    last = min((number - 1 for number in heads if number > line), default=len(lines))
    return "\n".join(lines[first - 1 : last]), len("\n".join(lines[first - 1 : line]))


def declared(text, at) -> dict:
    """{name: expression} of the integers that can be seen at a position, are declared outside of a loop's head, and are
    never changed."""
    found = {}
    for head in INTEGERS.finditer(text, 0, at):
        position, end = head.end(), _end_of_scope(text, head.start())
        in_a_loop = text[: head.start()].rstrip().endswith("(")
        while (match := DECLARED.match(text, position)) and end >= at:
            found.pop(match[1], None)
            if not in_a_loop and not _changes(match[1], text[match.end() : end]):
                found[match[1]] = match[2]
            position = match.end() if match[3] == "," else len(text)
    return found


def _changes(name, text) -> bool:
    assigned = rf"\b{name}\s*(?:[-+*/%^|&]|<<|>>)?=(?!=)|\b{name}\s*(?:\+\+|--)|(?:\+\+|--)\s*{name}\b"
    return bool(re.search(assigned, text))


def _end_of_scope(text, start) -> int:
    """Where the braces, or the brackets of a loop's head and its body, around a position end."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "{(") - (text[at] in "})")
        if depth < 0:
            return end_after(text, at + 1) if text[at] == ")" else at
    return len(text)


def indices_on(line) -> str:
    """What is between square brackets on a line; the line where there are none."""
    return " ".join(re.findall(r"\[([^\[\]]*)\]", line)) or line


def needed(expression, text) -> dict:
    """{name: how far} of an expression and of what its names were made from, pointers too: the nearest first."""
    made, names = ASSIGNED.findall(text), dict.fromkeys(NAME.findall(expression), 0)
    for far in range(1, len(made) + 1):
        inner = [name for target, source in made if target in names for name in NAME.findall(source)]
        names |= {name: far for name in inner if name not in names}
    return names


def _places(raw, thread, block) -> dict:
    """{"threadIdx_x": 3, …}."""
    sizes = (("threadIdx", thread), ("blockIdx", block), ("blockDim", raw.block), ("gridDim", raw.grid))
    return {f"{name}_{axis}": int(n) for name, size in sizes for axis, n in zip("xyz", size)}


def scalars(raw) -> dict:
    """{name: value} of the whole numbers among the arguments."""
    return {
        argument.name: int.from_bytes(argument.packed, "little", signed=True)
        for argument in raw.arguments
        if argument.array is None and argument.packed and len(argument.packed) in (4, 8)
    }


def value(expression, known) -> int | None:
    """The value of an expression in C with whole numbers, none negative; None if it needs anything else."""
    code = _compiled(expression)
    try:
        result = eval(code, {"__builtins__": {}}, known) if code else None
    except (NameError, ArithmeticError, ValueError, TypeError):
        return None
    return result if isinstance(result, int) and result >= 0 else None


@lru_cache
def _compiled(expression):
    """The expression in Python, None if it has more than arithmetic and comparisons."""
    python = re.sub(r"\b(\w+Idx|\w+Dim)\.([xyz])\b", r"\1_\2", CAST.sub("", expression))
    python = re.sub(r"\b(\d+)u\b", r"\1", python).replace("/", "//").replace("&&", " and ").replace("||", " or ")
    try:
        tree = ast.parse(python.strip(), mode="eval")
    except SyntaxError:
        return None
    return compile(tree, "<index>", "eval") if all(isinstance(node, SAFE) for node in ast.walk(tree)) else None


def listed(values) -> str:
    """ "i = 15, b = 1 and t = 0"."""
    return in_words([f"{name} = {number}" for name, number in values.items()][:MOST])


def in_words(words) -> str:
    """ "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
