"""Answers to the exercises of lesson 07 as learners might write them: right ones in other styles, and wrong ones.

Each wrong answer comes with words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 07` runs those of this lesson.
`encoder_backward` and `given_layers` are those of the exercise notebook.
"""

# ruff: noqa: F821
import numpy as np

from llmc.course.old.authoring.answers import right, wrong

# ------------------------------------- layers as at the top of the exercise notebook, for the helpers here


def layernorm_forward(x, w, b, eps=1e-5):
    mean = x.mean(axis=-1)  # (B, T)
    centred = x - mean[..., None]  # (B, T, C)
    rstd = 1 / np.sqrt((centred**2).mean(axis=-1) + eps)  # (B, T)
    return centred * rstd[..., None] * w + b, mean, rstd


def layernorm_backward(dout, x, w, mean, rstd):
    norm = (x - mean[..., None]) * rstd[..., None]  # (B, T, C)
    dnorm = dout * w  # (B, T, C)
    m1 = dnorm.mean(axis=-1, keepdims=True)  # (B, T, 1)
    m2 = (dnorm * norm).mean(axis=-1, keepdims=True)  # (B, T, 1)
    dx = (dnorm - m1 - norm * m2) * rstd[..., None]  # (B, T, C)
    return dx, (dout * norm).sum(axis=(0, 1)), dout.sum(axis=(0, 1))


def matmul_forward(x, w, b):
    return x @ w.T + b  # (B, T, C_out)


def matmul_backward(dout, x, w):
    rows, grads = x.reshape(-1, x.shape[-1]), dout.reshape(-1, dout.shape[-1])  # (B*T, C_in), (B*T, C_out)
    return dout @ w, grads.T @ rows, grads.sum(axis=0)


def gelu_forward(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu_backward(dout, x):
    tanh = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    slope = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2)
    return dout * (0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * slope)


def split_heads(x, NH):
    B, T, C = x.shape
    return x.reshape(B, T, NH, C // NH).transpose(0, 2, 1, 3)  # (B, NH, T, hs)


def merge_heads(x):
    B, NH, T, hs = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, T, NH * hs)  # (B, T, C)


def attention_forward(qkv, NH):
    q, k, v = (split_heads(part, NH) for part in np.split(qkv, 3, axis=-1))  # (B, NH, T, hs) each
    T, hs = q.shape[2:]
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(hs)  # (B, NH, T, T)
    scores = np.where(np.tril(np.ones((T, T), bool)), scores, -np.inf).astype(qkv.dtype)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return merge_heads(p @ v), p


def attention_backward(dout, qkv, p, NH):
    q, k, v = (split_heads(part, NH) for part in np.split(qkv, 3, axis=-1))
    do = split_heads(dout, NH)
    dv = p.transpose(0, 1, 3, 2) @ do
    dp = do @ v.transpose(0, 1, 3, 2)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) / np.sqrt(q.shape[-1])
    dq, dk = ds @ k, ds.transpose(0, 1, 3, 2) @ q
    return np.concatenate([merge_heads(part) for part in (dq, dk, dv)], axis=-1)


# -------------------------------------------------------------------------------------------- 1 count_parameters


@right("count_parameters")
def count_tensor_by_tensor(maxT, V, L, C):
    shapes = [(V, C), (maxT, C), (C,), (C,)]
    for _ in range(L):
        shapes += [(C,), (C,), (3 * C, C), (3 * C,), (C, C), (C,), (C,), (C,), (4 * C, C), (4 * C,), (C, 4 * C), (C,)]
    return int(sum(np.prod(shape) for shape in shapes))


@right("count_parameters")
def count_with_a_linear_helper(maxT, V, L, C):
    def linear(n, m):
        return n * m + m

    norm = 2 * C
    block = norm + linear(C, 3 * C) + linear(C, C) + norm + linear(C, 4 * C) + linear(4 * C, C)
    return (V + maxT) * C + block * L + norm


@wrong("count_parameters", says="the output head is wte itself")
def count_untied(maxT, V, L, C):
    return 2 * V * C + maxT * C + L * (12 * C * C + 13 * C) + 2 * C


@wrong("count_parameters", says="The biases of the four linear layers are missing")
def count_without_biases(maxT, V, L, C):
    return V * C + maxT * C + L * (12 * C * C + 4 * C) + 2 * C


@wrong("count_parameters", says="The last layernorm is missing")
def count_without_the_last_norm(maxT, V, L, C):
    return V * C + maxT * C + L * (12 * C * C + 13 * C)


@wrong("count_parameters", says="The position table wpe is missing")
def count_without_positions(maxT, V, L, C):
    return V * C + L * (12 * C * C + 13 * C) + 2 * C


@wrong("count_parameters", says="wte are counted: they are not parameters of the model.\n→ Where to look")
def count_with_padding(maxT, V, L, C):
    Vp = (V + 127) // 128 * 128
    return Vp * C + maxT * C + L * (12 * C * C + 13 * C) + 2 * C


@wrong("count_parameters", says="queries, keys and values")
def count_with_narrow_qkv(maxT, V, L, C):
    linears = (C * C + C) + (C * C + C) + (4 * C * C + 4 * C) + (4 * C * C + C)
    return V * C + maxT * C + L * (linears + 4 * C) + 2 * C


@wrong("count_parameters", says="Three vectors of C numbers are missing in each block")
def count_with_a_short_bias(maxT, V, L, C):
    linears = (3 * C * C + 3 * C) + (C * C + C) + (4 * C * C + C) + (4 * C * C + C)
    return V * C + maxT * C + L * (linears + 4 * C) + 2 * C


@wrong("count_parameters", says="The MLP's second bias, fcprojb, has C numbers, not 4C")
def count_with_a_long_bias(maxT, V, L, C):
    linears = (3 * C * C + 3 * C) + (C * C + C) + (4 * C * C + 4 * C) + (4 * C * C + 4 * C)
    return V * C + maxT * C + L * (linears + 4 * C) + 2 * C


@wrong("count_parameters", says="The last layernorm is counted in every block")
def count_three_norms_a_block(maxT, V, L, C):
    return V * C + maxT * C + L * (12 * C * C + 9 * C + 6 * C)


@wrong("count_parameters", says="All vectors are missing")
def count_matrices_alone(maxT, V, L, C):
    return V * C + maxT * C + L * 12 * C * C


@wrong("count_parameters", says="Only one block is counted")
def count_one_block(maxT, V, L, C):
    return V * C + maxT * C + 12 * C * C + 13 * C + 2 * C


@wrong("count_parameters", says="as after a sum in float32")
def count_in_float32(maxT, V, L, C):
    sizes = [V * C, maxT * C] + L * [12 * C * C + 13 * C] + [2 * C]
    return int(np.array(sizes, np.float32).sum())


@wrong("count_parameters", says="It has 3072 where 4C, the MLP's inner width, belongs")
def count_a_mlp_of_gpt2(maxT, V, L, C, width=3072):
    block = 4 * C * C + 8 * C + 2 * width * C + width + C
    return V * C + maxT * C + L * block + 2 * C


@wrong("count_parameters", says="too few. `C // 64` is rounded down: C need not be a multiple of 64.\n→ Where to look")
def count_heads_of_64(maxT, V, L, C):
    heads = C // 64
    block = heads * (3 * 64 * C + 3 * 64) + 9 * C * C + 10 * C
    return V * C + maxT * C + L * block + 2 * C


@wrong("count_parameters", says="a whole number, an int")
def count_in_millions(maxT, V, L, C):
    return (V * C + maxT * C + L * (12 * C * C + 13 * C) + 2 * C) / 1e6


# ---------------------------------------------------------------------------------------------- 2 initial_tensor


@right("initial_tensor")
def initial_with_standard_normal(name, shape, L, rng):
    if name[:2] == "ln":
        return np.full(shape, 1.0 if name[-1] == "w" else 0.0, dtype=np.float32)
    if name[-1] == "b":
        return np.zeros(shape, dtype=np.float32)
    values = 0.02 * rng.standard_normal(shape, dtype=np.float32)
    if "proj" in name:
        values *= np.float32((2 * L) ** -0.5)
    return values


@right("initial_tensor")
def initial_layer_by_layer(name, shape, L, rng):
    out = np.empty(shape, np.float32)
    if name in ("wte", "wpe"):
        out[...] = rng.normal(scale=0.02, size=shape)
    elif name in ("qkvw", "fcw", "attprojw", "fcprojw"):
        for l in range(L):
            out[l] = rng.normal(scale=0.02, size=shape[1:])
            if name.endswith("projw"):
                out[l] /= np.sqrt(2 * L)
    else:
        out.fill(1 if name in ("ln1w", "ln2w", "lnfw") else 0)
    return out


