"""Answers to the exercises of lesson 20 as strangers write them, with words that wrong ones must get."""

import re
from math import ceil

import numpy as np

from llmc.course.authoring.answers import replaced, right, wrong
from llmc.course.lessons.mixed_training.recompute import play


def holes(code, *texts):
    """The source with other text in place of each solution."""
    new = iter(texts)
    return re.sub(r"(?<=BEGIN SOLUTION\n).*?(?=    // ### END)", lambda _: next(new), code, flags=re.DOTALL)


@right("gelu_bf16")
def gelu_with_pointers_into_a_word(code):
    return holes(
        code,
        """
    unsigned result = 0;
    for (int k = 0; k < 32; k += 16) {
        float f = widen(bf16{(unsigned short)(word >> k)}), up = widen(bf16{(unsigned short)(factors >> k)});
        result |= (unsigned)nearest(f * up * gate(f)).bits << k;
    }
    return result;
""",
        """
    int octet = blockIdx.x * blockDim.x + threadIdx.x, whole = n / 8;
    if (octet < whole) {
        uint4 four = reinterpret_cast<const uint4*>(x)[octet], up = ((const uint4*)y)[octet], r;
        for (int k = 0; k < 4; k++) (&r.x)[k] = gelu_word((&four.x)[k], (&up.x)[k]);
        reinterpret_cast<uint4*>(out)[octet] = r;
    } else if (octet == whole) {
        for (int k = 8 * whole; k < n; k++) { float f = widen(x[k]); out[k] = nearest(gate(f) * f * widen(y[k])); }
    }
""",
    )


@right("gelu_bf16")
def gelu_of_cleared_halves(code):
    high, packed = "__uint_as_float(word >> 16 << 16)", " + 65536u * nearest(high_y * gate(high) * high).bits"
    code = replaced(code, "widen({(unsigned short)(word >> 16)})", high, "*(const uint4*)(x + i)", "((uint4*)x)[i / 8]")
    return replaced(code, " | (unsigned)nearest(high * gate(high) * high_y).bits << 16", packed)


@wrong("gelu_bf16", says="with GELU(x) rounded to bf16 before it is multiplied by y")
def gelu_that_becomes_a_bf16_first(code):
    code = replaced(code, "nearest(low * gate(low) * low_y)", "nearest(low_y * widen(nearest(low * gate(low))))")
    code = replaced(code, "nearest(high * gate(high) * high_y)", "nearest(high_y * widen(nearest(high * gate(high))))")
    return replaced(code, "nearest(v * gate(v) * widen(y[k]))", "nearest(widen(y[k]) * widen(nearest(v * gate(v))))")


@wrong("gelu_bf16", says="reads 16 bytes of x, elements 1000 to 1007, but x has 1003 elements")
def gelu_that_reads_beyond_the_end(code):
    return replaced(code, "if (i + 8 <= n) {", "if (i < n) {")


@wrong("gelu_bf16", says="right, but 96 requests of a warp go to global memory; the goal is at most 24")
def gelu_two_at_a_time(code):
    word = "gelu_word(*(const unsigned*)(x + k), *(const unsigned*)(y + k))"
    pairs = f"for (int k = i; k < i + 8; k += 2) *(unsigned*)(out + k) = {word};\n    }}"
    return re.sub(r"uint4 v =.*?\n    }", lambda _: pairs, code, count=1, flags=re.DOTALL)


@right("layernorm_bf16")
def norm_in_registers(code):
    return holes(
        code,
        """
    uint4 q;
    unsigned* half = (unsigned*)&q;
    for (int i = 0; i < 8; i += 2) half[i / 2] = nearest(v[i]).bits | ((unsigned)nearest(v[i + 1]).bits << 16);
    *reinterpret_cast<uint4*>(p) = q;
""",
        """
    float kept[4][8], sum = 0.f, var = 0.f;
    int turns = 0;
    for (int c = 8 * lane; c < C; c += 8 * 32, turns++) {
        load(kept[turns], x + c);
        for (float f : kept[turns]) sum += f;
    }
    const float mu = warp_sum(sum) / C;
    for (int t = 0; t < turns; t++)
        for (float f : kept[t]) var += (f - mu) * (f - mu);
    const float inv = 1.f / sqrtf(warp_sum(var) / C + 1e-5f);
    for (int t = 0; t < turns; t++) {
        int c = 8 * (lane + 32 * t);
        float ws[8], bs[8];
        load(ws, w + c), load(bs, b + c);
        for (int e = 0; e < 8; e++) kept[t][e] = fmaf(inv * (kept[t][e] - mu), ws[e], bs[e]);
        store(out + c, kept[t]);
    }
    if (lane == 31) mean[row] = mu, rstd[row] = inv;
""",
    )


