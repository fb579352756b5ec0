"""Answers to the exercises of lesson 25 as strangers write them, with words that wrong ones must get."""

import math

import ml_dtypes
import numpy as np

from llmc.course.authoring.answers import right, wrong
from llmc.course.lessons.fp8_training.exercises import multiply, to_8

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2

# -------------------------------------------------------------------------------------------------------- 1 round_e4m3


@right("round_e4m3")
def round_with_a_library(x, scale):
    inside = np.minimum(np.maximum(x * np.float32(scale), -448), 448)
    return inside.astype(ml_dtypes.float8_e4m3fn).astype(np.float32) / np.float32(scale)


@right("round_e4m3")
def round_with_a_loop(x, scale):
    out = np.empty_like(x)
    for i, v in np.ndenumerate(x):
        y = max(-448.0, min(448.0, float(v) * scale))
        unit = 2.0 ** (max(math.frexp(y)[1], -5) - 4)
        out[i] = round(y / unit) * unit / scale
    return out


@wrong("round_e4m3", says="without clipping: beyond 448 there are no numbers of e4m3")
def round_beyond_the_end(x, scale):
    y = x * np.float32(scale)
    with np.errstate(invalid="ignore"):
        unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(y), 2.0**-6))) - 3).astype(np.float32)
        return np.where(np.isinf(y), y, np.round(y / unit) * unit / np.float32(scale)).astype(np.float32)


@wrong("round_e4m3", says="a cast to e4m3 alone does not saturate")
def round_by_a_cast(x, scale):
    return (x * np.float32(scale)).astype(E4M3).astype(np.float32) / np.float32(scale)


@wrong("round_e4m3", says="it is the other way round")
def round_of_what_is_divided(x, scale):
    inside = np.clip(x / np.float32(scale), -448, 448)
    return inside.astype(E4M3).astype(np.float32) * np.float32(scale)


@wrong("round_e4m3", says="rounded")
def round_adds_a_half(x, scale):
    y = np.clip(x * np.float32(scale), -448, 448)
    unit = np.exp2(np.maximum(np.frexp(y)[1], -5) - 4).astype(np.float32)
    return (np.floor(y / unit + np.float32(0.5)) * unit / np.float32(scale)).astype(np.float32)


@wrong("round_e4m3", says="with subnormal numbers as finely spaced as others")
def round_without_an_end_below(x, scale):
    y = np.clip(x * np.float32(scale), -448, 448)
    mantissa, exponent = np.frexp(y)
    return (np.ldexp(np.rint(mantissa * 16), exponent - 4) / np.float32(scale)).astype(np.float32)


# ----------------------------------------------------------------------------------------------- 2 power_of_two_scales


@right("power_of_two_scales")
def scales_with_a_list(x, largest, margin):
    found = []
    for row in x:
        amax = max(abs(float(v)) for v in row)
        found.append([2.0 ** (math.floor(math.log2(largest / amax)) - margin) if amax else 1.0])
    return np.array(found, np.float32)


@right("power_of_two_scales")
def scales_from_the_bits(x, largest, margin):
    amax = np.maximum(x.max(axis=-1), -x.min(axis=-1))[:, None]
    out = np.ones(amax.shape, np.float32)
    there = amax[:, 0] != 0
    m, e = np.frexp(np.float64(largest) / amax[there].astype(np.float64))
    out[there] = 2.0 ** (e - 1.0 - margin)
    return out


@wrong("power_of_two_scales", says="rounded up to a power of two")
def scales_that_are_too_large(x, largest, margin):
    amax = np.abs(x).max(axis=1, keepdims=True).astype(np.float64)
    safe = np.where(amax == 0, 1, amax)
    return np.where(amax == 0, 1, 2.0 ** (np.floor(np.log2(largest / safe)) + 1 - margin)).astype(np.float32)


@wrong("power_of_two_scales", says="scales has shape (5,), expected (5, 1)")
def scales_without_an_axis(x, largest, margin):
    amax = np.abs(x).max(axis=1).astype(np.float64)
    safe = np.where(amax == 0, 1, amax)
    return np.where(amax == 0, 1, 2.0 ** (np.floor(np.log2(largest / safe)) - margin)).astype(np.float32)