def _initial(name, shape, L, rng, std=0.02, projection=None):
    """Right but for the two standard deviations."""
    if name in ("ln1w", "ln2w", "lnfw"):
        return np.ones(shape, np.float32)
    if name.endswith("b"):
        return np.zeros(shape, np.float32)
    projection = std / np.sqrt(2 * L) if projection is None else projection
    return rng.normal(0, projection if name in ("attprojw", "fcprojw") else std, shape).astype(np.float32)


@wrong("initial_tensor", says="attprojw writes to the residual stream, so it needs 1/√(2L) too")
def initial_without_the_factor(name, shape, L, rng):
    return _initial(name, shape, L, rng, projection=0.02)


@wrong("initial_tensor", says="every block writes to the stream twice")
def initial_counts_blocks(name, shape, L, rng):
    return _initial(name, shape, L, rng, projection=0.02 / np.sqrt(L))


@wrong("initial_tensor", says="lacks a root")
def initial_without_the_root(name, shape, L, rng):
    return _initial(name, shape, L, rng, projection=0.02 / (2 * L))


@wrong("initial_tensor", says="fcprojw writes to the residual stream, so it needs 1/√(2L) too")
def initial_forgets_the_mlp(name, shape, L, rng):
    return _initial(name, shape, L, rng, projection=0.02 if name == "fcprojw" else None)


@wrong("initial_tensor", says="does not write to the residual stream")
def initial_scales_everything(name, shape, L, rng):
    return _initial(name, shape, L, rng, std=0.02 / np.sqrt(2 * L), projection=0.02 / np.sqrt(2 * L))


@wrong("initial_tensor", says="0.02 is the standard deviation, not the variance")
def initial_takes_variance(name, shape, L, rng):
    return _initial(name, shape, L, rng, std=0.02**0.5)


@wrong("initial_tensor", says="ln1w should be ones")
def initial_draws_norms(name, shape, L, rng):
    if name.endswith("b"):
        return np.zeros(shape, np.float32)
    std = 0.02 / np.sqrt(2 * L) if name in ("attprojw", "fcprojw") else 0.02
    return rng.normal(0, std, shape).astype(np.float32)


@wrong("initial_tensor", says="is the same in every layer")
def initial_repeats_a_layer(name, shape, L, rng):
    values = _initial(name, shape[1:] if len(shape) == 3 else shape, L, rng)
    return np.broadcast_to(values, shape)


@wrong("initial_tensor", says="dtype float64, expected float32")
def initial_in_float64(name, shape, L, rng):
    return _initial(name, shape, L, rng).astype(np.float64)


@wrong("initial_tensor", says="is uniform")
def initial_uniform(name, shape, L, rng):
    if name.endswith("b") or name in ("ln1w", "ln2w", "lnfw"):
        return _initial(name, shape, L, rng)
    limit = 0.02 * np.sqrt(3) / (np.sqrt(2 * L) if name in ("attprojw", "fcprojw") else 1)
    return rng.uniform(-limit, limit, shape).astype(np.float32)


@wrong("initial_tensor", says="wte is uniform, between ±0.02, not from a normal distribution")
def initial_uniform_within_std(name, shape, L, rng):
    if name.endswith("b") or name in ("ln1w", "ln2w", "lnfw"):
        return _initial(name, shape, L, rng)
    std = 0.02 / (np.sqrt(2 * L) if name in ("attprojw", "fcprojw") else 1)
    return rng.uniform(-std, std, shape).astype(np.float32)


@wrong("initial_tensor", says="wte was not drawn from the given rng")
def initial_with_a_generator_of_its_own(name, shape, L, rng):
    return _initial(name, shape, L, np.random.default_rng(0))


@wrong("initial_tensor", says="wte was not drawn from the given rng")
def initial_with_the_old_random(name, shape, L, rng):
    return _initial(name, shape, L, np.random)


@wrong("initial_tensor", says='section "3.1')
def initial_draws_biases(name, shape, L, rng):
    return np.ones(shape, np.float32) if name in ("ln1w", "ln2w", "lnfw") else rng.normal(0, 0.02, shape).astype("f4")


@wrong("initial_tensor", says='section "3.2')
def initial_divides_by_four(name, shape, L, rng):
    return _initial(name, shape, L, rng, projection=0.005)


# ----------------------------------------------------------------------------------------------- 3 block_forward


@right("block_forward")
def block_by_hand(x, p, NH):
    def norm(x, w, b):
        mean = x.mean(-1)
        rstd = 1 / np.sqrt(x.var(-1) + 1e-5)
        return (x - mean[..., None]) * rstd[..., None] * w + b, mean, rstd

    B, T, C = x.shape
    ln1, m1, r1 = norm(x, p["ln1w"], p["ln1b"])
    qkv = np.einsum("btc,oc->bto", ln1, p["qkvw"]) + p["qkvb"]
    atty, probabilities = np.zeros_like(x), np.zeros((B, NH, T, T), x.dtype)
    hs = C // NH
    for b in range(B):
        for h in range(NH):
            q, k, v = (qkv[b, :, i * C + h * hs : i * C + (h + 1) * hs] for i in range(3))
            for t in range(T):
                e = np.exp(k[: t + 1] @ q[t] / hs**0.5)
                probabilities[b, h, t, : t + 1] = e / e.sum()
            atty[b, :, h * hs : (h + 1) * hs] = probabilities[b, h] @ v
    residual2 = x + atty @ p["attprojw"].T + p["attprojb"]
    ln2, m2, r2 = norm(residual2, p["ln2w"], p["ln2b"])
    fch = ln2 @ p["fcw"].T + p["fcb"]
    fch_gelu = 0.5 * fch * (1 + np.tanh(np.sqrt(2 / np.pi) * (fch + 0.044715 * fch**3)))
    out = residual2 + fch_gelu @ p["fcprojw"].T + p["fcprojb"]
    a = dict(ln1=ln1, ln1_mean=m1, ln1_rstd=r1, qkv=qkv, probabilities=probabilities, atty=atty, residual2=residual2)
    return out, a | dict(ln2=ln2, ln2_mean=m2, ln2_rstd=r2, fch=fch, fch_gelu=fch_gelu)


def _block(x, p, NH, **use):
    """A block out of the given layers, in which parts can be replaced: functions of what is there so far."""
    a = {"x": x}

    def put(name, value):
        a[name] = use[name](a, p) if name in use else value()
        return a[name]

    a["ln1"], a["ln1_mean"], a["ln1_rstd"] = layernorm_forward(x, p["ln1w"], p["ln1b"])
    put("qkv", lambda: matmul_forward(a["ln1"], p["qkvw"], p["qkvb"]))
    a["atty"], a["probabilities"] = attention_forward(a["qkv"], NH)
    put("attproj", lambda: matmul_forward(a["atty"], p["attprojw"], p["attprojb"]))
    put("residual2", lambda: x + a["attproj"])
    a["ln2"], a["ln2_mean"], a["ln2_rstd"] = use.get(
        "ln2", lambda a, p: layernorm_forward(a["residual2"], p["ln2w"], p["ln2b"])
    )(a, p)
    put("fch", lambda: matmul_forward(a["ln2"], p["fcw"], p["fcb"]))
    put("fch_gelu", lambda: gelu_forward(a["fch"]))
    put("fcproj", lambda: matmul_forward(a["fch_gelu"], p["fcprojw"], p["fcprojb"]))
    return put("out", lambda: a["residual2"] + a["fcproj"]), a


@right("block_forward")
def block_with_a_helper(x, p, NH):
    return _block(x, p, NH)


NAMES = "ln1 ln1_mean ln1_rstd qkv probabilities atty residual2 ln2 ln2_mean ln2_rstd fch fch_gelu"


@wrong("block_forward", says="the approximation x · sigmoid(1.702 · x) in place of `gelu_forward(a['fch'])`")
def block_with_another_gelu(x, p, NH):
    first, m1, r1 = layernorm_forward(x, p["ln1w"], p["ln1b"])
    qkv = matmul_forward(first, p["qkvw"], p["qkvb"])
    atty, probabilities = attention_forward(qkv, NH)
    half = x + matmul_forward(atty, p["attprojw"], p["attprojb"])
    second, m2, r2 = layernorm_forward(half, p["ln2w"], p["ln2b"])
    h = matmul_forward(second, p["fcw"], p["fcb"])
    g = h / (1 + np.exp(-1.702 * h))
    values = first, m1, r1, qkv, probabilities, atty, half, second, m2, r2, h, g
    return half + matmul_forward(g, p["fcprojw"], p["fcprojb"]), dict(zip(NAMES.split(), values))


