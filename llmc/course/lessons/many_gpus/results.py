"""Lesson 21: what pairs of H200s measured, stored with the lessons, and one step of them by a profiler."""

import json
from pathlib import Path
from statistics import mean, median

TABLE = Path("reference/h200_two_gpus.json")  # in the lessons' folder
TIMELINE = Path("reference/h200_two_gpus_timeline.json")
SUMMED = {"one number": 4, "1 MB": 1_000_000, "60 MB": 60_000_000}  # bytes


def two_gpus(B=64, path=TABLE) -> dict:
    """Milliseconds of a step ("ms": the median of its "turns") and of its communication, and bytes of memory.

    B: sequences on each GPU, 32 or 64; each is another run, on another pair of GPUs.
    """
    stored = json.loads(Path(path).read_text(encoding="utf-8"))
    found = _with_medians(stored["tables"][str(B)])
    found["about"] = {**stored["about"], "B": B, "steps": found.pop("steps")}
    found["parameters"] = stored["parameters"]
    return found


def sums(path=TABLE) -> dict:
    """{name: (bytes summed in each step, [ms of a step, of each turn])}: from nothing to all gradients; of a third run.

    The first one is both GPUs at once, each alone; the last one is data parallel training.
    """
    stored = json.loads(Path(path).read_text(encoding="utf-8"))
    ms = stored["sums"]["ms"]
    return {
        "nothing": (0, ms["both GPUs, each alone"]),
        "nothing, in lockstep": (0, ms["lockstep by the hosts"]),
        **{name: (nbytes, ms[f"a sum of {name}"]) for name, nbytes in SUMMED.items()},
        "all, 249 MB": (2 * stored["parameters"], ms["2 GPUs, summed after"]),
    }


def sums_alone(path=TABLE) -> list:
    """Milliseconds of a step of one GPU, of each turn of the run of `sums`."""
    return json.loads(Path(path).read_text(encoding="utf-8"))["sums"]["ms"]["1 GPU"]


def sizes(path=TABLE) -> dict:
    """{bytes: µs} of all-reduces between two GPUs."""
    stored = json.loads(Path(path).read_text(encoding="utf-8"))
    return {int(nbytes): us for nbytes, us in stored["sizes"]["us"].items()}


def clocks(path=TABLE) -> dict:
    """{name: (ms of a step, MHz, watts)}, means over two turns and two GPUs; names as in `sums`, of a fourth run."""
    stored = json.loads(Path(path).read_text(encoding="utf-8"))
    turns = {name: list(zip(*rows)) for name, rows in stored["clocks"]["turns"].items()}  # five columns of each
    return {name: (mean(ms), mean(a + b), mean(c + d)) for name, (ms, a, b, c, d) in turns.items()}


def tokens_per_second(found) -> dict:
    """{name: tokens a second} of each kind of step; those of two GPUs take two batches."""
    about = found["about"]
    batches = {name: 1 if name.startswith("1 GPU") else about["gpus"] for name in found["ms"]}
    return {name: 1e3 * batches[name] * about["B"] * about["T"] / ms for name, ms in found["ms"].items()}


def timeline(path=TIMELINE) -> dict:
    """One step of each way, and one layer of its backward pass, in µs.

    "steps": {way: {GPU: {"compute": [[phase, start, end]], "nccl": [[start, end]]}}} · "layer": {way, GPU: [[kind,
    start, end]]} · "products": {way, GPU: [µs of the weight gradient of fcproj in each layer, from the last]}.
    """
    return json.loads(Path(path).read_text(encoding="utf-8"))


def nccl_ms(lanes) -> tuple:
    """(milliseconds in which an all-reduce is open, those of them in which something else runs beside it)."""
    computing = [(start, end) for _, start, end in lanes["compute"]]
    both = sum(
        max(0, min(end, until) - max(start, since)) for start, end in lanes["nccl"] for since, until in computing
    )
    return sum(end - start for start, end in lanes["nccl"]) / 1e3, both / 1e3


def _with_medians(table):
    return {**table, "turns": table["ms"], "ms": {name: median(turns) for name, turns in table["ms"].items()}}
