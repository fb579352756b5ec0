"""Lesson 17's plans; the marks in a step; what is measured, and read of its results."""

import json
from pathlib import Path

import numpy as np
import pytest

from llmc import cuda
from llmc.config import GPT2Config
from llmc.course.lessons.gpu_training import arenas, drawings, fusing, results, waiting
from llmc.kernels import classifier
from llmc.model import GPT2

STORED = Path(__file__).resolve().parents[3] / "notebooks" / results.TABLE
TINY = GPT2Config(maxT=16, V=60, L=1, NH=2, C=8)


def model(backend=lambda it: it):
    made = GPT2(TINY, "cuda")
    made.init_weights()
    made.backend = backend(made.backend)
    return made


def test_a_plan_is_measured_by_the_most_that_lives_in_one_step():
    tensors = [(20, 0, 1), (10, 1, 2), (20, 2, 3)]
    assert arenas.floor(tensors) == 30 and arenas.needed([0, 32, 0], tensors) == 42
    pairs = [arenas.overlapping(places, tensors) for places in ([0, 32, 0], [0, 16, 0], [0, 32, 32])]
    assert pairs == [None, (0, 1), (1, 2)]


def test_the_tensors_of_a_gpt2_live_as_long_as_they_are_read():
    config = GPT2Config(maxT=8, V=60, L=2, NH=2, C=8)
    tensors, end = arenas.gpt2_tensors(config, B=1, T=8), 2 * config.L + 3
    assert max(last for _, _, last in tensors) == end and min(first for _, first, _ in tensors) == 0
    assert all(first <= last for _, first, last in tensors)
    assert (4 * 8 * config.Vp, config.L + 1, config.L + 2) in tensors, "the logits"


def test_all_kinds_of_steps_train_alike_and_a_record_has_every_call_in_order():
    weights, kinds = [], [(name, lambda it: it) for name in waiting.STEPS]
    for name, backend in [*kinds, ("nothing waits", lambda it: waiting.calls_through(it, waiting.then_wait))]:
        made = model(backend)
        losses = [waiting.STEPS[name](made, x, y) for x, y in waiting.random_batches(made, 2, 8)[:2]]
        weights.append([*cuda.asnumpy(made.params_flat), *(loss() if callable(loss) else loss for loss in losses)])
    assert all(each == weights[0] for each in weights)
    made = model()
    calls = waiting.record(made, "nothing waits", waiting.random_batches(made, 2, 8)[:2])
    assert np.array_equal(cuda.asnumpy(made.params_flat), np.float32(weights[0][:-2]))
    names, times = [call.name for call in calls], [time for call in calls for time in call.gpu]
    assert names.count("fused_classifier") == 2 and names.count("adamw_update_by") == 32
    assert times == sorted(times) and all(call.host[0] <= call.host[1] for call in calls)
    assert {drawings.phase(name) for name in names} == set(drawings.PHASES)
    parts = waiting.record(made, "nothing waits", waiting.random_batches(made, 2, 8)[:1], as_graphs=True)
    assert [part.name for part in parts] == [*drawings.PHASES]


def test_what_is_measured_on_any_device(monkeypatch):
    monkeypatch.setattr(waiting, "TIMED", 1)
    monkeypatch.setattr(waiting, "TURNS", 1)
    monkeypatch.setattr(results, "preset", lambda name: TINY)
    found = results.here("tiny", 2, 16)
    assert found["launches"]["graphs"] == 0 and found["launches"]["kernels"]["fused_classifier_v3"] == 1
    assert len(found["waits"]) == 3 * 7 and all(row["ms"] > 0 for row in found["waits"])
    calls = results.one_timeline(found, wait="after every call")["calls"]
    assert all(a <= b and begin <= end for _, a, b, begin, end in calls) and results.idle_ms(calls) >= 0
    assert all(us > 0 for each in found["fusions"].values() for us in each.values())


def test_kernels_apart_give_what_the_fused_one_gives():
    rng, (N, V, Vp) = np.random.default_rng(17), (3, 50, 128)
    z, targets = rng.normal(0, 2, (N, Vp)).astype(np.float32), rng.integers(0, V, N).astype(np.int32)  # (N, Vp), (N,)
    losses, probs, dlogits, mine = np.empty(N, np.float32), np.empty_like(z), np.empty_like(z), np.empty(N, np.float32)
    fusing.classify(fusing.apart(fusing.CLASSIFIER), losses, probs, dlogits, z, targets, 0.2, V)
    classifier.fused_classifier(mine, z, targets, 0.2, V)
    assert np.allclose(losses, mine, atol=1e-5) and np.allclose(dlogits, z, atol=1e-6)


@pytest.mark.skipif(not STORED.is_file(), reason="needs a checkout: results lie with the lessons")
def test_the_stored_results_are_whole():
    found = json.loads(STORED.read_text(encoding="utf-8"))
    assert STORED.stat().st_size < 200_000 and found["training"]["equal_bits"]
    shown = results.results(STORED)
    assert shown["note"] == f"stored: {shown['trained_on']}" and "H200" in shown["trained_on"]
    times = results.wait_times(found, B=4, T=1024, numbers="TF32", graphs=False)
    assert list(times) == list(waiting.STEPS)
    functions = results.functions(found["profile"]["TF32"])
    assert all(floor is None or 0 < floor < 1.1 * ms for ms, floor in functions.values())