@wrong("block_forward", says="atty holds what `matmul_forward(a['atty'], p['attprojw'], p['attprojb'])` gives in our")
def block_with_a_name_used_twice(x, p, NH):
    first, m1, r1 = layernorm_forward(x, p["ln1w"], p["ln1b"])
    qkv = matmul_forward(first, p["qkvw"], p["qkvb"])
    atty, probabilities = attention_forward(qkv, NH)
    atty = matmul_forward(atty, p["attprojw"], p["attprojb"])
    half = x + atty
    second, m2, r2 = layernorm_forward(half, p["ln2w"], p["ln2b"])
    h = matmul_forward(second, p["fcw"], p["fcb"])
    g = gelu_forward(h)
    values = first, m1, r1, qkv, probabilities, atty, half, second, m2, r2, h, g
    return half + matmul_forward(g, p["fcprojw"], p["fcprojb"]), dict(zip(NAMES.split(), values))


@wrong("block_forward", says="`p['fcprojw']` read as if axis 0 came last: reshape does not transpose")
def block_reshapes_a_weight(x, p, NH):
    first, m1, r1 = layernorm_forward(x, p["ln1w"], p["ln1b"])
    qkv = matmul_forward(first, p["qkvw"], p["qkvb"])
    atty, probabilities = attention_forward(qkv, NH)
    half = x + matmul_forward(atty, p["attprojw"], p["attprojb"])
    second, m2, r2 = layernorm_forward(half, p["ln2w"], p["ln2b"])
    h = matmul_forward(second, p["fcw"], p["fcb"])
    g = gelu_forward(h)
    values = first, m1, r1, qkv, probabilities, atty, half, second, m2, r2, h, g
    C = x.shape[-1]
    return half + g @ p["fcprojw"].reshape(4 * C, C) + p["fcprojb"], dict(zip(NAMES.split(), values))


@wrong("block_forward", says="residual2 equals the branch alone: x is not added to it")
def block_forgets_the_first_residual(x, p, NH):
    return _block(x, p, NH, residual2=lambda a, p: a["attproj"])


@wrong("block_forward", says="out equals the branch alone: residual2 is not added to it")
def block_forgets_the_second_residual(x, p, NH):
    return _block(x, p, NH, out=lambda a, p: a["fcproj"])


@wrong(
    "block_forward", says="out equals the reference with x added in place of residual2: what attention wrote is lost"
)
def block_adds_x_twice(x, p, NH):
    return _block(x, p, NH, out=lambda a, p: a["x"] + a["fcproj"])


@wrong("block_forward", says="qkv equals the reference with qkv made of x: it is made of ln1.\n→ Where to look")
def block_normalises_behind(x, p, NH):
    # post-layernorm, as in the first transformer: the stream itself is normalised, after each sum
    qkv = matmul_forward(x, p["qkvw"], p["qkvb"])
    atty, probabilities = attention_forward(qkv, NH)
    ln1, m1, r1 = layernorm_forward(x + matmul_forward(atty, p["attprojw"], p["attprojb"]), p["ln1w"], p["ln1b"])
    fch = matmul_forward(ln1, p["fcw"], p["fcb"])
    fch_gelu = gelu_forward(fch)
    residual2 = ln1 + matmul_forward(fch_gelu, p["fcprojw"], p["fcprojb"])
    ln2, m2, r2 = layernorm_forward(residual2, p["ln2w"], p["ln2b"])
    a = dict(
        ln1=layernorm_forward(x, p["ln1w"], p["ln1b"])[0], ln1_mean=x.mean(-1), ln1_rstd=1 / np.sqrt(x.var(-1) + 1e-5)
    )
    return ln2, a | dict(qkv=qkv, probabilities=probabilities, atty=atty, residual2=residual2, ln2=ln2, ln2_mean=m2)


@wrong("block_forward", says="residual2 equals the reference with ln1 added in place of x")
def block_adds_the_normalised_stream(x, p, NH):
    return _block(x, p, NH, residual2=lambda a, p: a["ln1"] + a["attproj"])


@wrong("block_forward", says="qkv equals the reference with qkv made of x: it is made of ln1")
def block_skips_ln1(x, p, NH):
    return _block(x, p, NH, qkv=lambda a, p: matmul_forward(a["x"], p["qkvw"], p["qkvb"]))


@wrong("block_forward", says="fch_gelu equals the reference without GELU")
def block_skips_gelu(x, p, NH):
    return _block(x, p, NH, fch_gelu=lambda a, p: a["fch"])


@wrong("block_forward", says="residual2 equals the reference without attprojw and attprojb")
def block_skips_attproj(x, p, NH):
    return _block(x, p, NH, attproj=lambda a, p: a["atty"])


@wrong("block_forward", says="An input was written to")
def block_adds_into_x(x, p, NH):
    out, a = _block(x, p, NH)
    x += a["attproj"]
    x += a["fcproj"]
    return x, a


@wrong("block_forward", says="the dict of activations has no 'probabilities'")
def block_keeps_too_little(x, p, NH):
    out, a = _block(x, p, NH)
    del a["probabilities"]
    return out, a


@wrong("block_forward", says="2 values are expected, out, the dict of activations, but one was returned: (3, 5, 6)")
def block_returns_out_alone(x, p, NH):
    return _block(x, p, NH)[0]


@wrong("block_forward", says="the second value should be the dict of activations, {name: array}, but is (3, 5, 6)")
def block_returns_an_array_for_the_dict(x, p, NH):
    out, a = _block(x, p, NH)
    return out, a["residual2"]


@wrong("block_forward", says="2 values are expected, out, the dict of activations, but 13 were returned")
def block_returns_them_one_by_one(x, p, NH):
    out, a = _block(x, p, NH)
    dropped = ("x", "attproj", "fcproj", "out")
    return out, *[value for name, value in a.items() if name not in dropped]


# ---------------------------------------------------------------------------------------------- 4 block_backward


@right("block_backward")
def backward_with_one_running_gradient(dout, x, p, a, NH):
    g, dresidual = {}, dout.copy()
    d, g["fcprojw"], g["fcprojb"] = matmul_backward(dresidual, a["fch_gelu"], p["fcprojw"])
    d, g["fcw"], g["fcb"] = matmul_backward(gelu_backward(d, a["fch"]), a["ln2"], p["fcw"])
    d, g["ln2w"], g["ln2b"] = layernorm_backward(d, a["residual2"], p["ln2w"], a["ln2_mean"], a["ln2_rstd"])
    dresidual += d
    d, g["attprojw"], g["attprojb"] = matmul_backward(dresidual, a["atty"], p["attprojw"])
    d = attention_backward(d, a["qkv"], a["probabilities"], NH)
    d, g["qkvw"], g["qkvb"] = matmul_backward(d, a["ln1"], p["qkvw"])
    d, g["ln1w"], g["ln1b"] = layernorm_backward(d, x, p["ln1w"], a["ln1_mean"], a["ln1_rstd"])
    dresidual += d
    return dresidual, g


@right("block_backward")
def backward_one_sequence_at_a_time(dout, x, p, a, NH):
    dxs, total = [], {}
    for b in range(len(x)):
        one = {name: value[b : b + 1] for name, value in a.items()}
        dx, g = _backward(dout[b : b + 1], x[b : b + 1], p, one, NH)
        dxs.append(dx)
        total = {name: total.get(name, 0) + value for name, value in g.items()}
    return np.concatenate(dxs), total


def _backward(
    dout, x, p, a, NH, read=(), second=lambda d, branch: d + branch, first=lambda d, branch: d + branch, slope=None
):
    """The chain, in which the inputs of layers, GELU's slope and the sums at the forks can be replaced."""
    a, g = {"x": x, **a}, {}
    read = {"fcproj": "fch_gelu", "gelu": "fch", "fc": "ln2", "ln2": "residual2", "qkv": "ln1", "ln1": "x"} | dict(read)
    d, g["fcprojw"], g["fcprojb"] = matmul_backward(dout, a[read["fcproj"]], p["fcprojw"])
    d = gelu_backward(d, a[read["gelu"]]) if slope is None else slope(d)
    d, g["fcw"], g["fcb"] = matmul_backward(d, a[read["fc"]], p["fcw"])
    d, g["ln2w"], g["ln2b"] = layernorm_backward(d, a[read["ln2"]], p["ln2w"], a["ln2_mean"], a["ln2_rstd"])
    dresidual2 = second(dout, d)
    d, g["attprojw"], g["attprojb"] = matmul_backward(dresidual2, a["atty"], p["attprojw"])
    d = attention_backward(d, a["qkv"], a["probabilities"], NH)
    d, g["qkvw"], g["qkvb"] = matmul_backward(d, a[read["qkv"]], p["qkvw"])
    d, g["ln1w"], g["ln1b"] = layernorm_backward(d, a[read["ln1"]], p["ln1w"], a["ln1_mean"], a["ln1_rstd"])
    return first(dresidual2, d), g


