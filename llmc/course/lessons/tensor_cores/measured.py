"""Lesson 19: times of every version of the product, and of flash attention, on a GPU; the library's beside them.

    python3 -m llmc.course.lessons.tensor_cores.measured OUT.json

It needs CuPy and ml_dtypes. Where there is no GPU, the lesson shows notebooks/reference/h200_tensor_cores.json, if it
is there. A row: {"what": "product", "attention" or "attention backward", "version": "v2" …, "library", "sizes":
[M, N, K] or [B, T, NH, hs], "us", "tflop_s", "error", "right", "device"}.
"""

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np

from llmc import cuda
from llmc.bench.kernels.checks import difference
from llmc.bench.kernels.times import microseconds
from llmc.course.lessons.tensor_cores.steps import AGREE, BF16, launch
from llmc.errors import UserError
from llmc.kernels import tensor_cores
from llmc.kernels.mixed import attention, matmul
from llmc.kernels.mixed.matmul_own import Product
from llmc.kernels.mixed.pointwise import round_to

TABLE = Path("reference/h200_tensor_cores.json")  # in the lessons' folder
SQUARE, LARGE, FC = (4096,) * 3, (8192,) * 3, (32768, 3072, 768)  # M, N, K; GPT-2's first of the MLP, B=32
HEADS = 32, 1024, 12, 64  # B, T, NH, hs
LIBRARY = "library"  # cuBLASLt, cuDNN
SETS = 3  # of arrays, which take turns


def low(shape, seed, scale=1.0):
    """Random bfloat16 numbers where kernels run."""
    numbers = cuda.asarray(np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32))
    rounded = cuda.xp.empty(shape, BF16)
    round_to(rounded, numbers)
    return rounded


def zeros(*shape):
    """Bfloat16 zeros where kernels run; CuPy does not fill arrays of this type itself."""
    return cuda.xp.zeros(shape, np.uint16).view(BF16)


def timed(call, sets, flops, graph=True) -> dict:
    """µs and TFLOP/s of call(*arrays), on a GPU."""
    if cuda.device() != "gpu":
        return {}
    us = microseconds([partial(call, *each) for each in sets], graph=graph)
    return {"us": float(f"{us:.4g}"), "tflop_s": float(f"{flops / us / 1e6:.4g}")}


def products(sizes, versions, time=True) -> list[dict]:
    """A row for each version of result (M, N) = a (M, K) bᵀ, and one for the library. time: whether they are timed."""
    M, N, K = sizes
    sets = [(zeros(M, N), low((M, K), 2 * k), low((N, K), 2 * k + 1)) for k in range(SETS)]

    def own(version, result, a, b):
        launch(Product("matmul_forward", result, a, b, M, N, K), version)

    def library(result, a, b):
        matmul.matmul_forward(result[None], a[None], b, None)

    calls = {f"v{version}": partial(own, version) for version in versions} | {LIBRARY: library}
    result, a, b = sets[0]
    library(*sets[0])
    reference = cuda.asnumpy(result).astype(np.float32)  # (M, N)
    if K <= 1024:  # few enough for NumPy
        some = slice(0, min(M, 512))
        exact = cuda.asnumpy(a)[some].astype(np.float32) @ cuda.asnumpy(b).astype(np.float32).T
        assert difference(reference[some], exact) <= AGREE
    rows = []
    for version, call in calls.items():
        result.view(np.uint16)[...] = 0
        call(*sets[0])
        error = difference(cuda.asnumpy(result), reference)
        row = {"what": "product", "version": version, "sizes": list(sizes), "error": float(f"{error:.3g}")}
        row["right"] = bool(error <= AGREE)
        rows.append(row | (timed(call, sets, 2 * M * N * K, version != LIBRARY) if time else {}))
    return rows


def heads(sizes, versions, time=True) -> list[dict]:
    """Rows for each version of attention's passes, and for cuDNN where it is."""
    B, T, NH, hs = sizes
    C, flops = NH * hs, 4 * hs * B * NH * T * (T + 1) // 2  # of pairs that are seen
    xp, whose = cuda.xp, {f"v{version}": version for version in versions} | ({LIBRARY: None} if _has_cudnn() else {})
    of_C, of_3C, of_T = (B, T, C), (B, T, 3 * C), (B, NH, T)
    sets = [
        (low(of_3C, k), zeros(*of_C), xp.zeros(of_T, np.float32), low(of_C, 9 + k), zeros(*of_3C)) for k in range(SETS)
    ]

    def forward(version, qkv, out, stats, dout, dqkv):
        attention.attention_forward(out, stats, qkv, NH, version=version)

    def backward(version, qkv, out, stats, dout, dqkv):
        attention.attention_backward(dqkv, dout, out, stats, qkv, NH, version=version)

    rows = []
    for what, call, factor, result in (("attention", forward, 1, 1), ("attention backward", backward, 2.5, 4)):
        reference = None
        for name, version in whose.items():
            attention.attend_by("cudnn" if version is None else "own")
            for each in sets:
                forward(version, *each)  # the library's backward pass reads what its own forward pass wrote
            call(version, *sets[0])
            found = cuda.asnumpy(sets[0][result]).astype(np.float32)  # (B, T, C) or (B, T, 3C)
            reference = found if reference is None else reference
            error = difference(found, reference)
            row = {"what": what, "version": name, "sizes": list(sizes), "error": float(f"{error:.3g}")}
            row["right"] = bool(error <= 2 * AGREE)
            times = timed(partial(call, version), sets, factor * flops, version is not None) if time else {}
            rows.append(row | times)
    attention.attend_by("own")
    return rows


def _has_cudnn() -> bool:
    try:
        attention.attend_by("cudnn")
    except UserError:
        return False
    return True


def able() -> tuple:
    """Versions of the product that this device runs."""
    capability = 90 if cuda.device() == "emulator" else tensor_cores.compute_capability("gpu")
    return tuple(range(2, 10)) if capability == 90 else tuple(range(2, 7)) if capability >= 80 else ()


def rows(shapes=(SQUARE, LARGE, FC), attended=HEADS) -> list[dict]:
    """All rows; sizes are arguments so that a test can make them small."""
    versions = able()
    found = [row for sizes in shapes for row in products(sizes, versions)]
    return found + heads(attended, (1, 2, 3) if 9 in versions else (1, 2))


def stored(path=TABLE) -> list[dict]:
    """The rows of a table; [] if it is not there."""
    path = Path(path)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def text(found) -> str:
    """TFLOP/s of each version and its share of the library's, a line for each, a part for each size."""
    lines = []
    for sizes in dict.fromkeys((row["what"], tuple(row["sizes"])) for row in found):
        same = [row for row in found if (row["what"], tuple(row["sizes"])) == sizes]
        best = next((row["tflop_s"] for row in same if row["version"] == LIBRARY), None)
        lines.append(f"{sizes[0]} {' x '.join(map(str, sizes[1]))}, {same[0].get('device', '')}")
        for row in same:
            share = f"{row['tflop_s'] / best:>8.0%} of the library" if best and row["version"] != LIBRARY else ""
            lines.append(f"    {row['version']:<8}{row['us']:>9.1f} µs{row['tflop_s']:>8.0f} TFLOP/s{share}")
    return "\n".join(lines)


def main(path):
    """Measure, print a table, and write the file. Raises UserError where there is no GPU."""
    if cuda.device() != "gpu":
        raise UserError("only a GPU can be measured, and this machine has none that CuPy can use.")
    found = [row | {"device": cuda.name_of_gpu()} for row in rows()]
    print(text(found))
    Path(path).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
