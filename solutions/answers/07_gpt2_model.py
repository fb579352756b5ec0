"""Answers to the exercises of lesson 07 as strangers write them, with words that wrong ones must get."""

# ruff: noqa: F821, the layers are those at the top of the notebook
import numpy as np

from llmc.course.authoring.answers import right, wrong


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


@wrong("count_parameters", says="as after a sum in float32")
def count_in_float32(maxT, V, L, C):
    sizes = [V * C, maxT * C] + L * [12 * C * C + 13 * C] + [2 * C]
    return int(np.array(sizes, np.float32).sum())


@wrong("count_parameters", says="our solution gives with `14 * C` in place of `13 * C`")
def count_with_one_bias_more_in_each_block(maxT, V, L, C):
    linears = 3 * (C * C + C) + (C * C + C) + 4 * (C * C + C) + (4 * C * C + C)
    return (maxT + V) * C + L * (linears + 2 * 2 * C + C) + 2 * C


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


def _plain(name, shape):
    """What the tensors begin with that are not drawn; None for the others."""
    ones = name[:2] == "ln" and name[-1] == "w"
    return np.full(shape, ones, np.float32) if ones or name[-1] == "b" else None


@wrong("initial_tensor", says="is not from a normal distribution")
def initial_from_another_distribution(name, shape, L, rng):
    std = 0.02 / np.sqrt(2 * L) if name in ("attprojw", "fcprojw") else 0.02
    drawn = rng.laplace(0, std / np.sqrt(2), shape).astype(np.float32)
    return drawn if _plain(name, shape) is None else _plain(name, shape)


@wrong("initial_tensor", says="that tensor does not write to the residual stream")
def initial_factor_everywhere(name, shape, L, rng):
    drawn = rng.normal(0, 0.02 / np.sqrt(L), shape).astype(np.float32)
    return drawn if _plain(name, shape) is None else _plain(name, shape)


@wrong("initial_tensor", says="the layers of attprojw have different standard deviations")
def initial_with_the_layers_own_number(name, shape, L, rng):
    values = _plain(name, shape)
    if values is None:
        values = rng.normal(0, 0.02, shape).astype(np.float32)
        for layer in range(L) if name in ("attprojw", "fcprojw") else ():
            values[layer] /= layer + 1
    return values


