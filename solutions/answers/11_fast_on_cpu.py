"""Answers to the exercises of lesson 11 as strangers write them, with words that wrong ones must get."""

import math

import numpy as np
from numba import njit, prange

from llmc.course.authoring.answers import right, wrong

f32 = np.float32


@right("residual_layernorm_cost")
def cost_array_by_array(N, C, itemsize=4):
    x1 = x2 = residual = out = N * C
    w = b = C
    mean = rstd = N
    apart = (x1 + x2 + residual) + (residual + w + b + out + mean + rstd)
    together = x1 + x2 + residual + w + b + out + mean + rstd
    flops = (1 + 1 + 3 + 4) * N * C
    return flops, apart * itemsize, together * itemsize, flops / (together * itemsize)


@right("residual_layernorm_cost")
def cost_as_an_array(N, C, itemsize=4):
    nbytes = itemsize * np.array([5 * N * C + 2 * (N + C), 4 * N * C + 2 * (N + C)])
    return np.array([9 * N * C, *nbytes, 9 * N * C / nbytes[1]])


@wrong("residual_layernorm_cost", says="gives with `fused_bytes / flops` in place of `flops / fused_bytes`")
def cost_upside_down(N, C, itemsize=4):
    flops, apart, fused, intensity = cost_array_by_array(N, C, itemsize)
    return flops, apart, fused, fused / flops


@wrong("residual_layernorm_cost", says="and intensity, but your function returned 3 values")
def cost_leaves_one_out(N, C, itemsize=4):
    return cost_array_by_array(N, C, itemsize)[:3]


@right("roofline")
def roof_with_where(flops, nbytes, seconds, peak, bandwidth):
    on_the_slope = flops / nbytes < peak / bandwidth
    attainable = np.where(on_the_slope, flops / nbytes * bandwidth, peak)
    shortest = np.where(on_the_slope, nbytes / bandwidth, flops / peak)
    return attainable, shortest, shortest / seconds


@right("roofline")
def roof_number_by_number(flops, nbytes, seconds, peak, bandwidth):
    def one(f, n, s):
        least = max(f / peak, n / bandwidth)
        return min(peak, f / n * bandwidth), least, least / s

    if np.ndim(flops) == 0:
        return one(flops, nbytes, seconds)
    return [np.array(column) for column in zip(*map(one, flops, nbytes, seconds))]


@wrong("roofline", says="`min` compares whole things: `np.minimum(a, b)` works number by number")
def roof_with_pythons_min(flops, nbytes, seconds, peak, bandwidth):
    attainable = min(peak, flops / nbytes * bandwidth)
    shortest = max(flops / peak, nbytes / bandwidth)
    return attainable, shortest, shortest / seconds


@wrong("roofline", says="attainable equals the peak, even where intensity · bandwidth is lower")
def a_corner_upside_down(flops, nbytes, seconds, peak, bandwidth):
    reached = np.where(flops / nbytes >= bandwidth / peak, peak, flops / nbytes * bandwidth)[()]
    shortest = np.maximum(nbytes / bandwidth, flops / peak)
    return reached, shortest, shortest / seconds


@right("residual_layernorm_forward")
def fused_in_numpy(residual, out, mean, rstd, x1, x2, w, b):
    np.add(x1, x2, out=residual)
    mean[:] = residual.mean(axis=1)
    centred = residual - mean[:, None]
    rstd[:] = 1 / np.sqrt((centred**2).mean(axis=1) + 1e-5)
    out[:] = centred * rstd[:, None] * w + b


@njit("void(f4[:,::1], f4[:,::1], f4[::1], f4[::1], f4[:,::1], f4[:,::1], f4[::1], f4[::1])")
def _with_signature(residual, out, mean, rstd, x1, x2, w, b):
    for n in range(len(x1)):
        residual[n] = x1[n] + x2[n]
        mean[n] = residual[n].mean()
        rstd[n] = 1 / math.sqrt(((residual[n] - mean[n]) ** 2).mean() + 1e-5)
        out[n] = (residual[n] - mean[n]) * rstd[n] * w + b


@right("residual_layernorm_forward")
def fused_with_a_signature(residual, out, mean, rstd, x1, x2, w, b):
    _with_signature(residual, out, mean, rstd, x1, x2, w, b)


