"""What lesson 25 shows of an H200: steps, products, sums and losses in bf16 and fp8, stored with the lessons.

Losses are of GPT-2 124M on tiny Shakespeare, B=4, T=1024, from the weights of `init_weights(seed)`: a warm-up of 40
steps to a learning rate of 3e-4, then a cosine down to 0; beta2 = 0.95, weights decay by 0.1, gradients are clipped.
"""

import json
from functools import partial
from pathlib import Path

import numpy as np

from llmc import cuda
from llmc.bench.kernels.times import limits, microseconds
from llmc.bench.versus import versus
from llmc.config import preset
from llmc.course.lessons.tensor_cores.measured import low, zeros
from llmc.kernels.mixed import matmul, matmul_fp8, matmul_hopper
from llmc.kernels.mixed.matmul_own import Product
from llmc.model import GPT2
from llmc.precision import bfloat16, e4m3

STORED = Path("reference/h200_fp8_training.json")  # in the lessons' folder
MODELS, B, T = ("d12", "d24"), 32, 1024
STEPS, SEEDS, SMALL = 500, 3, 4  # of the training runs; their batch
SHAPES = {  # M, N, K of GPT-2 124M's products, B=32
    "qkv": (32768, 2304, 768),
    "fc": (32768, 3072, 768),
    "fcproj": (32768, 768, 3072),
    "logits": (32768, 50304, 768),
    "dW of fc": (3072, 768, 32768),
}


def stored(path=STORED) -> dict:
    """The file: "about", "steps", "products", "sums", "copies", "losses"; and "trial", which is not measured again."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def eight(*shape, seed):
    """Random e4m3 numbers (N, K) where kernels run, uint8."""
    x = low(*shape, seed=seed)
    return matmul_fp8.copies(f"lesson 25, {seed}", x, shape[1], columns=False)[0].array.reshape(shape)


def by_cublas(result, a, b):
    """*result (M, N), bfloat16, = a (M, K) · b (N, K)ᵀ, uint8: e4m3."""
    matmul_fp8.product(result, *(matmul_fp8.Factor(each, "E4M3", 1.0) for each in (a, b)), by="cublas")


def by_us(result, a, b, tile=None):
    """The same by version 9 of our own product."""
    (M, K), N = a.shape, len(b)
    matmul_hopper.multiply(Product("matmul_forward", result, a, b, M, N, K, kind="E4M3"), tile)


undivided = partial(by_us, tile=matmul_hopper.PLAIN[1])  # no sum is divided among several blocks


def in_bf16(result, a, b):
    """*result (M, N) = a (M, K) · b (N, K)ᵀ, bfloat16, by cuBLAS."""
    matmul.matmul_forward(result[None], a[None], b, None)


BY = {"cuBLAS, bf16": in_bf16, "cuBLAS, fp8": by_cublas, "llmc, fp8": by_us}


def products() -> list[dict]:
    """A row for each shape and each of BY: µs, TFLOP/s."""
    rows = []
    for what, (M, N, K) in SHAPES.items():
        for by, multiply in BY.items():
            make = low if multiply is in_bf16 else eight
            sets = [(zeros(M, N), make(M, K, seed=2 * k), make(N, K, seed=2 * k + 1)) for k in range(2)]
            us = microseconds([partial(multiply, *each) for each in sets], graph=False)
            rows.append(dict(what=what, by=by, us=round(us, 1), tflop_s=round(2e-6 * M * N * K / us)))
    return rows


def sums(lengths=(768, 3072, 8192, 32768)) -> list[dict]:
    """Distances of products of random e4m3 numbers to the exact ones, relative to these, for sums over K numbers; of
    "bf16", what rounding the exact result does."""
    rows, (M, N) = [], (512, 256)
    for K in lengths:
        a, b = (eight(each, K, seed=k) for k, each in enumerate((M, N)))  # (M, K), (N, K)
        a64, b64 = (cuda.asnumpy(codes).view(e4m3()).astype(np.float64) for codes in (a, b))  # on the host
        exact = a64 @ b64.T  # (M, N)
        found = {"K": K, "bf16": distance(exact.astype(np.float32).astype(bfloat16()), exact)}
        for by, multiply in {"cuBLAS": by_cublas, "llmc": by_us, "llmc, undivided": undivided}.items():
            result = zeros(M, N)
            multiply(result, a, b)
            found[by] = distance(cuda.asnumpy(result), exact)
        rows.append(found)
    return rows


def distance(got, exact) -> float:
    """|got - exact| / |exact|, of all numbers together."""
    return float(f"{np.linalg.norm(got.astype(np.float64) - exact) / np.linalg.norm(exact):.3g}")


def losses(precision, seed) -> list[float]:
    """Losses of a training run, as above."""
    from llmc.data import ShuffledLoader, find_corpus

    model = GPT2(preset("d12"), "cuda", precision)
    model.init_weights(seed)
    loader, found = ShuffledLoader(find_corpus("tinyshakespeare").train, SMALL, T, model.config.V, seed=seed), []
    for step in range(STEPS):
        found.append(model.forward(*loader.next_batch(), dloss=1.0))
        model.backward(accumulate=False)
        lr = 3e-4 * min(1, (step + 1) / 40) * 0.5 * (1 + np.cos(np.pi * step / STEPS))
        model.update(lr, beta2=0.95, weight_decay=0.1, max_norm=1.0)
    return [round(float(loss), 4) for loss in found]


def measure() -> dict:
    """The whole table, measured on this GPU in less than two minutes; what PyTorch's trial gave stays as it is."""
    found = dict(about=dict(device=cuda.name_of_gpu(), B=B, T=T), steps=[])
    for name in MODELS:
        for precision in ("bf16", "fp8"):
            row, _ = versus(name, precision, B=B, T=T, peers={})
            memory = round(row["memory_gb"], 2)
            found["steps"].append(dict(model=name, precision=precision, ms=round(row["ms"], 2), memory_gb=memory))
    found["products"], found["sums"] = products(), sums()
    x = low(32768, 3072, seed=1)
    us = microseconds([lambda: matmul_fp8.copies("lesson 25", x, x.shape[1])])
    gb_s = {"copy": round(limits()["copy_gb_s"]), "rounded and transposed": round(4e-3 * x.size / us)}
    found["copies"] = dict(shape=x.shape, us=round(us, 1), gb_s=gb_s)
    runs = {precision: [losses(precision, seed) for seed in range(SEEDS)] for precision in ("bf16", "fp8")}
    found["losses"] = dict(steps=STEPS, B=SMALL, seeds=SEEDS, runs=runs)
    return stored() | found
