"""Answers to the exercises of lesson 17 as learners write them: right ones that look different, and wrong ones.

Each wrong answer carries words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 17` runs those of this lesson.
Those of exercises 1, 2 and 4 are CUDA C: a function gets the solution's source and returns another.
"""

import re

import numpy as np

from llmc.course.old.authoring.answers import replaced, right, wrong


def holes(code, *texts):
    """The source with other text in place of each solution, one for each hole."""
    filled, inside, texts = [], False, iter(texts)
    for line in code.split("\n"):
        if "### BEGIN SOLUTION" in line:
            inside = True
            filled += next(texts).strip("\n").split("\n")
        elif "### END SOLUTION" in line:
            inside = False
        elif not inside:
            filled.append(line)
    return "\n".join(filled)


# ------------------------------------------------------------------------------------------------ 1 classifier_kernel

LOOP = """        float higher = fmaxf(top, logits[v]);
        total = total * expf(top - higher) + expf(logits[v] - higher);
        top = higher;
"""
LOSS = "    if (lane == 0) losses[row] = logf(total) + of_row - of_target;\n"
GRADIENT = "logits[v] = dloss * (p - y);"
TAKEN = "    float of_target = logits[target];  // before it is overwritten\n"


@right("classifier_kernel")
def classifier_whose_target_has_an_owner(code):
    return holes(
        code,
        """
    float m = -INFINITY, s = 0.f;
    for (int c = lane; c < V; c += 32) {
        float z = logits[c];
        if (z > m) {
            s *= expf(m - z);
            m = z;
        }
        s += expf(z - m);
    }
    const float largest = warp_max(m);
    s = warp_sum(m == -INFINITY ? 0.f : s * expf(m - largest));
    for (int c = lane; c < Vp; c += 32) {
        float z = logits[c], p = 0.f;
        if (c < V) p = expf(z - largest) / s;
        if (c == targets[row]) {
            losses[row] = largest - z + logf(s);
            p -= 1.f;
        }
        logits[c] = p * dloss;
    }
""",
    )


@right("classifier_kernel")
def classifier_with_two_ends(code):
    return holes(
        code,
        """
    float top = -3.402823466e+38f, total = 0.0f, mine = 0.0f;
    for (int v = lane; v < V; v += 32) {
        float x = logits[v], old = top;
        if (v == targets[row]) mine = x;
        top = fmaxf(top, x);
        total = total * expf(old - top) + expf(x - top);
    }
    float lse = warp_max(top);
    lse = logf(warp_sum(total * expf(top - lse))) + lse;
    float of_target = warp_sum(mine);
    if (lane == 31) losses[row] = lse - of_target;
    for (int v = lane; v < V; v += 32) logits[v] = dloss * expf(logits[v] - lse);
    for (int v = V + lane; v < Vp; v += 32) logits[v] = 0.0f;
    __syncwarp();
    if (lane == 0) logits[targets[row]] -= dloss;
""",
    )


@wrong("classifier_kernel", says="with line 36 in front of line 31, and `__syncwarp();` between them")
def classifier_that_reads_the_targets_logit_last(code):
    loss, last = "    if (lane == 0) losses[row] = logf(total) + of_row - of_target;\n", "dloss * (p - y);\n    }\n"
    return replaced(code, loss, "", last, last + loss.replace("of_target", "logits[target]"))


@wrong("classifier_kernel", says="losses equals lse - the gradient at the target")
def classifier_reads_the_target_too_late(code):
    code = replaced(code, TAKEN, "", LOSS, "")
    return replaced(
        code,
        GRADIENT + "\n    }\n",
        GRADIENT + "\n    }\n    __syncwarp();\n"
        "    if (lane == 0) losses[row] = logf(total) + of_row - logits[target];\n",
    )


@wrong("classifier_kernel", says="Put `__syncwarp();` right in front of line 31: your kernel passes")
def classifier_without_a_barrier(code):
    return replaced(code, "    __syncwarp();  // all lanes have read the target's logit\n", "")


@wrong("classifier_kernel", says="dloss is missing")
def classifier_without_dloss(code):
    return replaced(code, "dloss * (p - y)", "p - y")


@wrong("classifier_kernel", says="p · dloss - y: the 1 at the target must be scaled by dloss too")
def classifier_scales_p_alone(code):
    return replaced(code, "dloss * (p - y)", "dloss * p - y")


@wrong("classifier_kernel", says="p · dloss: y is not subtracted")
def classifier_forgets_the_target(code):
    return replaced(code, "(p - y)", "p")


@wrong("classifier_kernel", says="the reference times dloss: the losses must not be scaled")
def classifier_scales_the_losses(code):
    return replaced(code, "logf(total) + of_row - of_target", "dloss * (logf(total) + of_row - of_target)")


@wrong("classifier_kernel", says="the reference with the padding in the softmax")
def classifier_counts_the_padding(code):
    return replaced(
        code,
        "for (int v = lane; v < V; v += 32)",
        "for (int v = lane; v < Vp; v += 32)",
        "v < V ? expf(logits[v] - of_row) / total : 0.0f",
        "expf(logits[v] - of_row) / total",
    )


@wrong("classifier_kernel", says="the padding equals what it held before: the padding's gradient is 0")
def classifier_leaves_the_padding(code):
    return replaced(code, "for (int v = lane; v < Vp; v += 32)", "for (int v = lane; v < V; v += 32)")


@wrong("classifier_kernel", says="the maximum is subtracted in one place only")
def classifier_forgets_the_maximum(code):
    return replaced(code, "logf(total) + of_row - of_target", "logf(total) - of_target")


@wrong("classifier_kernel", says="these numbers lie that far apart: is a logarithm taken of it, -inf?")
def classifier_takes_the_log_of_p(code):
    return replaced(code, "logf(total) + of_row - of_target", "-logf(expf(of_target - of_row) / total)")


@wrong("classifier_kernel", says="passes this whole check with `top = -3.4e38f` in place of `top = 0.0f`")
def classifier_that_starts_at_zero(code):
    return replaced(code, "float top = -3.4e38f", "float top = 0.0f")


