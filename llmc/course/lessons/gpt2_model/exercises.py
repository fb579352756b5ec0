"""Lesson 07's exercises: what is right, what is tried, and which mistakes have a name."""

import numpy as np

from llmc.config import GPT2Config
from llmc.course.checks.diagnosis import WrongAnswer, describe
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.guards.inputs import read_only
from llmc.course.checks.shape_dtype import wrong_kind
from llmc.course.lessons.gpt2_model.layers import judge_layers, sgemm, sgemms_in_a_step  # noqa: F401, for exercise 6
from llmc.course.mutation.program import solution_of

FRESH, INIT = "3.1 · What a fresh model should say", "3.2 · Why 1/√(2L)"
FORK, CHAIN = "5.1 · The fork", "5.2 · The block, last line first"
ONES, TO_THE_STREAM = ("ln1w", "ln2w", "lnfw"), ("attprojw", "fcprojw")
SIZES = [(3, 5, 6, 3), (3, 5, 6, 3), (1, 2, 4, 1), (2, 1, 9, 3), (2, 7, 10, 2), (9, 33, 40, 5)]  # B, T, C, NH

# ------------------------------------------------------------------------------------------------------- inputs


def models(c):
    """maxT, V, L, C: small models of fixed and of random sizes, then GPT-2 124M and 1.6B."""
    any_sizes = (tuple(int(n) for n in c.rng.integers((5, 20, 2, 8), (600, 900, 30, 300))) for _ in range(3))
    yield from [(7, 11, 2, 10), (5, 130, 3, 10), *any_sizes, (1024, 50257, 12, 768), (1024, 50257, 48, 1600)]


def tensors(c):
    """name, shape, L of all sixteen tensors, for 3 and for 7 layers."""
    for L in (3, 7):
        yield from ((p.name, p.shape, L) for p in GPT2Config(maxT=90, V=128, L=L, NH=2, C=60).parameter_table())


def blocks(c):
    """x (B, T, C), p {name: array}, NH: odd shapes, one of them twice; a single token."""
    for B, T, C, NH in SIZES:
        shapes = {"qkvw": (3 * C, C), "attprojw": (C, C), "fcw": (4 * C, C), "fcprojw": (C, 4 * C)}
        shapes |= {"qkvb": (3 * C,), "fcb": (4 * C,)}
        names = "ln1w ln1b qkvw qkvb attprojw attprojb ln2w ln2b fcw fcb fcprojw fcprojb".split()
        size = {name: 0.15 if len(shapes.get(name, ())) == 2 else 0.4 for name in names}  # moderate, so that
        size["qkvw"] = 0.06  # attention mixes, and does not choose
        p = {name: read_only(size[name] * c.random(*shapes.get(name, (C,)))) for name in names}
        yield c.random(B, T, C), p, NH


def blocks_and_gradients(c):
    """dout, x (B, T, C), p, a {name: array}, NH."""
    for x, p, NH in blocks(c):
        a = {name: read_only(array) for name, array in block_forward(x, p, NH)[1].items()}
        yield c.random(*x.shape), x, p, a, NH


def block_forward(x, p, NH):
    """out (B, T, C) and the activations by name: our solution."""
    return solution_of("block_forward").function()(x, p, NH)


def tables(c):
    """dlogits (B, T, Vp), lnf, dencoded (B, T, C), tokens (B, T): the last rows of the table need not be looked up."""
    sizes = [(3, 5, 11, 6, 10), (3, 5, 11, 6, 8), (1, 2, 4, 3, 3), (2, 9, 7, 5, 5), (66, 67, 68, 65, 60)]
    for B, T, Vp, C, largest in sizes:
        tokens = c.rng.integers(0, largest + 1, (B, T))  # (B, T)
        tokens[-1, -2:] = tokens[0, 0] = largest  # at least one token twice
        yield *(c.random(B, T, n) for n in (Vp, C, C)), tokens


# --------------------------------------------------------------------------------------------------------- rules