@right("layernorm_bf16")
def norm_by_the_number_of_the_eight(code):
    code = code.replace("lane * 8 + 256 * k < C", "lane + 32 * k < C / 8")
    code = replaced(code, "squares += lane", "float d = v[k][e] - m; squares += lane", "e++) float", "e++) { float")
    code = replaced(code, "? (v[k][e] - m) * (v[k][e] - m) : 0.0f;", "? d * d : 0; }")
    code = replaced(code, "(v[k][e] - m) * r * weight[e]", "fmaf(v[k][e], r, -m * r) * weight[e]")
    return replaced(code, "if (lane == 0) mean[row] = m,", "if (lane == 17) mean[row] = m,")


@wrong("layernorm_bf16", says="with mean(x²) - mean² for the variance")
def norm_by_the_square_of_the_mean(code):
    code = replaced(code, "(v[k][e] - m) * (v[k][e] - m)", "v[k][e] * v[k][e]")
    return replaced(code, "warp_sum(squares) / C + 1e-5f", "warp_sum(squares) / C - m * m + 1e-5f")


@wrong("layernorm_bf16", says="lane that takes no part")
def norm_that_shuffles_in_the_loop(code):
    code = replaced(code, "k < 4; k++) {\n        if (lane * 8 + 256 * k < C)", "lane * 8 + 256 * k < C; k++) {")
    code = replaced(code, "e++) total += v[k][e];", "e++) part += v[k][e];\n        total += warp_sum(part), part = 0;")
    return replaced(code, "warp_sum(total) / C", "total / C", "total = 0.0f,", "total = 0.0f, part = 0.0f,")


@wrong("layernorm_bf16", says="right, but 232 requests of a warp go to global memory; the goal is at most 136")
def norm_that_reads_the_row_three_times(code):
    there, again = "lane * 8 + 256 * k < C", "(load(v[k], x + lane * 8 + 256 * k), 1)"
    code = replaced(code, f"squares += {there}", f"squares += {there} && (e || {again})")
    return replaced(code, "load(weight, w + c)", "load(v[k], x + c), load(weight, w + c)")


@right("adamw_bf16")
def adamw_that_rounds_by_hand(code):
    return holes(
        code,
        """
    float w = master != 0 ? master[i] : widen(params[i]);
    const float g = widen(grads[i]) * factor;
    grads[i].bits = 0;
    float m1 = m[i] = beta1 * m[i] + (1 - beta1) * g, v1 = v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    w -= lr * weight_decay * w + lr * (m1 / (1 - powf(beta1, t))) / (sqrtf(v1 / (1 - powf(beta2, t))) + eps);
    if (master != 0) master[i] = w;
    unsigned bits = __float_as_uint(w), low = bits & 0xffff, up = bits >> 16;
    if (low + (random_bits(key, i >> 1) >> (i & 1 ? 16 : 0) & 0xffff) >= 0x10000) up++;
    params[i].bits = up;
""",
    )


@right("adamw_bf16")
def adamw_whose_params_come_before_master(code):
    code = replaced(code, "    if (master) master[i] = p;\n", "", "grads[i] = {0};", "if (master) master[i] = p;")
    code = replaced(code, "widen(grads[i]);", "widen(grads[i]);\n    grads[i].bits = 0;")
    return replaced(code, ">> i % 2 * 16 & 0xffff", "<< (i & 1 ? 0 : 16) >> 16")


@wrong("adamw_bf16", says="reads 4 bytes at an address outside every array of this launch")
def adamw_that_always_has_a_master(code):
    return replaced(
        code, "master ? master[i] : widen(params[i])", "master[i]", "if (master) master[i] =", "master[i] ="
    )


@wrong("adamw_bf16", says="params hold neighbours of weights, but not always the one that is due")
def adamw_with_the_halves_exchanged(code):
    return replaced(code, ">> i % 2 * 16", ">> (1 - i % 2) * 16")


@wrong("adamw_bf16", says="passes this whole check with `t` in place of `t - 1`")
def adamw_with_a_step_too_early(code):
    return replaced(code, "powf(beta1, t)", "powf(beta1, t - 1)")


