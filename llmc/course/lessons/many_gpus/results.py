"""Lesson 21: what two H200s measured, stored with the lessons."""

import json
from pathlib import Path
from statistics import median

TABLE = Path("reference/h200_two_gpus.json")  # in the lessons' folder


def two_gpus(path=TABLE) -> dict:
    """Milliseconds of a step ("ms": the median of its "turns") and of its communication, and bytes of memory."""
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    found["turns"] = found["ms"]
    found["ms"] = {name: median(turns) for name, turns in found["turns"].items()}
    return found


def tokens_per_second(found) -> dict:
    """{name: tokens a second} of each kind of step; those of two GPUs take two batches."""
    about = found["about"]
    batches = {name: 1 if name == "1 GPU" else about["gpus"] for name in found["ms"]}
    return {name: 1e3 * batches[name] * about["B"] * about["T"] / ms for name, ms in found["ms"].items()}