@wrong("block_backward", says="dattprojw equals the reference without the straight branch of the second residual")
def backward_overwrites_at_the_second_fork(dout, x, p, a, NH):
    return _backward(dout, x, p, a, NH, second=lambda d, branch: branch)


@wrong("block_backward", says="dx equals the reference without the straight branch of the first residual")
def backward_overwrites_at_the_first_fork(dout, x, p, a, NH):
    return _backward(dout, x, p, a, NH, first=lambda d, branch: branch)


@wrong("block_backward", says="without what comes back through ln2")
def backward_forgets_the_branch(dout, x, p, a, NH):
    return _backward(dout, x, p, a, NH, second=lambda d, branch: d)


@wrong("block_backward", says="dx equals the reference without what comes back through ln1")
def backward_forgets_the_first_branch(dout, x, p, a, NH):
    return _backward(dout, x, p, a, NH, first=lambda d, branch: d)


@wrong("block_backward", says="dx equals the reference with dout in place of dresidual2 at the first residual")
def backward_adds_dout_again(dout, x, p, a, NH):
    return _backward(dout, x, p, a, NH, first=lambda d, branch: dout + branch)


@wrong("block_backward", says="dout added once more")
def backward_adds_dout_on_top(dout, x, p, a, NH):
    return _backward(dout, x, p, a, NH, first=lambda d, branch: dout + d + branch)


@wrong("block_backward", says="dfcw equals the reference with gelu_backward at fch_gelu")
def backward_takes_the_slope_behind_gelu(dout, x, p, a, NH):
    return _backward(dout, x, p, a, NH, read={"gelu": "fch_gelu"})


@wrong("block_backward", says="dfcw equals the reference without gelu_backward")
def backward_forgets_gelu(dout, x, p, a, NH):
    return _backward(dout, x, p, a, NH, slope=lambda d: d)


@wrong("block_backward", says="dfcprojw equals the reference with fch in place of fch_gelu")
def backward_multiplies_with_fch(dout, x, p, a, NH):
    return _backward(dout, x, p, a, NH, read={"fcproj": "fch"})


@wrong("block_backward", says="dfcw equals the reference with residual2 in place of ln2")
def backward_multiplies_with_the_stream(dout, x, p, a, NH):
    return _backward(dout, x, p, a, NH, read={"fc": "residual2"})


@wrong("block_backward", says="dln2w equals the reference with x in place of residual2")
def backward_normalises_x(dout, x, p, a, NH):
    return _backward(dout, x, p, a, NH, read={"ln2": "x"})


@wrong("block_backward", says="dln2w equals the reference with ln2 in place of residual2: layernorm_backward needs")
def backward_normalises_ln2(dout, x, p, a, NH):
    return _backward(dout, x, p, a, NH, read={"ln2": "ln2"})


@wrong("block_backward", says="dln1w equals the reference with ln1 in place of x: layernorm_backward needs")
def backward_normalises_ln1(dout, x, p, a, NH):
    return _backward(dout, x, p, a, NH, read={"ln1": "ln1"})


@wrong("block_backward", says="2 values are expected, dx, the dict of gradients, but one was returned: a dict")
def backward_returns_the_dict_alone(dout, x, p, a, NH):
    return _backward(dout, x, p, a, NH)[1]


@wrong("block_backward", says="An input was written to")
def backward_adds_into_dout(dout, x, p, a, NH):
    d, _, _ = matmul_backward(dout, a["fch_gelu"], p["fcprojw"])
    d, _, _ = matmul_backward(gelu_backward(d, a["fch"]), a["ln2"], p["fcw"])
    dout += layernorm_backward(d, a["residual2"], p["ln2w"], a["ln2_mean"], a["ln2_rstd"])[0]
    return dout, {}


@wrong("block_backward", says='dln1w holds what belongs in "ln1b"')
def backward_exchanges_two_gradients(dout, x, p, a, NH):
    dx, g = _backward(dout, x, p, a, NH)
    g["ln1w"], g["ln1b"] = g["ln1b"], g["ln1w"]
    return dx, g


@wrong("block_backward", says='what you return for it belongs in "qkvb": are two names exchanged?')
def backward_exchanges_weight_and_bias(dout, x, p, a, NH):
    dx, g = _backward(dout, x, p, a, NH)
    return dx, g | {"qkvw": g["qkvb"], "qkvb": g["qkvw"]}


@wrong("block_backward", says="gives with `a['ln2_rstd']` in place of `a['ln1_rstd']` in")
def backward_after_a_copied_line(dout, x, p, a, NH):
    g = {}
    d, g["fcprojw"], g["fcprojb"] = matmul_backward(dout, a["fch_gelu"], p["fcprojw"])
    d, g["fcw"], g["fcb"] = matmul_backward(gelu_backward(d, a["fch"]), a["ln2"], p["fcw"])
    d, g["ln2w"], g["ln2b"] = layernorm_backward(d, a["residual2"], p["ln2w"], a["ln2_mean"], a["ln2_rstd"])
    stream = dout + d
    d, g["attprojw"], g["attprojb"] = matmul_backward(stream, a["atty"], p["attprojw"])
    d = attention_backward(d, a["qkv"], a["probabilities"], NH)
    d, g["qkvw"], g["qkvb"] = matmul_backward(d, a["ln1"], p["qkvw"])
    d, g["ln1w"], g["ln1b"] = layernorm_backward(d, x, p["ln1w"], a["ln1_mean"], a["ln2_rstd"])
    return stream + d, g


@wrong("block_backward", says="11 other results are right in the same call; the first result is wrong, too")
def backward_with_a_slip_of_its_own(dout, x, p, a, NH):
    dx, g = _backward(dout, x, p, a, NH)
    return np.sinh(dx) + x, g | {"ln1w": np.arctan(g["ln1w"]) * g["ln1b"]}


@wrong("block_backward", says="the dict of gradients has no 'fcprojb'")
def backward_drops_biases(dout, x, p, a, NH):
    dx, g = _backward(dout, x, p, a, NH)
    return dx, {name: value for name, value in g.items() if not name.endswith("b")}


# ----------------------------------------------------------------------------------------------- 5 tied_gradient


@right("tied_gradient")
def tied_with_loops(dlogits, lnf, dencoded, tokens):
    dwte = np.zeros((dlogits.shape[-1], lnf.shape[-1]))
    for b, t in np.ndindex(tokens.shape):
        dwte += np.outer(dlogits[b, t], lnf[b, t])
        dwte[tokens[b, t]] += dencoded[b, t]
    return dwte


@right("tied_gradient")
def tied_with_onehot(dlogits, lnf, dencoded, tokens):
    onehot = np.eye(dlogits.shape[-1])[tokens]
    return np.einsum("btv,btc->vc", dlogits, lnf) + np.einsum("btv,btc->vc", onehot, dencoded)


@right("tied_gradient")
def tied_with_the_layers(dlogits, lnf, dencoded, tokens):
    V = dlogits.shape[-1]
    _, head, _ = matmul_backward(dlogits, lnf, np.zeros((V, lnf.shape[-1])))
    return head + encoder_backward(dencoded, tokens, V, tokens.shape[1])[0]


def _head(dlogits, lnf):
    """The head's part (Vp, C)."""
    return np.einsum("btv,btc->vc", dlogits, lnf)


@wrong("tied_gradient", says="dwte equals the head's part alone")
def tied_head_only(dlogits, lnf, dencoded, tokens):
    return _head(dlogits, lnf)


@wrong("tied_gradient", says="dwte equals the lookup's part alone")
def tied_lookup_only(dlogits, lnf, dencoded, tokens):
    dwte = np.zeros((dlogits.shape[-1], lnf.shape[-1]))
    np.add.at(dwte, tokens, dencoded)
    return dwte


@wrong("tied_gradient", says="the reference with only one of the rows of a token that occurs twice")
def tied_with_plus_equals(dlogits, lnf, dencoded, tokens):
    dwte = _head(dlogits, lnf)
    dwte[tokens] += dencoded
    return dwte


