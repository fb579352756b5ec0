"""A table as a picture: one square for each number."""

import numpy as np

from llmc.course.figures.alt import note
from llmc.course.figures.grid import number_text
from llmc.course.figures.style import INK, diverging, ink

PALER = 1.6  # times the limit: dark letters are readable even on the strongest blue


def heat_map(ax, values, *, label="", limit=None, rows=None, columns=None, numbers=False, bar=True):
    """Draw (rows, columns); returns the image. NaN stays white.

    Numbers with a sign go from blue (-limit) over white to orange (limit), all others from dark (0) to yellow (limit);
    limit: by default the largest of them. label: of the colour bar, with units. rows, columns: names of the ticks.
    numbers: write each into its square; squares of numbers with a sign are then paler, so that they can be read.
    """
    values = np.asarray(values, dtype=float)
    signed = np.nanmin(values) < 0
    limit = (np.nanmax(np.abs(values)) if limit is None else limit) * (PALER if signed and numbers else 1)
    look = dict(cmap=diverging(), vmin=-limit) if signed else dict(cmap="cividis", vmin=0)
    image = ax.imshow(values, vmax=limit, aspect="auto", **look)
    ax.grid(visible=False)
    for names, set_ticks in ((rows, ax.set_yticks), (columns, ax.set_xticks)):
        if names is not None:
            set_ticks(range(len(names)), names)
    if numbers:
        for (i, j), value in np.ndenumerate(values):
            shade = ink(INK, image.cmap(image.norm(value))[:3])
            ax.text(j, i, number_text(value), ha="center", va="center", size=9.5, color=shade)
    if bar:
        ax.figure.colorbar(image, ax=ax, label=label, pad=0.02)
    note(ax, f"{values.shape[0]} rows of {values.shape[1]}, from {np.nanmin(values):.3g} to {np.nanmax(values):.3g}")
    return image
