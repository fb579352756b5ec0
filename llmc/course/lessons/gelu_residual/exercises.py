"""Lesson 04's exercises: what is right, what is tried, and which mistakes have a name."""

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer
from llmc.course.lessons.gelu_residual import gelu

FAR = np.array([-1e4, -300, -20, -9, -7, -5.5, -5, -0.5, 0, 0.5, 5, 5.5, 7, 9, 20, 300, 1e4])  # exp overflows there

# ------------------------------------------------------------------------------------------------------- inputs


def block_forward(x, w1, w2):
    """x + tanh(x · w1ᵀ) · w2ᵀ; x (..., C), w1 (H, C), w2 (C, H): tanh, so that the exercises need no GELU of yours."""
    return x + np.tanh(x @ w1.T) @ w2.T


def stream_forward(x0, w):
    """Inputs of N blocks x + tanh(x · wᵀ), and the output of the last: (N + 1, T, C) from x0 (T, C), w (N, C, C)."""
    stream = [x0]
    for each in w:
        stream.append(stream[-1] + np.tanh(stream[-1] @ each.T))  # (T, C)
    return np.array(stream)


def numbers(c):
    """x of any shape, around 0; between -3 and -2, where similar functions differ most; far out."""
    for shape in [(4, 5, 7), (1, 2, 3), (33,), (33,), (1,)]:
        yield 0.5 * c.random(*shape)
        yield -2 - c.rng.random(shape)
    for dtype in (np.float64, np.float32):
        c.new(f"x goes from -10000 to 10000, in {dtype.__name__}")
        yield FAR.astype(dtype)


def numbers_and_gradients(c):
    """dout, x: of one shape."""
    for x in numbers(c):
        yield c.random(*x.shape, dtype=x.dtype), x


def gradients_in_place(c):
    """dx, dout, x: dx is an array of its own, one that holds NaN, and the same array as dout."""
    for dout, x in numbers_and_gradients(c):
        dx, again, both = (c.buffer(*x.shape, dtype=x.dtype) for _ in range(3))
        again.flat[0], both[...] = np.nan, dout
        yield dx, dout, x
        yield again, dout, x
        yield both, both, x


def accumulating_blocks(c):
    """dx (B, T, C), dw1 (H, C), dw2 (C, H), dout, x, w1, w2: dw1 and dw2 go on adding up."""
    for B, T, C, H in [(3, 5, 7, 11), (1, 4, 3, 2), (2, 1, 4, 4)]:
        w1, w2, dw1, dw2 = 0.2 * c.random(H, C), 0.3 * c.random(C, H), c.buffer(H, C), c.buffer(C, H)
        for _ in range(2):
            yield c.buffer(B, T, C), dw1, dw2, c.random(B, T, C), 0.2 * c.random(B, T, C), w1, w2


def streams(c):
    """dout (T, C), x (N, T, C), w (N, C, C); finally 24 blocks, whose gradient keeps its size."""
    for N, T, C in [(4, 5, 7), (1, 3, 2), (9, 2, 5), (9, 2, 5), (5, 1, 3), (24, 8, 16)]:
        w = c.rng.normal(0, 0.4 if N < 24 else 0.4 / np.sqrt(N * C), (N, C, C))
        yield c.random(T, C), stream_forward(0.3 * c.random(T, C), w)[:-1], w


def fast_numbers(c):
    """out, x in float32: sizes that no block divides, far out, and twice the size that is timed, in the same array."""
    for shape in [(3, 5, 7), (32769,), (5, 27, 33), (1,)]:
        x, out = c.random(*shape, dtype=np.float32), c.buffer(*shape, dtype=np.float32)
        x[..., ::3] = x[..., ::3] / 2 - 2  # more of them between -3 and 0, where GELU is hard to imitate
        out[: shape == (32769,)] = np.nan  # in the first of them
        yield out, x
    c.new("x goes from -10000 to 10000")
    yield c.buffer(FAR.size, dtype=np.float32), FAR.astype(np.float32)
    c.new("x has the shape that is timed")
    x = c.buffer(1, 1024, 3072, dtype=np.float32)
    for _ in range(2):
        x[...] = c.random(*x.shape, dtype=np.float32)
        yield c.buffer(*x.shape, dtype=np.float32), x


# --------------------------------------------------------------------------------------------------------- rules


def reads_dout_first(tried):
    """A sentence if dx is wrong where it is the same array as dout: as an array of its own it was right before."""
    dx, right, dout = tried.got["dx"], tried.expected["dx"], tried.given["dout"]
    if tried.given["dx"] is not dout or any(np.allclose(dx, each, 1e-3, 1e-3) for each in (right, right + dout)):
        return None
    told = "dx is right as an array of its own, and wrong where it is the same array as dout"
    return f"{told}: read dout for the last time before, or while, you write dx"


