"""Lesson 16: what well-known mistakes in a backward pass give, {sentence after "out equals ": (function, where)}.

All come from tables of p and ds (heads, T, T), row = query, that are made or used in another way.
"""

import numpy as np

from llmc.course.lessons.attention_kernels.mistakes import FEWER, NO_MASK, triangle
from llmc.course.lessons.attention_kernels.places import DELTA, DERIVED, OWNERS
from llmc.course.lessons.attention_kernels.references import probabilities


class Backward:
    """The tables of a backward pass, (heads, T, T) each, row = query; stats, delta (heads, T)."""

    def __init__(self, q, k, v, dout):
        self.q, self.k, self.v, self.dout = (np.asarray(a, np.float64) for a in (q, k, v, dout))
        self.scale = 1 / np.sqrt(q.shape[-1])
        self.scores = self.q @ self.k.swapaxes(-1, -2) * self.scale
        right, self.stats = probabilities(self.scores)
        self.dp = self.dout @ self.v.swapaxes(-1, -2)
        self.delta = (right * self.dp).sum(axis=-1)
        self.T = q.shape[1]

    def with_rows(self, **rows):
        """p and ds with other rows, as in `q=…`: (heads, T or 1, T or 1, hs) for each pair, row = query."""
        q, k, v, dout = (rows.get(n, a) for n, a in zip(("q", "k", "v", "dout"), self.pairs()))
        p = np.exp((q * k).sum(axis=-1) * self.scale - self.stats[..., None]) * triangle(self.T)
        return p, p * ((dout * v).sum(axis=-1) - self.delta[..., None]) * self.scale

    def pairs(self):
        """q, k, v, dout, to be combined pair by pair."""
        return self.q[:, :, None], self.k[:, None], self.v[:, None], self.dout[:, :, None]

    def tables(self, seen=None, stats=None, delta=None):
        """p and ds where `seen`, from stats and delta that broadcast to a table."""
        seen = triangle(self.T) if seen is None else seen
        stats = self.stats[..., None] if stats is None else stats
        delta = self.delta[..., None] if delta is None else delta
        with np.errstate(over="ignore"):
            p = np.where(seen, np.exp(self.scores - stats), 0)
        return p, p * (self.dp - delta) * self.scale


def _tables(b) -> dict:
    """What both kernels may take for p, and for ds: {sentence: function that makes both}."""
    p, ds = b.tables()
    D = b.delta[..., None]  # (heads, T, 1)
    each, hs = p * b.dp, b.q.shape[-1]  # (heads, T, T)

    def with_ds(make):
        return lambda: (p, np.where(triangle(b.T), make(), 0.0) * b.scale)

    def of_rows(**rows):
        return lambda: b.with_rows(**rows)

    def unshifted():
        return b.tables(stats=0.0)

    product = "ds is p · (dp - D)"
    return {
        f"the result with p · dp without D: {product}": with_ds(lambda: each),
        f"the result with p · (dp + D): {product}": with_ds(lambda: p * (b.dp + D)),
        f"the result with p · (D - dp): {product}": with_ds(lambda: p * (D - b.dp)),
        f"the result with p · dp - D: {product}, in brackets": with_ds(lambda: each - D),
        f"the result with dp - D alone: {product}": with_ds(lambda: b.dp - D),
        f"the result with p - D: {product}": with_ds(lambda: p - D),
        f"the result with p · D: {product}": with_ds(lambda: p * D),
        f"the result with p · (1 - p) · dp, which leaves out what a score does to the other p of its row: {product}": (
            with_ds(lambda: each * (1 - p))
        ),
        f"the result with p · (dp - p): {product}": with_ds(lambda: p * (b.dp - p)),
        f"the result with a D of the keys up to i: {product}, and D a sum over all keys, dout · out": with_ds(
            lambda: p * (b.dp - each.cumsum(axis=-1))
        ),
        f"the result with a D of the keys before i: {product}, and D a sum over all keys, dout · out": with_ds(
            lambda: p * (b.dp - each.cumsum(axis=-1) + each)
        ),
        f"the result with {hs} · D: {product}": with_ds(lambda: p * (b.dp - hs * D)),
        f"the result with D times the scale: {product} · scale": with_ds(lambda: p * (b.dp - D * b.scale)),
        f"the result with the scale for dp alone: {product} · scale": with_ds(lambda: p * (b.dp - D / b.scale)),
        "the result with exp(score), not divided by the sum": unshifted,
        "the result with the values in place of the keys in the score: it is q · k": of_rows(k=b.v[:, None]),
        "the result with the keys in place of the values in dp: it is dout · v": of_rows(v=b.k[:, None]),
        "the result with dout in place of q in the score: it is q · k": of_rows(q=b.dout[:, :, None]),
        "the result with q in place of dout in dp: it is dout · v": of_rows(dout=b.q[:, :, None]),
        "the result of a p that has the scale in the scores twice: q · k is multiplied by it once": of_rows(
            q=b.q[:, :, None] * b.scale
        ),
    }


