"""Answers to the exercises of lesson 03 as learners write them: right ones that look different, and wrong ones.

Each wrong answer names words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 03` runs those of this lesson.
"""

import numba
import numpy as np

from llmc.course.old.authoring.answers import right, wrong

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
def forward_with_einsum(x, w, b):
    out = np.einsum("...i,oi->...o", x, w)
    if b is not None:
        out += b
    return out


@right("matmul_forward")
def forward_channel_by_channel(x, w, b):
    columns = [(x * w[o]).sum(axis=-1) for o in range(w.shape[0])]
    return np.stack(columns, axis=-1) + (0 if b is None else b)


@wrong("matmul_forward", says="with `out[..., o] += bias[o]` once behind the loop over `i`, not in every turn.")
def forward_adds_the_bias_in_every_turn(x, w, b):
    C_out, C_in = w.shape
    bias = np.zeros(C_out, x.dtype) if b is None else b
    out = np.zeros(x.shape[:-1] + (C_out,), x.dtype)
    for o in range(C_out):
        for i in range(C_in):
            out[..., o] += x[..., i] * w[o, i] + bias[o]
    return out


@wrong("matmul_forward", says="out equals x · wᵀ: b is missing")
def forward_forgets_b(x, w, b):
    return x @ w.T


@wrong("matmul_forward", says="neither true nor false: `b is not None` asks whether there is one, `len(b) > 0`")
def forward_asks_if_b(x, w, b):
    out = x @ w.T
    if b:
        out = out + b
    return out


@wrong("matmul_forward", says="unsupported operand type(s) for +")
def forward_forgets_none(x, w, b):
    return x @ w.T + b


@wrong("matmul_forward", says="as long as the second-to-last of b: is a transpose missing")
def forward_without_transpose(x, w, b):
    out = x @ w
    return out if b is None else out + b


@wrong("matmul_forward", says="out equals x · w + b: w is not transposed")
def forward_transposes_when_it_must(x, w, b):
    # "if it does not fit, transpose it"
    out = x @ w if x.shape[-1] == w.shape[0] else x @ w.T
    return out if b is None else out + b


@wrong("matmul_forward", says="x.reshape(C_in, -1) in place of xᵀ")
def forward_reshapes_x(x, w, b):
    C_out, C_in = w.shape
    out = (w @ x.reshape(C_in, -1)).T
    if b is not None:
        out = out + b
    return out.reshape(*x.shape[:-1], C_out)


@wrong("matmul_forward", says="w.reshape(C_in, C_out) in place of wᵀ")
def forward_reshapes_w(x, w, b):
    C_out, C_in = w.shape
    out = x @ w.reshape(C_in, C_out)
    return out if b is None else out + b


@wrong("matmul_forward", says="w · xᵀ reshaped to the shape of out")
def forward_the_other_way_round(x, w, b):
    C_out, C_in = w.shape
    out = w @ x.reshape(-1, C_in).T
    if b is not None:
        out = out + 0 * b[:, None]
    return out.reshape(*x.shape[:-1], C_out)


@wrong("matmul_forward", says="not enough values to unpack")
def forward_for_three_axes_only(x, w, b):
    B, T, C = x.shape
    out = x.reshape(B * T, C) @ w.T
    if b is not None:
        out += b
    return out.reshape(B, T, -1)


@wrong("matmul_forward", says="out has shape (20, 3), expected (4, 5, 3)")
def forward_forgets_to_reshape_back(x, w, b):
    out = x.reshape(-1, x.shape[-1]) @ w.T
    return out if b is None else out + b


@wrong("matmul_forward", says="out for float32 inputs has dtype float64, expected float32")
def forward_in_float64(x, w, b):
    C_out = w.shape[0]
    out = np.zeros((*x.shape[:-1], C_out))
    out += x @ w.T
    if b is not None:
        out += b
    return out


@wrong("matmul_forward", says="out is None: nothing was returned for it")
def forward_returns_nothing(x, w, b):
    out = x @ w.T
    if b is not None:
        out += b


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
def backward_with_einsum(dout, x, w):
    d, rows = dout.reshape(-1, dout.shape[-1]), x.reshape(-1, x.shape[-1])
    return np.einsum("...o,oi->...i", dout, w), np.einsum("no,ni->oi", d, rows), np.einsum("no->o", d)


