"""Lesson 18: what the dynamic loss scaler should return, and what each known mistake returns.

The rule is that of PyTorch's GradScaler: halve the scale and skip the step when a gradient overflowed, double it after
`interval` good steps in a row.
"""

import numpy as np

from llmc.course.old.checks.contrast import outcome, told_apart
from llmc.course.old.checks.explain import Named

# where to look; a test compares this title with the headings of notebooks/18_number_formats.ipynb
DYNAMIC = 'lesson 18, section "5.3 · Dynamic"'
FINITE = "all gradients are finite, but None was returned for them"
SKIP = "this step must be skipped, so return None for the gradients"
SCALES = tuple(2.0**k for k in range(-6, 26, 2))  # that are tried


def finite(grads) -> bool:
    """Is every number of these arrays finite?"""
    return all(np.isfinite(g).all() for g in grads)


def unscaled(grads, scale, good_steps, interval):
    """(list of float32 arrays or None, the next scale, good steps so far)."""
    if not finite(grads):
        return None, scale / 2, 0
    good_steps += 1
    done = good_steps == interval
    return (
        [g.astype(np.float32) / np.float32(scale) for g in grads],
        scale * (2 if done else 1),
        0 if done else good_steps,
    )


def gradients(rng, spoil=None, large=False):
    """Three read-only float16 arrays, already scaled; the first holds numbers that float16 loses when they are divided.

    spoil: (array, value) to put into it, or None. large: numbers near float16's largest, whose sums overflow in it,
    within an array and across two.
    """
    sizes = {(3, 5): (-4, -3.3), (7,): (-1, 3), (2, 3, 2): (-2, 1)}  # powers of ten
    grads = [rng.standard_normal(shape) * 10.0 ** rng.uniform(*powers, shape) for shape, powers in sizes.items()]
    grads = [g.astype(np.float16) for g in grads]
    if large:
        grads[1].flat[rng.permutation(7)[:2]] = 60000
        grads[2].flat[rng.integers(12)] = 65504
    if spoil is not None:
        k, value = spoil
        grads[k].flat[rng.integers(grads[k].size)] = value
    for g in grads:
        g.setflags(write=False)
    return grads


def gradient_mistakes(k, grads, scale, next_scale) -> dict:
    """{sentence after "unscaled[k] equals ": wrong array}."""
    g = grads[k].astype(np.float32)
    with np.errstate(all="ignore"):
        halves = (grads[k] / np.float16(scale)).astype(np.float32)
        by_inverse = (grads[k] * np.float16(1 / scale)).astype(np.float32)
        wrong = {
            "the quotients computed in float16, where small ones become 0 again": halves,
            "the products computed in float16, where small ones become 0 again": by_inverse,
            "the gradients as they came": g,
            "the gradients multiplied by scale, not divided by it": g * np.float32(scale),
            "the gradients divided by the next scale: these were made with the present one": g / np.float32(next_scale),
            "the gradients divided by scale twice": g / np.float32(scale) ** 2,
        }
    return {sentence: array for sentence, array in wrong.items() if np.isfinite(array).all()}


def not_skipped(function, spoil, got=()) -> str:
    """A step with an overflow was not skipped: which are, one number in one array at a time? spoil: (array, value).

    got: what was returned for the gradients.
    """
    nones = [k for k, g in enumerate(got) if g is None] if isinstance(got, tuple | list) else []
    if nones:
        some = f"all {len(got)} of them" if len(nones) == len(got) else f"its item {nones[0]}"
        some += " are" if len(nones) == len(got) else " is"
        return (
            f"grads[{spoil[0]}] holds {spoil[1]}: this step must be skipped. You return a list of gradients in "
            f"which {some} None; return None in place of the whole list.\n→ Where to look: {DYNAMIC}"
        )
    told = told_apart(
        {
            (f"{value}", f"grads[{k}]"): _skips(function, k, value)
            for value in (np.inf, -np.inf, np.nan)
            for k in range(3)
        },
        "noticed",
    )
    each = f". With one such number at a time: {told}" if told else ""
    return f"grads[{spoil[0]}] holds {spoil[1]}: {SKIP}{each}.\n→ Where to look: {DYNAMIC}"


def skipped(function, large) -> str:
    """A step without an overflow was skipped. large: the check has seen that with numbers near 65504 alone."""
    words = f"{FINITE}, the largest is 65504, and for smaller ones it was not" if large else FINITE
    why = _from_where_on(function, large)
    words = f"{words}.{why}\n→ Where to look: {DYNAMIC}"
    return Named(words) if why else words


