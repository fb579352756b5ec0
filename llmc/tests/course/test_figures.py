"""What the course draws: letters that can be read, alt text, small PNGs, helpers that draw what they are given."""

import doctest
import json
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle
from PIL import Image

from llmc.course import figures
from llmc.course.exercises import notebooks
from llmc.course.figures import alt, axes, grid, roofline, showing, source, style
from llmc.course.figures.png import FAR, smaller
from llmc.course.figures.style import COLORS, DPI, INK, READABLE, contrast, ink, tint

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def course_style():
    with plt.rc_context():
        figures.use_style()
        yield
    plt.close("all")


def draw_grid():
    figure, ax = figures.blank_axes((-3, 20), (-2, 6), "Rows are normalised")
    x = figures.number_grid(ax, np.arange(6).reshape(2, 3) - 2, (0, 4), "x   (T, C)", frame=[(0, 1)], rows=["a", "b"])
    norm = figures.number_grid(ax, np.array([[-np.inf, 0.5]]), (10, 4), "norm", columns=["c", "d"], color="#E69F00")
    figures.arrow(ax, x, norm, "(x − mean)\n· rstd")
    figures.cell_row(ax, ["It", "·is", "$5"], (0, 0), [2, 3, 2], label="tokens")
    return figure


def draw_flow():
    figure, ax = figures.blank_axes((-2, 20), (-3, 3), "One turn of the loop")
    figures.area(ax, (-1.5, 8), (-1, 1.5), "the model", dashed=True)
    places = figures.flow(ax, [("context", "(T,)"), ("GPT-2", "a\nmodel", COLORS["green"]), ("dart", "")])
    figures.way_back(ax, places[-1], places[0], "again")
    return figure


def draw_bars():
    figure, panels = figures.panels(3, title="Three ways", width=10)
    figures.bars(panels[0], {"NumPy": 12.0, "Numba": 3.0}, unit="ms", limit=2.0, limit_label="a copy")
    figures.bars(panels[1], {"loops": 0.01, "BLAS": 80.0}, text=["slow", "fast"], limit=[1, 85], log=True)
    figures.stacked_bars(panels[2], {"training": {"weights": 5, "m": 3, "rest": 0.1}, "use": {"weights": 5}})
    return figure


def draw_curves():
    figure, panels = figures.panels(2)
    figures.curves(panels[0], {"right": np.linspace(7, 3, 50), "wrong": [np.linspace(7, 5, 50)] * 3})
    figures.level(panels[0], 6.9, "ln V")
    figures.moment(panels[0], 20, "warm")
    panels[0].set(xlabel="training step", ylabel="loss (nats)", title="Both fall", yscale="log")
    panels[0].legend()
    figures.heat_map(panels[1], [[1.0, -2.0], [np.nan, 0.5]], label="error", numbers=True, rows="ab", columns="cd")
    return figure


def draw_roof():
    figure, ax = plt.subplots()
    roofline.roof(ax, 85, {"memory": 12, "cache": 60}, (0.1, 100))
    return figure


EVERYTHING = [draw_grid, draw_flow, draw_bars, draw_curves, draw_roof]


@pytest.mark.parametrize("draw", EVERYTHING)
def test_helpers_draw_no_small_letters_and_say_what_they_draw(draw):
    data, about = showing.as_output(draw())
    about = about["image/png"]
    assert "small_text" not in about
    assert about["width"] <= 96 * (figures.WIDEST + 0.5)
    assert len(about["alt"]) > 60


@pytest.mark.parametrize("module", [axes, grid, style])
def test_examples_in_docstrings(module):
    tried = doctest.testmod(module)
    assert tried.attempted and not tried.failed


@pytest.mark.parametrize("color", [*COLORS.values(), figures.GREY])
@pytest.mark.parametrize("ground", ["white", *COLORS.values(), figures.PALE])
def test_letters_can_be_read_on_every_ground(color, ground):
    assert contrast(ink(color, ground), ground) >= READABLE - 0.01
    assert contrast(ink(INK, tint(color)), tint(color)) >= READABLE


def test_small_letters_are_found_where_they_are_seen():
    figure, ax = plt.subplots()
    ax.text(0, 0, "tiny", size=7)
    ax.text(0, 0, "hidden", size=7).set_visible(False)
    ax.text(0, 0, "  ", size=7)
    ax.legend([ax.plot([0, 1])[0]], ["old"], fontsize=8.5)
    figure.axes[0].set_xlabel("right", fontsize=9)
    figure.add_axes((0, 0, 1, 1), visible=False).text(0, 0, "not there", size=5)
    assert showing.small_text(figure) == ["'old' (8.5 pt)", "'tiny' (7 pt)"]
    assert showing.as_output(figure)[1]["image/png"]["small_text"]