@wrong("classifier_kernel", says="`-3.4e38f` in place of `-INFINITY` in line 22")
def classifier_that_begins_at_infinity(code):
    merged = """float of_row = top;
    for (int gap = 16; gap > 0; gap /= 2) {
        float other = __shfl_xor_sync(0xffffffff, of_row, gap), more = __shfl_xor_sync(0xffffffff, total, gap);
        float higher = fmaxf(of_row, other);
        total = total * expf(of_row - higher) + more * expf(other - higher);
        of_row = higher;
    }
"""
    both = "float of_row = warp_max(top);\n    total = warp_sum(total * expf(top - of_row));\n"
    return replaced(code, "float top = -3.4e38f", "float top = -INFINITY", both, merged)


@wrong("classifier_kernel", says="writes go to numbers that another thread has written already")
def classifier_whose_lanes_all_write(code):
    return replaced(code, "if (lane == 0) losses[row]", "losses[row]")


@wrong("classifier_kernel", says='Where to look: lesson 13, section "3.6 · v5: online"')
def classifier_reads_three_times(code):
    return replaced(
        code,
        LOOP,
        "        top = fmaxf(top, logits[v]);\n",
        "total = warp_sum(total * expf(top - of_row));",
        "for (int v = lane; v < V; v += 32) total += expf(logits[v] - of_row);\n    total = warp_sum(total);",
    )


@wrong("classifier_kernel", says="without the line `total = warp_sum(total * expf(top - of_row))`")
def classifier_never_merges(code):
    return replaced(code, "    total = warp_sum(total * expf(top - of_row));\n", "")


@wrong("classifier_kernel", says="with `if (lane == 0) losses[row] = logf(total) + of_row …` in place of")
def classifier_where_every_lane_writes(code):
    return replaced(
        code, "if (lane == 0) losses[row] = logf(total) + of_row", "losses[row + lane] = logf(total) + of_row"
    )


@wrong("classifier_kernel", says="logits")
def classifier_with_the_wrong_row(code):
    return replaced(code, "int target = targets[row];", "int target = targets[lane % N];")


@wrong("classifier_kernel", says="All threads of a warp ask for the same number.")
def classifier_where_every_lane_does_all(code):
    return replaced(
        code,
        "for (int v = lane; v < V; v += 32)",
        "for (int v = 0; v < V; v += 1)",
        "total = warp_sum(total * expf(top - of_row));",
        "total = total * expf(top - of_row);",
    )


# ------------------------------------------------------------------------------------------------------ 2 gelu_again

FOURS = "make_float4(v.x * gate(v.x), v.y * gate(v.y), v.z * gate(v.z), v.w * gate(v.w))"
SLOPES = "make_float4(e.x * slope(v.x), e.y * slope(v.y), e.z * slope(v.z), e.w * slope(v.w))"
TAIL = "        for (int k = i; k < n; k++) {\n"


@right("gelu_again")
def again_by_tanh(code):
    return holes(
        code,
        """
    float t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
    return 0.5f * (1.f + t) + 0.5f * x * (1.f - t * t) * inner_slope(x);
""",
        """
    int quad = blockIdx.x * blockDim.x + threadIdx.x;
    if (quad < n / 4) {
        float4 a = reinterpret_cast<const float4*>(x)[quad];
        float4 b = reinterpret_cast<float4*>(d)[quad];
        float4 o;
        o.x = a.x * gate(a.x); b.x *= slope(a.x);
        o.y = a.y * gate(a.y); b.y *= slope(a.y);
        o.z = a.z * gate(a.z); b.z *= slope(a.z);
        o.w = a.w * gate(a.w); b.w *= slope(a.w);
        reinterpret_cast<float4*>(gelu_out)[quad] = o;
        reinterpret_cast<float4*>(d)[quad] = b;
    }
    if (quad < n % 4) {
        int k = n / 4 * 4 + quad;
        gelu_out[k] = gate(x[k]) * x[k];
        d[k] *= slope(x[k]);
    }
""",
    )


@right("gelu_again")
def again_with_a_loop_over_four(code):
    return holes(
        code,
        """
    return gate(x) * (1.0f + 2.0f * x * (1.0f - gate(x)) * inner_slope(x));
""",
        """
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (first >= n) return;
    float a[4], b[4], o[4];
    bool whole = n - first >= 4;
    int count = whole ? 4 : n - first;
    if (whole) {
        *(float4*)a = *(const float4*)&x[first];
        *(float4*)b = *(float4*)&d[first];
    } else {
        for (int k = 0; k < count; k++) a[k] = x[first + k], b[k] = d[first + k];
    }
    for (int k = 0; k < count; k++) o[k] = a[k] * gate(a[k]), b[k] *= slope(a[k]);
    if (whole) {
        *(float4*)&gelu_out[first] = *(float4*)o;
        *(float4*)&d[first] = *(float4*)b;
    } else {
        for (int k = 0; k < count; k++) gelu_out[first + k] = o[k], d[first + k] = b[k];
    }
""",
    )


@wrong("gelu_again", says="the first term of the product rule, the gate, is missing")
def again_without_the_gate(code):
    return replaced(code, "return g + 2.0f * x", "return 2.0f * x")


@wrong("gelu_again", says="the second term of the product rule is missing")
def again_with_the_gate_alone(code):
    return replaced(code, "g + 2.0f * x * g * (1.0f - g) * inner_slope(x)", "g")


@wrong("gelu_again", says="du/dx missing")
def again_without_the_inner_slope(code):
    return replaced(code, " * inner_slope(x);", ";")


@wrong("gelu_again", says="gate' is not multiplied by x")
def again_without_x(code):
    return replaced(code, "2.0f * x * g", "2.0f * g")


@wrong("gelu_again", says="the reference with 2 missing in front of g (1 - g)")
def again_without_the_two(code):
    return replaced(code, "2.0f * x * g", "x * g")


@wrong("gelu_again", says="GELU'(x) alone: dout is missing")
def again_without_d(code):
    code = replaced(
        code, SLOPES, SLOPES.replace("e.x * ", "").replace("e.y * ", "").replace("e.z * ", "").replace("e.w * ", "")
    )
    return replaced(code, "d[k] = d[k] * slope(x[k]);", "d[k] = slope(x[k]);")


@wrong(
    "gelu_again", says="d equals the reference behind the last whole four, and in the fours x · GELU'(dout): dout and"
)
def again_with_fours_exchanged(code):
    return replaced(code, SLOPES, re.sub(r"e\.(\w) \* slope\(v\.\w\)", r"slope(e.\1) * v.\1", SLOPES))


@wrong(
    "gelu_again", says="d equals the reference in the whole fours, and behind them x · GELU'(dout): dout and x are sw"
)
def again_with_a_tail_exchanged(code):
    return replaced(code, "d[k] = d[k] * slope(x[k]);", "d[k] = slope(d[k]) * x[k];")