def _score_of_lanes(b):
    """p (heads, T, T, hs) of scores that are not added up over the lanes."""
    q, k, _, _ = b.pairs()
    seen = triangle(b.T)[..., None]  # (T, T, 1)
    return np.where(seen, np.exp(q * k * b.scale - b.stats[..., None, None]), 0.0)


def _ds_of_lanes(b):
    return _score_of_lanes(b) * (b.dp - b.delta[..., None])[..., None] * b.scale  # (heads, T, T, hs)


LANES = "the result with a score for each lane: q · k is a sum over the lanes"


def queries(q, k, v, dout) -> dict:
    """Of attention_dq: dq (heads, T, hs)."""
    b = Backward(q, k, v, dout)
    ds = b.tables()[1]
    tables = {words: (lambda make=make: make()[1] @ b.k, DERIVED) for words, make in _tables(b).items()}
    return tables | {
        f"the result {NO_MASK}": (lambda: b.tables(np.ones((b.T, b.T), bool))[1] @ b.k, DERIVED),
        f"the result {FEWER}": (lambda: b.tables(triangle(b.T, -1))[1] @ b.k, DERIVED),
        "the result with the stats of head 0 in every head": (
            lambda: b.tables(stats=b.stats[:1, :, None])[1] @ b.k,
            DERIVED,
        ),
        LANES: (lambda: (_ds_of_lanes(b) * b.k[:, None]).sum(axis=2), DERIVED),
        "what key t, the last one, brings alone": (
            lambda: np.diagonal(ds, axis1=1, axis2=2)[..., None] * b.k,
            DERIVED,
        ),
        "the mean over the keys: dq is the sum": (lambda: ds @ b.k / np.arange(1, b.T + 1)[:, None], DERIVED),
        "ds, transposed, times the keys: row t of ds is query t": (
            lambda: ds.swapaxes(-1, -2) @ b.k,
            DERIVED,
        ),
        "ds times the values: dq is ds times the keys": (lambda: ds @ b.v, DERIVED),
        "ds times the queries: dq is ds times the keys": (lambda: ds.sum(axis=-1, keepdims=True) * b.q, DERIVED),
        "p times the keys: dq is ds times the keys": (lambda: b.tables()[0] @ b.k, DERIVED),
        "the result with key t in place of key i, everywhere: the loop walks over the keys": (
            lambda: b.with_rows(k=b.k[:, :, None])[1].sum(axis=-1, keepdims=True) * b.k,
            DERIVED,
        ),
        "the result with value t in place of value i: the loop walks over the values": (
            lambda: b.with_rows(v=b.v[:, :, None])[1] @ b.k,
            DERIVED,
        ),
        "the result with a dp for each lane: dp is a sum over the lanes": (
            lambda: _dp_of_lanes(b, b.tables()[0][..., None] * b.k[:, None]).sum(axis=2),
            DERIVED,
        ),
    }


def _dp_of_lanes(b, p_times_row):
    """p_times_row (heads, T, T, hs), a channel of a row for each pair, times what dp - D is in each lane."""
    dp = b.dout[:, :, None] * b.v[:, None]  # (heads, T, T, hs)
    return p_times_row * (dp - b.delta[..., None, None]) * b.scale


def _sum_of_dout(b, p):
    """dk (heads, T, hs) where each lane's dp is the sum of dout, times its own channel of v."""
    dp = b.dout.sum(axis=-1)[:, :, None, None] * b.v[:, None]  # (heads, T, T, hs)
    ds = p[..., None] * (dp - b.delta[..., None, None]) * b.scale  # (heads, T, T, hs)
    return (ds * b.q[:, :, None]).sum(axis=1)


def deltas(q, k, v, dout) -> dict:
    """Of attention_dq: delta (heads, T)."""
    b = Backward(q, k, v, dout)
    out = b.tables()[0] @ b.v  # (heads, T, hs)
    return {
        "D with dout of head 0 in every head": (
            lambda: (b.dout[:1] * out).sum(axis=-1),
            DELTA,
        ),
        "D with out of head 0 in every head": (
            lambda: (b.dout * out[:1]).sum(axis=-1),
            DELTA,
        ),
        "dout times out of channel 0 alone, which lane 0 has": (
            lambda: b.dout[..., 0] * out[..., 0],
            DELTA,
        ),
        "the sum of out · out: D is the sum of dout · out": (lambda: (out * out).sum(axis=-1), DELTA),
        "the sum of dout · v: D is the sum of dout · out": (lambda: (b.dout * b.v).sum(axis=-1), DELTA),
        "D multiplied by the scale: D itself has none": (lambda: b.delta * b.scale, DELTA),
        "the sum of dout · q: D is the sum of dout · out": (lambda: (b.dout * b.q).sum(axis=-1), DELTA),
        "the sum of dout: D is the sum of dout · out": (lambda: b.dout.sum(axis=-1), DELTA),
        "the sum of out: D is the sum of dout · out": (lambda: out.sum(axis=-1), DELTA),
        "the sum of dp, without p: D is the sum of p · dp over the keys, and so of dout · out": (
            lambda: (b.dp * triangle(b.T)).sum(axis=-1),
            DELTA,
        ),
        "the mean of dout · out: D is the sum": (lambda: b.delta / b.q.shape[-1], DELTA),
        "the sum of p · dp over all keys but the last, t": (
            lambda: b.delta - np.diagonal(b.tables()[0] * b.dp, axis1=1, axis2=2),
            DELTA,
        ),
    }