@wrong("power_of_two_scales", says="of the whole array")
def scales_all_the_same(x, largest, margin):
    power = math.floor(math.log2(largest / float(np.abs(x).max()))) - margin
    return np.where(np.any(x, axis=1, keepdims=True), 2.0**power, 1).astype(np.float32)


# ----------------------------------------------------------------------------------------------- 3 matmul_backward_fp8


@right("matmul_backward_fp8")
def backward_that_rounds_twice(dx, dw, db, dout, x, w, dout_scale, x_scale, w_scale):
    dx[:] = multiply(to_8(dout, dout_scale, E5M2), to_8(w.T.copy(), w_scale, E4M3)) / dout_scale / w_scale
    both = multiply(to_8(dout.T.copy(), dout_scale, E5M2), to_8(x.T.copy(), x_scale, E4M3))
    dw += both / np.float32(dout_scale * x_scale)
    db += dout.sum(0)


@right("matmul_backward_fp8")
def backward_the_other_way_round(dx, dw, db, dout, x, w, dout_scale, x_scale, w_scale):
    d = to_8(dout, dout_scale, E5M2)
    dx[...] = (multiply(to_8(w, w_scale, E4M3).T.copy(), d) / (dout_scale * w_scale)).T
    dw[...] = dw + (multiply(to_8(x, x_scale, E4M3).T.copy(), d.T.copy()) / (dout_scale * x_scale)).T
    db += np.ones(len(dout), np.float32) @ dout


@wrong("matmul_backward_fp8", says="copy it")
def backward_of_views(dx, dw, db, dout, x, w, dout_scale, x_scale, w_scale):
    d, x8, w8 = to_8(dout, dout_scale, E5M2), to_8(x, x_scale, E4M3), to_8(w, w_scale, E4M3)
    dx[...] = multiply(d, w8.T) / (dout_scale * w_scale)
    dw += multiply(d.T, x8.T) / (dout_scale * x_scale)
    db += dout.sum(axis=0)


@wrong("matmul_backward_fp8", says="was overwritten instead of accumulated")
def backward_that_forgets(dx, dw, db, dout, x, w, dout_scale, x_scale, w_scale):
    d, x8, w8 = to_8(dout, dout_scale, E5M2), to_8(x, x_scale, E4M3), to_8(w, w_scale, E4M3)
    dx[...] = multiply(d, w8.T.copy()) / (dout_scale * w_scale)
    dw[...] = multiply(d.T.copy(), x8.T.copy()) / (dout_scale * x_scale)
    db[...] = dout.sum(axis=0)


@wrong("matmul_backward_fp8", says="with the scale of w divided out, not that of x")
def backward_with_one_factor(dx, dw, db, dout, x, w, dout_scale, x_scale, w_scale):
    d, x8, w8 = to_8(dout, dout_scale, E5M2), to_8(x, x_scale, E4M3), to_8(w, w_scale, E4M3)
    undo = 1 / (dout_scale * w_scale)
    dx[...] = multiply(d, w8.T.copy()) * undo
    dw += multiply(d.T.copy(), x8.T.copy()) * undo
    db += dout.sum(axis=0)


@wrong("matmul_backward_fp8", says="k is the last axis of both factors")
def backward_without_copies(dx, dw, db, dout, x, w, dout_scale, x_scale, w_scale):
    dx[...] = multiply(to_8(dout, dout_scale, E5M2), to_8(w, w_scale, E4M3)) / (dout_scale * w_scale)


@wrong("matmul_backward_fp8", says="its factors must be rounded to 8 bits")
def backward_without_8_bits(dx, dw, db, dout, x, w, dout_scale, x_scale, w_scale):
    dx[...] = dout @ w
    dw += dout.T @ x
    db += dout.sum(axis=0)


# ----------------------------------------------------------------------------------------------------- 4 delayed_scale


@right("delayed_scale")
def delayed_with_a_copy(history, amax, length, largest):
    kept = history.copy()
    known = amax if not kept else max(kept)
    if math.isfinite(amax):
        kept.append(amax)
    while len(kept) > length:
        kept.pop(0)
    saturated = not amax <= known or math.isinf(amax)
    return (1.0 if known == 0 or not math.isfinite(known) else largest / known), saturated, kept


@right("delayed_scale")
def delayed_with_numpy(history, amax, length, largest):
    known = np.max(history) if len(history) else amax
    good = np.isfinite(known) and known > 0
    new = (history + [amax] if np.isfinite(amax) else history[:])[-length:]
    return float(largest / known) if good else 1.0, bool(not np.isfinite(amax) or amax > known), new