def test_alt_text_of_a_line_plot():
    figure, ax = plt.subplots()
    ax.plot([1, 2, 3], [7.25, np.nan, 3.5], label="training")
    ax.plot([1, 3], [2, 2], label="floor")
    ax.plot([1, 2], [0, 0])  # without a label: nothing to say
    ax.axvline(2, label="half")
    figures.level(ax, 2.5, "ln V")
    ax.set(xscale="log", xlabel="training step", ylabel="loss $L_{val}$ (nats)", title="It falls")
    assert alt.words(figure) == (
        'Line plot: "It falls". x: training step (logarithmic). y: loss L_val (nats). '
        "Lines: training, from 7.25 to 3.5; floor; half. Shows: ln V at 2.5."
    )


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (draw_bars, "Three ways. 3 panels. Panel 1, bar chart. Bars: NumPy 12; Numba 3."),
        (draw_bars, "Shows: black line at 2: a copy."),
        (draw_bars, "black marks: the limit, 1, 85"),
        (draw_bars, "training weights 5; use weights 5; training m 3"),
        (draw_flow, "context → GPT-2 → dart → again → context"),
        (draw_grid, "x (T, C), 2 rows of 3; norm, 1 row of 2; x (T, C) → (x − mean) · rstd → norm"),
        (draw_curves, "heat map. Shows: 2 rows of 2, from -2 to 1"),
    ],
)
def test_alt_text_says_what_is_drawn(draw, says):
    assert says in alt.words(draw())


def test_a_figure_is_shown_at_144_dpi_as_wide_as_it_was_drawn():
    figure, ax = plt.subplots(figsize=(7, 4))
    ax.set_title('"a" <b> & c')
    data, about = showing.as_output(figure)
    picture = Image.open(BytesIO(b64decode(data["image/png"])))
    assert round(picture.info["dpi"][0]) == DPI == 144
    assert about["image/png"]["width"] == round(picture.width * 96 / 144)
    assert about["image/png"]["height"] == round(picture.height * 96 / 144)
    assert 'alt="Drawing: &quot;&quot;a&quot; &lt;b&gt; &amp; c&quot;."' in data["text/html"]
    assert data["image/png"] in data["text/html"]


def pixels(png):
    return np.asarray(Image.open(BytesIO(png)).convert("RGB"), np.int16)  # (height, width, 3)


def test_a_small_png_shows_the_same():
    png = showing.to_png(draw_grid())[0]
    small = smaller(png)
    assert len(small) < 0.6 * len(png) and small == smaller(png) and smaller(small) == small
    before, after = pixels(png), pixels(small)
    assert np.abs(before - after).max() <= FAR and np.abs(before - after).mean() < 1
    assert (after[(before == 255).all(axis=-1)] == 255).all(), "white paper stays white"
    assert round(Image.open(BytesIO(small)).info["dpi"][0]) == 144


def test_a_notebook_stores_the_png_with_its_alt_text_and_not_the_html(tmp_path, monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)
    text = """import matplotlib.pyplot as plt
from llmc.course.figures import use_style
use_style()
plt.plot([3, 1], label="loss")
plt.title("It falls")
plt.show()"""
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": text, "outputs": [], "execution_count": None}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert notebooks.main(["run", str(path)]) == 0
    (output,) = json.loads(path.read_text())["cells"][0]["outputs"]
    about = output["metadata"]["image/png"]
    assert about["alt"] == 'Line plot: "It falls". Lines: loss, from 3 to 1.'
    assert set(about) == {"alt", "width", "height"} and "text/html" not in output["data"]
    assert Image.open(BytesIO(b64decode("".join(output["data"]["image/png"])))).mode == "P"


def test_a_grid_is_where_it_says_and_coloured_by_sign():
    _, ax = figures.blank_axes((0, 9), (0, 5))
    place = figures.number_grid(ax, [[-2.0, 0.0, 2.0], [1.0, -np.inf, np.nan]], (1, 4), "x", wide=2, frame=[(1, 2)])
    assert (place.left, place.right, place.top, place.bottom, place.middle) == (1, 7, 4, 2, (4, 3))
    assert place.row(1).cell(0, 1) == place.cell(1, 1) == figures.Place(3, 2, 2, 1)
    *cells, frame = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    (r0, _, b0, _), zero, (r2, _, b2, _), half, hidden, absent = [cell.get_facecolor() for cell in cells]
    assert b0 > r0 and r2 > b2 and zero[:3] == absent[:3] == (1, 1, 1) and hidden[0] == hidden[1] == hidden[2] < 1
    assert half[2] > b2, "half of the limit is paler"
    assert frame.get_xy() == (5, 2) and not frame.get_fill()
    assert {"−2", "0", "2", "1", "−∞", "x"} == {text.get_text() for text in ax.texts}


BEFORE = """
__global__ void f(float* x)
{
    x[0] = 1;
    x[1] = 2;
}
"""


@pytest.fixture
def shown(monkeypatch):
    """What show_cuda puts on the page for these arguments, as lines."""
    pages = []
    monkeypatch.setattr("IPython.display.display", lambda page: pages.append(page.data))

    def show(*given, **options):
        source.show_cuda(*given, **options)
        return pages.pop().split("\n")

    return show


def test_a_kernel_is_a_block_that_jupyterlab_highlights(shown):
    page = shown(BEFORE, "version 1", lines=(3, 4))
    assert page[:3] == ["**version 1**", "", "```c++"] and page[-1] == "```"  # "cuda" and "cpp" it does not know
    assert page[3:-1] == ["    x[0] = 1;", "    x[1] = 2;"]


def test_new_lines_of_a_kernel_are_marked(shown):
    after = BEFORE.replace("x[1] = 2;", "if (x)\n    {\n        x[1] = 3;\n    }")
    lines = shown(after, since=BEFORE)[1:-1]
    new = [line.split("//")[0].strip() for line in lines if line.endswith("// new")]
    assert new == ["if (x)", "x[1] = 3;"]
    assert [line.removesuffix("// new").rstrip() for line in lines] == after.strip().split("\n")
    assert shown("#define F \\\n    3", since="")[1] == "#define F \\", "nothing may follow the backslash"
