"""What the integers of an index are in one thread: `int row = blockIdx.x * 8 + threadIdx.x / 32;` is worked out.

Only variables that are declared once, with a value, and never changed; those of loops have many values.
"""

import ast
import re

from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.findings.guards import ASSIGNED, FUNCTION, VALUE

INTEGERS = re.compile(r"\b(?:int|unsigned|size_t|long long|auto)\s+(?=\w+\s*=)")
DECLARED = re.compile(rf"(\w+)\s*=\s*({VALUE})([,;])\s*")
CAST = re.compile(r"\(\s*(?:unsigned|int|size_t|long long|unsigned int)\s*\)")
NAME = re.compile(r"[A-Za-z_]\w*")
SAFE = (ast.Expression, ast.BinOp, ast.Name, ast.Constant, ast.operator, ast.Load, ast.UnaryOp, ast.unaryop)
MOST = 8  # values that a sentence lists


def worked_out(found, second=False) -> str:
    """ "i = 15, b = 1 and t = 0" for the thread of a Finding, or for the second one of a race; "" where none is known.

    Of the variables that the index on its line is made of.
    """
    problem, line = found.problem, found.line2 if second else found.line
    thread, block = (problem.thread2, problem.block2) if second else (problem.thread, problem.block)
    lines = mask(found.raw.code).splitlines()
    if not 0 < line <= len(lines) or thread is None or block is None:
        return ""
    text = _function(lines, line)
    declared, indices = _declared(text), re.findall(r"\[([^\[\]]*)\]", lines[line - 1])
    known = _places(found.raw, thread, block) | _arguments(found.raw)
    names = _needed(indices or lines[line - 1 : line], text)
    values = {}
    for name in (name for name in declared if name in names):
        value = _value(declared[name], known | values)
        if value is not None:
            values[name] = value
    return _listed([f"{name} = {value}" for name, value in values.items()][:MOST])


def _function(lines, line) -> str:
    """The text of the function that this line is in."""
    heads = [number for number, text in enumerate(lines, 1) if FUNCTION.search(text)]
    first = max((number for number in heads if number <= line), default=1)
    last = min((number - 1 for number in heads if number > line), default=len(lines))
    return "\n".join(lines[first - 1 : last])


def _declared(text) -> dict:
    """{name: expression} of the integers that are declared once, outside of a loop's head, and nowhere changed."""
    found, twice = {}, set()
    for head in INTEGERS.finditer(text):
        at = head.end()
        in_a_loop = text[: head.start()].rstrip().endswith("(")
        while match := DECLARED.match(text, at):
            twice |= {match[1]} if in_a_loop or match[1] in found else set()
            found[match[1]] = match[2]
            at = match.end() if match[3] == "," else len(text)
    changed = {name for name in found if len(re.findall(rf"\b{name}\s*(?:[-+*/%^|&]|<<|>>)?=(?!=)", text)) > 1}
    changed |= {name for name in found if re.search(rf"\b{name}\s*(?:\+\+|--)|(?:\+\+|--)\s*{name}\b", text)}
    return {name: value for name, value in found.items() if name not in changed | twice}


def _needed(expressions, text) -> set:
    """The names in these, and in what those were made from, pointers too."""
    names, made = {name for expression in expressions for name in NAME.findall(expression)}, ASSIGNED.findall(text)
    for _ in made:
        names |= {inner for name, value in made if name in names for inner in NAME.findall(value)}
    return names


def _places(raw, thread, block) -> dict:
    """{"threadIdx_x": 3, …}."""
    sizes = (("threadIdx", thread), ("blockIdx", block), ("blockDim", raw.block), ("gridDim", raw.grid))
    return {f"{name}_{axis}": int(n) for name, size in sizes for axis, n in zip("xyz", size)}


def _arguments(raw) -> dict:
    return {
        argument.name: int.from_bytes(argument.packed, "little", signed=True)
        for argument in raw.arguments
        if argument.array is None and argument.packed and len(argument.packed) in (4, 8)
    }


def _value(expression, known) -> int | None:
    """Of an expression in C with whole numbers, none of them negative; None if it needs anything else."""
    python = re.sub(r"\b(\w+Idx|\w+Dim)\.([xyz])\b", r"\1_\2", CAST.sub("", expression))
    python = re.sub(r"\b(\d+)u\b", r"\1", python).replace("/", "//")
    try:
        tree = ast.parse(python.strip(), mode="eval")
        if not all(isinstance(node, SAFE) for node in ast.walk(tree)):
            return None
        value = eval(compile(tree, "<index>", "eval"), {"__builtins__": {}}, known)
    except (SyntaxError, NameError, ArithmeticError, ValueError, TypeError):
        return None
    return value if isinstance(value, int) and value >= 0 else None


def _listed(words) -> str:
    """ "i = 15, b = 1 and t = 0"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
