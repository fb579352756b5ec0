"""Where along x is a function of single numbers wrong, and how? The learner's function is asked on a grid of its own.

In a check, numbers lie at random. On a grid it shows that a slope is wrong only beyond 3, that a table has 200 entries,
or that straight lines run between them. Only functions that treat each number alone are asked, such as GELU.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import FunctionType

import numpy as np

from llmc.course.old.mutants.elsewhere import dtype_of
from llmc.course.old.mutants.replay import Replay, arrays_in

END, STEP = 10, 1 / 64  # the grid is exact in any precision
FAR = (15.0, 40.0, 100.0)  # outside of it
WINDOWS, CLOSE = (-2, 0.5), 4096  # where, one unit long, and in how many points a table is looked for
FINE = 256  # points between two of the grid, where right turns to wrong
FLAT = 4  # points that share a value, on average, where a table has no more values
RUNS = 6  # straight lines that a table has at least
MOST = 0.9  # of the grid: where more is wrong, it is not wrong only there
NOTHING = 1e-3  # of the largest number
PARTS = 4  # stretches of the grid that are listed; more of them have no simple reason
ROUNDING = {"float64": 1e-9, "float32": 1e-6}  # errors that are no larger, relative to the right value or 1, are none
ROUGH = 1e-4  # relative: a check that allows more looks at the formula first, and is exact later
NEAR = 0.05  # of the right value, or of 1: an approximation comes nearer than that
TRANSCENDENTAL = {"tanh", "exp", "erf", "log", "log1p", "expm1", "sin", "cos", "exp2"}
COARSE = "too coarse"
INSTEAD = f"what it has in its place is an approximation, and {COARSE}. The formula around it is not what is wrong"
ENDS = "a table that ends there, or a limit"
BENT = 2e-6  # of the largest value: less is no kink between straight lines


@dataclass
class Curve:
    """The learner's function of x (n,), and the right one, all other numbers being 1."""

    name: str
    x: np.ndarray
    got: np.ndarray
    right: np.ndarray
    rounding: float
    ask: Callable  # (got, right) at other x
    bounds: tuple = (0.0, 0.0)  # the check's own, (rtol, atol)

    @property
    def straight(self) -> bool:
        """Is the right function a straight line, as that of a gradient from above is?"""
        return bool(np.abs(np.diff(self.right, 2)).max() <= self.rounding * np.abs(self.right).max())

    @property
    def wrong(self):
        """(n,) where?"""
        size, (rtol, atol) = np.abs(self.right), self.bounds
        allowed = self.rounding * np.maximum(1, size)
        return ~(np.abs(self.got - self.right) <= np.maximum(allowed, atol + rtol * size if rtol <= ROUGH else 0))


def said_of_curve(function, solution, replay, k, bounds=(0.0, 0.0)) -> list[str]:
    """Sentences about a wrong output k of a call; [] if it is no function of single numbers, or nothing shows.

    function, solution: the learner's and ours. replay: the call. bounds: the check's, (rtol, atol).
    """
    found = [_curve(function, solution, replay, k, argument, _grid()) for argument in _inputs(replay, function)]
    for curve in sorted(filter(None, found), key=lambda curve: curve.straight):
        curve.bounds = bounds
        if curve.wrong.any():
            table = _table(curve)
            coarse = _coarse(curve, function, solution, table)
            stretches = None if table else _stretches(curve)
            return [*filter(None, [table or stretches, stretches and _stays(curve) or _ends(curve) or coarse])]
    return []


def _coarse(curve, function, solution, table) -> str | None:
    """A sentence if the learner's function is near the right one everywhere, and has no such function as `tanh`."""
    error = np.abs(curve.got - curve.right)
    lacks = sorted(_called(solution) & TRANSCENDENTAL) if not _called(function) & TRANSCENDENTAL else []
    if not lacks or (error > NEAR * np.maximum(1, np.abs(curve.right))).any():
        return None
    worst = int(error.argmax())
    most = f"{error[worst]:.2g}, at {curve.name} = {curve.x[worst]:.3g}"
    why = f", but such a table is {COARSE}" if table else f", and has no `{lacks[0]}`: {INSTEAD}"
    return f"It is near everywhere{why}. Its largest error is {most}."


def _called(function) -> set:
    """The names that a function, and those of its notebook that it calls, look up."""
    seen, todo = set(), [getattr(function, "py_func", function)]
    while todo:
        code, known = todo.pop().__code__, getattr(function, "__globals__", {})
        for name in {*code.co_names} - seen:
            value = getattr(known.get(name), "py_func", known.get(name))
            todo += [value] if isinstance(value, FunctionType) else []
        seen |= {*code.co_names}
    return seen


