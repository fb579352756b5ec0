"""Lesson 20's references and known mistakes, its runs with one part too low, schedules, and stored results."""

import argparse
import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from llmc.config import GPT2Config, preset
from llmc.course.lessons.mixed_training import (
    bugs,
    drawings,
    lowered,
    measured,
    panel,
    places,
    recompute,
    results,
    sixteen,
    updates,
)
from llmc.course.lessons.mixed_training.recompute import Layer
from llmc.course.lessons.mixed_training.sixteen import BF16
from llmc.course.old.checks.explain import WrongAnswer
from llmc.model import GPT2, activation_table, training_buffers
from llmc.precision import find_precision

ROOT = Path(__file__).resolve().parents[3]
RNG = np.random.default_rng(20)
TINY = GPT2Config(maxT=16, V=60, L=1, NH=2, C=16)
needs_checkout = pytest.mark.skipif(not (ROOT / "notebooks").is_dir(), reason="needs a checkout")


# ------------------------------------------------------------------------------------------------- references, mistakes


def tables():
    """(what is right, {sentence: (wrong array, where)}, how far rounding may move a number) of every kernel."""
    x = RNG.normal(0, 2, 1003).astype(BF16)  # (n,)
    yield sixteen.gelu_right(x), sixteen.gelu_mistakes(x, sixteen.gelu_right(x).astype(BF16))
    x = RNG.normal(2, 1, (5, 264)).astype(np.float32)  # (N, C)
    x[-1] *= np.float32(1e-3)  # so small that eps matters
    w, b = RNG.normal(1, 0.5, (2, 264)).astype(BF16)  # (C,) each
    right = sixteen.normed(x, w, b)
    for name, wrongs in sixteen.norm_mistakes(x, w, b).items():
        yield getattr(right, name), wrongs
    params, grads = RNG.normal(1, 0.3, (2, 9)).astype(BF16)  # (n,) each
    m, v, master = (RNG.normal(1, 0.3, (3, 9)) ** 2).astype(np.float32)  # (n,) each
    numbers = updates.settings(RNG)
    right = updates.updated(master, grads, m, v, numbers, 3)
    wrongs = updates.update_mistakes(master, params, grads, m, v, numbers, 3, has_master=True)
    for name, array in (("weights", right.exact), ("m", right.m), ("v", right.v)):
        yield array, wrongs[name]


def test_every_known_mistake_is_wrong():
    for right, wrongs in tables():
        for sentence, (array, where) in wrongs.items():
            assert np.shape(array) == right.shape, sentence
            assert (np.abs(array - right) > 1e-5 * np.abs(right)).any(), sentence
            assert where.startswith("lesson ")


def test_what_is_rounded_to_the_nearest_is_right_and_what_is_cut_off_is_named():
    exact = RNG.normal(0, 2, 1000)
    sixteen.compare_16("out", exact.astype(np.float32).astype(BF16), exact)
    with pytest.raises(WrongAnswer, match="out equals the reference cut off after 16 bits"):
        sixteen.compare_16("out", sixteen.cut_off(exact).astype(BF16), exact)
    with pytest.raises(WrongAnswer, match="out equals twice the reference"):
        sixteen.compare_16("out", (2 * exact).astype(BF16), exact, {"twice the reference": (2 * exact, "here")})


def test_one_unit_in_the_last_place_is_refused():
    exact = RNG.uniform(1, 2, 50)
    got = exact.astype(np.float32).astype(BF16)
    got.view(np.uint16)[7] += 1
    with pytest.raises(WrongAnswer, match=r"\[7\]"):
        sixteen.compare_16("out", got, exact)


def rounded_by(key, exact):
    bits = exact.view(np.uint32).astype(np.int64) + (updates.random_bits_of(key, np.arange(exact.size)) & 0xFFFF)
    return (bits >> 16).astype(np.uint16).view(BF16)


