"""Figures as stored notebooks keep them: small PNGs with their alt text, each stored once."""

from base64 import b64decode, b64encode

from llmc.course.figures.png import smaller

PICTURE = "image/png"
ABOUT = ("alt", "width", "small_text")  # metadata of a picture: llmc/course/figures/showing.py


def kept_metadata(metadata) -> dict:
    """The part of an output's metadata that describes its picture: {"image/png": {"alt": …, "width": …}}, or {}."""
    about = metadata.get(PICTURE, {})
    kept = {key: about[key] for key in ABOUT if key in about}
    return {PICTURE: kept} if kept else {}


def make_small(outputs):
    """Keep each figure as a small PNG; the HTML version, for JupyterLab, would store it a second time."""
    for output in outputs:
        data = output.get("data", {})
        if PICTURE in data:
            data.pop("text/html", None)
            data[PICTURE] = b64encode(smaller(b64decode(data[PICTURE]))).decode("ascii")