def keeps_float32(tried):
    """A sentence about what widens, if the result is float64 for a float32 x."""
    ((name, right),) = tried.expected.items()
    if right.dtype != np.float32 or getattr(tried.got[name], "dtype", None) != np.float64:
        return None
    told = f"{name} is float64 for a float32 x: a NumPy number such as np.sqrt(2 / np.pi) widens an array, math.sqrt"
    place = tried.check.exercise.place("A trap: a constant that widens the array")
    return WrongAnswer(f"{told} does not; and an array that is made without dtype= is float64", look=place)


def right_near_0(tried):
    """A sentence if a result is right up to some |x|, above 1, and wrong in most places beyond it."""
    ((name, right),) = tried.expected.items()
    got, x, held = tried.got[name], tried.given["x"], tried.given.get(name)
    if np.shape(got) != right.shape or getattr(got, "dtype", None) != right.dtype:
        return None
    close = tried.check.exercise.rtol or (1e-4 if right.dtype == np.float32 else 1e-9)
    wrong, far = ~np.isclose(got, right, close, close), np.abs(x)
    if wrong.sum() < 2 or far[wrong].min() < 1 or (held is not None and (got == held)[wrong].any()):
        return None
    k = np.where(wrong, far, np.inf).argmin()
    at = x.flat[k]
    beyond, before = np.sign(at) * x >= abs(at), far[(far < abs(at)) & (far > 0.1)]
    if len(before) < 3 or wrong[beyond].mean() < 0.6:
        return None
    why = "a limit, or a formula that holds near 0 alone"
    if np.isnan(got.flat[k]):
        why = "it is NaN, as inf / inf is where exp overflows; np.tanh never overflows"
    return f"{name} is right up to |x| = {before.max():.4g}, and wrong at x = {at:.4g}: {why}"


# ---------------------------------------------------------------------------------------------------- exercises

Exercise(
    "gelu_forward",
    "04",
    reference=gelu.forward,
    returns="out",
    cases=numbers,
    rules=(keeps_float32, right_near_0),
    look="2 · Forward",
    mistakes=r"""
        = max(x, 0), which is ReLU | return np.maximum(x, 0)
        = x · (1 + tanh(u)): the 0.5 is missing | 0.5 * x * (1 => x * (1
        = 0.5 · (x + tanh(u)): x multiplies the whole bracket | 0.5 * x * (1 + np.tanh(u)) => 0.5 * (x + np.tanh(u))
        = x · σ(u): (1 + tanh(u)) / 2 is σ(2u) | np.tanh(u) => np.tanh(u / 2)
        = 0.5 · x · (1 + tanh(√(2/π)) · (x + 0.044715 · x³)): the bracket of tanh closes too early
            | np.tanh(u) => math.tanh(math.sqrt(2 / math.pi)) * (x + 0.044715 * x**3)
        with (0.044715 · x)³ in place of 0.044715 · x³ | 0.044715 * x * x * x => (0.044715 * x) ** 3
        with 3.1416 in place of π | math.pi => 3.1416
        with √2/π in place of √(2/π) | math.sqrt(2 / math.pi) => math.sqrt(2) / math.pi
        [1.2 · Two formulas] = the exact form with erf: GPT-2 was trained with the tanh form
            | return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[x.dtype])(x / math.sqrt(2)))
        [1.2 · Two formulas] = x · σ(1.702 x), a coarser approximation | np.tanh(u) => np.tanh(0.851 * x)
        [1.2 · Two formulas] = x · σ(x), the function called SiLU or swish | np.tanh(u) => np.tanh(x / 2)
    """,
)

SLOPE = r"""
    [3.5 · The product rule] = dout · 0.5 · (1 + tanh(u)): the second term of the product rule is missing
        | + 0.5 * x * (1 - t * t) * du =>
    [3.1 · Each number alone] = dout · GELU(x): GELU's slope is missing | slope = … => slope = 0.5 * x * (1 + t)
    = the gradient of ReLU | slope = … => slope = (x > 0).astype(x.dtype)
    with 0.044751 in place of 0.044715 | (x + 0.044715 => (x + 0.044751 ;; 3 * 0.044715 => 3 * 0.044751
    [3.2 · The inside] with √(2/π) on x alone, not on the cubic term
        | (x + 0.044715 => (x + 0.044715 / scale ;; 3 * 0.044715 => 3 * 0.044715 / scale
    [3.2 · The inside] with the 3 missing in du/dx: d(x³)/dx = 3x² | 3 * 0.044715 => 0.044715
    [3.4 · The gate] without du/dx: the chain rule needs this factor | * du =>
    [1.2 · Two formulas] = the gradient of the exact form with erf: GPT-2 was trained with the tanh form
        | t = … => t = np.vectorize(math.erf, otypes=[x.dtype])(x / math.sqrt(2))
        ;; 0.5 * x * (1 - t * t) * du => x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
"""