def whole_number(tried):
    """A sentence unless the count is an int, or if only the digits beyond those of float32 are wrong."""
    n, right = tried.got["count"], tried.expected["count"]
    if not isinstance(n, int | np.integer):
        return f"a count is a whole number, an int; this is {describe(n)}"
    if n != right > 2**24 and abs(n - right) < 1e-6 * right and np.float32(n) == n:
        return "the first digits are right, as after a sum in float32, whose whole numbers have gaps from 2²⁴ on"
    return None


def named_arrays(tried):
    """A sentence unless the second result is a dict of all names, each of its own array."""
    label, right = [*tried.expected.items()][0]  # the dict
    (what, mine), first = ({"a": "activations", "g": "gradients"}[label], tried.got[label]), [*tried.got][0]
    if not isinstance(mine, dict):
        return f"the second result should be the dict of {what}, {{name: array}}, but is {describe(mine)}"
    for name, array in right.items():
        if name not in mine:
            return f"the dict of {what} has no {name!r}"
        if not _alike(mine[name], array):
            others = {**mine, first: tried.got[first]}.items()
            same = next((k for k, other in others if k != name and other is mine[name]), None)
            there = next((k for k, other in right.items() if _alike(mine[name], other)), None)
            if there or same:
                of = f"holds what belongs in {label}[{there!r}]" if there else f"and {same} are one and the same array"
                return f"{label}[{name!r}] {of}"
            return None
    return None


def _alike(one, other):
    return np.shape(one) == np.shape(other) and one is not None and np.allclose(one, other)


def rows_of_all(tried):
    """A sentence if dwte ends with the largest token that occurs."""
    dwte, right, most = tried.got["dwte"], tried.expected["dwte"], tried.given["tokens"].max()
    if np.shape(dwte) != (most + 1, right.shape[1]) or len(right) == most + 1:
        return None
    every = f"dlogits has {len(right)} entries for each position, and {most} is the largest token that occurs here"
    return f"dwte has shape {np.shape(dwte)}, expected (Vp, C) = {right.shape}: {every}"


def judge_start(c, name, shape, L, got, drawn):
    """WrongAnswer unless `got` are initial values of the tensor `name`. drawn: has the generator moved on?"""
    told, look = wrong_kind(name, got, np.empty(shape, np.float32)), FRESH
    if not told and (name in ONES or name.endswith("b")):
        start = "ones: a layernorm starts by changing nothing" if name in ONES else "zeros: it is a bias"
        told = f"{name} should be {start}" if (got != (name in ONES)).any() else ""
    elif not told:
        told = _of_distribution(name, got, drawn)
        told, look = (told, FRESH) if told else _of_width(name, L, got)
    if told:
        raise WrongAnswer(told, look=c.exercise.place(look))


def _of_distribution(name, got, drawn):
    """A sentence unless the numbers are from the given generator, normal around 0, and others in each layer."""
    mean, std, largest = float(got.mean()), float(got.std()), float(np.abs(got).max())
    near, zeros, clipped = ((each).mean() for each in (np.abs(got - mean) < std, got == 0, np.abs(got) == largest))
    layers = [float(layer.std()) for layer in got] if got.ndim == 3 else [std]
    each, short = ", ".join(f"{one:.5f}" for one in layers[:3]), largest < 2.7 * std  # of thousands it is beyond 3
    even = abs((np.abs(got) < largest / 2).mean() - 0.5) < 0.05
    normal = f"{name} is not from a normal distribution"
    wrong = [
        (std == 0, f"{name} is constant: its numbers must differ, or all channels learn the same thing"),
        (not drawn, f"{name} was not drawn from the given rng: the caller decides, with its seed, which numbers come"),
        (zeros > 0.01, f"{zeros:.1%} of the numbers of {name} are 0"),
        (max(layers) > 1.1 * min(layers), f"the layers of {name} differ in their standard deviations, {each}, …"),
        (clipped > 0.01, f"{normal}: {clipped:.1%} of its numbers are ±{largest:.2g}"),
        (short and even, f"{name} is uniform, between ±{largest:.2g}, not from a normal distribution"),
        (short, f"{normal}: its numbers lie between ±{largest:.2g}, and it has some farther out, too"),
        (not 0.63 < near < 0.73, f"{normal}: {near:.0%} lie within one standard deviation, not 68%"),
        (got.ndim == 3 and (got[0] == got[1]).all(), f"{name} is the same in every layer"),
        (abs(mean) > 0.1 * std, f"{name} has mean {mean:.3g}, expected 0"),
    ]
    return next((told for so, told in wrong if so), None)


