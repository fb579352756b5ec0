"""Lesson 16: the times and the memory of attention on a GPU, every version of llmc's and PyTorch's, told and drawn.

    python -m llmc.course.lessons.attention_kernels.results OUT.json

measures them for T = 256 to 8192; it needs CuPy, and PyTorch for the comparison. B is chosen so that B·T is 8192: the
linear layers around attention would do the same work at every T. Causal, float32 in memory; "tf32" says whether factors
were rounded to TF32. "extra" is what a call needs in addition to its arguments, in bytes, its result not counted.
"""

import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from llmc import cuda
from llmc.bench.kernels import times
from llmc.course.figures import BLUE, GREEN, GREY, ORANGE, RED, SKY, bars, curves, level, panels, plain_ticks
from llmc.course.lessons.reductions.ladders import TABLE
from llmc.kernels import attention, attention_backward, attention_cached

STORED = Path("reference/h200_attention.json")  # in the lessons' folder
TOKENS, NH, HS = 8192, 12, 64
LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
FORWARD, BACKWARD = range(1, 8), range(1, 6)  # versions; the last ones round factors to TF32
DECODED = ((1, 1024), (1, 8192), (8, 1024), (8, 8192), (32, 1024))  # B, positions in the cache
SHOWN = {  # what is drawn: (forward, backward, color, dashes)
    "v2: table in memory": ("llmc v2", None, RED, "--"),
    "v3 (backward v1): a warp a row": ("llmc v3", "llmc v1", GREY, ":"),
    "v5 (backward v3): tiles": ("llmc v5", "llmc v3", BLUE, "-"),
    "v6 (backward v4): tensor cores, 3 products": ("llmc v6", "llmc v4", GREEN, "-."),
    "torch": ("torch", "torch", ORANGE, (0, (4, 2))),
    "torch unfused": ("torch unfused", "torch unfused", SKY, (0, (1, 1))),
}


class Limits(NamedTuple):
    """GB/s of a large copy, TFLOP/s of a large product in float32, and where."""

    gb_s: float
    tflop_s: float
    place: str


class Results(NamedTuple):
    """Rows as `measure` makes them, the limits of that GPU, and how to say where they come from."""

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
    if cuda.device() != "gpu":
        return stored(path)
    found = measure(lengths=(256, 1024, 4096), decoded=((1, 1024), (8, 1024)), torch=_torch())
    with times.by_library():
        bounds = times.limits()
    here = Limits(bounds["copy_gb_s"], bounds["sgemm_tflop_s"], cuda.name_of_gpu())
    return Results(found, here, f"measured here: {here.place}, B · T = 8192")


def stored(path=STORED, bounds=None) -> Results:
    """What the authors measured."""
    table = json.loads(Path(path).read_text(encoding="utf-8"))
    return Results(table["rows"], bounds or limits(), f"reference: {table['device']}, B · T = 8192")


# --------------------------------------------------------------------------------------------------- in words


def table(results, what) -> str:
    """TFLOP/s of every way, a line each, a column for each T."""
    ways = dict.fromkeys((r["by"], r["tf32"]) for r in results.rows if r["what"] == what)
    lengths = sorted({r["T"] for r in results.rows if r["what"] == what})
    head = f"{what}, TFLOP/s at T ="
    lines = [head + "".join(f"{T:>8,}" for T in lengths)]
    for by, tf32 in ways:
        series, name = results.series(what, by, tf32=tf32), f"{by}{', TF32' * tf32}"
        lines.append(f"  {name:<{len(head) - 2}}" + "".join(f"{series[T]:8.1f}" for T in lengths))
    return "\n".join(lines) + "\n"


def sentences(results) -> list[str]:
    """What the table shows, with its own figures."""
    bound = results.limits.tflop_s
    found = [f"The limit is {bound:.0f} TFLOP/s, the library's large product in float32 ({results.note})."]
    for what, slow, fast, exact, rounded in (("Forward", 2, 5, 6, 7), ("Backward", 1, 3, 4, 5)):
        versions = (slow, fast, exact, rounded)
        series = {v: results.series(what.lower(), f"llmc v{v}", tf32=v == rounded) for v in versions}
        ours, first, last = series[fast], min(series[fast]), max(series[fast])
        shares = " and ".join(f"{ours[T] / bound:.0%} of it at T = {T:,}" for T in (first, last))
        found.append(f"{what}, v{fast} reaches {shares}, {ours[last] / series[slow][last]:.1f} times v{slow}.")
        for version, how in ((exact, "three products on tensor cores"), (rounded, "one product on tensor cores")):
            if series[version]:
                found.append(f"{what}, v{version}, {how}, reaches {series[version][last] / bound:.0%} at T = {last:,}.")
        theirs = results.series(what.lower(), "torch")
        if theirs:
            said = "; ".join(f"v{v} is {_range(series[v], theirs)}" for v in versions[1:] if series[v])
            found.append(f"{what}, next to PyTorch's fused kernel with TF32 off: {said} as fast.")
            same = _range(results.series(what.lower(), "torch", tf32=True), theirs)
            found.append(f"{what}, PyTorch's fused kernel with TF32 on is {same} as fast as with TF32 off.")
    return found


