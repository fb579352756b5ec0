"""How a figure reaches the page: a PNG at 144 dpi, with alt text, no wider than it was drawn.

JupyterLab (4.6) and nbconvert's default template drop the alt text that comes with `image/png`; they keep that of an
HTML image. So a figure is shown as both, and JupyterLab draws the HTML. Stored notebooks keep the PNG alone, with the
alt text in the output's metadata (png.py).
"""

from llmc.course.figures.alt import words
from llmc.course.figures.style import COLORS, DPI, SETTINGS, SMALLEST

PIXELS_PER_INCH = 96  # of a page at 100%: a figure of 7 inches is 672 of them wide, whatever its dpi


def use_style():
    """Set matplotlib up for the course: palette, sizes, white paper; in a notebook also alt text for every figure.

    Call once, before the first figure.
    """
    import matplotlib as mpl
    from cycler import cycler

    mpl.rcdefaults()  # a learner's own matplotlibrc must not hide a curve
    mpl.rcParams.update(SETTINGS)
    mpl.rcParams["axes.prop_cycle"] = cycler(color=list(COLORS.values()))
    show_as_images()


def show_as_images():
    """From now on the kernel shows matplotlib Figures with `as_output`; outside of a notebook nothing happens."""
    try:
        from IPython import get_ipython
        from matplotlib.figure import Figure
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:
        return
    shell = get_ipython()
    if getattr(shell, "kernel", None) is None:
        return
    set_matplotlib_formats()  # matplotlib's own PNG would win over ours
    shell.display_formatter.mimebundle_formatter.for_type(Figure, lambda figure, **_: as_output(figure))


def as_output(figure):
    """({mime type: data}, {mime type: metadata}) of a figure, as IPython's display expects them.

    The metadata of the PNG: alt (str), width and height (pixels of the page, so that nothing moves when a picture comes
    late), and, only where there are any, small_text: the texts in letters under 9 points, which a test refuses.
    """
    from base64 import b64encode
    from html import escape

    png, width, height = to_png(figure)
    about = {"alt": words(figure), "width": width, "height": height}
    small = small_text(figure)
    if small:
        about["small_text"] = small
    data = b64encode(png).decode("ascii")
    html = f'<img alt="{escape(about["alt"])}" width="{width}" height="{height}" src="data:image/png;base64,{data}">'
    return {"image/png": data, "text/html": html}, {"image/png": about}


def to_png(figure):
    """(PNG as bytes, its width and height on a page in pixels), cropped to the drawing, with a small margin."""
    from io import BytesIO
    from struct import unpack

    file = BytesIO()
    figure.savefig(file, format="png", dpi=DPI, bbox_inches="tight", facecolor="white")
    png = file.getvalue()
    return png, *(round(pixels * PIXELS_PER_INCH / DPI) for pixels in unpack(">II", png[16:24]))  # of the header IHDR


def small_text(figure):
    """The texts of a drawn figure in letters under 9 points: ["'rstd' (7 pt)", …]."""
    from matplotlib.text import Text

    texts = [text for text in figure.findobj(Text) if text.get_fontsize() < SMALLEST and _is_seen(text)]
    return sorted({f"'{text.get_text()}' ({text.get_fontsize():g} pt)" for text in texts})


def _is_seen(text) -> bool:
    return bool(text.get_text().strip()) and text.get_visible() and (text.axes is None or text.axes.get_visible())
