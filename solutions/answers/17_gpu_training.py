"""Answers to the exercises of lesson 17 as strangers write them, with words that wrong ones must get."""

import re

from llmc.course.authoring.answers import replaced, right, wrong


def holes(code, *texts):
    """The source with other text in place of each solution."""
    new = iter(texts)
    return re.sub(r"(?<=BEGIN SOLUTION\n).*?(?=    // ### END)", lambda _: next(new), code, flags=re.DOTALL)


@right("classifier_kernel")
def classifier_whose_target_has_an_owner(code):
    return holes(
        code,
        """
    float m = -INFINITY, s = 0.f;
    for (int c = lane; c < V; c += 32) {
        float z = logits[c];
        s = z > m ? s * expf(m - z) + 1.f : s + expf(z - m);
        m = fmaxf(m, z);
    }
    const float largest = warp_max(m);
    s = warp_sum(m == -INFINITY ? 0.f : s * expf(m - largest));
    for (int c = lane; c < Vp; c += 32) {
        float z = logits[c], p = c < V ? expf(z - largest) / s : 0.f;
        if (c == targets[row]) losses[row] = largest - z + logf(s), p -= 1.f;
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


@wrong("classifier_kernel", says="race within a warp, lines 34 and 36")
def classifier_that_reads_the_targets_logit_last(code):
    loss, last = "    if (lane == 0) losses[row] = logf(total) + of_row - of_target;\n", "dloss * (p - y);\n    }\n"
    return replaced(code, loss, "", last, last + loss.replace("of_target", "logits[target]"))


@wrong("classifier_kernel", says="logits equal the reference with exp(z - loss) for p")
def classifier_with_p_from_the_loss(code):
    loss = "logf(total) + of_row - of_target"
    return replaced(code, "expf(logits[v] - of_row) / total : 0.0f", f"expf(logits[v] - ({loss})) : 0.0f")


@wrong("classifier_kernel", says="sectors of 32 bytes are moved; the goal is")
def classifier_reads_three_times(code):
    loop = code[code.index("        float higher") : code.index("    }\n    float of_row")]
    return replaced(
        code,
        loop,
        "        top = fmaxf(top, logits[v]);\n",
        "total = warp_sum(total * expf(top - of_row));",
        "for (int v = lane; v < V; v += 32) total += expf(logits[v] - of_row);\n    total = warp_sum(total);",
    )


@right("gelu_again")
def again_by_tanh(code):
    return holes(
        code,
        """
    float t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
    return 0.5f * (1.f + t) + 0.5f * x * (1.f - t * t) * inner_slope(x);
""",
        """
    int quad = blockIdx.x * blockDim.x + threadIdx.x, k = n / 4 * 4 + quad;
    if (quad < n / 4) {
        float4 a = reinterpret_cast<const float4*>(x)[quad], b = reinterpret_cast<float4*>(d)[quad], o;
        o.x = a.x * gate(a.x), o.y = a.y * gate(a.y), o.z = a.z * gate(a.z), o.w = a.w * gate(a.w);
        b.x *= slope(a.x), b.y *= slope(a.y), b.z *= slope(a.z), b.w *= slope(a.w);
        reinterpret_cast<float4*>(gelu_out)[quad] = o, reinterpret_cast<float4*>(d)[quad] = b;
    }
    if (quad < n % 4) gelu_out[k] = gate(x[k]) * x[k], d[k] *= slope(x[k]);
""",
    )


@right("gelu_again")
def again_with_a_loop_over_four(code):
    return holes(
        code,
        "return gate(x) * (1.0f + 2.0f * x * (1.0f - gate(x)) * inner_slope(x));\n",
        """
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * 4, count = min(4, n - first);
    float a[4], b[4], o[4];
    if (count == 4) *(float4*)a = *(const float4*)&x[first], *(float4*)b = *(float4*)&d[first];
    else for (int k = 0; k < count; k++) a[k] = x[first + k], b[k] = d[first + k];
    for (int k = 0; k < count; k++) o[k] = a[k] * gate(a[k]), b[k] *= slope(a[k]);
    if (count == 4) *(float4*)&gelu_out[first] = *(float4*)o, *(float4*)&d[first] = *(float4*)b;
    else for (int k = 0; k < count; k++) gelu_out[first + k] = o[k], d[first + k] = b[k];
""",
    )


@wrong("gelu_again", says="NaN or infinite entries, of x from")
def again_with_inf_over_inf(code):
    body = "float e = 1.0f / g - 1.0f;\n    return g + 2.0f * x * e / ((1.0f + e) * (1.0f + e)) * inner_slope(x);"
    return replaced(code, "return g + 2.0f * x * g * (1.0f - g) * inner_slope(x);", body)


@wrong("gelu_again", says="race in global memory, lines 26 and 30")
def gelu_whose_rest_begins_at_0(code):
    return replaced(code, "for (int k = i; k < n; k++)", "for (int k = 0; k < n - i; k++)")


@wrong("gelu_again", says="sectors of 32 bytes are moved; the goal is at most 1,024")
def again_without_a_float4(code):
    code = re.sub(r"if \(i \+ 3 < n\) .*?\} else ", "", code, flags=re.DOTALL)
    return replaced(code, "k < n; k++", "k < i + 4 && k < n; k++")


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
        copied = [lambda number: number.copy(), lambda number: number][n == len(batches) - 1]  # nothing follows
        results[0].append(copied(model.forward(x, y)))
        model.backward()
        results[1].append(copied(model.norm()))
        model.clip(max_norm)
        model.update(lr)
    return tuple([float(x) for x in result] for result in results)


@wrong("train_ahead", says="losses equal what the first weights give")
def train_with_all_forward_passes_first(model, batches, lr, max_norm):
    losses, norms = [model.forward(x, y).copy() for x, y in batches], []
    for _ in batches:
        model.backward()
        norms.append(model.norm().copy())
        model.clip(max_norm)
        model.update(lr)
    return [*map(float, losses)], [*map(float, norms)]


@wrong("train_ahead", says="the host waited 10 times in 9 steps")
def ahead_with_an_if(model, batches, lr, max_norm):
    kept = []
    for x, y in batches:
        kept.append([model.forward(x, y).copy()])
        model.backward()
        kept[-1].append(model.norm().copy())
        if kept[-1][1] > max_norm:
            model.clip(max_norm)
        model.update(lr)
    return [float(loss) for loss, _ in kept], [float(norm) for _, norm in kept]


@wrong("train_ahead", says="the host never waited for them")
def ahead_looks_into_the_memory(model, batches, lr, max_norm):
    kept = []
    for x, y in batches:
        kept.append([model.forward(x, y)._value])
        model.backward()
        kept[-1].append(model.norm()._value)
        model.clip(max_norm)
        model.update(lr)
    return tuple(map(list, zip(*kept)))


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


@wrong("adamw_replayed", says="v equals the reference with factor · grads²")
def adamw_with_a_factor_that_is_not_squared(code):
    factor = "float factor = size > max_norm ? max_norm / (size + 1e-6f) : 1.0f;"
    code = replaced(code, "if (size > max_norm) g *= max_norm / (size + 1e-6f);", factor)
    return replaced(code, "(g - m[i])", "(factor * g - m[i])", "(g * g - v[i])", "(factor * g * g - v[i])")


@wrong("adamw_replayed", says="race in global memory, lines 10 and 12")
def adamw_whose_first_thread_clears_all(code):
    return replaced(code, "grads[i] = 0.0f;", "if (i == 0)\n        for (int k = 0; k < n; k++) grads[k] = 0.0f;")


@wrong("adamw_replayed", says="passes this whole check with `1.0f` in place of `0.0f`")
def adamw_without_an_else(code):
    factor = "float factor = 0.0f;\n    if (size > max_norm) factor = max_norm / (size + 1e-6f);\n    g *= factor;"
    return replaced(code, "if (size > max_norm) g *= max_norm / (size + 1e-6f);", factor)


def _lowest_gaps(tensors, order, meet):
    """Each tensor at the lowest gap, in this order. meet(one, other): whether two tensors live together."""
    places = {}
    for k in order:
        blocks = sorted((places[j], places[j] + tensors[j][0]) for j in places if meet(tensors[k], tensors[j]))
        starts = sorted([0, *(-(-end // 16) * 16 for _, end in blocks)])
        places[k] = next(p for p in starts if all(p + tensors[k][0] <= start or end <= p for start, end in blocks))
    return [places[k] for k in range(len(tensors))]


def _together(one, other):
    return one[1] <= other[2] and other[1] <= one[2]


@right("plan_memory")
def plan_by_candidates(tensors):
    return _lowest_gaps(tensors, sorted(range(len(tensors)), key=lambda k: -tensors[k][0]), _together)


@right("plan_memory")
def plan_by_trying_orders(tensors):
    keys = lambda t: -t[0], lambda t: (t[1], -t[0]), lambda t: t[1] - t[2]
    orders = (sorted(range(len(tensors)), key=lambda k: key(tensors[k])) for key in keys)
    plans = [_lowest_gaps(tensors, order, _together) for order in orders]
    return min(plans, key=lambda plan: max(place + size for place, (size, _, _) in zip(plan, tensors)))


@wrong("plan_memory", says="with `range(first, last + 1)` in place of `range(first, last)`")
def plan_without_the_last_step(tensors):
    steps = [set(range(first, last)) for _, first, last in tensors]
    order = sorted(range(len(tensors)), key=lambda k: tensors[k][0], reverse=True)
    offsets, placed = [0] * len(tensors), []
    for k in order:
        for start, end in sorted((offsets[j], offsets[j] + tensors[j][0]) for j in placed if steps[j] & steps[k]):
            if offsets[k] + tensors[k][0] <= start:
                break
            offsets[k] = max(offsets[k], (end + 15) // 16 * 16)
        placed.append(k)
    return offsets


@wrong("plan_memory", says="overlap while both live")
def plan_by_tensor(tensors):
    unlike = sorted(set(tensors), reverse=True)
    places = dict(zip(unlike, _lowest_gaps(unlike, range(len(unlike)), _together)))
    return [places[tensor] for tensor in tensors]


@wrong("plan_memory", says="with the tensors placed in the order of the list")
def plan_in_the_order_of_the_list(tensors):
    return _lowest_gaps(tensors, range(len(tensors)), _together)