def test_chance_is_that_of_the_key():
    exact, held = RNG.normal(0, 1, 700).astype(np.float32), RNG.normal(0, 1, 700).astype(BF16)
    updates.compare_chance(rounded_by(5, exact), exact, held, 5, held)
    with pytest.raises(WrongAnswer, match="holds one of the two neighbours of each weight, but not always the one"):
        updates.compare_chance(rounded_by(6, exact), exact, held, 5, held)
    with pytest.raises(WrongAnswer, match="do not depend on the key"):
        updates.compare_chance(rounded_by(0, exact), exact, held, 5, held)
    with pytest.raises(WrongAnswer, match="rounded to the nearest"):
        updates.compare_chance(exact.astype(BF16), exact, held, 5, held)
    with pytest.raises(WrongAnswer, match="what it held before"):
        updates.compare_chance(held, exact, held, 5, held)


@needs_checkout
def test_every_section_that_a_check_names_exists():
    said = " ".join([recompute.WHERE, *(str(value) for value in vars(places).values())])
    named = set(re.findall(r'lesson (\d\d), section "([^"]+)"', said))
    assert len(named) > 8
    for number, title in named:
        (notebook,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
        headings = re.findall(r'"#+ (.*?)(?:\\n)?"', notebook.read_text(encoding="utf-8"))
        assert any(heading.startswith(title) for heading in headings), f"{title!r} is no section of {notebook.name}"


# ------------------------------------------------------------------------------------------------------------ one part


def test_without_a_part_it_is_the_mixed_precision_of_llmc():
    losses, model = lowered.train(steps=3)
    other = GPT2(model.config, "numpy", "bf16")
    other.init_weights(42)
    batches = lowered.Letters()
    for loss in losses:
        other.zero_grad()
        assert other.forward(*batches.next_batch(), dloss=1.0) == loss
        other.backward()
        step = other.t
        share = 0.5 * (1 + np.cos(np.pi * step / 3))
        other.update(1e-3 * (step + 1) / 20 * share, beta2=0.999, weight_decay=0.1, max_norm=1.0)


@pytest.mark.parametrize("part", lowered.PARTS)
def test_each_part_loses_digits_and_nothing_else(part):
    right, wrong = (lowered.train(low, steps=12)[0] for low in ((), [part]))
    assert 0 < np.abs(right - wrong).max() < 0.05


def test_a_part_that_there_is_not():
    with pytest.raises(ValueError, match="no part biases"):
        lowered.Lowered(["biases"])


def test_tf32_keeps_ten_bits_of_the_factors():
    x = np.float32([1 + 2.0**-10, 1 + 2.0**-12, -3.0001])
    out = np.zeros((1, 3, 1), np.float32)
    lowered.RoundedFactors().matmul_forward(out, x.reshape(1, 3, 1), np.ones((1, 1), np.float32), None)
    assert out.ravel().tolist() == [1 + 2.0**-10, 1.0, -3.0]


def test_a_sum_in_bf16_gets_stuck():
    assert lowered.sum_in_bf16(np.ones((1000, 2), np.float32)).tolist() == [256, 256]


# ---------------------------------------------------------------------------------------------------------------- bugs


@pytest.mark.parametrize("bug", [None, *bugs.BUGS])
def test_stored_curves_are_those_of_the_runs(bug):
    with np.errstate(all="ignore"):
        first = bugs.train(bug, shown=8)
    assert np.allclose(first, bugs.curves()[bug or "none"][0, :8], atol=2e-3, equal_nan=True)


def test_bugs_are_seen_and_runs_without_one_are_alike():
    found = bugs.curves()
    assert found.keys() == {"none", *bugs.BUGS} and set(bugs.BUGS) < set(bugs.SUSPECTS)
    ends = {name: losses[:, -100:].mean(axis=1) for name, losses in found.items()}
    assert np.ptp(ends["none"]) < 0.005 and len(set(ends["none"])) > 1  # not equal, though
    assert all(not (np.abs(ends[bug] - ends["none"][0]) < 0.06).any() for bug in bugs.BUGS)


def asked(bug, suspects, *exact):
    runs = bugs.Runs(bug, suspects, bugs.curves())
    runs.asked = [list(names) for names in exact]
    return runs


@pytest.mark.parametrize(
    ("runs", "answer", "words"),
    [
        (asked("AdamW's v", bugs.SUSPECTS[:6], bugs.SUSPECTS[:3]), "residual stream", 'the bug was in "AdamW\'s v"'),
        (asked("AdamW's v", ["AdamW's v", "step counter"]), "step counter", "No run was made"),
        (asked("AdamW's v", ["AdamW's v"], ["AdamW's v"]), "AdamW's v", "The only suspect needs no run"),
        (asked("AdamW's v", ["AdamW's v"], ["biases"]), "AdamW's v", "train was asked for 'biases'"),
        (asked("AdamW's v", ["AdamW's v"]), ["AdamW's v"], "return one of the suspects, a str"),
        (asked("AdamW's v", ["AdamW's v", "step counter"], [], []), "AdamW's v", "A run in which nothing is exact"),
    ],
)
def test_answers_that_are_refused(runs, answer, words):
    with pytest.raises(WrongAnswer, match=words):
        bugs.explain([(runs, answer)])


def test_three_runs_are_enough_for_eight():
    assert [bugs.allowed(n) for n in (1, 2, 3, 5, 8)] == [0, 1, 2, 3, 3]


# ----------------------------------------------------------------------------------------------------------- schedules

NET = [Layer("x", (), (), 10, 1.0), Layer("h", ("x",), ("x",), 40, 9.0), Layer("g", ("h",), ("h", "g"), 40, 2.0)]
FORWARD = [("make", "x"), ("make", "h"), ("make", "g")]
BACKWARD = [("backward", "g"), ("backward", "h"), ("backward", "x")]


def test_a_schedule_is_played():
    assert recompute.play(NET, FORWARD + BACKWARD) == (90, 12.0)
    early = FORWARD[:2] + [("drop", "x"), *FORWARD[2:], BACKWARD[0], ("drop", "g"), ("make", "x"), *BACKWARD[1:]]
    assert recompute.play(NET, early) == (80, 13.0)
    assert recompute.memory_in_time(NET, early) == [10, 50, 40, 80, 80, 40, 50, 50, 50]


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (None, "return a list of pairs, not None"),
        (["x"], "item 0 of the schedule is 'x', not a pair"),
        ([("free", "x")], "begins with 'free'"),
        ([("make", "y")], "names 'y', but no layer has that name"),
        ([("make", "h")], "the layer h reads x, which is not in memory: it was never made"),
        (FORWARD + [("make", "x")], "x is made, but it is in memory already"),
        ([("drop", "x")], "x is dropped, but it is not in memory: it was never made"),
        (FORWARD + [("drop", "x")] * 2, "it was dropped before"),
        (FORWARD[:2] + BACKWARD, "the backward pass begins, but g has not been made yet"),
        (FORWARD + BACKWARD[1:], "backward of h is out of turn: from the last layer to the first, it is g's turn"),
        (FORWARD + [("drop", "h"), *BACKWARD], "needs h, which is not in memory: it was dropped and not made again"),
        (FORWARD + BACKWARD[:2], "the schedule ends before the backward pass of x"),
        (FORWARD + BACKWARD + BACKWARD[:1], "all layers have had theirs"),
    ],
)
def test_a_schedule_that_is_none_is_refused(schedule, words):
    with pytest.raises(WrongAnswer, match=re.escape(words)):
        recompute.play(NET, schedule)


