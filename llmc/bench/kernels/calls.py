"""A call of each function that VERSIONS of llmc/kernels/<layer>.py names, of given sizes: make(sizes, numbers) -> Case.

Bytes: every input read once, every output written once, what is added to both read and written. Operations: the
additions, multiplications, divisions and exponentials that the result needs, one each. A kernel that does more, because
it reads twice or computes something again, is slower for it and gets no credit.
"""

import numpy as np

from llmc.backends import reference
from llmc.bench.kernels.cases import Case
from llmc.kernels import attention


def _dims(*sizes) -> str:
    return f"({', '.join(map(str, sizes))})"


def encoder_forward(s, r):
    tokens, n = r.tokens(s), s.B * s.T * s.C
    arguments = r.nans(s.B, s.T, s.C), tokens, r.normal(s.V, s.C), r.normal(s.T, s.C)
    return Case(_dims(s.B, s.T, s.C), arguments, (0,), 8 * n + 4 * s.T * s.C, n)


def encoder_backward(s, r):
    tokens, n = r.tokens(s), s.B * s.T * s.C
    arguments = r.normal(s.V, s.C), r.normal(s.T, s.C), r.normal(s.B, s.T, s.C), tokens
    return Case(_dims(s.B, s.T, s.C), arguments, (0, 1), 12 * n + 8 * s.T * s.C, 2 * n)


def softmax_forward(s, r):
    x, n = r.normal(s.B, s.T, s.C), s.B * s.T * s.C
    return Case(_dims(s.B, s.T, s.C), (r.nans(*x.shape), x), (0,), 8 * n, 5 * n, _softmax)


def _softmax(out, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))  # (B, T, C)
    out[...] = e / e.sum(axis=-1, keepdims=True)  # (B, T, C)


def layernorm_forward(s, r):
    n, N = s.B * s.T * s.C, s.B * s.T
    arrays = r.nans(s.B, s.T, s.C), r.nans(s.B, s.T), r.nans(s.B, s.T), r.normal(s.B, s.T, s.C)
    return Case(_dims(s.B, s.T, s.C), (*arrays, r.normal(s.C), r.normal(s.C)), (0, 1, 2), 8 * n + 8 * N, 8 * n)


def residual_layernorm_forward(s, r):
    n, N = s.B * s.T * s.C, s.B * s.T
    outputs = *(r.nans(s.B, s.T, s.C) for _ in range(2)), *(r.nans(s.B, s.T) for _ in range(2))
    inputs = *(r.normal(s.B, s.T, s.C) for _ in range(2)), r.normal(s.C), r.normal(s.C)
    return Case(_dims(s.B, s.T, s.C), (*outputs, *inputs), (0, 1, 2, 3), 16 * n + 8 * N, 9 * n)


def layernorm_backward(s, r):
    n, N = s.B * s.T * s.C, s.B * s.T
    gradients = r.normal(s.B, s.T, s.C), r.normal(s.C), r.normal(s.C)
    kept = r.normal(s.B, s.T), abs(r.normal(s.B, s.T)) + 0.5  # mean, rstd (B, T) both; any will do
    arguments = *gradients, r.normal(s.B, s.T, s.C), r.normal(s.B, s.T, s.C), r.normal(s.C), *kept
    return Case(_dims(s.B, s.T, s.C), arguments, (0, 1, 2), 16 * n + 8 * N, 14 * n)


def residual_forward(s, r):
    shape, n = (s.B, s.T, s.C), s.B * s.T * s.C
    return Case(_dims(*shape), (r.nans(*shape), r.normal(*shape), r.normal(*shape)), (0,), 12 * n, n)


def gelu_forward(s, r):
    shape, n = (s.B, s.T, 4 * s.C), s.B * s.T * 4 * s.C
    return Case(_dims(*shape), (r.nans(*shape), r.normal(*shape)), (0,), 8 * n, 9 * n)


def gelu_backward(s, r):
    shape, n = (s.B, s.T, 4 * s.C), s.B * s.T * 4 * s.C
    return Case(_dims(*shape), (r.nans(*shape), r.normal(*shape), r.normal(*shape)), (0,), 12 * n, 18 * n)


def _linear(s):
    """(what it is called, N, C_in, C_out, 4 bytes of x, of w, of out) of the first linear layer of the MLP."""
    N, C_in, C_out = s.B * s.T, s.C, 4 * s.C
    name = f"({N}, {C_in}) x ({C_in}, {C_out})"
    return name, N, C_in, C_out, 4 * N * C_in, 4 * C_in * C_out, 4 * N * C_out


def matmul_forward(s, r):
    name, N, C_in, C_out, x, w, out = _linear(s)
    arguments = r.nans(1, N, C_out), r.normal(1, N, C_in), r.normal(C_out, C_in), r.normal(C_out)
    return Case(name, arguments, (0,), x + w + out, 2 * N * C_in * C_out)


def matmul_gelu_forward(s, r):
    name, N, C_in, C_out, x, w, out = _linear(s)
    arguments = *(r.nans(1, N, C_out) for _ in range(2)), r.normal(1, N, C_in), r.normal(C_out, C_in), r.normal(C_out)
    return Case(name, arguments, (0, 1), x + w + 2 * out, 2 * N * C_in * C_out)


