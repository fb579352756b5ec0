"""Answers to the exercises of lesson 11 as learners write them: right ones that look different, and wrong ones.

Each wrong answer carries words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 11` runs those of this lesson.
"""

import math

import numba
import numpy as np
from numba import njit, prange

from llmc.course.old.authoring.answers import right, wrong

f32 = np.float32

# ------------------------------------------------------------------------------------- 1 residual_layernorm_cost


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


def _cost(flops, apart, fused):
    return flops, apart, fused, flops / fused


@wrong("residual_layernorm_cost", says="flops equals 8 · N · C: one operation for each number is missing")
def cost_forgets_the_sum(N, C, itemsize=4):
    small = 2 * (N + C)
    return _cost(8 * N * C, itemsize * (5 * N * C + small), itemsize * (4 * N * C + small))


@wrong("residual_layernorm_cost", says="the sum again, and out: one writes the sum, and the other reads it")
def cost_reads_the_sum_once(N, C, itemsize=4):
    nbytes = itemsize * (4 * N * C + 2 * (N + C))
    return _cost(9 * N * C, nbytes, nbytes)


@wrong("residual_layernorm_cost", says="fused_bytes equals the bytes of the two functions")
def cost_saves_nothing(N, C, itemsize=4):
    nbytes = itemsize * (5 * N * C + 2 * (N + C))
    return _cost(9 * N * C, nbytes, nbytes)


@wrong("residual_layernorm_cost", says="fused_bytes equals the bytes of three large arrays and the small ones")
def cost_forgets_to_write_the_sum(N, C, itemsize=4):
    small = 2 * (N + C)
    return _cost(9 * N * C, itemsize * (5 * N * C + small), itemsize * (3 * N * C + small))


@wrong("residual_layernorm_cost", says="separate_bytes equals the bytes of 5 · N · C numbers alone")
def cost_of_the_large_arrays(N, C, itemsize=4):
    return _cost(9 * N * C, itemsize * 5 * N * C, itemsize * 4 * N * C)


@wrong("residual_layernorm_cost", says="separate_bytes equals the bytes without mean and rstd")
def cost_forgets_the_statistics(N, C, itemsize=4):
    return _cost(9 * N * C, itemsize * (5 * N * C + 2 * C), itemsize * (4 * N * C + 2 * C))


@wrong("residual_layernorm_cost", says="separate_bytes equals the number of numbers: itemsize is missing")
def cost_in_numbers(N, C, itemsize=4):
    small = 2 * (N + C)
    return _cost(9 * N * C, 5 * N * C + small, 4 * N * C + small)


@wrong("residual_layernorm_cost", says="separate_bytes equals the bytes of float32 numbers, whatever itemsize says")
def cost_in_float32(N, C, itemsize=4):
    small = 2 * (N + C)
    return _cost(9 * N * C, 4 * (5 * N * C + small), 4 * (4 * N * C + small))


@wrong("residual_layernorm_cost", says="w and b read again for every row: once is enough")
def cost_reads_w_for_every_row(N, C, itemsize=4):
    small = 2 * N + 2 * C * N
    return _cost(9 * N * C, itemsize * (5 * N * C + small), itemsize * (4 * N * C + small))


@wrong("residual_layernorm_cost", says="intensity equals bytes per operation: divide the other way round")
def cost_upside_down(N, C, itemsize=4):
    flops, apart, fused, intensity = cost_array_by_array(N, C, itemsize)
    return flops, apart, fused, fused / flops


@wrong("residual_layernorm_cost", says="intensity equals the intensity of the two separate functions")
def cost_intensity_of_the_two(N, C, itemsize=4):
    flops, apart, fused, intensity = cost_array_by_array(N, C, itemsize)
    return flops, apart, fused, flops / apart


@wrong("residual_layernorm_cost", says="intensity equals its whole part")
def cost_with_whole_division(N, C, itemsize=4):
    flops, apart, fused, intensity = cost_array_by_array(N, C, itemsize)
    return flops, apart, fused, flops // fused


@wrong("residual_layernorm_cost", says="flops, separate_bytes, fused_bytes, intensity, but 3 were returned")
def cost_leaves_one_out(N, C, itemsize=4):
    return cost_array_by_array(N, C, itemsize)[:3]


# ---------------------------------------------------------------------------------------------------- 2 roofline


@right("roofline")
def roof_with_where(flops, nbytes, seconds, peak, bandwidth):
    intensity = flops / nbytes
    on_the_slope = intensity < peak / bandwidth
    attainable = np.where(on_the_slope, intensity * bandwidth, peak)
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


def _roof(flops, nbytes, seconds, peak, bandwidth):
    """Right: the answers below go wrong in one of the three."""
    shortest = np.maximum(flops / peak, nbytes / bandwidth)
    return np.minimum(peak, flops / nbytes * bandwidth), shortest, shortest / seconds


@wrong("roofline", says="attainable equals the larger of the two limits: the lower one holds")
def roof_takes_the_larger(flops, nbytes, seconds, peak, bandwidth):
    attainable, shortest, share = _roof(flops, nbytes, seconds, peak, bandwidth)
    return np.maximum(peak, flops / nbytes * bandwidth), shortest, share


@wrong("roofline", says="attainable equals intensity · bandwidth, even where the peak is lower")
def roof_without_a_peak(flops, nbytes, seconds, peak, bandwidth):
    attainable, shortest, share = _roof(flops, nbytes, seconds, peak, bandwidth)
    return flops / nbytes * bandwidth, shortest, share


@wrong("roofline", says="attainable equals the reference with bytes per operation as the intensity")
def roof_upside_down(flops, nbytes, seconds, peak, bandwidth):
    attainable, shortest, share = _roof(flops, nbytes, seconds, peak, bandwidth)
    return np.minimum(peak, nbytes / flops * bandwidth), shortest, share


@wrong("roofline", says="attainable equals the speed that was reached")
def roof_of_what_was_reached(flops, nbytes, seconds, peak, bandwidth):
    attainable, shortest, share = _roof(flops, nbytes, seconds, peak, bandwidth)
    return flops / seconds, shortest, share


@wrong("roofline", says="shortest equals the sum of both times")
def roof_one_after_the_other(flops, nbytes, seconds, peak, bandwidth):
    attainable, shortest, share = _roof(flops, nbytes, seconds, peak, bandwidth)
    shortest = flops / peak + nbytes / bandwidth
    return attainable, shortest, shortest / seconds


@wrong("roofline", says="shortest equals the shorter of the two times: both must be over")
def roof_takes_the_shorter(flops, nbytes, seconds, peak, bandwidth):
    attainable, shortest, share = _roof(flops, nbytes, seconds, peak, bandwidth)
    shortest = np.minimum(flops / peak, nbytes / bandwidth)
    return attainable, shortest, shortest / seconds


@wrong("roofline", says="share equals seconds / shortest: divide the other way round")
def roof_share_upside_down(flops, nbytes, seconds, peak, bandwidth):
    attainable, shortest, share = _roof(flops, nbytes, seconds, peak, bandwidth)
    return attainable, shortest, seconds / shortest


@wrong("roofline", says="share equals the share of the peak: where memory is the limit, the roof is lower")
def roof_share_of_the_peak(flops, nbytes, seconds, peak, bandwidth):
    attainable, shortest, share = _roof(flops, nbytes, seconds, peak, bandwidth)
    return attainable, shortest, flops / seconds / peak


