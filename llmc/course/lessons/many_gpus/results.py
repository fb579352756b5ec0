"""Lesson 21: what pairs of H200s measured, stored with the lessons, and one of their steps, by a profiler."""

import json
from pathlib import Path
from statistics import mean, median

TABLE = Path("reference/h200_two_gpus.json")  # in the lessons' folder
# One step of each way, and one layer of its backward pass, in µs: {"steps": {way: {GPU: {"compute": [[phase, start,
# end]], "nccl": [[start, end]]}}}, "layer": {way, GPU: [[kind, start, end]]}, "products": {way, GPU: [µs of the weight
# gradient of fcproj in each layer, from the last]}}
TIMELINE = Path("reference/h200_two_gpus_timeline.json")
SUMMED = {"one number": 4, "1 MB": 1_000_000, "60 MB": 60_000_000}  # bytes


def stored(path=TABLE) -> dict:
    """The whole file: its parts come from different pairs of GPUs."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def two_gpus(B=64, path=TABLE) -> dict:
    """With B sequences on each GPU, 32 or 64: ms of a step (medians of "turns") and of communication, and bytes."""
    found = stored(path)
    table, about = found["tables"][str(B)], {**found["about"], "B": B}
    ms = {name: median(turns) for name, turns in table["ms"].items()}
    return {**table, "about": about, "parameters": found["parameters"], "turns": table["ms"], "ms": ms}


def sums(path=TABLE) -> dict:
    """{name: (bytes summed in each step, [ms of a step, of each turn])}: from no sum to that of all gradients."""
    found = stored(path)
    ms = found["sums"]["ms"]
    return {
        "nothing": (0, ms["both GPUs, each alone"]),
        "nothing, in lockstep": (0, ms["lockstep by the hosts"]),
        **{name: (nbytes, ms[f"a sum of {name}"]) for name, nbytes in SUMMED.items()},
        "all, 249 MB": (2 * found["parameters"], ms["2 GPUs, summed after"]),
    }


def clocks(path=TABLE) -> dict:
    """{name: (ms of a step, MHz, watts)}, means over two turns and two GPUs; names as in `sums`."""
    turns = {name: list(zip(*rows)) for name, rows in stored(path)["clocks"]["turns"].items()}  # five columns of each
    return {name: (mean(ms), mean(a + b), mean(c + d)) for name, (ms, a, b, c, d) in turns.items()}


def tokens_per_second(found) -> dict:
    """{name: tokens a second} of each kind of step; those of two GPUs take two batches."""
    about = found["about"]
    batches = {name: 1 if name.startswith("1 GPU") else about["gpus"] for name in found["ms"]}
    return {name: 1e3 * batches[name] * about["B"] * about["T"] / ms for name, ms in found["ms"].items()}


def nccl_ms(lanes) -> tuple:
    """(milliseconds in which an all-reduce is open, those of them in which something else runs alongside)."""
    both = [max(0, min(end, stop) - max(start, at)) for start, end in lanes["nccl"] for _, at, stop in lanes["compute"]]
    return sum(end - start for start, end in lanes["nccl"]) / 1e3, sum(both) / 1e3
