"""Lesson 17: what a wait for the GPU costs a training step, and when its calls are launched and carried out."""

from functools import partial
from itertools import product
from statistics import median
from time import perf_counter

import numpy as np

from llmc import cuda
from llmc.backends import get_backend
from llmc.bench.race import BATCHES
from llmc.course.lessons.gpu_training import timeline
from llmc.cuda import recorder
from llmc.precision import find_precision

TURNS, STEPS, WARM_UP = 3, 10, 4
PRECISIONS = {"TF32": "tf32", "float32": "fp32"}


def in_numbers(model, numbers, work):
    """work() while the model's products are in "TF32" or "float32"."""
    with timeline.backend(model, get_backend("cuda", find_precision(PRECISIONS[numbers]))):
        return work()


def random_batches(model, B, T):
    """[(x, y), …] of random tokens, (B, T) int32 each."""
    draw = np.random.RandomState(0)
    return [draw.randint(0, model.config.V, (2, B, T)).astype(np.int32) for _ in range(BATCHES)]


def waits(model, B, T) -> list[dict]:
    """ms of a step for each kind of wait, with and without graphs, at a few sizes."""
    rows = []
    sizes = (B, T, "TF32"), (B, T, "float32"), (1, T, "TF32"), (B, T // 16, "TF32")
    for (b, t, numbers), as_graphs, name in product(sizes, (False, True), timeline.STEPS):
        if not as_graphs or name != "after every call":
            ms, host = in_numbers(model, numbers, partial(step_times, model, name, b, t, as_graphs))
            rows.append(dict(B=b, T=t, numbers=numbers, graphs=as_graphs, wait=name, ms=ms, host_ms=host))
    return rows


def step_times(model, name, B, T, as_graphs):
    """Medians: ms a step by the wall clock; ms that the host takes to launch one on an idle GPU."""
    batches, before, take = random_batches(model, B, T), recorder.graphs(), timeline.STEPS[name]
    recorder.graphs(as_graphs)
    with timeline.backend(model, timeline.waiting(model.backend) if name == "after every call" else model.backend):
        for i in range(WARM_UP):
            take(model, *batches[i % BATCHES])
        turns = [_turn(lambda i: take(model, *batches[i % BATCHES])) for _ in range(TURNS)]
    recorder.graphs(before)
    return [median(times) for times in zip(*turns)]


def _turn(step):
    """(ms a step, ms that the host takes to launch one on an idle GPU)."""
    times = []
    for steps, wait in ((STEPS, cuda.synchronize), (1, lambda: None)):
        cuda.synchronize()
        start = perf_counter()
        for i in range(steps):
            step(i)
        wait()
        times.append(1e3 * (perf_counter() - start) / steps)
    cuda.synchronize()
    return times


def timelines(model, B, T) -> list[dict]:
    """Two steps in a row, call by call without graphs, and as graphs; times are whole µs."""
    kinds = [("float32", name, False) for name in timeline.STEPS if name != "the loss, at the end"]
    kinds += [("TF32", "nothing waits", False), ("TF32", "nothing waits", True)]
    return [in_numbers(model, kind[0], partial(_timeline, model, B, T, *kind)) for kind in kinds]


def _timeline(model, B, T, numbers, name, as_graphs) -> dict:
    batches = random_batches(model, B, T)
    for x, y in batches:
        timeline.STEPS[name](model, x, y)
    timeline.record(model, name, batches[:2], as_graphs)  # a rehearsal: the first use of events takes longer
    calls = timeline.record(model, name, batches[:2], as_graphs)
    names = sorted({call.name for call in calls})
    rows = [[names.index(c.name), *(round(1000 * ms) for ms in (*c.host, *c.gpu))] for c in calls]
    return dict(B=B, T=T, numbers=numbers, graphs=as_graphs, wait=name, steps=2, names=names, calls=rows)
