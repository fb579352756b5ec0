"""Answers to the exercises of lesson 09 as learners write them: right ones that look different, and wrong ones.

Each wrong answer carries words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 09` runs those of this lesson.
"""

import math
from collections import Counter

import numpy as np

from llmc.course.old.authoring.answers import right, wrong

# ------------------------------------------------------------------------------------------------ 1 momentum_step


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


@right("momentum_step")
def momentum_as_a_difference(params, grads, m, lr, beta):
    m[:] = m + (1 - beta) * (grads - m)
    params[:] = params - lr * m


@wrong("momentum_step", says="m equals beta · m + grads: (1 - beta) in front of grads is missing")
def momentum_as_in_pytorch(params, grads, m, lr, beta):
    m *= beta
    m += grads
    params -= lr * m


@wrong("momentum_step", says="beta and 1 - beta swapped: beta is the share of the OLD m")
def momentum_with_shares_swapped(params, grads, m, lr, beta):
    m[...] = (1 - beta) * m + beta * grads
    params -= lr * m


@wrong(
    "momentum_step", says="to another array and leaves the caller's array alone: write into that one, with `m[...] = …`"
)
def momentum_rebinds_m(params, grads, m, lr, beta):
    m = beta * m + (1 - beta) * grads
    params -= lr * m


@wrong("momentum_step", says="params was never written")
def momentum_rebinds_params(params, grads, m, lr, beta):
    m[...] = beta * m + (1 - beta) * grads
    params = params - lr * m


@wrong("momentum_step", says="params equals params - lr · (the old m): m is updated first, then used")
def momentum_steps_first(params, grads, m, lr, beta):
    params -= lr * m
    m[...] = beta * m + (1 - beta) * grads


@wrong("momentum_step", says="params equals params - lr · grads: a plain step, m is not used")
def momentum_is_forgotten(params, grads, m, lr, beta):
    m[...] = beta * m + (1 - beta) * grads
    params -= lr * grads


@wrong("momentum_step", says="params equals params + lr · m: go down, against the slope")
def momentum_goes_up(params, grads, m, lr, beta):
    m[...] = beta * m + (1 - beta) * grads
    params += lr * m


@wrong("momentum_step", says="m equals m + (1 - beta) · grads: the old m is not multiplied by beta")
def momentum_adds_up(params, grads, m, lr, beta):
    m += (1 - beta) * grads
    params -= lr * m


@wrong("momentum_step", says="lr belongs in the step, not in m")
def momentum_with_lr_in_m(params, grads, m, lr, beta):
    m[...] = beta * m + lr * grads
    params -= m


@wrong("momentum_step", says="the learning rate is missing")
def momentum_without_lr(params, grads, m, lr, beta):
    m[...] = beta * m + (1 - beta) * grads
    params -= m


@wrong("momentum_step", says="An input was written to")
def momentum_works_in_grads(params, grads, m, lr, beta):
    grads *= 1 - beta
    m *= beta
    m += grads
    params -= lr * m


@wrong("momentum_step", says="Nesterov")
def momentum_is_nesterovs(params, grads, m, lr, beta):
    m[...] = beta * m + (1 - beta) * grads
    params -= lr * (beta * m + (1 - beta) * grads)


# --------------------------------------------------------------------------------------------------- 2 adamw_step


def _means(grads, m, v, beta1, beta2):
    """m and v as they should be: these answers go wrong later."""
    m[...] = beta1 * m + (1 - beta1) * grads
    v[...] = beta2 * v + (1 - beta2) * grads**2


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


