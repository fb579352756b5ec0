"""Lesson 17: when a training step's calls are launched and carried out, and what a wait for the GPU costs it.

The host's times are read from its clock; the GPU's come from events, which are launched before and after each call and
carry the time at which their turn came. On the emulator a launch has ended when it returns, so both are the same.
"""

from collections import namedtuple
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice, product
from statistics import median
from time import perf_counter

import numpy as np

from llmc import cuda
from llmc.backends import get_backend
from llmc.backends.contract import Around
from llmc.bench.versus import BATCHES
from llmc.cuda import recorder
from llmc.precision import find_precision

LR = 3e-4
EVENTS = 4096  # made before the clock starts
TURNS, TIMED, WARM_UP = 7, 10, 4  # turns, and steps of one; steps before them
PRECISIONS = {"TF32": "tf32", "float32": "fp32"}


Call = namedtuple("Call", "name host gpu")  # when the host made it, and the GPU carried it out: (begin, end) in ms


class Marks:
    """Calls in the queue of launches, in ms since this object was made, when the queue was empty."""

    def __init__(self):
        self._on_gpu, self._spans = cuda.device() == "gpu", []
        self._spare = [cuda.xp.cuda.Event() for _ in range(EVENTS)] if self._on_gpu else []
        cuda.synchronize()
        self._start = 0.0
        self._first, self._start = self._mark(), perf_counter()

    def span(self, name, work, wait=False):
        """work(), between two marks. wait: until the GPU has done it."""
        start, begin = self._now(), self._mark()
        result = work()
        end = self._mark()
        if wait:
            cuda.synchronize()
        self._spans.append((name, (start, self._now()), (begin, end)))
        return result

    def calls(self) -> list[Call]:
        """All calls so far, in order."""
        cuda.synchronize()
        return [Call(name, host, tuple(map(self._ms, marks))) for name, host, marks in self._spans]

    def _mark(self):
        """A moment in the queue: an event, or the time by the host's clock, which is the emulator's."""
        if not self._on_gpu:
            return self._now()
        event = self._spare.pop()
        event.record()
        return event

    def _now(self) -> float:
        return 1e3 * (perf_counter() - self._start)

    def _ms(self, mark) -> float:
        """When the queue came to a mark."""
        return cuda.xp.cuda.get_elapsed_time(self._first, mark) if self._on_gpu else mark


def calls_through(backend, around):
    """A backend that does what another one does, with each call of a function made through around(name, call)."""

    def wrapped(name, function):
        return lambda *arguments, **named: around(name, partial(function, *arguments, **named))

    return Around(backend, wrapped)


def then_wait(name, call):
    """call(), and a wait until the GPU is done."""
    result = call()
    cuda.synchronize()
    return result


@contextmanager
def backend(model, other):
    """Inside the block, the model has another backend."""
    before, model.backend = model.backend, other
    try:
        yield other
    finally:
        model.backend = before


def ahead(model, x, y, span=lambda name, work: work(), wait=False):
    """A step in which nothing waits. Returns a function that gives the loss. span: around each of its three parts."""
    loss = span("forward", lambda: (model.forward if wait else model.launch)(x, y))
    later = (lambda: loss) if wait else model.loss_later()
    span("backward", model.backward)
    span("update", lambda: model.update(LR, beta2=0.999, zero_grad=True))
    return later


STEPS = {  # each returns the loss, or a function that gives it
    "nothing waits": ahead,
    "the loss, at the end": lambda model, x, y: ahead(model, x, y)(),
    "the loss, in the middle": lambda model, x, y: ahead(model, x, y, wait=True)(),
    "after every call": ahead,
}


def record(model, name, batches, as_graphs=False) -> list[Call]:
    """The calls of a step of that kind (a name in STEPS) for each of the batches [(x, y), …], the last ones of them.

    as_graphs: three calls a step in which nothing waits, its parts, each of which may be one graph. The model has taken
    such a step before, so that nothing is compiled or allocated now.
    """
    marks = Marks()
    around = partial(marks.span, wait=name == "after every call")
    with backend(model, model.backend if as_graphs else calls_through(model.backend, around)):
        for x, y in batches:
            ahead(model, x, y, marks.span) if as_graphs else STEPS[name](model, x, y)
    return marks.calls()


def random_batches(model, B, T):
    """[(x, y), …] of random tokens, (B, T) int32 each."""
    draw = np.random.RandomState(0)
    return [draw.randint(0, model.config.V, (2, B, T)).astype(np.int32) for _ in range(BATCHES)]


def in_numbers(model, numbers):
    """Inside the block, the model's products are in "TF32" or "float32"."""
    return backend(model, get_backend("cuda", find_precision(PRECISIONS[numbers])))


def waits(model, B, T) -> list[dict]:
    """ms of a step for each kind of wait, with and without graphs, at a few sizes; host_ms of it to launch one."""
    rows, before = [], recorder.graphs()
    sizes = (T, "TF32"), (T, "float32"), (T // 16, "TF32")
    for (t, numbers), as_graphs, name in product(sizes, (False, True), STEPS):
        recorder.graphs(as_graphs)
        if not as_graphs or name != "after every call":
            with in_numbers(model, numbers):
                ms, host = _step_times(model, name, random_batches(model, B, t))
            rows.append(dict(B=B, T=t, numbers=numbers, graphs=as_graphs, wait=name, ms=ms, host_ms=host))
    recorder.graphs(before)
    return rows


def _step_times(model, name, batches):
    """Medians: ms a step by the wall clock; ms that the host takes to launch one on an idle GPU."""
    whole, host = [], []
    with backend(model, calls_through(model.backend, then_wait) if name == "after every call" else model.backend):
        for x, y in batches[:WARM_UP]:
            STEPS[name](model, x, y)
        for steps, times in [(TIMED, whole), (1, host)] * TURNS:
            cuda.synchronize()
            start = perf_counter()
            for x, y in islice(cycle(batches), steps):
                STEPS[name](model, x, y)
            if times is whole:
                cuda.synchronize()
            times.append(1e3 * (perf_counter() - start) / steps)
    cuda.synchronize()
    return median(whole), median(host)


def timelines(model, B, T) -> list[dict]:
    """Two steps in a row, call by call without graphs, and as graphs; times are whole µs."""
    kinds = [("float32", name, False) for name in STEPS if name != "the loss, at the end"]
    kinds += [("TF32", "nothing waits", False), ("TF32", "nothing waits", True)]
    batches, found = random_batches(model, B, T), []
    for numbers, name, as_graphs in kinds:
        with in_numbers(model, numbers):
            for x, y in batches:
                STEPS[name](model, x, y)
            for _ in range(2):  # at first a rehearsal: the first use of events takes longer
                calls = record(model, name, batches[:2], as_graphs)
        names = sorted({call.name for call in calls})
        rows = [[names.index(c.name), *(round(1000 * ms) for ms in (*c.host, *c.gpu))] for c in calls]
        found.append(dict(B=B, T=T, numbers=numbers, graphs=as_graphs, wait=name, steps=2, names=names, calls=rows))
    return found
