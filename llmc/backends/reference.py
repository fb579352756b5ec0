"""The "numpy" backend: every layer of GPT-2, forward and backward, in plain NumPy. The one to read first.

Formulas are those of the lessons; the vocabulary is llm.c's (train_gpt2.c). Shapes, and the rules of what is written
and what accumulates, are in the contract, `llmc/backends/contract.py`, which has defaults for what is not here. It
works in float32 and in float64.

It allocates temporaries freely, for the sake of readable lines; matmuls go to BLAS.
"""

from functools import lru_cache
from math import pi, sqrt

import numpy as np

EPS = 1e-5  # added to the variance, so that a constant row does not divide by zero
GELU_SCALE = sqrt(2.0 / pi)
GELU_CUBIC = 0.044715
CHUNK = 1 << 16  # elements that AdamW handles at a time: four arrays of this size stay in cache


# ---------------------------------------------------------------------------------------------------- encoder


def encoder_forward(out, tokens, wte, wpe):
    """Token embedding plus position embedding."""
    T = tokens.shape[1]
    np.take(wte, tokens, axis=0, out=out)  # (B, T, C)
    out += wpe[:T]  # (T, C) over the batch


def encoder_backward(dwte, dwpe, dout, tokens):
    """Scatter-add: sort the rows by token, sum each run of equal tokens, add each sum once.

    For a token that is repeated, `dwte[tokens] += dout` would keep only one of its rows.
    """
    B, T, C = dout.shape
    dwpe[:T] += dout.sum(axis=0)  # (T, C)
    flat = tokens.reshape(-1)  # (B*T,)
    order = np.argsort(flat, kind="stable")  # (B*T,)
    found, starts = np.unique(flat[order], return_index=True)  # (distinct,) each
    rows = dout.reshape(B * T, C)[order]  # (B*T, C)
    dwte[found] += np.add.reduceat(rows, starts, axis=0)  # (distinct, C)


# -------------------------------------------------------------------------------------- layernorm and residual


def layernorm_forward(out, mean, rstd, x, w, b):
    """norm = (x - mean) · rstd; out = norm · w + b (Ba, Kiros & Hinton 2016)."""
    mean[...] = x.mean(axis=-1)  # (B, T)
    centred = x - mean[..., None]  # (B, T, C)
    variance = np.square(centred).mean(axis=-1)  # (B, T); from the centred rows: E[x²] - E[x]² cancels
    rstd[...] = 1.0 / np.sqrt(variance + EPS)  # (B, T)
    np.multiply(centred, rstd[..., None], out=out)  # (B, T, C)
    out *= w  # (C,)
    out += b  # (C,)


def layernorm_backward(dx, dw, db, dout, x, w, mean, rstd):
    """dx += rstd · (dnorm - mean(dnorm) - norm · mean(dnorm · norm)); lesson 01 derives it."""
    C = x.shape[-1]
    norm = (x - mean[..., None]) * rstd[..., None]  # (B, T, C)
    dnorm = dout * w  # (B, T, C)
    db += dout.reshape(-1, C).sum(axis=0)  # (C,)
    dw += (dout * norm).reshape(-1, C).sum(axis=0)  # (C,)
    through_mean = dnorm.mean(axis=-1, keepdims=True)  # (B, T, 1)
    through_rstd = (dnorm * norm).mean(axis=-1, keepdims=True)  # (B, T, 1)
    dx += (dnorm - through_mean - norm * through_rstd) * rstd[..., None]  # (B, T, C)


def residual_forward(out, x1, x2):
    """The residual stream: out = x1 + x2."""
    np.add(x1, x2, out=out)  # (B, T, C)


def residual_layernorm_forward(residual, out, mean, rstd, x1, x2, w, b):
    """Residual addition, then layernorm."""
    residual_forward(residual, x1, x2)  # (B, T, C)
    layernorm_forward(out, mean, rstd, residual, w, b)  # (B, T, C)


# ------------------------------------------------------------------------------------------- matmul and GELU