@right("adamw_step")
def adamw_as_llm_c_writes_it(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
    params[...] = params - lr * (m_hat / (np.sqrt(v_hat) + eps) + weight_decay * params)


@wrong("adamw_step", says="params equals the reference without bias correction")
def adamw_without_correction(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    params *= 1 - lr * weight_decay
    params -= lr * m / (np.sqrt(v) + eps)


@wrong("adamw_step", says="m equals the corrected m̂: the buffer keeps m itself")
def adamw_stores_the_hats(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    m /= 1 - beta1**t
    v /= 1 - beta2**t
    params *= 1 - lr * weight_decay
    params -= lr * m / (np.sqrt(v) + eps)


@wrong("adamw_step", says="t - 1 instead of t")
def adamw_counts_from_zero(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    k = t - 1
    params *= 1 - lr * weight_decay
    params -= lr * m / (1 - beta1**k) / (np.sqrt(v / (1 - beta2**k)) + eps)


@wrong("adamw_step", says="t + 1 instead of t: the first step is t = 1")
def adamw_counts_one_more(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    params *= 1 - lr * weight_decay
    params -= lr * m / (1 - beta1 ** (t + 1)) / (np.sqrt(v / (1 - beta2 ** (t + 1))) + eps)


@wrong("adamw_step", says="params equals the reference with eps inside the root: it is added to the root")
def adamw_with_eps_inside(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    params *= 1 - lr * weight_decay
    params -= lr * m / (1 - beta1**t) / np.sqrt(v / (1 - beta2**t) + eps)


@wrong("adamw_step", says="eps added to √v before the correction")
def adamw_with_eps_too_early(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    alpha = lr * math.sqrt(1 - beta2**t) / (1 - beta1**t)
    params *= 1 - lr * weight_decay
    params -= alpha * m / (np.sqrt(v) + eps)


@wrong("adamw_step", says="m equals the running mean of grads + weight_decay · params")
def adamw_with_l2(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads + weight_decay * params, m, v, beta1, beta2)
    params -= lr * m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)


@wrong("adamw_step", says="params equals the reference without weight decay")
def adamw_without_decay(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    params -= lr * m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)


@wrong("adamw_step", says="decay not multiplied by lr")
def adamw_decays_without_lr(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    params *= 1 - weight_decay
    params -= lr * m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)


@wrong("adamw_step", says="decay after the step: decay applies to the params before the step")
def adamw_decays_afterwards(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    params -= lr * m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)
    params *= 1 - lr * weight_decay


@wrong("adamw_step", says="decay divided by √v̂ + eps, too: do not divide it")
def adamw_decays_in_the_numerator(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    params -= lr * (m / (1 - beta1**t) + weight_decay * params) / (np.sqrt(v / (1 - beta2**t)) + eps)


@wrong("adamw_step", says="v equals the running mean of grads: the square is missing")
def adamw_forgets_the_square(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m[...] = beta1 * m + (1 - beta1) * grads
    v[...] = beta2 * v + (1 - beta2) * grads
    params *= 1 - lr * weight_decay
    params -= lr * m / (1 - beta1**t) / (np.sqrt(np.abs(v) / (1 - beta2**t)) + eps)


@wrong("adamw_step", says="params equals the reference without the root")
def adamw_forgets_the_root(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    params *= 1 - lr * weight_decay
    params -= lr * m / (1 - beta1**t) / (v / (1 - beta2**t) + eps)


@wrong("adamw_step", says="m equals the reference with beta2 instead of beta1")
def adamw_with_betas_swapped(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta2, beta1)
    params *= 1 - lr * weight_decay
    params -= lr * m / (1 - beta2**t) / (np.sqrt(v / (1 - beta1**t)) + eps)


@wrong("adamw_step", says="m equals the running mean of grads²: that is v")
def adamw_with_m_and_v_swapped(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    v[...] = beta1 * v + (1 - beta1) * grads
    m[...] = beta1 * m + (1 - beta1) * grads**2
    params *= 1 - lr * weight_decay
    params -= lr * np.abs(v) / (np.sqrt(np.abs(m)) + eps)


@wrong("adamw_step", says="1 - beta instead of 1 - beta**t")
def adamw_forgets_the_power(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    params *= 1 - lr * weight_decay
    params -= lr * m / (1 - beta1) / (np.sqrt(v / (1 - beta2)) + eps)


@wrong("adamw_step", says="the power belongs to beta alone")
def adamw_with_a_misplaced_power(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    params *= 1 - lr * weight_decay
    params -= lr * m / (1 - beta1) ** t / (np.sqrt(v / (1 - beta2) ** t) + eps)


@wrong("adamw_step", says="a power, not a product")
def adamw_multiplies_by_t(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    params *= 1 - lr * weight_decay
    params -= lr * m / (1 - beta1 * t) / (np.sqrt(v / (1 - beta2 * t)) + eps)


@wrong("adamw_step", says="m was never written")
def adamw_rebinds_everything(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m = beta1 * m + (1 - beta1) * grads
    v = beta2 * v + (1 - beta2) * grads**2
    params = params * (1 - lr * weight_decay) - lr * m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)
    return params, m, v


@wrong("adamw_step", says="params equals the reference without eps: it is added to the root.\nparams has 1 of 6")
def adamw_without_eps(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    params *= 1 - lr * weight_decay
    with np.errstate(invalid="ignore"):
        params -= lr * m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + (eps if eps > 1e-3 else 0))


@wrong("adamw_step", says="params equals the reference with grads instead of m̂")
def adamw_is_rmsprop(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    params *= 1 - lr * weight_decay
    params -= lr * grads / (np.sqrt(v / (1 - beta2**t)) + eps)


@wrong("adamw_step", says="the old m and v: they are updated first")
def adamw_steps_first(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    params *= 1 - lr * weight_decay
    params -= lr * m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)
    _means(grads, m, v, beta1, beta2)


@wrong("adamw_step", says="plus in front of the step")
def adamw_goes_up(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    _means(grads, m, v, beta1, beta2)
    params *= 1 - lr * weight_decay
    params += lr * m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)


@wrong("adamw_step", says="v equals beta2 · v + grads²: (1 - beta2) is missing")
def adamw_adds_squares(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m[...] = beta1 * m + (1 - beta1) * grads
    v[...] = beta2 * v + grads**2
    params *= 1 - lr * weight_decay
    params -= lr * m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)


@wrong("adamw_step", says="your code uses llmc.backends")
def adamw_calls_the_package(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    from llmc.backends import reference

    reference.adamw_update(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t)


# ------------------------------------------------------------------------------------------------- 3 decay_groups

MATRICES = ("wte", "wpe", "qkvw", "attprojw", "fcw", "fcprojw")


@right("decay_groups")
def groups_by_name(shapes):
    return [n for n in shapes if n in MATRICES], [n for n in shapes if n not in MATRICES]


@right("decay_groups")
def groups_by_axes_of_one_layer(shapes):
    stacked = set(shapes) - {"wte", "wpe", "lnfw", "lnfb"}
    axes = {name: len(shape) - (name in stacked) for name, shape in shapes.items()}
    return tuple(filter(lambda n: axes[n] == 2, shapes)), tuple(filter(lambda n: axes[n] == 1, shapes))


@wrong("decay_groups", says="of a layer norm. Its first axis only counts the layers")
def groups_of_scales_too(shapes):
    decayed = [n for n in shapes if n in MATRICES or n in ("ln1w", "ln2w")]
    return decayed, [n for n in shapes if n not in decayed]


@wrong("decay_groups", says="Its first axis only counts the layers")
def groups_of_two_axes_or_more(shapes):
    # the rule of PyTorch's GPT-2, where no layers are stacked
    return [n for n, s in shapes.items() if len(s) >= 2], [n for n, s in shapes.items() if len(s) < 2]


@wrong("decay_groups", says="should be decayed: a table of embeddings is a matrix too")
def groups_of_three_axes(shapes):
    return [n for n, s in shapes.items() if len(s) == 3], [n for n, s in shapes.items() if len(s) != 3]


@wrong("decay_groups", says="should be left alone")
def groups_of_names_with_w(shapes):
    return [n for n in shapes if n.endswith("w") or n in ("wte", "wpe")], [n for n in shapes if n.endswith("b")]


@wrong("decay_groups", says="wpe")
def groups_without_wpe(shapes):
    decayed = [n for n in shapes if n in MATRICES and n != "wpe"]
    return decayed, [n for n in shapes if n not in decayed]


@wrong("decay_groups", says="the two lists are swapped: the decayed ones come first")
def groups_swapped(shapes):
    return [n for n in shapes if n not in MATRICES], [n for n in shapes if n in MATRICES]


@wrong("decay_groups", says="not in the order of shapes")
def groups_sorted(shapes):
    return sorted(n for n in shapes if n in MATRICES), sorted(n for n in shapes if n not in MATRICES)


@wrong("decay_groups", says="is in neither list")
def groups_lose_the_vectors(shapes):
    return [n for n in shapes if n in MATRICES], [n for n, shape in shapes.items() if len(shape) == 1]


@wrong("decay_groups", says="nothing was returned")
def groups_return_nothing(shapes):
    [n for n in shapes if n in MATRICES], [n for n in shapes if n not in MATRICES]


@wrong("decay_groups", says="a set keeps no order")
def groups_as_sets(shapes):
    return {n for n in shapes if n in MATRICES}, {n for n in shapes if n not in MATRICES}


@wrong("decay_groups", says="decayed and left alone; you returned a dict")
def groups_as_a_dict(shapes):
    return {name: name in MATRICES for name in shapes}


@wrong("decay_groups", says="is not one of the names in shapes")
def groups_of_shapes(shapes):
    return [s for n, s in shapes.items() if n in MATRICES], [s for n, s in shapes.items() if n not in MATRICES]


@wrong("decay_groups", says="should be left alone")
def groups_by_size(shapes):
    # large tensors are matrices, small ones are not
    largest = max(np.prod(shape) for shape in shapes.values())
    decayed = [n for n, shape in shapes.items() if np.prod(shape) > 1e-4 * largest]
    return decayed, [n for n in shapes if n not in decayed]


# ------------------------------------------------------------------------------------------ 4 clip_by_global_norm


def _norm_of(grads):
    return float(np.sqrt(sum(np.sum(g**2) for g in grads)))


@wrong("clip_by_global_norm", says="the norm taken again after the arrays before it were scaled")
def clip_computes_the_norm_in_every_turn(grads, max_norm):
    norm = _norm_of(grads)
    for g in grads:
        if _norm_of(grads) > max_norm:
            g *= max_norm / (_norm_of(grads) + 1e-6)
    return norm


@wrong("clip_by_global_norm", says="would be right if this were the first call of your function")
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


@right("clip_by_global_norm")
def clip_with_norms_of_norms(grads, max_norm):
    norm = float(np.linalg.norm([np.linalg.norm(g) for g in grads]))
    for g in grads:
        g[...] = g * min(1.0, max_norm / (norm + 1e-6))
    return norm


@wrong("clip_by_global_norm", says="equals the sum of the arrays' norms: add up the squares, then take one root")
def clip_adds_norms(grads, max_norm):
    norm = sum(float(np.linalg.norm(g)) for g in grads)
    if norm > max_norm:
        for g in grads:
            g *= max_norm / (norm + 1e-6)
    return norm


@wrong("clip_by_global_norm", says="equals the sum of all squares: the root is missing")
def clip_forgets_the_root(grads, max_norm):
    norm = sum(float(np.sum(g * g)) for g in grads)
    if norm > max_norm:
        for g in grads:
            g *= max_norm / (norm + 1e-6)
    return norm


@wrong("clip_by_global_norm", says="clipped by its own norm; the norm of all arrays together decides")
def clip_each_by_itself(grads, max_norm):
    norm = float(np.sqrt(sum(np.sum(g * g) for g in grads)))
    for g in grads:
        own = float(np.linalg.norm(g))
        if own > max_norm:
            g *= max_norm / (own + 1e-6)
    return norm


@wrong("clip_by_global_norm", says="clipped one by one to ± max_norm: that turns the direction")
def clip_each_number(grads, max_norm):
    norm = float(np.sqrt(sum(np.sum(g * g) for g in grads)))
    for g in grads:
        np.clip(g, -max_norm, max_norm, out=g)
    return norm


@wrong("clip_by_global_norm", says="scaled UP to max_norm: a norm below it is left alone")
def clip_always(grads, max_norm):
    norm = float(np.sqrt(sum(np.sum(g * g) for g in grads)))
    for g in grads:
        g *= max_norm / (norm + 1e-6)
    return norm


@wrong("clip_by_global_norm", says="without 1e-6 in the denominator")
def clip_without_the_small_number(grads, max_norm):
    norm = float(np.sqrt(sum(np.sum(g * g) for g in grads)))
    if norm > max_norm:
        for g in grads:
            g *= max_norm / norm
    return norm


@wrong("clip_by_global_norm", says="equals the norm AFTER clipping; return the norm before it")
def clip_returns_the_new_norm(grads, max_norm):
    norm = float(np.sqrt(sum(np.sum(g * g) for g in grads)))
    if norm > max_norm:
        for g in grads:
            g *= max_norm / (norm + 1e-6)
    return float(np.sqrt(sum(np.sum(g * g) for g in grads)))


@wrong("clip_by_global_norm", says="your code put a new array into `grads[0]`, where the caller does not look")
def clip_puts_new_arrays_into_the_list(grads, max_norm):
    norm = float(np.sqrt(sum(np.sum(g * g) for g in grads)))
    if norm > max_norm:
        for i in range(len(grads)):
            grads[i] = grads[i] * (max_norm / (norm + 1e-6))
    return norm


@wrong("clip_by_global_norm", says="with `grads[0][...] = …`")
def clip_fills_the_list_anew(grads, max_norm):
    norm = float(np.sqrt(sum(np.sum(g * g) for g in grads)))
    grads[:] = [g * min(1.0, max_norm / (norm + 1e-6)) for g in grads]
    return norm


@wrong("clip_by_global_norm", says="your code put something into `grads`")
def clip_appends_to_the_list(grads, max_norm):
    norm = float(np.sqrt(sum(np.sum(g * g) for g in grads)))
    grads.append(np.array(norm))
    return norm


@wrong("clip_by_global_norm", says="the norm is one number, but a list was returned")
def clip_returns_the_list(grads, max_norm):
    norm = float(np.sqrt(sum(np.sum(g * g) for g in grads)))
    if norm > max_norm:
        for g in grads:
            g *= max_norm / (norm + 1e-6)
    return grads


@wrong("clip_by_global_norm", says="the norm plus 1e-6: that small number belongs in the denominator alone")
def clip_returns_the_denominator(grads, max_norm):
    norm = float(np.sqrt(sum(np.sum(g * g) for g in grads))) + 1e-6
    for g in grads:
        g *= min(1.0, max_norm / norm)
    return norm


@wrong("clip_by_global_norm", says="grads[0] was never written")
def clip_rebinds_names(grads, max_norm):
    norm = float(np.sqrt(sum(np.sum(g * g) for g in grads)))
    if norm > max_norm:
        for g in grads:
            g = g * max_norm / (norm + 1e-6)
    return norm


@wrong("clip_by_global_norm", says="nothing was returned; return the norm before clipping")
def clip_returns_nothing(grads, max_norm):
    norm = float(np.sqrt(sum(np.sum(g * g) for g in grads)))
    if norm > max_norm:
        for g in grads:
            g *= max_norm / (norm + 1e-6)


@wrong("clip_by_global_norm", says="equals the norm of the last array: all of them count")
def clip_measures_the_last(grads, max_norm):
    for g in grads:
        norm = float(np.sqrt(np.sum(g * g)))
    if norm > max_norm:
        for g in grads:
            g *= max_norm / (norm + 1e-6)
    return norm


@wrong("clip_by_global_norm", says="equals grads / norm: multiply by max_norm too")
def clip_to_one(grads, max_norm):
    norm = float(np.sqrt(sum(np.sum(g * g) for g in grads)))
    if norm > max_norm:
        for g in grads:
            g /= norm + 1e-6
    return norm


# ------------------------------------------------------------------------------------------------- 5 scheduled_lr


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


def _curve(x, max_lr, final_fraction, kind):
    """The curves as they should be: these answers go wrong elsewhere."""
    left = {"cosine": (1 + math.cos(math.pi * x)) / 2, "linear": 1 - x, "constant": 1.0, "wsd": 1 - math.sqrt(x)}[kind]
    return max_lr * (final_fraction + (1 - final_fraction) * left)


def _x(step, begin, end):
    """The progress as it should be."""
    return 1.0 if end <= begin else min(max((step - begin) / (end - begin), 0.0), 1.0)


def _begin(warmup, total, kind):
    return 0.8 * total if kind == "wsd" else warmup


@wrong("scheduled_lr", says="The call was scheduled_lr(step 0,")
def schedule_does_not_move_at_first(step, max_lr, warmup, total, final_fraction, kind):
    return schedule_starts_at_zero(step, max_lr, warmup, total, final_fraction, kind)


@wrong("scheduled_lr", says="step instead of step + 1: the first step would not move")
def schedule_starts_at_zero(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * step / warmup
    return _curve(_x(step, _begin(warmup, total, kind), total), max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="(step + 1) / (warmup + 1): it must reach max_lr at step warmup - 1")
def schedule_warms_up_slowly(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / (warmup + 1)
    return _curve(_x(step, _begin(warmup, total, kind), total), max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="equals the reference without warmup")
def schedule_without_warmup(step, max_lr, warmup, total, final_fraction, kind):
    return _curve(_x(step, _begin(warmup, total, kind), total), max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="a curve that begins at step 0: it begins where warmup ends")
def schedule_counts_from_the_start(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    return _curve(_x(step, 0.8 * total if kind == "wsd" else 0, total), max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="goes on past its end: from step total on it no longer changes")
def schedule_has_no_end(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    begin = _begin(warmup, total, kind)
    x = 1.0 if total <= begin else max((step - begin) / (total - begin), 0.0)
    return _curve(x, max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="final_fraction taken for a learning rate: it is a share of max_lr")
def schedule_takes_the_fraction_for_a_rate(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    left = _curve(_x(step, _begin(warmup, total, kind), total), 1.0, 0.0, kind)
    return final_fraction + (max_lr - final_fraction) * left


@wrong("scheduled_lr", says="final_fraction left out: the curve ends at final_fraction · max_lr")
def schedule_falls_to_zero(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    return _curve(_x(step, _begin(warmup, total, kind), total), max_lr, 0.0, kind)


@wrong("scheduled_lr", says="it starts above max_lr")
def schedule_starts_too_high(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    left = _curve(_x(step, _begin(warmup, total, kind), total), 1.0, 0.0, kind)
    return final_fraction * max_lr + max_lr * left if kind != "constant" else max_lr


@wrong("scheduled_lr", says="the cosine alone, which falls to -1")
def schedule_with_a_bare_cosine(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    x = _x(step, _begin(warmup, total, kind), total)
    if kind == "cosine":
        return max_lr * (final_fraction + (1 - final_fraction) * math.cos(math.pi * x))
    return _curve(x, max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="1 + cos, not halved: that falls from 2 to 0, and (1 + cos) / 2 from 1 to 0")
def schedule_forgets_the_half(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    x = _x(step, _begin(warmup, total, kind), total)
    if kind == "cosine":
        return max_lr * (final_fraction + (1 - final_fraction) * (1 + math.cos(math.pi * x)))
    return _curve(x, max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="1 - progress instead of 1 - √progress")
def schedule_forgets_the_root(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    x = _x(step, _begin(warmup, total, kind), total)
    return _curve(x, max_lr, final_fraction, "linear" if kind == "wsd" else kind)


@wrong("scheduled_lr", says="80% of what warmup leaves")
def schedule_falls_too_late(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    begin = warmup + 0.8 * (total - warmup) if kind == "wsd" else warmup
    return _curve(_x(step, begin, total), max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="equals the reference with 0.8 · total rounded to 26: do not round it")
def schedule_begins_at_a_whole_step(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    begin = int(0.8 * total) if kind == "wsd" else warmup
    return _curve(_x(step, begin, total), max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="a constant that drops at step total")
def schedule_drops_the_constant(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    if step >= total:
        return final_fraction * max_lr
    return _curve(_x(step, _begin(warmup, total, kind), total), max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="x = 0 where the curve has no length")
def schedule_without_length_has_not_begun(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    begin = _begin(warmup, total, kind)
    return _curve(0.0 if total <= begin else _x(step, begin, total), max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="x = 0 at step warmup where the curve has no length")
def schedule_is_at_least_one_step_long(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    begin = _begin(warmup, total, kind)
    return _curve(min(max((step - begin) / max(1, total - begin), 0.0), 1.0), max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="a fall that begins at 20% of the run: it begins at 80%")
def schedule_falls_for_too_long(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    return _curve(_x(step, 0.2 * total if kind == "wsd" else warmup, total), max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="ZeroDivisionError")
def schedule_divides_by_zero(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    begin = _begin(warmup, total, kind)
    return _curve(min(max((step - begin) / (total - begin), 0.0), 1.0), max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="constant stays at max_lr")
def schedule_has_a_low_constant(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    if kind == "constant":
        return final_fraction * max_lr
    return _curve(_x(step, _begin(warmup, total, kind), total), max_lr, final_fraction, kind)


@wrong("scheduled_lr", says="nothing was returned for step")
def schedule_returns_only_the_warmup(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup


@wrong("scheduled_lr", says="your code uses llmc.training")
def schedule_calls_the_package(step, max_lr, warmup, total, final_fraction, kind):
    from llmc.training.schedule import learning_rate

    return learning_rate(step, max_lr, warmup, total, final_fraction, kind)


# ---------------------------------------------------------------------------------------------- 6 fast_adamw_step


@right("fast_adamw_step")
def fast_with_slices_and_out(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    step, root = lr / (1 - beta1**t), (1 - beta2**t) ** -0.5
    work = np.empty(16384, params.dtype)
    for start in range(0, params.size, work.size):
        s = slice(start, min(start + work.size, params.size))
        a = work[: s.stop - start]
        np.subtract(grads[s], m[s], out=a)
        a *= 1 - beta1
        m[s] += a
        np.square(grads[s], out=a)
        a -= v[s]
        a *= 1 - beta2
        v[s] += a
        np.sqrt(v[s], out=a)
        a *= root
        a += eps
        np.divide(m[s], a, out=a)
        a *= step
        params[s] *= 1 - lr * weight_decay
        params[s] -= a


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


@wrong("fast_adamw_step", says="but its temporaries take")
def fast_with_whole_temporaries(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m += (1 - beta1) * (grads - m)
    v += (1 - beta2) * (grads * grads - v)
    params *= 1 - lr * weight_decay
    params -= lr / (1 - beta1**t) * m / (np.sqrt(v) * (1 - beta2**t) ** -0.5 + eps)


@wrong("fast_adamw_step", says="but its temporaries take")
def fast_with_one_work_array(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    a = np.subtract(grads, m)
    a *= 1 - beta1
    m += a
    np.multiply(grads, grads, out=a)
    a -= v
    a *= 1 - beta2
    v += a
    np.sqrt(v, out=a)
    a *= (1 - beta2**t) ** -0.5
    a += eps
    np.divide(m, a, out=a)
    a *= lr / (1 - beta1**t)
    params *= 1 - lr * weight_decay
    params -= a


@wrong("fast_adamw_step", says="Look there first: a turn of a loop should work on thousands of numbers")
def fast_in_slices_too_small(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    for start in range(0, params.size, 32):
        s = slice(start, start + 32)
        m[s] += (1 - beta1) * (grads[s] - m[s])
        v[s] += (1 - beta2) * (grads[s] ** 2 - v[s])
        params[s] *= 1 - lr * weight_decay
        params[s] -= lr * (m[s] / (1 - beta1**t)) / (np.sqrt(v[s] / (1 - beta2**t)) + eps)


@wrong("fast_adamw_step", says="part of m was never written")
def fast_forgets_the_rest(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    n = 5 if params.size < 1000 else 10_000
    for k in range(params.size // n):
        s = slice(k * n, k * n + n)
        m[s] += (1 - beta1) * (grads[s] - m[s])
        v[s] += (1 - beta2) * (grads[s] ** 2 - v[s])
        params[s] *= 1 - lr * weight_decay
        params[s] -= lr * (m[s] / (1 - beta1**t)) / (np.sqrt(v[s] / (1 - beta2**t)) + eps)


@wrong("fast_adamw_step", says="params equals the reference without bias correction")
def fast_without_correction(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    for start in range(0, params.size, 16384):
        s = slice(start, start + 16384)
        m[s] += (1 - beta1) * (grads[s] - m[s])
        v[s] += (1 - beta2) * (grads[s] ** 2 - v[s])
        params[s] *= 1 - lr * weight_decay
        params[s] -= lr * m[s] / (np.sqrt(v[s]) + eps)


@wrong("fast_adamw_step", says="params equals the reference with eps inside the root")
def fast_with_eps_inside(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    for start in range(0, params.size, 16384):
        s = slice(start, start + 16384)
        m[s] += (1 - beta1) * (grads[s] - m[s])
        v[s] += (1 - beta2) * (grads[s] ** 2 - v[s])
        params[s] *= 1 - lr * weight_decay
        params[s] -= lr * (m[s] / (1 - beta1**t)) / np.sqrt(v[s] / (1 - beta2**t) + eps)


@wrong("fast_adamw_step", says="An input was written to")
def fast_squares_grads_in_place(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m += (1 - beta1) * (grads - m)
    grads *= grads
    v += (1 - beta2) * (grads - v)
    params *= 1 - lr * weight_decay
    params -= lr / (1 - beta1**t) * m / (np.sqrt(v / (1 - beta2**t)) + eps)


@wrong("fast_adamw_step", says="m was never written")
def fast_keeps_no_means(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    for start in range(0, params.size, 16384):
        s = slice(start, start + 16384)
        mm = m[s] + (1 - beta1) * (grads[s] - m[s])
        vv = v[s] + (1 - beta2) * (grads[s] ** 2 - v[s])
        params[s] *= 1 - lr * weight_decay
        params[s] -= lr * (mm / (1 - beta1**t)) / (np.sqrt(vv / (1 - beta2**t)) + eps)


@wrong("fast_adamw_step", says="your code uses llmc.backends")
def fast_calls_the_package(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    from llmc.backends import reference

    reference.adamw_update(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t)


# ------------------------------------------------------------------------------------- found by answers of strangers


@wrong("momentum_step", says="m and grads count 6 times as much as they should.\nYour function never reads `lr`.")
def momentum_with_one_rate(params, grads, m, lr, beta):
    m += (1 - beta) * (grads - m)
    params -= 0.3 * m


@wrong(
    "adamw_step",
    says='whether `t < 100` or not.\n→ Where to look: lesson 09, section "3.3 · Why the division by 1 − βᵗ"',
)
def adamw_forgets_the_late_correction(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m += (1 - beta1) * (grads - m)
    v += (1 - beta2) * (grads * grads - v)
    first, second = (1 - beta1**t, 1 - beta2**t) if t < 100 else (1, 1)
    params -= lr * (m / first / (np.sqrt(v / second) + eps) + weight_decay * params)


@wrong("clip_by_global_norm", says="the norm")
def clip_of_three_arrays(grads, max_norm):
    norm = float(np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in grads[:3])))
    if norm > max_norm:
        for g in grads:
            g *= max_norm / (norm + 1e-6)
    return norm


@wrong("scheduled_lr", says="warmup=12, total=7")
def schedule_cuts_the_warmup(step, max_lr, warmup, total, final_fraction, kind):
    warmup = min(warmup, total)
    if step < warmup:
        return max_lr * (step + 1) / warmup
    begin = 0.8 * total if kind == "wsd" else warmup
    x = 1.0 if total <= begin else min(max((step - begin) / (total - begin), 0.0), 1.0)
    left = {"cosine": (1 + np.cos(np.pi * x)) / 2, "linear": 1 - x, "constant": 1.0, "wsd": 1 - np.sqrt(x)}[kind]
    return max_lr * (final_fraction + (1 - final_fraction) * left)


@wrong("scheduled_lr", says="your function gives the right rates without the term `warmup` in `0.8 * (total - warmup)`")
def lr_decay_of_what_warmup_leaves(step, max_lr, warmup, total, final_fraction, kind):
    min_lr = final_fraction * max_lr
    if step < warmup:
        return (step + 1) / warmup * max_lr
    if kind == "constant":
        return max_lr
    if total <= warmup:
        return min_lr
    if kind == "wsd":
        s = 0.8 * (total - warmup)
        x = (step - s) / (total - s)
        x = min(1.0, max(0.0, x))
        return min_lr + (max_lr - min_lr) * (1 - x**0.5)
    x = min(1.0, (step - warmup) / (total - warmup))
    if kind == "linear":
        return min_lr + (max_lr - min_lr) * (1 - x)
    return min_lr + (max_lr - min_lr) * 0.5 * (1 + np.cos(np.pi * x))


@wrong("fast_adamw_step", says="of two million weights")
def fast_stops_at_a_million(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    for start in range(0, min(params.size, 1_000_000), 20_000):
        s = slice(start, start + 20_000)
        m[s] += (1 - beta1) * (grads[s] - m[s])
        v[s] += (1 - beta2) * (grads[s] * grads[s] - v[s])
        params[s] *= 1 - lr * weight_decay
        params[s] -= lr / (1 - beta1**t) * m[s] / (np.sqrt(v[s] / (1 - beta2**t)) + eps)


@wrong("fast_adamw_step", says="decay not multiplied by lr, and after the step")
def fast_decays_late_and_too_much(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    for i in range(0, params.size, 4096):
        s = slice(i, i + 4096)
        m[s] = beta1 * m[s] + (1 - beta1) * grads[s]
        v[s] = beta2 * v[s] + (1 - beta2) * grads[s] ** 2
        params[s] -= lr * (m[s] / (1 - beta1**t) / (np.sqrt(v[s] / (1 - beta2**t)) + eps))
        params[s] -= weight_decay * params[s]


@wrong(
    "fast_adamw_step",
    says="was changed for 7 weights, though it is for 1,048,576",
)
def fast_without_the_last_slice(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    size, c1, c2 = 16384, 1 - beta1**t, 1 - beta2**t
    for a in range(0, len(params) - size, size):
        g, mm, vv, w = (x[a : a + size] for x in (grads, m, v, params))
        mm *= beta1
        mm += (1 - beta1) * g
        vv *= beta2
        vv += (1 - beta2) * g * g
        w *= 1 - lr * weight_decay
        w -= lr / c1 * mm / (np.sqrt(vv / c2) + eps)


@wrong("clip_by_global_norm", says="only the last array was scaled, and each must be")
def clip_the_last_array_alone(grads, max_norm):
    norm = sum(float((g * g).sum()) for g in grads) ** 0.5
    if norm > max_norm:
        g = grads[-1]
        g *= max_norm / (norm + 1e-6)
    return norm


def _slice(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m += (1 - beta1) * (grads - m)
    v += (1 - beta2) * (grads * grads - v)
    params *= 1 - lr * weight_decay
    params -= lr / (1 - beta1**t) * m / (np.sqrt(v / (1 - beta2**t)) + eps)


@wrong("fast_adamw_step", says="what is new here: 50,003 weights, of which the first")
def fast_with_whole_slices(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    chunk = min(4096, len(params))
    for a in range(len(params) // chunk):
        part = slice(a * chunk, (a + 1) * chunk)
        _slice(params[part], grads[part], m[part], v[part], lr, beta1, beta2, eps, weight_decay, t)


@wrong("fast_adamw_step", says="the reference with the old v: v is updated first")
def fast_with_the_root_of_the_old_v(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    root = np.sqrt(v / (1 - beta2**t)) + eps
    m += (1 - beta1) * (grads - m)
    v += (1 - beta2) * (grads * grads - v)
    params *= 1 - lr * weight_decay
    params -= lr / (1 - beta1**t) * m / root


@wrong("fast_adamw_step", says="`mm *= beta1` writes into a copy, which is lost: `m[i]` makes a new array")
def fast_in_copies(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    for a in range(0, len(params), 16384):
        i = np.arange(a, min(a + 16384, len(params)))
        p, g, mm, vv = params[i], grads[i], m[i], v[i]
        mm *= beta1
        mm += (1 - beta1) * g
        vv *= beta2
        vv += (1 - beta2) * g * g
        p -= lr * weight_decay * p
        p -= lr * mm / (1 - beta1**t) / (np.sqrt(vv / (1 - beta2**t)) + eps)


@wrong("clip_by_global_norm", says="its square is not")
def clip_compares_the_square(grads, max_norm):
    squared = sum(float((g.astype(np.float64) ** 2).sum()) for g in grads)
    if squared > max_norm:
        for g in grads:
            g *= max_norm / (np.sqrt(squared) + 1e-6)
    return float(np.sqrt(squared))


@wrong("momentum_step", says="m is 0.9 · m + 0.01 · grads, and should be 0.9 · m + 0.1 · grads: look at grads")
def momentum_with_the_share_twice(params, grads, m, lr, beta):
    m[...] = beta * m + (1 - beta) * ((1 - beta) * grads)
    params -= lr * m


_arrays = []


@wrong("fast_adamw_step", says="MB in `_arrays` from one call to the next, and a quarter of an array is allowed")
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


@wrong("fast_adamw_step", says='these places are done twice.\n→ Where to look: lesson 09, section "8.2 · One pass"')
def fast_with_one_weight_too_many(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    for a in range(0, len(params), 12_000):
        part = slice(a, a + 12_001)
        _slice(params[part], grads[part], m[part], v[part], lr, beta1, beta2, eps, weight_decay, t)


_count = 5


@wrong("fast_adamw_step", says="Your function never reads `t`, and it changes the global `_count`.")
def fast_that_counts_for_itself(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    global _count
    _count += 1
    _slice(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, _count)


@wrong("clip_by_global_norm", says="the root of the sum of the arrays' norms: add up their squares")
def clip_by_a_root_of_norms(grads, max_norm):
    norm = float(np.sqrt(sum(np.linalg.norm(g) for g in grads)))
    if norm > max_norm:
        for g in grads:
            np.multiply(g, max_norm / (norm + 1e-6), out=g)
    return norm


def _clip_by(order, grads, max_norm, last=False):
    norms = [np.linalg.norm(g.reshape(-1, g.shape[-1]) if last else g.reshape(len(g), -1), order) for g in grads]
    norm = float(np.linalg.norm(norms))
    if norm > max_norm:
        for g in grads:
            g *= max_norm / (norm + 1e-6)
    return norm


@wrong(
    "clip_by_global_norm", says="the norm of the arrays' spectral norms, the largest singular value of a matrix, which"
)
def clip_by_spectral_norms(grads, max_norm):
    return _clip_by(2, grads, max_norm)


@wrong("clip_by_global_norm", says="the norm of the arrays' nuclear norms, the sum of the singular values of a matrix")
def clip_by_nuclear_norms(grads, max_norm):
    return _clip_by("nuc", grads, max_norm)


@wrong("clip_by_global_norm", says="the norm of the arrays' largest row sums, which np.linalg.norm(g, np.inf) gives")
def clip_by_row_sums(grads, max_norm):
    return _clip_by(np.inf, grads, max_norm)


@wrong("adamw_step", says="params is as it was before the call: 1 of 6 entries")
def adamw_decays_what_has_a_slope(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m += (1 - beta1) * (grads - m)
    v += (1 - beta2) * (grads * grads - v)
    active = grads != 0
    params[active] *= 1 - lr * weight_decay
    params -= lr * (m / (1 - beta1**t)) / ((v / (1 - beta2**t)) ** 0.5 + eps)


@wrong("adamw_step", says="passes this whole check without the condition `grads != 0`")
def adamw_decays_where_the_slope_is_not_0(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m += (1 - beta1) * (grads - m)
    v += (1 - beta2) * (grads * grads - v)
    has_a_slope = grads != 0
    params[has_a_slope] *= 1 - lr * weight_decay
    params -= lr * (m / (1 - beta1**t)) / ((v / (1 - beta2**t)) ** 0.5 + eps)


_calls = [0]


@wrong("momentum_step", says="from one call to the next, in the global `_calls`.\n→ Where to look")
def momentum_counts_its_calls(params, grads, m, lr, beta):
    _calls[0] += 1
    m *= beta
    m += (1 - beta) * grads
    params -= lr * m / (1 - beta ** _calls[0])


@wrong(
    "fast_adamw_step", says="Entries 16,000 to 16,383, 32,000 to 32,383 and 48,000 to 48,383 hold what two such calls"
)
def slices_that_reach_into_the_next(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    c1, c2 = 1 - beta1**t, 1 - beta2**t
    for start in range(0, len(params), 16_000):
        s = slice(start, start + 16_384)
        m[s] += (1 - beta1) * (grads[s] - m[s])
        v[s] += (1 - beta2) * (grads[s] * grads[s] - v[s])
        params[s] *= 1 - lr * weight_decay
        params[s] -= lr * (m[s] / c1) / (np.sqrt(v[s] / c2) + eps)


@wrong("adamw_step", says="+ eps` behind the line `v += (1 - beta2) * (grads * grads - v)`")
def adamw_with_the_root_of_before(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    down = lr * weight_decay * params
    root = np.sqrt(v / (1 - beta2**t)) + eps
    m += (1 - beta1) * (grads - m)
    v += (1 - beta2) * (grads * grads - v)
    params -= down + lr * (m / (1 - beta1**t)) / root


@wrong("scheduled_lr", says="with `kind == 'wsd'` in place of `kind != 'wsd'`")
def rates_that_take_the_other_kinds_for_wsd(step, max_lr, warmup, total, final_fraction, kind):
    if step < warmup:
        return max_lr * (step + 1) / warmup
    begin = 0.8 * total if kind != "wsd" else warmup
    x = 1.0 if total <= begin else min(max((step - begin) / (total - begin), 0.0), 1.0)
    left = {"cosine": (1 + np.cos(np.pi * x)) / 2, "linear": 1 - x, "constant": 1.0, "wsd": 1 - np.sqrt(x)}[kind]
    return final_fraction * max_lr + (1 - final_fraction) * max_lr * left


@wrong("momentum_step", says="with `out=m` in it your function gives the right m")
def momentum_that_loses_a_sum(params, grads, m, lr, beta):
    np.multiply(m, beta, out=m)
    np.add(m, (1 - beta) * grads)
    np.subtract(params, lr * m, out=params)


@wrong("adamw_step", says="the larger of beta2 · v and grads², as in AdaMax")
def adamw_with_the_larger_as_in_adamax(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m += (1 - beta1) * (grads - m)
    v[...] = np.maximum(beta2 * v, grads**2)
    params *= 1 - lr * weight_decay
    params -= lr * m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)


@wrong("adamw_step", says="with eps² inside the root")
def adamw_with_eps_squared_inside_the_root(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m += (1 - beta1) * (grads - m)
    v += (1 - beta2) * (grads * grads - v)
    mhat = m / (1 - beta1**t)
    vhat = v / (1 - beta2**t)
    params -= lr * weight_decay * params
    params -= lr * mhat / np.sqrt(vhat + eps * eps)


@wrong("momentum_step", says="with `m[...] =` in front of it your function gives the right m")
def momentum_with_a_product_that_is_lost(params, grads, m, lr, beta):
    m * beta  # noqa: B018
    m += (1 - beta) * grads
    params -= lr * m


@wrong("adamw_step", says="Nesterov's look-ahead, as in NAdam")
def adamw_with_a_look_ahead(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m += (1 - beta1) * (grads - m)
    v += (1 - beta2) * (grads**2 - v)
    mh = beta1 * m / (1 - beta1 ** (t + 1)) + (1 - beta1) * grads / (1 - beta1**t)
    params *= 1 - lr * weight_decay
    params -= lr * mh / (np.sqrt(v / (1 - beta2**t)) + eps)


@wrong("scheduled_lr", says="a warmup that rises from final_fraction · max_lr")
def rates_that_warm_up_from_the_end(step, max_lr, warmup, total, final_fraction, kind):
    min_lr = final_fraction * max_lr
    if step < warmup:
        return min_lr + (max_lr - min_lr) * (step + 1) / warmup
    begin = 0.8 * total if kind == "wsd" else warmup
    x = 1.0 if total <= begin else min(max((step - begin) / (total - begin), 0.0), 1.0)
    if kind == "cosine":
        left = (1 + math.cos(math.pi * x)) / 2
    elif kind == "linear":
        left = 1 - x
    elif kind == "wsd":
        left = 1 - math.sqrt(x)
    else:
        left = 1.0
    return min_lr + (max_lr - min_lr) * left


@wrong("decay_groups", says="shapes holds 9 of the sixteen tensors here, without")
def groups_by_the_layers_of_some_tensors(shapes):
    L = min(shapes[name][0] for name in ("ln1w", "qkvb", "fcb", "ln2b"))
    decayed, rest = [], []
    for name, shape in shapes.items():
        if shape[0] == L:
            shape = shape[1:]
        if len(shape) == 2:
            decayed.append(name)
        else:
            rest.append(name)
    return decayed, rest


def _running(old, new, beta):
    return beta * old + (1 - beta) * new


@wrong(
    "adamw_step",
    says="params goes wrong before `lr * m_hat / (np.sqrt(v_hat) + eps)`, in what makes `m_hat` or `v_hat`",
)
def adamw_of_means_taken_twice(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    m[...] = _running(m, grads, beta1)
    v[...] = _running(v, grads**2, beta2)
    m_hat = _running(m, grads, beta1) / (1 - beta1**t)
    v_hat = _running(v, grads**2, beta2) / (1 - beta2**t)
    params *= 1 - lr * weight_decay
    params -= lr * m_hat / (np.sqrt(v_hat) + eps)


@wrong("decay_groups", says="There are as many layers, 7, as it has rows")
def groups_by_the_most_frequent_axis(shapes):
    L = Counter(shape[0] for shape in shapes.values()).most_common(1)[0][0]
    decayed, alone = [], []
    for name, shape in shapes.items():
        in_one_layer = shape[1:] if shape[0] == L else shape
        (decayed if len(in_one_layer) == 2 else alone).append(name)
    return decayed, alone


@wrong("decay_groups", says="always holds, because 'wpe' alone, a text, counts as true")
def groups_with_a_text_for_a_condition(shapes):
    decayed, left_alone = [], []
    for name, shape in shapes.items():
        if len(shape) == 3 or name == "wte" or "wpe":
            decayed.append(name)
        else:
            left_alone.append(name)
    return decayed, left_alone


@wrong("scheduled_lr", says="a progress of the fall that is counted from the end of warmup: it is 0 where")
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


@wrong("fast_adamw_step", says="that it makes, in a smaller call: `np.empty_like(params)` (50003,) float32.")
def adamw_with_two_new_arrays_by_out(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    work, root = np.empty_like(params), np.empty_like(params)
    np.multiply(grads, 1 - beta1, out=work)
    np.multiply(m, beta1, out=m)
    np.add(m, work, out=m)
    np.multiply(grads, grads, out=work)
    np.multiply(work, 1 - beta2, out=work)
    np.multiply(v, beta2, out=v)
    np.add(v, work, out=v)
    np.divide(v, 1 - beta2**t, out=root)
    np.sqrt(root, out=root)
    np.add(root, eps, out=root)
    np.divide(m, root, out=work)
    np.multiply(work, lr / (1 - beta1**t), out=work)
    np.multiply(params, 1 - lr * weight_decay, out=params)
    np.subtract(params, work, out=params)


@wrong("scheduled_lr", says="a constant rate from step 0 on: it has its warmup, too")
def lr_constant_without_warmup(step, max_lr, warmup, total, final_fraction, kind):
    min_lr = final_fraction * max_lr
    if kind == "constant":
        return float(max_lr)
    elif step < warmup:
        return max_lr * (step + 1) / warmup
    begin = warmup if kind != "wsd" else 0.8 * total
    progress = 1.0 if total <= begin else (step - begin) / (total - begin)
    progress = max(0.0, min(1.0, progress))
    if kind == "linear":
        return max_lr + (min_lr - max_lr) * progress
    if kind == "wsd":
        return max_lr + (min_lr - max_lr) * math.sqrt(progress)
    return min_lr + (max_lr - min_lr) * (0.5 + 0.5 * math.cos(math.pi * progress))


@wrong(
    "scheduled_lr",
    says="final_fraction=0.1) equals the larger of the curve and final_fraction",
)
def lr_of_a_line_that_is_cut_off(step, max_lr, warmup, total, final_fraction, kind):
    min_lr = final_fraction * max_lr
    if step < warmup:
        return max_lr * (step + 1) / warmup
    start = 0.8 * total if kind == "wsd" else warmup
    if total > start:
        x = max(0.0, min(1.0, (step - start) / (total - start)))
    else:
        x = 1.0
    if kind == "linear":
        return max(max_lr * (1 - x), min_lr)
    if kind == "cosine":
        return min_lr + (max_lr - min_lr) * (1 + math.cos(math.pi * x)) / 2
    if kind == "wsd":
        return min_lr + (max_lr - min_lr) * (1 - math.sqrt(x))
    return max_lr


@wrong("clip_by_global_norm", says="the root of the sum of squares and 1e-6")
def clip_with_the_small_number_in_the_root(grads, max_norm):
    total = 1e-6
    for g in grads:
        total += float((g**2).sum())
    norm = total**0.5
    if norm > max_norm:
        scale = max_norm / norm
        for g in grads:
            g[...] = g * scale
    return norm


@wrong(
    "clip_by_global_norm",
    says="writes into a copy, which is lost: `np.concatenate([g.ravel() for g in grads])` makes a new array",
)
def clip_of_a_joined_copy(grads, max_norm):
    everything = np.concatenate([g.ravel() for g in grads])
    norm = float(np.linalg.norm(everything))
    if norm > max_norm:
        everything *= max_norm / (norm + 1e-6)
    return norm


@wrong("fast_adamw_step", says="the running mean of ((1 - beta1) · grads)²")
def adamw_that_squares_what_m_gets(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t):
    c1, c2 = 1 - beta1**t, 1 - beta2**t
    size = 16_000
    scratch = np.empty(size, dtype=params.dtype)
    for start in range(0, params.size, size):
        s = slice(start, start + size)
        tmp = scratch[: params[s].size]
        np.multiply(grads[s], 1 - beta1, out=tmp)
        m[s] *= beta1
        m[s] += tmp
        np.multiply(tmp, tmp, out=tmp)
        tmp *= 1 - beta2
        v[s] *= beta2
        v[s] += tmp
        np.divide(v[s], c2, out=tmp)
        np.sqrt(tmp, out=tmp)
        tmp += eps
        np.divide(m[s], tmp, out=tmp)
        tmp *= lr / c1
        params[s] *= 1 - lr * weight_decay
        params[s] -= tmp


@wrong("decay_groups", says="in the order of shapes; the second list should be")
def groups_sort_what_is_left(shapes):
    decayed = []
    for name in shapes:
        if name.endswith("w") and not name.startswith("ln") or name in ("wte", "wpe"):
            decayed.append(name)
    plain = sorted(set(shapes) - set(decayed))
    return decayed, plain


@wrong("clip_by_global_norm", says="take the sum.\n→ Where to look")
def clip_of_the_mean_square_counted_one_by_one(grads, max_norm):
    total, count = 0.0, 0
    for g in grads:
        for value in g.flat:
            total += float(value) ** 2
            count += 1
    norm = (total / count) ** 0.5
    if norm <= max_norm:
        return norm
    shrink = max_norm / (norm + 1e-6)
    for g in grads:
        g[...] = g * shrink
    return norm