Exercise(
    "gelu_backward",
    "04",
    reference=gelu.backward,
    returns="dx",
    cases=numbers_and_gradients,
    rules=(keeps_float32, right_near_0),
    look="3.5 · The product rule",
    mistakes=SLOPE
    + r"""
        [3.1 · Each number alone] = GELU'(x): dout is missing | dout * slope => slope
        [3.1 · Each number alone] = x · GELU'(dout): dout and x are swapped
            | scale = math => dout, x = x, dout\n    scale = math
    """,
)

Exercise(
    "gelu_backward_in_place",
    "04",
    reference=lambda dx, dout, x: gelu.backward(dout, x),
    writes="dx",
    cases=gradients_in_place,
    rules=(reads_dout_first, right_near_0),
    look="3.7 · In place",
    mistakes=SLOPE
    + r"""
        = GELU'(x) times what dx held before, in place of dout | np.multiply(dout, slope, out=dx) => dx *= slope
        = NaN where dx held NaN before: 0 · NaN is NaN, and `dx[...] = 0` clears it
            | np.multiply(dout, slope, out=dx) => dout = dout * slope\n    dx *= 0\n    dx += dout
    """,
)

Exercise(
    "residual_block_backward",
    "04",
    adds="dx dw1 dw2",
    cases=accumulating_blocks,
    look={"dx": "4.2 · The fork", "": "4.3 · A whole block"},
    mistakes=r"""
        = the branch's gradient alone: the straight road's dout is missing | dx += dout => pass
        = dout alone: the branch's gradient is missing | dx += dh @ w1 => pass
        = the branch's gradient alone, and overwritten | dx += dh @ w1 => dx[...] = dh @ w1
        with the sum over all sequences in each of them | dx += dout => dx += dout.sum(axis=0)
            ;; dx += dh @ w1 => dx += (dh @ w1).sum(axis=0)
        with dx in place of dout on the way into the branch: dx holds more than dout | dout @ w2 => (dx + dout) @ w2
        with 1 - h² in place of 1 - tanh²(h) | (1 - a * a) => (1 - (x @ w1.T) ** 2)
        with rows of dout by (B, T), and of tanh(h) by (T, B) | @ a.reshape(-1, H) => @ a.swapaxes(0, 1).reshape(-1, H)
        with tanh taken twice in the slope: 1 - a² already has tanh's result | (1 - a * a) => (1 - np.tanh(a) ** 2)
        with h in place of tanh(h) | a.reshape(-1, H) => (x @ w1.T).reshape(-1, H)
        with the first sequence alone: all of them use the weights
            | dh.reshape(-1, H).T @ x.reshape(-1, C) => dh[0].T @ x[0]
            ;; dout.reshape(-1, C).T @ a.reshape(-1, H) => dout[0].T @ a[0]
    """,
)

Exercise(
    "residual_stream_backward",
    "04",
    returns="d",
    cases=streams,
    look="4.4 · Many blocks",
    mistakes=r"""
        without the straight road: each block passes on its branch's gradient alone | d[k + 1] + dh @ => dh @
        with dout on every straight road: what goes on is the gradient at that block's output
            | d[k + 1] + dh => dout + dh
        with dout into every branch: each branch receives the gradient at its own block's output
            | d[k + 1] * (1 => dout * (1
        with the straight road through w[k], too | d[k + 1] + dh @ w[k] => (d[k + 1] + dh) @ w[k]
        with d[0] in place of d[1] … d[N - 1], too | return d => d[:N] = d[0]\n    return d
        with zeros in d[0]: the loop stops before k = 0 | np.empty( => np.zeros( ;; range(N) => range(1, N)
        with the blocks in forward order: backward starts at the last block | d[N] = dout
            => e, d[N] = d[::-1], dout ;; reversed(range(N)) => range(N) ;; d[k + 1] * (1 => e[k] * (1
            ;; d[k] = d[k + 1] => e[k + 1] = e[k]
        [3.3 · The slope of tanh] with the slope of tanh after w[k]: on the way back it comes first
            | dh @ w[k] => (d[k + 1] @ w[k]) * (1 - t * t)
        [4.3 · A whole block] with w[k] transposed in both places | x[k] @ w[k].T => x[k] @ w[k] ;; dh @ w => dh @ w.mT
    """,
)

Exercise(
    "fast_gelu_forward",
    "04",
    reference=lambda out, x: gelu.forward(x),
    writes="out",
    cases=fast_numbers,
    rules=(right_near_0,),
    rtol=1e-5,
    atol=1e-5,
    look="2 · Forward",
    slow="Each new array as large as `x` takes time: `out` can hold each of them in turn (hint 2).",
    mistakes=r"""
        = max(x, 0), which is ReLU | np.tanh(y, out=y) => np.sign(a, out=y)
        = x · σ(u): (1 + tanh(u)) / 2 is σ(2u) | y *= a  # u => y *= a / 2
        = x · σ(1.702 x), a coarser approximation | np.tanh(y, out=y) => np.tanh(0.851 * a, out=y)
    """,
)