@njit(parallel=True)
def _shared_row(residual, out, mean, rstd, x1, x2, w, b):
    row = np.empty(x1.shape[1], np.float32)  # one for all threads
    for n in prange(len(x1)):
        for c in range(len(w)):
            row[c] = x1[n, c] + x2[n, c]
        residual[n], mean[n] = row, row.mean()
        rstd[n] = 1 / math.sqrt(((row - mean[n]) ** 2).mean() + 1e-5)
        out[n] = (row - mean[n]) * rstd[n] * w + b


@wrong("residual_layernorm_forward", says="a race: turns 0 and 1 of the prange both write row[0]")
def fused_shares_a_row(residual, out, mean, rstd, x1, x2, w, b):
    _shared_row(residual, out, mean, rstd, x1, x2, w, b)


@wrong("residual_layernorm_forward", says="the variance is mean(x²) - mean(x)²: for rows around 2000")
def fused_in_one_loop(residual, out, mean, rstd, x1, x2, w, b):
    np.add(x1, x2, out=residual)
    mean[:] = residual.mean(axis=1)
    rstd[:] = 1 / np.sqrt((residual * residual).mean(axis=1) - mean * mean + f32(1e-5))
    out[:] = (residual - mean[:, None]) * rstd[:, None] * w + b


@right("scatter_add")
def scatter_with_add_at(dwte, dwpe, dout, tokens):
    np.add.at(dwte, tokens, dout)
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)


@njit(parallel=True)
def _a_turn_a_token(dwte, dwpe, dout, tokens):
    for v in prange(dwte.shape[0]):  # every turn looks for its own token
        for s, t in np.ndindex(tokens.shape):
            if tokens[s, t] == v:
                dwte[v] += dout[s, t]
    for t in prange(dout.shape[1]):
        for s in range(len(dout)):
            dwpe[t] += dout[s, t]


@right("scatter_add")
def scatter_a_turn_a_token(dwte, dwpe, dout, tokens):
    _a_turn_a_token(dwte, dwpe, dout, tokens)


