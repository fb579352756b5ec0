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


def queries(q, k, v, dout) -> dict:
    """Of attention_dq: dq (heads, T, hs)."""
    b = Backward(q, k, v, dout)
    ds = b.tables()[1]
    return {
        f"the result {NO_MASK}": (lambda: b.tables(np.ones((b.T, b.T), bool))[1] @ b.k, DERIVED),
        f"the result {FEWER}": (lambda: b.tables(triangle(b.T, -1))[1] @ b.k, DERIVED),
        "the result with the stats of head 0 in every head: take stats[row]": (
            lambda: b.tables(stats=b.stats[:1, :, None])[1] @ b.k,
            DERIVED,
        ),
        "the result without D: the softmax subtracts the mean of dp": (lambda: b.tables(delta=0.0)[1] @ b.k, DELTA),
        "the result of a p that has the scale in the scores twice: q · k is multiplied by it once": (
            lambda: b.with_rows(q=b.q[:, :, None] * b.scale)[1] @ b.k,
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
        "D with dout of head 0 in every head: take dout[row * HS + lane]": (
            lambda: (b.dout[:1] * out).sum(axis=-1),
            DELTA,
        ),
        "D with out of head 0 in every head: take out[row * HS + lane]": (
            lambda: (b.dout * out[:1]).sum(axis=-1),
            DELTA,
        ),
        "dout times out of channel 0 alone, which lane 0 has: add up over the lanes with warp_sum": (
            lambda: b.dout[..., 0] * out[..., 0],
            DELTA,
        ),
        "the sum of out · out: D is the sum of dout · out": (lambda: (out * out).sum(axis=-1), DELTA),
        "the sum of dout · v: D is the sum of dout · out": (lambda: (b.dout * b.v).sum(axis=-1), DELTA),
        "D multiplied by the scale: D itself has none": (lambda: b.delta * b.scale, DELTA),
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
    of_k |= {
        "the result with a dp for each lane: dp is a sum over the lanes": (
            lambda: _dp_of_lanes(b, p[..., None] * b.q[:, :, None]).sum(axis=1),
            DERIVED,
        ),
        "the result with dp = warp_sum(dout) * value: multiply first, then add up over the lanes": (
            lambda: _sum_of_dout(b, p),
            DERIVED,
        ),
        "the result with dout of the key's own row: dout belongs to the query": (
            lambda: b.with_rows(dout=b.dout[:, None])[1].swapaxes(-1, -2) @ b.q,
            OWNERS,
        ),
        "ds times the keys: dk is ds times the queries": (lambda: ds.sum(axis=1)[..., None] * b.k, DERIVED),
        "p times the queries: dk is ds times the queries": (lambda: p.swapaxes(-1, -2) @ b.q, DERIVED),
        "what dv should be: are dk and dv exchanged?": (lambda: dv, OWNERS),
    }
    of_v |= {
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
        "what dk should be: are dk and dv exchanged?": (lambda: dk, OWNERS),
    }
    return of_k, of_v
