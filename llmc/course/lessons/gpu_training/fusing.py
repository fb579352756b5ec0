"""Lesson 17: how long kernels take apart and fused, at the sizes of a model, on a GPU."""

from functools import partial
from time import perf_counter

import numpy as np

from llmc import cuda, kernels
from llmc.bench.kernels import times
from llmc.course.lessons.gpu_training import apart
from llmc.cuda import RawModule
from llmc.kernels import classifier, layernorm, matmul, residual


def fusions(config, B, T) -> dict:
    """{what: {kernels: µs}}, each apart and fused, at the model's sizes, over cold caches."""
    N = B * T
    return {
        "classifier": classifiers(N, config.V, config.Vp),
        "bias and GELU": bias_gelus(N, 4 * config.C),
        "residual and layernorm": residual_layernorms(N, config.C),
    }


def classifiers(N, V, Vp):
    """The classifier on logits (N, Vp)."""
    logits, probs, dlogits, losses = filled(N, Vp), filled(N, Vp), filled(N, Vp), filled(N)
    targets = cuda.asarray(np.random.RandomState(1).randint(0, V, N).astype(np.int32))  # (N,)
    three = kernels_of(apart.CLASSIFIER, "probabilities", "cross_entropy", "dlogits_of")
    launches = {"three kernels": partial(apart.classifier, three, losses, probs, dlogits, threads=1024)}
    for version in (1, 2, 3):
        fused = partial(classifier.fused_classifier, losses, version=version)
        launches[f"fused, version {version}"] = fused
    return {name: timed([partial(launch, logits, targets, 1 / N, V)]) for name, launch in launches.items()}


def bias_gelus(N, C):
    """Bias and GELU on (N, C)."""
    sets = [(filled(N, C), filled(N, C), filled(C)) for _ in range(rotations(2 * N * C))]
    apart_ = partial(apart.bias_gelu, kernels_of(apart.BIAS_GELU, "add_bias", "gelu_of"))
    return apart_and_fused(apart_, fused_bias_gelu, sets)


def fused_bias_gelu(gelu_out, out, b):
    """llmc's kernel after a product by the library."""
    arguments = (gelu_out, out, b, np.int32(out.size), np.int32(b.size))
    grid = matmul.blocks_at_once(out.size, each=4)
    kernels.kernel("matmul", "bias_gelu_forward_v1")((grid,), (matmul.THREADS,), arguments)


def residual_layernorms(N, C):
    """Residual and layernorm on (N, C)."""

    def separate(added, normed, mean, rstd, x1, x2, w, b):
        residual.residual_forward(added, x1, x2)
        layernorm.layernorm_forward(normed, mean, rstd, added, w, b)

    shapes = (N, C), (N, C), (N,), (N,), (N, C), (N, C), (C,), (C,)
    sets = [[filled(*shape) for shape in shapes] for _ in range(rotations(4 * N * C))]
    return apart_and_fused(separate, layernorm.residual_layernorm_forward, sets)


def apart_and_fused(two, one, sets) -> dict:
    """µs of two kernels and of one, functions of the arrays of a set."""
    both = {"two kernels": two, "one kernel": one}
    return {name: timed([partial(launch, *arrays) for arrays in sets]) for name, launch in both.items()}


def kernels_of(code, *names) -> dict:
    """{name: kernel} of a text."""
    module = RawModule(code=code)
    return {name: module.get_function(name) for name in names}


def filled(*shape):
    """An array of random numbers."""
    few = np.random.RandomState(0).standard_normal(1 << 20).astype(np.float32)  # (2^20,)
    return cuda.xp.resize(cuda.asarray(few), int(np.prod(shape))).reshape(shape)


def rotations(numbers) -> int:
    """Sets of arrays of that many numbers that are more than a cache holds."""
    return 1 + times.ROTATE // (4 * numbers) if cuda.device() == "gpu" else 1


def timed(launches) -> float:
    """µs of one of these launches, which take turns."""
    if cuda.device() == "gpu":
        return times.microseconds(launches)
    start = perf_counter()
    launches[0]()
    return 1e6 * (perf_counter() - start)
