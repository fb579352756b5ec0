"""What lesson 25 shows of an H200, in bf16 and fp8: steps, products, sums, gradients and losses.

Losses are of GPT-2 124M, B=4, T=1024, from the weights of `init_weights(seed)`: a warm-up of 40 steps to a learning
rate of 3e-4, then a cosine down to 0; beta2 = 0.95, weights decay by 0.1, gradients are clipped.
"""

import json
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from llmc import cuda
from llmc.bench.kernels.times import limits, microseconds
from llmc.bench.torch_step import torch_gradients
from llmc.bench.versus import FLOAT8, PEERS, versus
from llmc.config import preset
from llmc.course.lessons.tensor_cores.measured import low, zeros
from llmc.kernels.mixed import matmul, matmul_fp8, matmul_hopper
from llmc.kernels.mixed.matmul_own import Product
from llmc.model import GPT2
from llmc.precision import bfloat16, e4m3

STORED, STEPS_STORED = (Path(f"reference/h200_fp8_{what}.json") for what in ("training", "steps"))  # with the lessons
MODELS, B, T = ("d12", "d24"), 32, 1024
CORPORA = "tinyshakespeare", "pydocs"
STEPS, SEEDS, SMALL = 500, 3, 4  # of the training runs; their batch
SHAPES = {  # M, N, K of GPT-2 124M's products, B=32
    "qkv": (32768, 2304, 768),
    "fc": (32768, 3072, 768),
    "fcproj": (32768, 768, 3072),
    "logits": (32768, 50304, 768),
    "dW of fc": (3072, 768, 32768),
}


