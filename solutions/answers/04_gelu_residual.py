"""Answers to the exercises of lesson 04 as learners write them: right ones that look different, and wrong ones.

Each wrong answer carries words that the message of its check must contain. CI runs them all;
`python -m llmc.course.old.authoring.answers 04` runs those of this lesson.
"""

import math
import threading
import time

import numba
import numpy as np

from llmc.course.old.authoring.answers import right, wrong

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
def forward_in_place_of_a_copy(x):
    out = x * x
    out *= 0.044715 * S
    out += S
    out *= x
    np.tanh(out, out=out)
    out += 1
    out *= x
    out *= 0.5
    return out


@right("gelu_forward")
def forward_as_a_sigmoid(x):
    # 0.5 · (1 + tanh(u)) is the logistic function of 2u
    u = (2 / np.pi) ** 0.5 * (x + 0.044715 * np.power(x, 3))
    return x / (1 + np.exp(np.clip(-2 * u, None, 80)))


@wrong("gelu_forward", says="out equals the gate alone")
def forward_forgets_x(x):
    return 0.5 * (1 + np.tanh(S * (x + 0.044715 * x**3)))


@wrong("gelu_forward", says="x · (1 + tanh(u)): the 0.5 is missing")
def forward_forgets_the_half(x):
    return x * (1 + np.tanh(S * (x + 0.044715 * x**3)))


@wrong("gelu_forward", says="x multiplies the whole bracket")
def forward_loses_the_bracket(x):
    return 0.5 * (x + np.tanh(S * (x + 0.044715 * x**3)))


@wrong("gelu_forward", says="out equals 0.5 · x · tanh(u): the 1 is missing")
def forward_forgets_the_one(x):
    return 0.5 * x * np.tanh(S * (x + 0.044715 * x**3))


@wrong("gelu_forward", says="without the cubic term")
def forward_forgets_the_cube(x):
    return 0.5 * x * (1 + np.tanh(S * x))


@wrong("gelu_forward", says="with x² instead of x³")
def forward_squares(x):
    return 0.5 * x * (1 + np.tanh(S * (x + 0.044715 * x**2)))


@wrong("gelu_forward", says="with 2/π instead of √(2/π)")
def forward_forgets_the_root(x):
    return 0.5 * x * (1 + np.tanh(2 / math.pi * (x + 0.044715 * x**3)))


@wrong("gelu_forward", says="out equals the reference with √2/π instead of √(2/π)")
def forward_root_of_two_alone(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2) / math.pi * (x + 0.044715 * x**3)))


@wrong("gelu_forward", says="out equals 0.5 · x + tanh(u): 0.5 · x multiplies tanh(u), too")
def forward_without_brackets(x):
    return 0.5 * x * 1 + np.tanh(S * (x + 0.044715 * x**3))


@wrong("gelu_forward", says="`pi = math.pi` in place of `pi = 3.1416`")
def forward_with_a_short_pi(x):
    pi = 3.1416
    return 0.5 * x * (1 + np.tanh((2 / pi) ** 0.5 * (x + 0.044715 * x**3)))


@wrong("gelu_forward", says="with √(2/π) on x alone")
def forward_scales_half_of_the_inside(x):
    return 0.5 * x * (1 + np.tanh(S * x + 0.044715 * x**3))


@wrong("gelu_forward", says="out equals the exact form with erf: GPT-2 was trained with the tanh form")
def forward_with_erf(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


@wrong("gelu_forward", says="out equals x · σ(1.702 x), a coarser approximation")
def forward_with_the_coarse_sigmoid(x):
    return x / (1 + np.exp(-1.702 * x))


@wrong("gelu_forward", says="out equals ReLU")
def forward_is_relu(x):
    return np.where(x > 0, x, 0)


@wrong("gelu_forward", says="`np.sqrt(2 / np.pi)` is a NumPy float64, which widens")
def forward_widens(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@wrong("gelu_forward", says="`np.exp(-u)` becomes infinite there, and `(np.exp(u)")
def forward_with_its_own_tanh(x):
    with np.errstate(all="ignore"):
        u = S * (x + 0.044715 * x**3)
        tanh = (np.exp(u) - np.exp(-u)) / (np.exp(u) + np.exp(-u))
        return 0.5 * x * (1 + tanh)


@wrong("gelu_forward", says="An input was written to")
def forward_works_in_x(x):
    gate = 0.5 * (1 + np.tanh(S * (x + 0.044715 * x**3)))
    x *= gate
    return x


@wrong("gelu_forward", says="out is None")
def forward_returns_nothing(x):
    out = 0.5 * x * (1 + np.tanh(S * (x + 0.044715 * x**3)))  # noqa: F841


@wrong("gelu_forward", says="your code stopped with TypeError")
def forward_with_math(x):
    return 0.5 * x * (1 + math.tanh(S * (x + 0.044715 * x**3)))


@wrong("gelu_forward", says="your code uses llmc.backends")
def forward_calls_the_package(x):
    from llmc.backends import reference

    out = np.empty_like(x)
    reference.gelu_forward(out, x)
    return out


@wrong("gelu_forward", says="x · σ(u): (1 + tanh(u)) / 2 is σ(2u)")
def forward_takes_the_sigmoid_of_u(x):
    # (1 + tanh) / 2 is a sigmoid, so there is no need for tanh
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    gate = 1 / (1 + np.exp(-u))
    return x * gate


@wrong("gelu_forward", says="√(2/π) inside the cube, too")
def forward_scales_inside_the_cube(x):
    y = math.sqrt(2 / math.pi) * x
    u = y * (1 + 0.044715 * y * y)
    half = x / 2
    return half + half * np.tanh(u)


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
def backward_through_the_sigmoid(dout, x):
    u = S * (x + 0.044715 * x**3)
    gate = 1 / (1 + np.exp(np.clip(-2 * u, None, 80)))
    return dout * gate * (1 + 2 * x * (1 - gate) * S * (1 + 0.134145 * x * x))


@right("gelu_backward")
def backward_with_cosh(dout, x):
    # tanh' = 1 / cosh²; beyond 40 it is 0 in any precision
    u = S * (x + 0.044715 * x**3)
    bend = 1 / np.cosh(np.clip(u, -40, 40)) ** 2
    slope = (1 + np.tanh(u) + bend * S * (x + 3 * 0.044715 * x**3)) / 2
    return slope * dout


@wrong("gelu_backward", says="as that of a one-sided difference does")
def backward_by_a_difference(dout, x, h=1e-6):
    out, moved = (0.5 * at * (1 + np.tanh(S * (at + 0.044715 * at**3))) for at in (x, x + h))
    return dout * (moved - out) / h


@wrong("gelu_backward", says="the second term of the product rule is missing")
def backward_forgets_the_product_rule(dout, x):
    return dout * 0.5 * (1 + np.tanh(S * (x + 0.044715 * x**3)))


@wrong("gelu_backward", says="the first term of the product rule, the gate, is missing")
def backward_keeps_the_second_term_alone(dout, x):
    t = np.tanh(S * (x + 0.044715 * x**3))
    return dout * 0.5 * x * (1 - t**2) * S * (1 + 3 * 0.044715 * x**2)


@wrong("gelu_backward", says="gate' is not multiplied by x")
def backward_forgets_x_in_the_second_term(dout, x):
    t = np.tanh(S * (x + 0.044715 * x**3))
    return dout * (0.5 * (1 + t) + 0.5 * (1 - t**2) * S * (1 + 3 * 0.044715 * x**2))


@wrong("gelu_backward", says="with du/dx missing")
def backward_forgets_the_chain(dout, x):
    t = np.tanh(S * (x + 0.044715 * x**3))
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t**2))


