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
   with units. A speed or a time has its limit beside it.
2. At most 10 inches wide (`WIDEST`): a page is no wider, and what is wider is shrunk on it, letters and all. Shorten a
   text that does not fit, or cut the diagram in two.
3. No letters under 9 points. The helpers and the style have none; do not pass a smaller `fontsize` or `size`.
4. Colours come from this module, and are never alone in carrying a meaning: lines also differ in dash or marker, cells
   have numbers, bars have names. Blue is negative and orange positive, in grids and heat maps; black is a limit; grey
   stands back. Coloured letters go through `ink(color)`, which darkens what is too pale to read.
5. Every figure has alt text. It is made from title, axes, legend and the names of boxes; read it once:
   `from llmc.course.figures.alt import words`, `words(fig)`. Where it does not say what the figure shows, as for most
   diagrams, write `describe(fig, "…")`: a sentence or two, which replace all of it but the title.
6. `plt.show()` ends the cell. No `fig.tight_layout()`, no `rcParams`, no dpi, no `savefig`: `panels` lays out, the
   style draws at 144 dpi, `notebooks run` stores small PNGs. A single plot with something outside of its axes, a legend
   for example, takes `plt.subplots(layout="constrained")`.
7. What only one lesson draws and takes more than some fifteen lines is a function in llmc/course/lessons/, see
   `start_here/drawings.py`. Then run the notebook and look at every figure.

Nothing here imports matplotlib before something is drawn.
"""

from llmc.course.figures.alt import describe
from llmc.course.figures.axes import WIDEST, Place, blank_axes, panels
from llmc.course.figures.bars import bars, stacked_bars
from llmc.course.figures.curves import LOOKS, curves, level, moment, plain_ticks
from llmc.course.figures.flow import area, arrow, box, flow, way_back
from llmc.course.figures.grid import cell_row, number_grid, number_text
from llmc.course.figures.heat import heat_map
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
    use_style,
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
