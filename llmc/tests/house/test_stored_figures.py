"""Figures in stored notebooks: each has alt text, 144 dpi, no small letters, and is no wider than a page."""

from base64 import b64decode
from pathlib import Path
from struct import unpack

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[3]
LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
WIDEST = 1010  # pixels of a page at 96 an inch: 10 inches and the margin


def figures(name):
    """Yield (cell id, metadata, PNG) of every figure that the lesson stores."""
    for cell in nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4).cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                yield cell.id, output.metadata.get("image/png", {}), b64decode(output.data["image/png"])


def dpi(png):
    """Dots per inch, from the chunk pHYs; 0 where it says nothing."""
    at = png.find(b"pHYs", 0, 4096)
    across, _, unit = unpack(">IIB", png[at + 4 : at + 13]) if at > 0 else (0, 0, 0)
    return round(across * 0.0254) if unit == 1 else 0


@pytest.mark.parametrize("name", LESSONS)
def test_figures_can_be_heard_and_read(name):
    stored = list(figures(name))
    assert stored, "a lesson has figures"
    for cell, about, png in stored:
        assert len(about.get("alt", "")) > 30, f"{cell}: no alt text; run the notebook, or `describe` the figure"
        assert not about["alt"].startswith(("Line plot. ", "Bar chart. ", "Diagram. ")), f"{cell}: a figure has a title"
        assert not about.get("small_text"), f"{cell}: letters under 9 points: {', '.join(about['small_text'])}"
        assert about["height"], f"{cell}: a picture that comes late would move what a link has led to"
        assert about["width"] <= WIDEST, f"{cell}: {about['width'] / 96:.1f} inches wide; 10 are a page"
        (pixels,) = unpack(">I", png[16:20])
        assert dpi(png) >= 144 and pixels >= 1.5 * about["width"] - 1, f"{cell}: drawn at {dpi(png)} dpi, not 144"