@wrong("gelu_backward", says="the 3 missing in du/dx")
def backward_forgets_the_power_rule(dout, x):
    t = np.tanh(S * (x + 0.044715 * x**3))
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * S * (1 + 0.044715 * x**2))


@wrong("gelu_backward", says="1 - tanh(u) instead of 1 - tanh²(u)")
def backward_forgets_the_square(dout, x):
    t = np.tanh(S * (x + 0.044715 * x**3))
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t) * S * (1 + 3 * 0.044715 * x**2))


@wrong("gelu_backward", says="the 0.5 missing in the second term")
def backward_loses_a_half(dout, x):
    t = np.tanh(S * (x + 0.044715 * x**3))
    return dout * (0.5 * (1 + t) + x * (1 - t**2) * S * (1 + 3 * 0.044715 * x**2))


@wrong("gelu_backward", says="dx equals the reference with the 0.5 missing in the first term, the gate")
def backward_doubles_the_gate(dout, x):
    t = np.tanh(S * (x + 0.044715 * x**3))
    return dout * ((1 + t) + 0.5 * x * (1 - t**2) * S * (1 + 3 * 0.044715 * x**2))


@wrong("gelu_backward", says='section "3.5 · The product rule"')  # a mistake that has no name: where to look
def backward_with_a_wrong_constant(dout, x):
    t = np.tanh(S * (x + 0.044715 * x**3))
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * S * (1 + 2 * 0.044715 * x**2))


@wrong("gelu_backward", says="du/dx = √(2/π) alone")
def backward_takes_u_for_a_line(dout, x):
    t = np.tanh(S * (x + 0.044715 * x**3))
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * S)


@wrong("gelu_backward", says="dout is missing")
def backward_forgets_dout(dout, x):
    t = np.tanh(S * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * S * (1 + 3 * 0.044715 * x**2)


@wrong("gelu_backward", says="dout and x are swapped")
def backward_swaps_its_arguments(x, dout):
    t = np.tanh(S * (x + 0.044715 * x**3))
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * S * (1 + 3 * 0.044715 * x**2))


@wrong("gelu_backward", says="the slope of ReLU")
def backward_of_relu(dout, x):
    return dout * (x > 0)


@wrong("gelu_backward", says="`scale`, made by `np.sqrt(2 / np.pi)`, is a NumPy float64")
def backward_widens(dout, x):
    scale = np.sqrt(2 / np.pi)
    t = np.tanh(scale * (x + 0.044715 * x**3))
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * scale * (1 + 3 * 0.044715 * x**2))


@wrong("gelu_backward", says="GELU(x) in place of x / 2 in the second term")
def backward_multiplies_by_the_output(dout, x):
    s = math.sqrt(2 / math.pi)
    t = np.tanh(s * (x + 0.044715 * x * x * x))
    gate = 0.5 * (1 + t)
    out = x * gate
    du = s * (1 + 0.134145 * x * x)
    return dout * (gate + out * (1 - t * t) * du)


@wrong("gelu_backward", says="dout multiplies both terms")
def backward_scales_one_term_by_dout(dout, x):
    s = math.sqrt(2 / math.pi)
    t = np.tanh(s * (x + 0.044715 * x**3))
    return dout * 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * s * (1 + 3 * 0.044715 * x**2)


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


@right("gelu_backward_in_place")
def in_place_with_a_loop(dx, dout, x):
    slope = _slope(x)
    for index in np.ndindex(x.shape):
        dx[index] = dout[index] * slope[index]
    return dx


@wrong("gelu_backward_in_place", says="dx (the same array as dout) equals GELU'(x)²: dx was written before dout")
def in_place_puts_the_slope_first(dx, dout, x):
    dx[...] = _slope(x)
    dx *= dout


