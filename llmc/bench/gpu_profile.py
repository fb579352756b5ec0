"""Where a training step spends its time on a GPU: each backend function next to its floor, and the kernels it launches.

Times are the GPU's own, between events that are recorded before and after each call; nothing waits in between. If the
GPU is idle, two events measure more than the call: the GPU reaches the first one at once, and then waits for the host
to launch the kernels. So each call is launched behind a kernel that does nothing for a while, which leaves time to
queue all of it. A floor is the larger of two times: the bytes that a function must move at the rate of a large copy,
and the operations of its matrix products at the rate of a large product in the same number format.
"""

from collections import defaultdict
from statistics import median

import numpy as np

from llmc import cuda, kernels
from llmc.backends.contract import Around
from llmc.bench.kernels.floors import least
from llmc.bench.kernels.times import limits
from llmc.config import preset
from llmc.errors import UserError
from llmc.model import GPT2

STEPS = 5  # of which the medians are shown
HEAD_START = 2_000_000  # cycles, a millisecond: more than the host takes for any call
SPIN = r"""
extern "C" __global__ void spin(long long cycles)
{
    long long start = clock64();
    while (clock64() - start < cycles) { }
}
"""


class EventBackend(Around):
    """The "cuda" backend, with events around each call of a function and each launch of a kernel."""

    def __init__(self, backend):
        self.spans, self._inside = [], None
        super().__init__(backend, self._around)

    def _around(self, name, function):
        def timed(*arguments, **named):
            self._inside = name
            floor = least(name, arguments, named)
            return self._span((name, None), floor, lambda: function(*arguments, **named))

        return timed

    def watch(self, name, launch):
        """Call launch() for a kernel of that name within the current call."""
        return self._span((self._inside, name), None, launch)

    def _span(self, what, floor, work):
        begin, end = cuda.xp.cuda.Event(), cuda.xp.cuda.Event()
        begin.record()
        result = work()
        end.record()
        self.spans.append((what, floor, begin, end))
        return result


class PatientBackend(EventBackend):
    """An EventBackend that queues each call in full before the GPU gets to it."""

    def __init__(self, backend, spin):
        super().__init__(backend)
        self._spin = spin

    def _span(self, what, floor, work):
        if what[1] is None:  # a function of the backend; its kernels follow inside
            self._spin((1,), (1,), (np.int64(HEAD_START),))
        return super()._span(what, floor, work)


def profile(name, precision="fp32", recompute=None, *, B, T, matmul="fastest", attention="own") -> dict:
    """{"step_ms": …, "rows": [...]}: the slowest function first, each followed by its kernels.

    step_ms: the time of a whole step as training runs it, which may differ from the sum of its functions. A row:
    function, kernel (None in the function's own row), calls, ms, floor_ms (None if there is no floor), share of the
    step. matmul, attention: as for `Backend.choose`. Raises UserError without a GPU.
    """
    if cuda.device() != "gpu":
        raise UserError("a profile by kernel needs a GPU; `llmc bench` without --profile works anywhere.")
    model = GPT2(preset(name), "cuda", precision, recompute=recompute)
    model.backend.choose(matmul, attention)
    model.allocate(B, T)
    model.init_weights()
    x = np.random.RandomState(0).randint(0, model.config.V, (B, T)).astype(np.int32)  # (B, T)
    backend, spin = model.backend, cuda.RawKernel(SPIN, "spin")
    steps, found = [], rates(model.precision)
    for _ in range(STEPS + 1):
        whole = _step(model, x)  # as it runs in training: nothing spins
        model.backend = patient = PatientBackend(backend, spin)
        with kernels.watched(patient.watch):
            _step(model, x)
        model.backend = backend
        steps.append((whole, sums(patient.spans, found)))
    return table(steps[1:])  # the first one compiles


def _step(model, x) -> float:
    """The duration of a step in milliseconds."""
    begin, end = cuda.xp.cuda.Event(), cuda.xp.cuda.Event()
    begin.record()
    model.launch(x, x, dloss=1.0)
    model.backward(accumulate=False)
    model.update(1e-4, max_norm=1.0)
    end.record()
    end.synchronize()
    return cuda.xp.cuda.get_elapsed_time(begin, end)


def rates(precision) -> dict:
    """{narrow: (bytes per ms of a large copy, operations per ms of a large product)}.

    narrow: with factors of 8 bits, if this precision has them, as matmuls do; False: as everything else computes.
    """
    types = precision.rounds_factors, precision.weights if precision.is_mixed else None
    found = {narrow: limits(*types, narrow and precision.has_8_bit_factors) for narrow in (False, True)}
    return {narrow: (1e6 * each["copy_gb_s"], 1e9 * each["sgemm_tflop_s"]) for narrow, each in found.items()}


def sums(spans, rates) -> dict:
    """{(function, kernel): [calls, ms, floor ms]} of an EventBackend's spans, with the rates of a precision."""
    found = defaultdict(lambda: [0, 0.0, 0.0])
    for what, floor, begin, end in spans:
        row = found[what]
        row[0] += 1
        row[1] += cuda.xp.cuda.get_elapsed_time(begin, end)
        if floor is not None:
            row[2] += max(amount / rate for amount, rate in zip(floor, rates["matmul" in what[0]], strict=True))
    return found


def table(steps) -> dict:
    """What `profile` returns, of steps (ms of the whole, sums)."""
    step_ms = median(whole for whole, _ in steps)
    rows = []
    for function, kernel in steps[0][1]:
        found = [each[function, kernel] for _, each in steps]
        calls, ms, floor = found[0][0], median(row[1] for row in found), found[0][2]
        row = dict(function=function, kernel=kernel, calls=calls, ms=ms, floor_ms=floor or None, share=ms / step_ms)
        rows.append(row)
    whole = {row["function"]: row["ms"] for row in rows if row["kernel"] is None}
    rows.sort(key=lambda row: (-whole[row["function"]], row["function"], row["kernel"] is not None, -row["ms"]))
    return dict(step_ms=step_ms, rows=rows)


def text(result) -> str:
    """Format a result of `profile` as a table."""
    lines = [f"{'function, and its kernels':<44} {'calls':>6} {'ms':>8} {'floor':>8} {'share':>7}"]
    for row in result["rows"]:
        name = row["function"] if row["kernel"] is None else f"    {row['kernel']}"
        floor = "" if row["floor_ms"] is None else f"{row['floor_ms']:.3f}"
        lines.append(f"{name:<44} {row['calls']:6} {row['ms']:8.3f} {floor:>8} {row['share']:7.1%}")
    floors = sum(row["floor_ms"] or 0.0 for row in result["rows"])
    return "\n".join([*lines, f"{'step':<44} {'':6} {result['step_ms']:8.3f} {floors:8.3f}"])
