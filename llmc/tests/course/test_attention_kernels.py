"""Lesson 16's references and known mistakes, held against each other; what counts, measures and tells its ladders."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from llmc import cuda
from llmc.course.lessons.attention_kernels import (
    counting,
    drawings,
    forwards,
    gradients,
    measured,
    mistakes,
    places,
    references,
    results,
    sharing,
)
from llmc.course.lessons.attention_kernels.tiles import Tiles
from llmc.course.old.checks.explain import WrongAnswer
from llmc.cuda import RawKernel, inspect
from llmc.kernels import kernel, source
from llmc.kernels.attention import _SHARED

RNG = np.random.default_rng(16)
NOTEBOOKS = Path(__file__).resolve().parents[3] / "notebooks"


def heads(T, hs=32, scale=0.4):
    """q, k, v, dout (2, T, hs)."""
    q, k, v, dout = RNG.normal(0.5, 1, (4, 2, T, hs))
    return scale * q, scale * k, v, dout


def test_the_backward_pass_agrees_with_differences():
    arrays = heads(5, hs=4)
    q, k, v, dout = arrays
    found = references.backward(*arrays)
    for place, name in enumerate(("dq", "dk", "dv")):
        step = RNG.normal(0, 1, q.shape)
        ends = []
        for sign in (1, -1):
            moved = [a + sign * 1e-5 * step * (i == place) for i, a in enumerate((q, k, v))]
            ends.append((references.forward(*moved)[0] * dout).sum())
        assert np.isclose((ends[0] - ends[1]) / 2e-5, (found[name] * step).sum(), rtol=1e-5)
    out, _ = references.forward(q, k, v)
    assert np.allclose(found["delta"], (out * dout).sum(axis=-1)), "D = rowsum(dO ∘ O)"


@pytest.mark.parametrize("parts", [(9,), (4, 5), (2, 0, 7), (0, 9), (1, 1, 1, 6)])
def test_parts_of_the_keys_merge_to_the_whole(parts):
    scores, values = RNG.normal(0, 30, (3, 9)).astype(np.float32), RNG.normal(0, 1, (3, 9, 4)).astype(np.float32)
    out, stats = references.merged(*references.parted(scores, values, parts))
    p, whole = np.exp(scores.astype(np.float64)), np.log(np.exp(scores.astype(np.float64)).sum(axis=1))
    assert np.allclose(out, np.einsum("rk,rkc->rc", p / p.sum(axis=1, keepdims=True), values), atol=1e-5)
    assert np.allclose(stats, whole, atol=1e-4)


def test_low_scores_are_low():
    q, k = references.low(2, 40, 32)
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2).astype(np.float64) / np.sqrt(32)
    assert scores.max() < -25_000
    assert len(np.unique(scores.round(3))) > 5


def tables():
    """(what is right, {sentence: (function, where)}) of every exercise."""
    q, k, v, dout = heads(70)
    scores = q @ k.swapaxes(-1, -2)
    for x in (scores, scores - 30_000):
        yield references.probabilities(x)[0], mistakes.softmaxes(x)
    yield references.forward(q, k, v)[0], forwards.known(q, k, v)
    low = references.low(2, 40, 32)
    yield references.forward(*low, v[:, :40])[0], forwards.known(*low, v[:, :40])
    given = references.parted(RNG.normal(0, 2, (3, 9)), RNG.normal(0, 1, (3, 9, 40)), (4, 5))
    yield references.merged(*given)[0], mistakes.merges(*given)
    top = given[0].max(axis=1)
    yield references.merged(*given)[1], mistakes.stats_of(references.merged(*given)[1], top)
    yield references.merged(*given)[1], mistakes.merged_stats(references.merged(*given)[1], *given[:2])
    right = references.backward(q, k, v, dout)
    of_k, of_v = gradients.keys(q, k, v, dout)
    yield right["dk"], of_k
    yield right["dv"], of_v
    yield right["dq"], gradients.queries(q, k, v, dout)
    yield right["delta"], gradients.deltas(q, k, v, dout)


def test_every_known_mistake_is_wrong_at_some_size():
    wrong, all_of_them = set(), set()
    for right, known in tables():
        for sentence, (make, where) in known.items():
            array = make()
            assert array.shape == right.shape and where.startswith("lesson 16"), sentence
            all_of_them.add(sentence)
            if np.abs(array - right).max() > 1e-3 * np.abs(right).max():
                wrong.add(sentence)
    assert wrong == all_of_them


def test_online_steps_that_shrink_are_right():
    q, k, v, _ = heads(40)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(32)
    for keys in (1, 32):
        assert np.allclose(forwards._online(scores, v, keys), references.forward(q, k, v)[0])
    for queries in (1, 3, 8, 64):
        assert np.allclose(Tiles(q, k, v, queries).out(), references.forward(q, k, v)[0])


@pytest.mark.skipif(not NOTEBOOKS.is_dir(), reason="needs a checkout")
def test_places_are_sections_of_lessons():
    texts = {path.name[:2]: path.read_text(encoding="utf-8") for path in NOTEBOOKS.glob("*.ipynb")}
    named = [value for name, value in vars(places).items() if name.isupper() and isinstance(value, str)]
    for number, title in re.findall(r'lesson (\d\d), section "([^"]+)"', " ".join(named)):
        headings = re.findall(r'"#+ (.*?)(?:\\n)?"', texts[number])
        assert any(heading.startswith(title) for heading in headings), title


# ------------------------------------------------------------------------------------------------- the counts


def test_what_llmc_asks_for_is_what_the_exercise_says():
    qkv, out = RNG.normal(0, 1, (1, 64, 96)).astype(np.float32), np.empty((1, 64, 32), np.float32)
    arguments = out, np.empty((1, 1, 64), np.float32), qkv, *map(np.int32, (64, 1, 32))
    function = kernel("attention_flash", "attention_forward_v5", "HS=32")
    report = inspect(function, (1, 1), (128,), arguments, shared_mem=_SHARED[5][0](32))
    counts = counting.count([report], 1, 64, 1, 32)
    assert sharing.OF_LLMC == f"{counts.each:.2f} and {counts.sectors:,}"
    assert counts.needed == 1032 and counts.pairs == 2080 and counts.times == pytest.approx(counts.sectors / 1032)
    assert f"{counts.sectors:,} sectors" in str(counts) and "v5" in counting.table({"v5": counts})


def test_lines_between():
    found = counting.lines_between(source("attention_flash"), "for (int k0 = 0", "if (k0 + KEYS < end)")
    assert found.startswith("    for (int k0 = 0; k0 < end; k0 += KEYS) {") and found.endswith("KEYS, T, hs);")


COPY = """
extern "C" __global__ void copy(float* out, const float* x, int each)
{
    int lane = threadIdx.x;
    if (each == 1 && lane > 0) return;
    for (int i = each == 1 ? 0 : lane; i < 64; i += each) out[i] = each == 2 ? x[i - lane] : x[i];
}
"""


@pytest.mark.parametrize("each, says", [(32, None), (1, "for 1.0 numbers"), (2, "for 24 lanes and gets 1.0 sectors")])
def test_lanes_that_do_not_share_the_work(each, says):
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    report = inspect(RawKernel(COPY, "copy"), (1,), (32,), (out, x, np.int32(each)))
    if says is None:
        return sharing.by_all_lanes(report, "here")
    with pytest.raises(WrongAnswer, match=says):
        sharing.by_all_lanes(report, "here")


# -------------------------------------------------------------------------------------------------- the times


def test_every_version_can_be_measured(monkeypatch):
    calls = []

    def clock(launches, graph=True):
        for launch in launches:
            launch()
        calls.append(len(launches))
        return 2.0

    found = measured.measure(lengths=(5,), decoded=((2, 9),), tokens=10, heads=(2, 16), clock=clock)
    names = [(row["what"], row["by"]) for row in found]
    if cuda.device() == "emulator":
        assert names == [("forward", f"llmc v{n}") for n in range(1, 6)] + [
            ("backward", f"llmc v{n}") for n in (1, 2, 3)
        ] + [("decoding", "llmc v1"), ("decoding", "llmc v2")]
    first = found[0]
    assert first["B"] == 2 and first["extra"] == 4 * 2 * 2 * 25 and found[2]["extra"] == 4 * 2 * 2 * 5
    assert first["tflop_s"] == pytest.approx(4 * 2 * 2 * 16 * 15 / 2 / 1e6)


@pytest.fixture
def stored(tmp_path):
    """Results of two lengths, made up, and of which every way is there."""
    rows = []
    for T in (256, 512):
        shape = dict(B=8192 // T, T=T, NH=12, hs=64, us=1.0, extra=4 * 12 * 8192 * (T if T else 1))
        for what, count in (("forward", 7), ("backward", 5)):
            for n in range(1, count + 1):
                extra = shape["extra"] if n < 3 else 4 * 12 * 8192
                rows.append(shape | dict(what=what, by=f"llmc v{n}", tf32=n == count, tflop_s=float(n), extra=extra))
            for by, tf32 in (("torch", False), ("torch", True), ("torch unfused", False)):
                rows.append(shape | dict(what=what, by=by, tf32=tf32, tflop_s=2.0))
    for by, gb_s in (("llmc v1", 10.0), ("llmc v2", 500.0), ("torch", 100.0)):
        rows.append(dict(what="decoding", by=by, B=1, T=64, tf32=False, us=1.0, gb_s=gb_s))
    path = tmp_path / "table.json"
    path.write_text(json.dumps({"device": "a GPU", "rows": rows}))
    return results.stored(path, results.Limits(1000.0, 10.0, "a GPU"))


def test_results_in_words(stored):
    said = " ".join(results.sentences(stored))
    assert "Forward, v5 reaches 50% of it at T = 256 and 50% of it at T = 512, 2.5 times v2." in said
    assert "Backward, v5, one product on tensor cores, reaches 50% at T = 512." in said
    assert "v3 is 1.50 to 1.50 times" in said and "PyTorch's fused kernel with TF32 on is 1.00 to 1.00 times" in said
    assert re.search(r"llmc v7, TF32\s+7.0\s+7.0\n", results.table(stored, "forward"))


def test_results_drawn(stored):
    import matplotlib.pyplot as plt

    titles = [ax.get_title(loc) for ax in results.draw_rates(stored).axes for loc in ("left", "center")]
    assert "Forward: tiles reach 50% of cuBLAS, 2.5× torch" in titles
    memory = results.draw_memory(stored).axes[0]
    assert "the table takes 0.2 GB, stats 0.4 MB" in memory.get_title("left") + memory.get_title()
    decoding = results.draw_decoding(stored).axes[0]
    assert "up to 50% of a copy, v1 at most 1%" in decoding.get_title("left") + decoding.get_title()
    tiles = drawings.draw_tiles(queries=8, tile=32, T=64).axes[0]
    assert "384 rows of keys" in tiles.get_title("left") + tiles.get_title()
    assert len(drawings.draw_layer(1, 2, 3, 4).axes) == 1
    plt.close("all")


@pytest.mark.skipif(not (NOTEBOOKS / results.STORED).is_file(), reason="no stored measurements")
def test_the_stored_measurements_say_what_the_lesson_says(monkeypatch):
    monkeypatch.chdir(NOTEBOOKS)
    found = results.stored()
    v5, v2 = (found.series("forward", f"llmc v{n}") for n in (5, 2))
    assert all(v5[T] > v2[T] for T in v5) and v5[8192] > v5[256]
    assert set(found.series("forward", "llmc v5", "extra").values()) == {4 * 12 * 8192}
    assert results.limits().tflop_s > 40
