"""What lesson 20 shows of GPT-2 124M on a GPU, measured.

    python3 -m llmc.course.lessons.mixed_training.measured OUT.json TRAIN.bin

TRAIN.bin: tokens in llm.c's format (tiny_shakespeare_train.bin). It needs CuPy, NumPy and ml_dtypes, and no network.
The weights are those of `llmc init --preset d12`, drawn at random.
"""

import json
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from llmc import cuda, kernels
from llmc.bench.kernels import times
from llmc.blocks import RECOMPUTE
from llmc.config import preset
from llmc.course.lessons.gpu_training.fusing import filled, rotations, timed
from llmc.course.lessons.gpu_training.waiting import WARM_UP, random_batches
from llmc.cuda import recorder
from llmc.data.loader import DataLoader
from llmc.kernels import gelu, layernorm
from llmc.kernels.mixed import layernorm as layernorm_16
from llmc.kernels.mixed import matmul as matmul_16
from llmc.kernels.mixed import pointwise as pointwise_16
from llmc.model import GPT2, training_buffers
from llmc.peaks import find_peak
from llmc.precision import bfloat16
from llmc.training.loss_scale import LossScale

RUNS = {  # of the loss curves: precision, master weights, and whether weights are rounded to the nearest between steps
    "bf16": ("bf16", True, False),
    "fp16 + loss scale": ("fp16", True, False),
    "bf16, no master": ("bf16", False, False),
    "bf16, no master, nearest": ("bf16", True, True),
    "fp32": ("fp32", True, False),
    "TF32": ("tf32", True, False),
}
TURNS, STEPS = 3, 8
LR, WARM, CLIP = 3e-4, 40, 1.0


def main(out, tokens):
    """Measure and write, after each part: a run that is cut off leaves what it has."""
    found = {}
    for part in measure("d12", B=4, large=32, T=1024, tokens=tokens, steps=400):
        found |= part
        Path(out).write_text(json.dumps(found, separators=(",", ":"), allow_nan=False), encoding="utf-8")
        print(", ".join(part), flush=True)


def measure(name, B, large, T, tokens=None, steps=0, runs=RUNS):
    """{part: what was found}, one after the other. large: the batch of recompute and of single kernels."""
    config = preset(name)
    about = dict(device="the emulator", preset=name, B=B, large=large, T=T, steps=steps, lr=LR, warm=WARM)
    if cuda.device() == "gpu":
        import cupy

        peaks = {each: find_peak("cuda", each).flops / 1e12 for each in ("fp32", "tf32", "bf16", "fp16")}
        about |= dict(device=cuda.name_of_gpu(), cupy=cupy.__version__, peaks_tflops=peaks)
    yield dict(about=about)
    yield dict(kernels=single_kernels(config, large * T))
    first = GPT2(config, "cuda", "bf16")
    first.init_weights()
    weights = cuda.asnumpy(first.params.flat.astype(np.float32))  # (n,), on the host; all runs begin with bf16 numbers
    yield dict(recompute=[recomputed(config, weights, level, large, T) for level in RECOMPUTE])
    yield dict(graphs=graphs(first, B, T))
    del first
    yield dict(steps=[step(config, weights, each, B, T) for each in ("fp32", "tf32", "bf16", "fp16")])
    curves = {}
    for each in runs if steps else ():
        curves[each] = curve(config, weights, *runs[each], DataLoader(tokens, B=B, T=T, V=config.V), steps)
        yield dict(curves=curves)


def started(config, weights, precision, **how):
    """A model with these weights."""
    model = GPT2(config, "cuda", precision, **how)
    model.params.flat[...] = cuda.asarray(weights.astype(model.precision.weights))
    model.zero_grad()
    model.zero_optimizer()
    return model


def one_step(model, x, y):
    """Nothing waits."""
    model.forward(x, y, dloss=1.0, wait=False)
    model.backward(accumulate=False)
    model.update(LR, beta2=0.95, weight_decay=0.1, max_norm=CLIP)


def milliseconds(model, B, T) -> float:
    """Of one step, by the wall clock; the median of a few turns."""
    batches, found = random_batches(model, B, T), []
    for i in range(WARM_UP):
        one_step(model, *batches[i % len(batches)])
    for _ in range(TURNS):
        cuda.synchronize()
        start = perf_counter()
        for i in range(STEPS):
            one_step(model, *batches[i % len(batches)])
        cuda.synchronize()
        found.append(1e3 * (perf_counter() - start) / STEPS)
    return median(found)