@right("block_forward")
def block_by_hand(x, p, NH):
    def norm(name, x):
        a[name + "_mean"], a[name + "_rstd"] = x.mean(-1), (x.var(-1) + 1e-5) ** -0.5
        a[name] = (x - a[name + "_mean"][..., None]) * a[name + "_rstd"][..., None] * p[name + "w"] + p[name + "b"]
        return a[name]

    (B, T, C), a = x.shape, {"atty": np.zeros_like(x), "probabilities": np.zeros((len(x), NH, *2 * x.shape[1:2]))}
    a["qkv"] = np.einsum("btc,oc->bto", norm("ln1", x), p["qkvw"]) + p["qkvb"]
    parts, out = a["qkv"].reshape(B, T, 3, NH, C // NH), a["atty"].reshape(B, T, NH, C // NH)
    for b, h, t in np.ndindex(B, NH, T):
        e = np.exp(parts[b, : t + 1, 1, h] @ parts[b, t, 0, h] / (C // NH) ** 0.5)
        a["probabilities"][b, h, t, : t + 1] = e / e.sum()
        out[b, t, h] = e @ parts[b, : t + 1, 2, h] / e.sum()
    a["residual2"] = x + a["atty"] @ p["attprojw"].T + p["attprojb"]
    a["fch"] = h = norm("ln2", a["residual2"]) @ p["fcw"].T + p["fcb"]
    a["fch_gelu"] = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
    return a["residual2"] + a["fch_gelu"] @ p["fcprojw"].T + p["fcprojb"], a


@right("block_forward")
def block_in_two_halves(x, p, NH):
    a = {}

    def half(stream, ln, first, inner, last):
        a[ln], a[ln + "_mean"], a[ln + "_rstd"] = layernorm_forward(stream, p[ln + "w"], p[ln + "b"])
        return stream + inner(a[ln] @ p[first + "w"].T + p[first + "b"]) @ p[last + "w"].T + p[last + "b"]

    def attend(qkv):
        a["qkv"], (a["atty"], a["probabilities"]) = qkv, attention_forward(qkv, NH)
        return a["atty"]

    def bend(fch):
        a["fch"], a["fch_gelu"] = fch, gelu_forward(fch)
        return a["fch_gelu"]

    a["residual2"] = half(x, "ln1", "qkv", attend, "attproj")
    return half(a["residual2"], "ln2", "fc", bend, "fcproj"), a


@wrong("block_forward", says="activations['residual2'] equals out: += writes into both")
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


@wrong("block_forward", says="activations['ln1'] equals the layernorm of x plus attention")
def block_of_2017(x, p, NH):
    a = {"qkv": matmul_forward(x, p["qkvw"], p["qkvb"])}
    a["atty"], a["probabilities"] = attention_forward(a["qkv"], NH)
    a["residual2"] = x + matmul_forward(a["atty"], p["attprojw"], p["attprojb"])
    a["ln1"], a["ln1_mean"], a["ln1_rstd"] = layernorm_forward(a["residual2"], p["ln1w"], p["ln1b"])
    a["fch"] = matmul_forward(a["ln1"], p["fcw"], p["fcb"])
    a["fch_gelu"] = gelu_forward(a["fch"])
    out = a["ln1"] + matmul_forward(a["fch_gelu"], p["fcprojw"], p["fcprojb"])
    a["ln2"], a["ln2_mean"], a["ln2_rstd"] = layernorm_forward(out, p["ln2w"], p["ln2b"])
    return a["ln2"], a


def _chain(layers, dout, x, p, a, NH):
    """dx and the gradients by name, with one running gradient. layers: the four backward functions."""
    matmul, gelu, layernorm, attention = layers
    g, dresidual = {}, dout.copy()
    d, g["fcprojw"], g["fcprojb"] = matmul(dresidual, a["fch_gelu"], p["fcprojw"])
    d, g["fcw"], g["fcb"] = matmul(gelu(d, a["fch"]), a["ln2"], p["fcw"])
    d, g["ln2w"], g["ln2b"] = layernorm(d, a["residual2"], p["ln2w"], a["ln2_mean"], a["ln2_rstd"])
    dresidual += d
    d, g["attprojw"], g["attprojb"] = matmul(dresidual, a["atty"], p["attprojw"])
    d, g["qkvw"], g["qkvb"] = matmul(attention(d, a["qkv"], a["probabilities"], NH), a["ln1"], p["qkvw"])
    d, g["ln1w"], g["ln1b"] = layernorm(d, x, p["ln1w"], a["ln1_mean"], a["ln1_rstd"])
    return dresidual + d, g


@right("block_backward")
def backward_one_sequence_at_a_time(dout, x, p, a, NH):
    dx, total = np.empty_like(x), {}
    for b in range(len(x)):
        one, layers = slice(b, b + 1), (matmul_backward, gelu_backward, layernorm_backward, attention_backward)
        activations = {name: value[one] for name, value in a.items()}
        dx[one], g = _chain(layers, dout[one], x[one], p, activations, NH)
        total = {name: total.get(name, 0) + value for name, value in g.items()}
    return dx, total


@right("block_backward")
def backward_in_two_halves(dout, x, p, a, NH):
    g = {}

    def half(d, stream, ln, first, inner, last, read):
        back, g[last + "w"], g[last + "b"] = matmul_backward(d, a[read], p[last + "w"])
        back, g[first + "w"], g[first + "b"] = matmul_backward(inner(back), a[ln], p[first + "w"])
        back, g[ln + "w"], g[ln + "b"] = layernorm_backward(back, stream, p[ln + "w"], a[ln + "_mean"], a[ln + "_rstd"])
        return d + back

    d = half(dout, a["residual2"], "ln2", "fc", lambda d: gelu_backward(d, a["fch"]), "fcproj", "fch_gelu")
    attend = lambda d: attention_backward(d, a["qkv"], a["probabilities"], NH)  # noqa: E731
    return half(d, x, "ln1", "qkv", attend, "attproj", "atty"), g


_gradients = {}


@wrong("block_backward", says="it keeps something from one call to the next")
def backward_adds_up_over_calls(dout, x, p, a, NH):
    layers = matmul_backward, gelu_backward, layernorm_backward, attention_backward
    dx, g = _chain(layers, dout, x, p, a, NH)
    for name, array in g.items():
        _gradients[name, array.shape] = _gradients.get((name, array.shape), 0) + array
    return dx, {name: _gradients[name, array.shape] for name, array in p.items()}


@wrong("block_backward", says="gradients['fcprojb'] is 0.0666667 times what it should be, everywhere")
def backward_with_means_of_rows(dout, x, p, a, NH):
    def linear_backward(dout, x, w):
        rows = dout.reshape(-1, dout.shape[-1])
        return dout @ w, rows.T @ x.reshape(-1, x.shape[-1]), rows.mean(axis=0)

    return _chain((linear_backward, gelu_backward, layernorm_backward, attention_backward), dout, x, p, a, NH)


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


@wrong("tied_gradient", says="dwte equals the head's part alone")
def tied_into_picked_rows(dlogits, lnf, dencoded, tokens):
    dwte = np.tensordot(dlogits, lnf, axes=((0, 1), (0, 1)))
    for ids, rows in zip(tokens, dencoded):
        picked = dwte[ids]
        picked += rows
    return dwte


@wrong("tied_gradient", says="passes this whole check with `range(T)` in place of `range(T - 1)`")
def tied_without_the_last_position(dlogits, lnf, dencoded, tokens):
    B, T, Vp = dlogits.shape
    out = np.zeros((Vp, lnf.shape[2]))
    for b in range(B):
        for t in range(T):
            out += np.outer(dlogits[b, t], lnf[b, t])
        for t in range(T - 1):
            out[tokens[b, t]] += dencoded[b, t]
    return out


def _gelus():
    scale = float(np.sqrt(2 / np.pi))

    def gelu_forward(x):
        return x * (0.5 + 0.5 * np.tanh(scale * (x + 0.044715 * x * x * x)))

    def gelu_backward(dout, x):
        t = np.tanh(scale * (x + 0.044715 * x * x * x))
        return dout * 0.5 * ((1 + t) + x * (1 - t * t) * scale * (1 + 0.134145 * x * x))

    return {"gelu_forward": gelu_forward, "gelu_backward": gelu_backward}


@right("faster_layers")
def faster_with_layers_that_pass_their_arguments_on():
    return {name: (lambda *arguments, f=f: f(*arguments)) for name, f in given_layers.items()} | _gelus()


@right("faster_layers")
def faster_with_six_of_them():
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

    kept = ("layernorm_forward", "layernorm_backward", "residual_forward")
    return {name: given_layers[name] for name in kept} | _gelus() | {"fused_classifier": fused_classifier}


@wrong("faster_layers", says="gelu_backward is right only if gelu_forward has just had these arrays")
def faster_keeps_the_last_tanh():
    kept, scale = {}, (2 / np.pi) ** 0.5

    def gelu_forward(x):
        kept["tanh"] = np.tanh(scale * (x + 0.044715 * x * x * x))
        return 0.5 * x * (1 + kept["tanh"])

    def gelu_backward(dout, x):
        t = kept["tanh"]
        return dout * 0.5 * ((1 + t) + x * (1 - t * t) * scale * (1 + 0.134145 * x * x))

    return given_layers | {"gelu_forward": gelu_forward, "gelu_backward": gelu_backward}


@wrong("faster_layers", says="with `z` in place of `None if dloss is None else z`")
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
