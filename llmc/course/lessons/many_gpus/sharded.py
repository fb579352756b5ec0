"""Lesson 21: an AdamW step and a clipped gradient on several ranks, and what known mistakes give instead.

Mistakes are {sentence after "m equals ": (array, where to look)}.
"""

from typing import NamedTuple

import numpy as np

from llmc.course.lessons.many_gpus.places import HANG, QUIET, ZERO
from llmc.course.old.checks import evidence
from llmc.course.old.checks.comparison import compare
from llmc.course.old.checks.explain import WrongAnswer, describe
from llmc.course.old.checks.rebound import given_away


class Step(NamedTuple):
    """params (N, n), m and v (N, n / N), float32."""

    params: np.ndarray
    m: np.ndarray
    v: np.ndarray


def adamw(params, grads, m, v, t, lr):
    """*params, *m, *v (…), float32: the step of the exercise, with the same roundings."""
    m += 0.1 * (grads - m)
    v += 0.05 * (grads * grads - v)
    params -= lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.95**t)) + 1e-8)


def in_rank_order(grads):
    """The sum (n,) of grads (N, n), rank after rank."""
    total = grads[0].copy()  # (n,)
    for own in grads[1:]:
        total += own
    return total


def stepped(params, total, m, v, t, lr) -> Step:
    """What all ranks hold after a plain step with the gradient total (n,)."""
    shape, new = m.shape, [params[0].copy(), m.ravel().copy(), v.ravel().copy()]
    adamw(new[0], total, new[1], new[2], t, lr)
    return Step(np.tile(new[0], (len(params), 1)), new[1].reshape(shape), new[2].reshape(shape))


def step_mistakes(before: Step, grads, t, lr) -> dict:
    """{"params", "m", "v": known mistakes}."""
    params, m, v = before
    N, n = params.shape
    total = in_rank_order(grads)
    right = stepped(params, total, m, v, t, lr)
    own = np.concatenate([grads[r].reshape(N, -1)[r] for r in range(N)])  # (n,) each rank's own numbers
    gradients = {
        "a step with each rank's own gradient: the update needs the sum over all ranks": own,
        "a step with the mean of the gradients: they count 1 / N already": total / N,
        "a step with the gradient of rank 0 alone": grads[0],
        "a step with the gradient of the last rank alone": grads[-1],
        "a step without the gradient of the last rank": total - grads[-1],
        "a step without the gradient of rank 0": total - grads[0],
        "a step with the gradient of rank 0 counted twice": total + grads[0],
        "a step with each rank's own gradient counted twice": total + own,
        "a step without each rank's own gradient": total - own,
        "a step with the sum of the gradients times N: they count 1 / N already": total * N,
        "a step with every N-th number of the gradient, from number r on, as part r: a part is one piece": (
            total.reshape(-1, N).T.ravel()
        ),
    }
    found = {"params": {}, "m": {}, "v": {}}
    for words, gradient in gradients.items():
        other = stepped(params, gradient, m, v, t, lr)
        for name in found:
            found[name][words] = getattr(other, name), ZERO
    for words, other_t in (("t + 1", t + 1), ("t = 1, whatever t is", 1), ("t - 1", max(t - 1, 1))):
        found["params"][f"a step with {words}"] = stepped(params, total, m, v, other_t, lr).params, ZERO
    for name, old in (("m", m), ("v", v)):
        found[name]["what it held before"] = old, ZERO
        apart = np.concatenate([getattr(right, name)[:1], old[1:]])  # (N, n / N)
        found[name]["the right ones on rank 0 alone: every rank updates its part"] = apart, ZERO
    for name, array in _with_moments_of_rank_0(before, total, t, lr)._asdict().items():
        if name != "params":
            words = f"the old {name} but for row 0, which the update of every part has moved: part r has m[r] and v[r]"
            found[name][words] = array, ZERO
    often = right
    for times in range(2, N + 1):
        often = stepped(often.params, total, often.m, often.v, t, lr)
        for name in found:
            words = f"what adamw leaves after {times} calls on each part, and each moves m and v"
            found[name][words] = getattr(often, name), ZERO
    apart = params.copy()  # (N, n)
    for r in range(N):
        apart[r].reshape(N, -1)[r] = right.params[r].reshape(N, -1)[r]
    parts = np.array_split(right.params[0], N)
    found["params"] |= {
        "weights that moved 1 / N of the way": (
            np.tile(apart.mean(axis=0), (N, 1)),
            ZERO,
        ),
        "the old weights with part 0 alone updated, in all rows": (
            np.tile(apart[0], (N, 1)),
            ZERO,
        ),
        "in row r the new part r, N times over: part r goes into its own place in all rows": (
            np.array([np.tile(part, N) for part in parts]),
            ZERO,
        ),
        "what it held before, though m and v are new": (params, ZERO),
        "the new part of each rank on that rank alone": (apart, ZERO),
        "the new weights on rank 0 alone: every rank gets all parts": (
            np.concatenate([right.params[:1], apart[1:]]),
            ZERO,
        ),
    }
    return {
        name: {words: wrong for words, wrong in table.items() if not np.array_equal(wrong[0], getattr(right, name))}
        for name, table in found.items()
    }


