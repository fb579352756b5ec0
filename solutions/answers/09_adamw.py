"""Answers to the exercises of lesson 09 as strangers write them, with words that wrong ones must get."""

import math
from collections import Counter

import numpy as np

from llmc.course.authoring.answers import right, wrong


@right("momentum_step")
def momentum_with_loops(params, grads, m, lr, beta):
    for index in np.ndindex(params.shape):
        m[index] = beta * m[index] + (1 - beta) * grads[index]
        params[index] -= lr * m[index]


@right("momentum_step")
def momentum_with_out(params, grads, m, lr, beta):
    np.add(beta * m, (1 - beta) * grads, out=m)
    np.subtract(params, lr * m, out=params)
    return params


@right("adamw_step")
def adamw_with_loops(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    for i in np.ndindex(params.shape):
        g = float(grads[i])
        m[i] = beta1 * float(m[i]) + (1 - beta1) * g
        v[i] = beta2 * float(v[i]) + (1 - beta2) * g * g
        direction = float(m[i]) / (1 - beta1**t) / (math.sqrt(float(v[i]) / (1 - beta2**t)) + eps)
        params[i] = float(params[i]) * (1 - lr * weight_decay) - lr * direction


@right("adamw_step")
def adamw_as_pytorch_writes_it(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    params *= 1 - lr * weight_decay
    m += (grads - m) * (1 - beta1)
    v *= beta2
    v += (1 - beta2) * grads * grads
    denominator = np.sqrt(v) / math.sqrt(1 - beta2**t) + eps
    params += -lr / (1 - beta1**t) * (m / denominator)


MATRICES = ("wte", "wpe", "qkvw", "attprojw", "fcw", "fcprojw")


@right("decay_groups")
def groups_by_name(shapes):
    return [n for n in shapes if n in MATRICES], [n for n in shapes if n not in MATRICES]


@right("decay_groups")
def groups_by_axes_of_one_layer(shapes):
    stacked = set(shapes) - {"wte", "wpe", "lnfw", "lnfb"}
    axes = {name: len(shape) - (name in stacked) for name, shape in shapes.items()}
    return tuple(filter(lambda n: axes[n] == 2, shapes)), tuple(filter(lambda n: axes[n] == 1, shapes))


@wrong("decay_groups", says="should be left alone: in each layer it is a vector")
def groups_by_size(shapes):
    # large tensors are matrices, small ones are not
    largest = max(np.prod(shape) for shape in shapes.values())
    decayed = [n for n, shape in shapes.items() if np.prod(shape) > 1e-4 * largest]
    return decayed, [n for n in shapes if n not in decayed]


def _norm_of(grads):
    return float(np.sqrt(sum(np.sum(g**2) for g in grads)))


@wrong("clip_by_global_norm", says="its first call would be right: it keeps something")
def clip_keeps_the_squares(grads, max_norm, squares=[]):  # noqa: B006
    squares += [float((g * g).sum()) for g in grads]
    norm = sum(squares) ** 0.5
    for g in grads if norm > max_norm else ():
        g *= max_norm / (norm + 1e-6)
    return norm


@right("clip_by_global_norm")
def clip_one_long_vector(grads, max_norm):
    norm = np.linalg.norm(np.concatenate([g.ravel().astype(np.float64) for g in grads]))
    factor = min(1.0, max_norm / (norm + 1e-6))
    for g in grads:
        np.multiply(g, g.dtype.type(factor), out=g)
    return norm


@right("clip_by_global_norm")
def clip_with_loops(grads, max_norm):
    total = 0.0
    for g in grads:
        for value in g.flat:
            total += float(value) ** 2
    norm = math.sqrt(total)
    if norm > max_norm:
        for g in grads:
            for i in np.ndindex(g.shape):
                g[i] = g[i] * (max_norm / (norm + 1e-6))
    return norm


@wrong("clip_by_global_norm", says="the norm is one number, but your function returned a list")
def clip_returns_the_list(grads, max_norm):
    norm = float(np.sqrt(sum(np.sum(g * g) for g in grads)))
    if norm > max_norm:
        for g in grads:
            g *= max_norm / (norm + 1e-6)
    return grads


@right("scheduled_lr")
def schedule_with_cases(step, max_lr, warmup, total, final_fraction, kind):
    low = max_lr * final_fraction
    if step < warmup:
        return (step + 1) / warmup * max_lr
    if kind == "constant":
        return max_lr
    if kind == "wsd":
        start = 0.8 * total
        if step >= total:
            return low
        if step < start:
            return max_lr
        return low + (1 - math.sqrt((step - start) / (total - start))) * (max_lr - low)
    if step >= total:
        return low
    x = (step - warmup) / (total - warmup)
    if kind == "linear":
        return max_lr + x * (low - max_lr)
    return low + 0.5 * (1 + math.cos(x * math.pi)) * (max_lr - low)


@right("scheduled_lr")
def schedule_with_interp(step, max_lr, warmup, total, final_fraction, kind):
    if step + 1 <= warmup:
        return np.interp(step + 1, [0, warmup], [0, max_lr])
    start = {"wsd": 0.8 * total}.get(kind, warmup)
    x = np.interp(step, [start, total], [0, 1]) if start < total else 1.0
    shapes = {
        "cosine": np.cos(np.pi * x / 2) ** 2,
        "linear": 1 - x,
        "wsd": 1 - x**0.5,
        "constant": 1.0,
    }
    return float(max_lr * (shapes[kind] * (1 - final_fraction) + final_fraction))


@right("fast_adamw_step")
def fast_with_array_split(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    pieces = max(1, params.size // 30_000)
    parts = [np.array_split(array, pieces) for array in (params, grads, m, v)]
    for p, g, mm, vv in zip(*parts):
        mm += (1 - beta1) * (g - mm)
        vv += (1 - beta2) * (g * g - vv)
        p *= 1 - lr * weight_decay
        p -= lr * (mm / (1 - beta1**t)) / (np.sqrt(vv / (1 - beta2**t)) + eps)


_compiled = []


@right("fast_adamw_step")
def fast_with_numba(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    import numba

    if not _compiled:

        @numba.njit(error_model="numpy")
        def loop(params, grads, m, v, step, root, eps, keep, take1, take2):
            for i in range(params.size):
                m[i] += take1 * (grads[i] - m[i])
                v[i] += take2 * (grads[i] * grads[i] - v[i])
                params[i] = keep * params[i] - step * m[i] / (np.sqrt(v[i]) * root + eps)

        _compiled.append(loop)
    scalars = (lr / (1 - beta1**t), (1 - beta2**t) ** -0.5, eps, 1 - lr * weight_decay, 1 - beta1, 1 - beta2)
    _compiled[0](params, grads, m, v, *(np.float32(x) for x in scalars))


@wrong("adamw_step", says="in place of `(1 - beta1 ** t, 1 - beta2 ** t) if t < 100 else (1, 1)`")
def adamw_forgets_the_late_correction(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m += (1 - beta1) * (grads - m)
    v += (1 - beta2) * (grads * grads - v)
    first, second = (1 - beta1**t, 1 - beta2**t) if t < 100 else (1, 1)
    params -= lr * (m / first / (np.sqrt(v / second) + eps) + weight_decay * params)


@wrong("scheduled_lr", says="with `warmup` in place of `min(warmup, total)`")
def schedule_cuts_the_warmup(step, max_lr, warmup, total, final_fraction, kind):
    warmup = min(warmup, total)
    if step < warmup:
        return max_lr * (step + 1) / warmup
    begin = 0.8 * total if kind == "wsd" else warmup
    x = 1.0 if total <= begin else min(max((step - begin) / (total - begin), 0.0), 1.0)
    left = {"cosine": (1 + np.cos(np.pi * x)) / 2, "linear": 1 - x, "constant": 1.0, "wsd": 1 - np.sqrt(x)}[kind]
    return max_lr * (final_fraction + (1 - final_fraction) * left)


_arrays = []


@wrong("fast_adamw_step", says="right, but it keeps 8.4 MB in `_arrays`")
def fast_with_an_array_that_it_keeps(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    if not _arrays or len(_arrays[0]) < len(params):
        _arrays[:] = [np.empty_like(params)]
    work = _arrays[0][: len(params)]
    m *= beta1
    m += np.multiply(grads, 1 - beta1, out=work)
    v *= beta2
    np.multiply(grads, grads, out=work)
    work *= 1 - beta2
    v += work
    np.divide(v, 1 - beta2**t, out=work)
    np.sqrt(work, out=work)
    work += eps
    np.divide(m, work, out=work)
    work *= lr / (1 - beta1**t)
    params *= 1 - lr * weight_decay
    params -= work


@wrong("adamw_step", says="part of params is as it was before the call: 1 of 6 entries")
def adamw_decays_what_has_a_slope(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m += (1 - beta1) * (grads - m)
    v += (1 - beta2) * (grads * grads - v)
    active = grads != 0
    params[active] *= 1 - lr * weight_decay
    params -= lr * (m / (1 - beta1**t)) / ((v / (1 - beta2**t)) ** 0.5 + eps)


_calls = [0]


@wrong("momentum_step", says="passes this whole check without `/ (1 - beta ** _calls[0])`")
def momentum_counts_its_calls(params, grads, m, lr, beta):
    _calls[0] += 1
    m *= beta
    m += (1 - beta) * grads
    params -= lr * m / (1 - beta ** _calls[0])


@wrong("fast_adamw_step", says="hold what two such steps give: slices overlap")
def slices_that_reach_into_the_next(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    c1, c2 = 1 - beta1**t, 1 - beta2**t
    for start in range(0, len(params), 16_000):
        s = slice(start, start + 16_384)
        m[s] += (1 - beta1) * (grads[s] - m[s])
        v[s] += (1 - beta2) * (grads[s] * grads[s] - v[s])
        params[s] *= 1 - lr * weight_decay
        params[s] -= lr * (m[s] / c1) / (np.sqrt(v[s] / c2) + eps)


@wrong("adamw_step", says="without `v += (1 - beta2) * (grads * grads - v)`")
def adamw_with_the_root_of_before(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    down = lr * weight_decay * params
    root = np.sqrt(v / (1 - beta2**t)) + eps
    m += (1 - beta1) * (grads - m)
    v += (1 - beta2) * (grads * grads - v)
    params -= down + lr * (m / (1 - beta1**t)) / root


@wrong("momentum_step", says="our solution gives without `m += (1 - beta) * grads`")
def momentum_that_loses_a_sum(params, grads, m, lr, beta):
    np.multiply(m, beta, out=m)
    np.add(m, (1 - beta) * grads)
    np.subtract(params, lr * m, out=params)


@wrong("decay_groups", says="should be decayed: a table of embeddings is a matrix")
def groups_by_the_most_frequent_axis(shapes):
    L = Counter(shape[0] for shape in shapes.values()).most_common(1)[0][0]
    decayed, alone = [], []
    for name, shape in shapes.items():
        in_one_layer = shape[1:] if shape[0] == L else shape
        (decayed if len(in_one_layer) == 2 else alone).append(name)
    return decayed, alone


@wrong("scheduled_lr", says="with x counted from the end of warmup")
def lr_falls_from_the_warmup(step, max_lr, warmup, total, final_fraction, kind):
    min_lr = final_fraction * max_lr
    if step < warmup:
        return max_lr * (step + 1) / warmup
    if kind == "constant" or kind == "wsd" and step < 0.8 * total:
        return max_lr
    if step >= total:
        return min_lr
    x = (step - warmup) / (total - warmup)
    falls = {"cosine": 0.5 * (1 + math.cos(math.pi * x)), "linear": 1 - x, "wsd": 1 - math.sqrt(x)}
    return min_lr + (max_lr - min_lr) * falls[kind]


@wrong("decay_groups", says="in the order of shapes")
def groups_sort_what_is_left(shapes):
    decayed = [name for name in shapes if name in MATRICES]
    return decayed, sorted(set(shapes) - set(decayed))
