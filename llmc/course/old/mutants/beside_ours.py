"""Changes of a learner's function that pass a check, seen beside our solution: do they only make up for a mistake?

solution: a Solution; with anything else nothing is said. lines, now: the function's lines before a change and after it.
"""

import ast
import re
from collections import Counter

from llmc.course.old.mutants.loops import root_of
from llmc.course.old.mutants.solution import Solution

SMALL = 8  # a larger number that our solution has, too, is hardly wrong
LONG = 20  # characters; a shorter line is alike by chance
# calls that are no step of a formula; `at` is np.add.at's
ARRANGING = {"copy", "astype", "reshape", "swapaxes", "transpose", "at", "isfinite"}
FAR = (ast.Pow, ast.Mod, ast.FloorDiv, ast.MatMult)  # from another operation of a formula
CONSTANT = re.compile(r"with (-?[\d.e+-]+) in place of (-?[\d.e+-]+)")
TIMES = re.compile(r"with `.+` times ")
MEAN = "with mean in place of sum"
KEY = re.compile(r"with `\w+\[['\"]")
NOT = "not "
REDUCTIONS = ("mean", "max", "min", "prod", "std", "var")
ALIKE = {"maximum": "max", "fmax": "max", "amax": "max", "minimum": "min", "fmin": "min", "amin": "min"}
ROOTS = {"sqrt", "square"}
LIST = re.compile(r"np\.(?:array|asarray)\((\[[^\[\]()]*\])\)")


def first_changed(lines, now) -> int | None:
    """The index of the first line that a change has changed."""
    return next((k for k, (old, new) in enumerate(zip(lines, now)) if old != new), None)


def changes_a_right_line(solution, lines, now) -> bool:
    """Is one line changed, and was it our solution's to the letter? Then something else is made up for."""
    if not isinstance(solution, Solution) or len(lines) != len(now):
        return False
    ours = {_plainly(line) for line in ast.unparse(solution.tree).splitlines()}
    changed = [_plainly(old) for old, new in zip(lines, now) if _plainly(old) != _plainly(new)]  # or in another loop
    return len(changed) == 1 and changed[0] in ours and len(changed[0]) > LONG


def only_fits(solution, words) -> bool:
    """Is it a number in place of one that is not whole, or that our solution has, and ours has no such number?"""
    match = CONSTANT.match(words)
    if match is None or not isinstance(solution, Solution):
        return False
    new, old = map(float, match.groups())
    ours = {n.value for n in ast.walk(solution.tree) if isinstance(n, ast.Constant) and type(n.value) in (int, float)}
    return new not in ours and (not old.is_integer() or old in ours and old > SMALL)


def leads_away(solution, lines, now) -> bool:
    """Is the function less like our solution with the change, or does it bring in what neither of the two has?

    Parts are operators, calls, numbers and arguments. Where a message says already what to do, a change that leads away
    and passes the check all the same makes up for the mistake somewhere else.
    """
    if not isinstance(solution, Solution):
        return False
    ours = solution.tree.body[-1]
    names = {argument.arg for argument in ours.args.args} if isinstance(ours, ast.FunctionDef) else set()
    before, after, right = (_parts(tree, names) for tree in (*map(_tree, (lines, now)), solution.tree))
    new = {part for part in after if after[part] > max(before[part], right[part])}
    return _distance(after, right) > _distance(before, right) or bool({part for part in new if _counts(part)})


def brings_in(solution, lines, now) -> bool:
    """Does the change call a function, a root or an absolute value, say, that neither our solution nor the learner has?

    Of two functions whose mistake is elsewhere, one more may well make up for the other.
    """
    if not isinstance(solution, Solution):
        return False
    before, after, ours = (_called(tree) for tree in (*map(_tree, (lines, now)), solution.tree))
    return bool(after - before - ours)