@wrong("gelu_again", says="d equals the reference in the whole fours, and behind them GELU'(x) alone: dout is missing")
def again_without_d_in_the_tail(code):
    return replaced(code, "d[k] = d[k] * slope(x[k]);", "d[k] = slope(x[k]);")


@wrong("gelu_again", says="d[0] is made from x[1]; it should be made from x[0].\nAlong axis 0")
def again_with_fours_that_turn(code):
    return replaced(code, SLOPES, re.sub(r"v\.(\w)", lambda slot: "v." + "yzwx"["xyzw".index(slot[1])], SLOPES))


@wrong("gelu_again", says="d was never written")
def again_leaves_d(code):
    code = replaced(code, "        *(float4*)(d + i) = " + SLOPES + ";\n", "")
    return replaced(code, "            d[k] = d[k] * slope(x[k]);\n", "")


@wrong("gelu_again", says="never written")
def again_without_the_tail(code):
    return replaced(code, TAIL, "        for (int k = i; k < n - 3; k++) {\n")


@wrong("gelu_again", says="misaligned")
def again_with_a_thread_for_each_number(code):
    return replaced(
        code, "int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);", "int i = blockIdx.x * blockDim.x + threadIdx.x;"
    )


@wrong("gelu_again", says="out of bounds")
def again_reads_beyond_the_end(code):
    return replaced(code, "if (i + 3 < n)", "if (i < n)")


@wrong("gelu_again", says="read a whole float4 first")
def again_one_by_one(code):
    return replaced(
        code,
        "    if (i + 3 < n) {",
        "    if (i + 3 < n && n < 0) {",
        TAIL,
        "        for (int k = i; k < n && k < i + 4; k++) {\n",
    )


@wrong("gelu_again", says="gelu_out")
def again_with_the_slope_as_output(code):
    return replaced(code, "gelu_out[k] = x[k] * gate(x[k]);", "gelu_out[k] = slope(x[k]);")


@wrong("gelu_again", says="the gate")
def again_gives_the_gate(code):
    code = replaced(code, FOURS, "make_float4(gate(v.x), gate(v.y), gate(v.z), gate(v.w))")
    return replaced(code, "gelu_out[k] = x[k] * gate(x[k]);", "gelu_out[k] = gate(x[k]);")


# ----------------------------------------------------------------------------------------------------- 3 train_ahead


@right("train_ahead")
def ahead_with_maps(model, batches, lr, max_norm):
    kept = []
    for x, y in batches:
        loss = model.forward(x, y).copy()
        model.backward()
        norm = model.norm().copy()
        model.clip(max_norm)
        model.update(lr)
        kept.append((loss, norm))
    losses, norms = zip(*kept)
    return list(map(float, losses)), list(map(float, norms))


@right("train_ahead")
def ahead_of_the_last_two(model, batches, lr, max_norm):
    results = ([], [])
    for n, (x, y) in enumerate(batches):
        loss = model.forward(x, y)
        model.backward()
        norm = model.norm()
        if n < len(batches) - 1:
            loss, norm = loss.copy(), norm.copy()
        model.clip(max_norm)
        model.update(lr)
        results[0].append(loss)
        results[1].append(norm)
    return [np.float64(float(x)) for x in results[0]], [float(x) for x in results[1]]


@wrong("train_ahead", says="the host waited")
def ahead_as_before(model, batches, lr, max_norm):
    losses, norms = [], []
    for x, y in batches:
        loss = model.forward(x, y)
        losses.append(float(loss))
        model.backward()
        norm = model.norm()
        norms.append(float(norm))
        if norm > max_norm:
            model.scale(max_norm / float(norm))
        model.update(lr)
    return losses, norms


@wrong("train_ahead", says="equals the last step's, everywhere")
def ahead_without_copies(model, batches, lr, max_norm):
    losses, norms = [], []
    for x, y in batches:
        losses.append(model.forward(x, y))
        model.backward()
        norms.append(model.norm())
        model.clip(max_norm)
        model.update(lr)
    return [float(loss) for loss in losses], [float(norm) for norm in norms]


@wrong("train_ahead", says="a comparison of a Number, as in an if")
def ahead_with_an_if(model, batches, lr, max_norm):
    losses, norms = [], []
    for x, y in batches:
        losses.append(model.forward(x, y).copy())
        model.backward()
        norm = model.norm().copy()
        norms.append(norm)
        if norm > max_norm:
            model.clip(max_norm)
        model.update(lr)
    return [float(loss) for loss in losses], [float(norm) for norm in norms]


@wrong("train_ahead", says="in every step")
def ahead_reads_at_the_end_of_each_step(model, batches, lr, max_norm):
    losses, norms = [], []
    for x, y in batches:
        loss = model.forward(x, y)
        model.backward()
        norm = model.norm()
        model.clip(max_norm)
        model.update(lr)
        losses.append(float(loss))
        norms.append(float(norm))
    return losses, norms


@wrong("train_ahead", says="the norms AFTER clipping, not before it")
def ahead_asks_for_the_norm_too_late(model, batches, lr, max_norm):
    losses, norms = [], []
    for x, y in batches:
        losses.append(model.forward(x, y).copy())
        model.backward()
        model.clip(max_norm)
        norms.append(model.norm().copy())
        model.update(lr)
    return [float(loss) for loss in losses], [float(norm) for norm in norms]


@wrong("train_ahead", says="run that was never clipped")
def ahead_never_clips(model, batches, lr, max_norm):
    losses, norms = [], []
    for x, y in batches:
        losses.append(model.forward(x, y).copy())
        model.backward()
        norms.append(model.norm().copy())
        model.update(lr)
    return [float(loss) for loss in losses], [float(norm) for norm in norms]


@wrong("train_ahead", says="losses holds a Number, not a float")
def ahead_returns_numbers(model, batches, lr, max_norm):
    losses, norms = [], []
    for x, y in batches:
        losses.append(model.forward(x, y).copy())
        model.backward()
        norms.append(model.norm().copy())
        model.clip(max_norm)
        model.update(lr)
    return losses, norms


@wrong("train_ahead", says="the host never waited for them: on a GPU they would not be there yet")
def ahead_looks_into_the_memory(model, batches, lr, max_norm):
    losses, norms = [], []
    for x, y in batches:
        losses.append(float(model.forward(x, y)._value))
        model.backward()
        norms.append(float(model.norm()._value))
        model.clip(max_norm)
        model.update(lr)
    return losses, norms


