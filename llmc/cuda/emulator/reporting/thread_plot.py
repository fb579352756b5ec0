"""The picture of a small launch: threads above, the memory that they touch below, a line from each to its element.

Of global memory only the 32-byte sectors that are touched are drawn, with a gap where some are left out. Shared memory
is drawn as the 32 columns of its banks. Colours repeat after eight threads; there is a gap between warps.
"""

import numpy as np
from matplotlib.collections import LineCollection

from llmc.cuda.emulator.reporting import touches
from llmc.cuda.emulator.reporting.measures import SECTOR
from llmc.cuda.emulator.reporting.picture import INK, LETTERS, WIDTH, Picture, box

COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#222222", "#F0E442")  # Okabe and Ito
DARK = {"#0072B2", "#009E73", "#D55E00", "#222222"}  # white text on these
GREY, EDGE = "#EEEEEE", "#999999"
MOST_PANELS = 4
GAP = 0.012  # of the width, between warps and where memory is left out
READABLE = 0.1  # the least height of a row, of the panel, that has letters in it


def draw(report):
    """A Figure with a panel for each instruction on each array, the first four of them."""
    raw = report.raw
    spaces = {(access.pc, access.argument): access.space for access in raw.accesses}
    found = touches.panels(raw, report.line_of, lambda pc, argument: spaces.get((pc, argument), _guess(argument)))
    shown, left = found[:MOST_PANELS], len(found) - MOST_PANELS
    figure = Picture(WIDTH, 0.8 + 1.75 * max(1, len(shown)), layout="constrained")
    figure.suptitle(_heading(raw, found), x=0.01, ha="left", fontsize=10, color=INK)
    for axes, panel in zip(np.atleast_1d(figure.subplots(max(1, len(shown)), 1)), shown):
        axes.set(xlim=(-0.06, 1.003), ylim=(-0.08, 1.08))
        axes.axis("off")
        axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold", color=INK)
        (_draw_global if panel.space == "global" else _draw_shared)(axes, panel, touches.labels(raw))
    if left > 0:
        figure.supxlabel(f"and {left} more; report.table() lists them all", fontsize=LETTERS, color=INK)
    return figure


def _guess(argument) -> str:
    return "global" if argument >= 0 else "shared"


def _heading(raw, found) -> str:
    blocks, threads = int(np.prod(raw.grid)), int(np.prod(raw.block))
    shown = len(touches.labels(raw))
    part = f", the first {shown} threads" if shown < blocks * threads else ""
    sector = "; a sector is 32 bytes" if any(p.space == "global" for p in found) else ""
    later = "; pale: in a later round" if any(panel.later.size for panel in found) else ""
    return f"{raw.kernel}: {blocks} x {threads} threads{part}{sector}{later}"


# ------------------------------------------------------------------------------------------------- global