def _with_moments_of_rank_0(before: Step, total, t, lr) -> Step:
    """What is left if each part, one after the other, is updated with m[0] and v[0]; params has the parts of row 0."""
    new = Step(*(array.copy() for array in before))
    for part, gradient in zip(np.split(new.params[0], len(new.m)), np.split(total, len(new.m))):
        adamw(part, gradient, new.m[0], new.v[0], t, lr)
    return new


def explain_step(got: Step, before: Step, grads, t, lr):
    """WrongAnswer unless all is as after a plain step, to the last bit."""
    right, known = (
        stepped(before.params, in_rank_order(grads), before.m, before.v, t, lr),
        step_mistakes(before, grads, t, lr),
    )
    for name in ("m", "v", "params"):
        mine, expected = getattr(got, name), getattr(right, name)
        compare(name, mine, expected, 1e-5, 1e-6, known=known[name], before=getattr(before, name), look=ZERO)
    apart = [r for r in range(len(got.params)) if not np.array_equal(got.params[r], got.params[0])]
    if apart:
        words = f"the weights of rank {apart[0]} are not those of rank 0 in the last bits"
        raise WrongAnswer(f"{words}.\n→ Where to look: {ZERO}.")
    if (
        np.array_equal(got.m, right.m)
        and np.array_equal(got.v, right.v)
        and not np.array_equal(got.params, right.params)
    ):
        words = "params is right but for its last bits, while m and v are right to the last"
        raise WrongAnswer(f"{words}.\n→ Where to look: {ZERO}.")
    for name in ("m", "v", "params"):
        if not np.array_equal(getattr(got, name), getattr(right, name)):
            words = f"{name} is right but for its last bits: {_last_bits(got, before, grads, t, lr)}"
            raise WrongAnswer(f"{words}.\n→ Where to look: {ZERO}.")


def _last_bits(got, before, grads, t, lr) -> str:
    """What gives the right bits, and which order of the sum gives those of m, where only one of these does."""
    N = len(grads)

    def from_rank(first):
        """(n,) summed with part r beginning at rank first(r), and then round the ring."""
        sums = [in_rank_order(np.roll(grads, -first(r), axis=0)) for r in range(N)]
        return np.concatenate([np.array_split(total, N)[r] for r, total in enumerate(sums)])

    own_first = [in_rank_order(np.concatenate([grads[r : r + 1], grads[:r], grads[r + 1 :]])) for r in range(N)]
    sums = {
        "with the last rank first": in_rank_order(grads[::-1]),
        "with each part's own rank first": np.concatenate([np.array_split(own_first[r], N)[r] for r in range(N)]),
        "round the ring, each part's own rank first": from_rank(lambda r: r),
        "round the ring, each part's own rank last": from_rank(lambda r: r + 1),
        "in float64": grads.sum(axis=0, dtype=np.float64).astype(np.float32),
    }
    steps = {how: stepped(before.params, total, before.m, before.v, t, lr).m for how, total in sums.items()}
    fits = [how for how, m in steps.items() if np.array_equal(got.m, m)]
    right = stepped(before.params, in_rank_order(grads), before.m, before.v, t, lr).m
    yours = f". Yours were added up {fits[0]}" if len(fits) == 1 and not np.array_equal(got.m, right) else ""
    return f"right is what the given adamw makes of the sum in the order of ranks, in float32{yours}"


# ------------------------------------------------------------------------------------------------------------ clipping


def squares(shard) -> float:
    """The sum of squares of a shard (k,), in float64."""
    return float((shard.astype(np.float64) ** 2).sum())