def _of_width(name, L, got):
    """(what is wrong with the standard deviation, where to look), or (None, "")."""
    std, factor, stream = float(got.std()), (2 * L) ** -0.5, name in TO_THE_STREAM
    wanted = 0.02 * factor if stream else 0.02
    if abs(std / wanted - 1) < 5 / np.sqrt(2 * got.size):  # five times what chance does to it
        return None, ""
    reasons = {
        0.02**0.5: "0.02 is the standard deviation, not the variance",
        0.02**0.5 * factor: "0.02 is the standard deviation, not the variance",
        0.02**2: "0.02 is the standard deviation, and this is its square",
        1.0: f"{name} is not scaled by 0.02",
        got.shape[-1] ** -0.5: f"{name} has 1/√(its inputs); here it does not depend on them",
    }
    factors = {
        0.02 * L**-0.5: "it is divided by √L, but every block writes to the stream twice: the factor is 1/√(2L)",
        0.02 * factor**2: "1/(2L) lacks a root: variances add up, so the factor is 1/√(2L)",
        0.02 / L: "1/L lacks a root, and every block writes twice: the factor is 1/√(2L)",
        0.02 / factor: "it is multiplied by √(2L), where it should be divided",
        0.02 * 0.5**0.5: "it is divided by √2, and the factor is 1/√(2L)",
        0.02: f"{name} writes to the residual stream, so it needs 1/√(2L), too",
        0.02 * factor: f"{name} does not write to the residual stream: only attprojw and fcprojw get the factor",
    }
    factors = factors if stream else dict.fromkeys(factors, factors[0.02 * factor])
    why = next((words for s, words in (reasons | factors).items() if abs(std / s - 1) < 0.05 < abs(wanted / s - 1)), "")
    look = FRESH if why in reasons.values() or not (why or stream) else INIT
    return f"{name} has standard deviation {std:.5f}, expected {wanted:.5f}" + f": {why}" * bool(why), look


# ---------------------------------------------------------------------------------------------------- exercises

Exercise(
    "count_parameters",
    "07",
    returns="count",
    cases=models,
    rules=(whole_number,),
    look="4.1 · Every tensor, to the last number",
    mistakes=r"""
        with V·C more: the output head is wte itself, not a tensor of its own | tables = V * C => tables = 2 * V * C
        with an output head of its own, and a bias of it: it is wte itself, without one
            | tables = V * C => tables = V + 2 * V * C
        with V more, a bias of the output head, which has none | tables = V * C => tables = V + V * C
        without the token table wte | V * C + maxT * C => maxT * C
        without the position table wpe: positions have a table, too | + maxT * C =>
        with wpe in each block: there is one | maxT * C => L * maxT * C
        with the last layernorm in each block: there is one, after all of them | + 2 * C => + L * 2 * C
        without the last layernorm (lnfw, lnfb) | + 2 * C =>
        with C instead of 2·C for the last layernorm: it has a weight and a bias | + 2 * C => + C
        with the padding rows of wte: they are no parameters of the model | = V * C => = (V + 127) // 128 * 128 * C
        without the biases of the four linear layers | 13 * C => 4 * C
        without all vectors: the biases, and the layernorms' weights and biases | + 13 * C => ;; + 2 * C =>
        without the layernorms | 13 * C => 9 * C ;; + 2 * C =>
        with one vector in each layernorm: it has a weight and a bias | 13 * C => 11 * C ;; + 2 * C => + C
        with 9·C for the vectors of a block: two layernorms have 4C, the bias of fc 4C, those of qkv and attproj 4C
            | 13 * C => 9 * C
        with 11·C for the vectors of a block: the biases of the four layers have 9C, the layernorms 4C
            | 13 * C => 11 * C
        with 10·C for the vectors of a block: the bias of qkv has 3C, that of fc has 4C | 13 * C => 10 * C
        with 12·C for the vectors of a block, one of C numbers too few | 13 * C => 12 * C
        with 14·C for the vectors of a block, one of C numbers too many | 13 * C => 14 * C
        with 4C biases in fcproj: it comes back to C | 13 * C => 16 * C
        with C·C numbers in qkvw: queries, keys and values are 3C × C | 12 * C * C => 10 * C * C
        with a layer qkv that is C wide: queries, keys and values are 3C | 12 * C * C + 13 => 10 * C * C + 11
        without the matrix attprojw | 12 * C * C => 11 * C * C
        without the layer attproj, which mixes the heads: a matrix and a bias | 12 * C * C + 13 => 11 * C * C + 12
        without the layer qkv | 12 * C * C + 13 => 9 * C * C + 10
        with 4·C² less in each block: the MLP has two matrices of 4C², and qkv and attproj have 3C² and C²
            | 12 * C * C => 8 * C * C
        with matrices of an MLP that is C wide inside: it is 4C wide | 12 * C * C => 6 * C * C
        with one block: there are L | L * block => block
        with 3072 in place of 4C, the MLP's inner width | 12 * C * C + 13 * C => 4 * C * C + 9 * C + 3072 * (2 * C + 1)
        with heads of 64 channels, C // 64 of them: C need not be a multiple of 64
            | 12 * C * C + 13 * C => 9 * C * C + 10 * C + C // 64 * 3 * 64 * (C + 1)
    """,
)
Exercise("initial_tensor", "07", returns="values", cases=tensors, look=FRESH)

