"""Lesson 19: every version of the product and of flash attention on a GPU, next to the library's: times, counters.

A row of times: {"what": "product", "attention" or "attention backward", "version": "v2" …, "library", "sizes": [M, N,
K] or [B, T, NH, hs], "us", "tflop_s", "error": to the first version, "right", "device"}. One of counters: {"kernel",
"us", "busy": % of the time that tensor cores compute, "conflicts": extra passes through the banks of shared memory,
"registers" of a thread, "waits": what keeps a warp waiting most}. llmc/course/authoring/tables.py stores both.
"""

import csv
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np

from llmc import cuda
from llmc.bench.kernels.cases import Numbers
from llmc.bench.kernels.checks import difference
from llmc.bench.kernels.times import microseconds
from llmc.course.lessons.matmul_kernels.ladders import columns
from llmc.course.lessons.tensor_cores.steps import AGREE, BF16, launch
from llmc.errors import UserError
from llmc.kernels import tensor_cores
from llmc.kernels.mixed import attention, attention_cudnn, matmul
from llmc.kernels.mixed.matmul_own import Product
from llmc.kernels.mixed.pointwise import round_to

TIMES, COUNTERS = (Path(f"reference/h200_tensor_cores{name}.json") for name in ("", "_counters"))  # stored
SQUARE, LARGE, FC = (4096,) * 3, (8192,) * 3, (32768, 3072, 768)  # M, N, K; GPT-2's first of the MLP, B=32
HEADS = 32, 1024, 12, 64  # B, T, NH, hs
LIBRARY = "library"  # cuBLASLt, cuDNN: version None
SETS = 3  # of arrays, which take turns

# ------------------------------------------------------------------------------------------------------ the times


def low(*shape, seed):
    """Random bfloat16 numbers where kernels run."""
    rounded = cuda.xp.empty(shape, BF16)
    round_to(rounded, Numbers(cuda.xp, seed).normal(*shape))
    return rounded


def zeros(*shape):
    """Bfloat16 zeros where kernels run; CuPy does not fill arrays of this type itself."""
    return cuda.xp.zeros(shape, np.uint16).view(BF16)


def compared(what, sizes, call, versions, sets, result, flops=0, before=None) -> list[dict]:
    """A row for each version: call(version, *arrays) writes the array of number `result`, as the first version does.

    flops: of a call, which is timed on a GPU; 0: it is not. before: a function that is called first, on all sets.
    """
    rows, right = [], None
    for version in versions:
        for each in sets if before else ():
            before(version, *each)
        call(version, *sets[0])
        found = cuda.asnumpy(sets[0][result]).astype(np.float32)  # as the array
        sets[0][result].view(np.uint16)[...] = 0
        right = found if right is None else right
        error = difference(found, right)
        row = {"what": what, "version": f"v{version}" if version else LIBRARY, "sizes": list(sizes)}
        row |= {"error": float(f"{error:.3g}"), "right": bool(error <= AGREE * (1 if what == "product" else 2))}
        if flops and cuda.device() == "gpu":
            us = microseconds([partial(call, version, *each) for each in sets], graph=version is not None)
            row |= {"us": float(f"{us:.4g}"), "tflop_s": float(f"{flops / us / 1e6:.4g}")}
        rows.append(row)
    return rows


def products(sizes, versions, time=True) -> list[dict]:
    """A row for each version of result (M, N) = a (M, K) bᵀ, None is the library's. time: whether they are timed."""
    M, N, K = sizes
    sets = [(zeros(M, N), low(M, K, seed=2 * k), low(N, K, seed=2 * k + 1)) for k in range(SETS)]

    def multiply(version, result, a, b):
        if version:
            launch(Product("matmul_forward", result, a, b, M, N, K), version)
        else:
            matmul.matmul_forward(result[None], a[None], b, None)

    return compared("product", sizes, multiply, versions, sets, 0, 2 * M * N * K * time)


def heads(sizes, versions, time=True) -> list[dict]:
    """Rows for each version of attention's passes; None is cuDNN's."""
    B, T, NH, hs = sizes
    C, flops = NH * hs, 4 * hs * B * NH * T * (T + 1) // 2 * time  # of pairs that are seen
    sets = [
        (low(B, T, 3 * C, seed=k), zeros(B, T, C), cuda.xp.zeros((B, NH, T), np.float32), low(B, T, C, seed=9 + k),
         zeros(B, T, 3 * C)) for k in range(SETS)
    ]  # fmt: skip

    def forward(version, qkv, out, stats, dout, dqkv):
        attention.attention_forward(out, stats, qkv, NH, version=version, by="cudnn")

    def backward(version, qkv, out, stats, dout, dqkv):  # after a forward pass of the same version
        attention.attention_backward(dqkv, dout, out, stats, qkv, NH, version=version, by="cudnn")

    found = compared("attention", sizes, forward, versions, sets, 1, flops)
    found += compared("attention backward", sizes, backward, versions, sets, 4, 2.5 * flops, before=forward)
    return found