def _draw_global(axes, panel, labels):
    """Threads in the row above, sectors in the row below."""
    places = _draw_threads(axes, labels)
    item = panel.array.itemsize if panel.array is not None else int(panel.first["size"].min())
    cells = _draw_memory(axes, panel, item)
    ends, colors = [], []
    for row in panel.first:
        for cell in range(row["offset"] // item, (row["offset"] + row["size"] - 1) // item + 1):
            ends.append([(places[row["thread"]], 0.70), (cells[cell], 0.34)])
            colors.append(_color(row["thread"]))
    axes.add_collection(LineCollection(ends, colors=colors, linewidths=0.9, alpha=0.85))


def _draw_threads(axes, labels) -> dict[int, float]:
    """A box for each thread, with gaps between warps. Returns {thread: x of its middle}."""
    warps = [(block, thread // touches.WARP) for block, thread in labels.values()]
    jumps = np.cumsum([0] + [a != b for a, b in zip(warps, warps[1:])])  # (threads,) gaps to the left
    width = min(0.045, (1 - GAP * jumps[-1]) / len(labels))
    left = (1 - width * len(labels) - GAP * jumps[-1]) / 2
    starts = left + width * np.arange(len(labels)) + GAP * jumps
    for i, (number, (_, thread)) in enumerate(labels.items()):
        _box(axes, starts[i], 0.70, width, 0.16, _color(number), str(thread) if width > 0.02 or not i % 4 else "")
    for jump in np.unique(jumps):
        mine = np.flatnonzero(jumps == jump)
        words = f"block {warps[mine[0]][0]}, warp {warps[mine[0]][1]}"
        axes.text(starts[mine].mean() + width / 2, 0.89, words, ha="center", va="bottom", fontsize=LETTERS, color=INK)
    axes.text(-0.06, 0.78, "threads", va="center", fontsize=LETTERS, color=INK)
    return dict(zip(labels, starts + width / 2))


def _draw_memory(axes, panel, item) -> dict[int, float]:
    """The touched sectors, with a cell for each element of `item` bytes. Returns {element: x of its middle}."""
    both = np.concatenate([panel.first, panel.later])
    shown = touches.sectors(both) if touches.sectors(both).size <= touches.MOST_SECTORS else None
    shown = touches.sectors(panel.first) if shown is None else shown  # (sectors,)
    each = SECTOR // item  # cells in a sector
    jumps = np.concatenate([[0], np.cumsum(np.where(np.diff(shown) > 1, 1.0, 0.25))])  # gaps before each sector
    gap = min(GAP, 0.3 / max(1.0, jumps[-1]))
    width = min(0.03, (1 - gap * jumps[-1]) / (each * len(shown)))
    left = (1 - width * each * len(shown) - gap * jumps[-1]) / 2
    owner, faint = _owners(panel.first, item), _owners(panel.later, item)
    places, size = {}, panel.array.size if panel.array is not None else np.inf
    for i, sector in enumerate(shown):
        start = left + width * each * i + gap * jumps[i]
        for k in range(each):
            cell = int(sector) * each + k
            places[cell] = start + (k + 0.5) * width
            _cell(axes, start + k * width, width, cell, owner, faint, 0 <= cell < size)
        edge = min(each, int(size) - int(sector) * each) if size < np.inf else each  # cells inside the array
        if edge > 0:
            box(axes, start, 0.16, edge * width, 0.18, linewidth=1.3, fill=False, edgecolor=INK, zorder=3)
        if not i or width * each > 0.06 or i % (int(0.06 / (width * each)) + 1) == 0:
            axes.text(start, 0.13, _index(panel, int(sector) * each), va="top", fontsize=LETTERS, color=INK)
    axes.text(-0.06, 0.25, panel.name, va="center", fontsize=LETTERS, color=INK)
    return places


def _cell(axes, x, width, cell, owner, faint, inside):
    """An element in the colour of the thread that touches it first; pale in later rounds, hatched outside the array."""
    thread = owner.get(cell, faint.get(cell))
    if not inside and thread is None:
        return
    color = _color(thread) if thread is not None else GREY
    alpha = 0.45 if cell not in owner and thread is not None else 1.0
    _box(axes, x, 0.16, width, 0.18, color, alpha=alpha, hatch=None if inside else "xxxx")


def _owners(rows, item) -> dict[int, int]:
    """{element: the first thread that touches it}."""
    found = {}
    for row in rows:
        for cell in range(row["offset"] // item, (row["offset"] + row["size"] - 1) // item + 1):
            found.setdefault(int(cell), int(row["thread"]))
    return found


def _index(panel, element) -> str:
    """ "8", or "1,0" for row 1, column 0 of a matrix."""
    array = panel.array
    if array is None or array.ndim < 2 or not 0 <= element < array.size:
        return str(element)
    return ",".join(str(int(i)) for i in np.unravel_index(element, array.shape))


# ------------------------------------------------------------------------------------------------- shared


def _draw_shared(axes, panel, labels):
    """The banks as columns, a row for each 128 bytes that the worst request touches, thread numbers in the cells."""
    request = panel.worst
    owner = _owners(request, touches.WORD)
    rows = sorted({word // touches.BANKS for word in owner})
    width, height = 1 / touches.BANKS, min(0.2, 0.80 / len(rows))
    numbers = {number: thread for number, (_, thread) in labels.items()}
    for i, row in enumerate(rows):
        y = 0.84 - (i + 1) * height
        for bank in range(touches.BANKS):
            thread = owner.get(row * touches.BANKS + bank)
            text = str(numbers[thread]) if thread is not None and height > READABLE else ""
            color, edge = (GREY if thread is None else _color(thread)), (EDGE if height > READABLE else "none")
            _box(axes, bank * width, y, width, height, color, text, edge=edge)
        if height > READABLE or i % 8 == 0:
            axes.text(-0.005, y + height / 2, f"{row * 128}", ha="right", va="center", fontsize=LETTERS, color=INK)
    for bank in range(touches.BANKS):
        axes.text((bank + 0.5) * width, 0.86, str(bank), ha="center", va="bottom", fontsize=LETTERS, color=INK)
    axes.text(-0.06, 0.90, "bank", va="center", fontsize=LETTERS, color=INK)
    axes.text(-0.06, 0.77, "byte", va="center", fontsize=LETTERS, color=INK)


# ------------------------------------------------------------------------------------------------- shapes


def _color(thread) -> str:
    return COLORS[int(thread) % len(COLORS)]


def _box(axes, x, y, width, height, color, text="", edge=None, **look):
    """A rectangle with text that suits its colour and its width."""
    edge = edge or (EDGE if width > 0.008 else "none")
    ink = "white" if color in DARK else INK
    box(axes, x, y, width, height, text, ink, linewidth=0.4, facecolor=color, edgecolor=edge, **look)