def matmul_forward(out, x, w, b):
    """out = x · wᵀ + b, with all B·T rows as one matrix."""
    C_out, C_in = w.shape
    np.matmul(x.reshape(-1, C_in), w.T, out=out.reshape(-1, C_out))  # (B*T, C_out)
    if b is not None:
        out += b  # (C_out,)


def matmul_gelu_forward(gelu_out, out, x, w, b):
    """Matmul, then GELU."""
    matmul_forward(out, x, w, b)  # (B, T, C_out)
    gelu_forward(gelu_out, out)  # (B, T, C_out)


def matmul_backward(dx, dw, db, dout, x, w):
    """dx = dout · w; dw += doutᵀ · x; db += column sums of dout."""
    C_out, C_in = w.shape
    dout = dout.reshape(-1, C_out)  # (B*T, C_out)
    if dx is not None:
        np.matmul(dout, w, out=dx.reshape(-1, C_in))  # (B*T, C_in)
    dw += dout.T @ x.reshape(-1, C_in)  # (C_out, C_in)
    if db is not None:
        db += dout.sum(axis=0)  # (C_out,)


def gelu_forward(out, x):
    """0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) (Hendrycks & Gimpel 2016, the tanh form)."""
    inner = x * x  # any shape, like all below
    inner *= GELU_CUBIC
    inner += 1.0
    inner *= x
    inner *= GELU_SCALE
    np.tanh(inner, out=inner)
    inner += 1.0
    np.multiply(x, inner, out=out)
    out *= 0.5


def gelu_backward(dx, dout, x):
    """Product rule on x · (1 + tanh(u)) / 2, with tanh' = 1 - tanh²."""
    squared = x * x  # any shape, like all below
    tanh = np.tanh(GELU_SCALE * x * (1.0 + GELU_CUBIC * squared))
    slope = GELU_SCALE * (1.0 + 3.0 * GELU_CUBIC * squared)  # du/dx
    np.multiply(dout, 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * slope, out=dx)


# -------------------------------------------------------------------------------------------------- attention


def attention_stats_shape(B, T, NH):
    """This backend keeps the attention probabilities themselves: (B, NH, T, T)."""
    return (B, NH, T, T)