def able() -> tuple:
    """Versions of the product that this device runs."""
    capability = 90 if cuda.device() == "emulator" else tensor_cores.compute_capability("gpu")
    return tuple(range(2, 10)) if capability == 90 else tuple(range(2, 7)) if capability >= 80 else ()


def able_to_attend() -> tuple:
    """Versions of attention that this device runs, and None if cuDNN is there."""
    own = (1, 2, 3) if 9 in able() else (1, 2)
    try:
        attention_cudnn.library()
    except UserError:
        return own
    return (*own, None)


def rows(shapes=(SQUARE, LARGE, FC), attended=HEADS) -> list[dict]:
    """All rows; sizes are arguments so that a test can make them small."""
    versions, device = (*able(), None), cuda.name_of_gpu() if cuda.device() == "gpu" else "the emulator"
    found = [row for sizes in shapes for row in products(sizes, versions)] + heads(attended, able_to_attend())
    return [row | {"device": device} for row in found]


def stored(path=TIMES) -> list[dict]:
    """The rows of a file in the lessons' folder."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def text(found) -> str:
    """TFLOP/s of each version and its share of the library's, a line for each, a part for each size."""
    parts = []
    for what, sizes in dict.fromkeys((row["what"], tuple(row["sizes"])) for row in found):
        same = {row["version"]: row for row in found if (row["what"], tuple(row["sizes"])) == (what, sizes)}
        share = "{:.0%}" if LIBRARY in same else ""
        best = same.get(LIBRARY, same[min(same)])["tflop_s"]
        rows = [
            (v, f"{r['us']:.1f}", f"{r['tflop_s']:.0f}", share.format(r["tflop_s"] / best)) for v, r in same.items()
        ]
        parts.append(f"{what} {' x '.join(map(str, sizes))}, {same[min(same)].get('device', '')}")
        parts.append(columns(("µs", "TFLOP/s", "of the library"), rows))
    return "\n".join(parts)


# --------------------------------------------------------------------------------------------------- the counters

NAMES = {"us": "gpu__time_duration.sum", "busy": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"}
NAMES |= {"conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"}
NAMES |= {"registers": "launch__registers_per_thread"}
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
# what a warp waits for, in words, and ncu's names for it
WAITS = {"global memory": "long_scoreboard", "shared memory": "short_scoreboard", "other warps": "barrier"}
WAITS |= {"its last instruction": "wait", "room for requests": "mio_throttle", "a free pipe": "math_pipe_throttle"}
WAITS = {words: STALL.format(name) for words, name in (WAITS | {"wgmma": "gmma"}).items()}


def counted(raw) -> list[dict]:
    """What ncu has written, a row for each kernel that it saw first."""
    lines = list(csv.reader(raw.splitlines()))
    start = next(i for i, line in enumerate(lines) if line[:1] == ["ID"])  # the names; below them are units
    found = {}
    for row in (dict(zip(lines[start], line)) for line in lines[start + 2 :]):
        number = {name: float(row.get(theirs, "").replace(",", "") or 0) for name, theirs in (NAMES | WAITS).items()}
        made = {"kernel": row["Kernel Name"], "us": round(number["us"] / 1e3, 1), "busy": round(number["busy"], 1)}
        made |= {name: int(number[name]) for name in ("conflicts", "registers")}
        found.setdefault(row["Kernel Name"], made | {"waits": max(WAITS, key=number.get)})
    return [*found.values()]


def counters_text(found) -> str:
    """The rows as a table."""
    rows = []
    for r in found:
        name = r["kernel"] if r["kernel"].startswith(("matmul", "attention")) else "the library's"
        counts = (f"{r['us']:,.0f}", f"{r['busy']:.0f}%", f"{r['conflicts']:,}", str(r["registers"]), r["waits"])
        rows.append((name, *counts))
    return columns(("µs", "tensor cores", "extra passes", "registers", "most wait for"), rows)


def counters() -> list[dict]:
    """The rows of all kernels, counted by NVIDIA's profiler on a Hopper GPU, which launches each version once."""
    metrics, kernels = ",".join((*NAMES.values(), *WAITS.values())), "regex:matmul_v|attention|nvjet|gemm|cudnn"
    command = [*"ncu --clock-control none --page raw --csv -k".split(), kernels, "--metrics", metrics]
    launches = [sys.executable, "-c", f"from {__name__} import launch_all; launch_all()"]
    return counted(subprocess.run([*command, *launches], stdout=subprocess.PIPE, text=True, check=True).stdout)


def launch_all():
    """Every version once."""
    products(SQUARE, (*able(), None), time=False)
    heads(HEADS, able_to_attend(), time=False)
