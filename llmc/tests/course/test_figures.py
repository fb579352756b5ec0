"""What the course draws: letters that can be read, alt text, small PNGs, helpers that draw what they are given."""

import doctest
import json
import subprocess
import sys
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb
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


# ----- style ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [axes, grid, style])
def test_examples_in_docstrings(module):
    tried = doctest.testmod(module)
    assert tried.attempted and not tried.failed


def test_importing_draws_nothing():
    code = "import sys, llmc.course.figures; print(*{'matplotlib', 'IPython', 'PIL'} & sys.modules.keys())"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


@pytest.mark.parametrize("color", [*COLORS.values(), figures.GREY])
@pytest.mark.parametrize("ground", ["white", *COLORS.values(), figures.PALE])
def test_letters_can_be_read_on_every_ground(color, ground):
    assert contrast(ink(color, ground), ground) >= READABLE - 0.01
    assert contrast(ink(INK, tint(color)), tint(color)) >= READABLE


def test_ink_leaves_what_can_be_read_as_it_is():
    assert to_rgb(ink(COLORS["blue"])) == to_rgb(COLORS["blue"])
    assert ink(COLORS["orange"]) != COLORS["orange"].lower()


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


# ----- alt text ------------------------------------------------------------------------------------------------------


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


def test_alt_text_of_bars_their_limit_and_panels():
    said = alt.words(draw_bars())
    assert said.startswith("Three ways. 3 panels. Panel 1, bar chart. Bars: NumPy 12; Numba 3.")
    assert "Shows: black line at 2: a copy." in said and "black marks: the limit, 1, 85" in said
    assert "training weights 5; use weights 5; training m 3" in said


def test_alt_text_of_a_diagram_follows_its_arrows():
    assert "Diagram" in (said := alt.words(draw_flow())) and "context → GPT-2 → dart → again → context" in said
    assert "x (T, C), 2 rows of 3; norm, 1 row of 2; x (T, C) → (x − mean) · rstd → norm" in alt.words(draw_grid())


def test_alt_text_names_the_colour_bar_once():
    said = alt.words(draw_curves())
    assert said.count("2 panels") == 1 and "heat map. Shows: 2 rows of 2, from -2 to 1" in said
    assert said.endswith("Colours: error.")


def test_authors_words_come_after_the_title_and_replace_the_rest():
    figure, ax = plt.subplots()
    ax.set(title="x is normalised", xlabel="never said")
    figures.describe(figure, "Three grids,\n   one after the other.")
    assert alt.words(figure) == "x is normalised. Three grids, one after the other."


def test_alt_text_has_an_end():
    figure, ax = plt.subplots()
    ax.set_title("word " * 400)
    assert alt.LONGEST - 10 < len(alt.words(figure)) <= alt.LONGEST and alt.words(figure).endswith("…")


# ----- pictures ------------------------------------------------------------------------------------------------------


def test_a_figure_is_shown_at_144_dpi_as_wide_as_it_was_drawn():
    figure, ax = plt.subplots(figsize=(7, 4))
    ax.set_title('"a" <b> & c')
    data, about = showing.as_output(figure)
    picture = Image.open(BytesIO(b64decode(data["image/png"])))
    assert round(picture.info["dpi"][0]) == DPI == 144
    assert about["image/png"]["width"] == round(picture.width * 96 / 144)
    assert 'alt="Drawing: &quot;&quot;a&quot; &lt;b&gt; &amp; c&quot;."' in data["text/html"]
    assert data["image/png"] in data["text/html"]


def png_of(figure):
    return showing.to_png(figure)[0]


def pixels(png):
    return np.asarray(Image.open(BytesIO(png)).convert("RGB"), np.int16)  # (height, width, 3)


@pytest.mark.parametrize("draw", EVERYTHING)
def test_a_small_png_shows_the_same(draw):
    png = png_of(draw())
    small = smaller(png)
    assert len(small) < 0.6 * len(png) and small == smaller(png) and smaller(small) == small
    before, after = pixels(png), pixels(small)
    assert np.abs(before - after).max() <= FAR and np.abs(before - after).mean() < 1
    assert (after[(before == 255).all(axis=-1)] == 255).all(), "white paper stays white"
    assert round(Image.open(BytesIO(small)).info["dpi"][0]) == 144


def test_a_picture_of_too_many_colours_keeps_them():
    figure, ax = plt.subplots()
    ax.imshow(np.random.default_rng(0).random((60, 80, 3)))
    png = png_of(figure)
    assert np.array_equal(pixels(smaller(png)), pixels(png)) and len(smaller(png)) <= len(png)


