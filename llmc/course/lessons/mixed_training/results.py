"""Lesson 20: what an H100 measured, stored with the lessons, and what is the same on any GPU."""

import json
from pathlib import Path

from llmc import cuda
from llmc.config import preset

RACE = Path("reference/h100_mixed_race.json")  # in the lessons' folder: of `llmc bench --race` and its profile
MEASURED = Path("reference/h200_mixed_training.json")  # written by measured.py; may be absent


def race(path=RACE) -> dict:
    """Steps of GPT-2 124M next to PyTorch's, and what some changes of a step in bf16 brought."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def measured(path=MEASURED) -> dict:
    """What measured.py wrote, {} where no GPU has run it yet; "note" says where the numbers come from.

    On a GPU all but the curves is measured now, which takes half a minute.
    """
    path = Path(path)
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if found:
        found["note"] = found["trained_on"] = f"stored: {found['about']['device']}"
    if cuda.device() == "gpu":
        from llmc.course.lessons.mixed_training import measured

        for part in measured.measure("d12", B=4, large=4, T=1024):
            found |= part
        found["note"] = f"measured here: {found['about']['device']}"
    return found


def mfu(row, about) -> float:
    """Model FLOPs over what the tensor cores could do in the same time; row: one of race()["race"]."""
    tokens = row["B"] * about["T"] / (1e-3 * row["ms"])  # a second
    return (
        preset(about["preset"]).flops_per_token(about["T"]) * tokens / (1e12 * about["peaks_tflops"][row["precision"]])
    )


def floors(about, B=32) -> dict:
    """{change of race()["changes"]: ms that NVIDIA's figures allow at least} of those that are products."""
    config = preset(about["preset"])
    N, C, flops = B * about["T"], config.C, 1e9 * about["peaks_tflops"]["bf16"]  # of a ms
    return {
        "GELU' in cuBLASLt's epilogue, 12 layers": 12 * 2 * N * C * 4 * C / flops,
        "the fastest of eight proposals, logits' dx": 2 * N * C * config.Vp / flops,
    }
