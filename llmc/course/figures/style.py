"""One look for every plot of the course.

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

SETTINGS = {
    "figure.figsize": (7.0, 4.0),
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": 110,
    "axes.facecolor": "white",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 11,
    "grid.color": "#DDDDDD",
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: no "font not found" warning anywhere
    "font.size": 11,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 2.0,
    "image.cmap": "cividis",
    "text.color": "#222222",
    "axes.labelcolor": "#222222",
    "axes.edgecolor": "#444444",
    "xtick.color": "#222222",
    "ytick.color": "#222222",
}


def use_style():
    """Set matplotlib up for the course: palette, sizes, white background, PNG. Call once, before the first plot."""
    import matplotlib as mpl
    from cycler import cycler

    mpl.rcdefaults()  # a learner's own matplotlibrc must not hide a curve
    mpl.rcParams.update(SETTINGS)
    mpl.rcParams["axes.prop_cycle"] = cycler(color=list(COLORS.values()))
    _png_in_notebooks()


def _png_in_notebooks():
    """PNG, not SVG or retina: stored notebooks stay small and look the same everywhere."""
    try:
        from IPython import get_ipython
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:
        return
    if get_ipython() is not None:
        set_matplotlib_formats("png")
