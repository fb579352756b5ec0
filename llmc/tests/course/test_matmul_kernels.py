"""Lesson 15's references and known mistakes, held against each other; its counts, its model, its pipeline."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from llmc.course.lessons.matmul_kernels import drawings, ladders, measured, pipeline, places, products, tuning
from llmc.course.old.checks.explain import WrongAnswer
from llmc.errors import UserError
from llmc.kernels.tiling import TILES

RNG = np.random.default_rng(15)
MEASURED = Path(__file__).resolve().parents[3] / "notebooks" / measured.TABLE
LAYOUTS = [(True, True), (False, False), (True, False)]  # of the three products: does k run in a, in b?


def factors(M, N, K, a_runs, b_runs):
    a = RNG.normal(0.3, 2, (M, K) if a_runs else (K, M)).astype(np.float32)  # as it lies
    return a, RNG.normal(0.3, 2, (N, K) if b_runs else (K, N)).astype(np.float32)  # as it lies


@pytest.mark.parametrize("a_runs, b_runs", LAYOUTS)
@pytest.mark.parametrize("sizes", [(5, 7, 3), (17, 33, 40), (9, 7, 16)])
def test_every_known_mistake_is_wrong(sizes, a_runs, b_runs):
    a, b = factors(*sizes, a_runs, b_runs)
    right = products.product(a, b, a_runs, b_runs)  # (M, N)
    known = products.mistakes(a, b, a_runs, b_runs, 8) | products.square_mistakes(right, 4, 64)
    known |= products.tile_mistakes(right, 16)
    assert len(known) >= (9 if sizes[2] < 8 else 13)
    for sentence, (array, where) in known.items():
        assert array.shape == right.shape, sentence
        assert np.abs(array - right).max() > 3e-4 * np.abs(array).max(), sentence
        assert "lesson 15" in where


def test_references():
    a, b = factors(3, 4, 5, False, True)
    assert np.allclose(products.product(a, b, False, True), a.T @ b.T, atol=1e-4)
    (copied, _), *_ = products.turned_mistakes(a).values()
    assert np.array_equal(copied.reshape(-1), a.reshape(-1))


def test_tiles_that_are_swizzled_where_they_are_written_alone():
    a = factors(32, 64, 1, True, True)[0] * np.ones(64, np.float32) + np.arange(64, dtype=np.float32)  # (32, 64)
    tile = np.zeros((32, 32), np.float32)
    for row in range(32):
        for lane in range(32):
            tile[row, lane ^ row] = a[row, 32 + lane]
    known = products.turned_mistakes(a)
    (swizzled,) = (array for words, (array, _) in known.items() if "lane ^ row" in words)
    assert np.array_equal(swizzled[32:], tile.T) and len(known) > 4


@pytest.mark.parametrize("sizes", [(5, 7, 20), (35, 33, 29), (33, 50, 40)])
def test_mistakes_with_slices(sizes):
    M, N, K = sizes
    a, b = np.float32(RNG.normal(0, 1, (M, K))), np.float32(RNG.normal(0, 1, (N, K)))
    right = products.product(a, b, True, True)
    known = products.turned_slice_mistakes(a, b, 16)
    (wrong, _), *_ = known.values()
    assert wrong.shape == right.shape and np.abs(wrong - right).max() > 0.1
    slices = [np.zeros((16, 16)) for _ in range(-(-K // 16))]  # of b for the first block: [column][k]
    for s, tile in enumerate(slices):
        part = b[:16, 16 * s : 16 * s + 16]
        tile[: part.shape[0], : part.shape[1]] = part
    by_hand = sum(a[0, k] * slices[k // 16][k % 16, 1] for k in range(K))  # bs[i][column] for column 1
    assert np.isclose(wrong[0, 1], by_hand, atol=1e-4)
    known = products.next_mistakes(a, b.T, 8, 32)
    of_sizes = 3 * (M != N) + 3 * (N < M)  # M in place of N, and N in place of M where that cuts off rows
    assert len(known) == 15 + of_sizes + 6 * (max(M, N) > 32)
    assert all(wrong.shape == right.shape for wrong, _ in known.values())


def test_squares_are_those_of_a_thread():
    right = np.arange(64.0).reshape(8, 8)  # (M, N)
    known = products.square_mistakes(right, 4, 64)
    turned = next(array for words, (array, _) in known.items() if "turned" in words)
    assert np.array_equal(turned[4:, :4], right[4:, :4].T)
    row = next(array for words, (array, _) in known.items() if "first row" in words)
    assert np.array_equal(row[4:], np.repeat(right[4:5], 4, axis=0))


def test_what_the_slice_before_has_left():
    a, b = factors(3, 4, 11, True, True)
    known = products.mistakes(a, b, True, True, 8)
    left = next(array for words, (array, _) in known.items() if "left behind" in words)
    stale_a, stale_b = (np.concatenate([x, x[:, 3:8]], axis=1).astype(np.float64) for x in (a, b))  # 3 new, 5 old
    assert np.allclose(left, stale_a @ stale_b.T)


# ------------------------------------------------------------------------------------------------------- counts


def test_counts_of_the_ladder():
    """What section 3 of the lesson says of them, per 1,000 multiply-adds."""
    counted = {v: ladders.count_version(measured.INPUT, v, 128, 128, 32) for v in (1, 2, 3, 7, 8)}
    assert counted[1].sectors == pytest.approx(1000 * 17 / 32, rel=0.05)
    assert counted[2].sectors == pytest.approx(1000 * 4 / 32, rel=0.05)
    assert counted[3].passes - counted[3].conflicts == pytest.approx(1000 * 2 / 32, rel=0.1)
    assert counted[7].conflicts == counted[8].conflicts == 0
    assert (counted[7].barriers, counted[8].barriers) == (2, 5 / 4)
    assert "2 barriers" in str(counted[7]) and "conflicts" in ladders.count_table({"v3": counted[3]})


def test_intensity_of_a_longer_sum_follows_from_two_short_ones():
    assert ladders.intensity(measured.INPUT, 7, 128) == pytest.approx(
        ladders.count_version(measured.INPUT, 7, 128, 128, 128).intensity
    )


def test_small_sizes_are_right_in_every_version():
    rows = measured.rows((20, 24, 36), (20, 36, 24), (24, 20, 40), (1, 2), TILES[:1])
    assert len(rows) == 4 * 10 + 3 and all(row["right"] for row in rows)
    assert {row["version"] for row in rows} == {*(f"v{k}" for k in range(1, 10)), "library"}


def test_only_a_gpu_is_measured(tmp_path):
    with pytest.raises(UserError, match="only a GPU can be measured"):
        measured.main(tmp_path / "x.json")


def test_stored_times(tmp_path):
    table = tmp_path / "table.json"
    assert ladders.stored_times(measured.INPUT, (1, 2, 3), table) is None and ladders.stored_parts(table) == {}
    bounds = {"device": "X", "sgemm_tflop_s": 50.0, "copy_gb_s": 4000.0}
    rows = [
        {"product": measured.INPUT, "M": 1, "N": 2, "K": 3, "version": v, "tflop_s": t, **bounds}
        for v, t in (("v2", 20.0), ("v1", 10.0), ("library", 40.0))
    ]
    M, N, K = measured.THIN
    rows.append(rows[0] | {"M": M, "N": N, "K": K, "tile": [1], "parts": 7, "us": 5.0})
    table.write_text(json.dumps(rows))
    times = ladders.stored_times(measured.INPUT, (1, 2, 3), table)
    assert list(times.tflop_s) == ["v1", "v2"] and times.share("v2") == 0.5 and times.K == 3
    assert ladders.stored_times(measured.INPUT, (1, 2, 4), table) is None
    assert ladders.stored_parts(table) == {7: 5.0}


@pytest.mark.skipif(not MEASURED.exists(), reason="no stored measurements")
def test_the_model_is_near_what_was_measured():
    """As the lesson's last figure shows; the model knows neither clock nor caches."""
    for parts, us in ladders.stored_parts(MEASURED).items():
        assert tuning.model(TILES[0], parts, *measured.THIN) == pytest.approx(us, rel=0.45), parts
    rows = json.loads(MEASURED.read_text())
    assert all(row["right"] for row in rows) and {row["device"] for row in rows} == {"NVIDIA H200"}


