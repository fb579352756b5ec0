"""A model whose costs are known by hand, and examples with known answers."""

from math import exp, log, sqrt

from llmc.config import GPT2Config
from llmc.hellaswag import Example
from llmc.model import GPT2

V = 8
SAME = log(1 + (V - 1) * exp(-4))  # nats of the token that has just been
OTHER = 4 + SAME  # nats of any other


def parrot(backend="numpy", precision="fp32"):
    """A GPT-2 that expects each token to be the one before it: logits of 4 for that one, 0 for all others.

    Blocks of zeros leave the residual stream as it is, so it is the token's row of wte: 1 at its own channel, -1/(V-1)
    at all others. Its mean is 0, its standard deviation s = 1 / sqrt(V - 1), and the row is orthogonal enough that
    layernorm followed by wte gives one value at the token itself, and another at all others.
    """
    model = GPT2(GPT2Config(maxT=8, V=V, L=1, NH=1, C=V), backend, precision)
    wte, each = model.params["wte"], -1 / (V - 1)
    gap = (1 + 1 / (V - 1)) * (1 - each) / sqrt(1 / (V - 1) + 1e-5)  # of the logits, with a weight of 1 in lnf
    for token in range(V):
        wte[token] = each
        wte[token, token] = 1.0
    model.params["lnfw"][...] = 4 / gap
    return model


EXAMPLES = [
    Example([1, 2], [[2], [2, 2], [3, 3], [4, 5]], 0),  # repeating is cheap: both measures find the first
    Example([1, 2], [[5], [5, 5, 5, 5], [5, 6], [6, 5]], 1),  # the second's mean is lowest, the first's sum
    Example([1, 2], [[3], [5, 5, 5], [6, 6], [3, 4]], 1),  # again
    Example([3], [[4, 5], [5, 4], [6, 5], [3]], 2),  # neither finds the third
]
SUMS = [
    [SAME, 2 * SAME, OTHER + SAME, 2 * OTHER],
    [OTHER, OTHER + 3 * SAME, 2 * OTHER, 2 * OTHER],
    [OTHER, OTHER + 2 * SAME, OTHER + SAME, 2 * OTHER],
    [2 * OTHER, 2 * OTHER, 2 * OTHER, SAME],
]
LENGTHS = [[1, 2, 2, 2], [1, 4, 2, 2], [1, 3, 2, 2], [2, 2, 2, 1]]
ACCURACY, ACCURACY_NORM = 1 / 4, 3 / 4