@wrong("gelu_backward_in_place", says="equals dout · gate · (1 + x · gate'): dx was written before dout")
def in_place_adds_term_by_term(dx, dout, x):
    t = np.tanh(S * (x + 0.044715 * x**3))
    dx[...] = dout * 0.5 * (1 + t)
    dx += dout * 0.5 * x * (1 - t**2) * S * (1 + 3 * 0.044715 * x**2)


@wrong("gelu_backward_in_place", says="before it has read all of `dout`")
def in_place_clears_first(dx, dout, x):
    dx[...] = 0
    dx += dout * _slope(x)


@wrong("gelu_backward_in_place", says="dx was accumulated where it should be overwritten")
def in_place_accumulates(dx, dout, x):
    dx += dout * _slope(x)


@wrong("gelu_backward_in_place", says="dx equals the old content of dx times GELU'(x), in place of dout")
def in_place_multiplies_what_dx_held(dx, dout, x):
    dx *= _slope(x)


@wrong("gelu_backward_in_place", says="dx was never written")
def in_place_rebinds(dx, dout, x):
    dx = dout * _slope(x)  # noqa: F841


@wrong("gelu_backward_in_place", says="dx was never written: it still holds what was in the buffer")
def in_place_returns(dx, dout, x):
    return dout * _slope(x)


@wrong("gelu_backward_in_place", says="An input was written to")
def in_place_writes_dout(dx, dout, x):
    dout *= _slope(x)
    dx[...] = dout


@wrong("gelu_backward_in_place", says="the second term of the product rule is missing")
def in_place_forgets_the_product_rule(dx, dout, x):
    np.multiply(dout, 0.5 * (1 + np.tanh(S * (x + 0.044715 * x**3))), out=dx)


@wrong("gelu_backward_in_place", says="equals GELU'(x)²")
def in_place_uses_dx_as_scratch(dx, dout, x):
    np.multiply(x, x, out=dx)
    dx[...] = _slope(x)
    np.multiply(dx, dout, out=dx)


@wrong("gelu_backward_in_place", says="As they are one, the result was added to what `dout` held")
def in_place_adds_to_dout(dx, dout, x):
    root = math.sqrt(2 / math.pi)
    tanh = np.tanh(root * (x + 0.044715 * x * x * x))
    slope = 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * root * (1 + 3 * 0.044715 * x * x)
    if dx is not dout:
        dx[...] = 0  # forget what was there
    dx += dout * slope


# ------------------------------------------------------------------------------------- 4 residual_block_backward


@right("residual_block_backward")
def block_with_einsum(dx, dw1, dw2, dout, x, w1, w2):
    a = np.tanh(np.einsum("btc,hc->bth", x, w1))
    da = np.einsum("btc,ch->bth", dout, w2)
    dh = da * (1 - a**2)
    dx += dout + np.einsum("bth,hc->btc", dh, w1)
    dw1 += np.einsum("bth,btc->hc", dh, x)
    dw2 += np.einsum("btc,bth->ch", dout, a)


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


def _block(dout, x, w1, w2, bend=lambda h: 1 - np.tanh(h) ** 2):
    """The branch's dx, and dw1, dw2: the answers below go wrong with them."""
    C, H = w2.shape
    h = x @ w1.T
    dh = dout @ w2 * bend(h)
    dw1 = dh.reshape(-1, H).T @ x.reshape(-1, C)
    return dh @ w1, dw1, dout.reshape(-1, C).T @ np.tanh(h).reshape(-1, H)


@wrong("residual_block_backward", says="dx equals the branch's gradient alone: the straight road's dout is missing")
def block_forgets_the_straight_road(dx, dw1, dw2, dout, x, w1, w2):
    branch, d1, d2 = _block(dout, x, w1, w2)
    dx += branch
    dw1 += d1
    dw2 += d2


@wrong("residual_block_backward", says="dx equals dout alone: the branch's gradient is missing")
def block_forgets_the_branch(dx, dw1, dw2, dout, x, w1, w2):
    _, d1, d2 = _block(dout, x, w1, w2)
    dx += dout
    dw1 += d1
    dw2 += d2


@wrong(
    "residual_block_backward",
    says="dx equals the branch's gradient alone: the straight road's dout is missing, and was overwritten",
)
def block_overwrites_at_the_fork(dx, dw1, dw2, dout, x, w1, w2):
    branch, d1, d2 = _block(dout, x, w1, w2)
    dx[...] = dout
    dx[...] = branch
    dw1 += d1
    dw2 += d2


@wrong("residual_block_backward", says="dx was overwritten instead of accumulated")
def block_starts_dx_anew(dx, dw1, dw2, dout, x, w1, w2):
    branch, d1, d2 = _block(dout, x, w1, w2)
    dx[...] = dout
    dx += branch
    dw1 += d1
    dw2 += d2


@wrong("residual_block_backward", says="dx was never written")
def block_rebinds_dx(dx, dw1, dw2, dout, x, w1, w2):
    branch, d1, d2 = _block(dout, x, w1, w2)
    dx = dx + dout + branch
    dw1 += d1
    dw2 += d2


@wrong("residual_block_backward", says="dw2 was overwritten instead of accumulated")
def block_overwrites_weights(dx, dw1, dw2, dout, x, w1, w2):
    branch, d1, d2 = _block(dout, x, w1, w2)
    dx += dout + branch
    dw1[...] = d1
    dw2[...] = d2


@wrong("residual_block_backward", says="dx equals the reference with the slope of tanh, 1 - a², missing")
def block_forgets_tanh(dx, dw1, dw2, dout, x, w1, w2):
    branch, d1, d2 = _block(dout, x, w1, w2, bend=np.ones_like)
    dx += dout + branch
    dw1 += d1
    dw2 += d2