def test_a_schedule_that_is_too_large_or_too_slow():
    with pytest.raises(WrongAnswer, match=r"(?s)90 bytes are in memory.*Nothing is made again.*item 2 of 6 makes g\."):
        recompute.demand(NET, FORWARD + BACKWARD, 80, 1.0, "x")
    slow = FORWARD + [("drop", "g"), ("make", "g"), *BACKWARD]
    with pytest.raises(WrongAnswer, match="takes 16.7% of a forward pass; at most 10.0%"):
        recompute.demand(NET, slow, 90, 0.1, "x")
    assert recompute.demand(NET, slow, 90, 0.2, "x").us == 14


FOUR = [
    recompute.Layer("a", (), (), 10, 1.0),
    recompute.Layer("b", (), ("a",), 10, 1.0),
    recompute.Layer("c", ("b",), ("b",), 10, 1.0),
    recompute.Layer("d", ("c",), ("c",), 1, 1.0),
]


@pytest.mark.parametrize(
    "schedule, words",
    [
        ("+a +b +c +d *d *c *b *a", "All of that will still be read"),
        ("+a +b -a +c -b +d *d +b *c +a *b *a", "c, d and b are there, and nobody reads them any more"),
        ("+a -a +b +c -b +d -d +a +b *d -c *c -b *b *a", "Item 7 makes a again, and item 13 is the next to read it"),
    ],
)
def test_what_is_there_at_the_worst_moment(schedule, words):
    actions = {"+": "make", "-": "drop", "*": "backward"}
    schedule = [(actions[event[0]], event[1]) for event in schedule.split()]
    with pytest.raises(WrongAnswer, match=words):
        recompute.demand(FOUR, schedule, recompute.play(FOUR, schedule).peak - 1, np.inf, "x")


