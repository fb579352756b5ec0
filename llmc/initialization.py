"""GPT-2's initial weights: exactly the numbers that PyTorch draws after `torch.manual_seed(seed)`.

Follows llm.c's gpt_build_from_descriptor (train_gpt2.cu): weights N(0, 0.02), projections back into the residual stream
smaller by 1/√(2L) (GPT-2 paper), biases zero, layernorm weights one. PyTorch's CPU generator is mt19937, and its
`normal_` is a Box-Muller transform on groups of 16. Both are rebuilt here and agree with PyTorch's to about the last
bit of a float32.
"""

import numpy as np

from llmc.errors import UserError

STD = 0.02
GROUP = 16  # PyTorch transforms 8 pairs of uniforms at a time
CHUNK = 1 << 20  # values drawn at a time, a multiple of GROUP: it bounds the memory for any model


def _uniform(generator, n):
    """(n,) float32 in [0, 1): the low 24 bits of n draws of the generator."""
    bits = generator.randint(0, 2**32, size=n, dtype=np.uint32)  # (n,)
    return (bits & np.uint32(2**24 - 1)).astype(np.float32) * np.float32(2**-24)


def _box_muller(uniform, std):
    """(groups, 16) uniforms -> (groups, 16) normals: pair j takes u1 from column j and u2 from column j + 8."""
    u1 = 1.0 - uniform[:, :8]  # (groups, 8), in (0, 1]
    angle = np.float32(2 * np.pi) * uniform[:, 8:]  # (groups, 8)
    radius = np.sqrt(-2.0 * np.log(u1 + np.float32(1e-12)))  # (groups, 8)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1) * np.float32(std)


def normal(generator, n, std):
    """(n,) float32, as torch.Tensor.normal_(0, std) would draw them from the same generator state.

    If n is not a multiple of 16, the last 16 are drawn a second time, as in PyTorch. For n < 16 PyTorch uses another
    formula; no GPT-2 tensor is that small, so here one group is simply cut short.
    """
    whole = np.empty(n, np.float32)
    for start in range(0, n, CHUNK):
        count = min(CHUNK, n - start)
        groups = count // GROUP
        uniform = _uniform(generator, count)  # (count,); the rest that fills no group is drawn but not used
        normals = _box_muller(uniform[: groups * GROUP].reshape(groups, GROUP), std)  # (groups, 16)
        whole[start : start + groups * GROUP] = normals.reshape(-1)
    if n % GROUP:
        last = _box_muller(_uniform(generator, GROUP).reshape(1, GROUP), std)[0]  # (16,)
        whole[-GROUP:] = last[:n]
    return whole


def check_seed(seed: int):
    """Raise UserError unless the generator accepts this seed."""
    if not 0 <= seed < 2**32:
        raise UserError(f"the seed must be a whole number from 0 to {2**32 - 1}, not {seed}.")


def initial_weights(config, seed: int = 42):
    """Yield (name, float32 values in the tensor's shape) for all sixteen tensors of config.parameter_table().

    The draws go in order: wte (its V rows; padding rows stay zero), wpe, then the matrices layer by layer. Raises
    UserError for a seed that the generator does not accept.
    """
    check_seed(seed)
    generator = np.random.RandomState(seed)
    table = config.parameter_table()
    values = {p.name: np.full(p.shape, p.initial == "ones", np.float32) for p in table}
    for name, rows in (("wte", config.V), ("wpe", config.maxT)):
        values[name][:rows] = normal(generator, rows * config.C, STD).reshape(rows, config.C)  # (rows, C)
    stds = {"normal": STD, "residual": STD / np.sqrt(2.0 * config.L)}
    for l in range(config.L):
        for p in (p for p in table if p.stacked and p.initial in stds):
            tensor = values[p.name][l]  # (C_out, C_in)
            tensor[...] = normal(generator, tensor.size, stds[p.initial]).reshape(tensor.shape)
    return values.items()