@wrong("roofline", says="which is 0 / 0 where there are no operations: take the larger of the two times")
def roof_divides_by_nothing(flops, nbytes, seconds, peak, bandwidth):
    attainable = np.minimum(peak, flops / nbytes * bandwidth)
    shortest = flops / attainable
    return attainable, shortest, shortest / seconds


@wrong("roofline", says="truth value of an array with more than one element is ambiguous")
def roof_with_pythons_min(flops, nbytes, seconds, peak, bandwidth):
    attainable = min(peak, flops / nbytes * bandwidth)
    shortest = max(flops / peak, nbytes / bandwidth)
    return attainable, shortest, shortest / seconds


@wrong("roofline", says="nothing was returned, and 3 values are expected")
def roof_returns_nothing(flops, nbytes, seconds, peak, bandwidth):
    _roof(flops, nbytes, seconds, peak, bandwidth)


# ---------------------------------------------------------------------------------- 3 residual_layernorm_forward


@right("residual_layernorm_forward")
def fused_in_numpy(residual, out, mean, rstd, x1, x2, w, b):
    np.add(x1, x2, out=residual)
    mean[:] = residual.mean(axis=1)
    centred = residual - mean[:, None]
    rstd[:] = 1 / np.sqrt((centred**2).mean(axis=1) + 1e-5)
    out[:] = centred * rstd[:, None] * w + b


@right("residual_layernorm_forward")
def fused_row_by_row(residual, out, mean, rstd, x1, x2, w, b):
    for n in range(len(x1)):
        row = residual[n]
        row[:] = x1[n] + x2[n]
        mean[n], rstd[n] = row.mean(), (row.var() + f32(1e-5)) ** f32(-0.5)
        out[n] = (row - mean[n]) * rstd[n] * w + b


@njit
def _with_float64(residual, out, mean, rstd, x1, x2, w, b):
    N, C = x1.shape
    for n in range(N):
        total = squares = 0.0
        for c in range(C):
            residual[n, c] = x1[n, c] + x2[n, c]
            total += residual[n, c]
        mean[n] = total / C
        for c in range(C):
            squares += (residual[n, c] - mean[n]) ** 2
        rstd[n] = 1 / math.sqrt(squares / C + 1e-5)
        for c in range(C):
            out[n, c] = (residual[n, c] - mean[n]) * rstd[n] * w[c] + b[c]


@right("residual_layernorm_forward")
def fused_with_bare_constants(residual, out, mean, rstd, x1, x2, w, b):
    _with_float64(residual, out, mean, rstd, x1, x2, w, b)  # right, and slower: the check says so


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


@njit("void(f4[:,::1], f4[:,::1], f4[::1], f4[::1], f4[:,::1], f4[:,::1], f4[::1], f4[::1])")
def _works_in_x1(residual, out, mean, rstd, x1, x2, w, b):
    for n in range(len(x1)):
        x1[n] += x2[n]
        residual[n] = x1[n]


@wrong("residual_layernorm_forward", says="and `residual[...] = x1 + x2` in the other order")
def fused_sums_up_what_was_there(residual, out, mean, rstd, x1, x2, w, b):
    mean[...] = residual.mean(axis=1)
    residual[...] = x1 + x2
    apart = residual - mean[:, None]
    rstd[...] = 1 / np.sqrt((apart * apart).mean(axis=1) + np.float32(1e-5))
    out[...] = apart * rstd[:, None] * w + b


@wrong("residual_layernorm_forward", says="An input was written to: your code changed `x1` (5, 7) float32")
def fused_with_a_signature_works_in_x1(residual, out, mean, rstd, x1, x2, w, b):
    _works_in_x1(residual, out, mean, rstd, x1, x2, w, b)


@wrong("residual_layernorm_forward", says="what is new here: 131 rows of 1,027 channels")
def fused_has_a_row_of_1024(residual, out, mean, rstd, x1, x2, w, b):
    fused_in_numpy(residual, out, mean, rstd, x1, x2, w, b)
    out[:, 1024:] = 0


@wrong("residual_layernorm_forward", says="residual was accumulated where it should be overwritten")
def fused_adds_to_residual(residual, out, mean, rstd, x1, x2, w, b):
    held = residual.copy()
    fused_in_numpy(residual, out, mean, rstd, x1, x2, w, b)
    residual += held


@wrong("residual_layernorm_forward", says="residual was never written")
def fused_forgets_residual(residual, out, mean, rstd, x1, x2, w, b):
    residual = x1 + x2
    fused_in_numpy(residual, out, mean, rstd, x1, x2, w, b)


@wrong("residual_layernorm_forward", says="residual equals x1 alone: x2 is not added")
def fused_forgets_x2(residual, out, mean, rstd, x1, x2, w, b):
    fused_in_numpy(residual, out, mean, rstd, x1, 0 * x2, w, b)


@wrong("residual_layernorm_forward", says="out equals the layernorm of x1 alone, not of the sum")
def fused_normalises_x1(residual, out, mean, rstd, x1, x2, w, b):
    fused_in_numpy(residual, out, mean, rstd, x1, x2, w, b)
    scrap = [np.empty_like(a) for a in (residual, mean, rstd)]
    fused_in_numpy(scrap[0], out, scrap[1], scrap[2], x1, 0 * x2, w, b)


@wrong("residual_layernorm_forward", says="mean and rstd are swapped")
def fused_swaps_mean_and_rstd(residual, out, mean, rstd, x1, x2, w, b):
    fused_in_numpy(residual, out, rstd, mean, x1, x2, w, b)


@wrong("residual_layernorm_forward", says="rstd equals the standard deviation, not 1 divided by it")
def fused_keeps_the_deviation(residual, out, mean, rstd, x1, x2, w, b):
    fused_in_numpy(residual, out, mean, rstd, x1, x2, w, b)
    rstd[:] = 1 / rstd


@wrong("residual_layernorm_forward", says="float32 loses the digits in `(residual * residual).sum(axis=1)")
def fused_in_one_loop(residual, out, mean, rstd, x1, x2, w, b):
    C = x1.shape[1]
    np.add(x1, x2, out=residual)
    mean[:] = residual.sum(axis=1) / f32(C)
    rstd[:] = 1 / np.sqrt((residual * residual).sum(axis=1) / f32(C) - mean * mean + f32(1e-5))
    out[:] = (residual - mean[:, None]) * rstd[:, None] * w + b


@wrong("residual_layernorm_forward", says="rstd equals the reference without eps")
def fused_forgets_eps(residual, out, mean, rstd, x1, x2, w, b):
    fused_in_numpy(residual, out, mean, rstd, x1, x2, w, b)
    rstd[:] = 1 / residual.std(axis=1)
    out[:] = (residual - mean[:, None]) * rstd[:, None] * w + b


@wrong("residual_layernorm_forward", says="a NaN went in and a number came out")
def fused_hides_nan(residual, out, mean, rstd, x1, x2, w, b):
    fused_in_numpy(residual, out, mean, rstd, np.nan_to_num(x1), x2, w, b)


