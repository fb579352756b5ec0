"""The emulator's measures, as a table and as pictures, from launches made by hand."""

import numpy as np
import pytest

from llmc.cuda.emulator.findings.raw import RawAccess
from llmc.cuda.emulator.reporting import touches
from llmc.cuda.emulator.reporting.report import Report
from llmc.errors import UserError
from llmc.tests.emulator.by_hand import launch

TRACE = [(name, np.int64) for name in ("pc", "block", "thread", "argument", "offset", "size", "write", "step")]

# --------------------------------------------------------------------------------------------- measures


def measured() -> Report:
    """Line 4 reads x with stride 8 in two instructions, line 8 writes out side by side, line 6 has bank conflicts."""
    accesses = [
        RawAccess(1, "global", False, False, 4, 1, requests=2, lanes=64, sectors=64, ideal=8),
        RawAccess(2, "global", False, False, 4, 1, requests=1, lanes=32, sectors=32, ideal=4),
        RawAccess(3, "global", True, False, 4, 0, requests=3, lanes=96, sectors=12, ideal=12),
        RawAccess(4, "shared", True, False, 4, -1, requests=3, lanes=96, passes=24, ideal=3, worst=8),
    ]
    report = Report(launch(accesses=accesses, barriers=8))
    report.__dict__["_lines_of_addresses"] = {1: (4,), 2: (4,), 3: (8,), 4: (6,)}
    return report


def test_measures_are_summed_by_line():
    report = measured()
    assert [(use.line, use.access, use.requests, use.sectors, use.ideal) for use in report.lines] == [
        (4, "reads x", 3, 96, 12),
        (6, "writes shared", 3, 0, 3),
        (8, "writes out", 3, 12, 12),
    ]
    assert (report.sectors, report.ideal_sectors, report.bytes, report.barriers) == (108, 24, 108 * 32, 8)
    assert report.efficiency == 24 / 108
    assert report.bank_conflicts == 21
    assert Report(launch()).efficiency == 1.0 and Report(launch()).table() == "Nothing was measured."


def test_table_is_aligned_and_has_a_total():
    table = measured().table().splitlines()
    assert table[0].split() == ["line", "access", "requests", "sectors", "ideal", "share", "passes", "worst", "source"]
    assert table[1].split()[:7] == ["4", "reads", "x", "3", "96", "12", "12%"]
    assert table[2].split()[:7] == ["6", "writes", "shared", "3", "12%", "24", "8"]
    assert table[4].split() == ["all", "global", "6", "108", "24", "22%"]
    assert len({row.index(word) for row, word in zip(table, ["source", "s[t] = x", "if (t < k)"])}) == 1


# ------------------------------------------------------------------------------------------------ plots


def recorded(index, threads=32, blocks=1, size=4, space="global", rounds=1) -> Report:
    """A launch whose threads touch element index(i, round) of x, or of shared memory."""
    argument = 1 if space == "global" else -1
    rows = [
        (7, i // threads, i % threads, argument, 4 * index(i, r), size, 0, 1000 * r + i)
        for r in range(rounds)
        for i in range(blocks * threads)
    ]
    raw = launch(block=(threads, 1, 1), grid=(blocks, 1, 1), trace=np.array(rows, TRACE))
    report = Report(raw)
    report.__dict__["_lines_of_addresses"] = {7: (4,)}
    return report


def panel(report) -> touches.Panel:
    spaces = {1: "global", -1: "shared"}
    return touches.panels(report.raw, report.line_of, lambda pc, argument: spaces[argument])[0]


@pytest.mark.parametrize(
    ("made", "title"),
    [
        (recorded(lambda i, r: i), "line 4 reads x: 4 sectors for the 32 threads of a warp, every byte of them used"),
        (
            recorded(lambda i, r: 32 * i),
            "32 sectors for the 32 threads of a warp, a different one for each thread; 4 would do",
        ),
        (recorded(lambda i, r: i + 1), "5 sectors for the 32 threads of a warp; 4 would do"),
        (recorded(lambda i, r: 5), "all 32 threads of a warp touch the same element, 1 sector"),
        (recorded(lambda i, r: 4 * i, size=16), "16 sectors for the 32 threads of a warp, every byte of them used"),
        (recorded(lambda i, r: i, threads=4), "1 sector for the 4 threads of a warp, as few as possible"),
        (recorded(lambda i, r: 4 * i + r, threads=8, rounds=4), "4 sectors for the 8 threads of a warp; 1 would do"),
    ],
    ids=["coalesced", "strided", "shifted", "broadcast", "float4", "four threads", "chunk for each thread"],
)
def test_titles_of_global_panels(made, title):
    assert panel(made).title.endswith(title)


@pytest.mark.parametrize(
    ("index", "size", "expected"),
    [
        (lambda i, r: i, 4, (1, 1)),
        (lambda i, r: 2 * i, 4, (2, 1)),
        (lambda i, r: 32 * i, 4, (32, 1)),
        (lambda i, r: 33 * i, 4, (1, 1)),
        (lambda i, r: 64, 4, (1, 1)),
        (lambda i, r: 4 * i, 16, (4, 4)),
        (lambda i, r: 8 * i, 16, (8, 4)),
        (lambda i, r: 2 * i, 8, (2, 2)),
    ],
    ids=["side by side", "stride 2", "stride 32", "stride 33", "broadcast", "float4", "float4 stride 2", "float2"],
)
def test_passes_through_the_banks(index, size, expected):
    shown = panel(recorded(index, size=size, space="shared"))
    assert touches.passes(shown.requests[0]) == expected
    assert ("no conflict" in shown.title) == (expected[0] == expected[1])


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("threads", "blocks"), [(8, 1), (8, 4), (64, 1)])
def test_small_launches_are_drawn_by_thread(space, threads, blocks):
    figure = recorded(lambda i, r: 3 * i + r, threads, blocks, space=space, rounds=2).plot()
    axes = figure.get_axes()
    assert len(axes) == 1 and axes[0].get_title(loc="left").startswith("line 4 reads")
    figure.canvas.draw()
    if space == "global":
        assert len(axes[0].collections[0].get_segments()) == threads * blocks  # a line from each thread


def test_the_worst_request_of_shared_memory_is_drawn():
    report = recorded(lambda i, r: i << r, rounds=3, space="shared")  # strides 1, 2, 4
    assert "4 passes where 1 would do" in panel(report).title and set(panel(report).worst["round"]) == {2}
    assert len(report.plot().get_axes()[0].patches) == 4 * 32  # four rows of 32 banks


def test_many_sectors_are_drawn_for_one_warp_only():
    report = recorded(lambda i, r: 16 * i, threads=64)
    assert len(touches.labels(report.raw)) == 32 and "the first 32 threads" in report.plot().get_suptitle()


def test_larger_launches_are_drawn_by_line():
    figure = measured().plot()
    words = [text.get_text() for text in figure.get_axes()[0].texts]
    assert (
        figure.texts[0].get_text()
        == "add_up: line 4 reads x with 8.0 times the sectors needed; line 6 loses 21 passes to bank conflicts"
    )
    assert {"8.0", "1.0", "3.1"} <= set(words) and any("s[t] = x[t];" in word for word in words)
    figure.canvas.draw()


def test_unknown_plots_are_refused():
    with pytest.raises(UserError, match="no plot 'bars'"):
        measured().plot("bars")
    with pytest.raises(UserError, match="too large to be recorded"):
        measured().plot("threads")
