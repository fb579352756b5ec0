"""Makes a call of given sizes for each function in VERSIONS of llmc/kernels/<layer>.py: make(sizes, numbers) -> Case.

Bytes: every input is read once and every output written once; arrays that are added to are both read and written.
Operations: the additions, multiplications, divisions and exponentials that the result needs, each counted as one. A
kernel that does more, because it reads or computes something twice, is slower and gets no credit for that.
"""

import numpy as np

from llmc.backends import reference
from llmc.bench.kernels.cases import Case
from llmc.kernels import attention


def _dims(*sizes) -> str:
    return f"({', '.join(map(str, sizes))})"


def encoder_forward(s, r):
    shape, n = (s.B, s.T, s.C), s.B * s.T * s.C
    arguments = dict(out=r.nans(*shape), tokens=r.tokens(s), wte=r.normal(s.V, s.C), wpe=r.normal(s.T, s.C))
    return Case(_dims(*shape), arguments, written=["out"], nbytes=8 * n + 4 * s.T * s.C, flops=n)


def encoder_backward(s, r):
    shape, n = (s.B, s.T, s.C), s.B * s.T * s.C
    arguments = dict(dwte=r.normal(s.V, s.C), dwpe=r.normal(s.T, s.C), dout=r.normal(*shape), tokens=r.tokens(s))
    return Case(_dims(*shape), arguments, written=["dwte", "dwpe"], nbytes=12 * n + 8 * s.T * s.C, flops=2 * n)


def softmax_forward(s, r):
    shape, n = (s.B, s.T, s.C), s.B * s.T * s.C
    arguments = dict(out=r.nans(*shape), x=r.normal(*shape))
    return Case(_dims(*shape), arguments, written=["out"], nbytes=8 * n, flops=5 * n, expected=_softmax)


def _softmax(out, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))  # (B, T, C)
    out[...] = e / e.sum(axis=-1, keepdims=True)  # (B, T, C)


def layernorm_forward(s, r):
    shape, n, N = (s.B, s.T, s.C), s.B * s.T * s.C, s.B * s.T
    arguments = dict(out=r.nans(*shape), mean=r.nans(s.B, s.T), rstd=r.nans(s.B, s.T))
    arguments |= dict(x=r.normal(*shape), w=r.normal(s.C), b=r.normal(s.C))
    return Case(_dims(*shape), arguments, written=["out", "mean", "rstd"], nbytes=8 * n + 8 * N, flops=8 * n)


def residual_layernorm_forward(s, r):
    shape, n, N = (s.B, s.T, s.C), s.B * s.T * s.C, s.B * s.T
    outputs = dict(residual=r.nans(*shape), out=r.nans(*shape), mean=r.nans(s.B, s.T), rstd=r.nans(s.B, s.T))
    inputs = dict(x1=r.normal(*shape), x2=r.normal(*shape), w=r.normal(s.C), b=r.normal(s.C))
    return Case(_dims(*shape), outputs | inputs, written=[*outputs], nbytes=16 * n + 8 * N, flops=9 * n)


def layernorm_backward(s, r):
    shape, n, N = (s.B, s.T, s.C), s.B * s.T * s.C, s.B * s.T
    gradients = dict(dx=r.normal(*shape), dw=r.normal(s.C), db=r.normal(s.C))
    inputs = dict(dout=r.normal(*shape), x=r.normal(*shape), w=r.normal(s.C))
    stats = dict(mean=r.normal(s.B, s.T), rstd=abs(r.normal(s.B, s.T)) + 0.5)  # any will do
    return Case(_dims(*shape), gradients | inputs | stats, written=[*gradients], nbytes=16 * n + 8 * N, flops=14 * n)


def bias_backward(s, r):
    N, C = s.B * s.T, 4 * s.C
    arguments = dict(db=r.normal(C), dout=r.normal(s.B, s.T, C))
    name = _dims(s.B, s.T, C)
    return Case(name, arguments, written=["db"], nbytes=4 * N * C + 8 * C, flops=N * C, expected=_bias_backward)


