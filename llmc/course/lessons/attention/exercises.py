"""Lesson 06's exercises: what is right, what is tried, and which mistakes have a name."""

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.course.checks.speed.retained_arrays import no_more_than
from llmc.course.lessons.attention.references import forward, scores
from llmc.course.lessons.softmax_crossentropy.references import softmax, softmax_backward
from llmc.course.measure import peak_bytes, resident_peak
from llmc.course.own_names import learners_names

LARGE = 30  # numbers of qkv: they make scores in the thousands
HUGE = 1e8  # added to the values of a key, so that even the smallest share shows
SCALE, MASK, HEADS = "2.1 · Why divide by √hs", "2.2 · The causal mask", "2.4 · Many heads from one matmul"
MIXTURE, STEP, SCORES = "3.1 · Through the mixture", "3.2 · Through the softmax", "3.3 · Through the scores"
SIZES = [(2, 6, 5, 7), (2, 5, 4, 6), (2, 5, 4, 6), (5, 4, 2, 7), (1, 6, 1, 4), (4, 1, 2, 5), (9, 33, 5, 10)]

# ------------------------------------------------------------------------------------------------------- inputs


def queries_and_keys(c):
    """q, k (T, hs): odd shapes, one of them twice; a query of zeros; float32."""
    for T, hs in [(5, 7), (5, 7), (3, 2), (1, 4), (6, 33), (67, 66), (6, 8)]:
        q, k = (c.random(T, hs, dtype=np.float32 if hs == 8 else np.float64) for _ in "qk")
        q[T // 2] *= hs != 33  # a score of 0 is a score like any other
        yield q, k


def heads(c):
    """qkv (B, T, 3C), NH: odd shapes, one of them twice; a query of zeros; float32; large scores, and very low ones."""
    for k, (B, T, NH, hs) in enumerate([*SIZES, (1, 7, 2, 5)]):
        qkv = 0.5 * c.random(B, T, 3 * NH * hs, dtype=np.float32 if hs == 5 else np.float64)
        qkv[:, T // 2, : NH * hs] *= k != 2  # a query of zeros
        yield qkv, NH
    yield 30 * c.random(2, 5, 3 * 28, dtype=np.float32), 4
    yield very_low(c.random(2, 6, 3 * 28), 4), 4


def very_low(qkv, NH):
    """qkv (B, T, 3C), hs >= T, Q and K replaced: scores are -30,000 where seen, from 30,000 on in the future."""
    parts = qkv.reshape(*qkv.shape[:2], 3, NH, -1)  # (B, T, 3, NH, hs)   a view
    T, hs = parts.shape[1], parts.shape[-1]
    high = np.where(np.tri(T, hs, dtype=bool), -3e4, 3e4 + 1e3 * np.arange(hs))  # (T, hs)
    parts[:, :, 0], parts[:, :, 1] = high[:, None] * hs**0.5, np.eye(T, hs)[:, None]  # key j reads number j
    return qkv


def shares(c):
    """dp, p (B, NH, T, T): causal probabilities of odd sizes, one of them twice; float32."""
    for B, NH, T in [(2, 4, 5), (2, 4, 5), (1, 2, 3), (4, 2, 1), (9, 5, 33), (3, 1, 6)]:
        p = softmax(np.where(np.tri(T, dtype=bool), 0.5 * c.random(B, NH, T, T), -np.inf))  # (B, NH, T, T)
        yield c.random(B, NH, T, T), p
    yield c.random(B, NH, T, T, dtype=np.float32), p.astype(np.float32)


def gradients(c):
    """dout (B, T, C), qkv (B, T, 3C), probabilities (B, NH, T, T), NH: odd shapes, one of them twice; float32."""
    for B, T, NH, hs in [*SIZES, (1, 4, 2, 5)]:
        dtype = np.float32 if T == 4 and hs == 5 else np.float64
        qkv, dout = 0.5 * c.random(B, T, 3 * NH * hs, dtype=dtype), c.random(B, T, NH * hs, dtype=dtype)
        yield dout, qkv, forward(qkv, NH).probabilities, NH


def long_sequences(c):
    """qkv (B, T, 3C) float32, NH: scores that fall, or rise, from key to key; odd shapes; the size that is timed."""
    small = [(2, 5, 4, 6, 0.5), (1, 130, 2, 8, 0.5), (2, 67, 4, 5, 30), (1, 129, 1, 129, 0)]  # 0: very low scores
    for B, T, NH, hs, size in [(1, 200, 2, 4, -1), (1, 200, 2, 4, 1), *small, *2 * [(1, 768, 2, 64, 0.2)]]:
        grows = "scores that rise from key to key: as the maximum grows, sums so far need the factor e^(old - new)"
        c.new(grows if size == 1 else "")
        qkv = c.random(B, T, 3 * NH * hs, dtype=np.float32) * np.float32(size or 1)
        if T == 200:
            qkv[..., :8], qkv[..., 8:16] = 1, size * np.linspace(-5, 5, T)[:, None]
        qkv[:, T // 2, : NH * hs] *= hs != 8  # a query of zeros: scores of 0, like any others
        yield qkv if size else very_low(qkv, NH), NH


# --------------------------------------------------------------------------------------------------------- rules


def mask(tried):
    """A sentence if scores (T, T) is NaN, or -inf anywhere but in the future."""
    got, right = tried.got["scores"], tried.expected["scores"]
    if getattr(got, "shape", None) != right.shape:
        return None
    wrong = np.argwhere(((got == -np.inf) != (right == -np.inf)) | np.isnan(got))  # (n, 2)
    if not len(wrong):
        return None
    at = (*wrong[0],)
    told = f"scores is {got[at]:.6g} at [{at[0]}, {at[1]}], expected {right[at]:.6g}"
    told += ": row t has -inf in the columns after t, and there alone, before any softmax"
    return WrongAnswer(told, look=tried.check.exercise.place(MASK))


def finite(tried):
    """A sentence if scores in the thousands, and no others, lead to NaN or infinity."""
    qkv, out = next(iter(tried.given.values())), tried.got["out"]
    if np.abs(qkv).max() < LARGE or not isinstance(out, np.ndarray) or np.isfinite(out).all():
        return None
    cure = "what is subtracted from a query's scores must be the largest that it sees, even if all are far below 0"
    return f"out has NaN or infinite numbers where scores are thousands, above or below 0: {cure}"


def keys_read(tried):
    """A sentence about the first row of out that is wrong: was it left out, and which keys does it depend on?"""
    (qkv, NH), out, right = tried.given.values(), tried.got["out"], tried.expected["out"]
    if not tried.check.explains or getattr(out, "shape", None) != right.shape or np.abs(qkv).max() > LARGE:
        return None
    wrong = ~(np.abs(out - right).max(axis=(0, 2)) <= 1e-3 * np.abs(right).max())  # (T,)   NaN is wrong, too
    t, T = int(wrong.argmax()), len(wrong)
    if t and not np.nan_to_num(out[:, t:]).any():
        return f"rows {t} to {T - 1} of out hold {out.flat[-1]:g} alone: is each block computed, the last one, too?"
    if not wrong.any() or not np.isfinite(out).all():
        return None

    def reads(first, stop):  # does row t change with the values of these keys?
        moved = qkv.copy()
        moved[:, first:stop, -right.shape[2] :] += HUGE
        return not np.array_equal(tried.function(moved, NH)[:, t], out[:, t])

    with learners_names(), np.errstate(all="ignore"):
        if reads(t + 1, T):
            told = f"query {t} makes use of keys that come later"
            return WrongAnswer(told, look=tried.check.exercise.place(MASK))
        unread = [j for j in range(t + 1) if not reads(j, j + 1)]
    told = f"query {t} makes no use of {len(unread)} of the {t + 1} keys that it may see"
    return f"{told}, the first of them key {unread[0]}" if unread else None


def judge_memory(c, function, qkv, NH):
    """WrongAnswer if it takes, or keeps, arrays of more than a fifth of the table (B, NH, T, T)."""
    table, allowed = qkv.itemsize * len(qkv) * NH * qkv.shape[1] ** 2, "at most 20% of the table is allowed"
    taken = peak_bytes(lambda: function(qkv, NH)) - qkv.nbytes // 3  # without out
    took = f"our temporaries take {taken / table:.1%} of the table ({taken / 1e6:.1f} MB of {table / 1e6:.1f} MB)"
    if taken > table / 5:
        more = ["A mask (T, T) counts, and so do copies of q, k and v, lists of blocks, and arrays that have no name."]
        raise WrongAnswer(f"right, but y{took}; {allowed}", Kind.DEMAND, more=more)
    no_more_than(function, table / 5, allowed)
    c.say(f"Y{took}.")


def judge_growth(c, function):
    """WrongAnswer if the process grows by 40% of a table of 75 MB: it may lie in another library's arrays."""
    qkv = c.random(1, 3072, 3 * 32, dtype=np.float32) * np.float32(0.2)  # (B, T, 3C)
    grown = (resident_peak(lambda: function(qkv, 2)) or 0) / (2 * 3072**2 * 4)
    if grown >= 0.4:
        raise WrongAnswer(f"for T = 3072 the process grew by {grown:.0%} of the table", Kind.DEMAND)


# ---------------------------------------------------------------------------------------------------- exercises

Exercise(
    "attention_scores",
    "06",
    reference=scores,
    returns="scores",
    cases=queries_and_keys,
    rules=(mask,),
    look=SCALE,
    mistakes=r"""
        = q · k, not divided by √hs | / hs**0.5 =>
        = q · k divided by hs, not by its root | hs**0.5 => hs
        = q · k divided by 2 · hs: only √hs divides | hs**0.5 => (2 * hs)
        = a cosine: q · k divided by the lengths of q and k, and only √hs divides
            | hs**0.5 => (np.linalg.norm(q, axis=1)[:, None] * np.linalg.norm(k, axis=1))
        [All queries at once] with queries and keys swapped: rows are queries, columns are keys | q @ k.T => k @ q.T
    """,
)

Exercise(
    "attention_forward",
    "06",
    reference=forward,
    returns="out probabilities",
    cases=heads,
    rules=(finite,),
    rtol=lambda qkv, NH: 1e-3 if qkv.dtype == np.float32 and np.abs(qkv).max() > LARGE else None,
    look={"": "2.3 · One head, all rows", "out": HEADS},
    mistakes=rf"""
        [{SCALE}] without the scale 1/√hs | / hs**0.5 =>
        [{SCALE}] with the shares divided by √hs, not the scores | / hs**0.5 => ;; = e / => = hs**-0.5 * e /
        [{MASK}] without the causal mask | scores = … => scores = q @ k.swapaxes(-1, -2) / hs**0.5
        [{MASK}] with each token's own key masked, too, but the first's | k=1) => k=0) & (np.indices((T, T)).sum(0) > 0)
        [{MASK}] masked after the softmax: its rows no longer add up to 1
            | np.where(future, -np.inf, q @ => (q @ ;; = e / => = ~future * e /
        [{MASK}] with scores of 0 masked, too | (scores - => (np.where(scores == 0, -np.inf, scores) -
        = the softmax of each column | scores.max(axis=-1 => scores.max(axis=-2 ;; e.sum(axis=-1 => e.sum(axis=-2
        = the masked scores: the softmax is missing | probabilities = … => probabilities = np.where(future, 0, scores)
        [{HEADS}] with heads cut by reshape(B, NH, T, hs) alone: that mixes tokens
            | = qkv.reshape… => = (part.reshape(B, NH, T, hs) for part in np.split(qkv, 3, axis=-1))
        [{HEADS}] with qkv read as [q, k, v] of head 0, then of head 1, …: all of Q comes first
            | 3, NH, hs).transpose(2, 0, 3, 1, 4) => NH, 3, hs).transpose(3, 0, 2, 1, 4)
        [{HEADS}] with channel c given to head c mod NH: a head's channels lie side by side
            | 3, NH, hs).transpose(2, 0, 3, 1, 4) => 3, hs, NH).transpose(2, 0, 4, 1, 3)
        [{HEADS}] with queries and keys swapped: qkv is [Q, K, V] | q, k, v => k, q, v
    """,
)

SOFTMAX = rf"""
    [{STEP}] without D, the row's sum of p · dp | dp - D => dp
    [{STEP}] with p · dp - D: D is not multiplied by p | p * (dp - D) => (p * dp - D)
    [{STEP}] with p · (1 - p) · dp: only the diagonal of the Jacobian | dp - D => (1 - p) * dp
    [{STEP}] with dp in place of p · (dp - D): that step is missing | p * (dp - D) => dp
    [{STEP}] with dp - p · sum(dp): that is for log(softmax) | p * (dp - D) => (dp - p * dp.sum(-1, keepdims=True))
    [{STEP}] with -inf for future keys: where p is 0, p · (dp - D) is 0 | p * (dp - D) => (p * (dp - D) + np.log(p > 0))
    [{STEP}] with D summed over the heads, too: each has its own | axis=-1 => axis=(-3, -1)
"""

Exercise(
    "attention_softmax_backward",
    "06",
    reference=softmax_backward,
    returns="ds",
    cases=shares,
    atol=lambda dp, p: 1e-12 if p.shape[-1] == 1 else None,  # it is 0 there
    look=STEP,
    mistakes=SOFTMAX,
)

Exercise(
    "attention_backward",
    "06",
    returns="dqkv",
    cases=gradients,
    look="3.4 · All heads at once",
    mistakes=SOFTMAX
    + rf"""
        [{SCORES}] without the scale 1/√hs | hs**-0.5 * p => p
        [{SCALE}] with 1/√C as its scale: hs = C / NH channels are summed | hs**-0.5 => C**-0.5
        [{SCORES}] with q and k exchanged in dq and dk | ds @ k => ds @ q ;; -2) @ q => -2) @ k
        [{SCORES}] with dk = ds @ q: key j collects from all queries i, down its column | ds.swapaxes(-1, -2) @ => ds @
        [{MIXTURE}] with dv = p @ dout: value j collects from all queries i, down its column | p.swapaxes(-1, -2) => p
        [{MIXTURE}] with D = sum(dout · v): it is sum(p · dp) | (p * dp) => (do * v)
        [{MIXTURE}] with dp in place of p in dv | dv = p.swapaxes(-1, -2) => dv = v @ do.swapaxes(-1, -2)
        with heads put back by reshape alone: (B, NH, T, hs) must become (B, T, NH, hs)
            | return … => return np.concatenate([part.reshape(B, T, C) for part in (dq, dk, dv)], axis=-1)
        with dout cut into heads by reshape alone: that mixes tokens | = dout.reshape… => = dout.reshape(B, NH, T, hs)
    """,
)

Exercise(
    "lean_attention_forward",
    "06",
    reference=lambda qkv, NH: forward(qkv, NH).out,
    returns="out",
    cases=long_sequences,
    rules=(finite, keys_read),
    rtol=1e-3,
    look="5.3 · A first look at online softmax",
    slow="A turn of a Python loop can work on a block of queries, and on all heads at once.",
)
