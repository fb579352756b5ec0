"""PNGs of figures as stored notebooks keep them: each once, with its alt text, in 256 well-chosen colours.

That takes about a third of the bytes that 16 million colours take.
A figure is white paper, a few colours and the shades between them at the edges of letters and lines: that many colours
show it as it was. Pillow does this; matplotlib itself requires it, and writes its PNGs with it.
"""

from base64 import b64decode, b64encode

PICTURE = "image/png"
ABOUT = ("alt", "width", "height", "small_text")  # metadata of a picture: showing.py
FAR = 20  # of 255: if any pixel would move further in red, green or blue, all colours are kept


def smaller(png: bytes) -> bytes:
    """The same picture in fewer bytes, with all its colours where having only 256 would show. Deterministic."""
    from io import BytesIO

    import numpy as np
    from PIL import Image

    picture = Image.open(BytesIO(png))
    if picture.mode == "P":
        return png  # done already
    if picture.mode == "RGBA" and picture.getextrema()[3][0] < 255:
        return png  # a transparent one is not a figure of ours
    full = picture.convert("RGB")
    few = full.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    moved = np.abs(np.asarray(few.convert("RGB"), np.int16) - np.asarray(full, np.int16))  # (height, width, 3)
    file = BytesIO()
    best = few if moved.max() <= FAR else full
    best.save(file, "PNG", optimize=True, dpi=picture.info.get("dpi", (72, 72)))
    return min(file.getvalue(), png, key=len)


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