# ------------------------------------------------------------------------------------------------------- tuning


def test_passes_of_the_model_are_those_that_the_emulator_counts():
    tile = TILES[0]
    few, more = (ladders.count_version(measured.INPUT, 9, 128, 128, K) for K in (32, 64))
    a_k = (64 * more.passes - 32 * few.passes) * 128 * 128 / 1000 / 32  # passes of a block for one more k
    assert tuning.cycles_of_k(tile)["shared memory"] == pytest.approx(a_k, rel=0.05)


def test_a_bench_knows_every_way_and_some_tiles_do_not_fit():
    bench = tuning.Bench(768, 768, 8192, np.random.default_rng(0))
    assert len(bench.us) == 1408 == len(bench.tiles) * len(tuning.PARTS)
    assert sum(bench.us[tile, 1] == np.inf for tile in bench.tiles) == 8
    best = min(bench.us, key=bench.us.get)
    assert bench.loss(best) == 0 and tuning.choice_of(best, bench) == best
    tuning.judge(bench, best, 300, 300, 0.1, "there")
    with pytest.raises(WrongAnswer, match="measured 301 times; the goal is at most 300"):
        tuning.judge(bench, best, 301, 300, 0.05, "there")
    misfit = next(way for way, us in bench.us.items() if us == np.inf)
    with pytest.raises(WrongAnswer, match="does not fit"):
        tuning.judge(bench, misfit, 1, 300, 0.05, "there")
    with pytest.raises(WrongAnswer, match="longer than the best"):
        tuning.judge(bench, max((w for w in bench.us if bench.us[w] < np.inf), key=bench.us.get), 1, 300, 0.05, "x")


