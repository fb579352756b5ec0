"""Lesson 03's exercises: what is right, what is tried, and which mistakes have a name."""

from functools import partial

import numpy as np

from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.lessons.matmul.blas import blas_in
from llmc.course.mutation.program import solution_of

sums = partial(np.einsum, dtype=np.float64)


def forward(x, w, b):
    """out (…, C_out) of x (…, C_in), w (C_out, C_in), b (C_out,) or None, index by index; in x's dtype."""
    out = sums("...i,oi->...o", x, w)  # (…, C_out)
    return (out if b is None else out + b).astype(x.dtype)


def backward(dout, x, w):
    """dx (…, C_in), dw (C_out, C_in), db (C_out,) of sum(out · dout), index by index; in x's dtype."""
    d, rows = (array.reshape(-1, array.shape[-1]) for array in (dout, x))  # (N, C_out), (N, C_in)
    made = sums("no,oi->ni", d, w).reshape(x.shape), sums("no,ni->oi", d, rows), sums("no->o", d)
    return tuple(array.astype(x.dtype) for array in made)


def any_rows(c):
    """x (…, C_in), w (C_out, C_in), b (C_out,), and the same without b."""
    # three sizes, twice; square weights; as many tokens as channels; no axis in front, three of them, a single row
    shapes = [((6, 5, 7), 3), ((6, 5, 7), 3), ((2, 3, 6), 6), ((2, 5, 5), 5), ((6, 2), 9), ((7,), 4), ((2, 3, 2, 5), 3)]
    for shape, C_out, *dtype in [*shapes, ((1, 1, 3), 1), ((67, 66), 65), ((3, 5, 7), 4, np.float32)]:
        x, w, b = (c.random(*s, dtype=(*dtype, np.float64)[0]) for s in [shape, (C_out, shape[-1]), (C_out,)])
        for bias, news in ((b, ""), (None, "b is None")):
            c.new(news)
            yield x, w, bias


def gradient_rows(c):
    """dout (…, C_out), x (…, C_in), w (C_out, C_in)."""
    # square weights; as many rows as output channels; three sizes; as many tokens as output channels; no axis in front
    shapes = [((5, 3, 6), 6), ((2, 3, 5), 6), ((4, 5, 7), 3), ((2, 3, 7), 3), ((67, 66), 65), ((5,), 4), ((5,), 4)]
    for shape, C_out, *dtype in [*shapes, ((4, 5, 7), 3, np.float32), ((5,), 4, np.float32)]:
        c.new("float32 inputs" * len(dtype))
        arrays = (*shape[:-1], C_out), shape, (C_out, shape[-1])
        yield tuple(c.random(*each, dtype=(*dtype, np.float64)[0]) for each in arrays)


def buffers(c):
    """dx (B, T, C_in) or None, dw (C_out, C_in), db (C_out,) or None, dout, x, w: dw and db go on adding up."""
    for B, T, C_in, C_out in [(3, 5, 7, 6), (2, 3, 6, 6), (1, 1, 3, 5)]:
        w, dw, db = c.random(C_out, C_in), c.buffer(C_out, C_in), c.buffer(C_out)
        if B == 1:  # as after zero_grad
            dw[...], db[...] = 0, 0
        for news in ("", "dx holds NaN", "dx is None", "db is None", "dx is None, and db is None"):
            c.new(news)
            x, dout, dx = c.random(B, T, C_in), c.random(B, T, C_out), c.buffer(B, T, C_in)
            dx.flat[0] = np.nan if "NaN" in news else dx.flat[0]
            yield None if "dx is" in news else dx, dw, None if "db is" in news else db, dout, x, w


def fast_rows(c):
    """out (N, C_out), x (N, C_in), w (C_out, C_in), b (C_out,), in float32; finally the size that is timed, twice."""
    sizes = [(5, 7, 3), (5, 7, 3), (1, 33, 9), (129, 65, 31), (1, 1, 1), (128, 768, 768), (128, 768, 768)]
    for k, (N, C_in, C_out) in enumerate(sizes):
        x, w, b = (c.random(*shape, dtype=np.float32) for shape in [(N, C_in), (C_out, C_in), (C_out,)])
        out = c.buffer(N, C_out, dtype=np.float32)
        out.flat[0] = np.nan if k == 1 else out.flat[0]
        c.new("out holds NaN" * (k == 1))
        yield out, x, w, b * np.float32(C_in)  # to be seen next to sums of C_in products


def without_blas(tried):
    product = tried.check.explains and blas_in(tried.function, *tried.given.values())  # edits bring none in
    return f"your code uses {product}, which is BLAS" if product else None


def adds_b_once(tried):
    b, out, right = [*tried.given.values()][-1], tried.got["out"], tried.expected["out"]
    if b is not None and np.shape(out) == right.shape:
        more = round(np.nan_to_num(np.median((out - right) / b)))
        if more > 0 and np.abs(out - right - more * b).max() < 1e-4 * np.abs(out).max():
            return f"b is added {more + 1} times: once is enough, not with every product or block of the sum"


