"""Mutants of CUDA C: a kernel with one small mistake each, of the kinds that learners make.

    mutants(code) -> [("without the __syncthreads() of line 14", code), …]

Nothing is parsed. A rule is a regular expression for something in the text and what may stand there instead; comments
and strings are left alone, and so is what the exercise gives: only what is between the solution's markers changes.
Some mutants do not compile, and some are right all the same; `authoring/cuda_mutants.py` finds out which.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from llmc.cuda.emulator.compiling.text import line_at, mask

CALL = r"\b(?:__)?[a-z]\w*\("  # a function, not a type or a macro
NAME = r"\b[A-Za-z_][\w.]*(?:\[[^\[\]]*\])?"  # u.x, partial[t + half]


class Rule(NamedTuple):
    """What is looked for, and what is put there instead; words may name line, old and new."""

    pattern: str
    replacements: tuple[str, ...]
    words: str = "`{new}` in place of `{old}`, line {line}"


RULES = (
    Rule(r"__sync(?:threads|warp)\(\);", ("",), "without the `{old}` of line {line}"),
    Rule(r"\bblockDim\b", ("gridDim",)),
    Rule(r"\bgridDim\b", ("blockDim",)),
    Rule(r"\bblockDim\.x\b", ("32", "256")),
    Rule(r"\bthreadIdx\.x\b", ("threadIdx.y", "blockIdx.x")),
    Rule(r"\bblockIdx\.x\b", ("blockIdx.y", "threadIdx.x")),
    Rule(r"(?<= )<(?= )", ("<=", "!=")),
    Rule(r"(?<= )>(?= )", (">=", "<")),
    Rule(r"(?<= )>=(?= )", (">",)),
    Rule(r"(?<= )==(?= )", ("!=",)),
    Rule(r"(?<= )\+=(?= )", ("=", "-=")),
    Rule(r"(?<=[\w)\]] )\+(?= )", ("-",)),
    Rule(r"(?<=[\w)\]] )-(?= )", ("+",)),
    Rule(r"(?<=[\w)\]] )\*(?= )", ("+", "/")),
    Rule(r"(?<=[\w)\]] )/(?= )", ("*", "%")),
    Rule(r"(?<= )%(?= )", ("/",)),
    Rule(r"(?<= )/=(?= )", ("-=",)),
    Rule(r"(?<=/= )2\b", ("4",)),
    Rule(rf" [+*-] {NAME}(?![\w(\[])", ("",), "without `{old}`, line {line}"),  # a term or a factor
    Rule(rf"(?<![\w.]){NAME} [+*] (?=[\w(])", ("",), "without `{old}`, line {line}"),
    Rule(r"(?<![\w.])\d+(?![\w.])", ("{+1}", "{//2}")),
    Rule(r"(?<![\w.])-?\d+\.\d+(?:e\d+)?f", ("1.0f", "0.0f")),
    Rule(r"\b1e-5f", ("1e-6f", "0.0f")),
    Rule(r"(?<=for \(int )(\w+) = [^;]+(?=;)", (r"\1 = 0", r"\g<0> + 1")),
    Rule(r"\w+ \+= [^;()]+(?=\))", (r"\g<0> + 1",)),  # a loop's step
    Rule(r"(?<=\[)[^\[\]]+(?=\])", (r"\g<0> + 1", r"\g<0> - 1")),
    Rule(r"\bif \([^;{}]*?\)(?= \{|$| [a-z])", ("",), "without the `{old}` of line {line}"),
    Rule(r"\bif \([^;{}]*?\) return;", ("",), "without the `{old}` of line {line}"),
    Rule(r"\b0xffffffff\b", ("0x0000ffff",)),
    Rule(r"\b__shfl_xor_sync\b", ("__shfl_down_sync", "__shfl_up_sync")),
    Rule(r"\bfmaxf\b", ("fminf",)),
    Rule(r"\bexpf(?=\()", ("", "logf")),
    Rule(r"\brsqrtf(?=\()", ("", "sqrtf")),
    Rule(r"\bfloat(?= \w+ =)", ("int",)),
    Rule(r"\((?:float|size_t|double)\)", ("",), "without the cast `{old}` of line {line}"),
    Rule(r"\batomicAdd\(&?([^,;]+), ([^;]+)\)", (r"\1 += \2",)),
    Rule(r"(?<!Idx)(?<!Dim)\.x\b", (".y",)),
    Rule(r"\.y\b", (".z",)),
    Rule(r"\.z\b", (".w",)),
    Rule(r"\.w\b", (".x",)),
    Rule(rf"({CALL})(\w+), (\w+)(?=[,)])", (r"\1\3, \2",)),  # two arguments
    Rule(r"([\w.]+ [-/] )([\w.]+)(?= [*+;)])", (r"\2 - \1",), "the two sides of `{old}` exchanged, line {line}"),
    Rule(r"(\S+) \? ([^:]+) : ([^;,]+)", (r"\1 ? \3 : \2",)),
    Rule(r"(?<=[;{}\n])[ \t]*[a-z*][\w.\[\] *+()]* [+*]?= [^;{}]+;", ("",), "without `{old}`, line {line}"),
)


def mutants(code) -> list[tuple[str, str]]:
    """(words, source) of every mutant of this source, each source once."""
    masked, found = mask(code), {}
    holes = _holes(code) or [(0, len(code))]
    for rule in (*RULES, *_exchanges(masked)):
        for match in re.finditer(rule.pattern, masked, re.MULTILINE):
            if any(start <= match.start() and match.end() <= end for start, end in holes):
                for words, mutant in _replaced(code, rule, match):
                    found.setdefault(mutant, words)
    found.pop(code, None)
    return [(words, mutant) for mutant, words in found.items()]


def _holes(code) -> list[tuple[int, int]]:
    """Where the learner's own lines are: between the markers."""
    pattern = r"### BEGIN SOLUTION[^\n]*\n(.*?)[ \t]*// ### END SOLUTION"
    return [match.span(1) for match in re.finditer(pattern, code, re.DOTALL)]


def _exchanges(masked) -> Iterator[Rule]:
    """A rule for each parameter of the kernel: another one of the same type in its place."""
    head = re.search(r"__global__[^(]*\(([^)]*)\)", masked)
    declared = re.findall(r"(float\*|int) (\w+)", head[1] if head else "")
    for kind, name in declared:
        others = [other for its, other in declared if its == kind and other != name]
        yield Rule(rf"\b{name}\b", tuple(others[:2]))


def _replaced(code, rule, match) -> Iterator[tuple[str, str]]:
    """(words, source) for each replacement of one match."""
    line = line_at(code, match.start() + len(match[0]) - len(match[0].lstrip()))
    for replacement in rule.replacements:
        new = _number(replacement, match[0]) if replacement[0:1] == "{" else match.expand(replacement)
        words = rule.words.format(line=line, old=" ".join(match[0].split()), new=new)
        yield words, code[: match.start()] + new + code[match.end() :]


def _number(how, text) -> str:
    """Another number: one more, or half of it."""
    return str(int(text) + 1 if how == "{+1}" else int(text) // 2)
