"""Lesson 11's exercises: what is right, what is tried, and which mistakes have a name."""

import sys
from trace import Trace

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.course.checks.speed.retained_arrays import no_more_than
from llmc.course.lessons.attention.references import scores
from llmc.course.lessons.embeddings.references import awkward_tokens, backward, zipf_tokens
from llmc.course.lessons.fast_on_cpu import kernels
from llmc.course.lessons.gelu_residual import gelu
from llmc.course.lessons.gelu_residual.exercises import reads_dout_first, right_near_0
from llmc.course.lessons.layernorm.exercises import FAR, keeps_digits
from llmc.course.lessons.layernorm.rows import forward
from llmc.course.lessons.softmax_crossentropy.references import softmax
from llmc.course.measure import peak_bytes, resident_peak
from llmc.course.own_names import among_learners_names

f32 = np.float32
KINDS = {  # of rows, and what a message says about them
    "small": "rows so near 0 that eps shows",
    "far": f"rows around {FAR}, where E[x²] and E[x]² agree in nearly all of their digits",
    "NaN": "a NaN",
    "equal": "a row of equal numbers, whose variance is 0",
}


def attention(q, k, v):
    """out (T, hs), and the logarithm of each softmax's sum (T,), of one causal head; q, k, v (T, hs)."""
    s = scores(np.asarray(q, np.float64), np.asarray(k, np.float64))  # (T, T)
    return (softmax(s) @ v).astype(q.dtype), np.logaddexp.reduce(s, axis=1).astype(q.dtype)


def gradients(dout, out, stats, q, k, v):
    """dq, dk, dv (T, hs) of one causal head, through the whole table, in float64; without out and stats."""
    d, q64, k64, v64 = (np.asarray(array, np.float64) for array in (dout, q, k, v))  # (T, hs) each
    p, dp = softmax(scores(q64, k64)), d @ v64.T  # (T, T) each
    ds = p * (dp - (p * dp).sum(axis=1, keepdims=True)) / np.sqrt(q.shape[1])  # (T, T)
    return tuple(array.astype(q.dtype) for array in (ds @ k64, ds.T @ q64, p.T @ d))


# ------------------------------------------------------------------------------------------------------- inputs


def functions(c):
    """flops, nbytes, seconds, peak, bandwidth: numbers and arrays (n,) of two machines; some compute nothing."""
    for peak, bandwidth in [(3e11, 2e10), (5e10, 4e10)]:
        nbytes = 10 ** c.rng.uniform(5, 8, 9)  # (n,)
        flops = nbytes * np.array([0.1, 0.5, 1, 2, 8, 30, 60, 100, 300])  # (n,)   below and above the corner
        seconds = np.maximum(flops / peak, nbytes / bandwidth) / c.rng.uniform(0.1, 0.9, 9)  # (n,)
        several = [(flops[at], nbytes[at], seconds[at]) for at in (slice(9), 0, 8, slice(3), slice(7, 9))]
        several += [(int(flops[3]), int(nbytes[3]), 1), (0, 8_000_000, 1e-3)]
        for each in [*several, (np.array([0.0, 4e6]), np.array([8e6, 8e6]), np.array([1e-3, 1e-3]))]:
            c.new("a function without operations" * (not np.all(each[0])))
            yield *each, peak, bandwidth


def rows_to_add(c):
    """residual, out (N, C), mean, rstd (N,), x1, x2 (N, C), w, b (C,) in float32: finally the size that is timed."""
    few = [(5, 7), (3, 4, "small"), (1, 33), (6, 64), (6, 64, "far"), (300, 5)]
    many = [(131, 1027), (1024, 768), (1024, 768)] if c.explains else [(131, 5), (3, 1027), (1024, 3), (2, 768)]
    for N, C, *kind in [*few, *few, (6, 64, "NaN"), (6, 64, "equal"), *many]:  # edits are plain Python, and slow
        c.new(KINDS[kind[0]] if kind else f"{N:,} rows of {C:,} channels" * (N > 100))
        x1, x2 = (c.random(N, C, dtype=f32) * f32(0.0007 if kind == ["small"] else 1) for _ in range(2))  # (N, C) each
        x1 += f32(FAR if kind == ["far"] else 0)
        x1[2:3, -1] += f32(np.nan if kind == ["NaN"] else 0)
        for array in (x1, x2):
            array[:1] = 0.5 if kind == ["equal"] else array[:1]
        buffers = (c.buffer(*shape, dtype=f32) for shape in [(N, C), (N, C), (N,), (N,)])
        inputs = x1, x2, c.random(C, dtype=f32), c.random(C, dtype=f32)
        yield *buffers, *inputs
    kernels.timed(c, *inputs)


