"""Lesson 07: how many parameters a GPT-2 has, and which mistake gives another count."""

import ast
import math
import time

import numpy as np

from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.polynomials import compared
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.places import quoted

OTHER = (9, 23, 5, 17), (9, 300, 5, 200)  # maxT, V, L, C: sizes at which two mistakes hardly give the same count


def count(maxT, V, L, C) -> int:
    """Parameters of a GPT-2 with tied tables, each of the sixteen tensors written out."""
    block = 2 * C + (3 * C * C + 3 * C) + (C * C + C) + 2 * C + (4 * C * C + 4 * C) + (4 * C * C + C)
    return V * C + maxT * C + L * block + 2 * C


def explain_count(got, maxT, V, L, C, function=None):
    """Which mistake gives this count, as a sentence; None when it is right. function: the learner's, for more calls."""
    right = count(maxT, V, L, C)
    if got == right:
        return None
    off = f"{abs(int(got) - right):,} too {'many' if got > right else 'few'}"
    why = _known_count(int(got), maxT, V, L, C)
    if why and function and any(_known_count(outcome(function, *sizes), *sizes) != why for sizes in OTHER):
        why = None  # it has the same number at these sizes alone
    sizes = maxT, V, L, C
    why = ((_exchanged(function, sizes) or _rounded_down(function, sizes)) if function else None) or why
    why = why or _rounded_sum(got, right, function) or _fixed_size(int(got) - right, maxT, V, L, C)
    once = lambda term: term.count("L") < 2 and term.count("C") < 3 and max(map(term.count, term), default=0) < 3  # noqa: E731
    terms = compared("Your count", function, count, ("maxT", "V", "L", "C"), 3, only=once) if function else None
    said = [words[0].upper() + words[1:] for words in (why, terms) if words]
    return ". ".join([off, *said])


def _known_count(got, maxT, V, L, C) -> str | None:
    """The sentence of the known mistake that gives this count; None if none does."""
    right, padded = count(maxT, V, L, C), -(-V // 128) * 128
    biases = L * (3 * C + C + 4 * C + C)
    wrong = {
        right + V * C: "the table is counted twice: the output head is wte itself, not a tensor of its own",
        right + V * C + V: "the output head is counted, with a bias: it is wte itself, and it has none",
        right + V: "a bias of the output head is counted: it has none",
        right - V * C: "the token table wte is missing",
        right - maxT * C: "the position table wpe is missing: positions have a table too",
        right + (L - 1) * 2 * C: "the last layernorm is counted in every block: there is only one, after all of them",
        right - 2 * C: "the last layernorm is missing (lnfw, lnfb): it comes after the blocks",
        right - C: "one vector of C numbers is missing: every layernorm has a weight and a bias",
        right + (padded - V) * C: "the padding rows of wte are counted: they are not parameters of the model",
        right - biases: "the biases of the four linear layers are missing",
        right
        - biases
        - 4 * L * C
        - 2 * C: "all vectors are missing: the biases, and the layernorms' weights and biases",
        right - 4 * L * C: "4C numbers are missing in each block: its two layernorms have 4C together, "
        "the MLP's first bias has 4C, and the biases of qkv and attproj have 3C + C",
        right - 4 * L * C - 2 * C: "the layernorms are missing",
        right - 2 * L * C - C: "each layernorm has a weight and a bias: one of them is missing",
        right - 2 * L * C: "2C numbers are missing in each block: each of its two layernorms has 2C, "
        "the bias of qkv has 3C, not C, and the biases of attproj and fcproj have C each; or the biases are counted by "
        "the inputs of their layers, 7C, and not by the outputs, 9C",
        right - 2 * L * C * C: "the matrix qkvw is 3C × C: queries, keys and values",
        right - 2 * L * (C * C + C): "the layer qkv is 3C wide: queries, keys and values",
        right - L * C * C: "the matrix attprojw is missing: heads are mixed by a C × C matrix",
        right - L * (C * C + C): "the layer attproj is missing: heads are mixed by a C × C matrix and a bias",
        right
        - 3
        * L
        * (C * C + C): "the layer qkv is missing: it makes queries, keys and values, a 3C × C matrix and a bias",
        right - 3 * L * C * C: "the matrix qkvw is missing: queries, keys and values, 3C × C",
        right - 4 * L * C * C: "4C² numbers are missing in each block: the MLP has two matrices of 4C², "
        "and qkv and attproj have 3C² and C²",
        right - 6 * L * C * C: "the MLP is counted as if it were C wide: it is 4C wide inside",
        right + 3 * L * C: "the MLP's second bias, fcprojb, has C numbers, not 4C: that layer comes back to C",
        right
        - 3
        * L
        * C: "three vectors of C numbers are missing in each block: the bias of qkv has 3C, and the MLP's first 4C",
        right - (L - 1) * (right - V * C - maxT * C - 2 * C) // L: "only one block is counted: there are L",
    }
    return wrong.get(got)


def _exchanged(function, sizes) -> str | None:
    """A sentence if the count is right with the two parameters of a helper of the learner's exchanged; else None."""
    program = learners(function)
    for node in ast.walk(program.tree) if program else ():
        value = node.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda) else node
        if value is program.tree.body[-1] or not isinstance(node, ast.FunctionDef | ast.Assign):
            continue
        if not isinstance(value, ast.FunctionDef | ast.Lambda) or len(value.args.args) != 2:
            continue
        given = value.args.args
        value.args.args = given[::-1]
        right = _right_at(program, (sizes, *OTHER))
        value.args.args = given
        name = getattr(node, "name", None) or ast.unparse(node.targets[0])
        if right:
            n, m = (each.arg for each in given)
            outputs = "a bias has as many numbers as its layer has outputs, not inputs"
            return f"with {n} and {m} exchanged inside of `{name}({n}, {m})` the count is right: {outputs}"
    return None


