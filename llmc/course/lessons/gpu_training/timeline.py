"""Lesson 17: when the host launched each call of a training step, and when the GPU carried it out.

The host's times are read from its clock; the GPU's come from events, which are launched before and after each call and
carry the time at which their turn came. On the emulator a launch has ended when it returns, so both are the same.
"""

from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import NamedTuple

from llmc import cuda

LR = 3e-4
EVENTS = 4096  # made before the clock starts


class Call(NamedTuple):
    """A call: its name; when the host made it and the GPU carried it out, (begin, end) in ms."""

    name: str
    host: tuple
    gpu: tuple


class Marks:
    """Calls in the queue of launches, in ms since this object was made, when the queue was empty."""

    def __init__(self):
        self._on_gpu, self._spans = cuda.device() == "gpu", []
        self._spare = [cuda.xp.cuda.Event() for _ in range(EVENTS)] if self._on_gpu else []
        cuda.synchronize()
        self._first, self._start = self._mark(), perf_counter()

    def span(self, name, work, wait=False):
        """work(), between two marks. wait: until the GPU has done it."""
        start, begin = self._now(), self._mark()
        result = work()
        end = self._mark()
        if wait:
            cuda.synchronize()
        self._spans.append((name, start, self._now(), begin, end))
        return result

    def calls(self) -> list[Call]:
        """All calls so far, in order."""
        cuda.synchronize()
        return [Call(name, (a, b), (self._ms(begin), self._ms(end))) for name, a, b, begin, end in self._spans]

    def _mark(self):
        """A moment in the queue."""
        if not self._on_gpu:
            return perf_counter()
        event = self._spare.pop()
        event.record()
        return event

    def _now(self) -> float:
        return 1e3 * (perf_counter() - self._start)

    def _ms(self, mark) -> float:
        """When the queue came to a mark."""
        if not self._on_gpu:
            return 1e3 * (mark - self._start)
        return cuda.xp.cuda.get_elapsed_time(self._first, mark)


class Around:
    """A backend that does what another one does, each call of a function through around(name, call)."""

    repeat = None  # a graph would hide the calls

    def __init__(self, backend, around):
        self._backend, self._around = backend, around

    def __getattr__(self, name):
        function = getattr(self._backend, name)
        if not callable(function):
            return function
        return lambda *arguments, **named: self._around(name, partial(function, *arguments, **named))


def waiting(backend):
    """A backend whose functions wait until the GPU is done."""

    def around(name, call):
        result = call()
        cuda.synchronize()
        return result

    return Around(backend, around)


# ------------------------------------------------------------------------------------------------------- the steps


def ahead(model, x, y, span=lambda name, work: work(), wait=False):
    """A step in which nothing waits. Returns a function that gives the loss. span: around each of its three parts."""
    loss = span("forward", lambda: model.forward(x, y, dloss=1.0, wait=wait))
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


@contextmanager
def backend(model, other):
    """Inside the block, the model has another backend."""
    before, model.backend = model.backend, other
    try:
        yield other
    finally:
        model.backend = before


def record(model, name, batches, as_graphs=False) -> list[Call]:
    """The calls of a step of that kind (a name in STEPS) for each of the batches [(x, y), …], the last ones of them.

    as_graphs: three calls a step in which nothing waits, its parts, each of which may be one graph. The model has taken
    such a step before, so that nothing is compiled or allocated now.
    """
    marks = Marks()
    around = partial(marks.span, wait=name == "after every call")
    with backend(model, model.backend if as_graphs else Around(model.backend, around)):
        for x, y in batches:
            ahead(model, x, y, marks.span) if as_graphs else STEPS[name](model, x, y)
    return marks.calls()