def test_what_is_transparent_stays_so():
    file = BytesIO()
    Image.new("RGBA", (20, 20), (0, 0, 0, 128)).save(file, "PNG")
    assert smaller(file.getvalue()) == file.getvalue()


def test_a_notebook_stores_the_png_with_its_alt_text_and_not_the_html(tmp_path, monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)
    text = """from types import SimpleNamespace as Made
import matplotlib.pyplot as plt
from llmc.course.figures import use_style
from llmc.course.figures.live import LivePlot
use_style()
plt.plot([3, 1], label="loss")
plt.title("It falls")
plt.text(0, 2, "tiny", size=7)
plt.show()
history = {"train": [(1, 5.0), (2, 4.0)], "val": [(0, 5.0), (2, 4.5)]}
settings = Made(steps=2)
run = Made(settings=settings, baselines={"uniform": 5.0}, bytes_per_token=None)
live = LivePlot()
live(Made(step=2, loss=4.0, last=True, history=history, run=run, tokens_per_second=9, seconds_left=0))
live.close()"""
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": text, "outputs": [], "execution_count": None}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert notebooks.main(["run", str(path)]) == 0
    outputs = json.loads(path.read_text())["cells"][0]["outputs"]
    first, last = [output for output in outputs if "image/png" in output["data"]]
    about = first["metadata"]["image/png"]
    assert about["alt"] == 'Line plot: "It falls". Lines: loss, from 3 to 1.' and about["small_text"] == [
        "'tiny' (7 pt)"
    ]
    assert set(about) == {"alt", "width", "small_text"} and "text/html" not in first["data"]
    assert last["metadata"]["image/png"]["alt"].startswith('Line plot: "Validation loss at 4.50')
    assert "text/html" not in last["data"]
    assert Image.open(BytesIO(b64decode("".join(first["data"]["image/png"])))).mode == "P"


# ----- helpers -------------------------------------------------------------------------------------------------------


def test_numbers_as_short_as_a_cell_needs_them():
    short = {3.0: "3", -0.333: "−0.33", 12.34: "12.3", 1234.5: "1234", 1e-4: "≈ 0", 0.0: "0", -1.0: "−1", 0.005: "0.01"}
    assert {value: figures.number_text(value) for value in short} == short
    assert [figures.number_text(v) for v in (np.inf, -np.inf, np.nan, np.int64(7))] == ["∞", "−∞", "", "7"]


def test_a_grid_is_where_it_says_and_coloured_by_sign():
    _, ax = figures.blank_axes((0, 9), (0, 5))
    place = figures.number_grid(ax, [[-2.0, 0.0, 2.0], [1.0, -np.inf, np.nan]], (1, 4), "x", wide=2, frame=[(1, 2)])
    assert (place.left, place.right, place.top, place.bottom, place.middle) == (1, 7, 4, 2, (4, 3))
    assert place.row(1) == figures.Place(1, 2, 6, 1, columns=3) and place.cell(0, 2) == figures.Place(5, 3, 2, 1)
    assert place.row(1).cell(0, 1) == place.cell(1, 1)
    *cells, frame = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    (r0, _, b0, _), zero, (r2, _, b2, _), half, hidden, absent = [cell.get_facecolor() for cell in cells]
    assert b0 > r0 and r2 > b2 and zero[:3] == absent[:3] == (1, 1, 1) and hidden[0] == hidden[1] == hidden[2] < 1
    assert half[2] > b2, "half of the limit is paler"
    assert frame.get_xy() == (5, 2) and not frame.get_fill()
    assert {"−2", "0", "2", "1", "−∞", "x"} == {text.get_text() for text in ax.texts}


def test_a_grid_without_numbers_and_with_colours_of_its_own():
    _, ax = figures.blank_axes((0, 9), (0, 5))
    figures.number_grid(ax, np.zeros((2, 2)), (0, 2), text="", colors=[["#000000", "white"], ["white", "white"]])
    assert not ax.texts and [p.get_facecolor()[0] < 1 for p in ax.patches] == [True, False, False, False]
    figures.number_grid(ax, [5, 6], (4, 2), text="id {:.0f}".format, colors="#0072B2")
    assert [text.get_text() for text in ax.texts] == ["id 5", "id 6"]


def test_an_arrow_goes_from_edge_to_edge():
    place = figures.Place(0, 0, 4, 2)
    assert place.edge((10, 1)) == (4, 1) and place.edge((2, -5)) == (2, 0) and place.edge((8, 4)) == (4, 2)
    _, ax = figures.blank_axes((0, 12), (0, 3))
    figures.arrow(ax, place, figures.Place(8, 0, 2, 2), "softmax")
    line, text = ax.texts
    assert (line.xyann, line.xy) == ((4, 1), (8, 1)) and text.xy == (6, 1)