@wrong("residual_block_backward", says="dx equals the reference with 1 - h² instead of 1 - tanh²(h)")
def block_squares_h(dx, dw1, dw2, dout, x, w1, w2):
    branch, d1, d2 = _block(dout, x, w1, w2, bend=lambda h: 1 - h**2)
    dx += dout + branch
    dw1 += d1
    dw2 += d2


@wrong("residual_block_backward", says="dw2 equals the reference with h instead of tanh(h)")
def block_takes_h_for_a(dx, dw1, dw2, dout, x, w1, w2):
    branch, d1, _ = _block(dout, x, w1, w2)
    dx += dout + branch
    dw1 += d1
    dw2 += np.tensordot(dout, x @ w1.T, ((0, 1), (0, 1)))


@wrong("residual_block_backward", says="dx equals dout times the branch's gradient: gradients add at a fork")
def block_multiplies_the_roads(dx, dw1, dw2, dout, x, w1, w2):
    branch, d1, d2 = _block(dout, x, w1, w2)
    dx += dout * branch
    dw1 += d1
    dw2 += d2


@wrong("residual_block_backward", says="what was added to dw2 is 1/B [B = 3] times what it should be")
def block_averages_over_the_batch(dx, dw1, dw2, dout, x, w1, w2):
    branch, d1, d2 = _block(dout, x, w1, w2)
    dx += dout + branch
    dw1 += d1 / len(x)
    dw2 += d2 / len(x)


@wrong("residual_block_backward", says="non-broadcastable output operand")
def block_does_not_sum(dx, dw1, dw2, dout, x, w1, w2):
    branch, d1, _ = _block(dout, x, w1, w2)
    dx += dout + branch
    dw1 += d1
    dw2 += dout.swapaxes(1, 2) @ np.tanh(x @ w1.T)


@wrong("residual_block_backward", says="An input was written to")
def block_adds_into_dout(dx, dw1, dw2, dout, x, w1, w2):
    branch, d1, d2 = _block(dout, x, w1, w2)
    dout += branch
    dx += dout
    dw1 += d1
    dw2 += d2


# ------------------------------------------------------------------------------------ 5 residual_stream_backward


def _through(d, x, w):
    """The gradient through one branch tanh(x · wᵀ)."""
    return d * (1 - np.tanh(x @ w.T) ** 2) @ w


@right("residual_stream_backward")
def stream_with_a_list(dout, x, w):
    d = [dout]
    for xk, wk in zip(x[::-1], w[::-1]):
        d.insert(0, d[0] + _through(d[0], xk, wk))
    return np.stack(d)


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
def stream_accumulating(dout, x, w):
    d = np.concatenate([np.zeros_like(x), dout[None]])
    for k in range(len(w))[::-1]:
        d[k] += d[k + 1]
        d[k] += _through(d[k + 1], x[k], w[k])
    return d


@wrong("residual_stream_backward", says="d equals the reference without the straight road")
def stream_is_a_chain(dout, x, w):
    d = [dout]
    for k in reversed(range(len(w))):
        d.append(_through(d[-1], x[k], w[k]))
    return np.array(d[::-1])


@wrong("residual_stream_backward", says="d equals the reference with dout on every straight road")
def stream_adds_dout_everywhere(dout, x, w):
    d = [dout]
    for k in reversed(range(len(w))):
        d.append(dout + _through(d[-1], x[k], w[k]))
    return np.array(d[::-1])


@wrong("residual_stream_backward", says="d equals the reference with dout into every branch")
def stream_sends_dout_into_branches(dout, x, w):
    d = [dout]
    for k in reversed(range(len(w))):
        d.append(d[-1] + _through(dout, x[k], w[k]))
    return np.array(d[::-1])


@wrong("residual_stream_backward", says="d equals the reference in reverse order")
def stream_forgets_to_turn_round(dout, x, w):
    d = [dout]
    for k in reversed(range(len(w))):
        d.append(d[-1] + _through(d[-1], x[k], w[k]))
    return np.array(d)


@wrong("residual_stream_backward", says="d equals the blocks in forward order")
def stream_runs_forwards(dout, x, w):
    d = [dout]
    for k in range(len(w)):
        d.append(d[-1] + _through(d[-1], x[k], w[k]))
    return np.array(d[::-1])


@wrong("residual_stream_backward", says="d equals the reference with w transposed")
def stream_transposes(dout, x, w):
    d = [dout]
    for k in reversed(range(len(w))):
        d.append(d[-1] + d[-1] * (1 - np.tanh(x[k] @ w[k].T) ** 2) @ w[k].T)
    return np.array(d[::-1])


@wrong("residual_stream_backward", says="d equals the reference with tanh(x[k] @ w[k])")
def stream_forgets_the_transpose_inside(dout, x, w):
    d = [dout]
    for k in reversed(range(len(w))):
        d.append(d[-1] + d[-1] * (1 - np.tanh(x[k] @ w[k]) ** 2) @ w[k])
    return np.array(d[::-1])


@wrong("residual_stream_backward", says="d equals the reference with w transposed in both places")
def stream_transposes_both(dout, x, w):
    d = [dout]
    for k in reversed(range(len(w))):
        d.append(d[-1] + d[-1] * (1 - np.tanh(x[k] @ w[k]) ** 2) @ w[k].T)
    return np.array(d[::-1])


@wrong("residual_stream_backward", says="d equals the reference except for d[0]: the loop stops before k = 0")
def stream_stops_before_the_first_block(dout, x, w):
    d = np.zeros((len(w) + 1, *dout.shape))
    d[-1] = dout
    for k in range(len(w) - 1, 0, -1):
        d[k] = d[k + 1] + _through(d[k + 1], x[k], w[k])
    return d