def _rounded_down(function, sizes) -> str | None:
    """A sentence if the count is right once a quotient of the learner's is not rounded down; else None.

    `-(-V // 128)` is meant to be rounded.
    """
    program = learners(function)
    for node in ast.walk(program.tree) if program else ():
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) and not isinstance(node.left, ast.UnaryOp):
            words, floor = quoted(node), node.op
            node.op = ast.Div()
            right = _right_at(program, (sizes, *OTHER))
            node.op = floor
            if right:
                whole, by = (ast.unparse(each) for each in (node.left, node.right))
                return f"{words} is rounded down: {whole} need not be a multiple of {by}"
    return None


def _right_at(program, several) -> bool:
    """Does the program, as its tree is now, count rightly at all of these sizes?"""
    counts = [(outcome(program.function(time.thread_time() + 1), *sizes), count(*sizes)) for sizes in several]
    return all(isinstance(got, int | float | np.number) and math.isclose(got, right) for got, right in counts)


def _rounded_sum(got, right, function) -> str | None:
    """A sentence if only the last digits of a large count are wrong, it is a float32, and a small one is right."""
    if right < 2**24 or abs(got - right) > 1e-6 * right or int(np.float32(got)) != got:
        return None
    if function and any(outcome(function, *sizes) != count(*sizes) for sizes in OTHER):
        return None
    return (
        "the first digits are right, as after a sum in float32, whose whole numbers have gaps from 2²⁴ = 16,777,216 on"
    )


def _fixed_size(off, maxT, V, L, C) -> str | None:
    """A sentence if the count has GPT-2's own number in place of one of the sizes."""
    block = 12 * C * C + 13 * C
    sizes = [("V", V, C, (50257, 50304)), ("maxT", maxT, C, (1024,)), ("L", L, block, (12,))]
    sizes += [("4C, the MLP's inner width,", 4 * C, L * (2 * C + 1), (3072,))]
    for what, size, each, usual in sizes:
        for other in usual:
            if off == (other - size) * each != 0:
                return f"it has {other} where {what} belongs, which is {size} here: every size comes from the arguments"
    return None