@wrong("train_ahead", says="with updates by the gradients of the step before.\n→")
def ahead_updates_before_the_gradient(model, batches, lr, max_norm):
    losses, norms = [], []
    for x, y in batches:
        losses.append(model.forward(x, y).copy())
        model.update(lr)
        model.backward()
        norms.append(model.norm().copy())
        model.clip(max_norm)
    return [float(loss) for loss in losses], [float(norm) for norm in norms]


@wrong(
    "train_ahead",
    says="equals those before the last step.\n",
)
def ahead_updates_first(model, batches, lr, max_norm):
    losses, norms = [], []
    for x, y in batches:
        model.update(lr)
        losses.append(model.forward(x, y).copy())
        model.backward()
        norms.append(model.norm().copy())
        model.clip(max_norm)
    return [float(loss) for loss in losses], [float(norm) for norm in norms]


@wrong("train_ahead", says="return two lists, losses and norms")
def ahead_returns_the_losses(model, batches, lr, max_norm):
    return ahead_with_maps(model, batches, lr, max_norm)[0][:1]


# -------------------------------------------------------------------------------------------------- 4 adamw_replayed

FINITE = "    if (!isfinite(size)) return;\n"
CLIP = "    if (size > max_norm) g *= max_norm / (size + 1e-6f);\n"
ZERO = "    grads[i] = 0.0f;\n"


@right("adamw_replayed")
def adamw_with_other_names(code):
    return holes(
        code,
        """
    const float N = norm[0];
    const float factor = N > max_norm ? max_norm / (N + 1e-6f) : 1.f;
    if (N - N == 0.f) {
        float gr = factor * grads[i];
        float mi = beta1 * m[i] + (1.f - beta1) * gr, vi = beta2 * v[i] + (1.f - beta2) * gr * gr;
        m[i] = mi;
        v[i] = vi;
        mi /= 1.f - powf(beta1, (float)t[0]);
        vi /= 1.f - powf(beta2, (float)t[0]);
        params[i] -= lr[0] * (mi / (sqrtf(vi) + eps) + weight_decay * params[i]);
    }
    grads[i] = 0;
""",
    )


@right("adamw_replayed")
def adamw_with_a_product(code):
    return holes(
        code,
        """
    float b1 = 1.0f, b2 = 1.0f;
    for (int k = 0; k < *t; k++) b1 *= beta1, b2 *= beta2;
    double g = grads[i];
    grads[i] -= grads[i] == grads[i] ? grads[i] : 0.0f;
    if (isnan(*norm) || isinf(*norm)) return;
    g *= fminf(1.0f, max_norm / (*norm + 1e-6f));
    m[i] = m[i] + (1 - beta1) * (g - m[i]);
    v[i] = v[i] + (1 - beta2) * (g * g - v[i]);
    float p = params[i] * (1 - *lr * weight_decay);
    params[i] = p - *lr * (m[i] / (1 - b1)) / (sqrtf(v[i] / (1 - b2)) + eps);
""",
    )


@wrong("adamw_replayed", says="the reference without clipping")
def adamw_never_clips(code):
    return replaced(code, CLIP, "")


@wrong("adamw_replayed", says="though norm is below max_norm: it is 1 there.\n")
def adamw_always_clips(code):
    return replaced(code, "if (size > max_norm) g", "g")


@wrong("adamw_replayed", says="norm / max_norm as the factor, not max_norm / norm")
def adamw_clips_upside_down(code):
    return replaced(code, "max_norm / (size + 1e-6f)", "size / max_norm")


@wrong("adamw_replayed", says="that of an ordinary step: with such a norm, only the gradients change")
def adamw_lets_nan_in(code):
    return replaced(code, FINITE, "")


@wrong(
    "adamw_replayed", says="that of an ordinary step with gradients of 0: with such a norm, only the gradients change"
)
def adamw_lets_infinity_in(code):
    return replaced(code, "if (!isfinite(size)) return;", "if (isnan(size)) return;")


@wrong("adamw_replayed", says="every step ends with gradients of 0")
def adamw_keeps_the_gradients(code):
    return replaced(code, ZERO, "")


@wrong("adamw_replayed", says="with a norm of nan equals what it held before: every step ends with gradients of 0")
def adamw_returns_before_the_zero(code):
    return replaced(code, ZERO, "", CLIP, CLIP + ZERO)


@wrong("adamw_replayed", says="the reference without bias correction")
def adamw_without_correction(code):
    return replaced(code, "m[i] / (1.0f - powf(beta1, *t))", "m[i]", "v[i] / (1.0f - powf(beta2, *t))", "v[i]")


@wrong("adamw_replayed", says="the correction changes from step to step.\n")
def adamw_of_the_first_step(code):
    return replaced(code, "powf(beta1, *t)", "beta1", "powf(beta2, *t)", "beta2")


@wrong("adamw_replayed", says="the reference with t + 1 instead of t")
def adamw_counts_from_zero(code):
    return replaced(code, "powf(beta1, *t)", "powf(beta1, *t + 1)", "powf(beta2, *t)", "powf(beta2, *t + 1)")


@wrong("adamw_replayed", says="params at step t = 1 equals the reference without weight decay.\n")
def adamw_without_decay(code):
    return replaced(code, "(1.0f - rate * weight_decay) * params[i]", "params[i]")


@wrong("adamw_replayed", says="decay not multiplied by lr")
def adamw_decays_without_lr(code):
    return replaced(code, "1.0f - rate * weight_decay", "1.0f - weight_decay")


@wrong("adamw_replayed", says="eps inside the root")
def adamw_with_eps_in_the_root(code):
    return replaced(
        code,
        "sqrtf(v[i] / (1.0f - powf(beta2, *t)))",
        "sqrtf(v[i] / (1.0f - powf(beta2, *t)) + eps)",
        "(root + eps)",
        "root",
    )


@wrong("adamw_replayed", says="lr · weight_decay subtracted, which is to be multiplied by params")
def adamw_with_a_decay_that_is_the_same_for_all(code):
    line = "(1.0f - rate * weight_decay) * params[i] - rate * step / (root + eps)"
    return replaced(code, line, "params[i] - rate * (step / (root + eps) + weight_decay)")