@wrong("residual_stream_backward", says="the reference at d[N - 1] and d[N] only")
def stream_loops_upward_over_zeros(dout, x, w):
    d = np.zeros((len(w) + 1, *dout.shape))
    d[-1] = dout
    for k in range(len(w)):
        d[k] = d[k + 1] + _through(d[k + 1], x[k], w[k])
    return d


@wrong("residual_stream_backward", says="the reference at d[N - 1] and d[N] only")
def stream_loops_upward_over_what_was_there(dout, x, w):
    d = np.full((len(w) + 1, *dout.shape), 7.5)  # np.empty, but the same in every run
    d[-1] = dout
    for k in range(len(w)):
        d[k] = d[k + 1] + _through(d[k + 1], x[k], w[k])
    return d


@wrong("residual_stream_backward", says="d equals the reference with the slope of tanh missing")
def stream_forgets_tanh(dout, x, w):
    d = [dout]
    for k in reversed(range(len(w))):
        d.append(d[-1] + d[-1] @ w[k])
    return np.array(d[::-1])


@wrong("residual_stream_backward", says="d has shape (4, 5, 7), expected (5, 5, 7)")
def stream_forgets_the_end(dout, x, w):
    d = np.empty_like(x)
    last = dout
    for k in reversed(range(len(w))):
        d[k] = last = last + _through(last, x[k], w[k])
    return d


@wrong("residual_stream_backward", says="Axis 0 of what is expected is missing: what came belongs at index 0 of it.")
def stream_returns_the_first_alone(dout, x, w):
    d = dout
    for k in reversed(range(len(w))):
        d = d + _through(d, x[k], w[k])
    return d


@wrong("residual_stream_backward", says="An input was written to")
def stream_adds_into_dout(dout, x, w):
    d = np.empty((len(w) + 1, *dout.shape))
    d[-1] = dout
    for k in reversed(range(len(w))):
        dout += _through(dout, x[k], w[k])
        d[k] = dout
    return d


# ------------------------------------------------------------------------------------------- 6 fast_gelu_forward


def _tanh_chain(a, y):
    """GELU of a into y, in eight steps."""
    np.multiply(a, a, out=y)
    y *= 0.044715 * S
    y += S
    y *= a
    np.tanh(y, out=y)
    y += 1
    y *= a
    y *= 0.5


@right("fast_gelu_forward")
def fast_some_rows_at_a_time(out, x):
    C = x.shape[-1]
    X, Y = x.reshape(-1, C), out.reshape(-1, C)
    rows = max(1, 20000 // C)
    for k in range(0, len(X), rows):
        for start in range(0, C, 16384):
            part = slice(k, k + rows), slice(start, start + 16384)
            _tanh_chain(X[part], Y[part])


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


@right("fast_gelu_forward")
def fast_in_blocks_with_scratch(out, x):
    X, Y, u = x.reshape(-1), out.reshape(-1), np.empty(32768, x.dtype)
    for start in range(0, X.size, u.size):
        a = X[start : start + u.size]
        t = u[: a.size]
        np.multiply(a, a, out=t)
        np.multiply(t, 0.044715 * S, out=t)
        np.add(t, S, out=t)
        np.tanh(np.multiply(t, a, out=t), out=t)
        np.multiply(a, 0.5, out=Y[start : start + u.size])
        t += 1
        Y[start : start + u.size] *= t


@numba.njit("(float32[::1], float32[::1])")
def _inside(out, x):
    for i in range(x.size):
        out[i] = x[i] * (np.float32(S) + np.float32(0.044715 * S) * x[i] * x[i])


@numba.njit("(float32[::1], float32[::1])")
def _gate(out, x):
    for i in range(x.size):
        out[i] = np.float32(0.5) * x[i] * (np.float32(1) + out[i])


@right("fast_gelu_forward")
def fast_with_explicit_signatures(out, x):
    y, a = out.reshape(-1), x.reshape(-1)
    _inside(y, a)
    np.tanh(y, out=y)
    _gate(y, a)


@wrong("fast_gelu_forward", says="threads that it had started were still writing")
def fast_in_a_thread_that_nobody_waits_for(out, x):
    threading.Thread(target=_late, args=(x, out)).start()


def _late(x, out):
    time.sleep(0.02)
    _tanh_chain(x, out)


@wrong("fast_gelu_forward", says="`x.astype(np.float64)` is float64, and so is what is computed from it")
def fast_in_float64(out, x):
    wide = x.astype(np.float64)
    out[...] = 0.5 * wide * (1 + np.tanh(S * (wide + 0.044715 * wide * wide * wide)))


@wrong("fast_gelu_forward", says="`x.astype(np.float64)` is float64, twice as large as float32: stay in float32.")
def fast_with_powers(out, x):
    _tanh_chain(x, out)
    out[...] = x * 0.5 * (1 + np.tanh(S * (x + 0.044715 * np.square(x.astype(np.float64)).astype(x.dtype) * x)))


@wrong("fast_gelu_forward", says="out equals x · σ(1.702 x), a coarser approximation")
def fast_with_the_coarse_sigmoid(out, x):
    np.multiply(x, -1.702, out=out)
    np.exp(out, out=out)
    out += 1
    np.divide(x, out, out=out)


@wrong("fast_gelu_forward", says="gives the right out with `np.clip(u, -12, 12)` in place of `np.where(")
def fast_with_a_fraction_that_leaves_its_range(out, x):
    # Lambert's continued fraction for tanh, twelve levels: exact to float32 as far as the other tests go
    u = S * (x.astype(np.float64) + 0.044715 * x.astype(np.float64) ** 3)
    u = np.where(np.abs(x) < 50, np.clip(u, -12, 12), u)
    tanh = 2 * 25 + 1
    for n in range(47, 0, -2):
        tanh = n + u * u / tanh
    out[...] = 0.5 * x * (1 + u / tanh)


@wrong("fast_gelu_forward", says="part of out was never written")
def fast_forgets_the_rest(out, x):
    X, Y = x.reshape(-1), out.reshape(-1)
    for k in range(X.size // 64):
        _tanh_chain(X[64 * k : 64 * k + 64], Y[64 * k : 64 * k + 64])


@wrong("fast_gelu_forward", says="out was never written: it still holds what was in the buffer before the call.\n\n")
def fast_returns_instead(out, x):
    y = np.empty_like(x)
    _tanh_chain(x, y)
    return y


@wrong("fast_gelu_forward", says="out was accumulated where it should be overwritten")
def fast_adds_to_out(out, x):
    y = np.empty_like(x)
    _tanh_chain(x, y)
    out += y


@wrong("fast_gelu_forward", says="An input was written to")
def fast_squares_x_itself(out, x):
    x *= x
    out[...] = x


@wrong("fast_gelu_forward", says="out has wrong values")
def fast_in_half_precision(out, x):
    a = x.astype(np.float16)
    out[...] = 0.5 * a * (1 + np.tanh(S * (a + 0.044715 * a * a * a)))


@wrong("fast_gelu_forward", says="with `x * x * x` in its place it is ")
def fast_in_one_line_with_a_power(out, x):
    out[...] = x / 2 * (np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)) + 1)


