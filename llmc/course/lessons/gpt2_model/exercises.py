"""Lesson 07's exercises: what is right, what is tried, and which mistakes have a name."""

from contextlib import suppress
from functools import partial
from importlib import import_module
from inspect import signature

import numpy as np

from llmc.config import GPT2Config
from llmc.course.checks.comparison import wrong_kind
from llmc.course.checks.exercise import EXERCISES, Exercise
from llmc.course.checks.guards.inputs import read_only
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe
from llmc.course.mutation.program import solution_of
from llmc.course.your_layers.adapters import writes_in_place
from llmc.course.your_layers.plug import learner_backend
from llmc.errors import UserError
from llmc.parity.scoreboard import fixture, scoreboard

NUMBERS, BLOCK, FORK = "4.1 · Every tensor, to the last number", "2.2 · One block", "5.1 · The fork"
FRESH, INIT, CHAIN = "3.1 · What a fresh model should say", "3.2 · Why 1/√(2L)", "5.2 · The block, last line first"
ONES, TO_THE_STREAM = ("ln1w", "ln2w", "lnfw"), ("attprojw", "fcprojw")
SIZES = [(3, 5, 6, 3), (3, 5, 6, 3), (1, 2, 4, 1), (2, 1, 9, 3), (2, 7, 10, 2), (9, 33, 40, 5)]  # B, T, C, NH
TABLES = [(3, 5, 11, 6, 10), (3, 5, 11, 6, 8), (1, 2, 4, 3, 3), (2, 9, 7, 5, 5), (66, 67, 68, 65, 60)]


def models(c):
    """maxT, V, L, C: of fixed and of random sizes, then GPT-2 124M and 1.6B."""
    others = (map(int, c.rng.integers((5, 20, 2, 8), (600, 900, 30, 300))) for _ in range(3))
    yield from [(7, 11, 2, 10), (5, 130, 3, 10), *others, (1024, 50257, 12, 768), (1024, 50257, 48, 1600)]


def tensors(c):
    """name, shape, L of all sixteen tensors, for 3 and for 7 layers."""
    for L in (3, 7):
        yield from ((p.name, p.shape, L) for p in GPT2Config(maxT=90, V=128, L=L, NH=2, C=60).parameter_table())


def blocks(c):
    """x (B, T, C), p {name: array}, NH: odd shapes, one of them twice; a single token."""
    for B, T, C, NH in SIZES:
        shapes = {p.name: p.shape[1:] for p in GPT2Config(T, 7, 1, NH, C).parameter_table()[2:-2]}
        size = {"qkvw": 0.06, "attprojw": 0.15, "fcw": 0.15, "fcprojw": 0.15}  # so that attention mixes
        yield c.random(B, T, C), {k: read_only(size.get(k, 0.4) * c.random(*shapes[k])) for k in shapes}, NH


def gradients(c):
    """dout, x (B, T, C), p, a {name: array}, NH."""
    for x, p, NH in blocks(c):
        a = {name: read_only(array) for name, array in block_forward(x, p, NH)[1].items()}
        yield c.random(*x.shape), x, p, a, NH


def block_forward(x, p, NH):
    """out (B, T, C) and {name: activation}, from our solution."""
    return solution_of("block_forward").function()(x, p, NH)


def tables(c):
    """dlogits (B, T, Vp), lnf, dencoded (B, T, C), tokens (B, T): not every row of the table need be looked up."""
    for B, T, Vp, C, last in TABLES:
        tokens = c.rng.integers(0, last + 1, (B, T))  # (B, T)
        tokens[-1, -2:] = tokens[0, 0] = last  # at least one token twice
        yield *(c.random(B, T, n) for n in (Vp, C, C)), tokens