def _range(ours, theirs) -> str:
    """ "1.21 to 1.30 times"."""
    ratios = [ours[T] / theirs[T] for T in ours]
    return f"{min(ratios):.2f} to {max(ratios):.2f} times"


# ----------------------------------------------------------------------------------------------------- drawn


def draw_rates(results):
    """TFLOP/s against T, forward and backward; the title of each says how fast tiles are next to torch."""
    fig, axes = panels(2, height=4.6, sharey=True)
    for ax, what, column in zip(axes, ("forward", "backward"), (0, 1)):
        series = {name: results.series(what, by[column]) for name, by in SHOWN.items() if by[column]}
        series = {name: found for name, found in series.items() if found}
        lengths = sorted(next(iter(series.values())))
        lines = {name: [found[T] for T in lengths] for name, found in series.items()}
        curves(ax, lines, x=lengths, looks=[SHOWN[name][2:] for name in series])
        level(ax, results.limits.tflop_s, "cuBLAS, float32", side="left")
        most = max(results.limits.tflop_s, *(max(found.values()) for found in series.values()))
        ax.set(xscale="log", xlabel="T", ylim=(0, 1.12 * most))
        plain_ticks(ax.xaxis, lengths)
        last, theirs = series["v5 (backward v3): tiles"][lengths[-1]], series.get("torch")
        ratio = f", {last / theirs[lengths[-1]]:.1f}× torch" if theirs else ""
        ax.set_title(f"{what.capitalize()}: tiles reach {last / results.limits.tflop_s:.0%} of cuBLAS{ratio}")
    axes[0].set_ylabel(f"TFLOP/s ({results.note})")
    fig.legend(*axes[0].get_legend_handles_labels(), ncols=2, loc="outside lower center")
    return fig


def draw_memory(results):
    """Bytes that a forward call needs besides arguments and result."""
    ways = {"llmc v2: the table": "llmc v2", "llmc v5: stats": "llmc v5", "torch": "torch"}
    ways["torch unfused"] = "torch unfused"
    series = {name: results.series("forward", by, "extra") for name, by in ways.items()}
    series = {name: found for name, found in series.items() if found}
    lengths = sorted(next(iter(series.values())))
    fig, ax = plt.subplots(figsize=(9, 4.2), layout="constrained")
    looks = [look[2:] for look in SHOWN.values() if look[0] in ways.values()]
    curves(ax, {n: [max(f[T], 1) / 1e6 for T in lengths] for n, f in series.items()}, x=lengths, looks=looks)
    what = f"MB beyond arguments and result\n({results.note})"
    ax.set(xscale="log", yscale="log", xlabel="T (B · T = 8192)", ylabel=what)
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
    found, limit = [r for r in results.rows if r["what"] == "decoding"], results.limits.gb_s
    speeds = {f"B = {r['B']}, {r['T']:,} keys: {r['by']}": r["gb_s"] for r in found}
    colors = [{"llmc v1": GREY, "llmc v2": BLUE, "torch": ORANGE}[r["by"]] for r in found]
    fig, ax = plt.subplots(figsize=(9, 0.34 * len(speeds) + 1.2), layout="constrained")
    bars(ax, speeds, text="{:,.0f}", colors=colors, limit=limit, limit_label="a copy")
    best, worst = (max(r["gb_s"] for r in found if r["by"] == f"llmc v{n}") for n in (2, 1))
    ax.set_xlabel(f"GB/s of the cache ({results.note.split(',')[0]})")
    ax.set_title(f"Split over the keys: up to {best / limit:.0%} of a copy, v1 at most {worst / limit:.0%}")
    return fig


# -------------------------------------------------------------------------------------------------- measured