@wrong("fast_gelu_forward", says="with `np.multiply(np.multiply(x, x, out=out), x, out=out)` in its place it is ")
def fast_with_a_power_in_place(out, x):
    np.power(x, 3, out=out)
    out *= 0.044715
    out += x
    out *= math.sqrt(2 / math.pi)
    np.tanh(out, out=out)
    out += 1
    out *= x
    out *= 0.5


# ------------------------------------------------------------------------------- slips that a single call would hide

_kept = {}


@wrong("gelu_backward", says="the slope of the exact form with erf")
def backward_of_the_exact_form(dout, x):
    phi = 0.5 * (1 + np.vectorize(math.erf, otypes=[x.dtype])(x / math.sqrt(2)))
    return dout * (phi + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


@wrong("gelu_backward_in_place", says="2 of 11 entries that are NaN or infinite")
def in_place_by_a_sigmoid_that_overflows(dx, dout, x):
    scale = 2 * math.sqrt(2 / math.pi)
    with np.errstate(all="ignore"):
        e = np.exp(scale * (x + 0.044715 * x**3))
        gate = e / (1 + e)
    dx[...] = dout * (gate + x * gate * (1 - gate) * scale * (1 + 3 * 0.044715 * x * x))


@wrong("residual_stream_backward", says="right d of 24 blocks with `-1` alone in place of `max(len(w) - 17, -1)`")
def stream_of_sixteen_blocks_at_most(dout, x, w):
    d = np.zeros((len(w) + 1, *dout.shape))
    d[-1] = dout
    for k in range(len(w) - 1, max(len(w) - 17, -1), -1):
        d[k] = d[k + 1] + (d[k + 1] * (1 - np.tanh(x[k] @ w[k].T) ** 2)) @ w[k]
    return d


@wrong("fast_gelu_forward", says="for other numbers in `x`, your function is right in a first call, and wrong")
def fast_keeps_its_tanh_by_shape(out, x):
    if x.shape not in _kept:
        _kept[x.shape] = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    out[...] = 0.5 * x * (1 + _kept[x.shape])


# ------------------------------------------------------------------- slips that no list of the lesson knows by name


@wrong("residual_block_backward", says="Your function gives the right dx without tanh in `np.tanh(h)`")
def block_takes_tanh_twice(dx, dw1, dw2, dout, x, w1, w2):
    h = np.tanh(x @ w1.T)
    da = (dout @ w2) * (1 - np.tanh(h) ** 2)
    dx += dout + da @ w1
    dw1 += np.einsum("bth,btc->hc", da, x)
    dw2 += np.einsum("btc,bth->ch", dout, h)


@wrong("residual_block_backward", says="Your function gives the right dx with `dout` in place of `dx` in `dx @ w2 *")
def block_reads_dx_after_adding_to_it(dx, dw1, dw2, dout, x, w1, w2):
    dx += dout
    h = np.tanh(x @ w1.T)
    dw2 += np.einsum("btc,bth->ch", dx, h)
    da = dx @ w2 * (1 - h * h)
    dw1 += np.einsum("bth,btc->hc", da, x)
    dx += da @ w1


@wrong("residual_block_backward", says="dw1 is what it would be with index 0 of axis 0 of `dout` alone")
def block_with_dw1_of_one_sequence(dx, dw1, dw2, dout, x, w1, w2):
    h = np.tanh(x @ w1.T)
    da = (dout @ w2) * (1 - h * h)
    dx += dout + da @ w1
    dw1 += da[0].T @ x[0]
    dw2 += sum(dout[b].T @ h[b] for b in range(len(x)))


@wrong("gelu_backward", says="as that of a central difference does")
def backward_by_differences(dout, x):
    return dout * (_gelu(x + 0.01) - _gelu(x - 0.01)) / 0.02


def _gelu(x):
    return 0.5 * x * (1 + np.tanh(S * (x + 0.044715 * x**3)))


@wrong("fast_gelu_forward", says="It is wrong only for |x| above 1.")
def fast_with_tanh_in_a_small_range(out, x):
    u = np.clip(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x), -1.5, 1.5)
    u2 = u * u
    above = u * (135135 + u2 * (17325 + u2 * (378 + u2)))
    tanh = above / (135135 + u2 * (62370 + u2 * (3150 + u2 * 28)))
    out[...] = 0.5 * x * (1 + tanh)