@wrong("tied_gradient", says="+= adds only once where an index occurs several times")
def tied_one_sequence_after_the_other(dlogits, lnf, dencoded, tokens):
    dwte = np.einsum("btv,btc->vc", dlogits, lnf)
    for ids, rows in zip(tokens, dencoded):
        dwte[ids] += rows
    return dwte


@wrong("tied_gradient", says="rows overwritten by the lookup's")
def tied_overwrites(dlogits, lnf, dencoded, tokens):
    dwte = _head(dlogits, lnf)
    dwte[tokens] = dencoded
    return dwte


@wrong("tied_gradient", says="the mean of the two parts")
def tied_averages(dlogits, lnf, dencoded, tokens):
    lookup = np.zeros((dlogits.shape[-1], lnf.shape[-1]))
    np.add.at(lookup, tokens, dencoded)
    return (_head(dlogits, lnf) + lookup) / 2


@wrong("tied_gradient", says="It is transposed")
def tied_transposed(dlogits, lnf, dencoded, tokens):
    dwte = np.einsum("btc,btv->cv", lnf, dlogits)
    np.add.at(dwte.T, tokens, dencoded)
    return dwte


@wrong("tied_gradient", says="These are the axes of lnf (3, 5, 6) without axis 1.")
def tied_keeps_the_batch(dlogits, lnf, dencoded, tokens):
    dwte = np.einsum("btv,btc->btc", dlogits, lnf)
    return dwte.sum(axis=1)


@wrong("tied_gradient", says="the reference with the head's part divided by B·T")
def tied_divides_again(dlogits, lnf, dencoded, tokens):
    dwte = _head(dlogits, lnf) / tokens.size
    np.add.at(dwte, tokens, dencoded)
    return dwte


# ----------------------------------------------------------------------------------------------- 6 faster_layers


@right("faster_layers")
def faster_with_x_times_x(scale=0.7978845608028654):
    def gelu_forward(x):
        return x * (0.5 + 0.5 * np.tanh(scale * (x + 0.044715 * x * x * x)))

    def gelu_backward(dout, x):
        t = np.tanh(scale * (x + 0.044715 * x * x * x))
        return dout * 0.5 * ((1 + t) + x * (1 - t * t) * scale * (1 + 0.134145 * x * x))

    return given_layers | {"gelu_forward": gelu_forward, "gelu_backward": gelu_backward}


@right("faster_layers")
def faster_with_six_of_them():
    scale = float(np.sqrt(2 / np.pi))

    def fused_classifier(logits, targets, V):
        # the gradient of each token's loss, not of the mean
        z = logits - logits[..., :V].max(axis=-1, keepdims=True)
        e = np.exp(z)
        e[..., V:] = 0
        total = e.sum(axis=-1, keepdims=True)
        at = np.take_along_axis(z, targets[..., None], axis=-1)
        e /= total
        np.put_along_axis(e, targets[..., None], np.take_along_axis(e, targets[..., None], -1) - 1, -1)
        return (np.log(total) - at)[..., 0], e

    def gelu_forward(x):
        return 0.5 * x * (1 + np.tanh(scale * x * (1 + 0.044715 * np.square(x))))

    def gelu_backward(dout, x):
        u = scale * x * (1 + 0.044715 * np.square(x))
        t = np.tanh(u)
        return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 0.134145 * np.square(x)))

    mine = [fused_classifier, gelu_forward, gelu_backward]
    kept = ("layernorm_forward", "layernorm_backward", "residual_forward")
    return {f.__name__: f for f in mine} | {name: given_layers[name] for name in kept}


@wrong("faster_layers", says="these are all functions that you had before: none can be faster")
def faster_changes_nothing():
    return dict(given_layers)


@wrong("faster_layers", says="2 of the functions are yours; at least six must be")
def faster_borrows():
    def residual_forward(x1, x2):
        return x1 + x2

    return {"residual_forward": residual_forward, "matmul_forward": given_layers["matmul_forward"]}


@wrong("faster_layers", says="out of layernorm_forward equals the reference with eps added to the standard deviation")
def faster_with_eps_outside_of_the_root():
    def layernorm_forward(x, w, b):
        mean = x.mean(axis=-1)
        apart = x - mean[..., None]
        rstd = 1 / (np.sqrt((apart * apart).mean(axis=-1)) + 1e-5)
        return apart * rstd[..., None] * w + b, mean, rstd

    return given_layers | {"layernorm_forward": layernorm_forward}


@wrong("faster_layers", says="gelu_backward is right only after gelu_forward has been called with the same arrays")
def faster_keeps_the_last_tanh(scale=0.7978845608028654):
    kept = {}

    def gelu_forward(x):
        kept["tanh"] = np.tanh(scale * (x + 0.044715 * x * x * x))
        return 0.5 * x * (1 + kept["tanh"])

    def gelu_backward(dout, x):
        t = kept["tanh"]
        return dout * 0.5 * ((1 + t) + x * (1 - t * t) * scale * (1 + 0.134145 * x * x))

    return given_layers | {"gelu_forward": gelu_forward, "gelu_backward": gelu_backward}


@wrong("faster_layers", says="out of gelu_forward equals x · σ(1.702 x)")
def faster_with_the_sigmoid_gelu():
    def gelu_forward(x):
        return x / (1 + np.exp(-1.702 * x))

    return given_layers | {"gelu_forward": gelu_forward}


@wrong("faster_layers", says="dw of matmul_backward equals the part of the first sequence only")
def faster_forgets_to_sum_over_the_batch():
    def matmul_backward(dout, x, w):
        return dout @ w, dout[0].T @ x[0], dout[0].sum(axis=0)

    return given_layers | {"matmul_backward": matmul_backward}


@wrong("faster_layers", says="out of your matmul_forward is of shape")
def faster_flattens_and_stays_flat():
    def matmul_forward(x, w, b):
        return x.reshape(-1, x.shape[-1]) @ w.T + b

    return given_layers | {"matmul_forward": matmul_forward}


@wrong("faster_layers", says="'gelu_foward' is not one of LAYERS, so it would not be used; 'gelu_forward' is one")
def faster_with_a_misspelt_name():
    layers = dict(given_layers)
    layers["gelu_foward"] = lambda x: x
    return layers


@wrong("faster_layers", says="your code stopped with NameError: name 'squareroot' is not defined")
def faster_with_an_unknown_name():
    def gelu_forward(x):
        return 0.5 * x * (1 + np.tanh(squareroot(2 / np.pi) * (x + 0.044715 * x * x * x)))

    return given_layers | {"gelu_forward": gelu_forward}


@wrong("faster_layers", says="An input was written to. Inputs must stay as they are")
def faster_in_place():
    def gelu_forward(x):
        x *= 0.5 * (1 + np.tanh(0.7978845608 * x * (1 + 0.044715 * x * x)))
        return x

    return given_layers | {"gelu_forward": gelu_forward}


@wrong("faster_layers", says="return a dict {name: function}")
def faster_returns_a_list():
    return list(given_layers.values())


@wrong("faster_layers", says="make a new array in every call")
def faster_with_one_buffer():
    buffers = {}

    def gelu_forward(x):
        out = buffers.setdefault(x.shape, np.empty_like(x))
        np.multiply(x, 0.5 * (1 + np.tanh(0.7978845608 * x * (1 + 0.044715 * x * x))), out=out)
        return out

    return given_layers | {"gelu_forward": gelu_forward}


@wrong("faster_layers", says="your attention_backward returned 3 values instead of 1")
def faster_returns_q_k_v():
    def attention_backward(dout, qkv, probabilities, NH):
        dqkv = given_layers["attention_backward"](dout, qkv, probabilities, NH)
        return tuple(np.split(dqkv, 3, axis=-1))

    return given_layers | {"attention_backward": attention_backward}


# ------------------------------------------------------------------------------------- found by answers of strangers


@wrong("initial_tensor", says="is not from a normal distribution")
def initial_from_another_distribution(name, shape, L, rng):
    if name in ("ln1w", "ln2w", "lnfw"):
        return np.ones(shape, np.float32)
    if name.endswith("b"):
        return np.zeros(shape, np.float32)
    std = 0.02 / np.sqrt(2 * L) if name in ("attprojw", "fcprojw") else 0.02
    return rng.laplace(0, std / np.sqrt(2), shape).astype(np.float32)


# --------------------------------------------------------------------- what strangers wrote: state, layers, other forms

_gradients = {}