@right("find_bug")
def bug_by_recursion(train, suspects, healthy):
    if len(suspects) == 1:
        return suspects[0]
    odd, even = list(suspects)[1::2], list(suspects)[::2]
    apart = np.max(np.abs(np.convolve(train(odd) - healthy, np.ones(50) / 50, "valid")))
    again = globals()["find_bug"]  # this function, as the notebook calls it
    return again(train, odd if apart < 0.01 else even, healthy)


@right("find_bug")
def bug_by_binary_digits(train, suspects, healthy):
    number, bits = 0, ceil(np.log2(len(suspects)))
    for k in range(bits):
        group = [name for j, name in enumerate(suspects) if j >> k & 1]
        if np.allclose(train(group)[-200:].mean(), healthy[-200:].mean(), rtol=0.003):
            number |= 1 << k
    return suspects[number]


@wrong("find_bug", says="what is left if a run that became NaN counts as healthy")
def bug_that_forgets_nan(train, suspects, healthy):
    while len(suspects) > 1:
        half = len(suspects) // 2
        apart = abs(train(suspects[:half])[-100:].mean() - healthy[-100:].mean())
        suspects = suspects[half:] if apart > 0.02 else suspects[:half]
    return suspects[0]


@wrong("find_bug", says="With half of those left exact, a run rules out half")
def bug_one_by_one(train, suspects, healthy):
    alike = (abs(train([name])[-100:].mean() - healthy[-100:].mean()) < 0.02 for name in suspects[:-1])
    return next((name for name, like in zip(suspects, alike) if like), suspects[-1])


@wrong("find_bug", says="passes this whole check with `(middle, high)` in place of `(middle + 1, high)`")
def bug_with_one_suspect_left_out(train, suspects, healthy):
    low, high = 0, len(suspects)
    while high - low > 1:
        middle = (low + high) // 2
        apart = abs(train(suspects[low:middle])[-100:].mean() - healthy[-100:].mean())
        low, high = (low, middle) if apart < 0.02 else (middle + 1, high)
    return suspects[high - 1]


class Pass:
    """A step that makes what it needs, and drops what `keep(k, forward)` does not name after layer k."""

    def __init__(self, net, keep):
        self.by, self.there, self.done = {layer.name: layer for layer in net}, {}, []
        for forward in (True, False):
            for k in range(len(net)) if forward else range(len(net) - 1, -1, -1):
                for name in [net[k].name] if forward else net[k].needs:
                    self.make(name)
                self.done += [] if forward else [("backward", net[k].name)]
                for name in [name for name in self.there if name not in keep(k, forward)]:
                    self.done.append(("drop", name))
                    del self.there[name]

    def make(self, name):
        if name not in self.there:
            for read in self.by[name].reads:
                self.make(read)
            self.done.append(("make", name))
            self.there[name] = True


def kept_until_it_fits(net, limit, play, order, early=0):
    kept = [layer.name for layer in sorted(net, key=order)]
    reads = [{name for layer in net[k + 1 :] for name in layer.reads} for k in range(len(net))]
    needs = [{name for layer in net[: max(0, k - early)] for name in layer.needs} for k in range(len(net))]
    while True:
        done = Pass(net, lambda k, forward: reads[k] | {*kept} if forward else needs[k]).done
        if not kept or play(net, done)[0] <= limit:
            return done
        kept.pop()


@right("recompute_schedule")
def schedule_of_a_class(net, limit):
    return kept_until_it_fits(net, limit, play, lambda layer: layer.size / layer.us)


@right("recompute_schedule")
def schedule_that_prefers_few_reads(net, limit):
    return kept_until_it_fits(net, limit, play, lambda layer: (-layer.us / layer.size, len(layer.reads), layer.name))


@wrong("recompute_schedule", says="those of a schedule that gives up the tensors with the most µs a byte first")
def schedule_that_gives_up_the_dear_ones_first(net, limit):
    return kept_until_it_fits(net, limit, play, lambda layer: layer.us / layer.size)


@wrong("recompute_schedule", says="those of a schedule that drops tensors a layer too early")
def schedule_that_drops_one_layer_too_early(net, limit):
    return kept_until_it_fits(net, limit, play, lambda layer: layer.size / layer.us, early=1)


@wrong("recompute_schedule", says="which is not in memory: it was dropped and not made again")
def schedule_that_never_makes_again(net, limit):
    done = Pass(net, lambda k, forward: {name for layer in net[k + 1 :] for name in layer.reads}).done
    return [event for k, event in enumerate(done) if event not in done[:k] or event[0] != "make"]