def rows_to_scatter(c):
    """dwte (V, C), dwpe (maxT, C), dout (B, T, C), tokens (B, T) in float32; finally the size that is timed."""
    few = [(4, 5, 7, 9, 5), (2, 3, 6, 3, 8), (3, 4, 9, 6, 1), (2, 9, 5, 11, 7), (6, 50, 70, 53, 5)] * 2
    for B, T, V, maxT, C in [*few, (7, 1000, 503, 1000, 37), (32, 256, 300, 256, 48), (32, 256, 300, 256, 48)]:
        c.new(f"dout has {B * T:,} rows" if B * T > 1000 else "more positions than tokens" * (T > V))
        C = C if c.explains else min(C, 8)  # edits are plain Python, and slow
        tokens = (zipf_tokens if B * T > 1000 else awkward_tokens)(c.rng, B, T, V)
        tokens[-1, -1] = V - 1 if T == 4 else tokens[-1, -1]  # the last row of the table
        dwte, dwpe, dout = c.buffer(V, C, dtype=f32), c.buffer(maxT, C, dtype=f32), c.random(B, T, C, dtype=f32)
        yield dwte, dwpe, dout, tokens
    kernels.timed(c, dout, tokens)


def heads(c, sizes=((5, 3), (8, 4), (9, 4), (1, 2), (5, 3), (200, 4), (131, 33), (6, 4))):
    """dout, out (T, hs), stats (T,), q, k, v (T, hs): T = 8 has large scores, in float32."""
    for T, hs in sizes:
        dtype = f32 if T == 8 or T >= 250 else np.float64
        q, k, v, dout = (c.random(T, hs, dtype=dtype) / dtype(2) for _ in range(4))  # (T, hs) each
        if T == 8:  # e to each score is infinite, and none stands out
            q, k = np.maximum(np.abs(q), 1), k + dtype(60)
        q[T // 2] *= T != 9  # a query of zeros: a score of 0 is a score like any other
        k[-1] = 3000 * q[:-1].sum(axis=0) if T == 6 else k[-1]  # its score is high for one of these queries
        c.new({8: "large scores, in float32", 6: "e to the score of a later key is infinite"}.get(T, f"T = {T}"))
        yield dout, *attention(q, k, v), q, k, v


def slopes(c):
    """dx, dout, x (n,) in float32: dx may be dout; other numbers in the same x, far out, and NaN; the timed size."""
    far, again = np.array([-10000, -300, -12, -5, -1, 0, 1, 5, 12, 300, 10000], f32), c.buffer(11, dtype=f32)  # (n,)
    ends, other = "x goes from -10000 to 10000. At its ends, the slope is 0 and 1", "x is the same array as before"
    special = (far, ends), (far / 4000, other), (far / 3000, other), (np.where(far, far, f32(np.nan)), "a NaN")
    sizes = [(7,), (1,), (1003,), (20_003,), (7,), *((11, *each) for each in special), (524_288,), (524_288,)]
    for k, (n, *numbers) in enumerate(sizes):
        c.new(numbers[1] if numbers else f"{n:,} numbers" * (n > 1000))
        dx, dout, x = c.buffer(n, dtype=f32), c.random(n, dtype=f32), c.random(n, dtype=f32).clip(-8, 8)  # (n,) each
        if numbers:
            again[...], x = numbers[0], again
        yield dx, dout, x
        if k in (0, 3):
            dx[...] = dout
            yield dx, dx, x
    kernels.timed(c, dout, x)


# -------------------------------------------------------------------------------------------------- its memory


def judge_memory(c, function, hs=4):
    """Raise WrongAnswer if a right function takes half of a T × T table for T = 1000, or one of bytes for T = 4000."""
    few, *many = heads(c, [(250, hs), (1000, hs), (1000, hs)])
    peak = peak_bytes(lambda: function(*many[0]))  # before any other call with T = 1000
    for inputs in many:
        c.compare(function, *inputs)
    needs = f"{peak / 1e6:.1f} MB at once for T = 1000; one T × T table alone takes 4.0 MB"
    if peak >= 2e6:
        raise WrongAnswer(f"right, but your code needs {needs}", Kind.DEMAND)
    no_more_than(function, 2e6, "half of a T × T table is too much")
    c.say(f"It needs {needs}.")
    counter, before = Trace(count=1, trace=0), sys.gettrace()
    counter.runfunc(among_learners_names(lambda: function(*few)))
    sys.settrace(before)
    if c.explains and sum(counter.results().counts.values()) < 50_000:  # lines: more go through all pairs of positions
        (long,) = heads(c, [(4000, hs)])
        peak, resident = (measured(lambda: function(*long)) or 0 for measured in (peak_bytes, resident_peak))
        if peak >= 16e6 or resident >= 32e6:
            told = f"right, but at T = 4000 your code holds {max(peak, resident) / 1e6:.0f} MB at once: a table"
            raise WrongAnswer(f"{told} of T × T takes 64 MB in float32, 16 MB in bool", Kind.DEMAND)


COST = r"""
    with 8 · N · C operations: there are 1 for the sum, 1 for the mean, 3 for the variance, 4 for out | 9 * N => 8 * N
    = the bytes of four large arrays: one function writes the sum, and the other reads it | 3 * N * C + 2 * N => 4 * N
    with the bytes of the two functions for the fused one, where the sum stays in the cache | 4 * N => 5 * N
    with the large arrays alone: w, b, mean and rstd cross, too | small = … => small = 0
    with w and b read again for every row: once is enough | 2 * C + => 2 * C * N +
    with w and b in numbers, not in bytes | 2 * C + => 2 * C / itemsize +
    with 4 in place of itemsize | itemsize * (3 => 4 * (3 ;; itemsize * (4 => 4 * (4
    with 4 bytes for each mean and rstd, whatever itemsize is | 2 * C + 2 * N => 2 * C + 8 * N / itemsize
    with numbers counted, not bytes: itemsize is missing | itemsize * (3 => (3 ;; itemsize * (4 => (4
"""
ROOF = r"""
    = the peak, even where intensity · bandwidth is lower | attainable = … => attainable = peak + 0 * flops
    = the speed that was reached, which depends on the seconds | attainable = … => attainable = flops / seconds
    = the sum of both times, which pass together | np.maximum(flops / peak, => (flops / peak +
    with one limit for all functions, by any(): each of them has its own
        | shortest = … => many = np.any(flops / peak > nbytes / bandwidth)
        \n    shortest = flops / peak if many else nbytes / bandwidth\n    attainable = flops / shortest
    = flops / attainable, which is 0 / 0 where there are no operations: take the larger of the two times
        | shortest = … => shortest = flops / attainable
    with 0 where there are no operations: the bytes have to move | / bandwidth) => / bandwidth) * (flops != 0)
    with the bandwidth alone below the corner: there it is intensity · bandwidth
        | attainable = … => attainable = np.where(flops / nbytes < peak / bandwidth, bandwidth, peak)
"""
FUSED = r"""
    = rstd: among the arguments, mean comes first | = centre, r => = r, centre
    less the row's mean: it must hold x1 + x2 at the end
        | mean[n], rstd[n] = centre, r => mean[n], rstd[n] = centre, r\n        residual[n] -= centre
    with eps added to the standard deviation, not to the variance
        | r = … => r = ONE / (math.sqrt(squares * share) + EPS)
    as the standard deviation, not 1 divided by it | ONE / math => math
    with the squares divided by C - 1 | squares * share => squares / np.float32(C - 1)
    without the squares of the last C % 4 channels | squares += => squares += (c < C - C % 4) *
    with w[n] and b[n], n being the row | w[c] + b[c] => w[n % C] + b[n % C]
    with w[n], n being the row | w[c] => w[n % C]
    with the variances of x1 and x2 added up: that of the sum has their covariance in it, too
        | r = … => r = ONE / math.sqrt(x1[n].var() + x2[n].var() + EPS)
    = the layernorm of x1 alone, not of the sum
        | out[n, c] = … => out[n, c] = (x1[n, c] - x1[n].mean()) / math.sqrt(x1[n].var() + EPS) * w[c] + b[c]
"""
SCATTER = r"""
    with only the last row of dout for each token: the others are lost
        | TOKEN ((tokens.ravel()[s * T + t :] == tokens[s, t]).sum() < 2) *
    without the repeats inside a sequence: only the last of them is left
        | TOKEN ((tokens[s, t:] == tokens[s, t]).sum() < 2) *
    less what dwte held for each of the tokens: their rows are overwritten
        | parts = … => parts = get_num_threads()\n    dwte[np.unique(tokens)] = 0
"""
LEAN = r"""
    without the queries behind the last whole block | range(0, T, 64) => range(0, max(T - T % 64, min(T, 64)), 64)
    with a mask that is one too wide: query i sees key i + 1 as well | LATER => p[np.triu(p, first + 2) != 0]
    with the mask of the first block of 64 queries in all of them | LATER = 0 => p[...] = np.tril(p)
    with exp(s - L) times a mask of zeros and ones: for a later key exp may be inf, and inf · 0 is NaN
        | LATER = 0 => p *= np.tri(len(p), end, first)
    with hidden scores that are 0 before exp: exp(0 - L) is not 0 | p -= => LATER = 0; p -= ;; LATER = 0  # => pass  #
    with exp(s) and exp(L), which are infinite where the scores are large: exp(s - L) is at most 1
        | p -= … => pass ;; np.exp(p, out=p) => p = np.exp(p) / np.exp(stats[first:end, None])
    = dsᵀ · do, before the scale: dv comes from the probabilities, pᵀ · do | p.T @ do => ds.T @ do / scale
"""
SLOPE = r"""
    = dout · gate: the second term of the product rule is missing | SLOPE s
    = dout · x · gate': the first term of the product rule, the gate, is missing | SLOPE 2 * a * s * (1 - s) * du
    with 1 - tanh(u) in place of 1 - tanh²(u) | SLOPE s + a * (1 - s) * du
    without du/dx: the chain rule needs this factor | SLOPE s + 2 * a * s * (1 - s)
    = the gradient of the exact form with erf: GPT-2 was trained with the tanh form
        | SLOPE 0.5 + 0.5 * np.vectorize(math.erf)(a / 2**0.5) + a * np.exp(-a * a / 2) / math.sqrt(2 * math.pi)
"""

# ---------------------------------------------------------------------------------------------------- exercises

SIZES, ONE_PASS = [(7, 33, 2), (3, 5), (5, 2, 8), (4096, 768)], "4.2 · Residual and layernorm in one pass"
PASSES, TOKEN = "flops separate_bytes fused_bytes intensity", "dwte[tokens[s, t], c] +="
Exercise("residual_layernorm_cost", "11", None, PASSES, cases=lambda c: SIZES, mistakes=COST, look=ONE_PASS)
Exercise("roofline", "11", None, "attainable shortest share", cases=functions, mistakes=ROOF, look="6 · The roofline")
Exercise(
    "residual_layernorm_forward",
    "11",
    lambda residual, out, mean, rstd, x1, x2, w, b: (x1 + x2, *forward(x1 + x2, w, b)),
    writes="residual out mean rstd",
    cases=rows_to_add,
    rules=(
        kernels.keeps_nan,
        lambda tried: keeps_digits(tried._replace(given={"x": np.nan_to_num(tried.expected["residual"])})),
        kernels.with_three_threads,
    ),
    rtol=lambda residual, out, mean, rstd, x1, x2, w, b: 2e-3 if np.nanmin(np.abs(x1)) > FAR / 2 else None,
    mistakes=FUSED,
    look=ONE_PASS,
)
Exercise(
    "scatter_add",
    "11",
    lambda dwte, dwpe, dout, tokens: backward(dout, tokens, len(dwte), len(dwpe)),
    adds="dwte dwpe",
    cases=rows_to_scatter,
    rules=(kernels.with_three_threads,),
    rtol=lambda dwte, dwpe, dout, tokens: 1e-3 if tokens.size > 1000 else None,
    atol=lambda dwte, dwpe, dout, tokens: 0.05 if tokens.size > 1000 else None,
    mistakes=SCATTER.replace("TOKEN", f"{TOKEN} => {TOKEN}"),
    look="9.1 · A race",
)
Exercise(
    "attention_backward_lean",
    "11",
    gradients,
    "dq dk dv",
    cases=heads,
    rtol=lambda dout, out, stats, q, k, v: {8: 2e-2, 1000: 1e-3}.get(len(q)),
    # a single token has nothing to choose; large keys blow up what is rounded in dq
    atol=lambda *head: {1: 1e-9, 8: 4e-3 * max(np.abs(each).max() for each in gradients(*head))}.get(len(head[0])),
    mistakes=LEAN.replace("LATER", "p[np.arange(end) > np.arange(first, end)[:, None]]"),
    look="5.2 · One number is enough",
)
Exercise(
    "fast_gelu_backward",
    "11",
    lambda dx, dout, x: gelu.backward(dout, x),
    writes="dx",
    cases=slopes,
    rules=(kernels.keeps_nan, reads_dout_first, right_near_0, kernels.with_three_threads),
    # 1 - tanh² loses its digits near 0, and x and x² make more of that
    atol=lambda dx, dout, x: 4e-6 * np.abs(dout).max() if np.nanmax(np.abs(x)) < 10 else None,
    mistakes=SLOPE.replace("SLOPE", "q *= s  #… => du = (k + slope * a * a) / 2; q[...] ="),
    look='lesson 04, section "3.5 · The product rule"',
    slow='Nearly every operation makes a new array: lesson 11, section "3 · Your first kernel".',
)
