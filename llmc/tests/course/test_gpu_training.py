"""Lesson 17's references and known mistakes, plans and queues; its marks in a step; what it reads of its results."""

import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from llmc import cuda
from llmc.config import GPT2Config
from llmc.course.lessons.gpu_training import (
    apart,
    arena_causes,
    arenas,
    drawings,
    measured,
    places,
    profiling,
    queues,
    results,
    steps,
    timeline,
    waiting,
)
from llmc.course.old.checks.explain import WrongAnswer
from llmc.kernels import classifier
from llmc.model import GPT2

RNG = np.random.default_rng(17)
ROOT = Path(__file__).resolve().parents[3]
STORED = ROOT / "notebooks" / results.TABLE
TINY = GPT2Config(maxT=16, V=60, L=1, NH=2, C=8)
needs_checkout = pytest.mark.skipif(not STORED.is_file(), reason="needs a checkout: results lie with the lessons")


def tables():
    """(what is right, {sentence: (wrong array, where)}) of every kernel."""
    for V, Vp in ((7, 32), (70, 96)):
        z, targets = steps.logits(RNG, 5, V, Vp, 0, 0)
        right, known = steps.classified(z, targets, 0.3, V), steps.classifier_mistakes(z, targets, 0.3, V)
        yield right.losses, known["losses"]
        yield right.dlogits[:, :V], known["dlogits"]
        yield np.zeros((5, Vp - V)), steps.padding_mistakes(z, V)
    d, x = RNG.normal(1, 1, (2, 33)).astype(np.float32)  # (n,) each
    again = steps.gelu_again(d, x)
    known = steps.gelu_mistakes(d, x, again.out, again.d)
    yield again.out, known["out"]
    yield again.d, known["d"]
    arrays = RNG.normal(1, 0.3, (4, 9)).astype(np.float32) ** 2  # params, grads, m, v: (n,) each
    lr, fixed = np.float32([0.05]), steps.fixed_settings(RNG)
    for t, size in ((1, 0.5), (7, 4.0), (3, np.nan), (3, np.inf)):
        norm = np.float32([size * fixed[0]])
        right = steps.stepped(*arrays, lr, t, norm, fixed)
        for name, wrongs in steps.adamw_mistakes(*arrays, lr, t, norm, fixed).items():
            yield right[name], wrongs


def test_every_known_mistake_is_wrong():
    for right, wrongs in tables():
        for sentence, (array, where) in wrongs.items():
            assert np.shape(array) == right.shape, sentence
            assert np.abs(array - right).max() > 3e-4 * np.abs(array).max(), sentence
            assert where.startswith("lesson ")


