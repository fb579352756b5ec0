"""Figures as stored notebooks keep them: small PNGs, with what is said of them, and nothing twice."""

from base64 import b64decode, b64encode

from llmc.course.figures.png import smaller

PICTURE = "image/png"
ABOUT = ("alt", "width", "small_text")  # metadata of a picture: llmc/course/figures/showing.py


def kept_metadata(metadata) -> dict:
    """Of an output's metadata what tells about its picture: {"image/png": {"alt": …, "width": …}}, or {}."""
    about = metadata.get(PICTURE, {})
    kept = {key: about[key] for key in ABOUT if key in about}
    return {PICTURE: kept} if kept else {}


def make_small(outputs):
    """Store each figure as a small PNG alone; the HTML, which is for JupyterLab, would hold it a second time."""
    for output in outputs:
        data = output.get("data", {})
        if PICTURE in data:
            data.pop("text/html", None)
            data[PICTURE] = b64encode(smaller(b64decode(data[PICTURE]))).decode("ascii")