@wrong("adamw_replayed", says="what v held is lost")
def adamw_overwrites_v(code):
    return replaced(code, "v[i] += (1.0f - beta2) * (g * g - v[i]);", "v[i] = (1.0f - beta2) * g * g;")


@wrong("adamw_replayed", says="params")
def adamw_climbs(code):
    return replaced(code, "params[i] - rate * step", "params[i] + rate * step")


# ----------------------------------------------------------------------------------------------------- 5 plan_memory


@right("plan_memory")
def plan_in_order_of_time(tensors):
    order = sorted(range(len(tensors)), key=lambda k: (tensors[k][1], -tensors[k][0]))
    return _first_fit(tensors, order)


@right("plan_memory")
def plan_that_lives_longest_first(tensors):
    order = sorted(range(len(tensors)), key=lambda k: tensors[k][1] - tensors[k][2])
    return np.array(_first_fit(tensors, order))


@right("plan_memory")
def plan_by_trying_orders(tensors):
    n = range(len(tensors))
    keys = [
        lambda k: -tensors[k][0],
        lambda k: (tensors[k][1], -tensors[k][0]),
        lambda k: tensors[k][1] - tensors[k][2],
    ]
    plans = [_first_fit(tensors, sorted(n, key=key)) for key in keys]
    return min(plans, key=lambda plan: max(place + size for place, (size, _, _) in zip(plan, tensors)))


