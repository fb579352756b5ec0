"""Lesson 16: the times and the memory of attention: read, or measured on this GPU, then told and drawn."""

import json
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt

from llmc import cuda
from llmc.course.figures import BLUE, GREEN, GREY, ORANGE, RED, SKY, bars, curves, level, panels, plain_ticks
from llmc.course.lessons.reductions.ladders import TABLE

STORED = Path("reference/h200_attention.json")  # in the lessons' folder: what measured.py found
SHOWN = {  # of llmc's versions and PyTorch's, those that are drawn: (what they are called, forward, backward)
    "v2: table in memory": ("llmc v2", None),
    "v3 (backward v1): a warp a row": ("llmc v3", "llmc v1"),
    "v5 (backward v3): tiles": ("llmc v5", "llmc v3"),
    "v6 (backward v4): tensor cores, 3 products": ("llmc v6", "llmc v4"),
    "torch": ("torch", "torch"),
    "torch unfused": ("torch unfused", "torch unfused"),
}


LOOK = dict(zip(SHOWN, zip((RED, GREY, BLUE, GREEN, ORANGE, SKY), ("--", ":", "-", "-.", (0, (4, 2)), (0, (1, 1))))))


class Limits(NamedTuple):
    """GB/s of a large copy, TFLOP/s of a large product in float32, and where."""

    gb_s: float
    tflop_s: float
    place: str


class Results(NamedTuple):
    """Rows as measured.py makes them, the limits of that GPU, and how to say where they come from."""

    rows: list
    limits: Limits
    note: str

    def series(self, what, by, value="tflop_s", tf32=False) -> dict:
        """{T: value} of one way, forward or backward."""
        chosen = (r for r in self.rows if (r["what"], r["by"], r["tf32"]) == (what, by, tf32))
        return {row["T"]: row[value] for row in chosen}


def limits(path=TABLE) -> Limits:
    """Of the GPU whose times are stored: what a copy and the library's product of matrices reach there."""
    row = json.loads(Path(path).read_text(encoding="utf-8"))[-1]
    return Limits(row["copy_gb_s"], row["sgemm_tflop_s"], row["device"])


def rows(path=STORED) -> Results:
    """Measured here if there is a GPU, else stored."""
    from llmc import cuda

    return _measured() if cuda.device() == "gpu" else stored(path)


def stored(path=STORED, bounds=None) -> Results:
    """What the authors measured."""
    table = json.loads(Path(path).read_text(encoding="utf-8"))
    return Results(table["rows"], bounds or limits(), f"reference: {table['device']}, B · T = 8192")


def _measured() -> Results:
    from llmc.bench.kernels import times
    from llmc.course.lessons.attention_kernels import measured

    try:
        import torch
    except ImportError:
        torch = None
    found = measured.measure(lengths=(256, 1024, 4096), decoded=((1, 1024), (8, 1024)), torch=torch)
    with times.by_library():
        bounds = times.limits()
    here = Limits(bounds["copy_gb_s"], bounds["sgemm_tflop_s"], cuda.name_of_gpu())
    return Results(found, here, f"measured here: {here.place}, B · T = 8192")


# --------------------------------------------------------------------------------------------------- in words


def table(results, what) -> str:
    """TFLOP/s of every way, a line each, a column for each T."""
    ways = dict.fromkeys((r["by"], r["tf32"]) for r in results.rows if r["what"] == what)
    lengths = sorted({r["T"] for r in results.rows if r["what"] == what})
    lines = [f"{what}, TFLOP/s at T =" + "".join(f"{T:>8,}" for T in lengths)]
    for by, tf32 in ways:
        series = results.series(what, by, tf32=tf32)
        name = f"{by}{', TF32' * tf32}"
        lines.append(
            f"  {name:<{len(lines[0]) - 8 * len(lengths) - 2}}" + "".join(f"{series[T]:8.1f}" for T in lengths)
        )
    return "\n".join(lines) + "\n"


def sentences(results) -> list[str]:
    """What the table shows, with its own figures."""
    bound = results.limits.tflop_s
    found = [f"The limit is {bound:.0f} TFLOP/s, the library's large product in float32 ({results.note})."]
    for what, slow, fast, exact, rounded in (("Forward", 2, 5, 6, 7), ("Backward", 1, 3, 4, 5)):
        series = {
            v: results.series(what.lower(), f"llmc v{v}", tf32=v == rounded) for v in (slow, fast, exact, rounded)
        }
        ours, first, last = series[fast], min(series[fast]), max(series[fast])
        shares = [f"{ours[T] / bound:.0%} of it at T = {T:,}" for T in (first, last)]
        found.append(
            f"{what}, v{fast} reaches {' and '.join(shares)}, {ours[last] / series[slow][last]:.1f} times v{slow}."
        )
        for version, how in ((exact, "three products on tensor cores"), (rounded, "one product on tensor cores")):
            if series[version]:
                found.append(f"{what}, v{version}, {how}, reaches {series[version][last] / bound:.0%} at T = {last:,}.")
        theirs = results.series(what.lower(), "torch")
        if theirs:
            said = (f"v{v} is {_range(series[v], theirs)}" for v in (fast, exact, rounded) if series[v])
            found.append(f"{what}, next to PyTorch's fused kernel with TF32 off: {'; '.join(said)} as fast.")
            same = _range(results.series(what.lower(), "torch", tf32=True), theirs)
            found.append(f"{what}, PyTorch's fused kernel with TF32 on is {same} as fast as with TF32 off.")
    return found


