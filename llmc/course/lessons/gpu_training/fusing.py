"""Lesson 17: separate kernels that do what fused ones do, and how long both take at a model's sizes, on a GPU."""

from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from llmc import cuda, kernels
from llmc.bench.kernels import times
from llmc.course.lessons.reductions.ladders import function_text
from llmc.cuda import RawModule
from llmc.kernels import ceil_div, classifier, layernorm, matmul, pointwise

HELPERS = ("warp_max", "warp_sum", "block_max", "block_sum")  # of lesson 13
APART = "const unsigned ALL = 0xffffffff;\nconst float LOWEST = -3.402823466e+38f;\n"
APART += "\n".join(function_text(kernels.source("softmax"), name) for name in HELPERS) + "\n"
APART += (Path(__file__).parent / "apart.cu").read_text(encoding="utf-8")
CLASSIFIER, BIAS_GELU = ("probabilities", "cross_entropy", "dlogits_of"), ("add_bias", "gelu_of")  # kernels of APART


def apart(names) -> dict:
    """{name: kernel}."""
    module = RawModule(code=APART)
    return {name: module.get_function(name) for name in names}


def classify(launches, losses, probs, dlogits, logits, targets, dloss, V, threads=256):
    """The classifier in three launches. losses (N,), probs, dlogits, logits (N, Vp), targets (N,).

    launches: {name: kernel, or a function that is called like one}.
    """
    N, Vp = logits.shape
    sizes = np.int32(V), np.int32(Vp)
    launches["probabilities"]((N,), (threads,), (probs, logits, *sizes))
    launches["cross_entropy"]((ceil_div(N, threads),), (threads,), (losses, probs, targets, np.int32(N), sizes[1]))
    launches["dlogits_of"]((N,), (threads,), (dlogits, probs, targets, sizes[1], np.float32(dloss)))


def bias_gelu(launches, gelu_out, out, b, threads=256):
    """Bias and GELU in two launches. gelu_out, out: (N, C), b: (C,)."""
    grid, n = (ceil_div(out.size, threads),), np.int32(out.size)
    launches["add_bias"](grid, (threads,), (out, b, n, np.int32(b.size)))
    launches["gelu_of"](grid, (threads,), (gelu_out, out, n))


def fusions(model, B, T) -> dict:
    """{what: {kernels: µs}}, each separate and fused, at the model's sizes, with cold caches."""
    N, C = B * T, model.config.C
    wide, added = [(N, 4 * C), (N, 4 * C), (4 * C,)], [(N, C), (N, C), (N,), (N,), (N, C), (N, C), (C,), (C,)]
    return {
        "classifier": classifiers(N, model.config.V, model.config.Vp),
        "bias and GELU": two_and_one(partial(bias_gelu, apart(BIAS_GELU)), fused_bias_gelu, wide),
        "residual and layernorm": two_and_one(residual_layernorm, layernorm.residual_layernorm_forward, added),
    }


def classifiers(N, V, Vp):
    """The classifier on logits (N, Vp)."""
    logits, probs, dlogits, losses = filled(N, Vp), filled(N, Vp), filled(N, Vp), filled(N)
    targets = cuda.asarray(np.random.RandomState(1).randint(0, V, N).astype(np.int32))  # (N,)
    launches = {"three kernels": partial(classify, apart(CLASSIFIER), losses, probs, dlogits, threads=1024)}
    for version in (1, 2, 3):
        launches[f"fused, version {version}"] = partial(classifier.fused_classifier, losses, version=version)
    return {name: timed([partial(launch, logits, targets, 1 / N, V)]) for name, launch in launches.items()}


def two_and_one(two, one, shapes) -> dict:
    """µs of two kernels and of one, functions of arrays of these shapes."""
    sets = [[filled(*shape) for shape in shapes] for _ in range(rotations(sum(map(np.prod, shapes))))]
    both = {"two kernels": two, "one kernel": one}
    return {name: timed([partial(launch, *arrays) for arrays in sets]) for name, launch in both.items()}


def fused_bias_gelu(gelu_out, out, b):
    """llmc's kernel after a product by the library."""
    arguments = (gelu_out, out, b, np.int32(out.size), np.int32(b.size))
    grid = matmul.blocks_at_once(out.size, each=4)
    kernels.kernel("matmul", "bias_gelu_forward_v1")((grid,), (matmul.THREADS,), arguments)


def residual_layernorm(added, normed, mean, rstd, x1, x2, w, b):
    """In two launches."""
    pointwise.residual_forward(added, x1, x2)
    layernorm.layernorm_forward(normed, mean, rstd, added, w, b)


def filled(*shape):
    """An array of random numbers."""
    few = np.random.RandomState(0).standard_normal(1 << 20).astype(np.float32)  # (2^20,)
    return cuda.xp.resize(cuda.asarray(few), int(np.prod(shape))).reshape(shape)


def rotations(numbers) -> int:
    """Sets of arrays of that many numbers, in all more than a cache holds."""
    return 1 + times.ROTATE // (4 * numbers) if cuda.device() == "gpu" else 1


def timed(launches) -> float:
    """µs of one of these launches, which take turns."""
    if cuda.device() == "gpu":
        return times.microseconds(launches)
    start = perf_counter()
    launches[0]()
    return 1e6 * (perf_counter() - start)