@wrong("block_backward", says="grows by the right values whenever the same call is made again")
def backward_adds_up_over_calls(dout, x, p, a, NH):
    def linear(d, read, name):
        d, dw, db = matmul_backward(d, a[read], p[name + "w"])
        for key, array in ((name + "w", dw), (name + "b", db)):
            _gradients[key, array.shape] = _gradients.get((key, array.shape), 0) + array
        return d

    def norm(d, read, name):
        d, dw, db = layernorm_backward(d, read, p[name + "w"], a[name + "_mean"], a[name + "_rstd"])
        for key, array in ((name + "w", dw), (name + "b", db)):
            _gradients[key, array.shape] = _gradients.get((key, array.shape), 0) + array
        return d

    branch = linear(gelu_backward(linear(dout, "fch_gelu", "fcproj"), a["fch"]), "ln2", "fc")
    middle = dout + norm(branch, a["residual2"], "ln2")
    branch = attention_backward(linear(middle, "atty", "attproj"), a["qkv"], a["probabilities"], NH)
    dx = middle + norm(linear(branch, "ln1", "qkv"), x, "ln1")
    return dx, {name: _gradients[name, array.shape] for name, array in p.items()}


@wrong(
    "block_backward",
    says="with `a['ln1_mean']` in place of `a['ln2_mean']` and `a['ln1_rstd']` in place of `a['ln2_rstd']`",
)
def backward_statistics_of_the_other_norm(dout, x, p, a, NH):
    g = {}
    dfch_gelu, g["fcprojw"], g["fcprojb"] = matmul_backward(dout, a["fch_gelu"], p["fcprojw"])
    dfch = gelu_backward(dfch_gelu, a["fch"])
    dln2, g["fcw"], g["fcb"] = matmul_backward(dfch, a["ln2"], p["fcw"])
    dbranch, g["ln2w"], g["ln2b"] = layernorm_backward(dln2, a["residual2"], p["ln2w"], a["ln1_mean"], a["ln1_rstd"])
    dresidual2 = dout + dbranch
    datty, g["attprojw"], g["attprojb"] = matmul_backward(dresidual2, a["atty"], p["attprojw"])
    dqkv = attention_backward(datty, a["qkv"], a["probabilities"], NH)
    dln1, g["qkvw"], g["qkvb"] = matmul_backward(dqkv, a["ln1"], p["qkvw"])
    dbranch, g["ln1w"], g["ln1b"] = layernorm_backward(dln1, x, p["ln1w"], a["ln1_mean"], a["ln1_rstd"])
    return dresidual2 + dbranch, g


@wrong("block_forward", says="ln1 equals the layernorm of x plus attention: GPT-2 normalises x first")
def block_of_2017(x, p, NH):
    qkv = matmul_forward(x, p["qkvw"], p["qkvb"])
    atty, probabilities = attention_forward(qkv, NH)
    residual2 = x + matmul_forward(atty, p["attprojw"], p["attprojb"])
    ln1, ln1_mean, ln1_rstd = layernorm_forward(residual2, p["ln1w"], p["ln1b"])
    fch = matmul_forward(ln1, p["fcw"], p["fcb"])
    fch_gelu = gelu_forward(fch)
    added = ln1 + matmul_forward(fch_gelu, p["fcprojw"], p["fcprojb"])
    ln2, ln2_mean, ln2_rstd = layernorm_forward(added, p["ln2w"], p["ln2b"])
    names = "ln1 ln1_mean ln1_rstd qkv probabilities atty residual2 ln2 ln2_mean ln2_rstd fch fch_gelu".split()
    found = locals()
    return ln2, {name: found[name] for name in names}


@wrong("tied_gradient", says="the reference with the head's part averaged over the sequences")
def tied_with_a_mean(dlogits, lnf, dencoded, tokens):
    dwte = (dlogits.transpose(0, 2, 1) @ lnf).mean(axis=0)
    np.add.at(dwte, tokens, dencoded)
    return dwte


@wrong("tied_gradient", says="without the term `1`, in the line `for t in range(T - 1):`")
def tied_without_the_last_position(dlogits, lnf, dencoded, tokens):
    B, T, Vp = dlogits.shape
    out = np.zeros((Vp, lnf.shape[2]))
    for b in range(B):
        for t in range(T):
            out += np.outer(dlogits[b, t], lnf[b, t])
        for t in range(T - 1):
            out[tokens[b, t]] += dencoded[b, t]
    return out


@wrong("faster_layers", says="dx of layernorm_backward equals the reference without the norm · mean(dnorm · norm) term")
def layers_without_the_third_term():
    def layernorm_backward(dout, x, w, mean, rstd):
        norm, dnorm = (x - mean[..., None]) * rstd[..., None], dout * w
        dx = (dnorm - dnorm.mean(axis=-1, keepdims=True)) * rstd[..., None]
        return dx, (dout * norm).sum(axis=(0, 1)), dout.sum(axis=(0, 1))

    return given_layers | {"layernorm_backward": layernorm_backward}


@wrong("faster_layers", says="dwte of encoder_backward equals the last row of dout for each token")
def layers_that_lose_rows():
    def encoder_backward(dout, tokens, V, maxT):
        dwte, dwpe = np.zeros((V, dout.shape[-1]), dout.dtype), np.zeros((maxT, dout.shape[-1]), dout.dtype)
        dwte[tokens] += dout
        dwpe[: tokens.shape[1]] = dout.sum(axis=0)
        return dwte, dwpe

    return given_layers | {"encoder_backward": encoder_backward}


@wrong("faster_layers", says="dq of attention_backward equals the reference with dscores that are p · dp")
def layers_without_the_row_sum():
    def attention_backward(dout, qkv, p, NH):
        q, k, v = (split_heads(part, NH) for part in np.split(qkv, 3, axis=-1))
        do = split_heads(dout, NH)
        ds = p * (do @ v.swapaxes(-1, -2)) / np.sqrt(q.shape[-1])
        parts = ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do
        return np.concatenate([merge_heads(part) for part in parts], axis=-1)

    return given_layers | {"attention_backward": attention_backward}


@wrong("faster_layers", says="columns V and up. They must all be 0")
def faster_classifier_that_forgets_the_padding():
    def fused_classifier(losses, logits, targets, dloss, V):
        z = logits[..., :V] - logits[..., :V].max(axis=-1, keepdims=True)
        p = np.exp(z)
        p /= p.sum(axis=-1, keepdims=True)
        at = np.take_along_axis(p, targets[..., None], axis=-1)
        losses[...] = -np.log(at[..., 0])
        if dloss is not None:
            np.put_along_axis(p, targets[..., None], at - 1, axis=-1)
            logits[..., :V] = dloss * p

    return given_layers | {"fused_classifier": fused_classifier}


@wrong("faster_layers", says="columns V and up. They must all be 0")
def faster_returned_classifier_with_padding():
    def fused_classifier(logits, targets, V):
        z = logits - logits[..., :V].max(axis=-1, keepdims=True)
        p = np.exp(z)
        p /= p[..., :V].sum(axis=-1, keepdims=True)
        at = np.take_along_axis(p, targets[..., None], axis=-1)
        np.put_along_axis(p, targets[..., None], at - 1, axis=-1)
        return -np.log(at[..., 0]), p

    return given_layers | {"fused_classifier": fused_classifier}


@wrong("faster_layers", says="dlogits of fused_classifier is 1/(B·T) [B·T = 10] times what it should be")
def layers_that_divide_again():
    def divided(losses, logits, targets, dloss, V):
        fused_classifier(losses, logits, targets, dloss, V)
        if dloss is not None:
            logits /= targets.size

    return given_layers | {"fused_classifier": divided}