def _called(tree) -> set:
    """The names of the functions that it calls, one for those that are alike; ROOTS for a power."""
    found = {part for part, count in _parts(tree, ()).items() if isinstance(part, str) and count}
    found = {ALIKE.get(name, name) for name in found}
    return found | ROOTS if any(isinstance(node, ast.Pow) for node in ast.walk(tree)) else found


def makes_up(solution, words, lines, now) -> bool:
    """Does a change that leads away leave out a factor or bring one in, turn a sign, or reduce as ours does not?

    A mean in place of a sum may be right in numbers beside a mistake elsewhere, as in a line that a loop makes again.
    """
    if words.startswith(MEAN) and _in_a_loop(lines, now) and not _loops(solution):
        return True
    if not leads_away(solution, lines, now):
        return False
    before, after, ours = (_parts(tree, ()) for tree in (*map(_tree, (lines, now)), solution.tree))
    new = {part for part in REDUCTIONS if after[part] > before[part] and not ours[part]}
    return bool(new) or words.startswith(("without the factor", "with the sign of")) or bool(TIMES.match(words))


def _in_a_loop(lines, now) -> bool:
    """Does the line that is changed stand inside of a loop?"""
    changed = {k for k, (old, new) in enumerate(zip(lines, now), 1) if old != new}
    loops = (node for node in ast.walk(_tree(lines)) if isinstance(node, ast.For | ast.While))
    return any(changed & {*range(loop.lineno + 1, loop.end_lineno + 1)} for loop in loops)


def _loops(solution) -> bool:
    return not isinstance(solution, Solution) or any(isinstance(n, ast.For) for n in ast.walk(solution.tree))


def out_of_order(solution, lines, now) -> bool:
    """Are the arguments written in our solution's order, and with the change no longer?"""
    if not isinstance(solution, Solution):
        return False
    ours, before, after = (_written(tree) for tree in (solution.tree, *map(_tree, (lines, now))))
    return before == ours != after and sorted(before) == sorted(after)


def _written(tree) -> list:
    """The arguments of a tree's last function that are written to, in the order of the first time."""
    function = tree.body[-1]
    names = {argument.arg for argument in function.args.args} if isinstance(function, ast.FunctionDef) else set()
    lines = (node for node in ast.walk(function) if isinstance(node, ast.Assign | ast.AugAssign))
    targets = (t for line in lines for t in getattr(line, "targets", [getattr(line, "target", None)]))
    roots = sorted((t.lineno, root_of(t)) for t in targets if root_of(t) in names)
    return list(dict.fromkeys(name for _, name in roots))


def changes_a_condition(lines, now) -> bool:
    """Does the function compare otherwise with the change?"""
    before, after = (_conditions(_tree(each), True) for each in (lines, now))
    return bool(before - after and after - before)


def comes_nearer(solution, lines, now) -> bool:
    """Is the function more like our solution with the change, in its operators, calls and numbers?"""
    before, after, ours = (_parts(tree, ()) for tree in (*map(_tree, (lines, now)), solution.tree))
    return _distance(after, ours) < _distance(before, ours)


def turns_a_condition(solution, lines, now, everywhere) -> bool:
    """Does the change turn a condition around, or compare other things, and our solution has no such condition?

    everywhere: also a condition that stands where it decides, in `if`, `while` and `a if … else b`; one that is a
    result, or what a name holds, says something of its own, and whoever turns it around makes up for its use.
    """
    ours = set(_conditions(solution.tree, True)) if isinstance(solution, Solution) else set()
    before, after = (_conditions(_tree(each), everywhere) for each in (lines, now))
    lost, new = before - after, after - before
    negated, bare = ({each for each in some if each.startswith(NOT)} for some in (new, lost))
    if len(negated) != len(bare):
        return not (negated | {each.removeprefix(NOT) for each in bare}) <= ours
    pairs = zip(lost.elements(), new.elements()) if lost.total() == new.total() else ()
    return any(_asks_else(*pair) for pair in pairs) and not set(new) <= ours