def _ends(curve) -> str | None:
    """A sentence if it is most wrong where it stays at its first or its last value, as a table does behind its ends."""
    error, changes = np.abs(curve.got - curve.right), np.flatnonzero(np.diff(curve.got))
    if not len(changes) or curve.straight:
        return None
    first, last = int(changes[0]), int(changes[-1]) + 1  # between them it has other values
    if len(np.unique(curve.got[first:last])) < RUNS:  # a step or two are no table
        return None
    below, above = first >= FLAT, len(curve.x) - last > FLAT
    most = max(error[: first + 1].max() * below, error[last:].max() * above)
    if most <= 2 * error[first + 1 : last].max(initial=0.0) or not _goes_on(curve, below, above):
        return None
    where = [f"below {curve.x[first]:.3g} it stays at {curve.got[0]:.3g}"] * below
    where += [f"above {curve.x[last]:.3g} it stays at {curve.got[-1]:.3g}"] * above
    return f"It is most wrong at its ends, by {most:.2g}: {' and '.join(where)}: {ENDS}."


def _stays(curve) -> str | None:
    """A sentence if it is one number above, or below, wherever it is right."""
    right = curve.x[~curve.wrong]
    for part in (curve.x > right.max(initial=-np.inf), curve.x < right.min(initial=np.inf)):
        flat = FLAT < part.sum() < len(part) and np.ptp(curve.got[part]) == 0 and np.ptp(curve.right[part]) > 0
        if flat and _goes_on(curve, part[0], part[-1]):
            return f"There it stays at {curve.got[part][0]:.4g}: {ENDS}."
    return None


def _goes_on(curve, below, above) -> bool:
    """Does it stay at its first value, or at its last, far outside of the grid, too?"""
    sides = [(-1, curve.got[0])] * bool(below) + [(1, curve.got[-1])] * bool(above)
    with suppress(Exception):  # a table may have no such entry
        return all((next(iter(curve.ask(side * np.array(FAR)))) == value).all() for side, value in sides)
    return False


def _grid():
    return np.arange(-END, END + STEP, STEP)  # (n,)


def _inputs(replay, function):
    """(place among the arguments, name) of each array of floats that the call only reads."""
    arguments = list(replay.named(function).items())
    arrays = [(at, name) for at, (name, value) in enumerate(arguments) if isinstance(value, np.ndarray)]
    if replay.options or len(arrays) < len(arrays_in(replay.arguments)):
        return
    for number, (at, name) in enumerate(arrays):
        before, after = replay.arguments[at], replay.outputs[number - len(arrays)]
        if before.dtype.kind == "f" and np.array_equal(before, after, equal_nan=True):
            yield at, name


def _asked(function, solution, replay, k, place, x):
    """(what the learner's function gives, the right values) for x in this place, and 1 in the others; (n,) each."""

    def filled(at, value):
        if not isinstance(value, np.ndarray):
            return value
        return x.astype(value.dtype) if at == place else np.ones(x.shape, value.dtype)

    call = Replay(tuple(filled(at, value) for at, value in enumerate(replay.arguments)), {})
    return (np.asarray(call.run(f)[k], np.float64) for f in (function, solution))


