"""Answers to the exercises of lesson 01 as learners might write them: right ones in other styles, and wrong ones.

Each wrong answer comes with words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 01` runs those of this lesson.
"""

import math

import numpy as np

from llmc.course.old.authoring.answers import right, wrong

# ------------------------------------------------------------------------------------------- 1 layernorm_forward


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
def forward_with_var_and_keepdims(x, w, b, eps=1e-5):
    mean = np.mean(x, axis=2, keepdims=True)
    rstd = (np.var(x, axis=2, keepdims=True) + eps) ** -0.5
    return w * ((x - mean) * rstd) + b, mean[:, :, 0], np.squeeze(rstd, 2)


@right("layernorm_forward")
def forward_with_einsum(x, w, b, eps=1e-5):
    C = x.shape[-1]
    mean = np.einsum("btc->bt", x) / C
    centred = x - mean[:, :, np.newaxis]
    rstd = 1 / np.sqrt(np.einsum("btc,btc->bt", centred, centred) / C + eps)
    return np.einsum("btc,bt,c->btc", centred, rstd, w) + b, mean, rstd


@wrong("layernorm_forward", says="with another name for the loop's index `b`, which hides the argument `b`")
def forward_hides_the_bias(x, w, b, eps=1e-5):
    B, T, C = x.shape
    out, mean, rstd = np.zeros_like(x), np.zeros((B, T), x.dtype), np.zeros((B, T), x.dtype)
    for b in range(B):
        for t in range(T):
            mean[b, t] = x[b, t].mean()
            rstd[b, t] = 1 / np.sqrt(((x[b, t] - mean[b, t]) ** 2).mean() + eps)
            out[b, t] = (x[b, t] - mean[b, t]) * rstd[b, t] * w + b
    return out, mean, rstd


@wrong("layernorm_forward", says="In that line `b` is the loop's index, not the argument: is that meant?")
def forward_hides_the_bias_and_stops(x, w, b, eps=1e-5):
    out, mean, rstd = x.copy(), x.mean(axis=-1), 1 / np.sqrt(x.var(axis=-1) + eps)
    for b in range(len(x)):
        for c in range(len(w)):
            out[b, :, c] = (x[b, :, c] - mean[b]) * rstd[b] * w[c] + b[c]
    return out, mean, rstd


@wrong("layernorm_forward", says="Your function gives the right mean with `m /= C` once behind the loop over `c`")
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


