"""Lesson 15: its reference, the counts and times of the ladder, the model of a tile, and the benches of the tuner."""

from pathlib import Path

import pytest

from llmc.course.checks.check import check
from llmc.course.lessons.matmul_kernels import ladders, tuning
from llmc.kernels.tiling import TILES

NOTEBOOKS = Path(__file__).resolve().parents[3] / "notebooks"


def test_counts_of_the_ladder():
    """What section 3 of the lesson says of them, per 1,000 multiply-adds."""
    counted = {v: ladders.count_version(ladders.INPUT, v, 128, 128, 32) for v in (1, 2, 3, 7, 8)}
    assert counted[1].sectors == pytest.approx(1000 * 17 / 32, rel=0.05)
    assert counted[2].sectors == pytest.approx(1000 * 4 / 32, rel=0.05)
    assert counted[3].passes - counted[3].conflicts == pytest.approx(1000 * 2 / 32, rel=0.1)
    assert counted[7].conflicts == counted[8].conflicts == 0
    assert (counted[7].barriers, counted[8].barriers) == (2, 5 / 4)


def test_intensity_of_a_longer_sum_follows_from_two_short_ones():
    longer = ladders.count_version(ladders.INPUT, 7, 128, 128, 128)
    assert ladders.intensity(ladders.INPUT, 7, 128) == pytest.approx(longer.intensity)


def test_small_sizes_are_right_in_every_version():
    rows = ladders.rows((20, 24, 36), (20, 36, 24), (24, 20, 40), (1, 2))
    assert len(rows) == 4 * 10 + 2 and all(row["right"] for row in rows)


def test_the_model_is_near_what_was_measured_and_what_the_emulator_counts(monkeypatch):
    """As the lesson's last figure shows; the model knows neither clock nor caches."""
    monkeypatch.chdir(NOTEBOOKS)
    for parts, us in ladders.stored_parts().items():
        assert tuning.model(TILES[0], parts, *ladders.THIN) == pytest.approx(us, rel=0.45), parts
    few, more = (ladders.count_version(ladders.INPUT, 9, 128, 128, K) for K in (32, 64))
    a_k = (64 * more.passes - 32 * few.passes) * 128 * 128 / 1000 / 32  # passes of a block for one more k
    assert tuning.cycles_of_k(TILES[0])["shared memory"] == pytest.approx(a_k, rel=0.05)


def loss_of_the_first(bench, parts, kept):
    """Of whoever measures all tiles with that many parts, keeps the first few, and then tries all their parts."""
    first = sorted(bench.tiles, key=lambda tile: bench.us[tile, parts])[:kept]
    return min(bench.loss((tile, each)) for tile in first for each in tuning.PARTS)


def test_the_benches_of_the_check_tell_apart_who_looks_at_one_number_of_parts():
    benches = [*tuning.benches(check("autotune"))]
    for parts, kept in [*((each, 1) for each in tuning.PARTS), (1, 2), (1, 3), (1, 4)]:
        assert max(loss_of_the_first(bench, parts, kept) for bench in benches) > 0.12, (parts, kept)
    assert all(loss_of_the_first(bench, parts, 10) < 0.09 for bench in benches for parts in tuning.PARTS)