def _first_fit(tensors, order, last_step_is_free=False, unit=16, up=True):
    places = [None] * len(tensors)
    for k in order:
        size, first, last = tensors[k]
        taken = []
        for j, place in enumerate(places):
            if place is None:
                continue
            other, begins, ends = tensors[j]
            apart = last <= begins or ends <= first if last_step_is_free else last < begins or ends < first
            if not apart:
                end = place + other
                taken.append((place, (end + unit - 1) // unit * unit if up else end // unit * unit))
        at = 0
        for begin, end in sorted(taken):
            if at + size <= begin:
                break
            at = max(at, end)
        places[k] = at
    return places


@wrong("plan_memory", says="both belong to that step")
def plan_that_reuses_too_early(tensors):
    return _first_fit(tensors, range(len(tensors)), last_step_is_free=True)


@wrong("plan_memory", says="one after the other: nothing is used twice")
def plan_without_reuse(tensors):
    places, at = [], 0
    for size, _, _ in tensors:
        places.append(at)
        at += (size + 15) // 16 * 16
    return places


@wrong("plan_memory", says="which is no multiple of 16.")
def plan_without_alignment(tensors):
    return _first_fit(tensors, range(len(tensors)), unit=1)


@wrong("plan_memory", says="your places are the sums of the sizes rounded DOWN to multiples of 16")
def plan_that_rounds_down(tensors):
    return _first_fit(tensors, range(len(tensors)), up=False)


@wrong("plan_memory", says="not in the order of the list: they fit the tensors from the largest to the smallest")
def plan_in_sorted_order(tensors):
    order = sorted(range(len(tensors)), key=lambda k: -tensors[k][0])
    places = _first_fit(tensors, order)
    return [places[k] for k in order]


@wrong("plan_memory", says="not in the order of the list: they fit the tensors by the step that writes them.")
def plan_in_order_of_writing(tensors):
    tensors = sorted(tensors, key=lambda tensor: tensor[1])
    return np.array(_first_fit(tensors, range(len(tensors))))


@wrong("plan_memory", says="they fit the tensors from the longest life to the shortest")
def plan_as_a_dict_was_filled(tensors):
    order = sorted(range(len(tensors)), key=lambda k: tensors[k][1] - tensors[k][2])
    places = _first_fit(tensors, order)
    of_tensor = {k: places[k] for k in order}
    return list(of_tensor.values())


@wrong("plan_memory", says="they fit the tensors from the last in the list to the first")
def plan_from_behind(tensors):
    return _first_fit(tensors[::-1], range(len(tensors)))


@wrong("plan_memory", says="lives only while")
def plan_that_looks_at_ends_alone(tensors):
    places = []
    for k, (size, first, last) in enumerate(tensors):
        at = 0
        for j in sorted(range(k), key=lambda j: places[j]):
            other, begins, ends = tensors[j]
            if first <= begins <= last or first <= ends <= last:
                if at + size <= places[j]:
                    break
                at = max(at, (places[j] + other + 15) // 16 * 16)
        places.append(at)
    return places


@wrong("plan_memory", says="With the same tensors listed from the largest to the smallest your function takes 1.")
def plan_in_the_order_of_the_list(tensors):
    return _first_fit(tensors, range(len(tensors)))


@wrong("plan_memory", says="where the third ends and the first still lies")
def plan_whose_place_steps_back(tensors):
    places = [None] * len(tensors)
    for k in sorted(range(len(tensors)), key=lambda k: -tensors[k][0]):
        size, first, last = tensors[k]
        at = 0
        for j in sorted((j for j, place in enumerate(places) if place is not None), key=lambda j: places[j]):
            other, begins, ends = tensors[j]
            if first <= ends and begins <= last:
                if at + size <= places[j]:
                    break
                at = (places[j] + other + 15) // 16 * 16
        places[k] = at
    return places


@wrong("plan_memory", says="where the third lies; below the second, the bytes 112 to 255 are free")
def plan_that_walks_in_the_order_of_placing(tensors):
    placed = {}  # tensor: its bytes
    for k in sorted(range(len(tensors)), key=lambda k: -tensors[k][0]):
        size, first, last = tensors[k]
        at = 0
        for j, (begin, end) in placed.items():
            if tensors[j][1] <= last and first <= tensors[j][2]:
                if at + size <= begin:
                    break
                at = max(at, end)
        placed[k] = at, at + (size + 15) // 16 * 16
    return [placed[k][0] for k in range(len(tensors))]


@wrong("plan_memory", says="in its default argument `taken`; Python makes a default once")
def plan_that_remembers_other_lists(tensors, taken=[]):  # noqa: B006
    places = [0] * len(tensors)
    for k in sorted(range(len(tensors)), key=lambda k: -tensors[k][0]):
        size, first, last = tensors[k]
        for begin, end, begins, ends in sorted(taken):
            if first <= ends and begins <= last:
                if places[k] + size <= begin:
                    break
                places[k] = max(places[k], end)
        taken.append((places[k], places[k] + (size + 15) // 16 * 16, first, last))
    return places


@wrong("plan_memory", says="your function puts the smallest at byte 0 and the largest last")
def plan_smallest_first(tensors):
    return _first_fit(tensors, sorted(range(len(tensors)), key=lambda k: tensors[k][0]))


@wrong("plan_memory", says="a place is a whole number of bytes")
def plan_of_floats(tensors):
    return [place / 1 for place in plan_in_order_of_time(tensors)]


@wrong("plan_memory", says="return the first byte of each of the")
def plan_of_the_whole(tensors):
    places = plan_in_order_of_time(tensors)
    return max(place + size for place, (size, _, _) in zip(places, tensors))


@wrong("plan_memory", says="all overlap that live together, whatever their steps")
def plan_with_one_place(tensors):
    return [0 for _ in tensors]


# ------------------------------------------------------------- what only the accesses, or another launch, can tell


@wrong("gelu_again", says="the slope is that of GELU at x, not at its output")
def again_with_the_slope_at_the_output(code):
    slopes = re.sub(r"slope\((v\.\w)\)", r"slope(\1 * gate(\1))", SLOPES)
    return replaced(code, SLOPES, slopes, "slope(x[k])", "slope(gelu_out[k])")


@wrong("gelu_again", says="with the gate g taken for tanh(u)")
def again_with_the_gate_as_a_tanh(code):
    return replaced(
        code,
        "return g + 2.0f * x * g * (1.0f - g) * inner_slope(x);",
        "return (1.0f + g) / 2.0f + x / 2.0f * (1.0f - g * g) * inner_slope(x);",
    )


@wrong("gelu_again", says="d[1002]: they still hold what they held before.")
def again_with_half_a_tail(code):
    return replaced(code, "            d[k] = d[k] * slope(x[k]);\n", "")


@wrong("gelu_again", says="0 · inf and 0 / 0 are NaN.\ngelu_out is right here.")
def again_with_inf_over_inf(code):
    return replaced(
        code,
        "return g + 2.0f * x * g * (1.0f - g) * inner_slope(x);",
        "float e = 1.0f / g - 1.0f;\n    return g + 2.0f * x * e / ((1.0f + e) * (1.0f + e)) * inner_slope(x);",
    )


@wrong("gelu_again", says="one by one, 4 bytes at a time. It can read them as one float4.")
def again_without_a_float4(code):
    code = re.sub(r"if \(i \+ 3 < n\) .*?\} else ", "", code, flags=re.DOTALL)
    return replaced(code, "k < n; k++", "k < i + 4 && k < n; k++")


@wrong("classifier_kernel", says="passes this whole check with `-3.4e38f` in place of `-100.0f`")
def classifier_that_starts_at_minus_100(code):
    return replaced(code, "float top = -3.4e38f", "float top = -100.0f")


@wrong("train_ahead", says="the losses of the first weights")
def train_with_all_forward_passes_first(model, batches, lr, max_norm):
    losses, norms = [model.forward(x, y).copy() for x, y in batches], []
    for _ in batches:
        model.backward()
        norms.append(model.norm().copy())
        model.clip(max_norm)
        model.update(lr)
    return [float(x) for x in losses], [float(x) for x in norms]


# ------------------------------------------------------------------- the division of work, the gate, what is clipped

BY_HAND = """
    const int answer = targets[row];
    float best = -3.4e38f, sum = 0.0f, z_answer = 0.0f;
    for (int v = lane; v < V; v += 32) {
        const float z = logits[v];
        if (v == answer) z_answer = z;
        if (z > best) {
            sum = sum * expf(best - z) + 1.0f;
            best = z;
        } else {
            sum += expf(z - best);
        }
    }
    const float all = warp_max(best);
    sum = warp_sum(sum * expf(best - all)), z_answer = warp_sum(z_answer);
    const float loss = logf(sum) + all - z_answer;
    if (lane == 0) losses[row] = loss;
    for (int v = lane; v < Vp; v += 32) {
        float g = 0.0f;
        if (v < V) g = expf(logits[v] - all) / sum;
        if (v == answer) g -= 1.0f;
        logits[v] = dloss * g;
    }
"""


@right("classifier_kernel")
def classifier_that_adds_up_the_targets_logit(code):
    return holes(code, BY_HAND)


@wrong("classifier_kernel", says="from which the target's logit is subtracted only where target % 32 is 0")
def classifier_whose_lane_0_lacks_the_target(code):
    return holes(code, replaced(BY_HAND, ", z_answer = warp_sum(z_answer)", ""))


@wrong("classifier_kernel", says="exp(z - loss) for p, not exp(z - top - log(total))")
def classifier_with_p_from_the_loss(code):
    return holes(code, replaced(BY_HAND, "expf(logits[v] - all) / sum", "expf(logits[v] - loss)"))


@wrong("classifier_kernel", says="the lanes' totals added up as they are, each relative to its lane's own maximum")
def classifier_with_totals_of_other_maxima(code):
    return holes(code, replaced(BY_HAND, "warp_sum(sum * expf(best - all))", "warp_sum(sum)"))


@wrong("classifier_kernel", says="multiplied by exp(the row's maximum - the lane's), not exp(the lane's - the row's)")
def classifier_that_scales_upside_down(code):
    return holes(code, replaced(BY_HAND, "expf(best - all)", "expf(all - best)"))


@wrong("classifier_kernel", says="the reference added to the logits, which it takes the place of")
def classifier_that_adds_to_the_logits(code):
    return holes(code, replaced(BY_HAND, "logits[v] = dloss * g", "logits[v] += dloss * g"))


@wrong("classifier_kernel", says="with y = 1 at every logit of the target's lane")
def classifier_with_a_target_for_each_turn(code):
    return replaced(code, "float y = v == target ?", "float y = lane == target % 32 ?")


@wrong("gelu_again", says="with (1 - g²) / 2 in place of 2 g (1 - g)")
def again_with_the_slope_of_tanh(code):
    return replaced(
        code,
        "return g + 2.0f * x * g * (1.0f - g) * inner_slope(x);",
        "float dg = 0.5f * (1.0f - g * g) * inner_slope(x);\n    return g + x * dg;",
    )


@wrong("gelu_again", says="d equals the reference with 2 g in place of 2 g (1 - g): 1 - g is missing")
def again_without_the_closed_gate(code):
    return replaced(code, "2.0f * x * g * (1.0f - g)", "2.0f * x * g")


@wrong("gelu_again", says="gelu_out equals dout · gate: GELU is of x alone")
def again_with_d_in_the_output(code):
    return replaced(
        re.sub(r"v\.(\w) \* gate", r"e.\1 * gate", code), "gelu_out[k] = x[k] * gate", "gelu_out[k] = d[k] * gate"
    )


@wrong("adamw_replayed", says="factor · grads² in place of (factor · grads)²: v is of the clipped gradient")
def adamw_with_a_factor_that_is_not_squared(code):
    return replaced(
        code,
        "if (size > max_norm) g *= max_norm / (size + 1e-6f);",
        "float factor = size > max_norm ? max_norm / (size + 1e-6f) : 1.0f;",
        "(g - m[i])",
        "(factor * g - m[i])",
        "(g * g - v[i])",
        "(factor * g * g - v[i])",
    )


@wrong("adamw_replayed", says="each gradient cut off at ± max_norm, where one factor is for all")
def adamw_that_clips_by_value(code):
    return replaced(
        code,
        "if (size > max_norm) g *= max_norm / (size + 1e-6f);",
        "g = fminf(fmaxf(g, -max_norm), max_norm);",
    )


@wrong("adamw_replayed", says="the step of gradients that are 0")
def adamw_that_clears_first(code):
    first = "    float g = grads[i], size = *norm, rate = *lr;\n"
    return replaced(code, first + "    grads[i] = 0.0f;\n", "    grads[i] = 0.0f;\n" + first)


@wrong("adamw_replayed", says="the decayed params: with such a norm, only the gradients change")
def adamw_that_always_decays(code):
    return replaced(
        code,
        "    if (!isfinite(size)) return;",
        "    params[i] *= 1.0f - rate * weight_decay;\n    if (!isfinite(size)) return;",
        "(1.0f - rate * weight_decay) * params[i] - rate",
        "params[i] - rate",
    )


@wrong("classifier_kernel", says="the reference with 0, the target of row 0, as every row's target")
def classifier_with_one_target_for_all(code):
    return replaced(code, "targets[row]", "targets[0]")


@wrong("classifier_kernel", says="log(total) + 2 · top - logit, with total the sum of exp(z - top)")
def classifier_that_adds_the_maximum_twice(code):
    return holes(code, replaced(BY_HAND, "logf(sum) + all - z_answer", "logf(sum) + all - (z_answer - all)"))


@wrong("gelu_again", says="d equals dout · (gate + 2 x g (1 - g)) · u': u' belongs to the second term alone")
def again_with_the_inner_slope_on_both_terms(code):
    return replaced(
        code, "g + 2.0f * x * g * (1.0f - g) * inner_slope(x)", "(g + 2.0f * x * g * (1.0f - g)) * inner_slope(x)"
    )


@wrong("gelu_again", says="d equals the reference with 2 g (1 - g) missing")
def again_with_the_inner_slope_alone(code):
    return replaced(code, "2.0f * x * g * (1.0f - g) * inner_slope(x)", "x * inner_slope(x)")


@wrong("train_ahead", says="after the host had waited, it launched `clip` and `update`")
def ahead_reads_before_the_last_update(model, batches, lr, max_norm):
    losses, norms = [], []
    for step, (x, y) in enumerate(batches):
        losses.append(model.forward(x, y).copy())
        model.backward()
        norms.append(model.norm().copy())
        if step == len(batches) - 1:
            losses, norms = [float(a) for a in losses], [float(a) for a in norms]
        model.clip(max_norm)
        model.update(lr)
    return losses, norms


@right("train_ahead")
def ahead_that_reads_behind_the_last_update(model, batches, lr, max_norm):
    kept = []
    for step, (x, y) in enumerate(batches, 1):
        kept.append([model.forward(x, y).copy()])
        model.backward()
        kept[-1].append(model.norm().copy())
        model.clip(max_norm)
        model.update(lr)
        if step == len(batches):
            kept = [[float(number) for number in pair] for pair in kept]
    return [loss for loss, _ in kept], [norm for _, norm in kept]


@wrong("plan_memory", says="your places are the sums of the sizes as they are, rounded up to 16 only afterwards")
def plan_rounded_up_in_the_end(tensors):
    offsets = {}
    for k in sorted(range(len(tensors)), key=lambda k: -tensors[k][0]):
        size, first, last = tensors[k]
        taken = []
        for j, offset in offsets.items():
            if tensors[j][1] <= last and first <= tensors[j][2]:
                taken.append((offset, offset + tensors[j][0]))
        place = 0
        for begin, end in sorted(taken):
            if place + size <= begin:
                break
            place = max(place, end)
        offsets[k] = place
    return [(offsets[k] + 15) // 16 * 16 for k in range(len(tensors))]


@wrong("plan_memory", says="rounded up to 16: a tensor of 17 bytes takes 32")
def plan_whose_ends_are_one_too_low(tensors):
    offsets = {}
    for k in sorted(range(len(tensors)), key=lambda k: -tensors[k][0]):
        size, first, last = tensors[k]
        place = 0
        for j in sorted(offsets, key=offsets.get):
            if tensors[j][1] <= last and first <= tensors[j][2]:
                if place + size <= offsets[j]:
                    break
                place = max(place, (offsets[j] + tensors[j][0] - 1 + 15) // 16 * 16)
        offsets[k] = place
    return [offsets[k] for k in range(len(tensors))]


@wrong("plan_memory", says="have lived, side by side.")
def plan_of_whole_slots(tensors):
    slots, end, offsets = [], 0, []  # [first byte, size, lives]
    for size, first, last in tensors:
        room = -(-size // 16) * 16
        for slot in slots:
            if slot[1] >= room and all(last < a or b < first for a, b in slot[2]):
                slot[2].append((first, last))
                offsets.append(slot[0])
                break
        else:
            slots.append([end, room, [(first, last)]])
            offsets.append(end)
            end += room
    return offsets


# ------------------------------------------------------------------------------------ what other numbers or lists show


@wrong("classifier_kernel", says="each lane's new maxima left out of the sum")
def classifier_that_leaves_out_new_maxima(code):
    return replaced(
        code,
        "total = total * expf(top - higher) + expf(logits[v] - higher);",
        "if (logits[v] > top) total *= expf(top - higher);\n        else total += expf(logits[v] - higher);",
    )


@wrong(
    "classifier_kernel",
    says="they rise by 100 from one to the next or they fall by 100 from one to the next, but not if",
)
def classifier_with_the_logarithm_of_p(code):
    return replaced(code, "logf(total) + of_row - of_target", "-logf(expf(of_target - of_row) / total)")


@wrong(
    "classifier_kernel", says="but not if they fall by 100 from one to the next. Is the largest one that of all so far"
)
def classifier_with_the_last_logit_as_maximum(code):
    return replaced(code, "higher = fmaxf(top, logits[v])", "higher = logits[v]")


def _lowest_gaps(tensors, meet, first_byte=False):
    """The largest first, at the lowest gap. meet(one, other): whether two tensors live together."""
    places = {}
    for k in sorted(range(len(tensors)), key=lambda k: -tensors[k][0]):
        blocks = sorted((places[j], places[j] + tensors[j][0]) for j in places if meet(tensors[k], tensors[j]))
        starts = sorted([0, *(-(-end // 16) * 16 for _, end in blocks)])
        size = 1 if first_byte else tensors[k][0]
        places[k] = next(p for p in starts if all(p + size <= start or end <= p for start, end in blocks))
    return [places[k] for k in range(len(tensors))]


def _together(one, other):
    return one[1] <= other[2] and other[1] <= one[2]


@right("plan_memory")
def plan_by_candidates(tensors):
    return _lowest_gaps(tensors, _together)


@wrong("plan_memory", says="just those overlap of which the smaller begins first. Two lives meet if")
def plan_that_looks_at_the_beginning_alone(tensors):
    return _lowest_gaps(tensors, lambda new, old: old[1] <= new[1] <= old[2])


@wrong("plan_memory", says="of 96 bytes, at byte 112: only 48 bytes are free there")
def plan_that_looks_at_the_first_byte_of_a_gap(tensors):
    return _lowest_gaps(tensors, _together, first_byte=True)


@wrong("plan_memory", says="Tensors of the same size and the same steps get the same place, as the two of")
def plan_by_tensor(tensors):
    places = {}
    for tensor in sorted(tensors, key=lambda t: -t[0]):
        blocks = sorted((place, place + other[0]) for other, place in places.items() if _together(tensor, other))
        place = 0
        for start, end in blocks:
            if place + tensor[0] <= start:
                break
            place = max(place, -(-end // 16) * 16)
        places[tensor] = place
    return [places[tensor] for tensor in tensors]


@wrong(
    "plan_memory", says="puts the last tensor at byte 304, above the second, though the 160 bytes below the second are"
)
def plan_above_all_that_live(tensors):
    ends, places = {}, {}
    for k, (size, first, last) in sorted(enumerate(tensors), key=lambda pair: -pair[1][0]):
        places[k] = max((ends[j] for j in ends if tensors[j][1] <= last and first <= tensors[j][2]), default=0)
        ends[k] = places[k] + (size + 15) // 16 * 16
    return [places[k] for k in range(len(tensors))]


@wrong(
    "adamw_replayed", says="and `__syncthreads()` orders those of one block alone: give each thread elements of its own"
)
def adamw_whose_first_thread_clears_all(code):
    return replaced(code, ZERO, "    if (i == 0) {\n        for (int k = 0; k < n; k++) grads[k] = 0.0f;\n    }\n")


@wrong("train_ahead", says="norms are 0: each step launches `norm` before `backward`")
def ahead_with_the_norm_before_backward(model, batches, lr, max_norm):
    def step(x, y):
        numbers = model.forward(x, y).copy(), model.norm().copy()
        model.backward()
        model.clip(max_norm)
        model.update(lr)
        return numbers

    steps = [step(x, y) for x, y in batches]
    return [float(loss) for loss, _ in steps], [float(norm) for _, norm in steps]


@wrong("classifier_kernel", says="with the padding in the softmax.\n→")
def classifier_of_all_columns_whose_lane_0_reads_the_target(code):
    return replaced(
        code,
        "float of_target = logits[target];",
        "float of_target;\n    if (lane == 0) of_target = logits[target];",
        "for (int v = lane; v < V; v += 32)",
        "for (int v = lane; v < Vp; v += 32)",
    )


@wrong("classifier_kernel", says="Only the padding's own gradient, which should be 0, is not finite.")
def classifier_whose_padding_is_multiplied_by_0(code):
    p = "float p = v < V ? expf(logits[v] - of_row) / total : 0.0f"
    return replaced(code, p, "float p = expf(logits[v] - of_row) / total * (v < V)")


@wrong("plan_memory", says="as live together in a single step, in which one of them is read for the last time")
def plan_without_the_last_step(tensors):
    steps = [set(range(first, last)) for _, first, last in tensors]
    offsets = [0] * len(tensors)
    placed = []
    for k in sorted(range(len(tensors)), key=lambda k: tensors[k][0], reverse=True):
        size = tensors[k][0]
        blocked = sorted((offsets[j], offsets[j] + tensors[j][0]) for j in placed if steps[j] & steps[k])
        place = 0
        for start, end in blocked:
            if place + size <= start:
                break
            place = max(place, (end + 15) // 16 * 16)
        offsets[k] = place
        placed.append(k)
    return offsets


@wrong("gelu_again", says="either: does a thread come to another one's element in place of its own?")
def gelu_whose_rest_begins_at_0(code):
    return replaced(code, "for (int k = i; k < n; k++)", "for (int k = 0; k < n - i; k++)")


@wrong("train_ahead", says="Between the first wait and the last it launched `copy`.")
def ahead_copies_again_when_it_reads(model, batches, lr, max_norm):
    losses, norms = [], []
    for x, y in batches:
        losses.append(model.forward(x, y).copy())
        model.backward()
        norms.append(model.norm().copy())
        model.clip(max_norm)
        model.update(lr)
    return [float(a.copy()) for a in losses], [float(a.copy()) for a in norms]


@wrong("adamw_replayed", says="the step of gradients that are 0")
def adamw_without_an_else(code):
    return replaced(
        code,
        "if (size > max_norm) g *= max_norm / (size + 1e-6f);",
        "float factor = 0.0f;\n    if (size > max_norm) factor = max_norm / (size + 1e-6f);\n    g *= factor;",
    )


@wrong("adamw_replayed", says="though norm is below max_norm: it is 1 there.")
def adamw_clips_small_norms(code):
    return replaced(code, "if (size > max_norm) g", "if (size < max_norm) g")


@wrong("gelu_again", says="one of the two does not belong into this loop, or every step must lead past")
def whole_fours_up_to_a_quarter_of_n(code):
    return replaced(code, "if (i + 3 < n) {", "if (i < n / 4) {")
