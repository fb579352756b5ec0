"""Is a function right but for a type that is too narrow, np.float32 among float64 numbers? It runs again without it."""

import ast
import time

from llmc.course.old.mutants.picked import close
from llmc.course.old.mutants.places import places, quoted

NARROW = {"float64": ("float32", "float16"), "float32": ("float16",)}
NAMES = {"float32": ("float32", "single", "f4", "<f4"), "float16": ("float16", "half", "f2", "<f2", "bfloat16")}
LINES = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr
MOST = 3  # lines that a sentence quotes


def rounded_by_type(name, answer, replay, k, target) -> str | None:
    """A sentence if output k of a call is `target` once the learner's function has a wider type; None otherwise.

    answer: `learners` of the function. target: its dtype is the wide one.
    """
    wide = target.dtype.name
    for narrow in NARROW.get(wide, ()):
        found = _named(answer, NAMES[narrow])
        if not found or not _right_with(answer, replay, k, target, found):
            continue
        by_line = {}
        for place in found:
            line = next((node for node in place.above if isinstance(node, LINES)), None)
            by_line.setdefault(line, []).append(place)
        alone = (line for line, some in by_line.items() if _right_with(answer, replay, k, target, some))
        shown = [next(alone, None)] if len(by_line) > 1 else []
        shown = [quoted(line) for line in (shown if any(shown) else by_line) if line is not None]
        where = f" in {' and '.join(shown)}" if 0 < len(shown) <= MOST else ""
        old = [*dict.fromkeys(ast.unparse(place.node) for place in found)]
        own = {id(node) for node in ast.walk(answer.tree.body[-1])}  # and not of a helper, which has other arguments
        fits = all(id(place.node) in own and place.field != "func" for place in found)  # not np.float32(0)
        new = _dtype_of_an_input(answer, replay, wide) if fits else None
        types = f"`{new or f'np.{wide}'}` in place of `{old[0]}`" if len(old) == 1 else f"{wide} in place of {narrow}"
        right = f"your function gives the right {name.removeprefix('the ')} with {types}{where}"
        return f"{name} has the rounding of {narrow}: {right}"
    return None


def _dtype_of_an_input(answer, replay, wide) -> str | None:
    """ "dout.dtype", of the first input that is an array of the wide type; None without one."""
    names = [each.arg for each in answer.tree.body[-1].args.args]
    for k, (name, value) in enumerate(zip(names, replay.arguments)):
        if getattr(value, "dtype", None) == wide and not any(replay.buffers[k : k + 1]):
            return f"{name}.dtype"
    return None


def _named(answer, names) -> list:
    """The places of each `np.float32`, `"f4"` or other name of the type."""
    found = []
    for function in [node for node in ast.walk(answer.tree) if isinstance(node, ast.FunctionDef)]:
        for place in places(function):
            node = place.node
            told = node.attr if isinstance(node, ast.Attribute) else getattr(node, "value", None)
            if isinstance(node, ast.Name):
                told = getattr(answer.before.get(node.id), "__name__", None)  # f32 = np.float32
            if isinstance(node, ast.Attribute | ast.Constant | ast.Name) and told in names:
                found.append(place)
    return found


def _right_with(answer, replay, k, target, found) -> bool:
    """Is output k right with the target's type in these places?"""
    before = [place.node for place in found]
    for place, node in zip(found, before):
        new = ast.parse(f"np.{target.dtype.name}", mode="eval").body
        place.hang(ast.fix_missing_locations(ast.copy_location(new, node)))
    try:
        made = replay.run(answer.function(time.thread_time() + answer.seconds))[k]
        return getattr(made, "shape", ()) == target.shape and close(made, target, target, target.dtype.name)
    except Exception:  # that type does not fit there
        return False
    finally:
        for place, node in zip(found, before):
            place.hang(node)
