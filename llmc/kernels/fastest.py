"""Which of several kernels for one product is used: the fastest, measured the first time, and kept on disk.

A library's heuristic orders its kernels by what it expects of them, and its first is rarely slow; but on an H100 some
of GPT-2's products in bf16 take a third longer with it than with another one proposed. Which one is used decides the
order of sums, and so the last bits of the result: therefore a choice is kept, for this GPU and version of the library,
and later runs repeat it. Without a folder to keep it in, each process measures anew.

Training keeps a GPU at the limit of its power, where the clock falls, and the kernel that needs less energy wins: on an
H200, others than on a cool GPU, by up to 7%. So those that are fast in a single launch are measured again under load.
"""

import json
from functools import cache, partial
from pathlib import Path
from statistics import median

import numpy as np

from llmc import cuda
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.cache_folder import objection, wanted_folder

WORTH = 1e9  # FLOPs of a product from which a choice pays: below, the first one is taken
TIMES = 2  # how many times each is timed alone, after one launch that is not; the shortest counts
NEAR = 1.2  # times the shortest: what is slower alone is not measured under load
TURNS, BURST = 6, 8.0  # in which those are measured under load, the first one to warm up, and ms of each turn
CLEARLY = 0.99  # of the first one's time: what is not faster than that may be noise

_taken = {}  # {key: index} of this process: a launch looks no further


def launch(choices, key, flops, run, kept=None):
    """run(the fastest of choices).

    key: what the product is, in numbers · flops: how large it is · kept: the array that run adds to, or None; its
    numbers are put back once all have been timed.
    """
    if key not in _taken:
        index = _chosen(choices, str(key), flops, run, kept)
        if index is None:  # not now: a recording, in which nothing can be timed
            run(choices[0])
            return
        _taken[key] = index
    run(choices[_taken[key]])


def _chosen(choices, key, flops, run, kept) -> int | None:
    """The index of the fastest, which is measured if the file does not know it; None while that is impossible."""
    if flops < WORTH or len(choices) == 1:
        return 0
    known = _known(_file())
    if known.get(key, len(choices)) >= len(choices):
        if _is_recorded():
            return None
        known[key] = _measured(choices, run, kept)
        _keep(known)
    return known[key]


def _is_recorded() -> bool:
    """Whether launches are recorded into a CUDA graph now, where nothing can be timed."""
    from cupy.cuda import get_current_stream

    return get_current_stream().is_capturing()


def _measured(choices, run, kept) -> int:
    """The index of the fastest, or 0."""
    numbers = None if kept is None else kept.reshape(-1).view(np.uint8)  # even of a type that CuPy does not know
    before = None if kept is None else numbers.get()  # on the host: the GPU may be full
    works = [partial(run, choice) for choice in choices]
    alone = [min(_time(work) for _ in range(TIMES + 1)) for work in works]
    near = [i for i, ms in enumerate(alone) if i == 0 or ms < NEAR * min(alone)]
    times = {i: [] for i in near}
    for _ in range(TURNS if len(near) > 1 else 0):
        for i in near:
            times[i].append(_time(works[i], max(1, round(BURST / alone[i]))))
    if kept is not None:
        numbers.set(before)
    hot = {i: median(each[1:]) for i, each in times.items() if each}
    best = min(hot, key=hot.get, default=0)
    return best if best and hot[best] < CLEARLY * hot[0] else 0


def _time(work, launches=1) -> float:
    """Milliseconds per launch."""
    from cupy.cuda import Event, get_elapsed_time

    begin, end = Event(), Event()
    begin.record()
    for _ in range(launches):
        work()
    end.record()
    end.synchronize()
    return get_elapsed_time(begin, end) / launches


@cache
def _file() -> Path | None:
    """Where choices are kept for this GPU and this library; None without a folder for it."""
    from cupy.cuda import cublas, device

    folder = wanted_folder()
    if objection(folder):
        return None
    gpu = "-".join(cuda.name_of_gpu().split())
    return folder / f"products-{gpu}-cublas-{cublas.getVersion(device.get_cublas_handle())}.json"


@cache
def _known(file) -> dict:
    """{key: index of a choice}, as this process knows it; a file that cannot be read counts as empty."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (AttributeError, OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: index for key, index in found.items() if type(index) is int and index >= 0}


def _keep(known):
    if _file() is None:
        return
    try:
        with atomic_write(_file(), "w") as file:
            json.dump(known, file, indent=1)
    except UserError:  # a full disk: the next process measures again
        pass
