"""Changes of a learner's function that pass a check, seen beside our solution: do they only make up for a mistake?

solution: a Solution; with anything else nothing is said. lines, now: the function's lines before a change and after it.
"""

import ast
import re
from collections import Counter

from llmc.course.mutants.solution import Solution

LONG = 20  # characters; a shorter line is alike by chance
ARRANGING = {"copy", "astype", "reshape", "swapaxes", "transpose", "at", "isfinite"}  # and `np.add.at`
ARRANGING |= {ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq}
CONSTANT = re.compile(r"with (-?[\d.e+-]+) in place of (-?[\d.e+-]+)")
LIST = re.compile(r"np\.(?:array|asarray)\((\[[^\[\]()]*\])\)")


def changes_a_right_line(solution, lines, now) -> bool:
    """Is one line changed, and was it our solution's to the letter? Then something else is made up for."""
    if not isinstance(solution, Solution) or len(lines) != len(now):
        return False
    ours = {_plainly(line) for line in ast.unparse(solution.tree).splitlines()}
    changed = [_plainly(old) for old, new in zip(lines, now) if old != new]
    return len(changed) == 1 and changed[0] in ours and len(changed[0]) > LONG


def only_fits(solution, words) -> bool:
    """Is it a number in place of one that is not whole, and our solution has no such number?"""
    match = CONSTANT.match(words)
    if match is None or not isinstance(solution, Solution):
        return False
    new, old = map(float, match.groups())
    ours = {n.value for n in ast.walk(solution.tree) if isinstance(n, ast.Constant) and type(n.value) is float}
    return not old.is_integer() and new not in ours


def brings_in(solution, lines, now) -> bool:
    """Does a change bring in a function or an operator that neither the learner nor our solution uses?"""
    if not isinstance(solution, Solution):
        return False
    trees = ast.parse("\n".join(lines)), solution.tree, ast.parse("\n".join(now))
    theirs, ours, new = (_used(tree) for tree in trees)
    return any(n > max(theirs[each], ours[each]) for each, n in new.items() if each not in ARRANGING)


def reads_of_ignored(solution, tree) -> int:
    """How often does this function read an argument that our solution never reads?"""
    ours = solution.tree.body[-1] if isinstance(solution, Solution) else None
    if not isinstance(ours, ast.FunctionDef):
        return 0
    ignored = {argument.arg for argument in ours.args.args} - set(_reads(ours))
    return sum(name in ignored for name in _reads(tree))


def _used(tree) -> Counter:
    """How often does it call each function, by name, and use each kind of operator?"""
    functions = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    names = [getattr(f, "attr", getattr(f, "id", "")) for f in functions]
    return Counter([*names, *(type(node) for node in ast.walk(tree) if isinstance(node, ast.operator | ast.cmpop))])


def _reads(tree) -> list:
    """The names that it reads, each as often as it does."""
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]


def _plainly(line) -> str:
    """A line without its indent, and with `[a, b]` for `np.array([a, b])`."""
    return LIST.sub(r"\1", line.strip())