@njit(parallel=True)
def _shares_rounded_up(dwte, dwpe, dout, tokens, parts):
    share = -(-dout.shape[2] // parts)
    for part in prange(parts):
        for b, t in np.ndindex(tokens.shape):
            for c in range(share * part, share * part + share):
                dwte[tokens[b, t], c] += dout[b, t, c]
                dwpe[t, c] += dout[b, t, c]


@wrong("scatter_add", says="an index outside its array: in line")
def scatter_beyond_the_last_channel(dwte, dwpe, dout, tokens):
    _shares_rounded_up(dwte, dwpe, dout, tokens, 2)


@njit(parallel=True)
def _sequences(dwte, dwpe, dout, tokens, parts):
    B, T = tokens.shape
    for part in prange(parts):
        for s in range(part * B // parts, (part + 1) * B // parts):
            for t in range(T):
                dwte[tokens[s, t]] += dout[s, t]
                dwpe[t] += dout[s, t]


@wrong("scatter_add", says="a race: turns 0 and 1 of the prange both")
def scatter_a_turn_a_sequence(dwte, dwpe, dout, tokens):
    _sequences(dwte, dwpe, dout, tokens, len(tokens))


@wrong("scatter_add", says="right, but all of your kernel runs on one thread")
def scatter_in_one_turn(dwte, dwpe, dout, tokens):
    _sequences(dwte, dwpe, dout, tokens, 1)


@njit
def _lean_loops(dq, dk, dv, dout, out, stats, q, k, v, scale):
    T, hs = q.shape
    for i in range(T):
        D = scale * 0
        for c in range(hs):
            D += dout[i, c] * out[i, c]
        for j in range(i + 1):
            s, dp = scale * 0, scale * 0
            for c in range(hs):
                s += q[i, c] * k[j, c]
                dp += dout[i, c] * v[j, c]
            p = math.exp(s * scale - stats[i])
            ds = p * (dp - D) * scale
            for c in range(hs):
                dq[i, c] += ds * k[j, c]
                dk[j, c] += ds * q[i, c]
                dv[j, c] += p * dout[i, c]


@right("attention_backward_lean")
def lean_in_loops(dout, out, stats, q, k, v):
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    _lean_loops(dq, dk, dv, dout, out, stats, q, k, v, q.dtype.type(q.shape[1] ** -0.5))
    return dq, dk, dv


@right("attention_backward_lean")
def lean_in_one_array(dout, out, stats, q, k, v):
    dq, dk, dv = g = np.zeros((3, *q.shape), q.dtype)
    D, scale = np.einsum("ic,ic->i", dout, out), q.shape[1] ** -0.5
    for j in range(len(k)):  # one key after the other
        p = np.exp(q[j:] @ k[j] * scale - stats[j:])
        ds = p * (dout[j:] @ v[j] - D[j:]) * scale
        dq[j:] += np.outer(ds, k[j])
        dk[j], dv[j] = ds @ q[j:], p @ dout[j:]
    return g


@wrong("attention_backward_lean", says="with `range(0, T // block + 1)` in place of `range(T // block)`")
def lean_leaves_out_a_shorter_block(dout, out, stats, q, k, v):
    T, hs = q.shape
    block, scale = min(32, T), q.dtype.type(hs**-0.5)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for n in range(T // block):
        rows, end = slice(n * block, (n + 1) * block), (n + 1) * block
        p = np.tril(np.exp(q[rows] @ k[:end].T * scale - stats[rows, None]), n * block)
        D = np.einsum("ij,ij->i", dout[rows], out[rows])
        ds = p * (dout[rows] @ v[:end].T - D[:, None]) * scale
        dq[rows] = ds @ k[:end]
        dk[:end] += ds.T @ q[rows]
        dv[:end] += p.T @ dout[rows]
    return dq, dk, dv


@wrong("attention_backward_lean", says="right, but at T = 4000 your code holds")
def lean_with_a_mask_of_all_pairs(dout, out, stats, q, k, v):
    T, scale = len(q), q.dtype.type(q.shape[1] ** -0.5)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    seen = np.tri(T, dtype=bool)
    for first in range(0, T, 16):
        rows = slice(first, first + 16)
        p = np.where(seen[rows], np.exp(np.minimum(q[rows] @ k.T * scale - stats[rows, None], 1)), 0).astype(q.dtype)
        ds = p * (dout[rows] @ v.T - (dout[rows] * out[rows]).sum(axis=1, keepdims=True)) * scale
        dv += p.T @ dout[rows]
        dk += ds.T @ q[rows]
        dq[rows] = ds @ k
    return dq, dk, dv


K2, CUBE, CUBE3, F1 = (f32(value) for value in (2 * math.sqrt(2 / math.pi), 0.044715, 3 * 0.044715, 1))


@right("fast_gelu_backward")
def fast_in_numpy(dx, dout, x):
    for i in range(0, x.size, 8192):
        a, q = x[i : i + 8192], x[i : i + 8192] ** 2
        s = F1 / (F1 + np.exp(-K2 * a * (F1 + CUBE * q)))
        dx[i : i + 8192] = dout[i : i + 8192] * (s + a * s * (F1 - s) * K2 * (F1 + CUBE3 * q))


POWER1, POWER3, SLOPE, SLOPE3 = -K2, -K2 * CUBE, K2, K2 * CUBE3


@njit(error_model="numpy", fastmath={"contract"})
def _compiled(dx, dout, x):
    for i in range(x.size):
        q = x[i] * x[i]
        s = F1 / (F1 + math.exp(x[i] * (POWER1 + POWER3 * q)))
        dx[i] = dout[i] * (s + x[i] * (s * (F1 - s)) * (SLOPE + SLOPE3 * q))


@right("fast_gelu_backward")
def fast_compiled(dx, dout, x):
    _compiled(dx, dout, x)


_slopes = {}


@wrong("fast_gelu_backward", says="its first call would be right: it keeps something from one call to the next")
def fast_keeps_slopes_by_the_arrays_id(dx, dout, x):
    if (id(x), x.size) not in _slopes:
        _slopes[id(x), x.size] = slope = np.empty_like(x)
        fast_in_numpy(slope, np.ones_like(x), x)
    np.multiply(dout, _slopes[id(x), x.size], out=dx)


@njit(error_model="numpy")
def _clamped(dx, dout, x):
    for i in range(x.size):
        a = x[i] if x[i] < f32(10) else f32(10)  # a NaN is not below 10, so it becomes 10
        q = a * a
        s = F1 / (F1 + math.exp(-K2 * a * (F1 + CUBE * q)))
        dx[i] = dout[i] * (s + a * s * (F1 - s) * K2 * (F1 + CUBE3 * q))


@wrong("fast_gelu_backward", says="a NaN went in and a number came out, in dx")
def fast_clamps_nan(dx, dout, x):
    _clamped(dx, dout, x)


@wrong("fast_gelu_backward", says="wrong where it is the same array as dout")
def fast_too_early(dx, dout, x):
    s = 1 / (1 + np.exp(-K2 * (x + CUBE * x**3)))
    dx[:] = dout * s
    dx += dout * x * s * (1 - s) * K2 * (1 + CUBE3 * x * x)
