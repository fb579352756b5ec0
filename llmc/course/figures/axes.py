"""Paper to draw on: blank axes for a diagram, panels side by side, and the places of what was drawn."""

from dataclasses import dataclass

WIDEST = 10  # inches, about the width of a page; a wider figure is shrunk to fit, letters and all


@dataclass(frozen=True)
class Place:
    """A rectangle on the axes, for arrows and texts to attach to.

    name: its label. rows, columns: how many cells of one size it is divided into.
    """

    left: float
    bottom: float
    width: float
    height: float
    name: str = ""
    rows: int = 1
    columns: int = 1

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def top(self) -> float:
        return self.bottom + self.height

    @property
    def middle(self) -> tuple[float, float]:
        return self.left + self.width / 2, self.bottom + self.height / 2

    def row(self, i) -> "Place":
        """Row i of its cells, from the top."""
        height = self.height / self.rows
        return Place(self.left, self.top - (i + 1) * height, self.width, height, columns=self.columns)

    def cell(self, i, j) -> "Place":
        """The cell in row i and column j."""
        row, width = self.row(i), self.width / self.columns
        return Place(self.left + j * width, row.bottom, width, row.height)

    def edge(self, towards) -> tuple[float, float]:
        """Where the line from the middle to the point `towards` leaves the rectangle.

        >>> Place(0, 0, 4, 2).edge((10, 1))
        (4.0, 1.0)
        """
        x, y = self.middle
        dx, dy = towards[0] - x, towards[1] - y
        reach = [half / abs(d) for half, d in ((self.width / 2, dx), (self.height / 2, dy)) if d]
        share = min(reach, default=0)
        return x + share * dx, y + share * dy


def blank_axes(xlim, ylim, title="", *, width=WIDEST):
    """(figure, axes) for a diagram: no ticks, no frame, one unit as long across as up; `width` inches."""
    import matplotlib.pyplot as plt

    height = width * abs(ylim[1] - ylim[0]) / abs(xlim[1] - xlim[0])
    figure = plt.figure(figsize=(width, height))
    ax = figure.add_axes((0, 0, 1, 1), xlim=xlim, ylim=ylim)
    ax.axis("off")
    ax.set_title(title)
    return figure, ax


def panels(columns, rows=1, title="", *, width=WIDEST, height=3.6, **options):
    """(figure, array of axes) for plots side by side, under one title; (rows, columns) of them where there are rows.

    height: inches of one row. options: as for plt.subplots, for example sharey=True or width_ratios=(2, 1).
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=(width, height * rows), layout="constrained", **options)
    if title:
        figure.suptitle(title, x=0.01, ha="left")
    return figure, axes