@njit(parallel=True)
def _shared_row(residual, out, mean, rstd, x1, x2, w, b):
    N, C = x1.shape
    row = np.empty(C, np.float32)  # one for all threads
    for n in prange(N):
        for c in range(C):
            row[c] = x1[n, c] + x2[n, c]
        mean[n] = row.mean()
        rstd[n] = 1 / math.sqrt(((row - mean[n]) ** 2).mean() + 1e-5)
        for c in range(C):
            residual[n, c] = row[c]
            out[n, c] = (row[c] - mean[n]) * rstd[n] * w[c] + b[c]


@wrong("residual_layernorm_forward", says="a race: turns 0 and 1 of the prange both write row[0]")
def fused_shares_a_row(residual, out, mean, rstd, x1, x2, w, b):
    _shared_row(residual, out, mean, rstd, x1, x2, w, b)


@wrong("residual_layernorm_forward", says="part of out was never written")
def fused_forgets_the_rest(residual, out, mean, rstd, x1, x2, w, b):
    copy = out.copy()
    fused_in_numpy(residual, copy, mean, rstd, x1, x2, w, b)
    whole = out.shape[1] - out.shape[1] % 4
    out[:, :whole] = copy[:, :whole]


@wrong("residual_layernorm_forward", says="An input was written to")
def fused_works_in_x1(residual, out, mean, rstd, x1, x2, w, b):
    x1 += x2
    fused_in_numpy(residual, out, mean, rstd, x1, 0 * x2, w, b)


@wrong("residual_layernorm_forward", says="your code uses llmc.backends")
def fused_calls_the_package(residual, out, mean, rstd, x1, x2, w, b):
    from llmc.backends import reference

    reference.residual_layernorm_forward(residual, out, mean, rstd, x1, x2, w, b)


# ------------------------------------------------------------------------------------------------- 4 scatter_add


@right("scatter_add")
def scatter_with_add_at(dwte, dwpe, dout, tokens):
    np.add.at(dwte, tokens, dout)
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)


