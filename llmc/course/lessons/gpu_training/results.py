"""What lesson 17 shows of GPT-2 124M, measured: on this GPU, if there is one; else stored, from an H200.

The whole training runs, and PyTorch's, are only stored. Each of their steps was `waiting.ahead`, from the weights
of `llmc init --preset d12`, drawn at random, on the batches of tinyshakespeare in the order of the file.
"""

import json
from functools import partial
from pathlib import Path

from llmc import cuda, kernels
from llmc.backends import get_backend
from llmc.bench import gpu_profile
from llmc.bench.kernels import times
from llmc.config import preset
from llmc.course.lessons.gpu_training import waiting
from llmc.course.lessons.gpu_training.fusing import fusions
from llmc.cuda import recorder
from llmc.model import GPT2
from llmc.precision import find_precision

TABLE = Path("reference/h200_training.json")  # in the lessons' folder


def results(path=TABLE) -> dict:
    """All results; "note" says where they come from, "trained_on" which GPU the training was made on.

    On a GPU all but the training of GPT-2 124M is measured now, which takes about a minute.
    """
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    about, found["trained_on"] = found["about"], found["about"]["device"]
    if cuda.device() == "gpu":
        now = here(about["preset"], about["B"], about["T"])
        return found | now | dict(note=f"measured here: {now['about']['device']}")
    return found | dict(note=f"stored: {found['trained_on']}")


def here(name, B, T) -> dict:
    """Everything but the training, of a model with new weights: {"about": …, "memory": …, …}."""
    model, about = GPT2(preset(name), "cuda"), dict(device="the emulator", preset=name, B=B, T=T)
    model.init_weights()
    on_gpu = cuda.device() == "gpu"
    if on_gpu:
        limits = {numbers: times.limits(numbers == "TF32") for numbers in waiting.PRECISIONS}
        about |= dict(device=cuda.name_of_gpu(), cupy=cuda.xp.__version__, limits=limits)
    parts = dict(memory=memory, launches=launches, waits=waiting.waits, timelines=waiting.timelines, fusions=fusions)
    parts |= dict(profile=profiles) if on_gpu else {}
    return dict(about=about) | {part: measure(model, B, T) for part, measure in parts.items()}


def memory(model, B, T) -> dict:
    """Bytes that the pool holds after a few steps, with all scratch memory."""
    model.allocate(B, T)
    for x, y in waiting.random_batches(model, B, T)[: waiting.WARM_UP]:
        waiting.ahead(model, x, y)
    cuda.synchronize()
    return dict(held_bytes=cuda.xp.get_default_memory_pool().used_bytes() if cuda.device() == "gpu" else None)


def launches(model, B, T) -> dict:
    """{kernel: launches in a step}, without graphs; "graphs": how many graphs a step is recorded as."""
    counts, before = {}, recorder.graphs()

    def watch(name, launch):
        counts[name] = counts.get(name, 0) + 1
        return launch()

    recorder.graphs(False)
    with kernels.watched(watch):
        waiting.ahead(model, *waiting.random_batches(model, B, T)[0])
    recorder.graphs(before)
    return dict(kernels=counts, graphs=recorder.recorded())


def profiles(model, B, T) -> dict:
    """{"TF32", "float32": {"functions": [[name, calls, ms, floor ms or None]]}, "hurried": {name: ms in TF32}}.

    Slowest first; medians of a few steps. hurried: what events say when the GPU waits for the host's launches.
    "parts": {kernel: ms} of matmul_backward in TF32.
    """
    spin = cuda.RawKernel(gpu_profile.SPIN, "spin")
    patient = partial(gpu_profile.PatientBackend, spin=spin)
    rows = {numbers: _profile(model, B, T, numbers, patient) for numbers in waiting.PRECISIONS}
    found = {numbers: dict(functions=_functions(some)) for numbers, some in rows.items()}
    hurried = _functions(_profile(model, B, T, "TF32", gpu_profile.EventBackend))
    parts = {r["kernel"]: r["ms"] for r in rows["TF32"] if r["function"] == "matmul_backward" and r["kernel"]}
    return found | dict(hurried={name: ms for name, _, ms, _ in hurried}, parts=parts)


def _profile(model, B, T, numbers, of_events, steps=4) -> list[dict]:
    """Rows of gpu_profile, functions and their kernels; of_events: from a backend to one that records events."""
    found, precision = [], find_precision(waiting.PRECISIONS[numbers])
    for x, y in waiting.random_batches(model, B, T)[:steps]:
        timed = of_events(get_backend("cuda", precision))
        with waiting.backend(model, timed), kernels.watched(timed.watch):
            waiting.ahead(model, x, y)
        cuda.synchronize()
        found.append((1.0, gpu_profile.sums(timed.spans, gpu_profile.rates(precision))))
    return gpu_profile.table(found[1:])["rows"]  # the first step compiles


def _functions(rows) -> list:
    rows = [row for row in rows if row["kernel"] is None]
    return [[r["function"], r["calls"], round(r["ms"], 4), r["floor_ms"] and round(r["floor_ms"], 4)] for r in rows]


def wait_times(found, what="ms", **chosen) -> dict:
    """{kind of wait: ms a step} of the rows with these values, B=4, graphs=False, …; what: "ms" or "host_ms"."""
    return {row["wait"]: row[what] for row in _chosen(found["waits"], chosen)}


def one_timeline(found, **chosen) -> dict:
    """The only timeline with these values; its calls as (name, host begin, host end, GPU begin, GPU end) in ms."""
    (only,) = _chosen(found["timelines"], chosen)
    return only | {"calls": [(only["names"][k], *(us / 1e3 for us in times)) for k, *times in only["calls"]]}


def _chosen(rows, chosen):
    return [row for row in rows if all(row[key] == value for key, value in chosen.items())]


def functions(profile) -> dict:
    """{function: (ms, floor ms or None)} of a profile, slowest first."""
    return {name: (ms, floor) for name, _, ms, floor in profile["functions"]}


def idle_ms(calls) -> float:
    """How long no call was on the GPU, between the first and the last; what it waited inside a call does not count."""
    idle, busy_until = 0.0, calls[0][3]
    for *_, begin, end in calls:
        idle += max(0.0, begin - busy_until)
        busy_until = max(busy_until, end)
    return idle


def measure() -> dict:
    """The whole table, measured on this GPU; the training runs stay as they are."""
    found, new = json.loads(TABLE.read_text(encoding="utf-8")), here("d12", B=4, T=1024)
    return found | new | dict(about=found["about"] | new["about"])