def _curve(function, solution, replay, k, argument, x):
    place, name = argument

    def ask(x):
        return _asked(function, solution, replay, k, place, x)

    with suppress(Exception):  # it takes no such arrays
        (got, right), some = ask(x), slice(len(x) // 3)
        parts = ask(x[some])  # a mean, say, is another one there
        turned = ask(x[::-1])  # the first number may be left out
        each_alone = all(whole.shape == x.shape for whole in (got, right)) and np.ptp(right) > 0
        each_alone &= all(np.array_equal(whole[some], part) for whole, part in zip((got, right), parts))
        each_alone &= all(np.array_equal(whole[::-1], part) for whole, part in zip((got, right), turned))
        if each_alone and np.isfinite(got).all():
            return Curve(name, x, got, right, ROUNDING[dtype_of(replay)], ask)
    return None


def _table(curve) -> str | None:
    """A sentence if the learner's values are those of a table, with or without straight lines between its entries."""
    near = [(1 / CLOSE, np.arange(start, start + 1, 1 / CLOSE)) for start in WINDOWS]
    for step, x in [*near, (STEP, curve.x)]:
        got, right = (curve.got, curve.right) if x is curve.x else curve.ask(x)
        part = replace(curve, x=x, got=got, right=right)
        inner = part.wrong & (got != got[0]) & (got != got[-1])
        if inner.mean() < 0.1 or not np.isfinite(got).all():
            continue
        first, last = np.flatnonzero(inner)[[0, -1]]
        flat = len(np.unique(got[inner])) * FLAT < inner.sum() and len(np.unique(right[inner])) * 2 > inner.sum()
        if flat:
            each = (x[last] - x[first]) / len(np.unique(got[inner]))
            return f"Along `{curve.name}` it is a staircase, with steps about {each:.1g} long, as a table makes them."
        space = _apart(got[first : last + 1], np.abs(curve.right).max())
        if space:
            lines = f"straight lines between points about {space * step:.2g} apart"
            return f"Along `{curve.name}` it runs in {lines}, as a table makes them."
    return None


def _apart(got, scale) -> float | None:
    """How many points of the grid the kinks of a line of straight pieces are apart; None if it is no such line."""
    bends = np.abs(np.diff(got, 2)) > BENT * scale
    at = np.flatnonzero(bends)
    kinks = at[np.r_[True, np.diff(at) > 1]] if len(at) else at  # a kink may fall between two points of the grid
    apart = np.diff(kinks)
    if bends.mean() > 0.6 or len(kinks) < RUNS or np.percentile(apart, 75) > 1.5 * np.median(apart) + 1:
        return None
    usual = np.abs(apart - np.median(apart)) <= 1 + np.median(apart) / 2  # without those that lie on a line by chance
    return apart[usual].mean()


def _stretches(curve) -> str | None:
    """A sentence about the few stretches of x in which it is wrong, and whether it jumps at their ends; or None."""
    wrong = curve.wrong
    wrong[1:-1] |= wrong[:-2] & wrong[2:]  # a single point between wrong ones is right by chance, as 0 is
    edges = np.flatnonzero(wrong[1:] != wrong[:-1])
    if not 0 < len(edges) <= 2 * PARTS or wrong.mean() > MOST:
        return None
    if np.abs(curve.right[~wrong]).max() < NOTHING * np.abs(curve.right).max():
        return None  # where next to nothing is expected, any factor is right
    ends, jumps = zip(*(_edge(curve, i) for i in edges))
    starts = [-np.inf] * bool(wrong[0]) + [e for e, i in zip(ends, edges) if wrong[i + 1]]
    stops = [e for e, i in zip(ends, edges) if wrong[i]] + [np.inf] * bool(wrong[-1])
    first = next((jump for jump in jumps if jump), None)
    where = _named(curve.name, list(zip(starts, stops)))
    if not first:
        return f"It is wrong only {where}, and right everywhere else."
    at, before, behind = first
    jump = f"at {at:.3g} it jumps from {before:.4g} to {behind:.4g}"
    return f"It is wrong only {where}; {jump}."


def _edge(curve, i):
    """(x where right turns to wrong behind point i, (x, value before, behind) if the learner's values jump there)."""
    x = np.linspace(curve.x[i], curve.x[i + 1], FINE + 1)
    got, right = curve.ask(x)
    wrong = replace(curve, x=x, got=got, right=right).wrong
    turned = np.flatnonzero(wrong[1:] != wrong[:-1])
    if not len(turned):  # the numbers around it are wrong only when they are rounded otherwise
        return (x[0] + x[-1]) / 2, None
    at = turned[0]
    middle = 0.0 if abs(x[at]) < STEP / 8 else (x[at] + x[at + 1]) / 2  # where it is 0, rounding decides
    usual = np.abs(np.diff(right)).max() + curve.rounding
    return middle, (middle, got[at], got[at + 1]) if abs(got[at + 1] - got[at]) > 10 * usual else None


def _named(name, parts) -> str:
    """ "for |x| above 3", "for x below -2", "for x from 1 to 2"."""
    for start, stop in parts[-1:]:  # of two stretches that mirror each other, one of |x|
        mirrored = [(-high, -low) for low, high in reversed(parts)]
        if start >= 0 and len(parts) == 2 and np.allclose(mirrored, parts, rtol=0.02):
            return f"for |{name}| {_stretch(start, stop)}"
        if len(parts) == 1 and np.allclose(mirrored, parts, rtol=0.02):
            return f"for |{name}| below {stop:.3g}"
    said = [_stretch(*part) for part in parts]
    return f"for {name} {' and '.join([', '.join(said[:-1]), said[-1]] if said[1:] else said)}"


def _stretch(start, stop) -> str:
    if np.isinf(start) or np.isinf(stop):
        return f"below {stop:.3g}" if np.isinf(start) else f"above {start:.3g}"
    return f"from {start:.3g} to {stop:.3g}"