def _conditions(tree, everywhere) -> Counter:
    """The sources of its comparisons and of what has a `not` before it."""
    decides = (ast.If, ast.While, ast.IfExp)
    tests = [node.test for node in ast.walk(tree) if isinstance(node, decides)]
    tests += [test for node in ast.walk(tree) if isinstance(node, ast.comprehension) for test in node.ifs]
    skipped = set() if everywhere else {id(inner) for test in tests for inner in ast.walk(test)}
    nodes = [node for node in ast.walk(tree) if id(node) not in skipped]
    negations = (node for node in nodes if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
    return Counter(ast.unparse(node) for node in [*negations, *(n for n in nodes if isinstance(n, ast.Compare))])


def _asks_else(old, new) -> bool:
    """Does the comparison `new` have other names than `old`, or an operator that is not its neighbour's, < for <=?"""
    names, kinds = zip(*((_compared(tree), _operators(tree)) for tree in map(ast.parse, (old, new))))
    return names[0] != names[1] or kinds[0] != kinds[1]


def _compared(tree) -> Counter:
    """The names that it reads, without those of functions."""
    called = (getattr(node.func, "id", "") for node in ast.walk(tree) if isinstance(node, ast.Call))
    return Counter(_reads(tree)) - Counter(called)


def _operators(tree) -> list:
    """The kinds of its comparisons; < and <= are of one kind."""
    kinds = {"LtE": "Lt", "GtE": "Gt"}
    found = [type(op).__name__ for node in ast.walk(tree) if isinstance(node, ast.Compare) for op in node.ops]
    return [kinds.get(kind, kind) for kind in found]


def breaks_a_pair(words, lines, now) -> bool:
    """Is one key changed of two that were the same on both sides, as in `run["val"] - ok["val"]`?

    Two different things are then compared, which may pass by accident.
    """
    return bool(KEY.match(words)) and _pairs(_tree(now)).total() < _pairs(_tree(lines)).total()


def _pairs(tree) -> Counter:
    """The texts that are keys on both sides of a difference, a quotient or a comparison, of two different dicts."""
    found = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div):
            sides = node.left, node.right
        elif isinstance(node, ast.Compare) and len(node.comparators) == 1:
            sides = node.left, node.comparators[0]
        else:
            continue
        keys = [[n.value for n in ast.walk(side) if isinstance(getattr(n, "value", None), str)] for side in sides]
        found.update(keys[0] if keys[0] == keys[1] and ast.unparse(sides[0]) != ast.unparse(sides[1]) else [])
    return found


def reads_of_ignored(solution, tree) -> int:
    """How often does this function read an argument that our solution never reads?"""
    ours = solution.tree.body[-1] if isinstance(solution, Solution) else None
    if not isinstance(ours, ast.FunctionDef):
        return 0
    ignored = {argument.arg for argument in ours.args.args} - set(_reads(ours))
    return sum(name in ignored for name in _reads(tree))


def _tree(lines):
    return ast.parse("\n".join(lines))


def _parts(tree, names) -> Counter:
    """How often does it call each function, by name, use each kind of operator, each number and each of these names?"""
    parts = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            parts[name] += name not in ARRANGING
        elif isinstance(node, ast.operator | ast.cmpop | ast.unaryop | ast.boolop):
            parts[type(node)] += 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            parts[node.value] += 1
        elif isinstance(node, ast.Name) and node.id in names:
            parts[node.id, "name"] += 1
    return parts


def _counts(part) -> bool:
    """Is it a call or an operation, and no comparison, number or name?"""
    return isinstance(part, str) or isinstance(part, type) and issubclass(part, FAR)


def _distance(a, b) -> int:
    return ((a - b) + (b - a)).total()


def _reads(tree) -> list:
    """The names that it reads, each as often as it does."""
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]


def _plainly(line) -> str:
    """A line without its indent, and with `[a, b]` for `np.array([a, b])`."""
    return LIST.sub(r"\1", line.strip())
