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
    return {
        "classifier": classifiers(B * T, config.V, config.Vp),
        "bias and GELU": bias_gelus(B * T, 4 * config.C),
        "residual and layernorm": residual_layernorms(B * T, config.C),
    }


def classifiers(N, V, Vp):
    """The classifier on logits (N, Vp)."""
    logits, probs, dlogits, losses = filled(N, Vp), filled(N, Vp), filled(N, Vp), filled(N)
    targets = cuda.asarray(np.random.RandomState(1).randint(0, V, N).astype(np.int32))  # (N,)
    three = kernels_of(apart.CLASSIFIER, "probabilities", "cross_entropy", "dlogits_of")
    work = {
        "three kernels": lambda: apart.classifier(
            three, losses, probs, dlogits, logits, targets, 1 / N, V, threads=1024
        )
    }
    for version in (1, 2, 3):
        work[f"fused, version {version}"] = partial(
            classifier.fused_classifier, losses, logits, targets, 1 / N, V, version=version
        )
    return {name: timed([launch]) for name, launch in work.items()}


def bias_gelus(N, C):
    """Bias and GELU on (N, C)."""
    two = kernels_of(apart.BIAS_GELU, "add_bias", "gelu_of")
    sets = [(filled(N, C), filled(N, C), filled(C)) for _ in range(rotations(2 * N * C))]
    return {
        "two kernels": timed([partial(apart.bias_gelu, two, *arrays) for arrays in sets]),
        "one kernel": timed([partial(fused_bias_gelu, *arrays) for arrays in sets]),
    }


def fused_bias_gelu(gelu_out, out, b):
    """llmc's kernel after a product by the library."""
    arguments = (gelu_out, out, b, np.int32(out.size), np.int32(b.size))
    grid = matmul.blocks_at_once(out.size, each=4)
    kernels.kernel("matmul", "bias_gelu_forward_v1")((grid,), (matmul.THREADS,), arguments)


def residual_layernorms(N, C):
    """Residual and layernorm on (N, C)."""

    def new():
        return [
            *(filled(N, C) for _ in range(2)),
            filled(N),
            filled(N),
            filled(N, C),
            filled(N, C),
            filled(C),
            filled(C),
        ]

    def separate(added, normed, mean, rstd, x1, x2, w, b):
        residual.residual_forward(added, x1, x2)
        layernorm.layernorm_forward(normed, mean, rstd, added, w, b)

    sets = [new() for _ in range(rotations(4 * N * C))]
    return {
        "two kernels": timed([partial(separate, *arrays) for arrays in sets]),
        "one kernel": timed([partial(layernorm.residual_layernorm_forward, *arrays) for arrays in sets]),
    }


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
