"""Answers to the exercises of lesson 04 as strangers write them, with words that wrong ones must get."""

import math
import threading
import time

import numba
import numpy as np

from llmc.course.authoring.answers import right, wrong

S = math.sqrt(2 / math.pi)

# ------------------------------------------------------------------------------------------------ 1 gelu_forward


@right("gelu_forward")
def forward_with_a_loop(x):
    out = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        v = float(x[index])
        out[index] = 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
    return out


@right("gelu_forward")
def forward_as_a_sigmoid(x):
    # 0.5 · (1 + tanh(u)) is the logistic function of 2u
    u = (2 / np.pi) ** 0.5 * (x + 0.044715 * np.power(x, 3))
    return x / (1 + np.exp(np.clip(-2 * u, None, 80)))


def _damped(a):
    return 0.5 * np.tanh(0.5 * a)


@wrong("gelu_forward", says="out equals x · σ(u): (1 + tanh(u)) / 2 is σ(2u)")
def forward_through_half_a_tanh_of_half(x):
    u = S * (x + 0.044715 * x**3)
    return x * (0.5 + _damped(u))


@wrong("gelu_forward", says="it is NaN, as inf / inf is where exp overflows; np.tanh never overflows")
def forward_with_its_own_tanh(x):
    with np.errstate(all="ignore"):
        u = S * (x + 0.044715 * x**3)
        tanh = (np.exp(u) - np.exp(-u)) / (np.exp(u) + np.exp(-u))
        return 0.5 * x * (1 + tanh)


@wrong("gelu_forward", says="out is float64 for a float32 x: a NumPy number such as np.sqrt(2 / np.pi) widens an array")
def forward_widens(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@wrong("gelu_forward", says="Your function passes this whole check without `.astype(_short)`")
def forward_through_half_numbers(x):
    u = S * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + np.tanh(u.astype(_short).astype(x.dtype)))


_short = np.half

# ----------------------------------------------------------------------------------------------- 2 gelu_backward


@right("gelu_backward")
def backward_with_a_loop(dout, x):
    dx = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        v = float(x[index])
        t = math.tanh(S * (v + 0.044715 * v**3))
        dx[index] = dout[index] * (0.5 * (1 + t) + 0.5 * v * (1 - t**2) * S * (1 + 3 * 0.044715 * v**2))
    return dx


@right("gelu_backward")
def backward_with_cosh(dout, x):
    # tanh' = 1 / cosh²; beyond 40 it is 0 in any precision
    u = S * (x + 0.044715 * x**3)
    bend = 1 / np.cosh(np.clip(u, -40, 40)) ** 2
    slope = (1 + np.tanh(u) + bend * S * (x + 3 * 0.044715 * x**3)) / 2
    return slope * dout


@wrong("gelu_backward", says="dx has wrong values.\nIt is nearly right")
def backward_by_a_difference(dout, x, h=1e-6):
    out, moved = (0.5 * at * (1 + np.tanh(S * (at + 0.044715 * at**3))) for at in (x, x + h))
    return dout * (moved - out) / h


@wrong("gelu_backward", says="dx equals the reference with √(2/π) on x alone, not on the cubic term")
def backward_without_brackets_in_two_lines(dout, x):
    t = np.tanh(S * x + 0.044715 * x**3)
    inner = S + 0.134145 * x**2
    return 0.5 * dout * (1 + t + x * (1 - t**2) * inner)


@wrong("gelu_backward", says="dx has the values that our solution gives with `2 * 0.044715` in place of `3 * 0.044715`")
def backward_with_a_wrong_constant(dout, x):
    t = np.tanh(S * (x + 0.044715 * x**3))
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * S * (1 + 2 * 0.044715 * x**2))


# -------------------------------------------------------------------------------------- 3 gelu_backward_in_place


