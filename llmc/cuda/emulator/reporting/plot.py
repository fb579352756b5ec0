"""Pictures of a launch: `thread_plot.py` draws small ones thread by thread, this file the costs next to the source."""

import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from llmc.cuda.emulator.findings.places import cut, plural
from llmc.cuda.emulator.reporting import thread_plot, touches
from llmc.cuda.emulator.reporting.picture import INK, LETTERS, PALE_INK, WIDTH, Picture, box
from llmc.errors import UserError

SMALL = touches.THREADS  # threads of a launch that is drawn thread by thread
COLUMNS = ("sectors / ideal", "passes / ideal", "kilobytes")
SCALE = ("#FFFFFF", "#FBE3B5", "#E69F00", "#D55E00", "#7A3500")  # light to dark, also without colour
AROUND = 2  # lines of the source shown before and after one that was measured
MOST_LINES = 48
CHARACTERS = 74  # of a source line


def draw(report, kind=None):
    """A Figure; kind "threads", "lines", or None for the one that suits the launch."""
    if kind not in (None, "threads", "lines"):
        raise UserError(f"there is no plot '{kind}'; choose 'threads' or 'lines'.")
    recorded = report.raw.trace is not None and len(report.raw.trace) > 0
    if kind == "threads" and not recorded:
        raise UserError("this launch was too large to be recorded; plot a smaller one, or use kind='lines'.")
    threads = int(np.prod(report.raw.grid)) * int(np.prod(report.raw.block))
    if kind == "threads" or (kind is None and recorded and threads <= SMALL):
        return thread_plot.draw(report)
    return _draw_lines(report)


def _draw_lines(report):
    """The source as a listing, with the cost of each line that was measured next to it."""
    costs = _costs(report.lines)
    code = report.raw.code.splitlines()
    shown = _shown(costs, len(code))
    height = 0.8 + 0.19 * len(shown)
    figure = Picture(WIDTH, height)
    axes = figure.add_axes((0.01, 0.02, 0.98, 1 - 0.4 / height))
    axes.set(xlim=(0, 100), ylim=(len(shown), -1.2))
    axes.axis("off")
    figure.text(0.015, 1 - 0.12 / height, finding(report), va="top", fontsize=11, fontweight="bold", color=INK)
    for column, title in enumerate(COLUMNS):
        axes.text(_left(column) + 5.5, -0.6, title, ha="center", va="center", fontsize=LETTERS, color=INK)
    for row, line in enumerate(shown):
        _draw_line(axes, row, line, code, costs.get(line))
    return figure


def _draw_line(axes, row, line, code, cost):
    """Number and text of a source line, and its three cells; dots where lines are left out."""
    if line is None:
        axes.text(2.5, row + 0.5, "...", va="center", fontsize=LETTERS, color=PALE_INK)
        return
    text = (code[line - 1] if line else "(line unknown)").expandtabs(4)
    look = {"va": "center", "family": "monospace", "fontsize": LETTERS}
    axes.text(2.5, row + 0.5, str(line), ha="right", color=PALE_INK, **look)
    axes.text(4, row + 0.5, cut(text, CHARACTERS).replace("$", r"\$"), color=INK, **look)
    for column, value in enumerate(cost or ()):
        if value is not None:
            _draw_cell(axes, column, row, value)


def _draw_cell(axes, column, row, value):
    """A cell with its number; the darker, the worse. Kilobytes stay white."""
    ratio = column < 2
    text = f"{value:.1f}" if value < 100 else f"{value:,.0f}"
    look = {"facecolor": _shade(value) if ratio else "white", "edgecolor": "#BBBBBB"}
    box(axes, _left(column), row + 0.04, 11, 0.92, text, "white" if ratio and value > 5 else INK, **look)


def _left(column) -> float:
    return 64 + 12 * column


def _shade(ratio):
    """White at 1, darkest from 16 on."""
    return LinearSegmentedColormap.from_list("cost", SCALE)(min(1.0, np.log2(max(1.0, ratio)) / 4))


def _costs(uses) -> dict[int, tuple]:
    """{line: (sectors / ideal, passes / ideal, kilobytes of global memory)}, None where nothing was measured."""
    found = {}
    for line in {use.line for use in uses}:
        here = [use for use in uses if use.line == line]
        moved = [use for use in here if use.space == "global"]
        banks = [use for use in here if use.space == "shared"]
        found[line] = (
            _ratio(moved, "sectors"),
            _ratio(banks, "passes"),
            sum(use.bytes for use in moved) / 1000 if moved else None,
        )
    return found


def _ratio(uses, name):
    ideal = sum(use.ideal for use in uses)
    return sum(getattr(use, name) for use in uses) / ideal if ideal else None


def _shown(costs, length) -> list:
    """Numbers of the lines to list: all of a short kernel, else those around measured ones; None stands for a gap."""
    near = range(1, length + 1)
    if length > MOST_LINES:
        near = sorted({n for line in costs for n in range(line - AROUND, line + AROUND + 1) if 0 < n <= length})
    shown = [0] if 0 in costs else []
    for number in list(near)[:MOST_LINES]:
        if shown and shown[-1] and number > shown[-1] + 1:
            shown.append(None)
        shown.append(number)
    return shown


def finding(report) -> str:
    """The title says what stands out."""
    uses = [use for use in report.lines if use.space == "global" and use.sectors]
    worst = max(uses, key=lambda use: use.sectors - use.ideal, default=None)
    banks = max(report.lines, key=lambda use: use.extra, default=None)
    words = []
    if worst is not None and worst.sectors > 1.1 * worst.ideal:
        words.append(
            f"line {worst.line} {worst.access} with {worst.sectors / max(1, worst.ideal):.1f} times the sectors needed"
        )
    elif uses:
        words.append(f"global memory: {report.efficiency:.0%} of the ideal")
    if banks is not None and banks.extra:
        words.append(f"line {banks.line} loses {plural(banks.extra, 'pass', 'passes')} to bank conflicts")
    return f"{report.raw.kernel}: " + ("; ".join(words) or "no memory access was measured")
