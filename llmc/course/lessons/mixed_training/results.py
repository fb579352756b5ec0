"""What lesson 20 shows of GPT-2 124M on a GPU: stored with the lessons, or measured here.

The stored curves are of 400 steps on tiny Shakespeare, B=4, from the weights of `llmc init --preset d12`: a warm-up of
40 steps to a learning rate of 3e-4, then a cosine down to 0; beta2 = 0.95, weights decay by 0.1, gradients are clipped.
"""

import json
from pathlib import Path

from llmc import cuda
from llmc.bench import kernels
from llmc.bench.kernels.mixed import mixed_versions
from llmc.bench.kernels.times import limits
from llmc.bench.kernels.versions import versions
from llmc.bench.versus import versus as step_times
from llmc.blocks import RECOMPUTE
from llmc.config import preset
from llmc.course.lessons.gpu_training.results import launches
from llmc.model import GPT2, training_buffers
from llmc.precision import bfloat16

CHANGES = Path("reference/h100_mixed_changes.json")  # in the lessons' folder: of profiles of a step on an H100
MEASURED = Path("reference/h200_mixed_training.json")  # what `measure_all` found on an H200, and curves
STEPS = ("fp32", 4), ("tf32", 4), ("tf32", 32), ("bf16", 4), ("bf16", 32)  # (precision, B) beside PyTorch's


def stored(path=MEASURED) -> dict:
    """One of the two files."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def measured() -> dict:
    """What `measure` finds, on a GPU now, which takes a minute or two; else stored. "note" says which."""
    found = stored()
    found["note"] = found["trained_on"] = f"stored: {found['about']['device']}"
    if cuda.device() == "gpu":
        found |= measure("d12", B=4, large=4, T=1024)
        found["note"] = f"measured here: {found['about']['device']}"
    return found


def mfu(row, about) -> float:
    """Model FLOPs over what the tensor cores could do in the same time; row: one of stored()["race"]."""
    tokens = row["B"] * about["T"] / (1e-3 * row["ms"])  # a second
    peak = 1e12 * about["peaks_tflops"][row["precision"]]
    return preset(about["preset"]).flops_per_token(about["T"]) * tokens / peak


def floors(about, B=32) -> dict:
    """{change of stored(CHANGES)["changes"]: ms that NVIDIA's figures allow at least} of those that are products."""
    config = preset(about["preset"])
    N, C, flops = B * about["T"], config.C, 1e9 * about["peaks_tflops"]["bf16"]  # of a ms
    return {
        "GELU' in cuBLASLt's epilogue, 12 layers": 12 * 2 * N * C * 4 * C / flops,
        "the fastest of eight proposals, logits' dx": 2 * N * C * config.Vp / flops,
    }


def measure(name, B, large, T) -> dict:
    """What the lesson shows of this GPU: µs of kernels (B=32, T=1024, C=768), ms of steps. large: recompute's batch."""
    found = dict(about=dict(device=cuda.name_of_gpu(), preset=name, B=B, large=large, T=T), recompute=[])
    found["kernels"] = {"shape": dict(N=32 * 1024, C=768), "copy_gb_s": limits()["copy_gb_s"]}
    for what in ("gelu", "layernorm"):
        both = {"float32": versions(f"{what}_forward"), "bf16": mixed_versions(f"{what}_forward", bfloat16())}
        newest = {kind: [version for version in some if version.chosen] for kind, some in both.items()}
        found["kernels"][what] = {kind: next(kernels.measure(some))["us"] for kind, some in newest.items()}
    for level in RECOMPUTE:
        plan = training_buffers(preset(name), "cuda", large, T, "bf16", recompute=level)
        sizes = {title: int(buffer.nbytes) for title, buffer in plan.items()}
        row, _ = step_times(name, "bf16", level, B=large, T=T, peers={})
        found["recompute"].append(dict(level=level, bytes=sizes, **row))
    rows = {each: step_times(name, each, B=B, T=T, peers={}) for each in ("fp32", "tf32", "bf16", "fp16")}
    found["steps"] = [dict(precision=each, **row) for each, (row, _) in rows.items()]
    model = GPT2(preset(name), "cuda", "bf16")
    model.init_weights()
    found["launches"] = launches(model, B, T)["kernels"]
    found["graphs"] = [dict(graphs=as_graphs, **row) for as_graphs, row in zip((True, False), rows["bf16"])]
    return found


def measure_all() -> dict:
    """The whole table, measured on this GPU, with PyTorch's steps next to ours; the curves stay as they are."""
    found, new = stored(), measure("d12", B=4, large=32, T=1024)
    new["about"], new["race"] = found["about"] | new["about"], []
    for precision, B in STEPS:
        ours, _, *theirs = step_times("d12", precision, B=B, T=1024)
        best = min(theirs, key=lambda row: row["ms"])
        row = dict(precision=precision, B=B, ms=ours["ms"], torch_ms=best["ms"])
        new["race"].append(row | dict(memory_gb=ours["memory_gb"], torch_memory_gb=best["memory_gb"]))
    return found | new
