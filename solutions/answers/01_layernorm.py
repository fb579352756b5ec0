"""Answers to the exercises of lesson 01 as strangers write them, with words that wrong ones must get."""

import math

import numpy as np

from llmc.course.authoring.answers import right, wrong


@right("layernorm_forward")
def forward_with_loops(x, w, b, eps=1e-5):
    B, T, C = x.shape
    out, mean, rstd = np.zeros_like(x), np.zeros((B, T), x.dtype), np.zeros((B, T), x.dtype)
    for i in range(B):
        for t in range(T):
            m = sum(float(value) for value in x[i, t]) / C
            variance = sum((float(value) - m) ** 2 for value in x[i, t]) / C
            r = 1 / math.sqrt(variance + eps)
            for c in range(C):
                out[i, t, c] = (x[i, t, c] - m) * r * w[c] + b[c]
            mean[i, t], rstd[i, t] = m, r
    return out, mean, rstd


@right("layernorm_forward")
def forward_with_einsum(x, w, b, eps=1e-5):
    C = x.shape[-1]
    mean = np.einsum("btc->bt", x) / C
    centred = x - mean[:, :, np.newaxis]
    rstd = 1 / np.sqrt(np.einsum("btc,btc->bt", centred, centred) / C + eps)
    return np.einsum("btc,bt,c->btc", centred, rstd, w) + b, mean, rstd


@wrong("layernorm_forward", says="mean is wrong. Your function passes this whole check with `m /=")
def forward_divides_in_every_turn(x, w, b, eps=1e-5):
    B, T, C = x.shape
    out, mean, rstd = np.zeros_like(x), np.zeros((B, T), x.dtype), np.zeros((B, T), x.dtype)
    for i in range(B):
        for t in range(T):
            m = 0.0
            for c in range(C):
                m += x[i, t, c]
                m /= C
            mean[i, t] = m
            rstd[i, t] = 1 / np.sqrt(((x[i, t] - m) ** 2).mean() + eps)
            out[i, t] = (x[i, t] - m) * rstd[i, t] * w + b
    return out, mean, rstd