def explain_asked(asked, shard, rank):
    """WrongAnswer unless the rank has asked for one sum, that of its squares."""
    if len(asked) != 1:
        times = "never" if not asked else f"{len(asked)} times"
        why = "the other ranks call it once, and wait for this one" if not asked else "the others call it only once"
        has = f"of {shard.size} numbers" + ", all of them 0" * (shard.size > 0 and not shard.any())
        raise WrongAnswer(
            f"rank {rank}, with a shard {has}, calls all_reduce {times}: {why}.\n→ Where to look: {HANG}."
        )
    if np.ndim(asked[0]):
        raise WrongAnswer(f"all_reduce takes a number, and was given {describe(asked[0])}.")
    own = squares(shard)
    with np.errstate(all="ignore"):
        narrow = float((shard * shard).sum()) if shard.size else 0.0
        wide = shard.astype(np.float64)
        known = {
            "the norm of the shard: norms do not add up, their squares do": own**0.5,
            "the sum of the shard's numbers, not of their squares": wide.sum(),
            "the sum of their sizes, not of their squares": np.abs(wide).sum(),
            "the mean of the squares, not their sum": own / max(1, shard.size),
            "the largest of the numbers": np.abs(wide).max(initial=0.0),
            "the squares relative to this rank's largest number: sums of several ranks then have nothing in common": (
                own / (np.abs(wide).max(initial=0.0) or 1.0) ** 2
            ),
            "the squares in float32, where they overflow or vanish": narrow,
        }
    known = {words: (number, QUIET) for words, number in known.items() if not np.isclose(number, own, rtol=1e-5)}
    got = np.float64(asked[0])
    if not np.isfinite(got) or (got == 0) != (own == 0):
        words = "the squares in float32, where they overflow or vanish"
        text = words if got == narrow else f"{got:g}, not {own:g}"
        raise WrongAnswer(f"what rank {rank} gives to all_reduce is {text}.\n→ Where to look: {QUIET}.")
    compare(f"what rank {rank} gives to all_reduce", got, np.float64(own), 1e-6, known=known, look=QUIET)


def explain_clipped(norm, shard, before, shards, most, rank):
    """WrongAnswer unless norm is that of all shards, and the shard (k,) was scaled by the one factor."""
    total = sum(map(squares, shards)) ** 0.5
    own = squares(before) ** 0.5
    known = {
        "the norm of this rank's shard alone": own,
        "the norm of this rank's shard alone, after clipping": (own * min(1.0, most / total) if total else 0.0),
        "the squared norm": total**2,
        "the norm after clipping, not before it": min(total, most),
        "the norm with this rank's squares counted twice: they are in what all_reduce returns": (total**2 + own**2)
        ** 0.5,
        "the root of the sum of the norms": sum(squares(s) ** 0.5 for s in shards) ** 0.5,
        "the root of the mean of the squares: here it is of their sum": (total**2 / max(1, before.size)) ** 0.5,
        "the root of the mean of all shards' squares: here it is of their sum": (
            total**2 / max(1, sum(s.size for s in shards))
        )
        ** 0.5,
        "the factor, not the norm": min(1.0, most / total) if total else 1.0,
    }
    known = {words: (number, QUIET) for words, number in known.items() if not np.isclose(number, total, rtol=1e-5)}
    compare("the norm", norm, np.float64(total), 1e-6, known=known, look=QUIET)
    factor = min(1.0, most / total) if total else 1.0
    right = (before * factor).astype(np.float32)  # (k,)
    with np.errstate(all="ignore"):
        wrongs = {
            f"the gradient as it was, though the norm is above `most`{_how_it_stays()}": before,
            "the gradient scaled by this rank's own norm: then each rank has another factor": (
                before * min(1.0, most / own) if own else before
            ),
            "the gradient scaled by most / (norm + 1e-6), as PyTorch does it: here the factor is most / norm": (
                before * min(1.0, most / (total + 1e-6))
            ),
            "the gradient divided by the norm: the factor is most / norm": before / total if total else before,
            "the gradient times norm / most: it is the other way round": before * (total / most),
            "the gradient times most, not times most / norm": before * most,
            "the gradient with each number cut off at most, where one factor is for all": np.clip(before, -most, most),
            "the gradient scaled to a norm of most / N: the limit is for all ranks together": (
                before * min(1.0, most / len(shards) / total) if total else before
            ),
        }
        wrongs |= _decided_by_others(before, most, total)
    # also mistakes that do no harm here: the shards of other ranks tell them from those that do
    known = {words: (wrong, QUIET) for words, wrong in wrongs.items()}
    largest = float(np.abs(right).max(initial=0.0))
    compare(f"the shard of rank {rank}", shard, right, 1e-5, 1e-6 * largest, known=known, look=QUIET)


def _how_it_stays() -> str:
    """ ": …" if another array has got the name of the caller's shard; else ""."""
    line = given_away(evidence.learners_function(), 0)
    return f": {line} and leaves the caller's array alone" if line else ""


def _decided_by_others(before, most, total) -> dict:
    """{words: the shard (k,)} scaled by the right factor, but where another number than the norm is above most.

    A mistake is left out where another one gives the same: the check comes to a case that tells them apart first.
    """
    own, scaled = squares(before), before * (most / total) if total else before
    numbers = {
        "this rank's own norm": own**0.5,
        "this rank's own sum of squares": own,
        "the largest of this rank's numbers": float(np.abs(before).max(initial=0.0)),
    }
    if own <= most:
        numbers["the squared norm"] = total**2
    below = "the gradient scaled to a norm of `most`, though its norm is below"
    always = {below: scaled} if total**2 <= most else {}
    return always | {
        f"the gradient scaled where {what} is above `most`: the norm of the whole gradient decides": (
            scaled if number > most else before
        )
        for what, number in numbers.items()
    }