def measure(lengths=LENGTHS, decoded=DECODED, tokens=TOKENS, heads=(NH, HS), clock=times.microseconds, torch=None):
    """All rows as dictionaries. heads: (NH, hs). clock: µs of each of several launches. torch: the module, or None."""
    found = [row for T in lengths for row in _one_length(max(1, tokens // T), T, *heads, clock, torch)]
    return found + [row for B, T in decoded for row in _decoding(B, T, *heads, clock, torch)]


def _one_length(B, T, NH, hs, clock, torch):
    C, normal = NH * hs, _noise(B * T)
    qkv, dout = normal(B, T, 3 * C), normal(B, T, C)
    out, dqkv, stats = cuda.empty((B, T, C)), cuda.empty((B, T, 3 * C)), cuda.empty((B, NH, T))
    operations = 2 * 2 * B * NH * hs * (T * (T + 1) // 2)  # forward: two products of all pairs that are seen
    shape = {"B": B, "T": T, "NH": NH, "hs": hs}
    ways = [("forward", v, operations) for v in FORWARD] + [("backward", v, operations * 5 // 2) for v in BACKWARD]
    attention.attention_forward(out, stats, qkv, NH)  # what the backward pass reads
    for which, version, flops in ways:
        if cuda.device() == "emulator" and version > {"forward": 5, "backward": 3}[which]:
            continue  # for tensor cores
        launch = partial(attention_backward.attention_backward, dqkv, dout, out, stats, qkv, NH, version)
        if which == "forward":
            launch = partial(attention.attention_forward, out, stats, qkv, NH, version)
        us = clock([launch], graph=(which, version) != ("forward", 2))  # which calls the library
        extra = 4 * B * NH * T * (T if which == "forward" and version < 3 else 1)  # probabilities; stats or delta
        rounded = version == (FORWARD if which == "forward" else BACKWARD)[-1]
        row = dict(what=which, by=f"llmc v{version}", tf32=rounded, us=us, extra=extra)
        yield row | shape | {"tflop_s": flops / us / 1e6}
    if torch is not None:
        yield from (row | shape for row in _by_torch(torch, qkv, dout, NH, operations, clock))


def _by_torch(torch, qkv, dout, NH, operations, clock):
    """Rows of scaled_dot_product_attention: its memory-efficient kernel, and the three kernels of its plain way."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    B, T, C = dout.shape
    q, k, v = torch.from_dlpack(qkv).view(B, T, 3, NH, C // NH).permute(2, 0, 3, 1, 4)  # (B, NH, T, hs) each
    q, k, v = (part.detach().requires_grad_() for part in (q, k, v))
    given = torch.from_dlpack(dout).view(B, T, NH, C // NH).transpose(1, 2)  # (B, NH, T, hs)
    attend = partial(torch.nn.functional.scaled_dot_product_attention, q, k, v, is_causal=True)
    fused, plain = ("torch", SDPBackend.EFFICIENT_ATTENTION), ("torch unfused", SDPBackend.MATH)
    for by, backend, tf32 in ((*fused, False), (*fused, True), (*plain, False)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        with sdpa_kernel(backend):
            out, saved = _peak(torch, attend)
            row = dict(by=by, tf32=tf32, us=clock([torch.no_grad()(attend)], graph=False), extra=saved - out.nbytes)
            yield row | {"what": "forward", "tflop_s": operations / row["us"] / 1e6}
            back = partial(torch.autograd.grad, out, (q, k, v), given, retain_graph=True)
            saved = _peak(torch, back)[1] - 3 * out.nbytes
            us = clock([back], graph=False)
            yield dict(what="backward", by=by, tf32=tf32, us=us, extra=saved, tflop_s=operations * 2.5 / us / 1e6)
    torch.backends.cuda.matmul.allow_tf32 = False


def _peak(torch, function) -> tuple:
    """What it returns, and how many bytes more than now were in use at its peak."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    made = function()
    return made, torch.cuda.max_memory_allocated() - before


def _decoding(B, T, NH, hs, clock, torch):
    """One new token behind T - 1 in the cache; caches take turns, so that none of them stays in the L2."""
    C, normal = NH * hs, _noise(B * T + 1)
    each = 2 * B * T * C * 4  # bytes of keys and values
    turns = math.ceil(2e8 / each) if clock is times.microseconds else 1
    caches = [normal(2, B, NH, T, hs) for _ in range(turns)]
    qkv, out, start = normal(B, 1, 3 * C), cuda.empty((B, 1, C)), cuda.xp.full(1, T - 1, np.int32)
    shape, attend = dict(what="decoding", B=B, T=T, NH=NH, hs=hs, tf32=False), attention_cached.attention_cached
    for version in (1, 2):
        us = clock([partial(attend, out, cache, qkv, NH, start, version) for cache in caches])
        yield shape | dict(by=f"llmc v{version}", us=us, gb_s=each / us / 1e3)
    if torch is not None:
        q = torch.from_dlpack(qkv)[..., :C].view(B, 1, NH, hs).transpose(1, 2)  # (B, NH, 1, hs)
        attend = torch.no_grad()(torch.nn.functional.scaled_dot_product_attention)
        us = clock([partial(attend, q, *torch.from_dlpack(cache)) for cache in caches], graph=False)
        yield shape | dict(by="torch", us=us, gb_s=each / us / 1e3)


def _noise(seed):
    """normal(*shape): random float32 numbers where kernels run, a million of them again and again."""
    few = np.random.RandomState(seed).standard_normal(1 << 20).astype(np.float32)  # (2^20,)
    return lambda *shape: cuda.xp.resize(cuda.xp.asarray(few), math.prod(shape)).reshape(shape)


def _torch():
    """The module, or None."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def main(path):
    """Measure on this GPU and write the table."""
    torch = _torch()
    table = {"device": cuda.name_of_gpu(), "torch": getattr(torch, "__version__", None), "rows": measure(torch=torch)}
    Path(path).write_text(json.dumps(table, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
