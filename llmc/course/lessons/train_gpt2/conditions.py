"""Lesson 22: which condition of a learner's function gave a wrong answer, and which one should have held.

The function runs once more and is watched. Conditions are `if …: return "warmup"`, `if …: answer = "warmup"` and
`return "warmup" if …` at the end, or stand in pairs, `("warmup", condition)`; of others nothing is said.
"""

import ast
import inspect
import sys
import textwrap
from contextlib import contextmanager, suppress
from numbers import Real
from types import FunctionType, ModuleType
from typing import NamedTuple

import numpy as np

from llmc.course.old.checks.blame import FOREIGN, TESTS

SIGNS = {ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!="}
AS_WELL = "which holds as well"  # where two conditions compete
LONGEST = 100  # characters of a condition that is quoted


class Asked(NamedTuple):
    """`if test: return answer`, from line to last of the function's cell; or `answer = …`."""

    line: int
    last: int
    test: ast.expr
    answer: str | None
    assigned: bool  # to a name, which is returned later

    @property
    def quoted(self) -> str:
        text = ast.unparse(self.test)
        text = text if len(text) <= LONGEST else f"{text[: LONGEST // 2].rstrip()} … {text[-LONGEST // 2 :].lstrip()}"
        return f"line {self.line}, `{text}`"


def told(function, arguments, right, answers) -> list[str]:
    """Sentences on why the function's answer to these arguments is not `right`; [] where nothing can be said.

    answers: those that it gave to other arguments, too.
    """
    with suppress(Exception):  # whatever a learner's function does
        (own, *functions), others = _named(function)
        lines, frame, answer, inside = _watched(function, arguments, functions)
        asked = _conditions(function)
        answered = [each for each in asked if each.answer == answer and _holds(each, frame)]
        given = [each for line in lines for each in answered if each.last == line]
        given = given[-1] if given and (asked[-1].assigned or given[-1].last == lines[-1]) else None
        wanted = [each for each in asked if each.answer == right]
        texts = [ast.unparse(_tree(each)[0]) for each in (own, *functions)] + [*map(repr, others)]
        occurs = [repr(right) in text for text in texts]
        lost = not any(occurs) or not occurs[0] and right in inside and not asked  # answered there, and not taken over
        if isinstance(right, str) and right not in answers and lost:
            return [f"{right!r} does not occur in your function."]
        if not asked:
            return list(_of_pairs(function, frame, answer, right))
        return list(_said(given, wanted, lines, frame, right))
    return []


def _said(given, wanted, lines, frame, right):
    before = [each for each in wanted if each.line in lines and not _holds(each, frame)]
    later = [each for each in wanted if each.line not in lines and _holds(each, frame)]
    if given and later and later[0].line > given.line:
        yield (
            f"For this log the condition of {given.quoted}, holds, and answers before the one that is right, "
            f"{later[0].quoted}, is asked, {AS_WELL}."
        )
    elif before:
        numbers = _numbers(before[0].test, frame)
        yield (
            f"The condition that would answer {right!r}, {before[0].quoted}, does not hold for this log"
            f"{f': {numbers}' if numbers else ''}."
        )
    elif given:
        numbers = _numbers(given.test, frame)
        which = "healthy log" if right is None else "log"
        yield (
            f"The condition of {given.quoted}, holds for this {which}{f': {numbers}' if numbers else ''}, and answers "
            f"{given.answer!r}."
        )


def _of_pairs(function, frame, answer, right):
    """The same of conditions that stand beside their answers, in a list or a dict, where the first that holds answers.

    In others nobody knows which one counts.
    """
    pairs = _pairs(function)
    held = [each for each in pairs if _holds(each, frame)]
    wanted = [each for each in pairs if each.answer == right]
    if [each.answer for each in held[:1]] not in ([answer], []) or not held and answer is not None or len(wanted) != 1:
        return
    if wanted[0] in held:
        yield (
            f"For this log the condition of {held[0].quoted}, holds, and comes before the one that is right, "
            f"{wanted[0].quoted}, {AS_WELL}."
        )
    else:
        yield from _said(None, wanted, [wanted[0].line], frame, right)


def _pairs(function) -> list[Asked]:
    """("warmup", condition), (condition, "warmup") or "warmup": condition, in their order."""
    if not isinstance(function, FunctionType):
        return []
    (tree, first), found = _tree(function), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            found += [node.elts, node.elts[::-1]]
        elif isinstance(node, ast.Dict):
            found += zip(node.keys, node.values)
    pairs = [(name, test) for name, test in found if isinstance(name, ast.Constant) and isinstance(name.value, str)]
    asked = [Asked(name.lineno + first - 1, 0, test, name.value, True) for name, test in pairs]
    return sorted(asked, key=lambda each: each.line)


def _named(function):
    """(the function and those of its notebook that it names, and so on; what else of the notebook these name)."""
    functions, others = [function], []
    for each in functions:
        notebook = each.__globals__
        names = {node.id for node in ast.walk(_tree(each)[0]) if isinstance(node, ast.Name)} & {*notebook}
        for value in (notebook[name] for name in sorted(names)):
            if isinstance(value, FunctionType):
                functions += [value] if _is_learners(value) and value not in functions else []
            elif not isinstance(value, ModuleType | type):
                others.append(value)
    return functions, others


def _is_learners(function) -> bool:
    file = function.__code__.co_filename
    return file.startswith(TESTS) or not file.startswith(FOREIGN)


def _watched(function, arguments, functions):
    """(lines that ran, of the function itself, (globals, locals) when it returned, what it returned, and the texts that
    these other functions returned meanwhile)."""
    lines, kept, code, given = [], [], function.__code__, []
    codes = {each.__code__ for each in functions}

    def inside(frame, event, value):
        if event == "line":
            lines.append(frame.f_lineno)
        elif event == "return":
            kept[:] = [(frame.f_globals, dict(frame.f_locals))]
        return inside

    def beside(frame, event, value):
        given.extend([value] if event == "return" and isinstance(value, str) else [])
        return beside

    watch = {code: inside} | dict.fromkeys(codes - {code}, beside)
    with _tracing(lambda frame, event, value: watch.get(frame.f_code)):
        answer = function(*arguments)
    return lines, kept[0], answer, given


@contextmanager
def _tracing(trace):
    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(previous)


def _conditions(function) -> list[Asked]:
    """In the order of their lines."""
    if not isinstance(function, FunctionType):
        return []
    (tree, first), found = _tree(function), []
    for node in ast.walk(tree):
        answer = node.body[0] if isinstance(node, ast.If) else None
        if isinstance(answer, ast.Return | ast.Assign) and isinstance(answer.value, ast.Constant):
            lines, assigned = (node.lineno + first - 1, answer.lineno + first - 1), isinstance(answer, ast.Assign)
            found.append(Asked(*lines, node.test, answer.value.value, assigned))
    last = tree.body[0].body[-1]  # within another condition, that one would have to hold, too
    choice = last.value if isinstance(last, ast.Return) and isinstance(last.value, ast.IfExp) else None
    if choice and isinstance(choice.body, ast.Constant):
        line = last.lineno + first - 1
        found.append(Asked(line, line, choice.test, choice.body.value, False))
    return sorted(found, key=lambda each: each.line)


def _tree(function):
    """(its tree, the line of its cell that is the tree's first)."""
    lines, first = inspect.getsourcelines(function)
    return ast.parse(textwrap.dedent("".join(lines))), first


def _holds(asked, frame) -> bool:
    with suppress(Exception):
        return bool(_value(asked.test, frame))
    return False


def _value(node, frame):
    return eval(compile(ast.Expression(node), "<condition>", "eval"), *frame)


def _numbers(test, frame) -> str:
    """ "0.449 > 0.61 and 2.3 < 2.5": the numbers that are compared; "" without any."""
    parts = test.values if isinstance(test, ast.BoolOp) else [test]
    joint = " or " if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else " and "
    found = []
    for part in parts:
        with suppress(Exception):
            (sign,), (right,) = part.ops, part.comparators
            sides = [_value(side, frame) for side in (part.left, right)]
            if all(isinstance(side, Real | np.number) for side in sides):
                found.append(f"{sides[0]:.3g} {SIGNS[type(sign)]} {sides[1]:.3g}")
    return joint.join(found)