def step(config, weights, precision, B, T) -> dict:
    """ms of a step, and MFU where the GPU's peak is known."""
    model = started(config, weights, precision)
    ms, peak = milliseconds(model, B, T), find_peak("cuda", precision)
    mfu = peak and peak.utilisation(config, T, 1e3 * B * T / ms)
    return dict(precision=precision, B=B, ms=ms, mfu=mfu)


def recomputed(config, weights, level, B, T) -> dict:
    """ms of a step in bf16, and the bytes of its plan, with this level of recompute."""
    model = started(config, weights, "bf16", recompute=level)
    planned = training_buffers(config, "cuda", B, T, "bf16", recompute=level)
    sizes = {title: int(buffer.nbytes) for title, buffer in planned.items()}
    return dict(level=level, B=B, ms=milliseconds(model, B, T), bytes=sizes)


def graphs(model, B, T) -> list[dict]:
    """ms of a step in bf16 as graphs and call by call, and how many kernels it launches."""
    before, rows, counts = recorder.graphs(), [], []
    for as_graphs in (True, False):
        recorder.graphs(as_graphs)
        rows.append(dict(B=B, graphs=as_graphs, ms=milliseconds(model, B, T)))

    def watch(name, launch):
        counts.append(name)
        return launch()

    with kernels.watched(watch):
        one_step(model, *random_batches(model, B, T)[0])
    recorder.graphs(before)
    return [row | dict(launches=len(counts)) for row in rows]


def curve(config, weights, precision, master, nearest, loader, steps) -> list:
    """Losses (nats) of training on the loader's tokens: a warm-up, then a cosine down to 0."""
    model = started(config, weights, precision, master_weights=master)
    scale = LossScale() if model.precision.overflows else None
    losses = []
    for k in range(steps):
        model.loss_scale = scale.value if scale else 1.0
        model.forward(*loader.next_batch(), dloss=1.0, wait=False)
        model.backward(accumulate=False)
        losses.append(model.loss_later())
        lr = LR * min(1, (k + 1) / WARM) * 0.5 * (1 + np.cos(np.pi * k / steps))
        norm = model.update(lr, beta2=0.95, weight_decay=0.1, max_norm=CLIP)
        if scale:
            scale.good_step() if np.isfinite(norm()) else scale.overflow()
        if nearest:
            low = model.master.flat.astype(bfloat16())  # (n,), to the nearest
            model.params.flat[...] = low
            model.master.flat[...] = low.astype(np.float32)
    return [round(loss(), 5) for loss in losses]


def low(*shape):
    """A bf16 array of random numbers."""
    return filled(*shape).astype(bfloat16())


def by_the_library(launch) -> float:
    """µs of work of which some is the library's."""
    return times.microseconds([launch], graph=False) if cuda.device() == "gpu" else timed([launch])


def single_kernels(config, N) -> dict:
    """{what: {kernel: µs}} over cold caches; "copy": GB/s."""
    C, found = config.C, {}
    sets = [(filled(N, 4 * C), filled(N, 4 * C)) for _ in range(rotations(2 * N * 4 * C))]
    found["gelu"] = {"float32": timed([lambda a=a: gelu.gelu_forward(*a) for a in sets])}
    sets = [(low(N, 4 * C), low(N, 4 * C)) for _ in range(rotations(N * 4 * C))]
    found["gelu"]["bf16"] = timed([lambda a=a: pointwise_16.gelu_forward(*a) for a in sets])

    def norms(kind):
        shape = (1, N, C)
        return [kind(*shape), filled(1, N), filled(1, N), filled(*shape), kind(C), kind(C)]

    sets = [norms(filled) for _ in range(rotations(2 * N * C))]
    found["layernorm"] = {"float32": timed([lambda a=a: layernorm.layernorm_forward(*a) for a in sets])}
    sets = [norms(low) for _ in range(rotations(2 * N * C))]
    found["layernorm"]["bf16"] = timed([lambda a=a: layernorm_16.layernorm_forward(*a) for a in sets])
    dpre, pre, x, dout = low(1, N, 4 * C), low(1, N, 4 * C), low(1, N, 4 * C), low(1, N, C)
    dw, db, w = low(C, 4 * C), low(C), low(C, 4 * C)

    def apart():
        matmul_16.matmul_backward(dpre, dw, db, dout, x, w)
        pointwise_16.gelu_backward(dpre, dpre, pre)

    found["fcproj backward"] = {
        "then GELU'": by_the_library(apart),
        "GELU' in the epilogue": by_the_library(lambda: matmul_16.gelu_matmul_backward(dpre, dw, db, dout, pre, x, w)),
    }
    found["shape"] = dict(N=N, C=C)
    if cuda.device() == "gpu":
        found["copy_gb_s"] = times.limits()["copy_gb_s"]
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
