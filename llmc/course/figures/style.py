"""One look for every figure of the course: colours, sizes, white paper.

Colours are Okabe and Ito's palette, which people with any form of colour blindness can tell apart. The background is
opaque white, so that a stored PNG is readable in JupyterLab's dark theme and on a code-hosting page alike.
"""

COLORS = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "vermillion": "#D55E00",
    "sky": "#56B4E9",
    "purple": "#CC79A7",
    "black": "#000000",
    "yellow": "#F0E442",
}
BLUE, ORANGE, GREEN, RED = (COLORS[name] for name in ("blue", "orange", "green", "vermillion"))
SKY, PURPLE, YELLOW = COLORS["sky"], COLORS["purple"], COLORS["yellow"]
GREY, PALE, INK = "#6E6E6E", "#EEEEEE", "#222222"  # for the background, for empty cells, for letters

DPI = 144  # dots per inch: sharp on a page of half that many
SMALLEST = 9  # points: the smallest letters of a figure
READABLE = 4.5  # contrast between letters and their ground, as WCAG 2 asks for small text

SETTINGS = {
    "figure.figsize": (7.5, 4.0),
    "figure.dpi": DPI,
    "figure.facecolor": "white",
    "figure.titlesize": 12,
    "figure.titleweight": "bold",
    "savefig.facecolor": "white",
    "savefig.dpi": DPI,
    "axes.facecolor": "white",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10.5,
    "grid.color": "#DDDDDD",
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: no "font not found" warning anywhere
    "font.size": 10.5,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 2.0,
    "image.cmap": "cividis",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#444444",
    "xtick.color": INK,
    "ytick.color": INK,
}


def ink(color, ground="white"):
    """That colour for letters on that ground, darker where it is too pale to read; black or white if nothing else is.

    >>> ink("#E69F00"), ink("#0072B2"), ink("#0072B2", ground="#0072B2")
    ('#9c6c00', '#0072b2', '#ffffff')
    """
    from matplotlib.colors import to_hex, to_rgb

    for share in range(100, 20, -4):
        darker = to_hex([part * share / 100 for part in to_rgb(color)])
        if contrast(darker, ground) >= READABLE:
            return darker
    return to_hex(max(("black", "white"), key=lambda extreme: contrast(extreme, ground)))


def contrast(color, ground) -> float:
    """1 (the same) to 21 (black on white), as WCAG 2 defines it."""
    light, dark = sorted((_luminance(color), _luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(color) -> float:
    """0 (black) to 1 (white)."""
    from matplotlib.colors import to_rgb

    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def diverging():
    """The course's colour map for numbers with a sign: blue is negative, white 0, orange positive."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("llmc", [BLUE, "white", ORANGE], N=257)  # odd: 0 is white


def tint(color, strength=0.3):
    """That colour, mixed with white: the ground of something with text on it. strength 0 is white, 1 the colour."""
    from matplotlib.colors import to_hex, to_rgb

    return to_hex([1 - strength * (1 - part) for part in to_rgb(color)])