@wrong("delayed_scale", says="with the amax of now in the scale")
def delayed_that_knows_the_present(history, amax, length, largest):
    new = [*history, amax][-length:] if np.isfinite(amax) else history[-length:]
    known = max([*history, amax])
    before = max(history) if history else amax
    return (largest / known if 0 < known < np.inf else 1.0), not amax <= before or amax == np.inf, new


@wrong("delayed_scale", says="history")
def delayed_that_changes_its_history(history, amax, length, largest):
    known = max(history) if history else amax
    scale = largest / known if 0 < known < np.inf else 1.0
    if np.isfinite(amax):
        history.append(amax)
    return scale, amax > known or not np.isfinite(amax), history[-length:]


@wrong("delayed_scale", says="with an infinity or NaN in it")
def delayed_that_remembers_all(history, amax, length, largest):
    known = max(history, default=amax)
    saturated = amax > known or not np.isfinite(amax)
    return (largest / known if 0 < known < np.inf else 1.0), saturated, (history + [amax])[-length:]


@wrong("delayed_scale", says="scale")
def delayed_divides_by_anything(history, amax, length, largest):
    known = max(history) if history else amax
    saturated = amax > known or not math.isfinite(amax)
    return largest / known if known else 1.0, saturated, (history + [amax] * math.isfinite(amax))[-length:]


# -------------------------------------------------------------------------------------------------- 5 promoted_product


@right("promoted_product")
def promoted_with_a_counter(a, b, every, tensor_core):
    out = np.zeros((a.shape[0], b.shape[0]), dtype=np.float32)
    part, since, k = np.zeros_like(out), 0, 0
    while k < a.shape[1]:
        n = min(32, every - since, a.shape[1] - k)
        part = tensor_core(part, a[:, k : k + n], b[:, k : k + n])
        k, since = k + n, since + n
        if since == every:
            out, part, since = out + part, np.zeros_like(out), 0
    return out + part


@right("promoted_product")
def promoted_with_a_helper(a, b, every, tensor_core):
    def piece(a, b):
        total = np.zeros((len(a), len(b)), np.float32)
        for k in range(0, a.shape[1], 32):
            total = tensor_core(total, a[:, k : k + 32], b[:, k : k + 32])
        return total

    cuts = range(0, a.shape[1], every)
    return sum((piece(a[:, s : s + every], b[:, s : s + every]) for s in cuts), np.zeros((len(a), len(b)), np.float32))


@wrong("promoted_product", says="without setting the running sum to 0 after it was added")
def promoted_adds_again(a, b, every, tensor_core):
    total, part = np.zeros((len(a), len(b)), np.float32), np.zeros((len(a), len(b)), np.float32)
    for start in range(0, a.shape[1], every):
        for k in range(start, min(start + every, a.shape[1]), 32):
            stop = min(k + 32, start + every)
            part = tensor_core(part, a[:, k:stop], b[:, k:stop])
        total += part
    return total


@wrong("promoted_product", says="the sum without promotion")
def promoted_never(a, b, every, tensor_core):
    total = np.zeros((len(a), len(b)), np.float32)
    for k in range(0, a.shape[1], 32):
        total = tensor_core(total, a[:, k : k + 32], b[:, k : k + 32])
    return total


@wrong("promoted_product", says="takes up to 32 numbers of k at once")
def promoted_in_one_go(a, b, every, tensor_core):
    total = np.zeros((len(a), len(b)), np.float32)
    for start in range(0, a.shape[1], every):
        total += tensor_core(np.zeros_like(total), a[:, start : start + every], b[:, start : start + every])
    return total


@wrong("promoted_product", says="the exact product: use tensor_core, and promote after")
def promoted_by_numpy(a, b, every, tensor_core):
    return (a @ b.T).astype(np.float32)


@wrong("promoted_product", says="without what is left where `every` does not divide K")
def promoted_whole_pieces(a, b, every, tensor_core):
    total = np.zeros((len(a), len(b)), np.float32)
    for piece in range(a.shape[1] // every):
        part = np.zeros_like(total)
        for k in range(piece * every, (piece + 1) * every, 32):
            stop = min(k + 32, (piece + 1) * every)
            part = tensor_core(part, a[:, k:stop], b[:, k:stop])
        total += part
    return total
