"""Lesson 19: its layout, orders and softmax, held against each other; what counts, measures and draws."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest

from llmc.course.lessons.tensor_cores import counters, drawings, measured, order, rings, softening, steps
from llmc.errors import UserError

RNG = np.random.default_rng(19)


@pytest.mark.parametrize("grid", order.GRIDS)
def test_bands_have_every_tile_once_and_read_little(grid):
    blocks, down, across = grid
    tiles = [order.in_bands(n, down, across) for n in range(down * across)]
    assert len(set(tiles)) == down * across == (order.numbered(down, across, order.in_bands) >= 0).sum()
    assert grid != (32, 16, 24) or order.bands_read(tiles, 32) < 0.6 * order.bands_read(sorted(tiles), 32)


@pytest.mark.parametrize("growth", [0, 0.3, -0.2, 20])
def test_lanes_compute_the_softmax(growth):
    scores, values = RNG.normal(0, 2, (2, 16, 64)) + growth * np.arange(64), RNG.normal(1, 2, (2, 64, 8))
    exact = softening.attend(scores, values)
    assert np.allclose(softening.online(scores, values), exact, atol=2e-3 * np.abs(exact).max())


def test_what_is_not_a_ring_gets_no_sentence():
    assert rings.noted("__global__ void ring_of_stages() {}") == ([], [])
    assert rings.differs([("init", "there", 0, 1), ("init", "used", 0, 4)], []) == ""


def test_counts_of_the_lesson():
    """What sections 2 and 3 say of v4 and v7: requests, passes with a gap and without, no fragment to load."""
    plain, gapless = (steps.count(4, *steps.run(4, 128, 128, 64, RNG, **how)) for how in ({}, {"pad": 0}))
    assert (plain.requests, plain.conflicts, plain.barriers) == (256, 0, 2) and gapless.passes == 6400
    assert "(5,376 of them extra)" in str(gapless) and "v4  ldmatrix" in steps.table({4: plain})
    assert steps.count(7, *steps.run(7, 64, 128, 64, RNG)).requests < 10
    assert [steps.brought(version) for version in (6, 7, 8)] == [32, 48, 24]


def test_small_sizes_are_right_in_every_version(monkeypatch):
    monkeypatch.setattr(measured, "able", lambda: (4, 6))
    rows = measured.rows(((40, 24, 48),), (1, 40, 1, 32))
    assert all(row["right"] for row in rows) and len(rows) == 3 + 2 + 2


def test_counters_of_the_profiler(tmp_path):
    names = [counters.TIME, counters.BUSY, counters.CONFLICTS, counters.REGISTERS, counters.STALL.format("barrier")]
    lines = ['"ID","Kernel Name",' + ",".join(f'"{name}"' for name in names), '"","","ns","%","","",""']
    lines += ['"0","matmul_v8","1,500","74.96","0","168","2.5"', '"1","nvjet","900","95.1","1,234","168","0"']
    (tmp_path / "raw.csv").write_text("\n".join(["==PROF== Connected", *lines]))
    counters.main(str(tmp_path / "raw.csv"), str(tmp_path / "out.json"))
    ours, library = counters.stored(tmp_path / "out.json")
    assert ours == dict(kernel="matmul_v8", us=1.5, busy=75.0, conflicts=0, registers=168, waits="other warps")
    assert library["conflicts"] == 1234 and "the library's" in counters.text([ours, library])
    with pytest.raises(UserError, match="only a GPU can be measured"):
        measured.main(tmp_path / "x.json")


def test_stored_times(tmp_path):
    row = {"what": "product", "version": "v2", "sizes": [1, 2, 3], "us": 10.0, "tflop_s": 200.0, "device": "X"}
    (tmp_path / "table.json").write_text(json.dumps([row, row | {"version": measured.LIBRARY, "tflop_s": 400.0}]))
    assert "50% of the library" in measured.text(measured.stored(tmp_path / "table.json"))


def test_phases_are_drawn_from_a_log():
    log = [*zip((1, 1, 2, 3, 1, 2, 3, 2, 3), (0, 1, 0, 0, 2, 1, 1, 2, 2))]  # asked, arrived, used; and the round
    drawings.draw_phases(plt.gca(), log, stages=2)
    assert "round 2" in [text.get_text() for text in plt.gca().texts]
    plt.close()
