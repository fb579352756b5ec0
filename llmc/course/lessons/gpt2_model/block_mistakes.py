"""Lesson 07: the known mistakes of a block and of its backward pass, and what each makes of every tensor."""

from llmc.course.lessons.gpt2_model.block import block_backward, block_forward
from llmc.course.lessons.gpt2_model.places import BLOCK, CHAIN, FORK

FORWARD_SWITCHES = {
    "normalised later": "the layernorm of x plus attention: GPT-2 normalises x first, and attention reads ln1",
    "no ln1": "the reference with qkv made of x: it is made of ln1",
    "no first": "the branch alone: x is not added to it",
    "no residual": "the reference without either residual: each branch is added to what went into it",
    "from ln1": "the reference with ln1 added in place of x: the stream itself goes on, not its layernorm",
    "no attproj": "the reference without attprojw and attprojb: atty goes through a linear layer first",
    "mlp of x": "the reference with ln2 made of x: the second half of the block reads residual2",
    "mlp of branch": "the reference with ln2 made of the branch alone: it reads residual2",
    "ln1 twice": "the reference with ln1w and ln1b in place of ln2w and ln2b",
    "no ln2": "the reference with fch made of residual2: it is made of ln2",
    "no gelu": "the reference without GELU",
    "no second": "the branch alone: residual2 is not added to it",
    "second from x": "the reference with x added in place of residual2: what attention wrote is lost",
    "from ln2": "the reference with ln2 added in place of residual2: the stream itself goes on, not its layernorm",
}

BACKWARD_SWITCHES = {
    "fch for fch_gelu": ("the reference with fch in place of fch_gelu", CHAIN),
    "no gelu": ("the reference without gelu_backward", CHAIN),
    "slope at fch_gelu": (
        "the reference with gelu_backward at fch_gelu: the slope is taken where GELU was, at fch",
        CHAIN,
    ),
    "residual2 for ln2": ("the reference with residual2 in place of ln2", CHAIN),
    "ln2 at x": ("the reference with x in place of residual2: ln2 normalised residual2", CHAIN),
    "ln2 at ln2": (
        "the reference with ln2 in place of residual2: layernorm_backward needs what went into the layernorm, "
        "ln2 is what came out",
        CHAIN,
    ),
    "ln2 at atty": (
        "the reference with x + atty in place of residual2: atty went through attprojw and attprojb first; the dict a "
        "holds residual2",
        CHAIN,
    ),
    "no second": ("the reference without the straight branch of the second residual: dout itself goes on, too", FORK),
    "no straight": (
        "the reference without the straight branch of either residual: the gradient also goes on untouched",
        FORK,
    ),
    "second twice": ("the reference with dout counted twice at the second residual", FORK),
    "no mlp branch": ("the reference without what comes back through ln2: both branches of the fork add up", FORK),
    "dout again": ("the reference with dout in place of dresidual2: past the fork, the gradient is a sum", FORK),
    "branch only": ("the reference with the branch through ln2 in place of dresidual2, without dout", FORK),
    "x for ln1": ("the reference with x in place of ln1", CHAIN),
    "ln1 at residual2": ("the reference with residual2 in place of x: ln1 normalised x", CHAIN),
    "ln1 at ln1": (
        "the reference with ln1 in place of x: layernorm_backward needs what went into the layernorm, "
        "ln1 is what came out",
        CHAIN,
    ),
    "no first": (
        "the reference without the straight branch of the first residual: dresidual2 itself goes on, too",
        FORK,
    ),
    "dout at the end": ("the reference with dout in place of dresidual2 at the first residual", FORK),
    "dout once more": ("the reference with dout added once more: it is already in dresidual2", FORK),
    "no attention branch": (
        "the reference without what comes back through ln1: both branches of the fork add up",
        FORK,
    ),
}


def block_forward_mistakes(x, p, NH) -> dict:
    """{activation or "out": {sentence: (array, where to look)}}."""
    known = {}
    for wrong, sentence in FORWARD_SWITCHES.items():
        out, a = block_forward(x, p, NH, wrong)
        for name, array in (a | {"out": out}).items():
            known.setdefault(name, {})[sentence] = (array, BLOCK)
    for sentence, other in _other_weights(p).items():
        out, a = block_forward(x, p | other, NH)
        for name, array in (a | {"out": out}).items():
            known[name][sentence] = (array, BLOCK)
    return known


def _other_weights(p) -> dict:
    """{sentence: tensors} of a block that leaves out a bias or a weight, or takes one transposed."""
    layers = ("qkv", "attproj", "fc", "fcproj")
    wrong = {f"the reference without {name}b": {f"{name}b": 0 * p[f"{name}b"]} for name in ("ln1", "ln2", *layers)}
    wrong |= {f"the reference without {name}w": {f"{name}w": p[f"{name}w"] ** 0} for name in ("ln1", "ln2")}
    transposed = "the reference with attprojw transposed: a linear layer is x @ w.T + b"
    return wrong | {transposed: {"attprojw": p["attprojw"].T}}


def block_backward_mistakes(dout, x, p, NH) -> dict:
    """{tensor or "dx": {sentence: (array, where to look)}}."""
    known = {}
    for wrong, (sentence, where) in BACKWARD_SWITCHES.items():
        dx, g = block_backward(dout, x, p, NH, wrong)
        for name, array in (g | {"dx": dx}).items():
            known.setdefault(name, {})[sentence] = (array, where)
    return known