LINEAR = ("qkv", "attproj", "fc", "fcproj")
BIASES = "".join(f'\n without {n}b | p["{n}b"] => 0 * p["{n}b"]' for n in ("ln1", "ln2", *LINEAR))
WEIGHTS = "".join(f'\n without {n}w | p["{n}w"] => p["{n}w"] ** 0' for n in ("ln1", "ln2"))
RESHAPED = "".join(
    f'\n with {n}w.reshape(…) in place of {n}w.T: reshape does not transpose'
    f' | p["{n}w"] => p["{n}w"].reshape(p["{n}w"].shape[::-1]).T'
    for n in ("qkv", "fc", "fcproj")
)

Exercise(
    "block_forward",
    "07",
    returns="out a",
    cases=blocks,
    rules=(named_arrays,),
    look="2.2 · One block",
    mistakes=r"""
        = the layernorm of x plus attention: GPT-2 normalises x first, and attention reads ln1
            | a["ln1"], a["ln1_mean"], a["ln1_rstd"] = … => a["ln1"], a["ln1_mean"], a["ln1_rstd"] = layernorm_forward(
            x + matmul_forward(attention_forward(matmul_forward(x, p["qkvw"], p["qkvb"]), NH)[0], p["attprojw"],
            p["attprojb"]), p["ln1w"], p["ln1b"])
        with x in place of ln1 before qkv | matmul_forward(a["ln1"] => matmul_forward(x
        = the branch alone: x is not added to it | residual_forward(x, attproj) => attproj
        with ln1 added in place of x: the stream itself goes on, not its layernorm
            | residual_forward(x, => residual_forward(a["ln1"],
        without attprojw and attprojb: atty goes through a linear layer first | attproj = … => attproj = a["atty"]
        = what attproj makes of it: keep what attention gave | attproj = matmul => a["atty"] = attproj = matmul
        with ln2 made of x: the second half of the block reads residual2
            | layernorm_forward(a["residual2"] => layernorm_forward(x
        with ln2 made of the branch alone: it reads residual2
            | layernorm_forward(a["residual2"] => layernorm_forward(attproj
        with ln1w and ln1b in place of ln2w and ln2b | p["ln2w"], p["ln2b"] => p["ln1w"], p["ln1b"]
        with fch made of residual2: it is made of ln2 | matmul_forward(a["ln2"] => matmul_forward(a["residual2"]
        without GELU | gelu_forward(a["fch"]) => a["fch"]
        with x · sigmoid(1.702 · x) in place of GELU
            | gelu_forward(a["fch"]) => a["fch"] / (1 + np.exp(-1.702 * a["fch"]))
        = the branch alone: residual2 is not added to it | residual_forward(a["residual2"], fcproj) => fcproj
        with x added in place of residual2: what attention wrote is lost
            | residual_forward(a["residual2"] => residual_forward(x
        with ln2 added in place of residual2: the stream itself goes on, not its layernorm
            | residual_forward(a["residual2"] => residual_forward(a["ln2"]
        with attprojw not transposed: a linear layer is x @ w.T + b | p["attprojw"] => p["attprojw"].T
    """
    + BIASES
    + WEIGHTS
    + RESHAPED,
)

