"""Lesson 17: when the host launched each call of a training step, and when the GPU carried it out.

The host's times are read from its clock; the GPU's come from events, which are launched before and after each call and
carry the time at which their turn came. On the emulator a launch has ended when it returns, so both are the same.
"""

from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple

from llmc import cuda

LR = 3e-4
EVENTS = 4096  # made before the clock starts


class Call(NamedTuple):
    """A call of a backend function: its name; when the host made it and the GPU carried it out, (begin, end) in ms."""

    name: str
    host: tuple
    gpu: tuple


class Marks:
    """Moments in the queue of launches, in ms since this object was made, when the queue was empty."""

    def __init__(self):
        self._on_gpu = cuda.device() == "gpu"
        self._spare = [cuda.xp.cuda.Event() for _ in range(EVENTS)] if self._on_gpu else []
        cuda.synchronize()
        self._first = self.mark()
        self._start = perf_counter()

    def mark(self):
        """A moment in the queue."""
        if not self._on_gpu:
            return perf_counter()
        event = self._spare.pop()
        event.record()
        return event

    def host(self) -> float:
        """Now, by the host's clock."""
        return 1e3 * (perf_counter() - self._start)

    def ms(self, mark) -> float:
        """When the queue came to a mark."""
        if not self._on_gpu:
            return 1e3 * (mark - self._start)
        return cuda.xp.cuda.get_elapsed_time(self._first, mark)


class MarkedBackend:
    """A backend that does what another one does, and marks each call of one of its functions."""

    repeat = None  # a graph would hide the calls

    def __init__(self, backend, marks, wait=False):
        self._backend, self._marks, self._wait, self._spans = backend, marks, wait, []

    def __getattr__(self, name):
        function = getattr(self._backend, name)
        if not callable(function):
            return function

        def marked(*arguments, **named):
            start, begin = self._marks.host(), self._marks.mark()
            result = function(*arguments, **named)
            end = self._marks.mark()
            if self._wait:
                cuda.synchronize()
            self._spans.append((name, start, self._marks.host(), begin, end))
            return result

        return marked

    def calls(self) -> list[Call]:
        """All calls so far, in order."""
        cuda.synchronize()
        ms = self._marks.ms
        return [Call(name, (start, stop), (ms(begin), ms(end))) for name, start, stop, begin, end in self._spans]


class WaitingBackend:
    """A backend whose functions wait until the GPU is done."""

    repeat = None

    def __init__(self, backend):
        self._backend = backend

    def __getattr__(self, name):
        function = getattr(self._backend, name)
        if not callable(function):
            return function

        def waiting(*arguments, **named):
            result = function(*arguments, **named)
            cuda.synchronize()
            return result

        return waiting


# ------------------------------------------------------------------------------------------------------- the steps


def ahead(model, x, y):
    """A step in which nothing waits. Returns a function that gives the loss."""
    model.forward(x, y, dloss=1.0, wait=False)
    loss = model.loss_later()
    model.backward()
    model.update(LR, beta2=0.999, zero_grad=True)
    return loss


def at_the_end(model, x, y):
    """The same, but the loss is read when all of the step has been launched."""
    loss = ahead(model, x, y)
    return loss()


def in_the_middle(model, x, y):
    """The same, but the loss is read between forward and backward."""
    loss = model.forward(x, y, dloss=1.0)
    model.backward()
    model.update(LR, beta2=0.999, zero_grad=True)
    return loss


STEPS = {
    "nothing waits": ahead,
    "the loss, at the end": at_the_end,
    "the loss, in the middle": in_the_middle,
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


def record(model, name, batches) -> list[Call]:
    """The calls of a step of that kind (a name in STEPS) for each of the batches [(x, y), …], the last ones of them.

    The model has taken such a step before, so that nothing is compiled or allocated now.
    """
    marked = MarkedBackend(model.backend, Marks(), wait=name == "after every call")
    with backend(model, marked):
        for x, y in batches:
            STEPS[name](model, x, y)
        return marked.calls()


def record_graphs(model, name, batches) -> list[Call]:
    """The same for the three parts of each step, each of which may be one graph; name must be "nothing waits"."""
    assert name == "nothing waits"
    marks, spans = Marks(), []

    def part(what, work):
        start, begin = marks.host(), marks.mark()
        work()
        spans.append((what, start, marks.host(), begin, marks.mark()))

    for x, y in batches:
        part("forward", lambda x=x, y=y: model.forward(x, y, dloss=1.0, wait=False))
        part("backward", model.backward)
        part("update", lambda: model.update(LR, beta2=0.999, zero_grad=True))
    cuda.synchronize()
    return [Call(what, (start, stop), (marks.ms(begin), marks.ms(end))) for what, start, stop, begin, end in spans]