def _bias_backward(db, dout):
    db += dout.sum(axis=(0, 1))  # (4C,)


def residual_forward(s, r):
    shape, n = (s.B, s.T, s.C), s.B * s.T * s.C
    arguments = dict(out=r.nans(*shape), x1=r.normal(*shape), x2=r.normal(*shape))
    return Case(_dims(*shape), arguments, written=["out"], nbytes=12 * n, flops=n)


def gelu_forward(s, r):
    shape, n = (s.B, s.T, 4 * s.C), s.B * s.T * 4 * s.C
    arguments = dict(out=r.nans(*shape), x=r.normal(*shape))
    return Case(_dims(*shape), arguments, written=["out"], nbytes=8 * n, flops=9 * n)


def gelu_backward(s, r):
    shape, n = (s.B, s.T, 4 * s.C), s.B * s.T * 4 * s.C
    arguments = dict(dx=r.nans(*shape), dout=r.normal(*shape), x=r.normal(*shape))
    return Case(_dims(*shape), arguments, written=["dx"], nbytes=12 * n, flops=18 * n)


def _linear(s):
    """(its name, N, C_in, C_out, bytes of x, of w, of out) of the first linear layer of the MLP."""
    N, C_in, C_out = s.B * s.T, s.C, 4 * s.C
    name = f"({N}, {C_in}) x ({C_in}, {C_out})"
    return name, N, C_in, C_out, 4 * N * C_in, 4 * C_in * C_out, 4 * N * C_out


def matmul_forward(s, r):
    name, N, C_in, C_out, x, w, out = _linear(s)
    arguments = dict(out=r.nans(1, N, C_out), x=r.normal(1, N, C_in), w=r.normal(C_out, C_in), b=r.normal(C_out))
    return Case(name, arguments, written=["out"], nbytes=x + w + out, flops=2 * N * C_in * C_out)


def matmul_gelu_forward(s, r):
    name, N, C_in, C_out, x, w, out = _linear(s)
    outputs = dict(gelu_out=r.nans(1, N, C_out), out=r.nans(1, N, C_out))
    inputs = dict(x=r.normal(1, N, C_in), w=r.normal(C_out, C_in), b=r.normal(C_out))
    return Case(name, outputs | inputs, written=[*outputs], nbytes=x + w + 2 * out, flops=2 * N * C_in * C_out)


def matmul_backward(s, r):
    name, N, C_in, C_out, x, w, out = _linear(s)
    gradients = dict(dx=r.nans(1, N, C_in), dw=r.normal(C_out, C_in), db=r.normal(C_out))
    inputs = dict(dout=r.normal(1, N, C_out), x=r.normal(1, N, C_in), w=r.normal(C_out, C_in))
    return Case(name, gradients | inputs, written=[*gradients], nbytes=out + 2 * x + 3 * w, flops=4 * N * C_in * C_out)


def _heads(s):
    """(its name, how many numbers (B, T, C) has, operations of one product for all pairs in one triangle)."""
    name = f"B={s.B} T={s.T} NH={s.NH} hs={s.C // s.NH}"
    return name, s.B * s.T * s.C, s.B * s.T * (s.T + 1) // 2 * s.C * 2


def attention_forward(s, r):
    name, n, product = _heads(s)
    arguments = dict(out=r.nans(s.B, s.T, s.C), stats=r.nans(s.B, s.NH, s.T), qkv=r.normal(s.B, s.T, 3 * s.C), NH=s.NH)
    least = dict(nbytes=16 * n + 4 * s.B * s.NH * s.T, flops=2 * product)
    return Case(name, arguments, written=["out", "stats"], **least, expected=_attention)


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
    arguments = dict(dqkv=r.nans(s.B, s.T, 3 * s.C), dout=r.normal(s.B, s.T, s.C))
    arguments |= dict(out=out, stats=stats, qkv=qkv, NH=s.NH)
    least = dict(nbytes=32 * n + 4 * s.B * s.NH * s.T, flops=5 * product)
    return Case(name, arguments, written=["dqkv"], **least, expected=_attention_backward)