@pytest.mark.parametrize("seed", range(20))
def test_two_rounds_find_nearly_the_best_on_any_bench(seed):
    """The solution's way must pass whatever the check draws."""
    for shape in tuning.SHAPES:
        us = tuning.Bench(*shape, np.random.default_rng(seed)).us
        tiles = {tile for tile, _ in us}
        promising = sorted(tiles, key=lambda tile: us[tile, 4])[:12]
        least = min(us[tile, parts] for tile in promising for parts in tuning.PARTS)
        assert least / min(us.values()) < 1.07


@pytest.mark.parametrize(("M", "N"), [(9, 7), (70, 66), (65, 30), (3, 129), (1, 1)])
def test_known_squares_can_be_told_apart(M, N):
    """No two names for the same numbers, and none for the right ones; in a small result fewer names."""
    right = np.random.default_rng(0).normal(size=(M, N))
    known = products.square_mistakes(right, 4, 64)
    arrays = [array.tobytes() for array, _ in known.values()] + [right.tobytes()]
    assert len(set(arrays)) == len(arrays)
    apart = [int(n) for words in known for n in re.findall(r" 4 rows lie (\d+) apart where they are multiplied", words)]
    assert apart == {70: list(range(2, 17)), 65: list(range(2, 17)), 9: list(range(2, 9)), 3: [2]}.get(M, [])
    assert any("rows lie apart" in words for words in known) == (M == 9)  # of 3 rows, "written apart" gives the same


def test_numbers_written_apart_are_named_by_their_distance():
    right = np.random.default_rng(0).normal(size=(70, 66))
    got, t = np.zeros((128, 128)), np.arange(16)
    whole = np.pad(right, ((0, 58), (0, 62)))
    for i in range(4):
        for m0 in (0, 64):
            got[m0 + t + 16 * i] = whole[m0 + 4 * t + i]
    (said,) = [words for words, (a, _) in products.square_mistakes(right, 4, 64).items() if (a == got[:70, :66]).all()]
    assert said.endswith(
        "a thread's 4 rows lie 16 apart where they are written, and side by side where they are multiplied"
    )


def loss_of_the_first(bench, parts, kept):
    """Of whoever measures all tiles with that many parts, keeps the first few, and then tries all their parts."""
    first = sorted(bench.tiles, key=lambda tile: bench.us[tile, parts])[:kept]
    return min(bench.loss((tile, each)) for tile in first for each in tuning.PARTS)


def test_the_benches_of_the_check_tell_apart_who_looks_at_one_number_of_parts():
    """Who keeps one tile is refused, for up to four tiles at parts = 1; who keeps ten passes. No draw decides."""
    benches = tuning.benches()
    again = tuning.benches()
    assert [(b.us, b.tiles) for b in benches] == [(b.us, b.tiles) for b in again] and len(benches) == 12
    for parts in tuning.PARTS:
        assert max(loss_of_the_first(bench, parts, 1) for bench in benches) > 0.12, parts
        assert max(loss_of_the_first(bench, parts, 10) for bench in benches) < 0.09, parts
    for kept in (2, 3, 4):
        assert max(loss_of_the_first(bench, 1, kept) for bench in benches) > 0.12, kept
    assert max(loss_of_the_first(bench, 1, 6) for bench in benches) < 0.09