def matmul_backward(s, r):
    name, N, C_in, C_out, x, w, out = _linear(s)
    gradients = r.nans(1, N, C_in), r.normal(C_out, C_in), r.normal(C_out)
    arguments = *gradients, r.normal(1, N, C_out), r.normal(1, N, C_in), r.normal(C_out, C_in)
    return Case(name, arguments, (0, 1, 2), out + 2 * x + 3 * w, 4 * N * C_in * C_out)


def _heads(s):
    """(what it is called, how many numbers (B, T, C) has, operations of one product for all pairs in one triangle)."""
    name = f"B={s.B} T={s.T} NH={s.NH} hs={s.C // s.NH}"
    return name, s.B * s.T * s.C, s.B * s.T * (s.T + 1) // 2 * s.C * 2


def attention_forward(s, r):
    name, n, product = _heads(s)
    arguments = r.nans(s.B, s.T, s.C), r.nans(s.B, s.NH, s.T), r.normal(s.B, s.T, 3 * s.C), s.NH
    return Case(name, arguments, (0, 1), 16 * n + 4 * s.B * s.NH * s.T, 2 * product, _attention)


def _attention(out, stats, qkv, NH):
    """out and the logarithm of the sum of exponentials, stats (B, NH, T)."""
    B, T, C = out.shape
    q, k, v = qkv.reshape(B, T, 3, NH, C // NH).transpose(2, 0, 3, 1, 4)  # (B, NH, T, hs) each
    scores = q @ k.swapaxes(-1, -2) * (C // NH) ** -0.5  # (B, NH, T, T)
    scores[..., np.triu(np.ones((T, T), bool), 1)] = -np.inf  # the future
    top = scores.max(axis=-1)  # (B, NH, T)
    p = np.exp(scores - top[..., None])  # (B, NH, T, T)
    stats[...] = top + np.log(p.sum(axis=-1))  # (B, NH, T)
    p /= p.sum(axis=-1, keepdims=True)  # (B, NH, T, T)
    out[...] = (p @ v).transpose(0, 2, 1, 3).reshape(B, T, C)  # (B, T, C)
    return p


def attention_backward(s, r):
    """out and stats are those of qkv: the forward kernel makes them."""
    name, n, product = _heads(s)
    qkv, out, stats = r.normal(s.B, s.T, 3 * s.C), r.nans(s.B, s.T, s.C), r.nans(s.B, s.NH, s.T)
    attention.attention_forward(out, stats, qkv, s.NH)
    arguments = r.nans(s.B, s.T, 3 * s.C), r.normal(s.B, s.T, s.C), out, stats, qkv, s.NH
    return Case(name, arguments, (0,), 32 * n + 4 * s.B * s.NH * s.T, 5 * product, _attention_backward)


def _attention_backward(dqkv, dout, out, stats, qkv, NH):
    mine, sums = np.empty_like(out), np.empty(stats.shape, out.dtype)  # (B, T, C), (B, NH, T)
    reference.attention_backward(dqkv, dout, mine, _attention(mine, sums, qkv, NH), qkv, NH)


def attention_cached(s, r):
    """One new token behind T - 1 others, as in sampling."""
    name, n, _ = _heads(s)
    cache = r.normal(2, s.B, s.NH, s.T, s.C // s.NH)
    arguments = r.nans(s.B, 1, s.C), cache, r.normal(s.B, 1, 3 * s.C), s.NH, s.T - 1
    return Case(f"{name}, one query", arguments, (0, 1), 8 * n, 4 * n)


def fused_classifier(s, r):
    logits, n = r.normal(s.B, s.T, s.Vp), s.B * s.T * s.V
    arguments = r.nans(s.B, s.T), logits, r.tokens(s), 1.0 / (s.B * s.T), s.V
    return Case(_dims(s.B, s.T, s.Vp), arguments, (0, 1), 4 * n + 4 * logits.size, 8 * n)


def global_norm(s, r):
    return Case(_dims(s.parameters), (r.normal(s.parameters),), (), 4 * s.parameters, 2 * s.parameters)


def scale(s, r):
    """By -1, so that many calls in a row leave the numbers as large as they are."""
    return Case(_dims(s.parameters), (r.normal(s.parameters), -1.0), (0,), 8 * s.parameters, s.parameters)


def adamw_update(s, r):
    n = s.parameters
    arrays = r.normal(n), r.normal(n), r.normal(n), abs(r.normal(n))  # params, grads, m, v
    return Case(_dims(n), (*arrays, 1e-4, 0.9, 0.95, 1e-8, 0.1, 3), (0, 2, 3), 28 * n, 15 * n)


MAKERS = {  # by the name that VERSIONS of llmc/kernels/<layer>.py has for it
    make.__name__: make
    for make in (
        *(encoder_forward, encoder_backward, layernorm_forward, residual_layernorm_forward, layernorm_backward),
        *(softmax_forward, residual_forward, gelu_forward, gelu_backward),
        *(matmul_forward, matmul_gelu_forward, matmul_backward),
        *(attention_forward, attention_backward, attention_cached, fused_classifier),
        *(global_norm, scale, adamw_update),
    )
}