def _attention_backward(dqkv, dout, out, stats, qkv, NH):
    mine, sums = np.empty_like(out), np.empty(stats.shape, out.dtype)  # (B, T, C), (B, NH, T)
    reference.attention_backward(dqkv, dout, mine, _attention(mine, sums, qkv, NH), qkv, NH)


def attention_cached(s, r):
    """One new token after T - 1 others, as in sampling."""
    name, n, _ = _heads(s)
    cache = r.normal(2, s.B, s.NH, s.T, s.C // s.NH)
    arguments = dict(out=r.nans(s.B, 1, s.C), cache=cache, qkv=r.normal(s.B, 1, 3 * s.C), NH=s.NH, start=s.T - 1)
    return Case(f"{name}, one query", arguments, written=["out", "cache"], nbytes=8 * n, flops=4 * n)


def fused_classifier(s, r):
    shape, n = (s.B, s.T, s.Vp), s.B * s.T * s.V
    arguments = dict(losses=r.nans(s.B, s.T), logits=r.normal(*shape), targets=r.tokens(s))
    arguments |= dict(dloss=1.0 / (s.B * s.T), V=s.V)
    written, nbytes = ["losses", "logits"], 4 * n + 4 * s.B * s.T * s.Vp
    return Case(_dims(*shape), arguments, written=written, nbytes=nbytes, flops=8 * n)


def global_norm(s, r):
    n = s.parameters
    return Case(_dims(n), dict(grads=r.normal(n)), written=[], nbytes=4 * n, flops=2 * n)


def scale(s, r):
    """Scale by -1, so that many calls in a row do not change how large the numbers are."""
    n = s.parameters
    return Case(_dims(n), dict(grads=r.normal(n), factor=-1.0), written=["grads"], nbytes=8 * n, flops=n)


def adamw_update(s, r):
    n = s.parameters
    arguments = dict(params=r.normal(n), grads=r.normal(n), m=r.normal(n), v=abs(r.normal(n)))
    arguments |= dict(lr=1e-4, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, t=3)
    return Case(_dims(n), arguments, written=["params", "m", "v"], nbytes=28 * n, flops=15 * n)


def adamw_update_by(s, r):
    n, xp = s.parameters, r.xp
    arguments = dict(params=r.normal(n), grads=r.normal(n), m=r.normal(n), v=abs(r.normal(n)))
    arguments["settings"] = xp.asarray(np.float32([1e-4, 3.0, 0.1, 0.05, 1e-8, 0.99999, 0.5]))  # see adamw.settings
    written = ["params", "m", "v"]
    return Case(_dims(n), arguments, written=written, nbytes=28 * n, flops=16 * n, expected=_adamw_by)


def _adamw_by(params, grads, m, v, settings):
    step, root, rate1, rate2, eps, keep, factor = settings
    m += rate1 * (factor * grads - m)
    v += rate2 * ((factor * grads) ** 2 - v)
    params[...] = keep * params - step * m / (np.sqrt(v) * root + eps)


MAKERS = {  # by the name that VERSIONS of llmc/kernels/<layer>.py has for it
    make.__name__: make
    for make in (
        *(encoder_forward, encoder_backward, layernorm_forward, residual_layernorm_forward, layernorm_backward),
        *(bias_backward, softmax_forward, residual_forward, gelu_forward, gelu_backward),
        *(matmul_forward, matmul_gelu_forward, matmul_backward),
        *(attention_forward, attention_backward, attention_cached, fused_classifier),
        *(global_norm, scale, adamw_update, adamw_update_by),
    )
}


def computes(function) -> bool:
    """Whether a function is bound by arithmetic; such functions are timed at B=8."""
    return "matmul" in function or "attention" in function