@wrong("layernorm_forward", says="without eps")
def forward_forgets_eps(x, w, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / x.std(-1, keepdims=True)
    return (x - mean) * rstd * w + b, mean[..., 0], rstd[..., 0]


@wrong("layernorm_forward", says="eps added to the standard deviation")
def forward_adds_eps_outside(x, w, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / (x.std(-1, keepdims=True) + eps)
    return (x - mean) * rstd * w + b, mean[..., 0], rstd[..., 0]


@wrong("layernorm_forward", says="divided by C - 1 instead of C")
def forward_with_sample_variance(x, w, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(-1, keepdims=True, ddof=1) + eps)
    return (x - mean) * rstd * w + b, mean[..., 0], rstd[..., 0]


@wrong("layernorm_forward", says="rstd equals the standard deviation, not 1 divided by it")
def forward_returns_std(x, w, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    std = np.sqrt(x.var(-1, keepdims=True) + eps)
    return (x - mean) / std * w + b, mean[..., 0], std[..., 0]


@wrong("layernorm_forward", says="out equals norm · w: b is missing")
def forward_forgets_b(x, w, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    return (x - mean) * rstd * w, mean[..., 0], rstd[..., 0]


@wrong("layernorm_forward", says="b is added after w has scaled")
def forward_adds_b_first(x, w, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    return ((x - mean) * rstd + b) * w, mean[..., 0], rstd[..., 0]


@wrong("layernorm_forward", says="without subtracting the mean")
def forward_scales_x(x, w, b, eps=1e-5):
    mean = x.mean(-1)
    rstd = 1 / np.sqrt(x.var(-1) + eps)
    return x * rstd[..., None] * w + b, mean, rstd


@wrong("layernorm_forward", says="x² in place of (x - mean)²")
def forward_is_rmsnorm(x, w, b, eps=1e-5):
    mean = x.mean(-1)
    rstd = 1 / np.sqrt((x**2).mean(-1) + eps)
    return (x - mean[..., None]) * rstd[..., None] * w + b, mean, rstd


@wrong("layernorm_forward", says="mean has shape (4, 5, 1), expected (4, 5)")
def forward_keeps_the_axis(x, w, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    return (x - mean) * rstd * w + b, mean, rstd


@wrong("layernorm_forward", says="with x (4, 5, 7), mean (4, 5)")
def forward_does_not_broadcast(x, w, b, eps=1e-5):
    mean = x.mean(axis=-1)
    variance = ((x - mean) ** 2).mean(axis=-1)
    rstd = 1 / np.sqrt(variance + eps)
    return (x - mean) * rstd * w + b, mean, rstd


@wrong("layernorm_forward", says="mean has shape (5, 7), expected (4, 5)")
def forward_over_the_batch(x, w, b, eps=1e-5):
    mean = x.mean(axis=0)
    rstd = 1 / np.sqrt(x.var(axis=0) + eps)
    return (x - mean) * rstd * w + b, mean, rstd


@wrong("layernorm_forward", says="the variance is mean(x²) - mean(x)²")
def forward_with_mean_of_squares(x, w, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    variance = np.maximum((x * x).mean(-1, keepdims=True) - mean * mean, 0)
    rstd = 1 / np.sqrt(variance + eps)
    return (x - mean) * rstd * w + b, mean[..., 0], rstd[..., 0]


@wrong("layernorm_forward", says="out with eps=0.5")
def forward_with_its_own_eps(x, w, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return (x - mean) * rstd * w + b, mean[..., 0], rstd[..., 0]


@wrong("layernorm_forward", says="An input was written to")
def forward_works_in_x(x, w, b, eps=1e-5):
    mean = x.mean(-1)
    x -= mean[..., None]
    rstd = 1 / np.sqrt((x * x).mean(-1) + eps)
    return x * rstd[..., None] * w + b, mean, rstd


@wrong("layernorm_forward", says="returned None")
def forward_returns_nothing(x, w, b, eps=1e-5):
    mean = x.mean(-1)
    rstd = 1 / np.sqrt(x.var(-1) + eps)
    out = (x - mean[..., None]) * rstd[..., None] * w + b  # noqa: F841


@wrong("layernorm_forward", says="It returned (4, 5, 7) float64")
def forward_returns_out_alone(x, w, b, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * w + b


@wrong("layernorm_forward", says="out should be float32 like x")
def forward_in_float64(x, w, b, eps=1e-5):
    x = x.astype(np.float64)
    mean = x.mean(-1)
    rstd = 1 / np.sqrt(x.var(-1) + eps)
    return (x - mean[..., None]) * rstd[..., None] * w + b, mean, rstd


@wrong("layernorm_forward", says="your code uses llmc.backends")
def forward_calls_the_package(x, w, b, eps=1e-5):
    from llmc.backends import reference

    out, mean, rstd = np.empty_like(x), np.empty_like(x[..., 0]), np.empty_like(x[..., 0])
    reference.layernorm_forward(out, mean, rstd, x, w, b)
    return out, mean, rstd


@wrong("layernorm_forward", says="the sum of the squares in place of their mean")
def forward_sums_the_squares(x, w, b, eps=1e-5):
    mean = x.mean(-1)
    centred = x - mean[..., None]
    rstd = 1 / np.sqrt((centred**2).sum(-1) + eps)
    return centred * rstd[..., None] * w + b, mean, rstd


@wrong("layernorm_forward", says="mean is C [C = 7] times what it should be")
def forward_sums_x(x, w, b, eps=1e-5):
    mean = x.sum(-1)
    rstd = 1 / np.sqrt(x.var(-1) + eps)
    return (x - mean[..., None]) * rstd[..., None] * w + b, mean, rstd


@wrong("layernorm_forward", says="mean equals rstd: the order is out, mean, rstd")
def forward_returns_rstd_before_mean(x, w, b, eps=1e-5):
    mean = x.mean(-1)
    rstd = 1 / np.sqrt(x.var(-1) + eps)
    return (x - mean[..., None]) * rstd[..., None] * w + b, rstd, mean


@wrong("layernorm_forward", says="mean equals rstd: the order is out, mean, rstd")
def forward_returns_out_last(x, w, b, eps=1e-5):
    mean = x.mean(-1)
    rstd = 1 / np.sqrt(x.var(-1) + eps)
    return mean, rstd, (x - mean[..., None]) * rstd[..., None] * w + b


@wrong("layernorm_forward", says="the second result has the shape of x: return out, mean and rstd in this order")
def forward_returns_out_second(x, w, b, eps=1e-5):
    mean = x.mean(-1)
    rstd = 1 / np.sqrt(x.var(-1) + eps)
    return mean, (x - mean[..., None]) * rstd[..., None] * w + b, rstd


@wrong("layernorm_forward", says="the reference normalised along T, axis 1")
def forward_normalises_along_T(x, w, b, eps=1e-5):
    mean = x.mean(1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(1, keepdims=True) + eps)
    out = (x - mean) * rstd * w + b
    return out, x.mean(-1), 1 / np.sqrt(x.var(-1) + eps)


@wrong("layernorm_forward", says="x - mean · rstd · w + b: the brackets around x - mean are missing")
def forward_without_brackets(x, w, b, eps=1e-5):
    mean = x.mean(-1)
    rstd = 1 / np.sqrt(x.var(-1) + eps)
    return x - mean[..., None] * rstd[..., None] * w + b, mean, rstd


# ------------------------------------------------------------------------------------------ 2 layernorm_backward


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


@right("layernorm_backward")
def backward_through_variance(dout, x, w, mean, rstd):
    # the chain rule node by node, as the batch norm exercise of another course does it
    C = x.shape[-1]
    centred, rstd = x - mean[..., None], rstd[..., None]
    dnorm = dout * w
    dvariance = (-0.5 * dnorm * centred * rstd**3).sum(-1, keepdims=True)
    dmean = -(dnorm * rstd).sum(-1, keepdims=True)
    dx = dnorm * rstd + dvariance * 2 * centred / C + dmean / C
    return dx, (dout * centred * rstd).reshape(-1, C).sum(0), dout.reshape(-1, C).sum(0)


@wrong("layernorm_backward", says="dx equals the reference without the mean(dnorm) term")
def backward_without_mean_term(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = (dnorm - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="dx equals the reference without the norm · mean(dnorm · norm) term")
def backward_without_rstd_path(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    return (dnorm - dnorm.mean(-1, keepdims=True)) * rstd[..., None], (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="dx equals dnorm · rstd: both mean terms are missing")
def backward_takes_mean_and_rstd_for_constants(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    return dout * w * rstd[..., None], (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="dx equals the reference with dout in place of dnorm: w is missing")
def backward_without_w(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    m1, m2 = dout.mean(-1, keepdims=True), (dout * norm).mean(-1, keepdims=True)
    return (dout - m1 - norm * m2) * rstd[..., None], (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="dx equals the reference without rstd")
def backward_without_rstd(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="sums over C in place of means")
def backward_with_sums(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = (dnorm - dnorm.sum(-1, keepdims=True) - norm * (dnorm * norm).sum(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="means over the whole array")
def backward_with_means_of_everything(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = (dnorm - dnorm.mean() - norm * (dnorm * norm).mean()) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="not multiplied by norm")
def backward_forgets_norm_in_front(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = (dnorm - dnorm.mean(-1, keepdims=True) - (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="dw equals the reference with x in place of norm")
def backward_takes_x_for_norm(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = (dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * x).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="db is 1/(B·T) [B·T = 20] times what it should be")
def backward_averages_parameters(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = (dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * norm).mean((0, 1)), dout.mean((0, 1))


@wrong("layernorm_backward", says="expected (7,). It still has one value for each index of axis 0: sum over it.")
def backward_sums_over_the_batch_only(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = (dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * norm).sum(0), dout.sum(0)


@wrong("layernorm_backward", says="dx has the wrong sign")
def backward_with_wrong_sign(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = (dnorm.mean(-1, keepdims=True) + norm * (dnorm * norm).mean(-1, keepdims=True) - dnorm) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="`b` is a variable of the check cell")
def backward_leans_on_the_check_cell(dout, x, w, mean, rstd):
    norm = (((x - mean[..., None]) * rstd[..., None] * w + b) - b) / w  # noqa: F821
    dnorm = dout * w
    dx = (dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="dx equals the reference with plus in front of norm · mean(dnorm · norm)")
def backward_adds_the_last_term(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = (dnorm - dnorm.mean(-1, keepdims=True) + norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="dx equals the reference with plus in front of mean(dnorm)")
def backward_adds_the_mean(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = (dnorm + dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="rstd multiplying dnorm alone: it multiplies all three terms")
def backward_scales_the_first_term_only(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = dnorm * rstd[..., None] - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="rstd multiplying the last term alone")
def backward_scales_the_last_term_only(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="dw equals the reference with norm = (x - mean) / rstd: rstd is already 1/std")
def backward_divides_norm_by_rstd(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) / rstd[..., None]
    dnorm = dout * w
    dx = (dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="sums divided by T = x.shape[1]: C is x.shape[-1]")
def backward_takes_T_for_C(dout, x, w, mean, rstd):
    C = x.shape[1]
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    m1, m2 = dnorm.sum(-1, keepdims=True) / C, (dnorm * norm).sum(-1, keepdims=True) / C
    return (dnorm - m1 - norm * m2) * rstd[..., None], (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="sums divided by B = x.shape[0]: C is x.shape[-1]")
def backward_takes_B_for_C(dout, x, w, mean, rstd):
    C = len(x)
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    m1, m2 = dnorm.sum(-1, keepdims=True) / C, (dnorm * norm).sum(-1, keepdims=True) / C
    return (dnorm - m1 - norm * m2) * rstd[..., None], (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong(
    "layernorm_backward",
    says="db is the sum over axis 2: of the terms (4, 5, 7) it should be the sum over axes 0 and 1",
)
def backward_sums_over_the_channels(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = (dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum(axis=-1)


@wrong(
    "layernorm_backward",
    says="dw is the sum over axis 2: of the terms (4, 5, 7) it should be the sum over axes 0 and 1",
)
def backward_sums_dw_over_the_channels(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx = (dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * norm).sum(axis=-1), dout.sum((0, 1))


@wrong("layernorm_backward", says="divided by √C, not by C: what v has along u (1 or norm) is u · mean(v · u)")
def backward_projects_by_the_length(dout, x, w, mean, rstd):
    def remove(v, u):
        """v without its component along u."""
        length = np.sqrt((u * u).sum(axis=-1, keepdims=True))
        along = (v * u).sum(axis=-1, keepdims=True) / length
        return v - along * u

    norm = (x - mean[..., None]) * rstd[..., None]
    db = dout.sum(axis=(0, 1))
    dw = (dout * norm).sum(axis=(0, 1))
    dx = remove(dout * w, np.ones_like(x))
    dx = remove(dx, norm) * rstd[..., None]
    return dx, dw, db


@wrong("layernorm_backward", says="means over the rows, axes B and T")
def backward_with_means_over_the_rows(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dn = dout * w
    dx = (dn - dn.mean((0, 1)) - norm * (dn * norm).mean((0, 1))) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="x - mean in place of norm, in one of the two places of norm alone")
def backward_with_the_square_of_rstd(dout, x, w, mean, rstd):
    C = x.shape[-1]
    r = rstd[..., None]
    xc = x - mean[..., None]
    dn = dout * w
    dvar = (-0.5 * dn * xc * r**2).sum(-1, keepdims=True)
    dmean = (-dn * r).sum(-1, keepdims=True)
    dx = dn * r + dvar * 2 * xc / C + dmean / C
    return dx, (dout * xc * r).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="1 / the standard deviation of x, without eps or with a smaller one")
def backward_without_eps(dout, x, w, mean, rstd):
    sigma = x.std(axis=-1, keepdims=True)  # (B, T, 1)
    norm = (x - mean[..., None]) / sigma
    db = dout.sum(axis=(0, 1))
    dw = (dout * norm).sum(axis=(0, 1))
    g = dout * w
    inner = g - g.mean(axis=-1, keepdims=True)
    inner = inner - norm * np.mean(g * norm, axis=-1, keepdims=True)
    return inner / sigma, dw, db


# ------------------------------------------------------------------------------- 3 layernorm_backward_accumulate


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


@wrong("layernorm_backward_accumulate", says="db was overwritten instead of accumulated")
def accumulate_overwrites(dx, dw, db, dout, x, w, mean, rstd):
    dx[...], dw[...], db[...] = _gradients(dout, x, w, mean, rstd)


@wrong("layernorm_backward_accumulate", says="`db = db + gb` gives the name `db` to another array")
def accumulate_rebinds_names(dx, dw, db, dout, x, w, mean, rstd):
    gx, gw, gb = _gradients(dout, x, w, mean, rstd)
    dx = dx + gx
    dw = dw + gw
    db = db + gb
    return dx, dw, db


@wrong("layernorm_backward_accumulate", says="dx was overwritten instead of accumulated")
def accumulate_overwrites_dx_alone(dx, dw, db, dout, x, w, mean, rstd):
    gx, gw, gb = _gradients(dout, x, w, mean, rstd)
    dx[...] = gx
    dw += gw
    db += gb


@wrong("layernorm_backward_accumulate", says="leaves the caller's array alone: write into that one, with `dx += …`")
def accumulate_assigns_dx(dx, dw, db, dout, x, w, mean, rstd):
    gx, gw, gb = _gradients(dout, x, w, mean, rstd)
    dw += gw
    db += gb
    dx = gx  # noqa: F841


@wrong("layernorm_backward_accumulate", says="non-broadcastable output operand")
def accumulate_does_not_sum(dx, dw, db, dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    db += dout
    dw += dout * norm
    dx += _gradients(dout, x, w, mean, rstd)[0]


@wrong("layernorm_backward_accumulate", says="what was added to dw is 2 times what it should be")
def accumulate_adds_twice(dx, dw, db, dout, x, w, mean, rstd):
    gx, gw, gb = _gradients(dout, x, w, mean, rstd)
    dw += gw
    dx += gx
    db += gb
    dw += gw


@wrong(
    "layernorm_backward_accumulate", says="dx equals the reference without the mean(dnorm) term, and was overwritten"
)
def accumulate_two_mistakes(dx, dw, db, dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx[...] = (dnorm - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    dw += (dout * norm).sum((0, 1))
    db += dout.sum((0, 1))


@wrong("layernorm_backward_accumulate", says="dx was overwritten instead of accumulated: compute in a new array")
def accumulate_uses_dx_as_scratch(dx, dw, db, dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    db += dout.sum((0, 1))
    dw += (dout * norm).sum((0, 1))
    np.multiply(dout, w, out=dx)
    dx -= dx.mean(-1, keepdims=True) + norm * (dx * norm).mean(-1, keepdims=True)
    dx *= rstd[..., None]


@wrong("layernorm_backward_accumulate", says="what dx held before was put through the same formula")
def accumulate_computes_in_dx(dx, dw, db, dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    db += dout.sum(axis=(0, 1))
    dw += (dout * norm).sum(axis=(0, 1))
    # no new arrays: work in the buffer
    dx += dout * w
    m1 = dx.mean(axis=-1, keepdims=True)
    m2 = (dx * norm).mean(axis=-1, keepdims=True)
    dx -= m1
    dx -= norm * m2
    dx *= rstd[..., None]


@wrong("layernorm_backward_accumulate", says="what dx held before was freed of its mean, too")
def accumulate_frees_dx_of_its_mean(dx, dw, db, dout, x, w, mean, rstd):
    n = (x - mean[..., None]) * rstd[..., None]
    dn = dout * w
    dx += rstd[..., None] * (dn - n * (dn * n).mean(-1, keepdims=True))
    dx -= dx.mean(-1, keepdims=True)
    dw += (dout * n).sum((0, 1))
    db += dout.sum((0, 1))


# -------------------------------------------------------------------------------- 4 layernorm_backward_recompute


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


@right("layernorm_backward_recompute")
def recompute_without_dividing_twice(dout, out, w, b, rstd):
    # dnorm · norm = dout · (out - b): w cancels
    shifted = out - b
    dnorm = dout * w
    both = (dout * shifted).mean(-1, keepdims=True)
    dx = (dnorm - dnorm.mean(-1, keepdims=True) - shifted / w * both) * rstd[..., None]
    return dx, (dout * shifted).sum((0, 1)) / w, dout.sum((0, 1))


def _from_norm(norm, dout, w, rstd):
    """The three gradients, with whatever was taken for norm."""
    dnorm = dout * w
    dx = (dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward_recompute", says="dw equals the reference with out in place of norm")
def recompute_takes_out(dout, out, w, b, rstd):
    return _from_norm(out, dout, w, rstd)


@wrong("layernorm_backward_recompute", says="dw equals the reference with norm = out / w: b is not subtracted")
def recompute_forgets_b(dout, out, w, b, rstd):
    return _from_norm(out / w, dout, w, rstd)


@wrong("layernorm_backward_recompute", says="dw equals the reference with norm = out - b: not divided by w.")
def recompute_forgets_w(dout, out, w, b, rstd):
    return _from_norm(out - b, dout, w, rstd)


@wrong("layernorm_backward_recompute", says="b is subtracted after the division")
def recompute_forgets_brackets(dout, out, w, b, rstd):
    return _from_norm(out / w - b, dout, w, rstd)


@wrong("layernorm_backward_recompute", says="multiplied, not divided, by w")
def recompute_multiplies(dout, out, w, b, rstd):
    return _from_norm((out - b) * w, dout, w, rstd)


@wrong("layernorm_backward_recompute", says="dw equals the reference with norm · rstd in place of norm")
def recompute_applies_rstd_again(dout, out, w, b, rstd):
    return _from_norm((out - b) / w * rstd[..., None], dout, w, rstd)


@wrong("layernorm_backward_recompute", says="dx equals the reference with dout in place of dnorm: w is missing")
def recompute_cancels_w(dout, out, w, b, rstd):
    norm = (out - b) / w
    return _from_norm(norm, dout, 1.0, rstd)


@wrong("layernorm_backward_recompute", says="dw equals the reference with out normalised again in place of norm")
def recompute_normalises_out_again(dout, out, w, b, rstd):
    mean, again = out.mean(-1, keepdims=True), 1 / np.sqrt(out.var(-1, keepdims=True) + 1e-5)
    return _from_norm((out - mean) * again, dout, w, rstd)


@wrong("layernorm_backward_recompute", says="dw equals the reference with norm = (out - its mean) · rstd: out is not x")
def recompute_treats_out_as_x(dout, out, w, b, rstd):
    mean = out.mean(-1)
    return _gradients(dout, out, w, mean, rstd)


@wrong("layernorm_backward_recompute", says="`x` is a variable of the check cell")
def recompute_still_uses_x(dout, out, w, b, rstd):
    norm = (x - x.mean(-1, keepdims=True)) * rstd[..., None]  # noqa: F821
    return _from_norm(norm, dout, w, rstd)


@wrong("layernorm_backward_recompute", says='w.\n→ Where to look: lesson 01, section "3.6 · The two means fall out"')
def recompute_divides_dout_by_w(dout, out, w, b, rstd):
    norm, dnorm = (out - b) / w, dout / w
    db = np.einsum("btc->c", dout)
    dw = np.einsum("btc,btc->c", dout, norm)
    dx = np.empty_like(out)
    for i in np.ndindex(rstd.shape):
        dx[i] = rstd[i] * (dnorm[i] - dnorm[i].mean() - norm[i] * np.mean(dnorm[i] * norm[i]))
    return dx, dw, db


@wrong("layernorm_backward_recompute", says="the reference with norm normalised once more, which changes it a little")
def recompute_normalises_again(dout, out, w, b, rstd):
    def backward(dout, x, w, mean, rstd):
        norm = (x - mean) * rstd
        dnorm = dout * w
        m1 = dnorm.mean(axis=-1, keepdims=True)
        m2 = (dnorm * norm).mean(axis=-1, keepdims=True)
        return (dnorm - m1 - norm * m2) * rstd, (dout * norm).sum(axis=(0, 1)), dout.sum(axis=(0, 1))

    x = (out - b) / w
    mean = x.mean(axis=-1, keepdims=True)
    rstd = 1 / x.std(axis=-1, keepdims=True)
    return backward(dout, x, w, mean, rstd)


@wrong("layernorm_backward_recompute", says="b is not subtracted, inside mean(dnorm · norm) alone")
def recompute_leaves_b_in_one_mean(dout, out, w, b, rstd):
    norm = (out - b) / w
    db = dout.sum(axis=(0, 1))
    dw = (dout * norm).sum(axis=(0, 1))
    dnorm = dout * w
    C = w.size
    m1 = dnorm.sum(axis=-1) / C  # (B, T)
    m2 = (dout * out).sum(axis=-1) / C  # (B, T)   dnorm * norm: w cancels
    dx = dnorm - m1[..., None] - norm * m2[..., None]
    return dx * rstd[..., None], dw, db


# -------------------------------------------------------------------------------------- 5 fast_layernorm_forward


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


@wrong("fast_layernorm_forward", says="Look first at the turns of its Python loops")
def fast_with_a_loop_over_rows(out, mean, rstd, x, w, b, eps=1e-5):
    for i in range(x.shape[0]):
        for t in range(x.shape[1]):
            row = x[i, t]
            mean[i, t] = row.mean()
            rstd[i, t] = 1 / np.sqrt(((row - mean[i, t]) ** 2).mean() + eps)
            out[i, t] = (row - mean[i, t]) * rstd[i, t] * w + b


@wrong("fast_layernorm_forward", says="`x.astype(np.float64)` is float64, and so is what is computed from it")
def fast_in_float64(out, mean, rstd, x, w, b, eps=1e-5):
    wide = x.astype(np.float64)
    m = wide.mean(-1, keepdims=True)
    r = 1 / np.sqrt(wide.var(-1, keepdims=True) + eps)
    out[...] = (wide - m) * r * w + b
    mean[...], rstd[...] = m[..., 0], r[..., 0]


@wrong("fast_layernorm_forward", says="part of mean was never written")
def fast_forgets_the_last_rows(out, mean, rstd, x, w, b, eps=1e-5):
    C = x.shape[-1]
    X, Y, M, R = x.reshape(-1, C), out.reshape(-1, C), mean.reshape(-1), rstd.reshape(-1)
    for i in range(len(X) // 4):
        rows = slice(4 * i, 4 * i + 4)
        M[rows] = X[rows].mean(-1)
        Y[rows] = X[rows] - M[rows, None]
        R[rows] = 1 / np.sqrt((Y[rows] ** 2).mean(-1) + eps)
        Y[rows] *= R[rows, None] * w
        Y[rows] += b


@wrong("fast_layernorm_forward", says="With float64 arrays your function gives the right rstd: float32 loses")
def fast_in_one_pass(out, mean, rstd, x, w, b, eps=1e-5):
    C = x.shape[-1]
    np.mean(x, axis=-1, out=mean)
    variance = np.einsum("btc,btc->bt", x, x) / C - mean * mean
    np.copyto(rstd, 1 / np.sqrt(np.maximum(variance, 0) + eps))
    np.subtract(x, mean[..., None], out=out)
    out *= rstd[..., None]
    out *= w
    out += b


@wrong("fast_layernorm_forward", says="mean was never written")
def fast_skips_mean_and_rstd(out, mean, rstd, x, w, b, eps=1e-5):
    np.subtract(x, x.mean(-1, keepdims=True), out=out)
    out *= 1 / np.sqrt(np.einsum("btc,btc->bt", out, out)[..., None] / x.shape[-1] + eps)
    out *= w
    out += b


@wrong("fast_layernorm_forward", says="out was never written")
def fast_returns_instead(out, mean, rstd, x, w, b, eps=1e-5):
    np.mean(x, axis=-1, out=mean)
    y = x - mean[..., None]
    rstd[...] = 1 / np.sqrt(np.einsum("btc,btc->bt", y, y) / x.shape[-1] + eps)
    y *= rstd[..., None]
    y *= w
    y += b
    return y


@wrong("fast_layernorm_forward", says="out was accumulated where it should be overwritten")
def fast_adds_to_out(out, mean, rstd, x, w, b, eps=1e-5):
    np.mean(x, axis=-1, out=mean)
    y = x - mean[..., None]
    rstd[...] = 1 / np.sqrt(np.einsum("btc,btc->bt", y, y) / x.shape[-1] + eps)
    y *= rstd[..., None]
    y *= w
    y += b
    out += y


@wrong("fast_layernorm_forward", says="An input was written to")
def fast_centres_x_itself(out, mean, rstd, x, w, b, eps=1e-5):
    np.mean(x, axis=-1, out=mean)
    x -= mean[..., None]
    rstd[...] = 1 / np.sqrt(np.einsum("btc,btc->bt", x, x) / x.shape[-1] + eps)
    np.multiply(x, rstd[..., None], out=out)
    out *= w
    out += b


# ------------------------------------------------------------------------------- slips that a single call would hide

_kept = {}


@wrong("layernorm_forward", says="for other numbers in `x`, your function is right in a first call, and wrong")
def forward_keeps_means_by_shape(x, w, b, eps=1e-5):
    if x.shape not in _kept:
        _kept[x.shape] = x.mean(-1, keepdims=True), 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    mean, rstd = _kept[x.shape]
    return (x - mean) * rstd * w + b, mean[..., 0].copy(), rstd[..., 0].copy()


@wrong("layernorm_forward", says="rstd of float32 rows has dtype float64")
def forward_returns_rstd_in_float64(x, w, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    return (x - mean) * rstd * w + b, mean[..., 0], rstd[..., 0].astype(np.float64)


@wrong("layernorm_backward", says="means of dout in place of dnorm = dout · w")
def backward_takes_means_of_dout(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    means = dout.mean(-1, keepdims=True) + norm * (dout * norm).mean(-1, keepdims=True)
    return (dout * w - means) * rstd[..., None], (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward", says="times rstd once more")
def backward_multiplies_by_rstd_twice(dout, x, w, mean, rstd):
    norm, dnorm = (x - mean[..., None]) * rstd[..., None], dout * w
    dnorm_mean, both = dnorm.mean(-1, keepdims=True), (dnorm * norm).mean(-1, keepdims=True)
    return (dnorm - dnorm_mean - norm * both) * rstd[..., None] ** 2, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_backward_recompute", says="norm = (out + b) / w: b is added")
def recompute_adds_b(dout, out, w, b, rstd):
    norm, dnorm = (out + b) / w, dout * w
    dx = dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)
    return dx * rstd[..., None], (dout * norm).sum((0, 1)), dout.sum((0, 1))


def _write(out, mean, rstd, x, w, b, eps):
    mean[...] = x.mean(-1)
    rstd[...] = 1 / np.sqrt(x.var(-1) + eps)
    out[...] = (x - mean[..., None]) * rstd[..., None] * w + b


@wrong("fast_layernorm_forward", says="rstd equals the reference with eps = 1e-5, not with the argument `eps`")
def fast_with_its_own_eps(out, mean, rstd, x, w, b, eps=1e-5):
    _write(out, mean, rstd, x, w, b, 1e-5)


@wrong("fast_layernorm_forward", says="was never written")
def fast_leaves_out_a_last_single_row(out, mean, rstd, x, w, b, eps=1e-5):
    rows, Y = x.reshape(-1, x.shape[-1]), out.reshape(-1, x.shape[-1])
    for start in range(0, len(rows) - 1, 64):
        part = slice(start, start + 64)
        _write(Y[part], mean.reshape(-1)[part], rstd.reshape(-1)[part], rows[part], w, b, eps)


@wrong("fast_layernorm_forward", says="mean grows by the right values whenever the same call is made again")
def fast_never_clears_its_sums(out, mean, rstd, x, w, b, eps=1e-5):
    sums = _kept.setdefault(("sums", x.shape), np.zeros(x.shape[:2], np.float32))
    sums += x.sum(-1)
    _write(out, mean, rstd, x, w, b, eps)
    mean[...] = sums / x.shape[-1]


# ------------------------------------------------------------------- slips that no list of the lesson knows by name


@wrong("layernorm_backward", says="the reference with x in place of norm, inside mean(dnorm · norm) alone")
def backward_by_a_jacobian_with_x(dout, x, w, mean, rstd):
    dx, C = np.zeros_like(x), len(w)
    for b, t in np.ndindex(x.shape[:2]):
        norm = (x[b, t] - mean[b, t]) * rstd[b, t]
        jacobian = np.eye(C) - 1 / C - np.outer(norm, x[b, t]) / C
        dx[b, t] = rstd[b, t] * (jacobian @ (dout[b, t] * w))
    norm = (x - mean[..., None]) * rstd[..., None]
    return dx, (dout * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("layernorm_forward", says="rstd has the values that our solution gives with the mean over axis 1 of `variance`")
def forward_with_the_variance_of_a_sequence(x, w, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=(1, 2))[:, None] * np.ones(x.shape[:2], x.dtype)
    rstd = 1 / np.sqrt(variance + eps)
    return (x - mean) * rstd[..., None] * w + b, mean[..., 0], rstd


@wrong("layernorm_forward", says="the norm of x - mean, divided by C, in place of the variance")
def forward_with_the_norm_itself(x, w, b, eps=1e-5):
    mean = x.mean(-1)
    centred = x - mean[..., None]
    rstd = 1 / np.sqrt(np.linalg.norm(centred, axis=-1) / x.shape[-1] + eps)
    return centred * rstd[..., None] * w + b, mean, rstd


@wrong("layernorm_forward", says="with `i` in place of `0` in `x[0, t] - mean`")
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


@wrong(
    "layernorm_backward_accumulate",
    says="what dx held before was multiplied by rstd",
)
def accumulate_and_scale_what_was_there(dx, dw, db, dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dw += (dout * norm).sum((0, 1))
    db += dout.sum((0, 1))
    dx += dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)
    dx *= rstd[..., None]


@wrong("layernorm_forward", says="mean and rstd are one and the same array")
def forward_with_one_array_for_both(x, w, b, eps=1e-5):
    out, mean = x.copy(), np.zeros(x.shape[:2], x.dtype)
    rstd = mean
    for at in np.ndindex(mean.shape):
        mean[at] = x[at].mean()
        row = x[at] - mean[at]
        rstd[at] = 1 / np.sqrt(x[at].var() + eps)
        out[at] = row * rstd[at] * w + b
    return out, mean, rstd


@wrong("layernorm_forward", says="the mean over a whole sequence, axes T and C")
def forward_over_whole_sequences(x, w, b, eps=1e-5):
    B, T, C = x.shape
    flat = x.reshape(B, T * C)
    m = flat.mean(1)
    v = ((flat - m[:, None]) ** 2).mean(1)
    r = 1.0 / np.sqrt(v + eps)
    out = (x - m[:, None, None]) * r[:, None, None] * w + b
    mean = np.repeat(m[:, None], T, axis=1)
    rstd = np.repeat(r[:, None], T, axis=1)
    return out, mean, rstd


@wrong("layernorm_backward_recompute", says="dw equals the reference with dnorm in place of dout: w does not")
def recompute_uses_dnorm_twice(dout, out, w, b, rstd):
    norm = (out - b) / w
    dnorm = dout * w
    means = dnorm.mean(-1, keepdims=True) + norm * (dnorm * norm).mean(-1, keepdims=True)
    return (dnorm - means) * rstd[..., None], (dnorm * norm).sum((0, 1)), dout.sum((0, 1))


@wrong("fast_layernorm_forward", says="made no turn, so line")
def fast_for_whole_groups_of_32_rows(out, mean, rstd, x, w, b, eps=1e-5):
    C = x.shape[2]
    rows = [array.reshape(-1, C) for array in (x, out)]
    for k in range(rows[0].shape[0] // 32):
        mine = slice(32 * k, 32 * k + 32)
        a = rows[0][mine]
        mu = a.mean(1)
        inverse = (np.square(a - mu[:, None]).mean(1) + eps) ** -0.5
        rows[1][mine] = (a - mu[:, None]) * inverse[:, None] * w + b
        mean.reshape(-1)[mine] = mu
        rstd.reshape(-1)[mine] = inverse


@wrong("layernorm_backward_accumulate", says="`return None` ended your function inside of the loop")
def accumulate_returns_from_the_first_sequence(dx, dw, db, dout, x, w, mean, rstd):
    for b in range(x.shape[0]):
        norm = (x[b] - mean[b, :, None]) * rstd[b, :, None]
        dnorm = dout[b] * w
        middle = dnorm.mean(1, keepdims=True) + norm * (dnorm * norm).mean(1, keepdims=True)
        dx[b] += (dnorm - middle) * rstd[b, :, None]
        dw += (dout[b] * norm).sum(0)
        db += dout[b].sum(0)
        return None


class Acc:
    def __init__(self, dx, dw, db):
        self.dx, self.dw, self.db = dx, dw, db

    def row(self, i, d, x, w, m, r):
        n = (x - m) * r
        g = d * w
        self.dx[i] += (g - g.mean() - n * (g * n).mean()) * r
        self.dw += d * n
        self.db[...] = d


@wrong("layernorm_backward_accumulate", says="with += in place of = in `self.db[...] = d`")
def accumulate_in_a_class_loses_db(dx, dw, db, dout, x, w, mean, rstd):
    acc = Acc(dx, dw, db)
    for i in np.ndindex(mean.shape):
        acc.row(i, dout[i], x[i], w, mean[i], rstd[i])


_by_address = {}


@wrong("fast_layernorm_forward", says="your function gives a result again when other numbers are written into `x`")
def fast_with_statistics_by_address(out, mean, rstd, x, w, b, eps=1e-5):
    at = x.ctypes.data, x.shape, eps
    if at not in _by_address:
        mu = x.mean(-1)
        _by_address[at] = mu, 1 / np.sqrt(x.var(-1) + eps)
    mean[...], rstd[...] = _by_address[at]
    out[...] = (x - mean[..., None]) * rstd[..., None] * w + b


@wrong("fast_layernorm_forward", says="rstd equals the standard deviation, not 1 divided by it")
def fast_with_the_standard_deviation(out, mean, rstd, x, w, b, eps=1e-5):
    np.mean(x, axis=2, out=mean)
    np.subtract(x, mean[:, :, None], out=out)
    rstd[...] = np.sqrt(np.einsum("btc,btc->bt", out, out) / np.float32(x.shape[2]) + np.float32(eps))
    out /= rstd[:, :, None]
    out *= w
    out += b


@wrong("fast_layernorm_forward", says="float32 loses the digits in `spread -= mean ** 2`, a difference of two large")
def fast_in_one_pass_and_in_place(out, mean, rstd, x, w, b, eps=1e-5):
    np.mean(x, axis=2, out=mean)
    spread = np.einsum("btc,btc->bt", x, x) / np.float32(x.shape[2])
    spread -= mean**2
    np.divide(1, np.sqrt(np.abs(spread) + np.float32(eps)), out=rstd)
    np.subtract(x, mean[:, :, None], out=out)
    out *= rstd[:, :, None]
    out *= w
    out += b


@wrong("layernorm_forward", says="`np.zeros((B, T, C))` makes a float64 array: dtype= is missing")
def forward_in_arrays_of_float64(x, w, b, eps=1e-5):
    B, T, C = x.shape
    out = np.zeros((B, T, C))
    mean = np.zeros((B, T))
    rstd = np.zeros((B, T))
    for pos in np.ndindex(B, T):
        row = x[pos]
        mean[pos] = np.sum(row) / C
        rstd[pos] = 1 / np.sqrt(np.sum((row - mean[pos]) ** 2) / C + eps)
        out[pos] = w * (row - mean[pos]) * rstd[pos] + b
    return out, mean, rstd


@wrong("layernorm_forward", says="for such rows around 0, too: so not for lack of digits. What is new in this call")
def forward_with_the_variance_of_40_channels(x, w, b, eps=1e-5):
    mean = x.mean(axis=-1)
    d = x - mean[..., None]
    variance = (d[..., :40] ** 2).sum(-1) / x.shape[-1]
    rstd = 1 / np.sqrt(variance + eps)
    return d * rstd[..., None] * w + b, mean, rstd


@wrong("layernorm_backward_accumulate", says="what db held was multiplied by 0.9, and must stay as it is")
def accumulate_and_let_db_fade(dx, dw, db, dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dnorm = dout * w
    dx += (dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd[..., None]
    dw += (dout * norm).sum(axis=(0, 1))
    db[:] = 0.9 * db + dout.sum(axis=(0, 1))


@wrong("fast_layernorm_forward", says="holds one number at all indices of axis 1, and each should have its own")
def fast_with_one_variance_for_a_sequence(out, mean, rstd, x, w, b, eps=1e-5):
    B, T, C = x.shape
    for i in range(B):
        rows = out[i]
        np.mean(x[i], axis=1, out=mean[i])
        np.subtract(x[i], mean[i][:, None], out=rows)
        variance = np.vdot(rows, rows) / rows.size
        rstd[i] = 1 / np.sqrt(variance + eps)
        rows *= rstd[i][:, None]
        rows *= w
        rows += b


@wrong("layernorm_backward", says="the reference with half of the norm · mean(dnorm · norm) term")
def backward_without_the_2_of_the_square(dout, x, w, mean, rstd):
    C = x.shape[-1]
    mu, r = mean[..., None], rstd[..., None]
    centred = x - mu
    dw = np.einsum("btc,btc->c", dout, centred * r)
    db = np.einsum("btc->c", dout)

    dnorm = dout * w
    # norm = centred * r, so r gets a gradient, and so does the variance behind it
    drstd = (dnorm * centred).sum(axis=-1, keepdims=True)
    dvar = drstd * (-0.5) * r**3
    dcentred = dnorm * r + dvar * centred / C
    dx = dcentred - dcentred.mean(axis=-1, keepdims=True)
    return dx, dw, db


@wrong("layernorm_backward_accumulate", says="behind the line `dw += grad * norm`.\n→")
def accumulate_dw_of_a_scaled_copy(dx, dw, db, dout, x, w, mean, rstd):
    B, T, C = x.shape
    for b in range(B):
        for t in range(T):
            grad = dout[b, t].copy()
            db += grad
            grad *= w
            norm = rstd[b, t] * (x[b, t] - mean[b, t])
            dw += grad * norm
            dx[b, t] += rstd[b, t] * (grad - grad.mean() - norm * np.dot(grad, norm) / C)


@wrong("layernorm_backward", says="with a sum over C in place of mean(dnorm · norm): the variance is a mean")
def backward_of_a_variance_without_its_mean(dout, x, w, mean, rstd):
    C = x.shape[-1]
    r = rstd[..., np.newaxis]
    centred = x - mean[..., np.newaxis]
    db = dout.sum(axis=(0, 1))
    dw = (dout * centred * r).sum(axis=(0, 1))

    # through norm, then variance, then mean
    dnorm = dout * w
    dvar = np.sum(dnorm * centred, axis=-1, keepdims=True) * -0.5 * r**3
    dmean = -np.sum(dnorm * r, axis=-1, keepdims=True)
    dx = dnorm * r + dvar * 2 * centred + dmean / C
    return dx, dw, db


@wrong("layernorm_backward", says="which is not quite C, because of eps.\n→ Where")
def backward_over_the_length_of_norm(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]
    dw, db = (dout * norm).sum(axis=(0, 1)), dout.sum(axis=(0, 1))
    dnorm = dout * w
    flat = dnorm - dnorm.mean(axis=-1, keepdims=True)  # without its part along (1, ..., 1)
    along = (flat * norm).sum(axis=-1, keepdims=True) / (norm * norm).sum(axis=-1, keepdims=True)
    dx = (flat - along * norm) * rstd[..., None]  # without its part along norm
    return dx, dw, db


@wrong("fast_layernorm_forward", says="rstd equals the reference with x² in place of (x - mean)²")
def fast_with_plain_squares(out, mean, rstd, x, w, b, eps=1e-5):
    B, T, C = x.shape
    one = np.full(C, 1 / C, dtype=x.dtype)
    np.matmul(x, one, out=mean)
    rows = x.reshape(B * T, C)
    total = np.array([np.dot(row, row) for row in rows]).reshape(B, T)
    rstd[:] = (total / C + eps) ** -0.5
    np.subtract(x, mean[:, :, None], out=out)
    out *= rstd[:, :, None]
    out *= w
    out += b


@wrong("layernorm_backward_accumulate", says="equals what belongs in dw")
def accumulate_dw_in_the_place_of_db(dx, dw, db, dout, x, w, mean, rstd):
    def gradients():
        norm = (x - mean[..., None]) * rstd[..., None]
        grad_b = dout.sum(axis=(0, 1))
        grad_w = (dout * norm).sum(axis=(0, 1))
        dnorm = dout * w
        a = dnorm.mean(axis=-1, keepdims=True)
        c = (dnorm * norm).mean(axis=-1, keepdims=True)
        grad_x = (dnorm - a - norm * c) * rstd[..., None]
        return grad_x, grad_b, grad_w

    for buffer, gradient in zip((dx, dw, db), gradients()):
        buffer += gradient


@wrong("layernorm_backward_recompute", says="or the reference with norm = out - b: not divided by w")
def recompute_with_w_left_in_dw(dout, out, w, b, rstd):
    xhat = (out - b) / w
    db = dout.sum((0, 1))
    dw = (dout * (out - b)).sum((0, 1))
    dn = dout * w
    dx = rstd[..., None] * (dn - dn.mean(-1, keepdims=True) - xhat * (dn * xhat).mean(-1, keepdims=True))
    return dx, dw, db