def _from_where_on(function, large) -> str:
    """Which numbers are skipped where all others are 0? A sentence; "" if even zeros are."""
    zeros = [np.zeros_like(g) for g in gradients(np.random.default_rng(0))]

    def is_skipped(number):
        grads = [g.copy() for g in zeros]
        grads[1].flat[3] = number
        return _gives_none(outcome(function, grads, 1024.0, 0, 4))

    if not is_skipped(65504):
        return " With one such number, and 0 in all other places, it is not." if large else ""
    if is_skipped(0):
        return ""
    patterns = np.arange(1, 0x7C00, dtype=np.uint16)  # of all positive numbers, in their order
    first, last = 0, len(patterns) - 1
    while first < last:
        middle = (first + last) // 2
        first, last = (first, middle) if is_skipped(patterns[middle].view(np.float16)) else (middle + 1, last)
    number = float(patterns[first].view(np.float16))
    square = ", the first whose square float16 does not hold," if number == 256 else ""
    return f" A single number from {number:g} on{square} is enough, with 0 in all other places."


def _skips(function, k, value) -> bool:
    result = outcome(function, gradients(np.random.default_rng(0), (k, value)), 1024.0, 0, 2)
    return _gives_none(result)


def _gives_none(result) -> bool:
    return isinstance(result, tuple | list) and len(result) == 3 and result[0] is None


def explain_numbers(got_scale, got_good, grads, scale, good_steps, interval, function=None):
    """A sentence about a wrong scale or count, or None. Evidence: what a known mistake would have returned.

    function: the learner's, for more calls.
    """
    _, right_scale, right_good = unscaled(grads, scale, good_steps, interval)
    if isinstance(got_good, bool | np.bool_):
        return f"good_steps is {got_good}, a truth value: return the number of good steps"
    if got_scale == right_scale and got_good == right_good:
        return None
    if got_scale == right_good and got_good == right_scale:
        return "the scale and good_steps have changed places: return the gradients, the scale, good_steps"
    overflow = not finite(grads)
    rule = _rule(function, overflow, good_steps, interval) if got_scale != right_scale else ""
    if overflow:
        return _after_overflow(got_scale, got_good, scale, good_steps, right_scale) + rule
    return _after_good_step(got_scale, got_good, scale, good_steps, interval) + rule


def _rule(function, overflow, good_steps, interval) -> str:
    """What becomes of other scales in the same place: a sentence that goes on from that on one of them."""
    grads = gradients(np.random.default_rng(0), (1, np.inf) if overflow else None)
    results = [outcome(function, grads, scale, good_steps, interval) for scale in SCALES]
    if not all(isinstance(result, tuple | list) and len(result) == 3 for result in results):
        return ""
    new = [result[1] for result in results]
    wrong = [a != unscaled(grads, scale, good_steps, interval)[1] for scale, a in zip(SCALES, new)]
    times = {a / scale for scale, a in zip(SCALES, new)}
    if times == {1.0} and not overflow:
        late = outcome(function, grads, 1024.0, good_steps + 1, interval)
        if isinstance(late, tuple | list) and len(late) == 3 and late[1] == 2048:
            return f". Called with good_steps {good_steps + 1} it is doubled: one step late"
    if len(times) == 1:
        return f". Every scale {'stays as it is' if times == {1.0} else f'is multiplied by {times.pop():g}'} there"
    bad = [(scale, a) for scale, a, is_wrong in zip(SCALES, new, wrong) if is_wrong]
    if not bad or len(bad) == len(SCALES):
        return ""
    shown = ", ".join(f"{_plain(scale)} became {_plain(a)}" for scale, a in bad[:3]) + ", …" * (len(bad) > 3)
    good = [scale for scale, is_wrong in zip(SCALES, wrong) if not is_wrong]
    rest = f"from {_plain(good[0])} to {_plain(good[-1])} they are right"
    return f". Of the scales from {_plain(SCALES[0])} to {_plain(SCALES[-1])}, {shown}; {rest}"


def _plain(number) -> str:
    """ "16,777,216", "0.25"."""
    return f"{number:,.0f}" if number >= 1 and number == int(number) else f"{number:g}"


def _after_overflow(got_scale, got_good, scale, good_steps, right_scale):
    if got_scale != right_scale:
        return f"after an overflow the scale of {scale:g} became {got_scale:g}; it should be halved, to {right_scale:g}"
    kept = {good_steps: "stayed at", good_steps + 1: "went up to"}.get(got_good, "became")
    return f"after an overflow good_steps {kept} {got_good}; it starts again from 0"


def _after_good_step(got_scale, got_good, scale, good_steps, interval):
    count, done = good_steps + 1, good_steps + 1 == interval
    said = f"this was good step {count} of {interval}"
    if got_scale != (2 * scale if done else scale):
        if done:
            return f"{said}: the scale should be doubled now, from {scale:g} to {2 * scale:g}, and became {got_scale:g}"
        return f"{said}: the scale became {got_scale:g}, and should stay at {scale:g} until step {interval}"
    if done:
        return f"{said}: after doubling, good_steps starts again from 0, but {got_good} was returned"
    return f"{said}, and good_steps {got_good} was returned, not {count}"