Exercise(
    "block_backward",
    "07",
    returns="dx g",
    cases=blocks_and_gradients,
    rules=(named_arrays,),
    look={"dx": FORK, "": CHAIN},
    mistakes=rf"""
        with fch in place of fch_gelu | matmul_backward(dout, a["fch_gelu"] => matmul_backward(dout, a["fch"]
        without gelu_backward | dfch = … => dfch = dfch_gelu
        with gelu_backward at fch_gelu: the slope is taken where GELU was, at fch | a["fch"]) => a["fch_gelu"])
        with residual2 in place of ln2 | matmul_backward(dfch, a["ln2"] => matmul_backward(dfch, a["residual2"]
        with x in place of residual2: ln2 normalised residual2
            | layernorm_backward(dln2, a["residual2"] => layernorm_backward(dln2, x
        with ln2 in place of residual2: layernorm_backward needs what went into the layernorm, ln2 came out
            | layernorm_backward(dln2, a["residual2"] => layernorm_backward(dln2, a["ln2"]
        with x + atty in place of residual2: atty went through attprojw and attprojb first; the dict a holds residual2
            | layernorm_backward(dln2, a["residual2"] => layernorm_backward(dln2, x + a["atty"]
        with the mean and rstd of ln1 in place of those of ln2
            | a["ln2_mean"], a["ln2_rstd"] => a["ln1_mean"], a["ln1_rstd"]
        with the rstd of ln1 in place of that of ln2 | a["ln2_rstd"] => a["ln1_rstd"]
        [{FORK}] without the straight branch of the second residual: dout itself goes on, too
            | dresidual2 = dout + dbranch => dresidual2 = dbranch
        [{FORK}] without the straight branch of either residual: the gradient also goes on untouched
            | dresidual2 = dout + dbranch => dresidual2 = dbranch ;; return dresidual2 + dbranch => return dbranch
        [{FORK}] with dout counted twice at the second residual | = dout + dbranch => = 2 * dout + dbranch
        [{FORK}] without what comes back through ln2: both branches of the fork add up | = dout + dbranch => = dout
        [{FORK}] with dout in place of dresidual2: past the fork, the gradient is a sum
            | matmul_backward(dresidual2 => matmul_backward(dout
        [{FORK}] with the branch through ln2 in place of dresidual2, without dout
            | matmul_backward(dresidual2 => matmul_backward(dbranch
        with x in place of ln1 | matmul_backward(dqkv, a["ln1"] => matmul_backward(dqkv, x
        with residual2 in place of x: ln1 normalised x
            | layernorm_backward(dln1, x => layernorm_backward(dln1, a["residual2"]
        with ln1 in place of x: layernorm_backward needs what went into the layernorm, ln1 came out
            | layernorm_backward(dln1, x => layernorm_backward(dln1, a["ln1"]
        with the mean and rstd of ln2 in place of those of ln1
            | a["ln1_mean"], a["ln1_rstd"] => a["ln2_mean"], a["ln2_rstd"]
        with the rstd of ln2 in place of that of ln1 | a["ln1_rstd"] => a["ln2_rstd"]
        [{FORK}] without the straight branch of the first residual: dresidual2 itself goes on, too
            | return dresidual2 + dbranch => return dbranch
        [{FORK}] with dout in place of dresidual2 at the first residual | return dresidual2 => return dout
        [{FORK}] with dout added once more: it is already in dresidual2 | return dresidual2 => return dout + dresidual2
        [{FORK}] without what comes back through ln1: both branches of the fork add up
            | return dresidual2 + dbranch => return dresidual2
    """,
)