def whole_number(tried):
    """A sentence unless the count is an int, or if only the digits beyond those of float32 are wrong."""
    n, right = tried.got["count"], tried.expected["count"]
    if not isinstance(n, int | np.integer):
        return f"a count is a whole number, an int; this is {describe(n)}"
    if n != right > 2**24 and abs(n - right) < 1e-6 * right and np.float32(n) == n:
        return "the first digits are right, as after a sum in float32, whose gaps exceed 1 from 2²⁴ on"


def named_arrays(tried):
    """A sentence unless the second result is a dict of all names, or if its first wrong array has another's numbers."""
    label, right = next(iter(tried.expected.items()))
    mine, what = tried.got[label], f"the dict of {label}"
    if not isinstance(mine, dict):
        return f"the second result should be {what}, {{name: array}}, but is {describe(mine)}"
    alike = lambda name, one: np.shape(one) == right[name].shape and np.allclose(one, right[name])  # noqa: E731
    wrong = next((name for name in right if name not in mine or not alike(name, mine[name])), None)
    if wrong is None or wrong not in mine:
        return f"{what} has no {wrong!r}" if wrong else None
    theirs = next((name for name in right if alike(name, mine[wrong])), None)
    return f"{label}[{wrong!r}] holds what belongs in {label}[{theirs!r}]" if theirs else None


def judge_start(c, name, shape, L, got, drawn):
    """WrongAnswer unless `got` are initial values of the tensor `name`. drawn: has the generator moved on?"""
    told, look = wrong_kind(name, got, np.empty(shape, np.float32)), FRESH
    if not told and (name in ONES or name.endswith("b")):
        start = "ones: a layernorm starts by changing nothing" if name in ONES else "zeros: it is a bias"
        told = f"{name} should be {start}" * bool((got != (name in ONES)).any())
    elif not told:
        told, look = next((found[1:] for found in _of_drawn(name, L, got, drawn) if found[0]), ("", ""))
    if told:
        raise WrongAnswer(told, look=c.exercise.place(look))


def _of_drawn(name, L, got, drawn):
    """(is that wrong, in words, where to look) of drawn numbers; the last bound is five times what chance gives."""
    mean, std, most = got.mean(), got.std(), np.abs(got).max()
    layers, near = got.std(axis=(-2, -1)), (np.abs(got - mean) < std).mean()  # (L,) or (), ()
    yield std == 0, f"{name} is constant: its numbers must differ, or all channels learn the same thing", FRESH
    yield not drawn, f"{name} was not drawn from the given rng: the caller decides with its seed what comes", FRESH
    yield (got == 0).mean() > 0.01, f"{(got == 0).mean():.1%} of the numbers of {name} are 0", FRESH
    yield layers.max() > 1.1 * layers.min(), f"the layers of {name} have different standard deviations, not one", INIT
    told = f"{name} is not from a normal distribution: {near:.0%} lie within one std, not 68%; all within ±{most:.2g}"
    yield most < 2.7 * std or not 0.63 < near < 0.73, told, FRESH
    yield got.ndim == 3 and (got[0] == got[1]).all(), f"{name} is the same in every layer", FRESH
    yield abs(mean) > 0.1 * std, f"{name} has mean {mean:.3g}, expected 0", FRESH
    factor, stream = (2 * L) ** -0.5, name in TO_THE_STREAM
    wanted = 0.02 * factor if stream else 0.02
    factors = {
        0.02 * L**-0.5: ": that is 0.02/√L, but every block writes to the stream twice: the factor is 1/√(2L)",
        0.02 * factor**2: ": that is 0.02/(2L), without a root: variances add up, so the factor is 1/√(2L)",
        0.02: ": that tensor writes to the residual stream, so it needs 1/√(2L), too",
        0.02 * factor: ": that tensor does not write to the residual stream: only attprojw and fcprojw get a factor",
    }
    factors = factors if stream else dict.fromkeys(factors, factors[0.02 * factor])
    reasons = factors | {0.02**0.5: ": 0.02 is the standard deviation, not the variance"}
    reasons |= {got.shape[-1] ** -0.5: ": that is 1/√(its inputs), and here it does not depend on them"}
    s = next((s for s in reasons if abs(std / s - 1) < 0.05 < abs(wanted / s - 1)), None)
    told = f"{name} has standard deviation {std:.5f}, expected {wanted:.5f}{reasons.get(s, '')}"
    yield abs(std / wanted - 1) > 5 / np.sqrt(2 * got.size), told, INIT if stream or s in factors else FRESH