def _heads(array, parts, NH):
    """(B, T, parts·C) -> `parts` views (B, NH, T, hs), no copy; parts = 3 splits q, k, v."""
    B, T, width = array.shape
    split = array.reshape(B, T, parts, NH, width // (parts * NH))  # (B, T, parts, NH, hs)
    return split.transpose(2, 0, 3, 1, 4)  # (parts, B, NH, T, hs)


@lru_cache(maxsize=8)
def _future(T, dtype):
    """(T, T): -inf where a query (row) would see a later key (column), else 0."""
    return np.triu(np.full((T, T), -np.inf, dtype), k=1)


def attention_forward(out, stats, qkv, NH):
    """softmax(q · kᵀ / √hs + causal mask) · v per head (Vaswani et al. 2017); stats keeps the probabilities."""
    q, k, v = _heads(qkv, 3, NH)  # (B, NH, T, hs) each
    T, hs = q.shape[-2:]
    np.matmul(q, k.swapaxes(-1, -2), out=stats)  # (B, NH, T, T)
    stats *= hs**-0.5
    stats += _future(T, stats.dtype)  # (T, T)
    stats -= stats.max(axis=-1, keepdims=True)  # (B, NH, T, 1): exp never overflows
    np.exp(stats, out=stats)
    stats /= stats.sum(axis=-1, keepdims=True)  # (B, NH, T, 1)
    _heads(out, 1, NH)[0][...] = stats @ v  # (B, NH, T, hs)


def attention_backward(dqkv, dout, out, stats, qkv, NH):
    """Backward through out = p·v, p = softmax(s), s = q·kᵀ/√hs; lesson 06 derives it."""
    q, k, v = _heads(qkv, 3, NH)  # (B, NH, T, hs) each
    dq, dk, dv = _heads(dqkv, 3, NH)  # (B, NH, T, hs) each
    do, o = _heads(dout, 1, NH)[0], _heads(out, 1, NH)[0]  # (B, NH, T, hs) each
    p = stats  # (B, NH, T, T)
    dv[...] = p.swapaxes(-1, -2) @ do  # (B, NH, T, hs)
    ds = do @ v.swapaxes(-1, -2)  # (B, NH, T, T), dp so far
    ds -= (do * o).sum(axis=-1, keepdims=True)  # (B, NH, T, 1): equals the row sum of dp · p, but shorter
    ds *= p  # masked positions have p = 0 and so no gradient
    ds *= q.shape[-1] ** -0.5
    dq[...] = ds @ k  # (B, NH, T, hs)
    dk[...] = ds.swapaxes(-1, -2) @ q  # (B, NH, T, hs)


def attention_cached(out, cache, qkv, NH, start):
    """attention_forward for the positions start … start + n - 1 only: earlier keys and values come from the cache."""
    q, k, v = _heads(qkv, 3, NH)  # (B, NH, n, hs) each
    n, hs = q.shape[-2:]
    end = start + n
    cache[0, :, :, start:end], cache[1, :, :, start:end] = k, v  # both (B, NH, n, hs)
    keys, values = cache[:, :, :, :end]  # both (B, NH, end, hs)
    scores = q @ keys.swapaxes(-1, -2) * hs**-0.5  # (B, NH, n, end)
    if n > 1:  # a single query is at the last position and sees all keys
        scores += _future(end, scores.dtype)[start:]  # (n, end)
    scores -= scores.max(axis=-1, keepdims=True)  # (B, NH, n, 1)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)  # (B, NH, n, 1)
    _heads(out, 1, NH)[0][...] = scores @ values  # (B, NH, n, hs)


# ------------------------------------------------------------------------------------- loss and optimizer


def fused_classifier(losses, logits, targets, dloss, V):
    """Softmax, cross-entropy and (p - onehot) · dloss in one go, in place of the logits."""
    z = logits[..., :V]  # (B, T, V), a view: the padding takes no part
    index = targets[..., None]  # (B, T, 1)
    peak = z.max(axis=-1, keepdims=True)  # (B, T, 1)
    at_target = np.take_along_axis(z, index, axis=-1) - peak  # (B, T, 1)
    p = np.subtract(z, peak, out=None if dloss is None else z)  # (B, T, V)
    np.exp(p, out=p)
    total = p.sum(axis=-1, keepdims=True)  # (B, T, 1)
    losses[...] = (np.log(total) - at_target)[..., 0]  # (B, T)
    if dloss is not None:
        p *= dloss / total
        np.put_along_axis(p, index, np.take_along_axis(p, index, axis=-1) - dloss, axis=-1)
        logits[..., V:] = 0


def _chunks(n):
    """Slices that cover n elements, CHUNK at a time."""
    return (slice(start, start + CHUNK) for start in range(0, n, CHUNK))


def global_norm(grads):
    """√(sum of squares). The chunks' sums are added in double precision: a long float32 sum would lose small terms."""
    return float(np.sqrt(sum(float(np.dot(grads[c], grads[c])) for c in _chunks(grads.size))))


def scale(grads, factor):
    """Multiply in place."""
    grads *= factor


def adamw_update(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t, clear=False):
    """AdamW: weight decay, apart from the Adam step; lesson 09 derives it."""
    step = lr / (1.0 - beta1**t)  # bias corrections, folded into two scalars
    root = (1.0 - beta2**t) ** -0.5
    for c in _chunks(params.size):
        p, g, mc, vc = params[c], grads[c], m[c], v[c]  # (≤ CHUNK,) views
        mc += (1.0 - beta1) * (g - mc)
        vc += (1.0 - beta2) * (g * g - vc)
        p *= 1.0 - lr * weight_decay
        p -= step * mc / (np.sqrt(vc) * root + eps)
        if clear:
            g[...] = 0
