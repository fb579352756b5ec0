"""What the emulator's pictures share: a figure that every notebook can show, ink, and boxes with text in them.

It is imported only when something is drawn, since matplotlib takes half a second.
"""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

INK, PALE_INK = "#222222", "#6E6E6E"
WIDTH = 10  # inches: about a page
LETTERS = 9  # points: the smallest letters


class Picture(Figure):
    """A matplotlib Figure that a notebook shows even if pyplot was never imported; white whatever the style."""

    def __init__(self, *size, **options):
        super().__init__(figsize=size, dpi=100, facecolor="white", **options)

    def _repr_png_(self):
        from io import BytesIO

        file = BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def box(axes, x, y, width, height, text="", ink=INK, fontsize=LETTERS, linewidth=0.5, **look):
    """A filled rectangle with text in its middle."""
    axes.add_patch(Rectangle((x, y), width, height, linewidth=linewidth, **look))
    if text:
        axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=fontsize, color=ink)
