"""Lesson 17: the time of each function of a step on a GPU, without the time that the host takes to launch it.

An event before a call and one after it measure more than the call when the GPU has nothing to do: it comes to the first
event at once, and then waits for the host to launch the kernels. So each call is launched behind a kernel that does
nothing for a while. When its turn comes, all of it is in the queue.
"""

from collections import defaultdict
from functools import partial
from statistics import median

from llmc import cuda, kernels
from llmc.bench.gpu_profile import SPIN, EventBackend, PatientBackend
from llmc.bench.kernels import times
from llmc.course.lessons.gpu_training import timeline
from llmc.course.lessons.gpu_training.waiting import in_numbers, random_batches

STEPS = 4  # of which the first only compiles


def profile(model, B, T, tf32=False) -> dict:
    """{"functions": [[name, calls, ms, floor ms or None]], "kernels": [[function, name, launches, ms]]} of a step.

    The slowest first; medians of a few steps. tf32: whether floors are those of products in TF32.
    """
    spin, backend, batches = cuda.RawKernel(SPIN, "spin"), model.backend, random_batches(model, B, T)
    limits = times.limits(tf32)
    rates, found = (1e6 * limits["copy_gb_s"], 1e9 * limits["sgemm_tflop_s"]), []
    for i in range(STEPS):
        patient = PatientBackend(backend, spin)
        with timeline.backend(model, patient), kernels.watched(patient.watch):
            timeline.ahead(model, *batches[i])
        cuda.synchronize()
        found.append(_sums(patient.spans, rates))
    return _rows(found[1:])


def _sums(spans, rates) -> dict:
    """{(function, kernel or None): [calls, ms, floor ms]}."""
    sums = defaultdict(lambda: [0, 0.0, 0.0])
    for what, floor, begin, end in spans:
        row = sums[what]
        row[0] += 1
        row[1] += cuda.xp.cuda.get_elapsed_time(begin, end)
        row[2] += 0.0 if floor is None else max(amount / rate for amount, rate in zip(floor, rates, strict=True))
    return sums


def _rows(steps) -> dict:
    functions, launched = [], []
    for (function, kernel), (calls, _, floor) in steps[0].items():
        ms = round(median(sums[function, kernel][1] for sums in steps), 4)
        if kernel is None:
            functions.append([function, calls, ms, round(floor, 4) or None])
        else:
            launched.append([function, kernel, calls, ms])
    functions.sort(key=lambda row: -row[2])
    launched.sort(key=lambda row: -row[3])
    return dict(functions=functions, kernels=launched)


def profiles(model, B, T) -> dict:
    """{"TF32": a result of `profile`, "float32": …, "hurried": {function: ms in TF32}}."""
    found = {
        numbers: in_numbers(model, numbers, partial(profile, model, B, T, numbers == "TF32"))
        for numbers in ("TF32", "float32")
    }
    return found | dict(hurried=in_numbers(model, "TF32", lambda: hurried(model, B, T)))


def hurried(model, B, T) -> dict:
    """What events around each call and each kernel say when the host launches one while the GPU waits for it."""
    for x, y in random_batches(model, B, T)[:2]:
        backend = EventBackend(model.backend)
        with timeline.backend(model, backend), kernels.watched(backend.watch):
            timeline.ahead(model, x, y)
        cuda.synchronize()
    sums = {}
    for (function, kernel), _, begin, end in backend.spans:
        if kernel is None:
            sums[function] = sums.get(function, 0.0) + cuda.xp.cuda.get_elapsed_time(begin, end)
    return {function: round(ms, 4) for function, ms in sums.items()}
