"""Lesson 19's layouts, orders, softmax and known mistakes, held against each other and against the emulator."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest

from llmc.course.lessons.tensor_cores import (
    counters,
    drawings,
    fragments,
    measured,
    order,
    phases,
    places,
    rings,
    softening,
    steps,
)
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.kernel_checks.demands import Wasteful
from llmc.course.old.kernel_checks.solutions import source_of
from llmc.errors import UserError

RNG = np.random.default_rng(19)
LANE, REGISTER, HALF = np.ogrid[:32, :4, :2]


def halves(*shape):
    return RNG.normal(1, 2, shape).astype(np.float16)


def different(known, right, tolerance=1e-3):
    """No known mistake is right, and no two are the same."""
    arrays = [array for array, _ in known.values()]
    assert all(array.shape == right.shape and array.dtype == right.dtype for array in arrays)
    everything = [*arrays, right]
    for k, one in enumerate(everything):
        for other in everything[:k]:
            close = np.isclose(one, other, rtol=tolerance, atol=tolerance * np.abs(right).max(), equal_nan=True)
            assert not close.all()
    assert all("lesson 19" in where for _, where in known.values())


# ----------------------------------------------------------------------------------------------------- fragments


def test_every_number_is_held_once():
    for layout, registers, shape in ((fragments.a_layout, 4, (16, 16)), (fragments.b_layout, 2, (16, 8))):
        held = np.zeros(shape, int)
        np.add.at(held, layout(*np.broadcast_arrays(LANE, REGISTER[:, :registers], HALF)), 1)
        assert (held == 1).all()
    held = np.zeros((16, 8), int)
    np.add.at(held, fragments.d_layout(*np.broadcast_arrays(LANE[..., 0], REGISTER[..., 0])), 1)
    assert (held == 1).all()


def test_two_sums_side_by_side_are_a_factor():
    row, k = np.broadcast_arrays(*fragments.a_layout(LANE, REGISTER, HALF))
    for register in range(4):
        for half in range(2):
            i, j = fragments.d_layout(np.arange(32), register % 2 * 2 + half)
            assert np.array_equal(row[:, register, half], i)
            assert np.array_equal(k[:, register, half], j + register // 2 * 8)


@pytest.mark.parametrize("sizes", [(16, 8, 32), (32, 24, 64)])
def test_wrong_fragments_are_told_apart(sizes):
    M, N, K = sizes
    a, b = halves(M, K), halves(N, K)
    different(fragments.mistakes(a, b), fragments.product(a, b))


def test_the_right_layout_changes_nothing():
    tiles = RNG.normal(size=(2, 3, 16, 16))
    assert np.array_equal(fragments.taken_for(tiles, 4, fragments.a_layout, fragments.a_layout), tiles)
    x = RNG.normal(size=(32, 48))
    assert np.array_equal(fragments.whole(fragments.in_tiles(x, 16, 16)), x)


@pytest.mark.parametrize("sizes", [(64, 64), (128, 64), (64, 192)])
def test_wrong_swizzles_are_told_apart(sizes):
    a = halves(*sizes)
    known = fragments.turned_mistakes(a)
    if sizes == (64, 64):  # squares of a single tile that are exchanged are squares that stay
        del known["squares that are turned each, but lie where they lay in a"]
    different(known, a.T.copy())


# --------------------------------------------------------------------------------------------------------- order


@pytest.mark.parametrize("grid", order.GRIDS)
def test_bands_have_every_tile_once_and_read_little(grid):
    blocks, down, across = grid
    tiles = [order.in_bands(n, down, across) for n in range(down * across)]
    assert len(set(tiles)) == down * across == (order.numbered(down, across, order.in_bands) >= 0).sum()
    lists = [tiles[block::blocks] for block in range(blocks)]
    assert order.judge(lists, blocks, down, across) == order.bands_read(tiles, blocks)


def test_the_goal_refuses_rows_and_columns():
    refused = set()
    for blocks, down, across in order.GRIDS:
        numbers = range(down * across)
        ways = {"rows": [divmod(n, across) for n in numbers], "columns": [divmod(n, down)[::-1] for n in numbers]}
        for name, tiles in ways.items():
            lists = [tiles[block::blocks] for block in range(blocks)]
            try:
                order.judge(lists, blocks, down, across)
            except WrongAnswer as error:
                assert "would do" in str(error)
                refused.add(name)
    assert refused == {"rows", "columns"}


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        ([[(0, 0), (0, 1)], [(1, 0)]], r"tile \(1, 1\) belongs to no block, with 2 blocks and 2 x 2 tiles\."),
        ([[(0, 0)], [(0, 0), (1, 1)]], r"tile \(0, 0\) belongs to block 0 and to block 1"),
        ([[(0, 0), (0, 1), (1, 0)], [(1, 1)]], "block 0 has 3 tiles where 2 would do"),
        ([[(0, 2)], []], r"block 0 gets tile \(0, 2\), which does not exist"),
        ([3, []], "should return a list of"),
        ([[(0.5, 1)], []], "should return a list of"),
    ],
)
def test_what_is_wrong_with_an_order(lists, said):
    with pytest.raises(WrongAnswer, match=said):
        order.judge(lists, 2, 2, 2)


# -------------------------------------------------------------------------------------------------------- softmax


@pytest.mark.parametrize("growth", [0, 0.3, -0.2, 20])
def test_lanes_compute_the_softmax(growth):
    scores = RNG.normal(0, 2, (2, 16, 64)) + growth * np.arange(64)
    values = halves(2, 64, 8)
    exact = softening.attend(scores, values)
    assert np.allclose(softening.online(scores, values), exact, atol=2e-3 * np.abs(exact).max())


def test_mistakes_of_lanes_are_told_apart():
    slopes = np.linspace(0.4, -0.4, 16)[:, None] * np.arange(48)  # some rows lie far below others
    scores, values = RNG.normal(0, 2, (3, 16, 48)) + slopes, halves(3, 48, 8)
    different(softening.mistakes(scores, values), softening.attend(scores, values).astype(np.float32))


# ---------------------------------------------------------------------------------------------------------- rings


@pytest.mark.parametrize("rounds", [3, 4, 7])
def test_mistakes_of_rings_are_told_apart(rounds):
    x = RNG.normal(2, 1, (2, rounds, 128)).astype(np.float32)
    known = rings.mistakes(x)
    total = np.zeros((2, 128))
    for r in range(rounds):
        total = total / 2 + x[:, r]
    assert np.allclose(rings.halved(x), total, atol=1e-5)
    different(known, rings.halved(x))
    assert len(known) == 9 + (rounds > 4)


RELAY = """
__device__ void expect(unsigned long long* barrier, int bytes) {}
__device__ void arrive(unsigned long long* barrier) {}
__device__ void wait(unsigned long long* barrier, int parity) {}
extern "C" __global__ void relay(float* result, const float* x, int rounds)
{
    for (int round = 0; round < rounds; round += AHEAD) {
        if (threadIdx.x == 0) for (int i = 0; i < AHEAD; i++) expect(0, 512);
        __syncthreads();
        if (threadIdx.x >= 32) for (int i = 0; i < AHEAD; i++) arrive(0);
        __syncthreads();
    }
    if (threadIdx.x < 128) result[threadIdx.x] = 0;
}
"""


class Said:
    def __init__(self):
        self.said = []

    def say(self, words):
        self.said.append(words)


def test_how_far_a_producer_runs_ahead():
    three, one = (RELAY.replace("AHEAD", str(n)) for n in (3, 1))
    c = Said()
    rings.demand(three, c, "relay")
    assert c.said == ["The producer runs 3 lines ahead."]
    with pytest.raises(Wasteful, match="never more than 1 of 3 stages"):
        rings.demand(one, c, "relay")
    with pytest.raises(Wasteful, match="only one copy is under way"):
        rings.demand(three.replace("expect(0, 512);", "expect(0, 512), wait(0, 0);"), c, "relay")
    assert rings.lines_ahead("__global__ void f() {}", "f") == (0, False)
    assert rings.lines_ahead("int note_asked;" + three, "relay") == (0, False)  # a name of the learner's own


# ------------------------------------------------------------------------------------------------ llmc's versions


def test_counts_of_the_lesson():
    """What sections 2 and 3 say of v4 and v7: requests, passes with a gap and without, no fragment to load."""
    plain, gapless = (steps.count(4, *steps.run(4, 128, 128, 64, RNG, **how)) for how in ({}, {"pad": 0}))
    assert (plain.requests, plain.conflicts, plain.barriers) == (256, 0, 2) and gapless.passes == 6400
    assert "(5,376 of them extra)" in str(gapless) and "v4  ldmatrix" in steps.table({4: plain})
    assert steps.count(7, *steps.run(7, 64, 128, 64, RNG)).requests < 10
    assert [steps.brought(version) for version in (6, 7, 8)] == [32, 48, 24]


def test_a_text_that_is_not_there_cannot_be_changed():
    with pytest.raises(ValueError, match="does not occur"), steps.changed("matmul_tma", "no such text", ""):
        pass


def test_small_sizes_are_right_in_every_version(monkeypatch):
    monkeypatch.setattr(measured, "able", lambda: (4, 6))
    rows = measured.rows(((40, 24, 48),), (1, 40, 1, 32))
    assert all(row["right"] for row in rows)
    versions = {what: [row["version"] for row in rows if row["what"] == what] for what in {row["what"] for row in rows}}
    both = ["v1", "v2"]
    assert versions == {"product": ["v4", "v6", measured.LIBRARY], "attention": both, "attention backward": both}


def test_counters_of_the_profiler(tmp_path):
    names = [counters.TIME, counters.BUSY, counters.CONFLICTS, counters.REGISTERS]
    names += [counters.STALL.format(name) for name in ("barrier", "long_scoreboard")]
    lines = ["==PROF== Connected", '"ID","Kernel Name",' + ",".join(f'"{name}"' for name in names)]
    lines += ['"","","ns","%","","","",""', '"0","matmul_v8","1,500","74.96","0","168","2.5","0.7"']
    lines += [
        '"1","nvjet_tn","900","95.1","1,234","168","0.1","3"',
        '"2","matmul_v8","2,000","70","1","168","2.5","0.7"',
    ]
    (tmp_path / "raw.csv").write_text("\n".join(lines))
    counters.main(str(tmp_path / "raw.csv"), str(tmp_path / "out.json"))
    ours, library = counters.stored(tmp_path / "out.json")
    assert ours == dict(kernel="matmul_v8", us=1.5, busy=75.0, conflicts=0, registers=168, waits="other warps")
    assert library["waits"] == "global memory" and library["conflicts"] == 1234
    assert "the library's" in counters.text([ours, library]) and "75%" in counters.text([ours])
    (tmp_path / "raw.csv").write_text("==ERROR== no GPU\n")
    with pytest.raises(UserError, match="there is no line of names"):
        counters.rows(tmp_path / "raw.csv")


def test_stored_times(tmp_path):
    table = tmp_path / "table.json"
    assert measured.stored(table) == []
    row = {"what": "product", "version": "v2", "sizes": [1, 2, 3], "us": 10.0, "tflop_s": 200.0, "device": "X"}
    table.write_text(json.dumps([row, row | {"version": measured.LIBRARY, "us": 5.0, "tflop_s": 400.0}]))
    text = measured.text(measured.stored(table))
    assert "product 1 x 2 x 3, X" in text and "50% of the library" in text


def test_only_a_gpu_is_measured(tmp_path):
    with pytest.raises(UserError, match="only a GPU can be measured"):
        measured.main(tmp_path / "x.json")


# ------------------------------------------------------------------------------------------------------- pictures


def test_phases_are_drawn_from_a_log():
    log = [(drawings.ASKED, 0), (drawings.ASKED, 1), (drawings.ARRIVED, 0), (drawings.USED, 0), (drawings.ASKED, 2)]
    log += [(drawings.ARRIVED, 1), (drawings.USED, 1), (drawings.ARRIVED, 2), (drawings.USED, 2)]
    fig, ax = plt.subplots()
    drawings.draw_phases(ax, log, stages=2)
    assert "round 2" in [text.get_text() for text in ax.texts]
    plt.close(fig)


def test_places_name_lesson_19():
    where = places.FRAGMENTS | places.SWIZZLE | places.RING | places.SOFTMAX
    assert all("lesson 19" in place for place in where.values())


# --------------------------------------------------------------------------------------------------- phases of a ring


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("", "", None),
        ("% 2 ^ 1", "% 2", "In round 0, the producer waits for parity 0 of used[0] (line 54), and it should be 1."),
        (
            "wait(&there[stage], round / STAGES",
            "wait(&there[stage], round",
            "In round 1, a consumer waits for parity 1",
        ),
        ("round * N, BYTES", "round * N, N", "Line 56 copies 128 bytes in a round, and a line has 512 bytes"),
        ("expect(&there[stage], BYTES)", "arrive(&there[stage])", "Nobody expects the bytes of the copies"),
        ("arrive(&used[stage])", "arrive(&there[stage])", "Consumers arrive at there (line 67)"),
        ("arrive(&used[stage])", "if (t < 2) arrive(&used[stage])", "Only 2 of the 128 consumers arrive at used (line"),
    ],
)
def test_what_a_ring_waits_for(old, new, words):
    code = source_of("ring_of_stages")
    if code is None:
        pytest.skip("needs a checkout: the solution lies with the lessons")
    found = phases.findings(code.replace(old, new), "ring_of_stages")
    assert (found is None) if words is None else found.startswith(words)
    again = phases.findings(code.replace(old, new), "ring_of_stages")  # the same module
    assert again == found