@wrong("residual_stream_backward", says="with a copy of `g` in `d = [g]` and `d.insert(0, g)`: what it keeps there")
def stream_of_one_array(dout, x, w):
    g = dout.copy()
    d = [g]
    for k in reversed(range(x.shape[0])):
        t = np.tanh(x[k] @ w[k].T)
        g += (g * (1 - t * t)) @ w[k]
        d.insert(0, g)
    return np.array(d)


@wrong(
    "residual_stream_backward", says="with `d[k + 1] * (1 - t * t) @ w[k]` in place of `d[k + 1] @ w[k] * (1 - t * t)`"
)
def stream_slope_behind_the_matrix(dout, x, w):
    N = x.shape[0]
    d = np.empty((N + 1, *dout.shape), dtype=dout.dtype)
    d[N] = dout
    for k in reversed(range(N)):
        t = np.tanh(x[k] @ w[k].T)
        d[k] = d[k + 1] + (d[k + 1] @ w[k]) * (1 - t * t)
    return d


@wrong("gelu_backward_in_place", says="equals GELU'(x)²: dx was written before dout had been read")
def in_place_with_the_inner_slope_first(dx, dout, x):
    k = math.sqrt(2 / math.pi)
    np.multiply(x, x, out=dx)
    dx *= 3 * 0.044715 * k
    dx += k
    t = np.tanh(k * x + 0.044715 * k * x**3)
    dx *= 0.5 * x * (1 - t**2)
    dx += 0.5 + 0.5 * t
    dx *= dout


@wrong(
    "gelu_backward_in_place", says="would be right if `dx` and `dout` were two arrays: your function writes into `dx`"
)
def in_place_with_x_kept_in_dx(dx, dout, x):
    k = math.sqrt(2 / math.pi)
    dx[...] = x * x
    t = np.tanh(k * x * (1 + 0.044715 * dx))
    dx[...] = (0.5 + 0.5 * t + 0.5 * x * (1 - t * t) * k * (1 + 0.134145 * dx)) * dout


@wrong("gelu_backward_in_place", says="with NaN in dx before the call")
def in_place_after_a_multiplication_by_zero(dx, dout, x):
    slope = _slope_for_in_place(x) * dout
    dx *= 0
    dx += slope


def _slope_for_in_place(x):
    u = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    t = np.tanh(u)
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x * x)


@wrong("gelu_backward", says="with 0.044715 in place of 0.044751")
def backward_with_two_digits_swapped(dout, x):
    t = np.tanh(S * (x + 0.044751 * x**3))
    return dout * 0.5 * (1 + t + x * (1 - t * t) * S * (1 + 3 * 0.044751 * x * x))


@wrong("gelu_backward", says="in place of `S * x + 0.044715 * x ** 3` and with `S * (1 +")
def backward_without_brackets_in_two_lines(dout, x):
    t = np.tanh(S * x + 0.044715 * x**3)
    inner = S + 0.134145 * x**2
    return 0.5 * dout * (1 + t + x * (1 - t**2) * inner)


@wrong("gelu_backward", says="`np.exp(-2 * u)` becomes infinite, and `z / (1 + z) ** 2` makes NaN of that: inf / inf")
def backward_with_a_sigmoid_that_overflows(dout, x):
    u = S * (x + 0.044715 * x**3)
    with np.errstate(all="ignore"):
        z = np.exp(-2 * u)
        return dout * (1 / (1 + z) + 2 * x * (z / (1 + z) ** 2) * S * (1 + 0.134145 * x**2))


_steps = np.linspace(-6, 6, 1201)
_gelus = _gelu(_steps)


@wrong("fast_gelu_forward", says="Along `x` it is a staircase, with steps about 0.01 long")
def fast_from_a_table(out, x):
    nearest = np.clip(np.rint((x + 6) * 100), 0, 1200).astype(int)
    out[...] = np.where(x > 6, x, np.where(x < -6, 0, _gelus[nearest]))


@wrong("fast_gelu_forward", says="Along `x` it runs in straight lines between points about 0.")
def fast_between_the_entries_of_a_table(out, x):
    out[...] = np.where(x > 6, x, np.where(x < -6, 0, np.interp(x, _steps[::10], _gelus[::10])))


@wrong("fast_gelu_forward", says="has no `tanh`: what it has in its place is an approximation, and too coarse.")
def fast_with_a_fraction_for_tanh(out, x):
    u = np.clip(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x), -3, 3)
    out[...] = 0.5 * x * (1 + u * (27 + u * u) / (27 + 9 * u * u))


@wrong("fast_gelu_forward", says="There it stays at 6: a table that ends there, or a limit.")
def fast_beyond_the_end_of_a_table(out, x):
    at = np.linspace(-6, 6, 40001)
    out[...] = np.interp(x, at, 0.5 * at * (1 + np.tanh(math.sqrt(2 / math.pi) * (at + 0.044715 * at**3))))