def test_limits_can_be_met():
    for net, limit in recompute.awkward_limits(np.random.default_rng(3), 20):
        assert recompute.play(net, recompute.greedy(net, limit)).peak <= limit


def test_the_net_is_gpt2s():
    """Its tensors have the bytes of llmc's activations, at each level of recompute."""
    config, B, T = GPT2Config(maxT=32, V=60, L=3, NH=2, C=32), 2, 32
    net, names = recompute.gpt2(L=3, C=32, NH=2, B=B, T=T), {"gelu": "fch_gelu", "att": "atty", "mid": "residual2"}
    p = find_precision("bf16")
    size = {
        t.name: int(np.prod(t.shape[1:] if t.stacked else t.shape)) * (p.exact if t.exact else p.activations).itemsize
        for t in activation_table(config, GPT2(config, "numpy").backend, B, T)
    }
    for layer in net:
        kind = layer.name.rpartition(".")[2]
        name = "encoded" if kind == "x0" else "residual3" if kind[0] == "x" else names.get(kind, kind)
        assert layer.size == size[name], layer.name
    dropped = [training_buffers(config, "numpy", B, T, "bf16", recompute=k) for k in (0, 3, 1, 2)]
    planned = [next(b.nbytes for t, b in plan.items() if t.startswith("activations")) for plan in dropped]
    assert planned == sorted(planned, reverse=True) and len(set(planned)) == 4


# -------------------------------------------------------------------------------------------------- results, drawings


@needs_checkout
def test_stored_results_are_read(monkeypatch):
    stored = results.race(ROOT / "notebooks" / results.RACE)
    assert all(0.2 < results.mfu(row, stored["about"]) < 1 for row in stored["race"])
    assert results.floors(stored["about"]).keys() <= {change["what"] for change in stored["changes"]}
    assert all(change["after_ms"] < change["before_ms"] for change in stored["changes"])
    monkeypatch.setattr(results.cuda, "device", lambda: "emulator")  # a GPU would measure
    assert results.measured(ROOT / "no such file") == {}


def test_drawings():
    net = recompute.gpt2(L=2, C=4, B=1, T=8)
    _, ax = plt.subplots()
    drawings.draw_lives(ax, net, recompute.schedule_for(net, set()))
    assert len(ax.collections) > len(net) and ax.get_yticks().size == len(net)
    drawings.draw_types()
    drawings.draw_words()
    plt.close("all")