def compare_costs(c, sizes, *numbers):
    for name, got, right in zip(COSTS.split(), numbers, solution_of("matmul_cost").function()(*sizes)):
        c.comparing, got = name, 1.0 * got if isinstance(got, int | np.integer) else got
        compare(name, got, float(right), look=c.exercise.look_for(name))


FORWARD = r"""
    = x · wᵀ: b is missing | out + b => out
    = x · w + b where w is square: w is not transposed | w.T => (w if len(w) == w.shape[1] else w.T)
    [A trap: reshape] with w.reshape(C_in, C_out) in place of wᵀ | w.T => w.reshape(w.shape[::-1])
    [A trap: reshape] with x.reshape(C_in, -1) in place of xᵀ
        | x @ w.T => (w @ x.reshape(w.shape[1], -1)).T.reshape(*x.shape[:-1], len(w))
    [A trap: reshape] = w · xᵀ reshaped to the shape of out, without b: it should be transposed
        | return (w @ x.reshape(-1, w.shape[1]).T).reshape(*x.shape[:-1], len(w))
"""
GRADIENTS = r"""
    [3.4 · The input] = dout · wᵀ where w is square: w is transposed, as in the forward pass
        | (d @ w) => (d @ (w.T if C_in == C_out else w))
    [A trap: reshape] with dout.reshape(C_out, -1) in place of doutᵀ | d.T @ rows => d.reshape(C_out, -1) @ rows
    [3.3 · The weight] = the product of two sums: it is the sum of each row's product
        | d.T @ rows => np.outer(d.sum(axis=0), rows.sum(axis=0))
    [3.3 · The weight] with the last row alone: all rows use w | d.T @ rows => np.outer(d[-1], rows[-1])
    [3.2 · The bias] = the sum of all of dout, in every entry | d.sum(axis=0) => np.full(C_out, d.sum())
    [3.2 · The bias] with the sums of dout's rows, where they are as many as its columns
        | d.sum(axis=0) => d.sum(axis=1 if len(d) == C_out else 0)
    [3.2 · The bias] with the sums of the first C_out rows of dout | d.sum(axis=0) => d[:C_out].sum(axis=1)
"""
COST = r"""
    = B·T·C_in·C_out: a multiply and an add are two operations | forward_flops = 2 * => forward_flops =
    = the operations of forward and backward together | forward_flops = 2 => forward_flops = 6
    = the operations of one product: backward has two | backward_flops = 2 * => backward_flops =
    with one addition too few in each sum | 2 * forward_flops => 2 * forward_flops - (B * T + C_out) * C_in
    with sums over the batch alone in dw: they go over all B·T rows
        | backward_flops = … => backward_flops = forward_flops + 2 * B * C_in * C_out
    with 4 in place of itemsize | itemsize * ( => 4 * (
    with out both read and written: it is written only | + B * T * C_out) => + 2 * B * T * C_out)
    with w read again for every token: once is enough | + C_out * C_in => + B * T * C_out * C_in
    with w read again for every sequence: once is enough | + C_out * C_in => + B * C_out * C_in
"""
FAST = r"""
    = x · wᵀ: b is missing | out[...] = b => out[...] = 0
    with x and w rounded to float16 | (w.T) => (w.T).astype(np.float16).astype(np.float32)
        ;; x[:, => x.astype(np.float16).astype(np.float32)[:,
"""
OF_GRADIENTS = {"dx": "3.4 · The input", "dw": "3.3 · The weight", "db": "3.2 · The bias"}
WHY = "Why dw and db add up, and dx does not"
COSTS = "forward_flops backward_flops forward_bytes intensity"
LAYERS = [(4, 1024, 768, 3072), (1, 1, 768, 2304), (3, 5, 7, 11, 2), (2, 9, 5, 3, 8)]  # B, T, C_in, C_out, itemsize
OF_COSTS = {"": "4.1 · Count the operations"} | dict.fromkeys(["forward_bytes", "intensity"], "4.3 · Count the bytes")

Exercise(
    "matmul_forward", "03", forward, "out", cases=any_rows, rules=(adds_b_once,), mistakes=FORWARD, look="2 · Forward"
)
Exercise("matmul_backward", "03", backward, "dx dw db", cases=gradient_rows, mistakes=GRADIENTS, look=OF_GRADIENTS)
Exercise("matmul_backward_accumulate", "03", writes="dx", adds="dw db", cases=buffers, mistakes=GRADIENTS, look=WHY)
Exercise("matmul_cost", "03", returns=COSTS, cases=lambda c: LAYERS, mistakes=COST, look=OF_COSTS)
Exercise(
    "fast_matmul_forward",
    "03",
    lambda out, *inputs: forward(*inputs),
    writes="out",
    cases=fast_rows,
    rules=(without_blas, adds_b_once),
    rtol=lambda out, x, w, b: 1e-5 if x.shape[1] < 50 else None,  # few products: few roundings
    mistakes=FAST,
    look="4.2 · From three loops to BLAS",
    slow="Do products go through memory (hint 1)? Must a sum keep its order (hint 2)? Is a fetch used once (hint 3)?",
)