@wrong("layernorm_forward", says="the variance is mean(x²) - mean(x)²: for rows around 2000 a")
def forward_with_mean_of_squares(x, w, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    variance = np.maximum((x * x).mean(-1, keepdims=True) - mean * mean, 0)
    rstd = 1 / np.sqrt(variance + eps)
    return (x - mean) * rstd * w + b, mean[..., 0], rstd[..., 0]


@right("layernorm_backward")
def backward_with_loops(dout, x, w, mean, rstd):
    B, T, C = x.shape
    dx, dw, db = np.zeros_like(x), np.zeros_like(w), np.zeros_like(w)
    for i in range(B):
        for t in range(T):
            norm = (x[i, t] - mean[i, t]) * rstd[i, t]
            dnorm = dout[i, t] * w
            m1, m2 = dnorm.sum() / C, (dnorm * norm).sum() / C
            for c in range(C):
                dx[i, t, c] = (dnorm[c] - m1 - norm[c] * m2) * rstd[i, t]
                dw[c] += dout[i, t, c] * norm[c]
                db[c] += dout[i, t, c]
    return dx, dw, db


@right("layernorm_backward")
def backward_with_einsum(dout, x, w, mean, rstd):
    C = x.shape[-1]
    norm = np.einsum("btc,bt->btc", x - mean[..., None], rstd)
    dw, db = np.einsum("btc,btc->c", dout, norm), np.einsum("btc->c", dout)
    m1 = np.einsum("btc,c->bt", dout, w) / C
    m2 = np.einsum("btc,c,btc->bt", dout, w, norm) / C
    return rstd[..., None] * (dout * w - m1[..., None] - norm * m2[..., None]), dw, db


@wrong("layernorm_backward", says="dx has the wrong sign")
def backward_with_wrong_sign(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = (dnorm.mean(-1, keepdims=True) + norm * (dnorm * norm).mean(-1, keepdims=True) - dnorm) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="dx is wrong. Your function passes this whole check with")
def backward_takes_T_for_C(dout, x, w, mean, rstd):
    C = x.shape[1]
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    m1, m2 = dnorm.sum(-1, keepdims=True) / C, (dnorm * norm).sum(-1, keepdims=True) / C
    return (dnorm - m1 - norm * m2) * rstd[..., None], (dout * norm).sum((0, 1)), dout.sum((0, 1))


def _gradients(dout, x, w, mean, rstd):
    """dx, dw, db as they should be: these answers go wrong later."""
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = (dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@right("layernorm_backward_accumulate")
def accumulate_with_loops(dx, dw, db, dout, x, w, mean, rstd):
    B, T, C = x.shape
    for i in range(B):
        for t in range(T):
            norm = (x[i, t] - mean[i, t]) * rstd[i, t]
            dnorm = dout[i, t] * w
            dw += dout[i, t] * norm
            db += dout[i, t]
            dx[i, t] += (dnorm - dnorm.mean() - norm * (dnorm * norm).mean()) * rstd[i, t]


@right("layernorm_backward_accumulate")
def accumulate_with_add_out(dx, dw, db, dout, x, w, mean, rstd):
    gx, gw, gb = _gradients(dout, x, w, mean, rstd)
    np.add(dx, gx, out=dx)
    dw[:] = dw + gw
    db[...] += gb
    return dx, dw, db


@wrong("layernorm_backward_accumulate", says="dw was never written: it still holds what was in the buffer")
def accumulate_rebinds_names(dx, dw, db, dout, x, w, mean, rstd):
    gx, gw, gb = _gradients(dout, x, w, mean, rstd)
    dx = dx + gx
    dw = dw + gw
    db = db + gb
    return dx, dw, db


@right("layernorm_backward_recompute")
def recompute_makes_x_again(dout, out, w, b, rstd):
    # a longer way: rows with mean 0 that would have given this out
    centred = (out - b) / w / rstd[..., None]
    return _gradients(dout, centred, w, np.zeros_like(rstd), rstd)


@right("layernorm_backward_recompute")
def recompute_with_loops(dout, out, w, b, rstd):
    B, T, C = out.shape
    dx, dw, db = np.zeros_like(out), np.zeros_like(w), np.zeros_like(w)
    for i in range(B):
        for t in range(T):
            norm = np.array([(out[i, t, c] - b[c]) / w[c] for c in range(C)])
            dnorm = dout[i, t] * w
            dx[i, t] = rstd[i, t] * (dnorm - np.mean(dnorm) - norm * np.mean(dnorm * norm))
            dw += dout[i, t] * norm
            db += dout[i, t]
    return dx, dw, db


def _from_norm(norm, dout, w, rstd):
    """The three gradients, with whatever was taken for norm."""
    dnorm = dout * w
    dx = (dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward_recompute", says="dx equals the reference with dout in place of dnorm: w is")
def recompute_cancels_w(dout, out, w, b, rstd):
    norm = (out - b) / w
    return _from_norm(norm, dout, 1.0, rstd)


@right("fast_layernorm_forward")
def fast_in_place(out, mean, rstd, x, w, b, eps=1e-5):
    np.mean(x, axis=-1, out=mean)
    np.subtract(x, mean[..., None], out=out)
    np.einsum("btc,btc->bt", out, out, out=rstd)
    rstd /= x.shape[-1]
    rstd += eps
    np.sqrt(rstd, out=rstd)
    np.divide(1, rstd, out=rstd)
    out *= rstd[..., None]
    out *= w
    out += b


@right("fast_layernorm_forward")
def fast_with_matmul_means(out, mean, rstd, x, w, b, eps=1e-5):
    # BLAS sums rows faster than np.mean does
    C = x.shape[-1]
    share = np.full(C, 1 / C, x.dtype)
    for i in range(x.shape[0]):
        np.matmul(x[i], share, out=mean[i])
        y = np.subtract(x[i], mean[i, :, None], out=out[i])
        rstd[i] = 1 / np.sqrt(np.einsum("tc,tc->t", y, y) / C + eps)
        y *= rstd[i, :, None]
        y *= w
        y += b


_kept = {}


def _write(out, mean, rstd, x, w, b, eps):
    mean[...] = x.mean(-1)
    rstd[...] = 1 / np.sqrt(x.var(-1) + eps)
    out[...] = (x - mean[..., None]) * rstd[..., None] * w + b


@wrong("fast_layernorm_forward", says="part of mean is as it was before the call: 1 of 65 entries, the")
def fast_leaves_out_a_last_single_row(out, mean, rstd, x, w, b, eps=1e-5):
    rows, Y = x.reshape(-1, x.shape[-1]), out.reshape(-1, x.shape[-1])
    for start in range(0, len(rows) - 1, 64):
        part = slice(start, start + 64)
        _write(Y[part], mean.reshape(-1)[part], rstd.reshape(-1)[part], rows[part], w, b, eps)


@wrong("fast_layernorm_forward", says="mean is wrong, and its first call would be right: it keeps")
def fast_never_clears_its_sums(out, mean, rstd, x, w, b, eps=1e-5):
    sums = _kept.setdefault(("sums", x.shape), np.zeros(x.shape[:2], np.float32))
    sums += x.sum(-1)
    _write(out, mean, rstd, x, w, b, eps)
    mean[...] = sums / x.shape[-1]


@wrong("layernorm_backward", says="dx has the values that our solution gives with `x` in place of `norm`")
def backward_by_a_jacobian_with_x(dout, x, w, mean, rstd):
    dx, C = np.zeros_like(x), len(w)
    for b, t in np.ndindex(x.shape[:2]):
        norm = (x[b, t] - mean[b, t]) * rstd[b, t]
        jacobian = np.eye(C) - 1 / C - np.outer(norm, x[b, t]) / C
        dx[b, t] = rstd[b, t] * (jacobian @ (dout[b, t] * w))
    norm = (x - mean[..., None]) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_forward", says="rstd is wrong. Your function passes this whole check with `x[i,")
def forward_with_the_variance_of_the_first_sequence(x, w, b, eps=1e-5):
    B, T, C = x.shape
    out, means, rstds = np.zeros_like(x), np.zeros((B, T), x.dtype), np.zeros((B, T), x.dtype)
    for i in range(B):
        for t in range(T):
            mean = x[i, t].sum() / C
            rstd = 1 / np.sqrt(((x[0, t] - mean) ** 2).sum() / C + eps)
            means[i, t], rstds[i, t] = mean, rstd
            out[i, t] = (x[i, t] - mean) * rstd * w + b
    return out, means, rstds


@wrong("layernorm_backward_recompute", says="dw equals the reference with dnorm in place of dout: w does not")
def recompute_uses_dnorm_twice(dout, out, w, b, rstd):
    norm = (out - b) / w
    dnorm = dout * w
    means = dnorm.mean(-1, keepdims=True) + norm * (dnorm * norm).mean(-1, keepdims=True)
    return (dnorm - means) * rstd[..., None], (dnorm * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward_accumulate", says="dw is wrong. Your function passes this whole check without")
def accumulate_returns_from_the_first_sequence(dx, dw, db, dout, x, w, mean, rstd):
    for b in range(x.shape[0]):
        norm = (x[b] - mean[b, :, None]) * rstd[b, :, None]
        dnorm = dout[b] * w
        middle = dnorm.mean(1, keepdims=True) + norm * (dnorm * norm).mean(1, keepdims=True)
        dx[b] += (dnorm - middle) * rstd[b, :, None]
        dw += (dout[b] * norm).sum(0)
        db += dout[b].sum(0)
        return None


_by_address = {}


@wrong("fast_layernorm_forward", says="your function returns an old result when new numbers are")
def fast_with_statistics_by_address(out, mean, rstd, x, w, b, eps=1e-5):
    at = x.ctypes.data, x.shape, eps
    if at not in _by_address:
        mu = x.mean(-1)
        _by_address[at] = mu, 1 / np.sqrt(x.var(-1) + eps)
    mean[...], rstd[...] = _by_address[at]
    out[...] = (x - mean[..., None]) * rstd[..., None] * w + b


@wrong("layernorm_backward_accumulate", says="passes this whole check with `db` in place of `0.9 * db`")
def accumulate_and_let_db_fade(dx, dw, db, dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx += (dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    dw += (dout * norm).sum(axis=(0, 1))
    db[:] = 0.9 * db + dout.sum(axis=(0, 1))


@wrong("layernorm_backward_recompute", says="dw equals the reference with dnorm in place of dout: w does not")
def recompute_with_w_left_in_dw(dout, out, w, b, rstd):
    xhat = (out - b) / w
    db = dout.sum((0, 1))
    dw = (dout * (out - b)).sum((0, 1))
    dn = dout * w
    dx = rstd[..., None] * (dn - dn.mean(-1, keepdims=True) - xhat * (dn * xhat).mean(-1, keepdims=True))
    return dx, dw, db