def test_bars_are_in_order_with_their_numbers_and_their_limits():
    _, ax = plt.subplots()
    figures.bars(ax, {"NumPy": 12.0, "Numba": 3.25}, unit="ms", limit=2.0, limit_label="a copy")
    assert [bar.get_width() for bar in ax.patches] == [12, 3.25] and ax.yaxis_inverted()
    assert [text.get_text() for text in ax.texts] == ["12 ms", "3.25 ms", "a copy"]
    assert ax.lines[0].get_xdata() == [2, 2] and ax.get_xlim()[1] > 14
    _, ax = plt.subplots()
    figures.bars(ax, {"a": 1.0, "b": 2.0}, limit=np.array([0.5, 3.0]), text="{:.1f} s")
    assert [list(line.get_xdata()) for line in ax.lines] == [[0.5, 0.5], [3, 3]]
    assert [text.xy for text in ax.texts] == [(1, 0), (3, 1)], "the number follows bar and mark"


def test_stacked_bars_begin_where_the_last_part_ended():
    _, ax = plt.subplots()
    figures.stacked_bars(ax, {"training": {"weights": 5, "m": 3, "rest": 0.1}, "use": {"weights": 5}}, text="{:.0f} GB")
    bars = [(bar.get_x(), bar.get_width()) for group in ax.containers for bar in group.patches]
    assert np.allclose(bars, [(0, 5), (0, 5), (5, 3), (5, 0), (8, 0.1), (5, 0)])
    assert [text.get_text() for text in ax.texts] == ["5 GB", "5 GB", "3 GB"], "0.1 is too narrow for a text"


def test_curves_differ_in_more_than_colour():
    _, ax = plt.subplots()
    seeds = np.array([[3, 2, 1], [5, 4, 3], [4, 3, 2]])
    figures.curves(ax, {f"run {k}": seeds for k in range(len(figures.LOOKS))}, x=[1, 2, 4])
    bold = [line for line in ax.lines if not line.get_label().startswith("_")]
    assert len(ax.lines) == 4 * len(bold) and all(np.array_equal(line.get_ydata(), [4, 3, 2]) for line in bold)
    assert len({str(line._unscaled_dash_pattern) for line in bold}) == len(bold)


def test_plain_ticks_are_written_as_they_are():
    _, ax = plt.subplots()
    ax.set_xscale("log")
    figures.plain_ticks(ax.xaxis, [1, 32, 1024])
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "32", "1,024"]
    assert not len(ax.xaxis.get_minorticklocs())


def test_a_roof_is_the_lower_of_two_limits():
    figure = draw_roof()
    x, y = figure.axes[0].lines[0].get_data()
    assert np.allclose(y, np.minimum(85, 60 * x)) and len(figure.axes[0].lines) == 2
    _, ax = plt.subplots()
    roofline.roof(ax, 0.5, {"copy": 40}, (0.1, 100), unit="TFLOP/s")
    x, y = ax.lines[0].get_data()
    assert np.allclose(y, np.minimum(0.5, 0.04 * x)) and "copy: 40 GB/s" in [text.get_text() for text in ax.texts]


# ----- sources of kernels --------------------------------------------------------------------------------------------

BEFORE = """
__global__ void f(float* x)
{
    x[0] = 1;
    x[1] = 2;
}
"""


def shown(monkeypatch, *given, **options):
    """What show_cuda puts on the page."""
    pages = []
    monkeypatch.setattr("IPython.display.display", lambda page: pages.append(page.data))
    source.show_cuda(*given, **options)
    return pages[0].split("\n")


def test_a_kernel_is_a_block_that_jupyterlab_highlights(monkeypatch):
    page = shown(monkeypatch, BEFORE, "version 1")
    assert page[:3] == ["**version 1**", "", "```c++"] and page[-1] == "```"  # "cuda" and "cpp" it does not know
    assert page[3:-1] == BEFORE.strip().split("\n")
    assert shown(monkeypatch, BEFORE, lines=(3, 4))[1:-1] == ["    x[0] = 1;", "    x[1] = 2;"]


def test_new_lines_of_a_kernel_are_marked(monkeypatch):
    after = BEFORE.replace("x[1] = 2;", "if (x)\n    {\n        x[1] = 3;\n    }")
    lines = shown(monkeypatch, after, since=BEFORE)[1:-1]
    assert [line.strip("/ ").split("//")[0].strip() for line in lines if line.endswith("// new")] == [
        "if (x)",
        "x[1] = 3;",
    ]
    assert [line.removesuffix("// new").rstrip() for line in lines] == after.strip().split("\n")
    macro = "#define F \\\n    3"
    assert shown(monkeypatch, macro, since="")[1] == "#define F \\", "nothing may follow the backslash"