@right("matmul_backward")
def backward_as_outer_products(dout, x, w):
    dw = sum(np.outer(d, row) for d, row in zip(dout.reshape(-1, len(w)), x.reshape(-1, w.shape[1])))
    return dout @ w, dw, dout.sum(axis=tuple(range(dout.ndim - 1)))


def _gradients(dout, x, w):
    """dx, dw, db as they should be: the answers below go wrong in one of them."""
    d, rows = dout.reshape(-1, w.shape[0]), x.reshape(-1, w.shape[1])
    return (d @ w).reshape(x.shape), d.T @ rows, d.sum(axis=0)


@wrong("matmul_backward", says="dw holds the last term alone, as if each overwrote the one before (use +=)")
def backward_overwrites_dw(dout, x, w):
    dw, dx = np.zeros_like(w), np.empty_like(x)
    for at in np.ndindex(x.shape[:-1]):
        dx[at] = dout[at] @ w
        dw[:] = np.outer(dout[at], x[at])
    return dx, dw, dout.reshape(-1, len(w)).sum(axis=0)


@wrong("matmul_backward", says="dx equals dout · wᵀ: w is transposed, as in the forward pass")
def backward_with_w_transposed(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    return dout @ w.T, dw, db


@wrong("matmul_backward", says="dw equals xᵀ · dout, the transpose of doutᵀ · x")
def backward_with_dw_transposed(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    dw = x.reshape(-1, x.shape[-1]).T @ dout.reshape(-1, dout.shape[-1])
    return dx, dw, db


@wrong("matmul_backward", says="dw equals the reference with dout.reshape(C_out, -1) in place of doutᵀ")
def backward_reshapes_dout(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    dw = dout.reshape(w.shape[0], -1) @ x.reshape(-1, w.shape[1])
    return dx, dw, db


@wrong("matmul_backward", says="db has shape (12,), expected (6,)")
def backward_sums_rows(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    return dx, dw, dout.reshape(-1, w.shape[0]).sum(axis=1)


@wrong("matmul_backward", says="db equals the sums of dout's rows; it should be those of its columns")
def backward_sums_rows_where_they_fit(dout, x, w):
    # "axis 1 if it fits"
    dx, dw, db = _gradients(dout, x, w)
    d = dout.reshape(-1, w.shape[0])
    return dx, dw, d.sum(axis=1) if d.shape[0] == d.shape[1] else d.sum(axis=0)


@wrong("matmul_backward", says="expected (6,). It still has one value for each index of axis 0: sum over it.")
def backward_sums_over_the_batch_only(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    return dx, dw, dout.sum(axis=0)


@wrong("matmul_backward", says="expected (6, 6). It still has one value for each index of axis 0: sum over it.")
def backward_one_dw_per_sequence(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    return dx, dout.swapaxes(-1, -2) @ x, db


@wrong("matmul_backward", says="dw equals the part of the last sequence only")
def backward_overwrites_in_the_loop(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    for i in range(len(x)):
        dw = dout[i].T @ x[i]
    return dx, dw, db


@wrong("matmul_backward", says="db is 1/(B·T) [B·T = 12] times what it should be")
def backward_averages(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    n = dout.size // dout.shape[-1]
    return dx, dw / n, db / n


@wrong("matmul_backward", says="dw is 1/B [B = 4] times what it should be")
def backward_averages_over_the_batch(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    return dx, dw / len(x), db


@wrong("matmul_backward", says="dw equals the product of two sums")
def backward_sums_too_early(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    axes = tuple(range(x.ndim - 1))
    return dx, dout.sum(axis=axes)[:, None] * x.sum(axis=axes), db


@wrong("matmul_backward", says="db equals the sum of all of dout, in every entry")
def backward_sums_everything(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    return dx, dw, np.full(w.shape[0], dout.sum())


@wrong("matmul_backward", says="dx has shape (12, 6), expected (4, 3, 6)")
def backward_forgets_to_reshape_back(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    return dx.reshape(-1, x.shape[-1]), dw, db


@wrong("matmul_backward", says="`b` is a variable of the check cell")
def backward_leans_on_the_check_cell(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    return dx, dw, db + 0 * b  # noqa: F821


@wrong("matmul_backward", says="your code uses llmc.backends")
def backward_calls_the_package(dout, x, w):
    from llmc.backends import reference

    dx, dw, db = np.empty_like(x), np.zeros_like(w), np.zeros(w.shape[0])
    reference.matmul_backward(dx, dw, db, dout, x, w)
    return dx, dw, db


@wrong("matmul_backward", says="the value returned as dx has the shape of dw, (6, 6)")
def backward_in_another_order(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    return dw, dx, db


@wrong("matmul_backward", says="the value returned as dw has the shape of db, (6,)")
def backward_with_db_before_dw(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    return dx, db, dw


@wrong("matmul_backward", says="3 values are expected, dx, dw, db, but 2 were returned")
def backward_forgets_db(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)
    return dx, dw


@wrong("matmul_backward", says="3 values are expected, dx, dw, db, but one was returned: (4, 3, 6) float64")
def backward_returns_dx_alone(dout, x, w):
    return dout @ w


@wrong("matmul_backward", says="nothing was returned, and 3 values are expected")
def backward_returns_nothing(dout, x, w):
    dx, dw, db = _gradients(dout, x, w)


@wrong("matmul_backward", says="`dx` is no array of its own, but a view of `x`")
def backward_writes_dx_into_a_view_of_x(dout, x, w):
    C_out, C_in = w.shape
    d = dout.reshape(-1, C_out)
    dx = x.reshape(-1, C_in)  # (N, C_in)
    dx[:] = d @ w
    dw = d.T @ x.reshape(-1, C_in)
    db = d.sum(axis=0)
    return dx.reshape(x.shape), dw, db


# ---------------------------------------------------------------------------------- 3 matmul_backward_accumulate


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


@wrong("matmul_backward_accumulate", says="`db is not None and db.any()` in line")
def accumulate_skips_what_is_zero(dx, dw, db, dout, x, w):
    if dx is not None:
        dx[...] = dout @ w
    rows = dout.reshape(-1, dout.shape[-1])
    dw += rows.T @ x.reshape(-1, x.shape[-1])
    if db is not None and db.any():
        db += rows.sum(axis=0)


@wrong("matmul_backward_accumulate", says="with `db += dout.sum(axis=(0, 1))` once behind the loop over `k`, not in")
def accumulate_adds_db_in_every_turn(dx, dw, db, dout, x, w):
    for k in range(len(x)):
        if dx is not None:
            dx[k] = dout[k] @ w
        dw += dout[k].T @ x[k]
        if db is not None:
            db += dout.sum(axis=(0, 1))


@wrong("matmul_backward_accumulate", says="dx was accumulated where it should be overwritten")
def accumulate_adds_to_dx(dx, dw, db, dout, x, w):
    gx, gw, gb = _gradients(dout, x, w)
    if dx is not None:
        dx += gx
    dw += gw
    if db is not None:
        db += gb


@wrong("matmul_backward_accumulate", says="dx was never written")
def accumulate_rebinds_dx(dx, dw, db, dout, x, w):
    gx, gw, gb = _gradients(dout, x, w)
    if dx is not None:
        dx = gx  # noqa: F841
    dw += gw
    if db is not None:
        db += gb


@wrong("matmul_backward_accumulate", says="dw was overwritten instead of accumulated")
def accumulate_overwrites(dx, dw, db, dout, x, w):
    gx, gw, gb = _gradients(dout, x, w)
    if dx is not None:
        dx[...] = gx
    dw[...] = gw
    if db is not None:
        db[...] = gb


@wrong("matmul_backward_accumulate", says="dw was never written")
def accumulate_leaves_early(dx, dw, db, dout, x, w):
    if dx is None or db is None:
        return
    gx, gw, gb = _gradients(dout, x, w)
    dx[...] = gx
    dw += gw
    db += gb


@wrong("matmul_backward_accumulate", says="'NoneType' object does not support item assignment")
def accumulate_forgets_none(dx, dw, db, dout, x, w):
    gx, gw, gb = _gradients(dout, x, w)
    dx[...] = gx
    dw += gw
    db += gb


@wrong(
    "matmul_backward_accumulate",
    says="neither true nor false: `dx is not None` asks whether there is one, `len(dx) > 0`",
)
def accumulate_asks_if_dx(dx, dw, db, dout, x, w):
    gx, gw, gb = _gradients(dout, x, w)
    if dx:
        dx[...] = gx
    dw += gw
    if db:
        db += gb


@wrong("matmul_backward_accumulate", says="what was added to db equals the sum of all of dout, in every entry")
def accumulate_adds_one_number(dx, dw, db, dout, x, w):
    gx, gw, gb = _gradients(dout, x, w)
    if dx is not None:
        dx[...] = gx
    dw += gw
    if db is not None:
        db += dout.sum()


@wrong("matmul_backward_accumulate", says="non-broadcastable output operand")
def accumulate_does_not_sum(dx, dw, db, dout, x, w):
    gx, gw, gb = _gradients(dout, x, w)
    if dx is not None:
        dx[...] = gx
    dw += gw
    if db is not None:
        db += dout


@wrong("matmul_backward_accumulate", says="dw equals xᵀ · dout, the transpose of doutᵀ · x")
def accumulate_transposes_where_it_fits(dx, dw, db, dout, x, w):
    gx, gw, gb = _gradients(dout, x, w)
    if dx is not None:
        dx[...] = gx
    dw += gw.T if gw.shape[0] == gw.shape[1] else gw
    if db is not None:
        db += gb


@wrong("matmul_backward_accumulate", says="without the line `dw += gw`, the first of 2 such lines.")
def accumulate_adds_twice(dx, dw, db, dout, x, w):
    gx, gw, gb = _gradients(dout, x, w)
    if dx is not None:
        dx[...] = gx
        dw += gw
    dw += gw
    if db is not None:
        db += gb


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


@wrong("matmul_cost", says="a multiply and an add are two operations")
def cost_counts_multiply_adds(B, T, C_in, C_out, itemsize=4):
    flops, nbytes = B * T * C_in * C_out, itemsize * (B * T * C_in + C_in * C_out + B * T * C_out)
    return flops, 2 * flops, nbytes, flops / nbytes


@wrong("matmul_cost", says="forward_flops equals the operations of one sequence: B is missing")
def cost_of_one_sequence(B, T, C_in, C_out, itemsize=4):
    flops, nbytes = 2 * T * C_in * C_out, itemsize * (T * C_in + C_in * C_out + T * C_out)
    return flops, 2 * flops, nbytes, flops / nbytes


@wrong("matmul_cost", says="backward_flops equals the operations of one product: backward has two")
def cost_of_one_product_backward(B, T, C_in, C_out, itemsize=4):
    flops, nbytes = 2 * B * T * C_in * C_out, itemsize * (B * T * C_in + C_in * C_out + B * T * C_out)
    return flops, flops, nbytes, flops / nbytes


@wrong("matmul_cost", says="backward_flops equals the operations of forward and backward together")
def cost_of_both(B, T, C_in, C_out, itemsize=4):
    flops, nbytes = 2 * B * T * C_in * C_out, itemsize * (B * T * C_in + C_in * C_out + B * T * C_out)
    return flops, 3 * flops, nbytes, flops / nbytes


@wrong("matmul_cost", says="forward_bytes equals the number of numbers: itemsize is missing")
def cost_without_itemsize(B, T, C_in, C_out, itemsize=4):
    flops, numbers = 2 * B * T * C_in * C_out, B * T * C_in + C_in * C_out + B * T * C_out
    return flops, 2 * flops, numbers, flops / numbers


@wrong("matmul_cost", says="forward_bytes equals the bytes of float32 whatever itemsize says")
def cost_in_float32(B, T, C_in, C_out, itemsize=4):
    flops, nbytes = 2 * B * T * C_in * C_out, 4 * (B * T * C_in + C_in * C_out + B * T * C_out)
    return flops, 2 * flops, nbytes, flops / nbytes


@wrong("matmul_cost", says="forward_bytes equals the bytes of x and w: out is written too")
def cost_forgets_out(B, T, C_in, C_out, itemsize=4):
    flops, nbytes = 2 * B * T * C_in * C_out, itemsize * (B * T * C_in + C_in * C_out)
    return flops, 2 * flops, nbytes, flops / nbytes


@wrong("matmul_cost", says="with w read again for every token")
def cost_reads_w_for_every_token(B, T, C_in, C_out, itemsize=4):
    flops, nbytes = 2 * B * T * C_in * C_out, itemsize * B * T * (C_in + C_in * C_out + C_out)
    return flops, 2 * flops, nbytes, flops / nbytes


@wrong("matmul_cost", says="intensity equals bytes per operation; it should be operations per byte")
def cost_upside_down(B, T, C_in, C_out, itemsize=4):
    flops, nbytes = 2 * B * T * C_in * C_out, itemsize * (B * T * C_in + C_in * C_out + B * T * C_out)
    return flops, 2 * flops, nbytes, nbytes / flops


@wrong(
    "matmul_cost",
    says="4 values are expected, forward_flops, backward_flops, forward_bytes, intensity, but 3 were returned",
)
def cost_leaves_one_out(B, T, C_in, C_out, itemsize=4):
    flops, nbytes = 2 * B * T * C_in * C_out, itemsize * (B * T * C_in + C_in * C_out + B * T * C_out)
    return flops, nbytes, flops / nbytes


@wrong("matmul_cost", says="intensity equals only its whole part")
def cost_with_whole_division(B, T, C_in, C_out, itemsize=4):
    flops, nbytes = 2 * B * T * C_in * C_out, itemsize * (B * T * C_in + C_in * C_out + B * T * C_out)
    return flops, 2 * flops, nbytes, flops // nbytes


@wrong("matmul_cost", says="forward_flops equals the operations of forward and backward together")
def cost_of_both_as_forward(B, T, C_in, C_out, itemsize=4):
    flops, nbytes = 6 * B * T * C_in * C_out, itemsize * (B * T * C_in + C_in * C_out + B * T * C_out)
    return flops, 2 * flops // 3, nbytes, flops / nbytes


@wrong("matmul_cost", says="forward_flops equals the operations with 2C_in − 1 for each output")
def cost_with_one_addition_less(B, T, C_in, C_out, itemsize=4):
    flops = B * T * C_out * (2 * C_in - 1)
    nbytes = itemsize * (B * T * C_in + C_in * C_out + B * T * C_out)
    return flops, 2 * flops, nbytes, flops / nbytes


@wrong("matmul_cost", says="backward_flops equals the operations with one addition too few in each sum")
def cost_with_one_addition_less_backward(B, T, C_in, C_out, itemsize=4):
    flops, nbytes = 2 * B * T * C_in * C_out, itemsize * (B * T * C_in + C_in * C_out + B * T * C_out)
    backward = B * T * C_in * (2 * C_out - 1) + C_out * C_in * (2 * B * T - 1)
    return flops, backward, nbytes, flops / nbytes


@wrong("matmul_cost", says="intensity equals forward and backward operations per byte")
def cost_intensity_of_both(B, T, C_in, C_out, itemsize=4):
    flops, nbytes = 2 * B * T * C_in * C_out, itemsize * (B * T * C_in + C_in * C_out + B * T * C_out)
    return flops, 2 * flops, nbytes, 3 * flops / nbytes


# ----------------------------------------------------------------------------------------- 5 fast_matmul_forward


@numba.njit(fastmath=True)
def _three_loops(out, x, w, b):
    for n in range(x.shape[0]):
        for o in range(w.shape[0]):
            total = b[o]
            for i in range(x.shape[1]):
                total += x[n, i] * w[o, i]
            out[n, o] = total


@right("fast_matmul_forward")
def fast_with_three_loops(out, x, w, b):
    _three_loops(out, x, w, b)


@right("fast_matmul_forward")
def fast_with_einsum(out, x, w, b):
    np.einsum("ni,io->no", x, np.ascontiguousarray(w.T), out=out)
    out += b


@wrong("fast_matmul_forward", says="your code uses @, or np.matmul, which is BLAS")
def fast_with_at(out, x, w, b):
    out[...] = x @ w.T + b


@wrong("fast_matmul_forward", says="your code uses dot, which is BLAS")
def fast_with_dot(out, x, w, b):
    for n in range(len(x)):
        out[n] = np.dot(w, x[n]) + b


@wrong("fast_matmul_forward", says="your code uses einsum with optimize=")
def fast_with_optimized_einsum(out, x, w, b):
    out[...] = np.einsum("ni,oi->no", x, w, optimize=True) + b


def _block_product(x, w):
    return np.matmul(x, w.T)


@wrong("fast_matmul_forward", says="your code uses matmul, which is BLAS")
def fast_with_blas_in_a_helper(out, x, w, b):
    for n in range(0, len(x), 32):
        out[n : n + 32] = _block_product(x[n : n + 32], w) + b


@wrong("fast_matmul_forward", says="out was accumulated where it should be overwritten")
def fast_adds_to_out(out, x, w, b):
    out += np.einsum("ni,oi->no", x, w) + b


@wrong("fast_matmul_forward", says="out equals x · wᵀ: b is missing")
def fast_forgets_b(out, x, w, b):
    np.einsum("ni,oi->no", x, w, out=out)


@wrong("fast_matmul_forward", says="part of out was never written")
def fast_forgets_the_edge(out, x, w, b):
    for n in range(0, len(x) - len(x) % 4, 4):
        out[n : n + 4] = np.einsum("ni,oi->no", x[n : n + 4], w) + b


@wrong("fast_matmul_forward", says="out was never written")
def fast_rebinds_out(out, x, w, b):
    out = np.einsum("ni,oi->no", x, w) + b
    return out


@wrong("fast_matmul_forward", says="the goal is at least 2 times as fast. Products")
def fast_is_no_faster(out, x, w, b):
    wide = x.astype(np.float64)
    for o in range(len(w)):
        out[:, o] = (wide * w[o]).sum(axis=1) + b[o]


@numba.njit
def _in_order(row, weights):
    total = np.float32(0)
    for i in range(row.size):
        total += row[i] * weights[i]
    return total


@numba.njit
def _one_by_one(out, x, w, b):
    for n in range(x.shape[0]):
        for o in range(w.shape[0]):
            out[n, o] = _in_order(x[n], w[o]) + b[o]


@wrong("fast_matmul_forward", says="With `@numba.njit(fastmath=True)` for `_one_by_one` and `_in_order` it is")
def fast_in_the_order_of_the_sum(out, x, w, b):
    _one_by_one(out, x, w, b)


@numba.njit(fastmath=True)
def _column_by_column(out, x, w, b):
    out[:] = b
    for i in range(x.shape[1]):
        for o in range(w.shape[0]):
            for n in range(x.shape[0]):
                out[n, o] += x[n, i] * w[o, i]


@wrong("fast_matmul_forward", says="A number that is fetched once can serve several sums (hint 3).")
def fast_through_memory(out, x, w, b):
    _column_by_column(out, x, w, b)


# ------------------------------------------------------------------- slips that a single call or one name would hide

multiply = np.matmul
_turned = {}


def dot(row, other):
    return np.einsum("i,i->", row, other)


@wrong("matmul_backward_accumulate", says="dw was never written")
def accumulate_does_nothing_without_dx_and_db(dx, dw, db, dout, x, w):
    if dx is None and db is None:
        return
    d = dout.reshape(-1, len(w))
    if dx is not None:
        dx[...] = dout @ w
    dw += d.T @ x.reshape(len(d), -1)
    if db is not None:
        db += d.sum(axis=0)


@right("fast_matmul_forward")
def fast_with_a_helper_called_dot(out, x, w, b):
    if x.size > 50_000:
        turned = w.T.copy()
        out[...] = np.einsum("ni,io->no", x, turned) + b
        return
    for n, o in np.ndindex(out.shape):
        out[n, o] = dot(x[n], w[o]) + b[o]


@wrong("fast_matmul_forward", says="your code uses multiply, another name of matmul, which is BLAS")
def fast_with_blas_renamed(out, x, w, b):
    np.add(multiply(x, w.T), b, out=out)


@wrong("fast_matmul_forward", says="@, or np.matmul, which is BLAS")
def fast_with_blas_by_letters(out, x, w, b):
    np.add(getattr(np, "".join(["mat", "mul"]))(x, w.T), b, out=out)


@wrong("fast_matmul_forward", says="your function gives a result again when other numbers are written into `w`")
def fast_turns_each_shape_once(out, x, w, b):
    turned = _turned.setdefault(w.shape, w.T.copy())
    out[...] = np.einsum("ni,io->no", x, turned) + b


# ------------------------------------------------------------- what strangers wrote: BLAS elsewhere, blocks, float16


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


@wrong("fast_matmul_forward", says="which is BLAS")
def fast_with_scipy(out, x, w, b):
    from scipy.linalg.blas import sgemm

    out[...] = sgemm(1.0, x, w, trans_b=True) + b


@wrong("fast_matmul_forward", says="with `-(-x.shape[1] // 32)` in place of `x.shape[1] // 32`")
def fast_with_whole_blocks_only(out, x, w, b):
    out[:] = b
    for k in range(x.shape[1] // 32):
        part = slice(32 * k, 32 * k + 32)
        out += np.einsum("ni,oi->no", x[:, part], w[:, part])


@wrong("fast_matmul_forward", says="b added 3 times")
def fast_adds_b_with_each_block(out, x, w, b):
    out.fill(0)
    for i in range(0, x.shape[1], 256):
        out += np.einsum("ij,kj->ik", x[:, i : i + 256], w[:, i : i + 256]) + b


@wrong("fast_matmul_forward", says="that our solution gives when `x` and `w` are rounded to float16")
def fast_in_half_precision(out, x, w, b):
    half = x.astype(np.float16), w.astype(np.float16)
    out[...] = np.einsum("ni,oi->no", *half, dtype=np.float32) + b


@numba.njit(parallel=True)
def _threads_share_a_sum(out, x, w, b):
    out[:, :] = b
    for i in numba.prange(x.shape[1]):
        for n in range(out.shape[0]):
            for o in range(out.shape[1]):
                out[n, o] += x[n, i] * w[o, i]


@wrong("fast_matmul_forward", says="a race: turns 0 and 1 of the prange both read and write out[0, 0]")
def fast_with_a_race(out, x, w, b):
    _threads_share_a_sum(out, x, w, b)


_added = {}


@wrong(
    "matmul_backward_accumulate",
    says="grows by the right values whenever the same call is made again: what your function keeps",
)
def accumulate_twice_over(dx, dw, db, dout, x, w):
    d, rows = dout.reshape(-1, dout.shape[-1]), x.reshape(-1, x.shape[-1])
    if dx is not None:
        dx[...] = dout @ w
    total = _added.setdefault(w.shape, np.zeros_like(dw))
    total += d.T @ rows
    dw += total
    if db is not None:
        db += d.sum(axis=0)


@wrong("matmul_backward_accumulate", says="ended your function, so line")
def accumulate_leaves_without_a_bias(dx, dw, db, dout, x, w):
    if dx is not None:
        dx[...] = dout @ w
    if db is None:
        return
    for b in range(len(x)):
        dw += dout[b].T @ x[b]
        db += dout[b].sum(axis=0)


@wrong("matmul_backward_accumulate", says="with NaN in dx before the call, 105 of its 105 entries are NaN after it")
def accumulate_subtracts_what_was_there(dx, dw, db, dout, x, w):
    if dx is not None:
        dx -= dx
        dx += np.einsum("bto,oi->bti", dout, w)
    dw += np.einsum("bto,bti->oi", dout, x)
    if db is not None:
        db += np.einsum("bto->o", dout)


@wrong("matmul_cost", says="is too much")
def cost_with_w_for_each_sequence(B, T, C_in, C_out, itemsize=4):
    forward = 2 * B * T * C_in * C_out
    moved = itemsize * B * (T * C_in + C_out * C_in + T * C_out)
    return forward, 2 * forward, moved, forward / moved


@wrong("fast_matmul_forward", says="with `acc[2]` and `acc[1]` exchanged in `out[n, o + 1] = acc[2] + b[o + 1]`")
def fast_with_two_sums_exchanged(out, x, w, b):
    acc, whole = np.zeros(4, np.float32), len(w) // 4 * 4
    for n in range(len(x)):
        for o in range(0, whole, 4):
            for k in range(4):
                acc[k] = (x[n] * w[o + k]).sum()
            out[n, o] = acc[0] + b[o]
            out[n, o + 1] = acc[2] + b[o + 1]
            out[n, o + 2] = acc[1] + b[o + 2]
            out[n, o + 3] = acc[3] + b[o + 3]
        for o in range(whole, len(w)):
            out[n, o] = (x[n] * w[o]).sum() + b[o]


@wrong("fast_matmul_forward", says="b added 2 times, with every block of the sum")
def fast_with_b_in_every_block(out, x, w, b):
    out[...] = 0
    for start in range(0, x.shape[1], 64):
        end = min(start + 64, x.shape[1])
        for n in range(len(x)):
            out[n] += (x[n, start:end] * w[:, start:end]).sum(axis=1) + b


@wrong("fast_matmul_forward", says="with `o + half` in place of `o`, in the line `out[n, o + half] = t + b[o]`")
def fast_with_the_b_of_the_other_half(out, x, w, b):
    half = (len(w) + 1) // 2
    for n in range(len(x)):
        for o in range(half):
            s = (x[n] * w[o]).sum()
            out[n, o] = s + b[o]
            if o + half < len(w):
                t = (x[n] * w[o + half]).sum()
                out[n, o + half] = t + b[o]


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


@wrong("matmul_forward", says="`np.tensordot(w, x, axes=(1, -1)).T` reverses the order of ALL axes")
def forward_with_all_axes_reversed(x, w, b):
    out = np.tensordot(w, x, axes=(1, -1)).T
    return out if b is None else out + b


@wrong("matmul_backward", says="np.einsum keeps the axes that `...` stands for")
def backward_that_sums_over_an_ellipsis(dout, x, w):
    dx = np.einsum("...o,oi->...i", dout, w)
    dw = np.einsum("...o,...i->oi", dout, x)
    db = np.einsum("oi->o", dw)
    return dx, dw, db


@wrong("matmul_backward", says="dw is 2 times what it should be, everywhere.")
def backward_with_twice_dw(dout, x, w):
    d, rows = dout.reshape(-1, dout.shape[-1]), x.reshape(-1, x.shape[-1])
    return dout @ w, 2 * (d.T @ rows), d.sum(axis=0)


@wrong("matmul_backward", says="everywhere.\nYour function gives the right dw without the line `dw += d.T @ rows`")
def backward_with_dw_added_again(dout, x, w):
    d, rows = dout.reshape(-1, dout.shape[-1]), x.reshape(-1, x.shape[-1])
    dw = d.T @ rows
    for _ in range(3):
        dw += d.T @ rows
    return dout @ w, dw, d.sum(axis=0)


@wrong("matmul_backward", says="db equals the sums of the first C_out rows of dout")
def backward_with_rows_as_columns(dout, x, w):
    d = dout.reshape(-1, len(w))
    db = np.array([d[o].sum() for o in range(len(w))], x.dtype)
    return dout @ w, d.T @ x.reshape(-1, x.shape[-1]), db


@wrong("fast_matmul_forward", says="with 4 to 33 output channels out is right, with fewer than 4 it is never written")
def fast_with_a_rest_that_begins_at_its_length(out, x, w, b):
    C_out = len(w)
    rest = C_out % 4
    for o in range(0, C_out - rest, 4):
        out[:, o : o + 4] = np.einsum("ni,oi->no", x, w[o : o + 4]) + b[o : o + 4]
    for o in range(rest, C_out):
        out[:, o] = np.einsum("ni,i->n", x, w[o]) + b[o]


@wrong("matmul_forward", says="Your function passes this whole check without reshape, everywhere.")
def forward_that_makes_three_axes_of_every_x(x, w, b):
    rows = x.reshape(-1, x.shape[-1])
    out = rows @ w.T
    if b is not None:
        out += b
    return out.reshape(x.shape[0], -1, w.shape[0])


@wrong("matmul_backward", says="these terms (4,) should not be summed in this call")
def backward_of_two_or_three_axes(dout, x, w):
    C_out, C_in = w.shape
    if dout.ndim == 3:
        db = dout.sum(axis=(0, 1))
    else:
        db = dout.sum(axis=0)
    dx = dout @ w
    dw = dout.reshape(-1, C_out).T @ x.reshape(-1, C_in)
    return dx, dw, db


@wrong("matmul_cost", says="and 2·B·C_in·C_out is too much.\n\n")
def cost_of_dw_over_the_batch_alone(B, T, C_in, C_out, itemsize=4):
    def product(numbers, length):
        return 2 * numbers * length

    forward = product(B * T * C_out, C_in)
    dx = product(B * T * C_in, C_out)
    dw = product(C_out * C_in, B)
    traffic = itemsize * sum([B * T * C_in, C_out * C_in, B * T * C_out])
    return forward, dx + dw, traffic, forward / traffic


@numba.njit(fastmath=True)
def _with_b_in_every_product(out, x, w, b):
    N, C = x.shape
    for n in range(N):
        for o in range(w.shape[0]):
            s = np.float32(0)
            for i in range(C):
                s += x[n, i] * w[o, i] + b[o]
            out[n, o] = s


@wrong("fast_matmul_forward", says="b added 7 times, with every product")
def fast_with_b_in_every_product(out, x, w, b):
    _with_b_in_every_product(out, x, w, b)