def judge_layers(c, layers, given):
    """The backend made from a learner's layers {name: function}; WrongAnswer if one is wrong. given: the notebook's."""
    if not isinstance(layers, dict):
        raise WrongAnswer("return a dict {name: function}")
    for name in layers.keys() - given.keys():
        raise WrongAnswer(f"{name!r} is not one of LAYERS, so it would not be used")
    mine = {name: f for name, f in layers.items() if f is not given[name]}
    if not mine:
        raise WrongAnswer("these are all functions that you had before: none can be faster")
    backend = _through_a_model(c, layers)
    red = [row.name for row in scoreboard(backend).rows if not row.okay]
    if len(backend.yours) < 6:
        raise WrongAnswer(f"{len(backend.yours)} of the functions are yours; at least six must be")
    for topic in "embeddings layernorm matmul gelu_residual softmax_crossentropy attention".split():
        import_module(f"llmc.course.lessons.{topic}.exercises")
    for name in sorted(mine.keys() & EXERCISES.keys(), key=lambda name: ("backward" in name, name)):
        if red or name == "fused_classifier":  # a model whose padding is 0 hides one mistake
            _judge_layer(c, name, mine, given)
    if red:
        why = f"{', '.join(backend.differing)} differs from the reference, and so " * bool(backend.differing)
        raise WrongAnswer(f"{why}these rows of the scoreboard are red: {', '.join(red)}")
    c.calls.clear()  # from here on, none of these is what went wrong
    return backend


def _through_a_model(c, layers):
    """The backend made from the layers, after a run with inputs that cannot be written to."""
    locked = {name: lambda *given, f=f: c.call(f, *given) for name, f in layers.items() if name != "fused_classifier"}
    problem = fixture()
    try:
        model = problem.model(learner_backend(locked))
        model.forward(problem.x, problem.y, dloss=1.0)
        model.backward()
        c.calls.clear()
        return learner_backend(layers)
    except UserError as error:  # what a layer raised, or a sentence about what it returned
        raise error.__cause__ or WrongAnswer(str(error)) from None


def _judge_layer(c, name, mine, given):
    """WrongAnswer about the layer of that name, if it is wrong where its own exercise begins."""
    named, forward, like = partial(mine[name]), name.replace("backward", "forward"), signature(given[name])
    named.__name__, named.__signature__ = name, like  # the learner's may pass on any arguments
    with c.explained_as(name):
        for inputs in _first_inputs(c, name, mine[name]):
            try:
                c.compare(named, *inputs)
            except WrongAnswer as error:
                error.diagnosis.sentence = f"in your {name}, {error.diagnosis.sentence}"
                pool, needs = dict(zip(like.parameters, inputs)), signature(given[forward]).parameters.keys()
                if forward in mine and forward != name and pool.keys() >= needs:
                    c.call(mine[forward], *map(pool.get, needs))
                    with suppress(WrongAnswer):
                        c.compare(named, *inputs)
                        error = WrongAnswer(f"{name} is right only if {forward} has just had these arrays", Kind.STATE)
                raise error from None


