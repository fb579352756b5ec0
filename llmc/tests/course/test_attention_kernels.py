"""Lesson 16: its references, held against each other; what counts, measures, tells and draws its ladders."""

from pathlib import Path

import numpy as np
import pytest

from llmc import cuda
from llmc.course import gradient_check
from llmc.course.lessons.attention_kernels import drawings, exercises, references, results
from llmc.course.lessons.matmul_kernels.ladders import on_the_emulator
from llmc.cuda import inspect
from llmc.kernels import kernel
from llmc.kernels.attention import _SHARED

RNG = np.random.default_rng(16)
NOTEBOOKS = Path(__file__).resolve().parents[3] / "notebooks"


def test_the_backward_pass_agrees_with_differences():
    q, k, v, dout = RNG.normal(0.5, 0.5, (4, 2, 5, 4))  # (heads, T, hs) each
    found = references.backward(q, k, v, dout)
    gradient_check(lambda x: references.forward(x, k, v)[0], q, found["dq"], dout)
    gradient_check(lambda x: references.forward(q, x, v)[0], k, found["dk"], dout)
    gradient_check(lambda x: references.forward(q, k, x)[0], v, found["dv"], dout)
    assert np.allclose(found["delta"], (references.forward(q, k, v)[0] * dout).sum(axis=-1)), "D = rowsum(dO ∘ O)"


@pytest.mark.parametrize("parts", [(9,), (4, 5), (2, 0, 7), (0, 9), (1, 1, 1, 6)])
def test_parts_of_the_keys_merge_to_the_whole(parts):
    scores, values = RNG.normal(0, 30, (3, 9)).astype(np.float32), RNG.normal(0, 1, (3, 9, 4)).astype(np.float32)
    out, stats = references.merged(*references.parted(scores, values, parts))
    p, whole = np.exp(scores.astype(np.float64)), np.log(np.exp(scores.astype(np.float64)).sum(axis=1))
    assert np.allclose(out, np.einsum("rk,rkc->rc", p / p.sum(axis=1, keepdims=True), values), atol=1e-5)
    assert np.allclose(stats, whole, atol=1e-4)


def test_what_llmc_asks_for_is_what_the_exercise_says():
    qkv, out = RNG.normal(0, 1, (1, 64, 96)).astype(np.float32), np.empty((1, 64, 32), np.float32)
    arguments = out, np.empty((1, 1, 64), np.float32), qkv, *map(np.int32, (64, 1, 32))
    function = kernel("attention_flash", "attention_forward_v5", "HS=32")
    counts = results.count([inspect(function, (1, 1), (128,), arguments, shared_mem=_SHARED[5][0](32))], 1, 64, 1, 32)
    assert exercises.OF_LLMC == f"{counts.each:.2f} and {counts.sectors:,}"
    assert counts.times == counts.sectors / 1032 and "v5" in results.count_table({"v5": counts})


def test_every_version_can_be_measured():
    def clock(launches, graph=True):
        return [2.0 for launch in launches if launch() is None][0]

    found = results.measure(lengths=(5,), decoded=((2, 9),), tokens=10, heads=(2, 16), clock=clock)
    if cuda.device() == "emulator":
        assert [row["what"] for row in found] == ["forward"] * 5 + ["backward"] * 3 + ["decoding"] * 3
    assert found[0]["B"] == 2 and found[0]["extra"] == 4 * 2 * 2 * 25 and found[2]["extra"] == 4 * 2 * 2 * 5
    assert found[0]["tflop_s"] == pytest.approx(4 * 2 * 2 * 16 * 15 / 2 / 1e6)


def test_the_stored_measurements_in_words_and_drawn(monkeypatch):
    monkeypatch.chdir(NOTEBOOKS)
    with on_the_emulator():
        found = results.rows()
    v5, v2 = (found.series("forward", f"llmc v{n}") for n in (5, 2))
    assert all(v5[T] > v2[T] for T in v5) and v5[8192] > v5[256]
    assert set(found.series("forward", "llmc v5", "extra").values()) == {4 * 12 * 8192}
    assert "v5 reaches 47% of it at T = 256 and 73% of it at T = 8,192, 1.16 to 1.28" in results.sentences(found)[2]
    assert f" {v5[8192]:.1f}\n" in results.table(found, "forward")
    drawn = (*(draw(found) for draw in (results.draw_rates, results.draw_memory, results.draw_decoding)),)
    drawn += drawings.draw_tiles(queries=8, tile=32, T=64), drawings.draw_layer(1, 2, 3, 4)
    titles = " ".join(ax.get_title("left") + ax.get_title() for figure in drawn for ax in figure.axes)
    assert "Forward: tiles reach 73% of cuBLAS" in titles and "Blocks load 384 rows of keys" in titles