def _range(ours, theirs) -> str:
    """ "1.21 to 1.30 times"."""
    times = [ours[T] / theirs[T] for T in ours]
    return f"{min(times):.2f} to {max(times):.2f} times"


# ----------------------------------------------------------------------------------------------------- drawn


def draw_rates(results):
    """TFLOP/s against T, forward and backward; the title of each says how fast tiles are next to torch."""

    fig, axes = panels(2, height=4.6, sharey=True)
    for ax, what, column in zip(axes, ("forward", "backward"), (0, 1)):
        series = {name: results.series(what, by[column]) for name, by in SHOWN.items() if by[column]}
        series = {name: found for name, found in series.items() if found}
        lengths = sorted(next(iter(series.values())))
        looks = [LOOK[name] for name in series]
        curves(ax, {name: [found[T] for T in lengths] for name, found in series.items()}, x=lengths, looks=looks)
        level(ax, results.limits.tflop_s, "cuBLAS, float32", side="left")
        most = max(results.limits.tflop_s, *(max(found.values()) for found in series.values()))
        ax.set(xscale="log", xlabel="T", ylim=(0, 1.12 * most))
        plain_ticks(ax.xaxis, lengths)
        ours, theirs = series["v5 (backward v3): tiles"], series.get("torch")
        share = ours[lengths[-1]] / results.limits.tflop_s
        ratio = f", {ours[lengths[-1]] / theirs[lengths[-1]]:.1f}× torch" if theirs else ""
        ax.set_title(f"{what.capitalize()}: tiles reach {share:.0%} of cuBLAS{ratio}")
    axes[0].set_ylabel(f"TFLOP/s ({results.note})")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, ncols=2, loc="outside lower center")
    return fig


def draw_memory(results):
    """Bytes that a forward call needs besides arguments and result."""

    ways = {
        "llmc v2: the table": "llmc v2",
        "llmc v5: stats": "llmc v5",
        "torch": "torch",
        "torch unfused": "torch unfused",
    }
    series = {name: results.series("forward", by, "extra") for name, by in ways.items()}
    series = {name: found for name, found in series.items() if found}
    lengths = sorted(next(iter(series.values())))
    fig, ax = plt.subplots(figsize=(9, 4.2), layout="constrained")
    looks = [LOOK["v2: table in memory"], LOOK["v5 (backward v3): tiles"], LOOK["torch"], LOOK["torch unfused"]]
    curves(ax, {n: [max(f[T], 1) / 1e6 for T in lengths] for n, f in series.items()}, x=lengths, looks=looks)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="T (B · T = 8192)",
        ylabel=f"MB beyond arguments and result\n({results.note})",
    )
    plain_ticks(ax.xaxis, lengths)
    plain_ticks(ax.yaxis, [0.1, 1, 10, 100, 1000, 10000])
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    table, flat = series["llmc v2: the table"], series["llmc v5: stats"]
    assert len(set(flat.values())) == 1  # B · NH · T is the same for all
    most, T = table[lengths[-1]], lengths[-1]
    ax.set_title(f"At T = {T:,} the table takes {most / 1e9:.1f} GB, stats {flat[T] / 1e6:.1f} MB at every T")
    return fig


def draw_decoding(results):
    """GB/s of the cache that one step of decoding reaches."""

    found = [r for r in results.rows if r["what"] == "decoding"]
    colors = {"llmc v1": GREY, "llmc v2": BLUE, "torch": ORANGE}
    names = {f"B = {r['B']}, {r['T']:,} keys: {r['by']}": r for r in found}
    fig, ax = plt.subplots(figsize=(9, 0.34 * len(names) + 1.2), layout="constrained")
    text = [f"{r['gb_s']:,.0f}" for r in names.values()]
    speeds = {name: r["gb_s"] for name, r in names.items()}
    limit = results.limits.gb_s
    bars(ax, speeds, text=text, colors=[colors[r["by"]] for r in names.values()], limit=limit, limit_label="a copy")
    best = max(r["gb_s"] for r in found if r["by"] == "llmc v2")
    worst = max(r["gb_s"] for r in found if r["by"] == "llmc v1")
    ax.set_xlabel(f"GB/s of the cache ({results.note.split(',')[0]})")
    ax.set_title(f"Split over the keys: up to {best / limit:.0%} of a copy, v1 at most {worst / limit:.0%}")
    return fig
