"""Python's own min, max, if, and, round and math.exp want one number: what to take instead for a whole array."""

import ast
import textwrap

import numpy as np

AMBIGUOUS, ONE_NUMBER = "truth value of an array", ("only length-1 arrays", "only 0-dimensional arrays", "only size-1")
ADVICE = " Use a.any() or a.all()"  # NumPy's, and seldom what is meant
LARGER = {"max": "np.maximum", "min": "np.minimum"}
SIGNS = {ast.And: ("and", "&"), ast.Or: ("or", "|"), ast.Not: ("not", "~")}
CONVERTS = {"float": "", "int": " `x.astype(int)` converts all of them.", "round": " np.round rounds all of them."}


def without_advice(text, error) -> str:
    """The words of an error, without what NumPy advises."""
    return text.removesuffix(ADVICE) if AMBIGUOUS in str(error) else text


def instead(error, code, variables) -> list[str]:
    """A sentence about the first thing in a line of code that wants one number and got an array; or [].

    variables: what the names of the line stand for.
    """
    if AMBIGUOUS in str(error):
        found = [*_compared(_parsed(code), variables)]
    elif any(words in str(error) for words in ONE_NUMBER):
        found = [*_converted(_parsed(code))]
    else:
        return []
    given = [(sentence, [_is_array(part, variables) for part in parts]) for sentence, parts in found]
    sure = [sentence for sentence, arrays in given if True in arrays]
    perhaps = [sentence for sentence, arrays in given if None in arrays]
    return sure[:1] or (perhaps if len(perhaps) == 1 else [])


def _is_array(node, variables):
    """Does that expression stand for several numbers? None if a function must be called to know it."""
    if any(isinstance(each, ast.Call) for each in ast.walk(node)):
        return None
    try:
        value = eval(compile(ast.Expression(node), "<part>", "eval"), {}, dict(variables))
    except Exception:  # a name of another function's, say
        return None
    return isinstance(value, np.ndarray) and value.size > 1


def _parsed(code):
    """The nodes of a line, which may be the head of a block; () if it is a part of an expression."""
    code = textwrap.dedent(code).strip()
    for text in (code, f"{code}\n    pass", code.removeprefix("el") + "\n    pass", f"({code.rstrip(',')})"):
        try:
            return [*ast.walk(ast.parse(text))]
        except SyntaxError:
            continue
    return ()


def _compared(nodes, variables):
    """(sentence, expressions one of which is an array) for each of them that asks for the truth of something."""
    for node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in LARGER and node.args[1:]:
            name = node.func.id
            told = f"`{name}` compares whole things, and arrays are neither larger nor smaller as a whole"
            yield f"{told}: `{LARGER[name]}(a, b)` goes number by number.", node.args
        elif isinstance(node, ast.Compare) and node.comparators[1:]:
            parts = [node.left, *node.comparators]
            each = [ast.unparse(ast.Compare(a, [op], [b])) for a, op, b in zip(parts, node.ops, parts[1:])]
            mend = " & ".join(f"({part})" for part in each)
            yield f"`{ast.unparse(node)}` joins two comparisons by `and`, which wants one truth: `{mend}`.", parts
        elif isinstance(node, ast.BoolOp):
            word, sign = SIGNS[type(node.op)]
            yield f"`{word}` wants one truth on either side: `(…) {sign} (…)` goes number by number.", node.values
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            there = _there(node.operand, variables, "is None")
            yield there or "`not` wants one truth: `~(…)` goes number by number.", [node.operand]
        elif isinstance(node, ast.If | ast.IfExp):
            each = f"`np.where({ast.unparse(node.test)}, …, …)` decides for each number"
            there = _there(node.test, variables, "is not None")
            yield there or f"`if` decides once for the whole array: {each}.", [node.test]


def _there(node, variables, asks) -> str | None:
    """A sentence if the name of an array of numbers stands where a condition should: it may be None in other calls."""
    array = variables.get(node.id) if isinstance(node, ast.Name) else None
    if not isinstance(array, np.ndarray) or array.dtype == bool:
        return None
    size = "== 0` whether it is empty" if asks == "is None" else "> 0` whether it holds any number"
    there = f"`{node.id} {asks}` asks whether there is one, `len({node.id}) {size}"
    return f"An array as a whole is neither true nor false: {there}."


def _converted(nodes):
    """The same for what makes one number of something."""
    for node in nodes:
        name = ast.unparse(node.func) if isinstance(node, ast.Call) and node.args else ""
        if name.startswith("math."):
            told = f"`{name}` takes one number: `np.{name.removeprefix('math.')}` goes number by number."
            yield told, node.args
        elif name in CONVERTS:
            yield f"`{name}` takes one number, and this is an array.{CONVERTS[name]}", node.args