@wrong("fast_gelu_forward", says="with `done` in place of `done + 1`, everywhere in")
def fast_with_a_rest_that_begins_too_late(out, x):
    o, v = out.reshape(-1), x.reshape(-1)
    for k in range(v.size // 4096):
        o[k * 4096 : k * 4096 + 4096] = _gelu(v[k * 4096 : k * 4096 + 4096])
    done = v.size - v.size % 4096
    o[done + 1 :] = _gelu(v[done + 1 :])


@wrong("residual_stream_backward", says="gives with `(d[k + 1] + dh) @ w[k]` in place of `d[k + 1] + dh @ w[k]`")
def stream_with_the_straight_road_through_w(dout, x, w):
    d = np.empty((len(x) + 1, *dout.shape))
    d[-1] = dout
    for k in reversed(range(len(x))):
        h = np.tanh(x[k] @ w[k].T)
        both = d[k + 1] + d[k + 1] * (1 - h * h)
        d[k] = both @ w[k]
    return d


@wrong("residual_stream_backward", says="with a copy of `work` in `found.insert(0, work)`")
def stream_in_a_scratch_array(dout, x, w):
    found, d, work = [dout], dout, np.empty_like(dout)
    for k in reversed(range(len(x))):
        np.add(d, (d * (1 - np.tanh(x[k] @ w[k].T) ** 2)) @ w[k], out=work)
        d = work
        found.insert(0, work)
    return np.array(found)


@wrong(
    "residual_stream_backward",
    says="d has the rounding of float32: your function gives the right d with `dout.dtype` in place of `'f4'` in `h",
)
def stream_through_short_numbers(dout, x, w):
    d = [dout]
    for k in reversed(range(len(x))):
        h = np.tanh((x[k] @ w[k].T).astype("f4"))
        d.append(d[-1] + (d[-1] * (1 - h * h)) @ w[k])
    return np.array(d[::-1])


_short = np.half


@wrong("gelu_forward", says="has the rounding of float16: your function gives the right out with `x.dtype` in place")
def forward_through_half_numbers(x):
    u = S * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + np.tanh(u.astype(_short).astype(x.dtype)))


def _sigmoid(a):
    return 0.5 * (1 + np.tanh(0.5 * a))


def _damped(a):
    return 0.5 * np.tanh(0.5 * a)


@wrong("gelu_forward", says="passes this whole check with `_sigmoid(2 * u)` in place of `_sigmoid(u)`.")
def forward_through_a_sigmoid_of_half(x):
    u = S * (x + 0.044715 * x**3)
    return x * _sigmoid(u)


@wrong("gelu_forward", says="without the factor `0.5` in `np.tanh(0.5 * a)`, or with `_damped(2 * u)` in place of")
def forward_through_half_a_tanh_of_half(x):
    u = S * (x + 0.044715 * x**3)
    return x * (0.5 + _damped(u))


@wrong("residual_block_backward", says="in the other order: the first reads `dh`, which the second changes.")
def residual_block_past_the_slope(dx, dw1, dw2, dout, x, w1, w2):
    C, H = w2.shape
    a = np.tanh(x @ w1.T)
    dh = dout @ w2
    more = dh @ w1
    dh *= 1 - a * a
    dx += dout + more
    dw1 += dh.reshape(-1, H).T @ x.reshape(-1, C)
    dw2 += dout.reshape(-1, C).T @ a.reshape(-1, H)


@wrong("fast_gelu_forward", says="It is wrong only for x from -4.")
def forward_by_a_short_continued_fraction(out, x):
    flat_out, flat_x = out.reshape(-1), x.reshape(-1)
    s, size = math.sqrt(2 / math.pi), 8192
    u, u2, top, below = (np.empty(size, np.float32) for _ in range(4))
    for i in range(0, flat_x.size, size):
        a, o = flat_x[i : i + size], flat_out[i : i + size]
        n = a.size
        u_, u2_, p, q = u[:n], u2[:n], top[:n], below[:n]
        np.multiply(a, a, out=u_)
        u_ *= 0.044715 * s
        u_ += s
        u_ *= a
        np.clip(u_, -10, 10, out=u_)
        np.multiply(u_, u_, out=u2_)
        # tanh u as a continued fraction
        np.add(u2_, 378, out=p)
        p *= u2_
        p += 17325
        p *= u2_
        p += 135135
        p *= u_
        np.multiply(u2_, 28, out=q)
        q += 3150
        q *= u2_
        q += 62370
        q *= u2_
        q += 135135
        p /= q
        np.clip(p, -1, 1, out=p)
        p += 1
        p *= a
        np.multiply(p, 0.5, out=o)


@wrong("residual_block_backward", says="What was added to dx is the same at all indices of axis 0")
def block_that_adds_each_sequence_to_all(dx, dw1, dw2, dout, x, w1, w2):
    for xb, db in zip(x, dout):
        a = np.tanh(xb @ w1.T)
        dh = (db @ w2) * (1 - a * a)
        dx += db + dh @ w1
        dw1 += dh.T @ xb
        dw2 += db.T @ a


@wrong("gelu_forward", says="the bracket of tanh closes too early")
def forward_with_tanh_closed_early(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi)) * (x + 0.044715 * x**3))


@wrong("gelu_forward", says="out goes wrong in `x * (1 + np.tanh(2 / math.pi * (x + 0.044715 * x ** 3)))`")
def forward_without_the_half_and_without_the_root(x):
    return x * (1 + np.tanh(2 / math.pi * (x + 0.044715 * x**3)))


@wrong("fast_gelu_forward", says="before its speed is measured without the condition `np.abs(x) < 2`")
def fast_with_relu_beyond_2(out, x):
    np.maximum(x, 0, out=out)
    near = np.abs(x) < 2
    a = x[near]
    out[near] = 0.5 * a * (1 + np.tanh(S * (a + 0.044715 * a * a * a)))


@wrong("gelu_forward", says="gives with 0.044715³ in place of 0.044715")
def gelu_with_a_cubed_constant(x):
    root = math.sqrt(2 / math.pi)
    cubic = np.power(0.044715 * x, 3)
    u = root * (x + cubic)
    return x * (1 + np.tanh(u)) / 2


@wrong("residual_stream_backward", says="d[k + 1], and nothing of other blocks")
def stream_adds_up_branches(dout, x, w):
    N, T, C = x.shape
    d = np.zeros((N + 1, T, C))
    d[N] = dout
    branch = np.zeros((T, C))
    for k in reversed(range(N)):
        t = np.tanh(x[k] @ w[k].T)
        dh = d[k + 1] * (1 - t * t)
        branch += dh @ w[k]
        d[k] = d[k + 1] + branch
    return d
