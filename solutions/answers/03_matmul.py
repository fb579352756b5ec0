"""Answers to the exercises of lesson 03 as learners write them: right ones that look different, and wrong ones.

Each wrong answer names words that its check must say. `python -m llmc.course.authoring.answers 03` runs them.
"""

import numba
import numpy as np

from llmc.course.authoring.answers import right, wrong

# ---------------------------------------------------------------------------------------------- 1 matmul_forward


@right("matmul_forward")
def forward_with_loops(x, w, b):
    rows = x.reshape(-1, x.shape[-1])
    out = np.zeros((len(rows), len(w)), x.dtype)
    for n in range(len(rows)):
        for o in range(len(w)):
            out[n, o] = 0 if b is None else b[o]
            for i in range(w.shape[1]):
                out[n, o] += rows[n, i] * w[o, i]
    return out.reshape(x.shape[:-1] + (len(w),))


@right("matmul_forward")
def forward_channel_by_channel(x, w, b):
    columns = [(x * w[o]).sum(axis=-1) for o in range(w.shape[0])]
    return np.stack(columns, axis=-1) + (0 if b is None else b)


@wrong("matmul_forward", says="b is added 7 times: once is enough")
def forward_adds_the_bias_in_every_turn(x, w, b):
    bias = np.zeros(len(w), x.dtype) if b is None else b
    out = np.zeros(x.shape[:-1] + (len(w),), x.dtype)
    for o in range(len(w)):
        for i in range(w.shape[1]):
            out[..., o] += x[..., i] * w[o, i] + bias[o]
    return out


@wrong("matmul_forward", says="its axes are in a different order, and `.transpose(1, 0, 2)` makes it right")
def forward_with_all_axes_reversed(x, w, b):
    return np.tensordot(w, x, axes=(1, -1)).T + (0 if b is None else b)


@wrong("matmul_forward", says="an axis of length 1 is superfluous or out of place")
def forward_that_makes_three_axes_of_every_x(x, w, b):
    rows = x.reshape(-1, x.shape[-1])
    out = rows @ w.T
    if b is not None:
        out += b
    return out.reshape(x.shape[0], -1, w.shape[0])


# --------------------------------------------------------------------------------------------- 2 matmul_backward


@right("matmul_backward")
def backward_with_loops(dout, x, w):
    C_out, C_in = w.shape
    d, rows = dout.reshape(-1, C_out), x.reshape(-1, C_in)
    dx, dw, db = np.zeros_like(rows), np.zeros_like(w), np.zeros(C_out, w.dtype)
    for n in range(len(rows)):
        for o in range(C_out):
            dx[n] += d[n, o] * w[o]
            dw[o] += d[n, o] * rows[n]
            db[o] += d[n, o]
    return dx.reshape(x.shape), dw, db


@right("matmul_backward")
def backward_as_outer_products(dout, x, w):
    dw = sum(np.outer(d, row) for d, row in zip(dout.reshape(-1, len(w)), x.reshape(-1, w.shape[1])))
    return dout @ w, dw, dout.sum(axis=tuple(range(dout.ndim - 1)))


@wrong("matmul_backward", says="dw equals the reference with the last row alone")
def backward_overwrites_dw(dout, x, w):
    dw, dx = np.zeros_like(w), np.empty_like(x)
    for at in np.ndindex(x.shape[:-1]):
        dx[at] = dout[at] @ w
        dw[:] = np.outer(dout[at], x[at])
    return dx, dw, dout.reshape(-1, len(w)).sum(axis=0)


@wrong("matmul_backward", says="dw is 4 times what it should be, everywhere")
def backward_with_dw_added_again(dout, x, w):
    d, rows = dout.reshape(-1, dout.shape[-1]), x.reshape(-1, x.shape[-1])
    dw = d.T @ rows
    for _ in range(3):
        dw += d.T @ rows
    return dout @ w, dw, d.sum(axis=0)


@wrong("matmul_backward", says="db has shape (), expected (4,)")
def backward_of_two_or_three_axes(dout, x, w):
    C_out, C_in = w.shape
    db = dout.sum(axis=(0, 1)) if dout.ndim == 3 else dout.sum(axis=0)
    return dout @ w, dout.reshape(-1, C_out).T @ x.reshape(-1, C_in), db


# ---------------------------------------------------------------------------------- 3 matmul_backward_accumulate

_added = {}


@right("matmul_backward_accumulate")
def accumulate_with_loops(dx, dw, db, dout, x, w):
    B, T, C_out = dout.shape
    if dx is not None:
        dx.fill(0)
    for i in range(B):
        for t in range(T):
            dw += np.outer(dout[i, t], x[i, t])
            if db is not None:
                db += dout[i, t]
            for o in range(C_out):
                if dx is not None:
                    dx[i, t] += dout[i, t, o] * w[o]


@right("matmul_backward_accumulate")
def accumulate_with_out(dx, dw, db, dout, x, w):
    if dx is not None:
        np.matmul(dout, w, out=dx)
    np.add(dw, np.einsum("bto,bti->oi", dout, x), out=dw)
    if db is not None:
        db[:] = db + dout.sum(axis=(0, 1))
    return dx, dw, db


@wrong("matmul_backward_accumulate", says="what was added to db is 3, where dx.shape[0] is 3, times")
def accumulate_adds_db_in_every_turn(dx, dw, db, dout, x, w):
    for k in range(len(x)):
        if dx is not None:
            dx[k] = dout[k] @ w
        dw += dout[k].T @ x[k]
        if db is not None:
            db += dout.sum(axis=(0, 1))