def _first_inputs(c, name, function):
    """What its exercise tries first, float32 if the layer keeps that; a classifier gets it with and without dloss."""
    inputs = next(c.cases())
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    narrow = [each.astype(np.float32) if getattr(each, "dtype", 0) == np.float64 else each for each in inputs]
    if name != "fused_classifier":
        made = c.call(function, *narrow)
        kinds = {np.asarray(each).dtype for each in (made if isinstance(made, tuple | list) else (made,))}
        yield narrow if kinds == {np.dtype(np.float32)} else inputs
    elif writes_in_place(function):
        for dloss in (narrow[3], None):
            losses, logits = (c.buffer(*each.shape, dtype=np.float32) for each in narrow[:2])
            logits[...] = narrow[1]
            yield losses, logits, narrow[2], dloss, narrow[4]
    elif c.call(function, *narrow[1:3], narrow[4])[1][..., narrow[4] :].any():
        raise WrongAnswer("your fused_classifier leaves numbers in the padding of its gradient: all must be 0")


COUNT = r"""
    with V·C more: the output head is wte itself, not a tensor of its own | tables = V * C => tables = 2 * V * C
    without the position table wpe: positions have a table, too | + maxT * C =>
    with the last layernorm in each block: there is one, after all of them | + 2 * C => + L * 2 * C
    with the padding rows of wte: they are no parameters of the model | = V * C => = (V + 127) // 128 * 128 * C
    with the vectors of one block: L times the matrices and the vectors | L * block => L * (block - 13 * C) + 13 * C
    without the biases of the four linear layers | 13 * C => 4 * C
    without all vectors: the biases, and the layernorms' weights and biases | + 13 * C => ;; + 2 * C =>
    with 9·C for the vectors of a block: two layernorms have 4C, the biases of the four layers 9C | 13 * C => 9 * C
    with 10·C for the vectors of a block: the bias of qkv has 3C, that of fc has 4C | 13 * C => 10 * C
    with 11·C for the vectors of a block: biases are as many as a layer's outputs, 9C, layernorms 4C | 13 * C => 11 * C
    with 16·C for the vectors of a block: the bias of fcproj has C numbers | 13 * C => 16 * C
    with a layer qkv that is C wide: queries, keys and values are 3C | 12 * C * C + 13 => 10 * C * C + 11
    with 3072 in place of 4C, the MLP's inner width | 12 * C * C + 13 * C => 4 * C * C + 9 * C + 3072 * (2 * C + 1)
    with C // 64 heads of 64 channels: that is rounded | * C + 13 * C => * C + 13 * C - C % 64 * 3 * (C + 1)
"""
FORWARD = r"""
    = the layernorm of x plus attention: GPT-2 normalises x first, and attention reads ln1
        | layernorm_forward(x, => layernorm_forward(x + matmul_forward(attention_forward(
        \nmatmul_forward(x, p["qkvw"], p["qkvb"]), NH)[0], p["attprojw"], p["attprojb"]),
    = the branch alone: x is not added to it | residual_forward(x, attproj) => attproj
    with qkv made of x: it is made of ln1 | matmul_forward(a["ln1"] => matmul_forward(x
    with ln2 made of x: it is made of residual2 | layernorm_forward(a["residual2"] => layernorm_forward(x
    with fch made of residual2: it is made of ln2 | matmul_forward(a["ln2"] => matmul_forward(a["residual2"]
    without attprojw and attprojb: atty goes through a linear layer first | attproj = … => attproj = a["atty"]
    = the branch alone: residual2 is not added to it | residual_forward(a["residual2"], fcproj) => fcproj
    with x added in place of residual2 | residual_forward(a["residual2"] => residual_forward(x
    with ln1 added in place of x | residual_forward(x => residual_forward(a["ln1"]
    with x · sigmoid(1.702 · x) in place of GELU | gelu_forward(a["fch"]) => a["fch"] / (1 + np.exp(-1.702 * a["fch"]))
    = what attproj makes of it: keep what attention gave | attproj = => a["atty"] = attproj =
    = out: += writes into both | return … => a["residual2"] += fcproj\n    return a["residual2"], a
"""
BACKWARD = rf"""
    with fch in place of fch_gelu: fcprojw was multiplied by fch_gelu | (dout, a["fch_gelu"] => (dout, a["fch"]
    with fch_gelu in place of fch: GELU was given fch | (dfch_gelu, a["fch"] => (dfch_gelu, a["fch_gelu"]
    with ln2 in place of residual2: that came out of the layernorm | (dln2, a["residual2"] => (dln2, a["ln2"]
    with ln1 in place of x: that came out of the layernorm | (dln1, x => (dln1, a["ln1"]
    with residual2 in place of ln2: fcw was multiplied by ln2 | (dfch, a["ln2"] => (dfch, a["residual2"]
    with x in place of residual2: ln2 normalised residual2 | (dln2, a["residual2"] => (dln2, x
    with ln1_mean, ln1_rstd in place of ln2_mean, ln2_rstd | ln2_mean"], a["ln2_rstd => ln1_mean"], a["ln1_rstd
    with ln2_mean, ln2_rstd in place of ln1_mean, ln1_rstd | ln1_mean"], a["ln1_rstd => ln2_mean"], a["ln2_rstd
    with ln1_rstd in place of ln2_rstd | a["ln2_rstd"] => a["ln1_rstd"]
    with ln2_rstd in place of ln1_rstd | a["ln1_rstd"] => a["ln2_rstd"]
    with x + atty in place of residual2: atty needs attprojw, attprojb | dln2, a["residual2"] => dln2, x + a["atty"]
    [{FORK}] with dout added once more: it is already in dresidual2 | return dresidual2 => return dout + dresidual2
"""
TIED = r"""
    = the head's part alone: the table is also looked up, where its gradient is dencoded | np.add.at(… => pass
    = the lookup's part alone: the table is also the output head | dwte = dlogits… => dwte = np.zeros((Vp, C))
    with only one of the rows of a token that occurs twice | np.add.at(… => dwte[tokens] += dencoded
    with only one row of a token twice in a sequence | np.add.at(… => for i, d in zip(tokens, dencoded): dwte[i] += d
    = the head's part with rows overwritten by the lookup's | np.add.at(… => dwte[tokens] = dencoded
    with 0 for the tokens that do not occur | return dwte => return dwte * np.isin(np.arange(Vp), tokens)[:, None]
    with dencoded[:, :-1] added at tokens[:, 1:] | tokens, dencoded) => tokens[:, 1:], dencoded[:, :-1])
    with dencoded[:, 1:] added at tokens[:, :-1] | tokens, dencoded) => tokens[:, :-1], dencoded[:, 1:])
    with dencoded[b, t] added at row t, as in dwpe | np.add.at(… => dwte[: tokens.shape[1]] += dencoded.sum(axis=0)
"""
for n in ("ln1", "qkv", "attproj", "ln2", "fc", "fcproj"):
    FORWARD += f'\n without {n}b | p["{n}b"] => 0 * p["{n}b"]'
for n in ("qkv", "fc", "fcproj"):
    FORWARD += f'\n with {n}w.reshape(…) in place of {n}w.T | p["{n}w"] => p["{n}w"].reshape(p["{n}w"].T.shape).T'

Exercise("count_parameters", "07", None, "count", cases=models, rules=(whole_number,), mistakes=COUNT, look=NUMBERS)
Exercise("initial_tensor", "07", None, "values", cases=tensors, look=FRESH)
arrays, places = (named_arrays,), {"dx": FORK, "": CHAIN}
Exercise("block_forward", "07", None, "out activations", cases=blocks, rules=arrays, mistakes=FORWARD, look=BLOCK)
Exercise("block_backward", "07", None, "dx gradients", cases=gradients, rules=arrays, mistakes=BACKWARD, look=places)
Exercise("tied_gradient", "07", None, "dwte", cases=tables, mistakes=TIED, look="5.3 · One table, two places")
Exercise("faster_layers", "07", slow="In GELU, `x**3` takes longer than `x * x * x`, float64 than float32 (hint 2).")