def test_what_a_gpu_measures_can_be_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(measured, "STEPS", 1)
    monkeypatch.setattr(measured, "TURNS", 1)
    monkeypatch.setattr(measured, "WARM_UP", 1)
    monkeypatch.setattr(measured, "DataLoader", Few)
    given = argparse.Namespace(tokens=None, preset="tiny", B=1, large=1, T=8, steps=2)
    model = GPT2(TINY, "cuda", "bf16")
    model.init_weights()
    weights = np.asarray(model.params.flat).astype(np.float32)
    found = dict(about=measured.about(given), kernels=measured.single_kernels(TINY, 16))
    found |= dict(recompute=[measured.recomputed(TINY, weights, 2, 1, 8)], graphs=measured.graphs(model, 1, 8))
    found |= dict(steps=[measured.step(TINY, weights, name, 1, 8) for name in ("fp32", "bf16")])
    found |= dict(curves={name: measured.curve(TINY, weights, name, given) for name in measured.RUNS if name != "TF32"})
    (tmp_path / "found.json").write_text(json.dumps(found))
    monkeypatch.setattr(results.cuda, "device", lambda: "emulator")
    read = results.measured(tmp_path / "found.json")
    assert read["note"] == "stored: the emulator"
    assert read["recompute"][0]["level"] == 2 and read["graphs"][0]["launches"] > 20
    assert all(len(losses) == 2 and losses[0] > 4 for losses in read["curves"].values())


class Few:
    """A loader of random tokens."""

    def __init__(self, file, B, T, V):
        self.rng, self.shape = np.random.default_rng(0), (2, B, T)

    def next_batch(self):
        return self.rng.integers(0, TINY.V, self.shape).astype(np.int32)


# ----------------------------------------------------------------------------------------------------------- its panel


@pytest.mark.parametrize("model, level, gb", [("d12", 0, 24), ("d24", 2, 24), ("d12", 3, 8)])
def test_the_largest_batch_fits_and_one_more_does_not(model, level, gb):
    B = panel.largest_batch(model, level, gb)
    plans = [training_buffers(preset(model), "cuda", n, panel.T, "bf16", recompute=level) for n in (B, B + 1)]
    fits, larger = (sum(buffer.nbytes for buffer in plan.values()) for plan in plans)
    assert fits <= gb * 1e9 < larger
    assert sum(panel.memory(model, level, B).values()) == pytest.approx(fits / 1e9)
    assert panel.largest_batch("d48", 2, 24) == 0  # the weights alone are too many


def test_the_panel_draws_what_its_controls_say():
    pytest.importorskip("ipywidgets")
    drawn = panel.MemoryPanel("d12", 8, 16)
    pictures = [drawn.picture.value]
    for control, value in ((drawn.B, 9), (drawn.gb, 24), (drawn.model, "d24")):
        control.value = value
        pictures.append(drawn.picture.value)
    assert len(set(pictures)) == 4 and not plt.get_fignums()


# ------------------------------------------------------------------------------------------- its looks into a mistake


def test_a_square_of_the_mean_is_named_only_where_means_are_large():
    x = RNG.normal(0, 1, (4, 264)).astype(np.float32)  # (N, C)
    rstd = 1 / np.sqrt(x.var(axis=1, dtype=np.float64) + 1e-5)  # (N,)
    assert sixteen.far_from_zero(x, 1.001 * rstd) is None  # as wrong, but not for that reason
    assert "lost digits" in sixteen.far_from_zero(x + np.float32(100), 1.001 * rstd)
    assert sixteen.far_from_zero(x + np.float32(100), 2 * rstd) is None


def test_a_master_that_was_rounded_is_named():
    master = RNG.normal(0, 1, 9).astype(np.float32)  # (n,)
    params = master.astype(BF16)
    assert updates.rounded_master(master, params) is None
    assert "from before rounding" in updates.rounded_master(params.astype(np.float32), params)