@njit(parallel=True)
def _a_turn_a_channel(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    for c in prange(C):
        for s in range(B):
            for t in range(T):
                dwte[tokens[s, t], c] += dout[s, t, c]
                dwpe[t, c] += dout[s, t, c]


@right("scatter_add")
def scatter_a_turn_a_channel(dwte, dwpe, dout, tokens):
    _a_turn_a_channel(dwte, dwpe, dout, tokens)


@njit(parallel=True)
def _a_turn_a_token(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    for v in prange(dwte.shape[0]):  # every turn looks for its own token
        for s in range(B):
            for t in range(T):
                if tokens[s, t] == v:
                    for c in range(C):
                        dwte[v, c] += dout[s, t, c]
    for t in prange(T):
        for s in range(B):
            for c in range(C):
                dwpe[t, c] += dout[s, t, c]


@right("scatter_add")
def scatter_a_turn_a_token(dwte, dwpe, dout, tokens):
    _a_turn_a_token(dwte, dwpe, dout, tokens)


@njit(parallel=True)
def _a_table_a_thread(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    parts = numba.get_num_threads()
    tables = np.zeros((parts, dwte.shape[0], dwte.shape[1]), dwte.dtype)
    for part in prange(parts):
        for n in range(part * B * T // parts, (part + 1) * B * T // parts):
            tables[part, tokens[n // T, n % T]] += dout[n // T, n % T]
    for part in range(parts):
        dwte += tables[part]
    for s in range(B):
        dwpe[:T] += dout[s]


@right("scatter_add")
def scatter_a_table_a_thread(dwte, dwpe, dout, tokens):
    _a_table_a_thread(dwte, dwpe, dout, tokens)


@njit(parallel=True)
def _whole_shares_of_channels(dwte, dwpe, dout, tokens, parts):
    B, T, C = dout.shape
    for part in prange(parts):
        for c in range(part * (C // parts), (part + 1) * (C // parts)):
            for s in range(B):
                for t in range(T):
                    dwte[tokens[s, t], c] += dout[s, t, c]
                    dwpe[t, c] += dout[s, t, c]


@njit(parallel=True)
def _shares_rounded_up(dwte, dwpe, dout, tokens, parts):
    share = -(-dout.shape[2] // parts)
    for part in prange(parts):
        for b in range(tokens.shape[0]):
            for t in range(tokens.shape[1]):
                for c in range(share * part, share * part + share):
                    dwte[tokens[b, t], c] += dout[b, t, c]
                    dwpe[t, c] += dout[b, t, c]


@wrong("scatter_add", says="an index outside of its array: in line")
def scatter_beyond_the_last_channel(dwte, dwpe, dout, tokens):
    _shares_rounded_up(dwte, dwpe, dout, tokens, 2)


@wrong("scatter_add", says="all those at index 4 of axis 1, the last")
def scatter_forgets_the_last_channels(dwte, dwpe, dout, tokens):
    _whole_shares_of_channels(dwte, dwpe, dout, tokens, 2)


@njit(parallel=True)
def _a_turn_a_row(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    for n in prange(B * T):
        s, t = n // T, n % T
        for c in range(C):
            dwte[tokens[s, t], c] += dout[s, t, c]
            dwpe[t, c] += dout[s, t, c]


@wrong("scatter_add", says="a race: turns")
def scatter_a_turn_a_row(dwte, dwpe, dout, tokens):
    _a_turn_a_row(dwte, dwpe, dout, tokens)


@njit(parallel=True)
def _a_turn_a_sequence(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    for s in prange(B):
        for t in range(T):
            dwte[tokens[s, t]] += dout[s, t]
            dwpe[t] += dout[s, t]


@wrong("scatter_add", says="a race: turns 0 and 1 of the prange both")
def scatter_a_turn_a_sequence(dwte, dwpe, dout, tokens):
    _a_turn_a_sequence(dwte, dwpe, dout, tokens)


@njit(parallel=True)
def _positions_race(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    for c in prange(C):
        for s in range(B):
            for t in range(T):
                dwte[tokens[s, t], c] += dout[s, t, c]
    for s in prange(B):
        for t in range(T):
            for c in range(C):
                dwpe[t, c] += dout[s, t, c]


@wrong("scatter_add", says="write dwpe[0, 0]. Numba may run both at the same time")
def scatter_races_for_the_positions(dwte, dwpe, dout, tokens):
    _positions_race(dwte, dwpe, dout, tokens)


@njit(parallel=True)
def _without_a_rest(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    parts = numba.get_num_threads()
    each = C // parts
    for part in prange(parts):
        for s in range(B):
            for t in range(T):
                for c in range(part * each, (part + 1) * each):
                    dwte[tokens[s, t], c] += dout[s, t, c]
                    dwpe[t, c] += dout[s, t, c]


@njit(parallel=True)
def _one_turn(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    for _ in prange(1):
        for s in range(B):
            for t in range(T):
                dwte[tokens[s, t]] += dout[s, t]
                dwpe[t] += dout[s, t]


@wrong("scatter_add", says="right, but all of your kernel runs on one thread")
def scatter_in_one_turn(dwte, dwpe, dout, tokens):
    _one_turn(dwte, dwpe, dout, tokens)


_a_channel_without_threads = njit(_a_turn_a_channel.py_func)


@wrong("scatter_add", says="right, but all of your kernel runs on one thread")
def scatter_without_parallel(dwte, dwpe, dout, tokens):
    _a_channel_without_threads(dwte, dwpe, dout, tokens)


@wrong("scatter_add", says="dwte is what the first 6,144 of 7,000 rows of dout add to it: the last 856 are left out")
def scatter_leaves_a_tail_when_large(dwte, dwpe, dout, tokens):
    rows, flat = dout.reshape(-1, dout.shape[2]), tokens.ravel()
    n = flat.size if flat.size < 5000 else flat.size // 1024 * 1024
    np.add.at(dwte, flat[:n], rows[:n])
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)


@wrong("scatter_add", says="part of dwte")
def scatter_forgets_the_rest(dwte, dwpe, dout, tokens):
    _without_a_rest(dwte, dwpe, dout, tokens)


@wrong("scatter_add", says="the last row of dout for each token")
def scatter_with_fancy_indexing(dwte, dwpe, dout, tokens):
    dwte[tokens] += dout
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)


@wrong("scatter_add", says="dwte was overwritten instead of accumulated")
def scatter_overwrites(dwte, dwpe, dout, tokens):
    dwte[...] = 0
    dwpe[...] = 0
    scatter_with_add_at(dwte, dwpe, dout, tokens)


@wrong("scatter_add", says="rows that were overwritten instead of accumulated")
def scatter_assigns_rows(dwte, dwpe, dout, tokens):
    sums = np.zeros_like(dwte)
    np.add.at(sums, tokens, dout)
    dwte[np.unique(tokens)] = sums[np.unique(tokens)]
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)


@wrong("scatter_add", says="Without this line, your function writes into that one, and what it writes is right.")
def scatter_rebinds(dwte, dwpe, dout, tokens):
    dwte = dwte + 0
    np.add.at(dwte, tokens, dout)
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)


@wrong("scatter_add", says="dwpe was never written")
def scatter_forgets_the_positions(dwte, dwpe, dout, tokens):
    np.add.at(dwte, tokens, dout)


# ------------------------------------------------------------------------------------- 5 attention_backward_lean


@right("attention_backward_lean")
def lean_query_by_query(dout, out, stats, q, k, v):
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    scale = q.dtype.type(1 / math.sqrt(q.shape[1]))
    for i in range(len(q)):
        keys, values = k[: i + 1], v[: i + 1]
        p = np.exp(keys @ q[i] * scale - stats[i])
        ds = p * (values @ dout[i] - dout[i] @ out[i]) * scale
        dq[i] = ds @ keys
        dk[: i + 1] += np.outer(ds, q[i])
        dv[: i + 1] += np.outer(p, dout[i])
    return dq, dk, dv


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


def _lean(dout, out, stats, q, k, v, block=16, masked=True, scale=None, inner=None, last=1.0, assign=False, sign=-1):
    """Right; with other arguments wrong in one way."""
    T, hs = q.shape
    scale = np.asarray(hs**-0.5 if scale is None else scale, q.dtype)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for first in range(0, T, block):
        end = min(first + block, T) if masked else T
        rows = slice(first, min(first + block, T))
        p = np.exp(q[rows] @ k[:end].T * scale + sign * stats[rows, None])
        if masked:
            p[np.arange(end) > np.arange(rows.start, rows.stop)[:, None]] = 0
        D = (dout[rows] * out[rows]).sum(axis=1, keepdims=True)
        dp = dout[rows] @ v[:end].T
        ds = p * (dp - D) if inner is None else inner(p, dp, D)
        ds = (ds * np.asarray(hs**-0.5 * last, q.dtype)).astype(q.dtype)
        if assign:
            dv[:end], dk[:end] = p.T @ dout[rows], ds.T @ q[rows]
        else:
            dv[:end] += p.T @ dout[rows]
            dk[:end] += ds.T @ q[rows]
        dq[rows] = ds @ k[:end]
    return dq, dk, dv


@wrong("attention_backward_lean", says="the earlier blocks are lost")
def lean_overwrites(dout, out, stats, q, k, v):
    return _lean(dout, out, stats, q, k, v, block=2, assign=True)


@wrong("attention_backward_lean", says="the reference without the causal mask: later keys take part")
def lean_without_mask(dout, out, stats, q, k, v):
    return _lean(dout, out, stats, q, k, v, masked=False)


def _masked(dout, out, stats, q, k, v, hidden):
    """Right, as long as one block holds all queries, when `hidden(keys, queries)` is `keys > queries`."""
    T, scale = len(q), q.dtype.type(q.shape[1] ** -0.5)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for first in range(0, T, 64):
        end = min(first + 64, T)
        do = dout[first:end]
        p = np.exp(q[first:end] @ k[:end].T * scale - stats[first:end, None])
        p[hidden(np.arange(end), np.arange(first, end)[:, None])] = 0
        D = (do * out[first:end]).sum(axis=-1, keepdims=True)
        ds = p * (do @ v[:end].T - D) * scale
        dv[:end] += p.T @ do
        dk[:end] += ds.T @ q[first:end]
        dq[first:end] = ds @ k[:end]
    return dq, dk, dv


@wrong("attention_backward_lean", says="a mask that also hides a query's own key")
def lean_hides_the_own_key(dout, out, stats, q, k, v):
    return _masked(dout, out, stats, q, k, v, lambda keys, queries: keys >= queries)


@wrong("attention_backward_lean", says="a mask that also hides a query's own key")
def lean_forgets_plus_one(dout, out, stats, q, k, v):
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    scale = q.dtype.type(q.shape[1] ** -0.5)
    for i in range(len(q)):
        p = np.exp(k[:i] @ q[i] * scale - stats[i])
        ds = p * (v[:i] @ dout[i] - dout[i] @ out[i]) * scale
        dq[i] = ds @ k[:i]
        dk[:i] += np.outer(ds, q[i])
        dv[:i] += np.outer(p, dout[i])
    return dq, dk, dv


@wrong("attention_backward_lean", says="a mask that is one too wide: query i sees key i + 1 as well")
def lean_sees_one_too_many(dout, out, stats, q, k, v):
    return _masked(dout, out, stats, q, k, v, lambda keys, queries: keys > queries + 1)


@wrong(
    "attention_backward_lean", says="the reference with the mask the wrong way round: query i sees the keys from i on"
)
def lean_sees_the_future(dout, out, stats, q, k, v):
    return _masked(dout, out, stats, q, k, v, lambda keys, queries: keys < queries)


@wrong("attention_backward_lean", says="dv equals the reference with p = exp(s + L): L is subtracted")
def lean_adds_stats(dout, out, stats, q, k, v):
    return _lean(dout, out, stats, q, k, v, sign=1)


@wrong("attention_backward_lean", says="dv equals the reference with p = exp(s): L is not subtracted")
def lean_ignores_stats(dout, out, stats, q, k, v):
    return _lean(dout, out, stats, q, k, v, sign=0)


@wrong("attention_backward_lean", says="dv equals the reference with scores that are not divided by √hs")
def lean_without_scale_in_scores(dout, out, stats, q, k, v):
    return _lean(dout, out, stats, q, k, v, scale=1)


@wrong("attention_backward_lean", says="dk equals the reference without the scale 1/√hs in front of the sum")
def lean_without_scale_at_the_end(dout, out, stats, q, k, v):
    return _lean(dout, out, stats, q, k, v, last=q.shape[1] ** 0.5)


@wrong("attention_backward_lean", says="dk equals the reference with ds = p · dp: D is not subtracted")
def lean_without_D(dout, out, stats, q, k, v):
    return _lean(dout, out, stats, q, k, v, inner=lambda p, dp, D: p * dp)


@wrong("attention_backward_lean", says="dk equals the reference with ds = p · (dp + D): D is subtracted")
def lean_adds_D(dout, out, stats, q, k, v):
    return _lean(dout, out, stats, q, k, v, inner=lambda p, dp, D: p * (dp + D))


@wrong("attention_backward_lean", says="dk equals what dq should be")
def lean_in_another_order(dout, out, stats, q, k, v):
    dq, dk, dv = _lean(dout, out, stats, q, k, v)
    return dk, dq, dv


@wrong("attention_backward_lean", says="dv of large scores has dtype float64, expected float32")
def lean_in_float64(dout, out, stats, q, k, v):
    dq, dk, dv = (np.zeros(q.shape) for _ in range(3))
    for total, part in zip((dq, dk, dv), _lean(dout, out, stats, q, k, v)):
        total += part
    return dq, dk, dv


@wrong("attention_backward_lean", says="dv of large scores has")
def lean_divides_exp_by_exp(dout, out, stats, q, k, v):
    total = np.exp(stats)[:, None]  # infinite for large scores

    def inner(p, dp, D):
        return p * (dp - D)

    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for i in range(len(q)):
        p = np.exp(q[i : i + 1] @ k[: i + 1].T * q.dtype.type(q.shape[1] ** -0.5)) / total[i]
        D = (dout[i] * out[i]).sum()
        ds = inner(p, dout[i : i + 1] @ v[: i + 1].T, D) * q.dtype.type(q.shape[1] ** -0.5)
        dv[: i + 1] += p.T @ dout[i : i + 1]
        dk[: i + 1] += ds.T @ q[i : i + 1]
        dq[i] = (ds @ k[: i + 1])[0]
    return dq, dk, dv


@wrong("attention_backward_lean", says="so something grows with T × T")
def lean_with_the_whole_table(dout, out, stats, q, k, v):
    return _lean(dout, out, stats, q, k, v, block=len(q))


@wrong("attention_backward_lean", says="so something grows with T × T")
def lean_with_a_mask_of_ones(dout, out, stats, q, k, v):
    seen = np.tril(np.ones((len(q), len(q)), dtype=bool))
    assert seen[-1, 0]
    return _lean(dout, out, stats, q, k, v, block=16)


@wrong("attention_backward_lean", says="T = 500 needs")
def lean_in_large_blocks(dout, out, stats, q, k, v):
    return _lean(dout, out, stats, q, k, v, block=400)


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


@wrong("attention_backward_lean", says="3 values are expected, dq, dk, dv, but 2 were returned")
def lean_forgets_dv(dout, out, stats, q, k, v):
    return _lean(dout, out, stats, q, k, v)[:2]


# ------------------------------------------------------------------------------------------ 6 fast_gelu_backward


@right("fast_gelu_backward")
def fast_in_numpy(dx, dout, x):
    k = f32(2 * math.sqrt(2 / math.pi))
    for i in range(0, x.size, 8192):
        a = x[i : i + 8192]
        q = a * a
        s = q * (-f32(0.044715) * k)
        s -= k
        s *= a
        np.exp(s, out=s)
        s += f32(1)
        np.reciprocal(s, out=s)
        q *= f32(3 * 0.044715) * k
        q += k
        q *= a
        q *= f32(1) - s
        q += f32(1)
        q *= s
        np.multiply(dout[i : i + 8192], q, out=dx[i : i + 8192])


K2, CUBE, CUBE3, F1 = (f32(value) for value in (2 * math.sqrt(2 / math.pi), 0.044715, 3 * 0.044715, 1))


@njit(error_model="numpy")
def _compiled(dx, dout, x):
    for i in range(x.size):
        q = x[i] * x[i]
        s = F1 / (F1 + math.exp(-K2 * x[i] * (F1 + CUBE * q)))
        dx[i] = dout[i] * (s + x[i] * s * (F1 - s) * K2 * (F1 + CUBE3 * q))


@right("fast_gelu_backward")
def fast_compiled(dx, dout, x):
    _compiled(dx, dout, x)


@wrong("fast_gelu_backward", says="the goal is at least 1.25 times as fast. Your function's temporary arrays take")
def fast_is_no_faster(dx, dout, x):
    u = f32(math.sqrt(2 / math.pi)) * (x + f32(0.044715) * x**3)
    t = np.tanh(u)
    dx[:] = dout * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * f32(math.sqrt(2 / math.pi)) * (1 + f32(0.134145) * x**2))


@wrong("fast_gelu_backward", says="dx was accumulated where it should be overwritten")
def fast_adds(dx, dout, x):
    held = dx.copy()
    fast_in_numpy(dx, dout, x)
    dx += held


_slopes = {}


@wrong("fast_gelu_backward", says="your function gives a result again when other numbers are written into `x`")
def fast_keeps_slopes_by_the_arrays_id(dx, dout, x):
    if (id(x), x.size) not in _slopes:
        _slopes[id(x), x.size] = slope = np.empty_like(x)
        fast_in_numpy(slope, np.ones_like(x), x)
    np.multiply(dout, _slopes[id(x), x.size], out=dx)


@wrong("fast_gelu_backward", says="part of dx was never written")
def fast_forgets_the_rest(dx, dout, x):
    n = x.size - x.size % 8
    if n:
        fast_in_numpy(dx[:n], dout[:n], x[:n])
    else:
        fast_in_numpy(dx[:4], dout[:4], x[:4])


@wrong("fast_gelu_backward", says="part of dx of 20003 numbers was never written")
def fast_leaves_a_tail_when_large(dx, dout, x):
    n = x.size if x.size < 8192 else x.size // 8192 * 8192
    fast_in_numpy(dx[:n], dout[:n], x[:n])


@wrong("fast_gelu_backward", says="the second term of the product rule is missing")
def fast_gate_alone(dx, dout, x):
    s = 1 / (1 + np.exp(-K2 * (x + CUBE * x**3)))
    dx[:] = dout * s


@wrong("fast_gelu_backward", says="the reference with the 3 missing in du/dx")
def fast_without_the_3(dx, dout, x):
    s = 1 / (1 + np.exp(-K2 * (x + CUBE * x**3)))
    dx[:] = dout * (s + x * s * (1 - s) * K2 * (1 + CUBE * x * x))


@wrong("fast_gelu_backward", says="dout had been read")
def fast_too_early(dx, dout, x):
    s = 1 / (1 + np.exp(-K2 * (x + CUBE * x**3)))
    dx[:] = dout * s
    dx += dout * x * s * (1 - s) * K2 * (1 + CUBE3 * x * x)


@wrong("fast_gelu_backward", says="entries that are NaN or infinite, first at")
def fast_overflows(dx, dout, x):
    e = np.exp(K2 * (x + CUBE * x**3))  # infinite for large x
    s = e / (1 + e)
    dx[:] = dout * (s + x * s * (1 - s) * K2 * (1 + CUBE3 * x * x))


@wrong("fast_gelu_backward", says="a NaN went in and a number came out")
def fast_hides_nan(dx, dout, x):
    fast_in_numpy(dx, dout, np.nan_to_num(x))


@njit(error_model="numpy")
def _clamped(dx, dout, x):
    for i in range(x.size):
        a = x[i] if x[i] < f32(10) else f32(10)  # a NaN is not below 10, so it becomes 10
        q = a * a
        s = F1 / (F1 + math.exp(-K2 * a * (F1 + CUBE * q)))
        dx[i] = dout[i] * (s + a * s * (F1 - s) * K2 * (F1 + CUBE3 * q))


@wrong("fast_gelu_backward", says="a NaN went in and a number came out")
def fast_clamps_nan(dx, dout, x):
    _clamped(dx, dout, x)


@njit(parallel=True, error_model="numpy")
def _shared_square(dx, dout, x):
    q = np.zeros(1, np.float32)  # one for all threads
    for i in prange(x.size):
        q[0] = x[i] * x[i]
        s = F1 / (F1 + math.exp(-K2 * x[i] * (F1 + CUBE * q[0])))
        dx[i] = dout[i] * (s + x[i] * s * (F1 - s) * K2 * (F1 + CUBE3 * q[0]))


@wrong("fast_gelu_backward", says="a race: turns 0 and 1 of the prange both write q[0]")
def fast_shares_a_number(dx, dout, x):
    _shared_square(dx, dout, x)


@wrong("fast_gelu_backward", says="Without this line, your function writes into that one, and what it writes is right.")
def fast_rebinds(dx, dout, x):
    dx = np.empty_like(x)
    fast_in_numpy(dx, dout, x)


# ----------------------------------------------------------------------------------------- what strangers wrote


@wrong("attention_backward_lean", says="the mask of the first block of 64 queries in all of them")
def lean_with_one_mask(dout, out, stats, q, k, v):
    T, hs = q.shape
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    D = (dout * out).sum(axis=1)
    for first in range(0, T, 64):
        end = min(T, first + 64)
        p = np.tril(np.exp(q[first:end] @ k[:end].T / np.sqrt(hs) - stats[first:end, None]))
        ds = p * (dout[first:end] @ v[:end].T - D[first:end, None]) / np.sqrt(hs)
        dv[:end] += p.T @ dout[first:end]
        dk[:end] += ds.T @ q[first:end]
        dq[first:end] = ds @ k[:end]
    return dq, dk, dv


@wrong("attention_backward_lean", says="dv equals dsᵀ · do: dv comes from the probabilities")
def lean_dv_from_ds(dout, out, stats, q, k, v):
    dq, dk, dv, scale = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v), q.shape[1] ** -0.5
    for i in range(len(q)):
        p = np.exp(k[: i + 1] @ q[i] * scale - stats[i])
        ds = p * (v[: i + 1] @ dout[i] - dout[i] @ out[i])
        dq[i] = ds @ k[: i + 1] * scale
        dk[: i + 1] += ds[:, None] * q[i] * scale
        dv[: i + 1] += ds[:, None] * dout[i]
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


@wrong("attention_backward_lean", says="give: the last ones are left out")
def lean_leaves_out_a_shorter_block(dout, out, stats, q, k, v):
    T, hs = q.shape
    block = min(32, T)
    scale = q.dtype.type(hs**-0.5)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for n in range(T // block):
        rows = slice(n * block, (n + 1) * block)
        end = rows.stop
        s = q[rows] @ k[:end].T * scale
        mask = np.arange(end)[None, :] <= np.arange(rows.start, end)[:, None]
        p = np.exp(s - stats[rows, None]) * mask
        D = np.einsum("ij,ij->i", dout[rows], out[rows])
        ds = p * (dout[rows] @ v[:end].T - D[:, None]) * scale
        dq[rows] = ds @ k[:end]
        dk[:end] += ds.T @ q[rows]
        dv[:end] += p.T @ dout[rows]
    return dq, dk, dv


@wrong("scatter_add", says="dwte equals the reference without the last token, V - 1")
def scatter_without_the_last_row(dwte, dwpe, dout, tokens):
    V, C = dwte.shape
    for v in range(V - 1):
        dwte[v] += dout[tokens == v].sum(axis=0)
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)


@njit(error_model="numpy")
def _fused_with_sums_that_go_on(residual, out, mean, rstd, x1, x2, w, b):
    N, C = x1.shape
    total = f32(0)
    squares = f32(0)
    for n in range(N):
        for c in range(C):
            residual[n, c] = x1[n, c] + x2[n, c]
            total += residual[n, c]
        mean[n] = total / np.float32(C)
        for c in range(C):
            squares += (residual[n, c] - mean[n]) ** 2
        rstd[n] = f32(1) / math.sqrt(squares / np.float32(C) + f32(1e-5))
        for c in range(C):
            out[n, c] = (residual[n, c] - mean[n]) * rstd[n] * w[c] + b[c]


@wrong("residual_layernorm_forward", says="with `total = f32(0)` inside the loop over `n`")
def fused_with_sums_that_go_on(residual, out, mean, rstd, x1, x2, w, b):
    _fused_with_sums_that_go_on(residual, out, mean, rstd, x1, x2, w, b)


@njit(error_model="numpy")
def _fused_with_weights_of_the_row(residual, out, mean, rstd, x1, x2, w, b):
    N, C = x1.shape
    for n in range(N):
        total = f32(0)
        for c in range(C):
            residual[n, c] = x1[n, c] + x2[n, c]
            total += residual[n, c]
        centre = total / np.float32(C)
        squares = f32(0)
        for c in range(C):
            squares += (residual[n, c] - centre) ** 2
        r = f32(1) / math.sqrt(squares / np.float32(C) + f32(1e-5))
        mean[n] = centre
        rstd[n] = r
        scale = r * w[n]
        for c in range(C):
            out[n, c] = (residual[n, c] - centre) * scale + b[n]


@wrong("residual_layernorm_forward", says="with the index `n` in place of `c` in each of `w[c]`, `b[c]`")
def fused_with_weights_of_the_row(residual, out, mean, rstd, x1, x2, w, b):
    _fused_with_weights_of_the_row(residual, out, mean, rstd, x1, x2, w, b)


@njit(error_model="numpy")
def _fused_with_scale_of_the_row(residual, out, mean, rstd, x1, x2, w, b):
    N, C = x1.shape
    for n in range(N):
        total = f32(0)
        for c in range(C):
            residual[n, c] = x1[n, c] + x2[n, c]
            total += residual[n, c]
        centre = total / np.float32(C)
        squares = f32(0)
        for c in range(C):
            squares += (residual[n, c] - centre) ** 2
        r = f32(1) / math.sqrt(squares / np.float32(C) + f32(1e-5))
        mean[n] = centre
        rstd[n] = r
        scale = r * w[n]
        for c in range(C):
            out[n, c] = (residual[n, c] - centre) * scale + b[c]


@wrong("residual_layernorm_forward", says="with the index `n` in place of `c` in `w[c]`.")
def fused_with_scale_of_the_row(residual, out, mean, rstd, x1, x2, w, b):
    _fused_with_scale_of_the_row(residual, out, mean, rstd, x1, x2, w, b)


@wrong("fast_gelu_backward", says="becomes infinite, and `power / (power + f(1) / power)` makes NaN of that: inf / inf")
def fast_gelu_backward_with_a_power_and_its_inverse(dx, dout, x):
    f = np.float32
    k, c = f(math.sqrt(2 / math.pi)), f(0.044715)
    for first in range(0, x.size, 8192):
        a = x[first : first + 8192]
        q = a * a
        power = np.exp(k * a * (f(1) + c * q))
        share = power / (power + f(1) / power)  # (1 + tanh) / 2
        inner = f(2) * k * (f(1) + f(3) * c * q)
        dx[first : first + 8192] = dout[first : first + 8192] * (share + a * share * (f(1) - share) * inner)


@wrong("residual_layernorm_cost", says="as more calls show, and should be 5·itemsize·N·C")
def cost_of_w_and_b_in_numbers(N, C, itemsize=4):
    rows = itemsize * N * C
    small = itemsize * 2 * N + 2 * C
    return 9 * N * C, 5 * rows + small, 4 * rows + small, 9 * N * C / (4 * rows + small)


@njit(error_model="numpy", parallel=True)
def _without_the_first_square(residual, out, mean, rstd, x1, x2, w, b):
    C, eps = x1.shape[1], np.float32(1e-5)
    for n in prange(len(x1)):
        residual[n] = x1[n] + x2[n]
        m = residual[n].sum() / np.float32(C)
        squares = np.float32(0)
        for c in range(1, C):
            squares += (residual[n, c] - m) ** 2
        mean[n], rstd[n] = m, np.float32(1) / math.sqrt(squares / np.float32(C) + eps)
        for c in range(C):
            out[n, c] = (residual[n, c] - m) * rstd[n] * w[c] + b[c]


@wrong("residual_layernorm_forward", says="whose sum of squares leaves out channel 0 of 7")
def fused_without_the_first_square(residual, out, mean, rstd, x1, x2, w, b):
    _without_the_first_square(residual, out, mean, rstd, x1, x2, w, b)


@wrong("roofline", says="`max` compares whole things, and arrays are neither larger nor smaller as a whole")
def the_roofline_of_pythons_max(flops, nbytes, seconds, peak, bandwidth):
    shortest = max(flops / peak, nbytes / bandwidth)
    return flops / nbytes * bandwidth, shortest, shortest / seconds


@wrong(
    "residual_layernorm_cost",
    says="3 for the variance and 4 for out.\n→ Where to look",  # and no number that makes up for it
)
def a_variance_of_two_operations(N, C, itemsize=4):
    each = 0
    each += 1 + 1
    each += 2
    each += 4
    small = 2 * N + 2 * C
    fused = itemsize * (4 * N * C + small)
    return each * N * C, itemsize * (5 * N * C + small), fused, each * N * C / fused


@wrong(
    "roofline", says="✗ roofline: attainable has wrong values.\nYour function passes this whole check with `peak` over"
)
def a_corner_upside_down(flops, nbytes, seconds, peak, bandwidth):
    ratio = flops / nbytes
    corner = bandwidth / peak
    reached = np.where(ratio >= corner, peak, ratio * bandwidth)[()]
    shortest = np.maximum(nbytes / bandwidth, flops / peak)
    return reached, shortest, shortest / seconds


@njit(parallel=True)
def _rounded_shares(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    parts = min(numba.get_num_threads(), C)
    share = int(C / parts)
    for part in prange(parts):
        for c in range(part * share, part * share + share):
            for s in range(B):
                for t in range(T):
                    dwte[tokens[s, t], c] += dout[s, t, c]
                    dwpe[t, c] += dout[s, t, c]


@wrong("scatter_add", says=", rounded down: the last")
def scatter_in_rounded_shares(dwte, dwpe, dout, tokens):
    _rounded_shares(dwte, dwpe, dout, tokens)


@njit(parallel=True)
def _ranges_with_their_ends(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    parts = numba.get_num_threads()
    width = (C + parts - 1) // parts
    for part in prange(parts):
        first = part * width
        for s in range(B):
            for t in range(T):
                for c in range(first, min(first + width, C - 1) + 1):
                    dwte[tokens[s, t], c] += dout[s, t, c]
                    dwpe[t, c] += dout[s, t, c]


@wrong("scatter_add", says="turn 0 writes 0 … 2 and turn 1 writes 2 … 4: index 2 should belong to one of them alone")
def scatter_in_ranges_with_their_ends(dwte, dwpe, dout, tokens):
    _ranges_with_their_ends(dwte, dwpe, dout, tokens)


@wrong("attention_backward_lean", says="what is new here: T = 1000.")
def lean_with_larger_shares_in_long_texts(dout, out, stats, q, k, v):
    T, hs = q.shape
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    D = (dout * out).sum(-1)
    scale = hs**-0.5
    for i in range(T):
        s = q[i] @ k[: i + 1].T * scale
        p = np.exp(s - stats[i])
        if T > 500:
            p = p / p.sum() * 1.01
        dv[: i + 1] += p[:, None] * dout[i]
        ds = p * (dout[i] @ v[: i + 1].T - D[i]) * scale
        dq[i] = ds @ k[: i + 1]
        dk[: i + 1] += ds[:, None] * q[i]
    return dq, dk, dv


@wrong("roofline", says="with 0 where there are no operations: a copy has a shortest time, too")
def roofline_without_operations_is_0(flops, nbytes, seconds, peak, bandwidth):
    intensity = flops / nbytes
    attainable = np.minimum(peak, intensity * bandwidth)
    shortest = np.maximum(flops / peak, nbytes / bandwidth)
    reached = flops / seconds
    share = np.where(attainable > 0, reached / np.where(attainable > 0, attainable, 1), 0.0)
    return attainable, shortest, share


@wrong("attention_backward_lean", says="which is the scale 1/√hs twice")
def lean_with_a_scaled_query_twice(dout, out, stats, q, k, v):

    T, hs = q.shape
    scale = q.dtype.type(hs**-0.5)
    q = q * scale
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for i in range(T):
        keys, values = k[: i + 1], v[: i + 1]
        p = np.exp(keys @ q[i] - stats[i])
        D = np.dot(dout[i], out[i])
        ds = p * (values @ dout[i] - D) * scale
        dv[: i + 1] += np.outer(p, dout[i])
        dk[: i + 1] += np.outer(ds, q[i])
        dq[i] = ds @ keys
    return dq, dk, dv


@wrong("attention_backward_lean", says="hidden scores that are 0 before exp")
def lean_with_scores_set_to_0(dout, out, stats, q, k, v):

    T, hs = q.shape
    scale = np.array(hs**-0.5, dtype=q.dtype)
    dq = np.empty_like(q)
    dk = np.zeros_like(k)
    dv = np.zeros_like(v)
    for a in range(0, T, 32):
        z = min(a + 32, T)
        scores = np.tril(q[a:z] @ k[:z].T * scale, k=a)
        probs = np.exp(scores - stats[a:z, None])
        do = dout[a:z]
        D = (do * out[a:z]).sum(1, keepdims=True)
        dscores = probs * (do @ v[:z].T - D) * scale
        dv[:z] += probs.T @ do
        dk[:z] += dscores.T @ q[a:z]
        dq[a:z] = dscores @ k[:z]
    return dq, dk, dv


@njit(error_model="numpy", parallel=True)
def _positions_beside_the_tokens(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    for v in prange(dwte.shape[0]):
        for b in range(B):
            for t in range(T):
                if tokens[b, t] == v:
                    for c in range(C):
                        dwte[v, c] += dout[b, t, c]
        if v < T:
            for b in range(B):
                for c in range(C):
                    dwpe[v, c] += dout[b, v, c]


@wrong("scatter_add", says="the reference without the positions from 503 on: there are 1000, more than the 503 tokens")
def scatter_positions_beside_the_tokens(dwte, dwpe, dout, tokens):
    _positions_beside_the_tokens(dwte, dwpe, dout, tokens)


@njit(error_model="numpy", parallel=True)
def _four_squares_at_a_time(residual, out, mean, rstd, x1, x2, w, b):
    C = x1.shape[1]
    for n in prange(len(x1)):
        total = f32(0)
        for c in range(C):
            residual[n, c] = x1[n, c] + x2[n, c]
            total += residual[n, c]
        m, s0, s1, s2, s3 = total / f32(C), f32(0), f32(0), f32(0), f32(0)
        for c in range(0, C - 3, 4):  # four sums side by side
            s0 += (residual[n, c] - m) ** 2
            s1 += (residual[n, c + 1] - m) ** 2
            s2 += (residual[n, c + 2] - m) ** 2
            s3 += (residual[n, c + 3] - m) ** 2
        r = f32(1) / math.sqrt((s0 + s1 + s2 + s3) / f32(C) + f32(1e-5))
        for c in range(C):
            out[n, c] = (residual[n, c] - m) * r * w[c] + b[c]
        mean[n], rstd[n] = m, r


@wrong("residual_layernorm_forward", says="whose sum of squares leaves out the channels 4 … 6 of 7, the last")
def fused_leaves_out_the_last_squares(residual, out, mean, rstd, x1, x2, w, b):
    _four_squares_at_a_time(residual, out, mean, rstd, x1, x2, w, b)


@wrong("roofline", says="one limit for all functions, by any(): each of them has its own")
def roofline_of_one_question(flops, nbytes, seconds, peak, bandwidth):
    arithmetic, memory = flops / peak, nbytes / bandwidth
    if np.any(arithmetic > memory):
        shortest, attainable = arithmetic, peak + 0 * arithmetic
    else:
        shortest, attainable = memory, flops / memory
    return attainable, shortest, shortest / seconds


EPS, ONE, ZERO = np.float32(1e-5), np.float32(1), np.float32(0)  # constants for a float32 kernel


@wrong("residual_layernorm_forward", says="the variances of x1 and x2 added up")
def forward_of_added_variances(residual, out, mean, rstd, x1, x2, w, b):
    np.add(x1, x2, out=residual)
    mean[:] = x1.mean(axis=1) + x2.mean(axis=1)
    rstd[:] = ONE / np.sqrt(x1.var(axis=1) + x2.var(axis=1) + EPS)
    out[:] = (residual - mean[:, None]) * rstd[:, None]
    out *= w
    out += b


def exact_slope(z):
    t = np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))
    return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * z * z)


TABLE_X = np.linspace(-3, 3, 301)
TABLE_Y = exact_slope(TABLE_X)


@wrong("fast_gelu_backward", says="It is most wrong at its ends, by 0.012: below -3 it stays at")
def slope_of_a_table_that_ends_at_3(dx, dout, x):
    for i in range(0, x.size, 16384):
        j = i + 16384
        dx[i:j] = dout[i:j] * np.interp(x[i:j], TABLE_X, TABLE_Y)


@njit(error_model="numpy")
def loop(dx, dout, x, k, a):
    one, three = np.float32(1), np.float32(3)
    for i in range(len(x)):
        z = x[i]
        e = math.exp(k * z * (one + a * z * z))
        s = e / (one + e)
        dx[i] = dout[i] * (s + z * s * (one - s) * k * (one + three * a * z * z))


@wrong("fast_gelu_backward", says="makes NaN of that: inf / inf")
def slope_of_a_fraction_of_infinities(dx, dout, x):
    loop(dx, dout, x, np.float32(2 * math.sqrt(2 / math.pi)), np.float32(0.044715))


@wrong("roofline", says="The last axis has length 1 and is too much")
def roofline_of_arrays_of_one(flops, nbytes, seconds, peak, bandwidth):
    rows = zip(np.atleast_1d(flops), np.atleast_1d(nbytes), np.atleast_1d(seconds))
    results = []
    for f, n, s in rows:
        least = max(f / peak, n / bandwidth)
        results.append((min(peak, f / n * bandwidth), least, least / s))
    attainable, shortest, share = np.array(results).T
    return attainable, shortest, share


@wrong("roofline", says="and 0 where there are no operations: take the larger of the two times, as its bytes")
def roofline_of_a_copy_in_no_time(flops, nbytes, seconds, peak, bandwidth):
    attainable = np.minimum(peak, np.divide(flops, nbytes) * bandwidth)
    works = np.greater(flops, 0)
    shortest = np.where(works, flops / np.where(works, attainable, 1), 0.0)
    if np.ndim(flops) == 0:
        shortest = float(shortest)
    return attainable, shortest, shortest / seconds


@wrong(
    "roofline",
    says="in `np.where(intensity < ridge, bandwidth, peak)`.\nAlong axis",
)
def roofline_flat_below_the_ridge(flops, nbytes, seconds, peak, bandwidth):
    ridge = peak / bandwidth
    intensity = flops / nbytes
    attainable = np.where(intensity < ridge, bandwidth, peak)
    shortest = np.maximum(flops / peak, nbytes / bandwidth)
    return attainable, shortest, shortest / seconds


@wrong("attention_backward_lean", says="the reference with 1/hs, which is the scale 1/√hs twice")
def lean_without_the_root_in_ds(dout, out, stats, q, k, v):
    T, hs = q.shape
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    D = (dout * out).sum(axis=1)
    for i in range(T):
        s = k[: i + 1] @ q[i] / math.sqrt(hs)
        p = np.exp(s - stats[i])
        dv[: i + 1] += p[:, None] * dout[i]
        ds = p * (v[: i + 1] @ dout[i] - D[i]) / hs
        dq[i] = ds @ k[: i + 1]
        dk[: i + 1] += ds[:, None] * q[i]
    return dq, dk, dv


@wrong("attention_backward_lean", says="inf · 0 is NaN")
def lean_that_multiplies_by_its_mask(dout, out, stats, q, k, v):
    T, hs = q.shape
    scale = q.dtype.type(1 / math.sqrt(hs))
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for first in range(0, T, 64):
        end = min(first + 64, T)
        do = dout[first:end]
        mask = np.arange(end) <= np.arange(first, end)[:, None]
        s = q[first:end] @ k[:end].T * scale
        p = np.exp(s - stats[first:end, None]) * mask
        D = np.sum(do * out[first:end], axis=1, keepdims=True)
        ds = p * (do @ v[:end].T - D) * scale
        dv[:end] += p.T @ do
        dk[:end] += ds.T @ q[first:end]
        dq[first:end] = ds @ k[:end]
    return dq, dk, dv