def keys(q, k, v, dout) -> tuple[dict, dict]:
    """Of attention_dkdv: what it may find for dk, and for dv; (heads, T, hs)."""
    b = Backward(q, k, v, dout)
    p, ds = b.tables()

    def both(p, ds):
        return ds.swapaxes(-1, -2) @ b.q, p.swapaxes(-1, -2) @ b.dout

    def with_tables(**wrong):
        return lambda: both(*b.tables(**wrong))

    tables = {
        "the sum over all queries: key i is seen by the queries i to T - 1": with_tables(
            seen=np.ones((b.T, b.T), bool)
        ),
        "the sum over the queries 0 to i: key i is seen by the queries i to T - 1": with_tables(
            seen=np.triu(np.ones((b.T, b.T), bool))
        ),
        "the sum over the queries after i: key i is seen by query i, too": with_tables(seen=triangle(b.T, -1)),
        "the result with the stats of the key's own row: stats belong to the query": with_tables(
            stats=b.stats[:, None, :]
        ),
        "the result with the delta of the key's own row: delta belongs to the query": with_tables(
            delta=b.delta[:, None, :]
        ),
    }
    of_k = {words: (lambda make=make: make()[0], OWNERS) for words, make in tables.items()}
    of_v = {words: (lambda make=make: make()[1], OWNERS) for words, make in tables.items() if "delta" not in words}
    dk, dv = both(p, ds)
    for words, make in _tables(b).items():
        of_k[words] = (lambda make=make: both(*make())[0]), DERIVED
        if "the score" in words or "exp(score)" in words:  # those of p
            of_v[words] = (lambda make=make: both(*make())[1]), DERIVED
    last = "what query T - 1, the last one, brings alone"
    own = "what query i, the key's own, brings alone"
    of_k |= {
        LANES: (lambda: (_ds_of_lanes(b) * b.q[:, :, None]).sum(axis=1), DERIVED),
        last: (lambda: ds[:, -1, :, None] * b.q[:, -1:], OWNERS),
        own: (lambda: np.diagonal(ds, axis1=1, axis2=2)[..., None] * b.q, OWNERS),
        "the mean over the queries: dk is the sum": (lambda: dk / np.arange(b.T, 0, -1)[:, None], OWNERS),
        "ds times dout: dk is ds times the queries": (lambda: ds.swapaxes(-1, -2) @ b.dout, DERIVED),
        "the result with a dp for each lane: dp is a sum over the lanes": (
            lambda: _dp_of_lanes(b, p[..., None] * b.q[:, :, None]).sum(axis=1),
            DERIVED,
        ),
        "the result with dp = warp_sum(dout) * value: dp is the sum of dout · v over the lanes": (
            lambda: _sum_of_dout(b, p),
            DERIVED,
        ),
        "the result with dout of the key's own row: dout belongs to the query": (
            lambda: b.with_rows(dout=b.dout[:, None])[1].swapaxes(-1, -2) @ b.q,
            OWNERS,
        ),
        "ds times the keys: dk is ds times the queries": (lambda: ds.sum(axis=1)[..., None] * b.k, DERIVED),
        "p times the queries: dk is ds times the queries": (lambda: p.swapaxes(-1, -2) @ b.q, DERIVED),
        "what dv should be": (lambda: dv, OWNERS),
    }
    of_v |= {
        LANES: (lambda: (_score_of_lanes(b) * b.dout[:, :, None]).sum(axis=1), DERIVED),
        last: (lambda: p[:, -1, :, None] * b.dout[:, -1:], OWNERS),
        own: (lambda: np.diagonal(p, axis1=1, axis2=2)[..., None] * b.dout, OWNERS),
        "the mean over the queries: dv is the sum": (lambda: dv / np.arange(b.T, 0, -1)[:, None], OWNERS),
        "p times the values: dv is p times dout": (lambda: p.sum(axis=1)[..., None] * b.v, DERIVED),
        "dp times dout: dv is p times dout": (
            lambda: np.where(triangle(b.T), b.dp, 0.0).swapaxes(-1, -2) @ b.dout,
            DERIVED,
        ),
        "the result with q of the key's own row: q belongs to the query": (
            lambda: b.with_rows(q=b.q[:, None])[0].swapaxes(-1, -2) @ b.dout,
            OWNERS,
        ),
        "the result with dout of the key's own row: dout belongs to the query": (
            lambda: p.sum(axis=1)[..., None] * b.dout,
            OWNERS,
        ),
        "ds times dout: dv is p times dout": (lambda: ds.swapaxes(-1, -2) @ b.dout, DERIVED),
        "p times the queries: dv is p times dout": (lambda: p.swapaxes(-1, -2) @ b.q, DERIVED),
        "what dk should be": (lambda: dk, OWNERS),
    }
    return of_k, of_v