@pytest.mark.skipif(not (ROOT / "notebooks").is_dir(), reason="needs a checkout")
def test_every_section_that_a_check_names_exists():
    said = " ".join(str(value) for value in vars(places).values())
    named = set(re.findall(r'lesson (\d\d), section "([^"]+)"', said))
    assert len(named) > 8
    for number, title in named:
        (notebook,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
        headings = re.findall(r'"#+ (.*?)(?:\\n)?"', notebook.read_text(encoding="utf-8"))
        assert any(heading.startswith(title) for heading in headings), f"{title!r} is no section of {notebook.name}"


def test_an_infinite_norm_changes_nothing_but_the_gradients():
    arrays = [a.astype(np.float32) for a in RNG.uniform(0.5, 1, (4, 5))]  # params, grads, m, v
    after = steps.stepped(*arrays, [0.1], 2, [np.inf], steps.fixed_settings(RNG))
    assert after["params"] is arrays[0] and after["m"] is arrays[2] and after["v"] is arrays[3]
    assert not after["grads"].any()


# ------------------------------------------------------------------------------------------------------------- queues


def test_a_run_is_descent_with_clipping():
    batches = [(RNG.normal(1, 1, (5, 3)), RNG.normal(0, 1, 5)) for _ in range(4)]
    w = RNG.normal(0, 1, 3)
    free, clipped = queues.trained(w, batches, 0.01, np.inf), queues.trained(w, batches, 0.01, 0.5)
    assert np.allclose(free.w, queues.trained(w, batches, 0.01, 0.5, clip=False).w)
    assert clipped.norms.max() > 0.5 and np.abs(clipped.w - w).sum() < 0.01 * 0.5 * 4 * 3
    for name, wrongs in queues.mistakes(w, batches, 0.01, 0.5).items():
        for sentence, (array, _) in wrongs.items():
            assert np.shape(array) == getattr(clipped, name).shape, sentence


@pytest.mark.parametrize(
    "found, words",
    [
        ([1.0], "return two lists"),
        (([1.0, 2.0], 3.0), "norms should be a list of floats"),
        (([1.0], [1.0, 2.0]), "losses has 1 numbers, but there were 2 steps"),
        (([1.0, 2.0], [1.0, "x"]), "norms holds a str, not a float"),
    ],
)
def test_what_is_not_two_lists_of_floats_is_refused(found, words):
    with pytest.raises(WrongAnswer, match=words):
        queues.two_lists(found, 2)


# ------------------------------------------------------------------------------------------------------------- arenas

TENSORS = [(20, 0, 1), (10, 1, 2), (20, 2, 3)]


def test_the_floor_is_the_largest_sum_that_lives_in_one_step():
    assert arena_causes.floor(TENSORS) == 30
    assert arena_causes.needed([0, 32, 0], TENSORS) == 42
    arenas.explain([0, 32, 0], TENSORS, "here")


@pytest.mark.parametrize(
    "offsets, words",
    [
        ([0, 32], "return the first byte of each of the 3 tensors as a list, not 2 of them"),
        (None, "not None"),
        ([0, 32, 0.0], "the place of tensor 2 is 0.0"),
        ([0, -16, 0], "the array begins at byte 0"),
        ([0, 24, 0], "no multiple of 16"),
        ([0, 16, 0], "tensors 0 and 1 overlap while both live.(?s:.)*steps 1 to 2\n→ Where"),
        ([0, 32, 32], "tensors 1 and 2 overlap"),
    ],
)
def test_a_plan_that_is_none_is_refused(offsets, words):
    with pytest.raises(WrongAnswer, match=words):
        arenas.explain(offsets, TENSORS, "here")


def test_a_plan_that_wastes_is_refused():
    assert arenas.demand("x", [([0, 32, 0], TENSORS)], 1.5, "here") == 42 / 30
    with pytest.raises(WrongAnswer, match="nothing is used twice"):
        arenas.demand("x", [([0, 32, 48], TENSORS)], 1.5, "here")


def test_the_tensors_of_a_gpt2_live_as_long_as_they_are_read():
    config = GPT2Config(maxT=8, V=60, L=2, NH=2, C=8)
    tensors = arenas.gpt2_tensors(config, B=1, T=8)
    end = 2 * config.L + 3
    assert max(last for _, _, last in tensors) == end and min(first for _, first, _ in tensors) == 0
    assert all(first <= last for _, first, last in tensors)
    assert (4 * 8 * config.Vp, config.L + 1, config.L + 2) in tensors, "the logits"


# ----------------------------------------------------------------------------------------------------------- a step


def trained(take, backend=None):
    """Weights after two steps of a kind, and its losses."""
    model = GPT2(TINY, "cuda")
    model.init_weights()
    model.backend = backend(model.backend) if backend else model.backend
    found = [take(model, x, y) for x, y in waiting.random_batches(model, 2, 8)[:2]]
    return cuda.asnumpy(model.params_flat), [loss() if callable(loss) else loss for loss in found]


def test_all_kinds_of_steps_train_alike():
    weights, losses = trained(timeline.ahead)
    for take in (timeline.at_the_end, timeline.in_the_middle):
        other, its = trained(take)
        assert np.array_equal(other, weights) and its == losses
    other, its = trained(timeline.ahead, timeline.WaitingBackend)
    assert np.array_equal(other, weights) and its == losses


def test_a_record_has_every_call_in_order_and_changes_nothing():
    weights, _ = trained(timeline.ahead)
    model = GPT2(TINY, "cuda")
    model.init_weights()
    backend = model.backend
    calls = timeline.record(model, "nothing waits", waiting.random_batches(model, 2, 8)[:2])
    assert np.array_equal(cuda.asnumpy(model.params_flat), weights) and model.backend is backend
    names = [call.name for call in calls]
    assert names.count("fused_classifier") == 2 and names.count("adamw_update_by") == 32
    times = [time for call in calls for time in call.gpu]
    assert times == sorted(times) and all(call.host[0] <= call.host[1] for call in calls)
    parts = timeline.record_graphs(model, "nothing waits", waiting.random_batches(model, 2, 8)[:1])
    assert [part.name for part in parts] == ["forward", "backward", "update"]


def test_what_is_measured_on_any_device(monkeypatch):
    model = GPT2(TINY, "cuda")
    model.init_weights()
    assert measured.memory(model, 2, 8)["plan_total"].startswith("total")
    launched = measured.launches(model, 2, 8)
    assert launched["kernels"]["fused_classifier_v3"] == 1 and launched["graphs"] == 0
    monkeypatch.setattr(waiting, "STEPS", 1)
    monkeypatch.setattr(waiting, "TURNS", 1)
    rows = waiting.waits(model, 2, 16)
    assert len(rows) == 4 * 7 and all(row["ms"] > 0 for row in rows)


def test_kernels_apart_give_what_the_fused_one_gives():
    N, V, Vp = 3, 50, 128
    z, targets = steps.logits(RNG, N, V, Vp, 0, 0)
    module = cuda.RawModule(code=apart.CLASSIFIER)
    three = {name: module.get_function(name) for name in ("probabilities", "cross_entropy", "dlogits_of")}
    losses, probs, dlogits, mine = np.empty(N, np.float32), np.empty_like(z), np.empty_like(z), np.empty(N, np.float32)
    apart.classifier(three, losses, probs, dlogits, z, targets, 0.2, V)
    classifier.fused_classifier(mine, z, targets, 0.2, V)
    assert np.allclose(losses, mine, atol=1e-5) and np.allclose(dlogits, z, atol=1e-6)


def test_a_profile_is_a_median_and_the_slowest_comes_first():
    steps_of = [
        {("a", None): [2, ms, 0.5], ("a", "k"): [4, ms / 2, 0.0], ("b", None): [1, 9.0, 0.0]} for ms in (1, 3, 2)
    ]
    found = profiling._rows(steps_of)
    assert found == dict(functions=[["b", 1, 9.0, None], ["a", 2, 2, 0.5]], kernels=[["a", "k", 4, 1.0]])
    assert results.functions(found) == {"b": (9.0, None), "a": (2, 0.5)}


# ---------------------------------------------------------------------------------------------------- what is shown


def test_idle_time_is_between_the_calls_of_the_gpu():
    assert results.idle_ms([("a", 0, 1, 1, 3), ("b", 1, 2, 3, 4), ("c", 2, 3, 6, 7)]) == 2
    assert results.idle_ms([("a", 0, 1, 1, 9), ("b", 1, 2, 3, 4)]) == 0
    assert results.busy_ms([("a", 0, 1, 1, 3), ("b", 1, 2, 3, 4), ("c", 2, 3, 6, 7)]) == 4


def test_calls_have_the_colour_of_their_part_of_a_step():
    names = ("matmul_forward", "matmul_backward", "zero", "adamw_update_by", "update", "from_numpy")
    assert [drawings.phase(name) for name in names] == [
        "forward",
        "backward",
        "backward",
        "update",
        "update",
        "forward",
    ]
    fig, ax = plt.subplots()
    drawings.draw_lanes(ax, [("zero", 0, 1, 1, 3), ("clip", 1, 2, 3, 4)], (0, 5))
    assert len(ax.collections) == 4
    plt.close(fig)


@needs_checkout
def test_the_stored_results_are_whole():
    assert STORED.stat().st_size < 200_000
    found = json.loads(STORED.read_text(encoding="utf-8"))
    parts = {"about", "memory", "launches", "waits", "timelines", "fusions", "training", "peer", "profile"}
    assert parts == found.keys()
    assert "H200" in found["about"]["device"] and found["training"]["equal_bits"]
    for numbers in ("TF32", "float32"):
        times = results.wait_times(found, B=4, T=1024, numbers=numbers, graphs=False)
        assert list(times) == list(timeline.STEPS)
        functions = results.functions(found["profile"][numbers])
        assert all(floor is None or 0 < floor < 1.1 * ms for ms, floor in functions.values())
    shown = results.results(STORED)
    assert shown["note"] == f"stored: {shown['trained_on']}" and shown["profile"] == found["profile"]
    for line in found["timelines"]:
        assert len(line["calls"]) > (5 if line["graphs"] else 300)
    assert len(found["training"]["TF32"]["losses"]) == 74 and len(found["training"]["longer"]["losses"]) == 740