@wrong("faster_layers", says="dw of matmul_backward is 1/(B·T) [B·T = 10] times what it should be")
def layers_with_a_mean():
    def mean_backward(dout, x, w):
        dx, dw, db = matmul_backward(dout, x, w)
        return dx, dw / (x.size // x.shape[-1]), db

    return given_layers | {"matmul_backward": mean_backward}


@wrong("count_parameters", says="the bias of qkv has 3C, not C")
def count_with_a_short_qkv_bias(maxT, V, L, C):
    attention = 3 * C * C + C + C * C + C
    mlp = 4 * C * C + 4 * C + 4 * C * C + C
    return V * C + maxT * C + L * (attention + mlp + 4 * C) + 2 * C


@wrong("block_forward", says="residual2 and the first result are one and the same array")
def block_that_adds_into_what_it_keeps(x, p, NH):
    kept = {}
    kept["ln1"], kept["ln1_mean"], kept["ln1_rstd"] = layernorm_forward(x, p["ln1w"], p["ln1b"])
    kept["qkv"] = matmul_forward(kept["ln1"], p["qkvw"], p["qkvb"])
    kept["atty"], kept["probabilities"] = attention_forward(kept["qkv"], NH)
    kept["residual2"] = x + matmul_forward(kept["atty"], p["attprojw"], p["attprojb"])
    kept["ln2"], kept["ln2_mean"], kept["ln2_rstd"] = layernorm_forward(kept["residual2"], p["ln2w"], p["ln2b"])
    kept["fch"] = matmul_forward(kept["ln2"], p["fcw"], p["fcb"])
    kept["fch_gelu"] = gelu_forward(kept["fch"])
    out = kept["residual2"]
    np.add(out, matmul_forward(kept["fch_gelu"], p["fcprojw"], p["fcprojb"]), out=out)
    return out, kept


@wrong("count_parameters", says="maxT·C is missing, and maxT·L·C is too much")
def count_with_positions_in_every_block(maxT, V, L, C):
    return V * C + L * (maxT * C + 12 * C * C + 13 * C) + 2 * C


@wrong("count_parameters", says="13·L·C + 2·C: L·C is too much")
def count_with_one_bias_more_in_each_block(maxT, V, L, C):
    linears = 3 * (C * C + C) + (C * C + C) + 4 * (C * C + C) + (4 * C * C + C)
    return (maxT + V) * C + L * (linears + 2 * 2 * C + C) + 2 * C


@wrong("tied_gradient", says="8 is the largest token that occurs here")
def tied_with_as_many_rows_as_tokens_say(dlogits, lnf, dencoded, tokens):
    rows = 1 + int(np.max(tokens))
    dwte = np.einsum("btv,btc->vc", dlogits[:, :, :rows], lnf)
    for place in np.ndindex(tokens.shape):
        dwte[tokens[place]] += dencoded[place]
    return dwte


@wrong("tied_gradient", says="writes into a copy, which is lost: `dwte[ids]` makes a new array")
def tied_into_picked_rows(dlogits, lnf, dencoded, tokens):
    dwte = np.tensordot(dlogits, lnf, axes=((0, 1), (0, 1)))
    for ids, rows in zip(tokens, dencoded):
        picked = dwte[ids]
        picked += rows
    return dwte


@wrong("tied_gradient", says="the reference with dencoded[:, 1:] added at tokens[:, :-1]: dencoded[b, t] belongs to")
def tied_one_row_too_late(dlogits, lnf, dencoded, tokens):
    dwte = np.tensordot(dlogits, lnf, axes=((0, 1), (0, 1)))
    for t in range(1, tokens.shape[1]):
        np.add.at(dwte, tokens[:, t - 1], dencoded[:, t])
    return dwte


@wrong("tied_gradient", says="each row of dencoded added at the next position's token")
def tied_one_token_round(dlogits, lnf, dencoded, tokens):
    dwte = np.tensordot(dlogits, lnf, axes=((0, 1), (0, 1)))
    np.add.at(dwte, np.roll(tokens, -1, axis=1), dencoded)
    return dwte


@right("faster_layers")
def faster_with_layers_that_pass_their_arguments_on(scale=0.7978845608028654):
    def gelu_forward(x):
        return x * (0.5 + 0.5 * np.tanh(scale * (x + 0.044715 * x * x * x)))

    def gelu_backward(dout, x):
        t = np.tanh(scale * (x + 0.044715 * x * x * x))
        return dout * 0.5 * ((1 + t) + x * (1 - t * t) * scale * (1 + 0.134145 * x * x))

    passed_on = {name: (lambda *arguments, f=f: f(*arguments)) for name, f in given_layers.items()}
    return passed_on | {"gelu_forward": gelu_forward, "gelu_backward": gelu_backward}


@wrong("count_parameters", says="With n and m exchanged inside of `linear(n, m)` the count is right")
def count_biases_by_the_inputs(maxT, V, L, C):
    def linear(n, m):
        return n * (m + 1)

    block = 4 * C + linear(C, 3 * C) + linear(C, C) + linear(C, 4 * C) + linear(4 * C, C)
    return V * C + maxT * C + L * block + 2 * C


@wrong("count_parameters", says="counted by the inputs of their layers, 7C, and not by the outputs, 9C")
def count_biases_by_the_inputs_in_a_loop(maxT, V, L, C):
    sizes = [(C, 3 * C), (C, C), (C, 4 * C), (4 * C, C)]
    return V * C + maxT * C + L * (4 * C + sum(i * o + i for i, o in sizes)) + 2 * C


@wrong("tied_gradient", says="with dencoded[b, t] added at row t, the position, as in dwpe")
def tied_by_the_position(dlogits, lnf, dencoded, tokens):
    dwte = _head(dlogits, lnf)
    dwte[: tokens.shape[1]] += dencoded.sum(axis=0)
    return dwte


@wrong(
    "block_forward",
    says="✗ block_forward: ln2 equals the reference with ln2 made of the branch alone: it reads residual2.",
)
def ln2_of_the_branch(x, p, NH):
    a = dict()
    a["ln1"], a["ln1_mean"], a["ln1_rstd"] = layernorm_forward(x, p["ln1w"], p["ln1b"])
    a["qkv"] = matmul_forward(a["ln1"], p["qkvw"], p["qkvb"])
    a["atty"], a["probabilities"] = attention_forward(a["qkv"], NH)
    h = matmul_forward(a["atty"], p["attprojw"], p["attprojb"])
    a["residual2"] = x + h
    a["ln2"], a["ln2_mean"], a["ln2_rstd"] = layernorm_forward(h, p["ln2w"], p["ln2b"])
    a["fch"] = matmul_forward(a["ln2"], p["fcw"], p["fcb"])
    a["fch_gelu"] = gelu_forward(a["fch"])
    h = matmul_forward(a["fch_gelu"], p["fcprojw"], p["fcprojb"])
    return a["residual2"] + h, a


@wrong("tied_gradient", says="the reference with the lookup's part B times")
def tied_looks_all_up_in_each_turn(dlogits, lnf, dencoded, tokens):
    B, T, Vp = dlogits.shape
    dwte = np.zeros((Vp, lnf.shape[2]))
    for b in range(B):
        dwte += dlogits[b].T @ lnf[b]
        np.add.at(dwte, tokens, dencoded)
    return dwte


@wrong("tied_gradient", says="both parts B times")
def tied_takes_all_in_each_turn(dlogits, lnf, dencoded, tokens):
    dwte = np.zeros((dlogits.shape[-1], lnf.shape[-1]))
    for _ in range(len(tokens)):
        dwte += np.einsum("btv,btc->vc", dlogits, lnf)
        np.add.at(dwte, tokens, dencoded)
    return dwte


def _losses_of_its_own(losses, logits, targets, dloss, V):
    z = logits[..., :V] - logits[..., :V].max(axis=-1, keepdims=True)
    at = targets[..., None]
    picked = np.take_along_axis(z, at, axis=-1)[..., 0]
    np.exp(z, out=z)
    total = z.sum(axis=-1)
    losses = np.log(total) - picked  # noqa: F841
    if dloss is not None:
        z *= (dloss / total)[..., None]
        np.put_along_axis(z, at, np.take_along_axis(z, at, axis=-1) - dloss, axis=-1)
        logits[..., :V] = z
        logits[..., V:] = 0


@wrong("faster_layers", says="gives the name `losses` to another array and leaves the caller's array alone")
def losses_in_another_array():
    return given_layers | {"fused_classifier": _losses_of_its_own}


@wrong(
    "block_backward", says="✗ block_backward: dattprojw equals the reference with the branch through ln2 in place of"
)
def attproj_from_the_branch(dout, x, p, a, NH):
    g = {}
    d, g["fcprojw"], g["fcprojb"] = matmul_backward(dout, a["fch_gelu"], p["fcprojw"])
    d, g["fcw"], g["fcb"] = matmul_backward(gelu_backward(d, a["fch"]), a["ln2"], p["fcw"])
    d, g["ln2w"], g["ln2b"] = layernorm_backward(d, a["residual2"], p["ln2w"], a["ln2_mean"], a["ln2_rstd"])
    straight = dout + d
    d, g["attprojw"], g["attprojb"] = matmul_backward(d, a["atty"], p["attprojw"])
    d = attention_backward(d, a["qkv"], a["probabilities"], NH)
    d, g["qkvw"], g["qkvb"] = matmul_backward(d, a["ln1"], p["qkvw"])
    d, g["ln1w"], g["ln1b"] = layernorm_backward(d, x, p["ln1w"], a["ln1_mean"], a["ln1_rstd"])
    return straight + d, g


@wrong("initial_tensor", says="of its numbers are ±0.04")
def initial_clipped_at_two_deviations(name, shape, L, rng):
    if name in ("ln1w", "ln2w", "lnfw"):
        return np.ones(shape, np.float32)
    if name.endswith("b"):
        return np.zeros(shape, np.float32)
    std = 0.02 / np.sqrt(2 * L) if name in ("attprojw", "fcprojw") else 0.02
    return np.clip(rng.normal(0, std, shape), -2 * std, 2 * std).astype(np.float32)


@wrong("initial_tensor", says="It has some farther out, too")
def initial_drawn_again_beyond_two_deviations(name, shape, L, rng):
    if name in ("ln1w", "ln2w", "lnfw"):
        return np.ones(shape, np.float32)
    if name.endswith("b"):
        return np.zeros(shape, np.float32)
    std = 0.02 / np.sqrt(2 * L) if name in ("attprojw", "fcprojw") else 0.02
    drawn = rng.normal(0, std, shape)
    while (far := np.abs(drawn) > 2 * std).any():
        drawn[far] = rng.normal(0, std, far.sum())
    return drawn.astype(np.float32)


@wrong("block_backward", says="with x + atty in place of residual2")
def block_without_the_projection_in_residual2(dout, x, p, a, NH):
    g = dict.fromkeys(p)
    residual2 = x + a["atty"]  # what went into the second half
    d, g["fcprojw"], g["fcprojb"] = matmul_backward(dout, a["fch_gelu"], p["fcprojw"])
    d, g["fcw"], g["fcb"] = matmul_backward(gelu_backward(d, a["fch"]), a["ln2"], p["fcw"])
    d, g["ln2w"], g["ln2b"] = layernorm_backward(d, residual2, p["ln2w"], a["ln2_mean"], a["ln2_rstd"])
    d_mid = dout + d
    d, g["attprojw"], g["attprojb"] = matmul_backward(d_mid, a["atty"], p["attprojw"])
    d = attention_backward(d, a["qkv"], a["probabilities"], NH)
    d, g["qkvw"], g["qkvb"] = matmul_backward(d, a["ln1"], p["qkvw"])
    d, g["ln1w"], g["ln1b"] = layernorm_backward(d, x, p["ln1w"], a["ln1_mean"], a["ln1_rstd"])
    return d_mid + d, g


@wrong("block_forward", says="the reference without qkvb")
def block_without_the_bias_of_qkv(x, p, NH):
    a = {}
    a["ln1"], a["ln1_mean"], a["ln1_rstd"] = layernorm_forward(x, p["ln1w"], p["ln1b"])
    a["qkv"] = a["ln1"] @ p["qkvw"].T
    a["atty"], a["probabilities"] = attention_forward(a["qkv"], NH)
    a["residual2"] = x + matmul_forward(a["atty"], p["attprojw"], p["attprojb"])
    a["ln2"], a["ln2_mean"], a["ln2_rstd"] = layernorm_forward(a["residual2"], p["ln2w"], p["ln2b"])
    a["fch"] = matmul_forward(a["ln2"], p["fcw"], p["fcb"])
    a["fch_gelu"] = gelu_forward(a["fch"])
    return a["residual2"] + matmul_forward(a["fch_gelu"], p["fcprojw"], p["fcprojb"]), a


@wrong("block_backward", says="dfcprojb is 1/(B·T) [B·T = 15] times what it should be")
def block_with_the_mean_of_bias_rows(dout, x, p, a, NH):
    g = {}

    def linear(d, inp, w):
        rows = d.reshape(-1, d.shape[-1])
        return d @ w, rows.T @ inp.reshape(-1, inp.shape[-1]), rows.mean(axis=0)

    d, g["fcprojw"], g["fcprojb"] = linear(dout, a["fch_gelu"], p["fcprojw"])
    d = gelu_backward(d, a["fch"])
    d, g["fcw"], g["fcb"] = linear(d, a["ln2"], p["fcw"])
    d, g["ln2w"], g["ln2b"] = layernorm_backward(d, a["residual2"], p["ln2w"], a["ln2_mean"], a["ln2_rstd"])
    dres = dout + d
    d, g["attprojw"], g["attprojb"] = linear(dres, a["atty"], p["attprojw"])
    d = attention_backward(d, a["qkv"], a["probabilities"], NH)
    d, g["qkvw"], g["qkvb"] = linear(d, a["ln1"], p["qkvw"])
    d, g["ln1w"], g["ln1b"] = layernorm_backward(d, x, p["ln1w"], a["ln1_mean"], a["ln1_rstd"])
    return dres + d, g


@wrong("tied_gradient", says="a token's last row as often as it occurs")
def tied_counts_the_last_row(dlogits, lnf, dencoded, tokens):
    B, T, Vp = dlogits.shape
    dwte = np.einsum("btv,btc->vc", dlogits, lnf)
    times = np.bincount(tokens.ravel(), minlength=Vp)
    bottom = np.zeros_like(dwte)
    bottom[tokens] = dencoded
    return dwte + times[:, None] * bottom


@wrong("tied_gradient", says="0 for the tokens that do not occur")
def tied_of_the_tokens_that_occur(dlogits, lnf, dencoded, tokens):
    Vp, C = dlogits.shape[-1], lnf.shape[-1]
    dwte = np.zeros((Vp, C), lnf.dtype)
    for token in np.unique(tokens):
        from_head = (dlogits[..., token, None] * lnf).sum(axis=(0, 1))
        from_lookup = dencoded[tokens == token].sum(axis=0)
        dwte[token] = from_head + from_lookup
    return dwte


@wrong("faster_layers", says="changes logits with dloss=None: then only the losses are wanted")
def layers_whose_classifier_always_writes():
    def classifier(losses, logits, targets, dloss, V):
        z, at = logits[..., :V], targets[..., None]
        z -= z.max(axis=-1, keepdims=True)
        right = np.take_along_axis(z, at, axis=-1)
        np.exp(z, out=z)
        total = z.sum(axis=-1, keepdims=True)
        losses[...] = (np.log(total) - right)[..., 0]
        if dloss is not None:
            z *= dloss / total
            np.put_along_axis(z, at, np.take_along_axis(z, at, axis=-1) - dloss, axis=-1)
            logits[..., V:] = 0

    return given_layers | {"gelu_forward": gelu_forward, "gelu_backward": gelu_backward, "fused_classifier": classifier}


@wrong("faster_layers", says="out of encoder_forward equals wte[tokens] alone: the positions are missing")
def layers_without_positions():
    def encoder_forward(tokens, wte, wpe):
        return wte[tokens]

    return given_layers | {"encoder_forward": encoder_forward}


@wrong("count_parameters", says="as its layer has outputs, not inputs. Your count is")
def count_with_a_bias_for_each_input(maxT, V, L, C):
    def linear(n, m):
        return n * (m + 1)

    layernorm = 2 * C
    block = 2 * layernorm + linear(C, 3 * C) + linear(C, C) + linear(C, 4 * C) + linear(4 * C, C)
    return V * C + maxT * C + L * block + layernorm


@wrong("count_parameters", says="with `m` in place of `n`, in the line `total += n * m + n`")
def count_with_biases_of_the_inputs(maxT, V, L, C):
    total = V * C + maxT * C + 2 * C
    for _ in range(L):
        total += 2 * (C + C)  # ln1, ln2
        for n, m in [(C, 3 * C), (C, C), (C, 4 * C), (4 * C, C)]:
            total += n * m + n
    return total


@wrong("initial_tensor", says="wte does not write to the residual stream: only attprojw and fcprojw get the factor")
def initial_factor_everywhere(name, shape, L, rng):
    if name.endswith("b"):
        return np.zeros(shape, np.float32)
    if name.startswith("ln"):
        return np.ones(shape, np.float32)
    std = 0.02 / np.sqrt(L)
    return rng.normal(0, std, shape).astype(np.float32)


@wrong("initial_tensor", says="the layers of attprojw have different standard deviations")
def initial_with_the_layers_own_number(name, shape, L, rng):
    if name.endswith("b"):
        return np.zeros(shape, np.float32)
    if name.startswith("ln"):
        return np.ones(shape, np.float32)
    if name in ("attprojw", "fcprojw"):
        return np.stack([rng.normal(0, 0.02 / (l + 1), shape[1:]) for l in range(L)]).astype(np.float32)
    return rng.normal(0, 0.02, shape).astype(np.float32)