def stored(path=STORED) -> dict:
    """The file: "about", "products", "sums", "copies", "losses", "gradients"; and "trial", not measured again."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def eight(*shape, seed):
    """Random e4m3 numbers (N, K) where kernels run, uint8."""
    x = low(*shape, seed=seed)
    return matmul_fp8.copies(f"lesson 25, {seed}", x, shape[1], columns=False)[0].array.reshape(shape)


def by_cublas(result, a, b):
    """*result (M, N), bfloat16, = a (M, K) · b (N, K)ᵀ, uint8: e4m3."""
    matmul_fp8.product(result, *(matmul_fp8.Factor(each, "e4m3", 1.0) for each in (a, b)), by="cublas")


def by_us(result, a, b, tile=None):
    """The same by version 9 of our own product."""
    (M, K), N = a.shape, len(b)
    matmul_hopper.multiply(Product("matmul_forward", result, a, b, M, N, K, kind="e4m3"), tile)


unpromoted = partial(by_us, tile=matmul_hopper.PLAIN[1])  # by tensor cores alone, no sum divided among blocks


def in_bf16(result, a, b):
    """*result (M, N) = a (M, K) · b (N, K)ᵀ, bfloat16, by cuBLAS."""
    matmul.matmul_forward(result[None], a[None], b, None)


BY = {"cuBLAS, bf16": in_bf16, "cuBLAS, fp8": by_cublas, "llmc, fp8": by_us}


def steps() -> list[dict]:
    """A row for each model, and each of who trains it: ms, and GB of memory. torchao competes if it is there."""
    peers, found = {"PyTorch, bf16": PEERS["torch.compile"]} | (FLOAT8 if find_spec("torchao") else {}), []
    for name in MODELS:
        rows = {row["who"]: row for row in versus(name, "fp8", B=B, T=T, peers=peers)}
        bf16, _ = versus(name, "bf16", B=B, T=T, peers={})
        rows |= {"llmc, bf16": bf16, "llmc, fp8": rows["llmc"]}
        for who in (*peers, "llmc, bf16", "llmc, fp8"):
            row = rows[who]
            found.append(dict(model=name, who=who, ms=round(row["ms"], 2), memory_gb=round(row["memory_gb"], 2)))
    return found


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
    """Distances of products of random e4m3 numbers to the exact ones, relative to these, for sums over K numbers, and
    the same for positive numbers; of "bf16", what rounding the exact result does."""
    rows, (M, N) = [], (512, 256)
    for K in lengths:
        factors, found = [eight(each, K, seed=k) for k, each in enumerate((M, N))], {"K": K}  # (M, K), (N, K)
        for signs in ("", ", positive"):
            a, b = ((codes & 0x7F) if signs else codes for codes in factors)  # (M, K), (N, K)   without their sign bits
            a64, b64 = (cuda.asnumpy(codes).view(e4m3()).astype(np.float64) for codes in (a, b))  # on the host
            exact = a64 @ b64.T  # (M, N)
            found["bf16" + signs] = distance(exact.astype(np.float32).astype(bfloat16()), exact)
            for by, multiply in {"cuBLAS": by_cublas, "llmc": by_us, "llmc, unpromoted": unpromoted}.items():
                result = zeros(M, N)
                multiply(result, a, b)
                found[by + signs] = distance(cuda.asnumpy(result), exact)
        rows.append(found)
    return rows


def distance(got, exact) -> float:
    """|got - exact| / |exact|, of all numbers together."""
    return float(f"{np.linalg.norm(got.astype(np.float64) - exact) / np.linalg.norm(exact):.3g}")


def losses(precision, seed, corpus, steps=STEPS) -> tuple[list[float], GPT2]:
    """Losses of a training run, as above, or of its first steps; and the model then."""
    from llmc.data import ShuffledLoader, find_corpus

    model = GPT2(preset("d12"), "cuda", precision)
    model.init_weights(seed)
    loader, found = ShuffledLoader(find_corpus(corpus).train, SMALL, T, model.config.V, seed=seed), []
    for step in range(steps):
        found.append(model.forward(*loader.next_batch(), dloss=1.0))
        model.backward(accumulate=False)
        lr = 3e-4 * min(1, (step + 1) / 40) * 0.5 * (1 + np.cos(np.pi * step / STEPS))
        model.update(lr, beta2=0.95, weight_decay=0.1, max_norm=1.0)
    return [round(float(loss), 4) for loss in found], model


def gradients(steps=300) -> dict:
    """Distances of the gradient of all weights to float32's, after some steps of training in float32, on one batch."""
    from llmc.data import ShuffledLoader, find_corpus

    _, model = losses("fp32", 0, CORPORA[0], steps)
    batch = ShuffledLoader(find_corpus(CORPORA[0]).train, SMALL, T, model.config.V, seed=99).next_batch()
    weights, found = model.backend.to_numpy(model.params_flat), {}  # (n,)
    for precision in ("fp32", "bf16", "fp8"):
        other = GPT2(preset("d12"), "cuda", precision)
        other.init_weights()
        other.params_flat[...] = other.backend.from_numpy(weights.astype(other.params_flat.dtype))
        other.forward(*batch, dloss=1.0)
        other.backward()
        found[f"llmc, {precision}"] = {p.name: other.backend.to_numpy(other.grads[p.name]) for p in model.table}
    for name in ("PyTorch, bf16", "torchao, fp8"):
        found[name] = torch_gradients(model, *batch, autocast="bf16", float8="fp8" in name)
    flat = {who: _in_a_row(grads, model) for who, grads in found.items()}
    exact = flat.pop("llmc, fp32")
    return {who: distance(got, exact) for who, got in flat.items()}


def _in_a_row(grads, model):
    """Gradients {name: array on the host} as (n,), float64, without those of the vocabulary's padding."""
    rows = {"wte": model.config.V}
    return np.concatenate([grads[p.name][: rows.get(p.name)].ravel() for p in model.table]).astype(np.float64)


def measure() -> dict:
    """The table but for the steps, measured on this GPU in two minutes; what PyTorch's trial gave stays as it is."""
    found = dict(about=dict(device=cuda.name_of_gpu()), products=products(), sums=sums())
    x = low(32768, 3072, seed=1)
    us = microseconds([lambda: matmul_fp8.copies("lesson 25", x, x.shape[1])])
    gb_s = {"copy": round(limits()["copy_gb_s"]), "rounded and transposed": round(4e-3 * x.size / us)}
    found["copies"] = dict(shape=x.shape, us=round(us, 1), gb_s=gb_s)
    runs = {
        corpus: {p: [losses(p, seed, corpus)[0] for seed in range(SEEDS)] for p in ("bf16", "fp8")}
        for corpus in CORPORA
    }
    found["losses"], found["gradients"] = dict(steps=STEPS, B=SMALL, seeds=SEEDS, runs=runs), gradients()
    return stored() | found