Exercise(
    "tied_gradient",
    "07",
    returns="dwte",
    cases=tables,
    rules=(rows_of_all,),
    look="5.3 · One table, two places",
    mistakes=r"""
        = the head's part alone: the table is also looked up at the bottom, where its gradient is dencoded
            | np.add.at(… => pass
        = the lookup's part alone: the table is also the output head | dwte = dlogits… => dwte = np.zeros((Vp, C))
        with only one of the rows of a token that occurs twice | np.add.at(… => dwte[tokens] += dencoded
        with only one of the rows of a token that occurs twice in a sequence
            | np.add.at(… => for ids, rows in zip(tokens, dencoded): dwte[ids] += rows
        = the head's part with rows overwritten by the lookup's | np.add.at(… => dwte[tokens] = dencoded
        = the lookup's part alone, with only one of the rows of a token that occurs twice
            | dwte = dlogits… => dwte = np.zeros((Vp, C)) ;; np.add.at(… => dwte[tokens] = dencoded
        with a token's last row as often as it occurs
            | np.add.at(… => dwte[tokens] += dencoded * np.bincount(tokens.ravel())[tokens][..., None]
        with 0 for the tokens that do not occur: the head has a logit of each, and a gradient
            | return … => return np.where(np.bincount(tokens.ravel(), minlength=Vp)[:, None], dwte, 0)
        with the mean of a token's rows, not their sum
            | np.add.at(… => np.add.at(dwte, tokens, dencoded / np.bincount(tokens.ravel())[tokens][..., None])
        = the mean of the two parts: a variable in two places collects the sum | return … => return dwte / 2
        = the head's part minus the lookup's, not plus | tokens, dencoded) => tokens, -dencoded)
        = the product of the two parts, not their sum
            | np.add.at(… => lookup = np.zeros((Vp, C))\n    np.add.at(lookup, tokens, dencoded)\n    dwte *= lookup
        with tokens counted from 1 | tokens, dencoded) => (tokens + 1) % Vp, dencoded)
        with dencoded[:, :-1] added at tokens[:, 1:]: dencoded[b, t] belongs to tokens[b, t]
            | tokens, dencoded) => tokens[:, 1:], dencoded[:, :-1])
        with dencoded[:, 1:] added at tokens[:, :-1]: dencoded[b, t] belongs to tokens[b, t]
            | tokens, dencoded) => tokens[:, :-1], dencoded[:, 1:])
        with each row of dencoded added at the next position's token
            | tokens, dencoded) => np.roll(tokens, -1, axis=1), dencoded)
        with each row of dencoded added at the previous position's token
            | tokens, dencoded) => np.roll(tokens, 1, axis=1), dencoded)
        with dencoded[b, t] added at row t, the position, as in dwpe: it belongs to tokens[b, t]
            | np.add.at(… => dwte[: tokens.shape[1]] += dencoded.sum(axis=0)
        without the last position of each sequence in the lookup's part
            | tokens, dencoded) => tokens[:, :-1], dencoded[:, :-1])
        with the lookup's part B times | tokens, dencoded) => tokens, len(tokens) * dencoded)
        with the lookup's part T times | tokens, dencoded) => tokens, tokens.shape[1] * dencoded)
        with the lookup's part divided by B·T | tokens, dencoded) => tokens, dencoded / tokens.size)
        with the head's part B times | lnf.reshape(-1, C) => lnf.reshape(-1, C) * len(tokens)
        = both parts B times | return … => return len(tokens) * dwte
        with the head's part divided by B·T: dlogits already belongs to the mean loss
            | lnf.reshape(-1, C) => lnf.reshape(-1, C) / tokens.size
        with the head's part averaged over the sequences, not added up
            | lnf.reshape(-1, C) => lnf.reshape(-1, C) / len(tokens)
    """,
)