def test_who_takes_the_best_parts_of_any_tile_is_refused():
    losses = []
    for bench in tuning.benches():
        parts = min(tuning.PARTS, key=lambda each: bench.us[bench.tiles[0], each])
        losses.append(bench.loss(min(((tile, parts) for tile in bench.tiles), key=bench.us.get)))
    assert max(losses) > 0.12


@pytest.mark.parametrize(
    ("tried", "said"),
    [
        ((), "autotune never measured that tile."),
        ((3,), "autotune never tried other parts than 3."),
        ((3, 4), "autotune measured that tile with 2 other numbers of parts."),
        (tuning.PARTS, "autotune measured that, too."),
    ],
)
def test_a_tile_that_is_wrong_with_all_parts_is_called_wrong(tried, said):
    bench = tuning.benches()[6]
    tile, parts = min(bench.us, key=bench.us.get)
    bench.tried += [(tile, each) for each in tried]
    other = max((w for w in bench.us if bench.us[w] < np.inf), key=lambda way: bench.us[way[0], parts])[0]
    assert parts not in (3, 4)
    with pytest.raises(WrongAnswer, match="The tile is wrong: whatever its parts, it takes at least") as caught:
        tuning.judge(bench, (other, parts), 1, 300, 0.1, "there")
    assert f"The best has another tile, and parts = {parts}; {said}" in str(caught.value)


@pytest.mark.parametrize(("asked", "said"), [(False, "autotune never measured that"), (True, "measured that, too")])
def test_parts_are_wrong_where_the_tile_would_do(asked, said):
    bench = tuning.benches()[6]
    tile, parts = min(bench.us, key=bench.us.get)
    worst = max(tuning.PARTS, key=lambda each: bench.us[tile, each])
    bench.tried += [(tile, parts)] * asked
    with pytest.raises(WrongAnswer, match=rf"The parts are wrong: with parts = {parts}, not {worst}, .*{said}"):
        tuning.judge(bench, (tile, worst), 1, 300, 0.1, "there")


@pytest.mark.parametrize("got", [TILES[0], (TILES[0],), (TILES[0], 0), (TILES[0], 2.0), ("a", 1), None])
def test_what_is_no_choice_is_refused(got):
    with pytest.raises(WrongAnswer, match="autotune"):
        tuning.choice_of(got, tuning.Bench(768, 768, 8192, np.random.default_rng(0)))


# ------------------------------------------------------------------------------------------------------ pipeline

A, E, M, W0, W1 = pipeline.COPY, pipeline.END, pipeline.MULTIPLY, pipeline.WAIT, pipeline.WAIT + 1


@pytest.mark.parametrize(
    "noted, hidden",
    [
        ([A, E, W0, A, E, M, W0, A, E, M, W0, M], 2),  # as the solution
        ([A, E, W0, M, A, E, W0, M], 0),  # one buffer
        ([A, E, A, E, W0, M, W0, M], 0),  # waits at once
        ([A, E, A, E, W1, M, W0, M], 1),  # two batches on their way, and the wait knows
        ([A, E, A, E, W1, A, E, M, W1, M, W0, M], 2),  # three buffers
        ([A, A, E, W0, A, A, E, M, W0, M], 2),  # two copies to a batch
        ([A, E, A, E, A, E, A, E, W1, M, W0, M], 1),  # two batches to a slice, and the wait knows of one
        ([], 0),
    ],
)
def test_copies_that_travel_while_the_threads_multiply(noted, hidden):
    assert sum(pipeline.in_the_background(noted)) == hidden


def test_a_text_without_the_helpers_is_not_judged():
    assert pipeline.with_notes("__global__ void f() {}") is None
    pipeline.demand("__global__ void f() {}", "f", 1, 32, (), slices=4)


def test_banks():
    assert drawings.at_the_banks([8 * lane for lane in range(8)]).sum(axis=0).max() == 2
    assert drawings.at_the_banks([4 * lane for lane in range(8)]).sum(axis=0).max() == 1


def test_places_name_lesson_15():
    assert all("lesson 15" in place or "lesson 12" in place for place in places.WHERE.values())
