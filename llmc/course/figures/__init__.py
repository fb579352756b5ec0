"""Figures of the course: how a lesson draws.

A lesson's cell shows its idea, not its plumbing. In the set-up cell:

    import matplotlib.pyplot as plt
    from llmc.course.figures import BLUE, GREY, ORANGE, bars, blank_axes, number_grid, use_style

    use_style()

What to draw, and with what:

| you have | draw it with |
|---|---|
| a small array, its numbers to be followed with a finger | `number_grid(ax, x, (0, 5), "x   (T, C)")` on `blank_axes` |
| tokens, bytes, threads: texts in a row | `cell_row(ax, pieces, (0, 0), widths)` on `blank_axes` |
| a data flow with shapes | `flow(ax, [("logits", "(T, V)"), …])`, or `box` and `arrow`; `way_back`, `area` |
| times, speeds, memory | `bars(ax, {name: number}, unit="ms", limit=copy_ms, limit_label="a copy")`; `stacked_bars` |
| losses, of one run or of several seeds | `curves(ax, {name: losses})`; `level(ax, y, "ln V")`, `moment(ax, x, "…")` |
| a table of many numbers | `heat_map(ax, values, label="share of attention")` |
| operations a second over operations a byte | `roofline.roof(ax, peak, {"memory": gb_s}, xlim)`, then the points |
| several of these side by side | `fig, axes = panels(2, title="…")` |
| any other curve | `fig, ax = plt.subplots()`, as in any notebook |
| the source of a kernel | `show_cuda(source, "version 2", since=version_1)` |

`number_grid`, `cell_row`, `box` and `area` return a Place; `arrow(ax, place, place, "softmax")` goes from edge to edge,
also between parts of a grid: `x.row(1)`, `x.cell(1, 2)`.
Diagrams are measured in units: a cell is 1 high and 1.35 wide, a box 2.4 by 1. Choose xlim and ylim to hold all of it.

Rules, most of which llmc/tests/house/test_stored_figures.py checks in the stored notebook:

1. The title states the finding, under 75 characters, computed from the data where it holds a number. Axes have labels
   with units. A speed or a time is always shown with its limit.
2. A figure is at most 10 inches wide (`WIDEST`). A wider one is shrunk to fit the page, letters and all. If a text does
   not fit, shorten it, or cut the diagram in two.
3. No letters under 9 points. The helpers and the style have none; do not pass a smaller `fontsize` or `size`.
4. Colours come from this module, and colour alone never carries a meaning: lines also differ in dash or marker, cells
   have numbers, bars have names. In grids and heat maps blue is negative and orange positive; black marks a limit;
   grey is for the background. Pass coloured letters through `ink(color)`, which darkens a colour too pale to read.
5. Every figure has alt text, made from its title, axes, legend and the names of its boxes. Read it once: `words(fig)`,
   from llmc.course.figures.alt. Where it does not say what the figure shows, as for most diagrams, call
   `describe(fig, "…")` with a sentence or two; they replace everything but the title.
6. `plt.show()` ends the cell. Leave out `fig.tight_layout()`, `rcParams`, dpi and `savefig`: `panels` does the layout,
   the style draws at 144 dpi, and `notebooks run` stores small PNGs. A single plot with something outside its axes, a
   legend for example, needs `plt.subplots(layout="constrained")`.
7. A drawing that only one lesson needs and that takes more than about fifteen lines becomes a function in
   llmc/course/lessons/, as in `start_here/drawings.py`.
8. Then run the notebook and look at every figure.

Importing this room does not import matplotlib; drawing does.
"""

from llmc.course.figures.alt import describe
from llmc.course.figures.axes import WIDEST, Place, blank_axes, panels
from llmc.course.figures.bars import bars, stacked_bars
from llmc.course.figures.curves import LOOKS, curves, level, moment, plain_ticks
from llmc.course.figures.flow import area, arrow, box, flow, way_back
from llmc.course.figures.grid import cell_row, number_grid, number_text
from llmc.course.figures.heat import heat_map
from llmc.course.figures.showing import use_style
from llmc.course.figures.source import show_cuda
from llmc.course.figures.style import (
    BLUE,
    COLORS,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    RED,
    SKY,
    YELLOW,
    ink,
    tint,
)

__all__ = [
    "BLUE",
    "COLORS",
    "GREEN",
    "GREY",
    "INK",
    "LOOKS",
    "ORANGE",
    "PALE",
    "PURPLE",
    "Place",
    "RED",
    "SKY",
    "WIDEST",
    "YELLOW",
    "area",
    "arrow",
    "bars",
    "blank_axes",
    "box",
    "cell_row",
    "curves",
    "describe",
    "flow",
    "heat_map",
    "ink",
    "level",
    "moment",
    "number_grid",
    "number_text",
    "panels",
    "plain_ticks",
    "show_cuda",
    "stacked_bars",
    "tint",
    "use_style",
    "way_back",
]
