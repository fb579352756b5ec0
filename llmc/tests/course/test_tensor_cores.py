"""Lesson 19: its orders and softmax, held against each other; what counts, measures and draws."""

import numpy as np
import pytest

from llmc.course.lessons.attention.references import softmax
from llmc.course.lessons.tensor_cores import exercises, measured, steps

RNG = np.random.default_rng(19)


@pytest.mark.parametrize("grid", exercises.GRIDS)
def test_bands_have_every_tile_once_and_read_little(grid):
    blocks, down, across = grid
    turns = steps.turns_of(steps.in_bands, blocks, down, across)
    assert len({tile for turn in turns for tile in turn}) == down * across
    assert (steps.numbered(down, across, steps.in_bands) >= 0).all()
    row_by_row = steps.turns_of(lambda n, *_: divmod(n, across), blocks, down, across)
    assert grid != (32, 16, 24) or steps.bands_read(turns) < 0.6 * steps.bands_read(row_by_row)


@pytest.mark.parametrize("growth", [0, 0.3, -0.2, 20])
def test_lanes_compute_the_softmax(growth):
    scores, values = RNG.normal(0, 2, (2, 16, 64)) + growth * np.arange(64), RNG.normal(1, 2, (2, 64, 8))
    exact = softmax(scores) @ values  # (B, 16, 8)
    assert np.allclose(steps.online_softmax(scores, values), exact, atol=2e-3 * np.abs(exact).max())


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


def test_counters_and_times_in_words():
    names = ",".join(f'"{name}"' for name in (*measured.NAMES.values(), measured.WAITS["other warps"]))
    lines = [f'"ID","Kernel Name",{names}', '"","","ns","%","","",""']
    lines += ['"0","matmul_v8","1,500","74.96","0","168","2.5"', '"1","nvjet","900","95.1","1,234","168","0"']
    ours, library = measured.counted("\n".join(["==PROF== Connected", *lines]))
    assert ours == dict(kernel="matmul_v8", us=1.5, busy=75.0, conflicts=0, registers=168, waits="other warps")
    assert library["conflicts"] == 1234 and "the library's" in measured.counters_text([ours, library])
    row = {"what": "product", "version": "v2", "sizes": [1, 2, 3], "us": 10.0, "tflop_s": 200.0, "device": "X"}
    assert "50%" in measured.text([row, row | {"version": measured.LIBRARY, "tflop_s": 400.0}])