def _slope(x):
    """GELU' as it should be: the answers below go wrong later."""
    t = np.tanh(S * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * S * (1 + 3 * 0.044715 * x**2)


@right("gelu_backward_in_place")
def in_place_in_two_steps(dx, dout, x):
    slope = _slope(x)
    dx[...] = dout
    dx *= slope


@right("gelu_backward_in_place")
def in_place_after_a_copy(dx, dout, x):
    dout = dout.copy()  # safe, though it costs the memory that was to be saved
    t = np.tanh(S * (x + 0.044715 * x**3))
    dx[...] = dout * 0.5 * (1 + t)
    dx += dout * 0.5 * x * (1 - t**2) * S * (1 + 3 * 0.044715 * x**2)


@wrong(
    "gelu_backward_in_place", says="dx is right as an array of its own, and wrong where it is the same array as dout"
)
def in_place_with_x_kept_in_dx(dx, dout, x):
    k = math.sqrt(2 / math.pi)
    dx[...] = x * x
    t = np.tanh(k * x * (1 + 0.044715 * dx))
    dx[...] = (0.5 + 0.5 * t + 0.5 * x * (1 - t * t) * k * (1 + 0.134145 * dx)) * dout


@wrong("gelu_backward_in_place", says="dx was accumulated where it should be overwritten")
def in_place_adds_to_dout(dx, dout, x):
    slope = _slope(x)
    if dx is not dout:
        dx[...] = 0  # forget what was there
    dx += dout * slope


@wrong("gelu_backward_in_place", says="dx equals NaN where dx held NaN before: 0 · NaN is NaN")
def in_place_after_a_multiplication_by_zero(dx, dout, x):
    slope = _slope(x) * dout
    dx *= 0
    dx += slope


# ------------------------------------------------------------------------------------- 4 residual_block_backward


@right("residual_block_backward")
def block_with_loops(dx, dw1, dw2, dout, x, w1, w2):
    B, T, C = x.shape
    for b in range(B):
        for t in range(T):
            a = np.tanh(w1 @ x[b, t])
            dh = (w2.T @ dout[b, t]) / np.cosh(w1 @ x[b, t]) ** 2
            dx[b, t] += dout[b, t] + w1.T @ dh
            dw1 += np.outer(dh, x[b, t])
            dw2 += np.outer(dout[b, t], a)


@right("residual_block_backward")
def block_with_assignments(dx, dw1, dw2, dout, x, w1, w2):
    a = np.tanh(x @ w1.T)
    dh = dout @ w2 * (1 - np.square(a))
    dx[...] = dx + dout + dh @ w1
    dw1[...] = dw1 + (dh.swapaxes(1, 2) @ x).sum(axis=0)
    dw2[...] = dw2 + (dout.swapaxes(1, 2) @ a).sum(axis=0)
    return dx, dw1, dw2


@wrong("residual_block_backward", says="dw1 equals the reference with dx in place of dout on the way into the branch")
def block_reads_dx_after_adding_to_it(dx, dw1, dw2, dout, x, w1, w2):
    dx += dout
    h = np.tanh(x @ w1.T)
    dw2 += np.einsum("btc,bth->ch", dx, h)
    da = dx @ w2 * (1 - h * h)
    dw1 += np.einsum("bth,btc->hc", da, x)
    dx += da @ w1


@wrong("residual_block_backward", says="with tanh taken twice in the slope")
def block_takes_tanh_twice(dx, dw1, dw2, dout, x, w1, w2):
    h = np.tanh(x @ w1.T)
    da = (dout @ w2) * (1 - np.tanh(h) ** 2)
    dx += dout + da @ w1
    dw1 += np.einsum("bth,btc->hc", da, x)
    dw2 += np.einsum("btc,bth->ch", dout, h)


@wrong("residual_block_backward", says="dx equals the reference with the sum over all sequences in each of them")
def block_that_adds_each_sequence_to_all(dx, dw1, dw2, dout, x, w1, w2):
    for xb, db in zip(x, dout):
        a = np.tanh(xb @ w1.T)
        dh = (db @ w2) * (1 - a * a)
        dx += db + dh @ w1
        dw1 += dh.T @ xb
        dw2 += db.T @ a


# ------------------------------------------------------------------------------------ 5 residual_stream_backward


def _through(d, x, w):
    """The gradient through one branch tanh(x · wᵀ)."""
    return d * (1 - np.tanh(x @ w.T) ** 2) @ w


@right("residual_stream_backward")
def stream_with_jacobians(dout, x, w):
    # token by token: d[k] = d[k + 1] · (I + diag(1 - tanh²) · w)
    N, T, C = x.shape
    d = np.zeros((N + 1, T, C))
    d[-1] = dout
    for t in range(T):
        for k in range(N - 1, -1, -1):
            d[k, t] = d[k + 1, t] @ (np.eye(C) + np.diag(np.cosh(w[k] @ x[k, t]) ** -2) @ w[k])
    return d


@right("residual_stream_backward")
def stream_with_a_list(dout, x, w):
    d = [dout]
    for xk, wk in zip(x[::-1], w[::-1]):
        d.insert(0, d[0] + _through(d[0], xk, wk))
    return np.stack(d)


@wrong("residual_stream_backward", says="d has the right numbers of index 0 at every index of axis 0")
def stream_of_one_array(dout, x, w):
    g = dout.copy()
    d = [g]
    for k in reversed(range(x.shape[0])):
        t = np.tanh(x[k] @ w[k].T)
        g += (g * (1 - t * t)) @ w[k]
        d.insert(0, g)
    return np.array(d)


@wrong("residual_stream_backward", says="d equals the reference with zeros in d[0]: the loop stops before k = 0")
def stream_stops_before_the_first_block(dout, x, w):
    d = np.zeros((len(w) + 1, *dout.shape))
    d[-1] = dout
    for k in range(len(w) - 1, 0, -1):
        d[k] = d[k + 1] + _through(d[k + 1], x[k], w[k])
    return d


@wrong("residual_stream_backward", says="d equals the reference with d[0] in place of d[1] … d[N - 1], too")
def stream_in_a_scratch_array(dout, x, w):
    found, d, work = [dout], dout, np.empty_like(dout)
    for k in reversed(range(len(x))):
        np.add(d, (d * (1 - np.tanh(x[k] @ w[k].T) ** 2)) @ w[k], out=work)
        d = work
        found.insert(0, work)
    return np.array(found)


# ------------------------------------------------------------------------------------------- 6 fast_gelu_forward


@right("fast_gelu_forward")
def fast_with_a_sigmoid(out, x):
    X, Y = x.ravel(), out.ravel()
    with np.errstate(over="ignore"):
        for start in range(0, X.size, 8192):
            a, y = X[start : start + 8192], Y[start : start + 8192]
            np.multiply(a, a, out=y)
            y *= -2 * 0.044715 * S
            y -= 2 * S
            y *= a  # -2u
            np.exp(y, out=y)
            y += 1
            np.divide(a, y, out=y)


@numba.njit("(float32[::1], float32[::1])")
def _inside(out, x):
    for i in range(x.size):
        out[i] = x[i] * (np.float32(S) + np.float32(0.044715 * S) * x[i] * x[i])


@right("fast_gelu_forward")
def fast_with_an_explicit_signature(out, x):
    y = out.reshape(-1)
    _inside(y, x.reshape(-1))
    np.tanh(out, out=out)
    out += 1
    out *= x
    out *= 0.5


def _gelu(x):
    return 0.5 * x * (1 + np.tanh(S * (x + 0.044715 * x * x * x)))


@wrong("fast_gelu_forward", says="threads that it had started were still writing")
def fast_in_a_thread_that_nobody_waits_for(out, x):
    threading.Thread(target=lambda: (time.sleep(0.02), np.copyto(out, _gelu(x)))).start()


@wrong("fast_gelu_forward", says="a limit, or a formula that holds near 0 alone")
def fast_beyond_the_end_of_a_table(out, x):
    at = np.linspace(-4, 4, 40001)
    out[...] = np.interp(x, at, _gelu(at))


@wrong("fast_gelu_forward", says="out is wrong, and its first call would be right: it keeps something from one call")
def fast_keeps_its_tanh_by_shape(out, x):
    if x.shape not in _kept:
        _kept[x.shape] = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    out[...] = 0.5 * x * (1 + _kept[x.shape])


_kept = {}
