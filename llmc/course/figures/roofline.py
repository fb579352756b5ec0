"""A roofline of kernels: how many operations a second each version reaches, under what memory and arithmetic allow.

Draws the rows of `llmc bench --kernels --json`: measured there, or stored in notebooks/reference/h200_kernels.json.
"""

import json
from pathlib import Path

import numpy as np

from llmc.course.figures.style import COLORS, INK
from llmc.errors import UserError
from llmc.terminal import llmc_command

ROUND = ("blue", "orange", "green", "vermillion", "purple", "sky", "black", "yellow")
MARKERS = "osD^vPX*"
UNITS = {"GFLOP/s": 1.0, "TFLOP/s": 1e-3}  # of a GB/s and one operation for a byte
ROTATION = 45  # of a slope on two logarithmic axes, before they are stretched
FEW = 6  # functions: with more there is no room for the names of their versions


def stored(path, names=None) -> list[dict]:
    """The rows of that file; with names ("gelu_forward", ...) only those of these functions.

    Raises UserError when the file is not there.
    """
    path = Path(path)
    if not path.is_file():
        make = llmc_command("bench", "--kernels", "--json")
        raise UserError(f"{path} is not there; make it on a GPU with `{make}`.")
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [row for row in rows if names is None or _function(row) in names]


def roof(ax, peak, bandwidths, xlim, *, unit="GFLOP/s", peak_label="matrix product"):
    """Draw the limit that arithmetic and memory set, min(peak, intensity · bandwidth), and label the axes for points.

    peak: in `unit`, "GFLOP/s" or "TFLOP/s". bandwidths: {"memory": GB/s, …}, the largest drawn solid. xlim: operations
    for a byte, from and to.
    """
    x = np.geomspace(*xlim, 200)  # (200,)
    slopes = {name: speed * UNITS[unit] for name, speed in bandwidths.items()}
    names = sorted(bandwidths, key=bandwidths.get, reverse=True)
    for name, dash in zip(names, ("-", "--", ":")):
        ax.plot(x, np.minimum(peak, x * slopes[name]), color="black", lw=2.2, ls=dash, zorder=1)
    ax.set(xscale="log", yscale="log", xlim=xlim, xlabel="arithmetic intensity (operations for a byte)", ylabel=unit)
    written = dict(textcoords="offset points", size=9.5)
    ax.annotate(f"{peak_label}: {peak:,.0f} {unit}", (xlim[1], peak), (-4, 5), ha="right", **written)
    for name in names:
        at = xlim[0] ** 0.7 * (peak / slopes[name]) ** 0.3  # three tenths up the slope
        along = dict(rotation=ROTATION, rotation_mode="anchor", transform_rotates_text=True, va="bottom")
        ax.annotate(f"{name}: {bandwidths[name]:,.0f} GB/s", (at, at * slopes[name]), (-3, 3), **along, **written)


def draw(rows, ax=None):
    """The axes with the roof of the rows' GPU and a point for each row; the versions of a function are connected.

    x: operations for each byte that must move. y: TFLOP/s. The distance from the roof is what is left to gain.
    """
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(9.5, 5.4), layout="constrained")
    peak, bandwidth = rows[0]["sgemm_tflop_s"], rows[0]["copy_gb_s"]  # TFLOP/s, GB/s
    least, most = min(map(_intensity, rows)) / 2, max(*map(_intensity, rows), 4000 * peak / bandwidth) * 2
    roof(ax, peak, {"copy": bandwidth}, (least, most), unit="TFLOP/s", peak_label="float32 product")
    groups = {}
    for row in rows:
        groups.setdefault(_function(row), []).append(row)
    labels = len(groups) <= FEW
    for k, (name, versions) in enumerate(groups.items()):
        _points(
            ax, name, versions, COLORS[ROUND[k % len(ROUND)]], MARKERS[(k + k // len(ROUND)) % len(MARKERS)], labels
        )
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
    ax.set_title(f"Kernels under the roof: {rows[0]['device']}")
    return ax


def _function(row) -> str:
    """ "gelu_forward" of "gelu_forward_v2"."""
    return row["kernel"].rsplit("_", 1)[0]


def _intensity(row) -> float:
    """Operations for a byte."""
    return row["flops"] / row["bytes"]


def _points(ax, name, versions, color, marker, labels):
    """One function: a line of points, and the names of its versions, alternately to the right and to the left of it."""
    x, y = [_intensity(row) for row in versions], [row["tflop_s"] for row in versions]  # TFLOP/s
    ax.plot(x, y, color=color, lw=1, alpha=0.5, zorder=2)
    ax.scatter(x, y, s=45, color=color, marker=marker, edgecolor="white", linewidth=0.6, label=name, zorder=3)
    for k, row in enumerate(sorted(versions, key=lambda row: -row["tflop_s"]) if labels else []):
        label, place = row["kernel"].rsplit("_", 1)[1], (_intensity(row), row["tflop_s"])
        offset, side = ((7, -3), "left") if k % 2 == 0 else ((-7, -3), "right")
        ax.annotate(label, place, offset, textcoords="offset points", ha=side, size=9, color=INK)