@wrong("matmul_backward_accumulate", says="its first call would be right: it keeps something")
def accumulate_twice_over(dx, dw, db, dout, x, w):
    d, rows = dout.reshape(-1, dout.shape[-1]), x.reshape(-1, x.shape[-1])
    if dx is not None:
        dx[...] = dout @ w
    total = _added.setdefault(w.shape, np.zeros_like(dw))
    total += d.T @ rows
    dw += total
    if db is not None:
        db += d.sum(axis=0)


@wrong("matmul_backward_accumulate", says="New in this call: dx holds NaN")
def accumulate_subtracts_what_was_there(dx, dw, db, dout, x, w):
    if dx is not None:
        dx -= dx
        dx += np.einsum("bto,oi->bti", dout, w)
    dw += np.einsum("bto,bti->oi", dout, x)
    if db is not None:
        db += np.einsum("bto->o", dout)


# ------------------------------------------------------------------------------------------------- 4 matmul_cost


@right("matmul_cost")
def cost_by_array(B, T, C_in, C_out, itemsize=4):
    x, w, out = B * T * C_in, C_in * C_out, B * T * C_out
    forward = out * C_in + out * C_in  # multiplications, additions
    dx, dw = 2 * x * C_out, 2 * w * B * T
    nbytes = (x + w + out) * itemsize
    return forward, dx + dw, nbytes, forward / nbytes


@right("matmul_cost")
def cost_from_shapes(B, T, C_in, C_out, itemsize=4):
    x, w, out = (np.empty(shape, np.int8) for shape in [(B, T, C_in), (C_out, C_in), (B, T, C_out)])
    flops = 2.0 * np.prod([float(n) for n in (B, T, C_in, C_out)])
    nbytes = itemsize * float(x.nbytes + w.nbytes + out.nbytes)
    return np.array([flops, 2 * flops, nbytes, flops / nbytes])


@wrong("matmul_cost", says="forward_bytes equal the reference with w read again for every sequence")
def cost_with_w_for_each_sequence(B, T, C_in, C_out, itemsize=4):
    forward = 2 * B * T * C_in * C_out
    moved = itemsize * B * (T * C_in + C_out * C_in + T * C_out)
    return forward, 2 * forward, moved, forward / moved


@wrong("matmul_cost", says="backward_flops equal the reference with sums over the batch alone in dw")
def cost_of_dw_over_the_batch_alone(B, T, C_in, C_out, itemsize=4):
    def product(numbers, length):
        return 2 * numbers * length

    forward, dx = product(B * T * C_out, C_in), product(B * T * C_in, C_out)
    traffic = itemsize * sum([B * T * C_in, C_out * C_in, B * T * C_out])
    return forward, dx + product(C_out * C_in, B), traffic, forward / traffic


@wrong("matmul_cost", says="intensity, but your function returned 3 values")
def cost_leaves_one_out(B, T, C_in, C_out, itemsize=4):
    flops, nbytes = 2 * B * T * C_in * C_out, itemsize * (B * T * C_in + C_in * C_out + B * T * C_out)
    return flops, nbytes, flops / nbytes


# ----------------------------------------------------------------------------------------- 5 fast_matmul_forward


@numba.njit("(float32[:,::1], float32[:,::1], float32[:,::1], float32[::1])", fastmath=True)
def _with_signature(out, x, w, b):
    for n in range(x.shape[0]):
        for o in range(w.shape[0]):
            total = np.float32(0)
            for i in range(x.shape[1]):
                total += x[n, i] * w[o, i]
            out[n, o] = total + b[o]


@right("fast_matmul_forward")
def fast_with_a_signature(out, x, w, b):
    _with_signature(out, x, w, b)


class Rows:
    """A learner's own class, whose product is a sum."""

    def __init__(self, rows):
        self.rows = rows

    def __matmul__(self, w):
        return self.dot(w)

    def dot(self, w):
        return np.einsum("ni,oi->no", self.rows, w, optimize=False)


@right("fast_matmul_forward")
def fast_with_a_class_of_its_own(out, x, w, b):
    out[...] = Rows(x) @ w
    out += b


@wrong("fast_matmul_forward", says="your code uses matmul, which is BLAS")
def fast_with_blas_by_letters(out, x, w, b):
    np.add(getattr(np, "".join(["mat", "mul"]))(x, w.T), b, out=out)


@numba.njit(parallel=True)
def _strips_that_share_a_row(out, x, w, b):
    N, parts = out.shape[0], 2
    for part in numba.prange(parts):
        for n in range(part * N // parts, min((part + 1) * N // parts + 1, N)):
            for o in range(out.shape[1]):
                out[n, o] = b[o]
                for i in range(x.shape[1]):
                    out[n, o] += x[n, i] * w[o, i]


@wrong("fast_matmul_forward", says="should belong to one of them alone")
def fast_in_strips_that_share_a_row(out, x, w, b):
    _strips_that_share_a_row(out, x, w, b)


@wrong("fast_matmul_forward", says="the goal is at least 2 times as fast.\nDo products go through memory (hint 1)?")
def fast_is_no_faster(out, x, w, b):
    wide = x.astype(np.float64)
    for o in range(len(w)):
        out[:, o] = (wide * w[o]).sum(axis=1) + b[o]
