"""Lesson 16: what each version of attention asks for, counted; its times and memory on a GPU, measured, stated, drawn.

Measured for T = 256 to 8192, next to PyTorch's if that is installed. B is chosen so that B·T is 8192: the linear layers
around attention would do the same work at every T. Causal, float32 in memory; "tf32" says whether factors
were rounded to TF32. "extra" is what a call needs in addition to its arguments, in bytes, its result not counted.
"""

import json
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from llmc import cuda
from llmc.bench.kernels import times
from llmc.bench.kernels.cases import Numbers
from llmc.course.figures import BLUE, GREEN, GREY, ORANGE, RED, SKY, bars, curves, level, panels, plain_ticks
from llmc.course.lessons.matmul_kernels.ladders import columns
from llmc.course.lessons.reductions.ladders import TABLE
from llmc.kernels import attention, attention_cached, ceil_div

STORED = Path("reference/h200_attention.json")  # in the lessons' folder
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

# --------------------------------------------------------------------------------------------------- counted


class Counts(NamedTuple):
    """What a forward pass asks for, counted by the emulator."""

    sectors: int  # of global memory
    times: float  # sectors, as a multiple of those needed: qkv read once, out and stats written once
    each: float  # requests of a warp to shared memory, for each pair of a query and a key that it sees
    conflicts: int
    barriers: float  # a block, of the kernel that has the most

    def __str__(self):
        shared = f"; {self.each:.2f} requests to shared memory a pair" * bool(self.each)
        extra = f", {self.conflicts} extra passes" * bool(self.conflicts)
        waits = f"; {self.barriers:g} barriers a block" * bool(self.barriers)
        return f"{self.sectors:,} sectors, {self.times:,.2f} times those needed{shared}{extra}{waits}"


def count(reports, B, T, NH, hs) -> Counts:
    """Counts of reports of the launches that make one forward pass of these sizes."""
    needed = B * T * NH * (4 * hs + 1) * 4 // 32  # q, k, v, out, and a number of stats
    requests = sum(use.requests for report in reports for use in report.lines if use.space == "shared")
    barriers = max(report.barriers / max(1, report.raw.blocks_run) for report in reports)
    sectors, conflicts = (sum(getattr(r, what) for r in reports) for what in ("sectors", "bank_conflicts"))
    return Counts(sectors, sectors / needed, requests / (B * NH * T * (T + 1) // 2), conflicts, barriers)


def count_table(counted) -> str:
    """{name: Counts} as text, a line each."""
    rows = [
        (name, f"{c.sectors:,}", f"{c.times:.2f}×", f"{c.each:.2f}", f"{c.barriers:g}") for name, c in counted.items()
    ]
    return columns(("sectors", "of needed", "shared requests a pair", "barriers"), rows)


class Results(NamedTuple):
    """Rows as `measure` makes them, the limits of that GPU, and how to say where they come from.

    limits: {"copy_gb_s": GB/s of a large copy, "sgemm_tflop_s": of a large product in float32, "device"}.
    """

    rows: list
    limits: dict
    note: str

    def series(self, what, by, value="tflop_s", tf32=False) -> dict:
        """{T: value} of one way, forward or backward; {} for a way that was not measured."""
        chosen = (r for r in self.rows if (r["what"], r["by"], r["tf32"]) == (what, by, tf32))
        return {row["T"]: row[value] for row in chosen}


def limits() -> dict:
    """Those of the GPU whose times are stored."""
    return json.loads(TABLE.read_text(encoding="utf-8"))[-1]


def rows() -> Results:
    """Measured here if there is a GPU, else stored."""
    if cuda.device() != "gpu":
        table = json.loads(STORED.read_text(encoding="utf-8"))
        return Results(table["rows"], limits(), f"reference: {table['device']}, B · T = 8192")
    found = measure(lengths=(256, 1024, 4096), decoded=((1, 1024), (8, 1024)))
    return Results(found, times.limits(), f"measured here: {cuda.name_of_gpu()}, B · T = 8192")


def table(results, what) -> str:
    """TFLOP/s of every way, one line each, with a column for each T."""
    ways = dict.fromkeys((r["by"], r["tf32"]) for r in results.rows if r["what"] == what)
    lengths = sorted({r["T"] for r in results.rows if r["what"] == what})
    series = {by + ", TF32" * tf32: results.series(what, by, tf32=tf32) for by, tf32 in ways}
    lines = [(name, *(f"{found[T]:.1f}" for T in lengths)) for name, found in series.items()]
    return f"{what}, TFLOP/s\n{columns([f'T = {T:,}' for T in lengths], lines)}\n"


def sentences(results) -> list[str]:
    """What the table shows, with its own figures."""
    bound = results.limits["sgemm_tflop_s"]
    found = [f"The limit without tensor cores is {bound:.0f} TFLOP/s, the library's float32 product ({results.note})."]
    for what, versions in (("forward", (2, 5, 6, 7)), ("backward", (1, 3, 4, 5))):
        theirs = results.series(what, "torch")
        for name in (f"llmc v{version}" for version in versions):
            exact = results.series(what, name)  # the last version rounds its factors
            ours, name = (exact, name) if exact else (results.series(what, name, tf32=True), f"{name}, TF32,")
            shares = " and ".join(f"{ours[T] / bound:.0%} of it at T = {T:,}" for T in sorted(ours)[:: len(ours) - 1])
            ratios = [ours[T] / theirs[T] for T in theirs if ours]
            torch = f", {min(ratios):.2f} to {max(ratios):.2f} times PyTorch's fused kernel" if ratios else ""
            found += [f"{what.capitalize()}, {name} reaches {shares}{torch}."] if ours else []
    return found


# ----------------------------------------------------------------------------------------------------- drawn


def draw_rates(results):
    """TFLOP/s against T, forward and backward; the title of each says how fast tiles are next to torch."""
    fig, axes = panels(2, height=4.6, sharey=True)
    bound = results.limits["sgemm_tflop_s"]
    for ax, what, column in zip(axes, ("forward", "backward"), (0, 1)):
        series = {name: results.series(what, by[column]) for name, by in SHOWN.items()}
        lengths = _draw(ax, {name: found for name, found in series.items() if found})
        level(ax, bound, "cuBLAS, float32", side="left")
        ax.set(xscale="log", xlabel="T")
        plain_ticks(ax.xaxis, lengths)
        last, theirs = series["v5 (backward v3): tiles"][lengths[-1]], series["torch"]
        ratio = f", {last / theirs[lengths[-1]]:.1f}× torch" if theirs else ""
        ax.set_title(f"{what.capitalize()}: tiles reach {last / bound:.0%} of cuBLAS{ratio}")
    axes[0].set(ylim=(0, 1.12 * max(bound, *(ax.dataLim.y1 for ax in axes))), ylabel=f"TFLOP/s ({results.note})")
    fig.legend(*axes[0].get_legend_handles_labels(), ncols=2, loc="outside lower center")
    return fig


def draw_memory(results):
    """Bytes that a forward call needs besides arguments and result."""
    names = "v2: table in memory", "v5 (backward v3): tiles", "torch", "torch unfused"
    series = {name: results.series("forward", SHOWN[name][0], "extra") for name in names}
    fig, ax = plt.subplots(figsize=(9, 4.2), layout="constrained")
    lengths = _draw(ax, {n: {T: max(extra, 1) / 1e6 for T, extra in f.items()} for n, f in series.items() if f})
    ax.set(xscale="log", yscale="log", xlabel="T", ylabel=f"MB beyond arguments and result\n({results.note})")
    plain_ticks(ax.xaxis, lengths)
    plain_ticks(ax.yaxis, [0.1, 1, 10, 100, 1000, 10000])
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    table, flat = (series[name][lengths[-1]] for name in names[:2])  # of stats: B · NH · T is the same for all T
    ax.set_title(f"At T = {lengths[-1]:,} the table takes {table / 1e9:.1f} GB, stats {flat / 1e6:.1f} MB at every T")
    return fig


def _draw(ax, series) -> list:
    """{name in SHOWN: {T: number}} as curves; returns all T."""
    lengths = sorted(next(iter(series.values())))
    lines = {name: [found[T] for T in lengths] for name, found in series.items()}
    curves(ax, lines, x=lengths, looks=[SHOWN[name][2:] for name in series])
    return lengths


def draw_decoding(results):
    """GB/s of the cache that one step of decoding reaches."""
    found, limit = [r for r in results.rows if r["what"] == "decoding"], results.limits["copy_gb_s"]
    speeds = {f"B = {r['B']}, {r['T']:,} keys: {r['by']}": r["gb_s"] for r in found}
    colors = [{"llmc v1": GREY, "llmc v2": SKY, "llmc v3": BLUE, "torch": ORANGE}[r["by"]] for r in found]
    fig, ax = plt.subplots(figsize=(9, 0.34 * len(speeds) + 1.2), layout="constrained")
    bars(ax, speeds, text="{:,.0f}", colors=colors, limit=limit, limit_label="a copy")
    best, worst = (max(r["gb_s"] for r in found if r["by"] == f"llmc v{n}") for n in (3, 1))
    ax.set_xlabel(f"GB/s of the cache ({results.note.split(',')[0]})")
    ax.set_title(f"Split over the keys: up to {best / limit:.0%} of a copy, v1 at most {worst / limit:.0%}")
    return fig


# -------------------------------------------------------------------------------------------------- measured


def measure(lengths=LENGTHS, decoded=DECODED, tokens=8192, heads=(12, 64), clock=times.microseconds):
    """All rows as dictionaries. heads: (NH, hs). clock: µs of several launches."""
    torch = import_module("torch") if cuda.device() == "gpu" and find_spec("torch") else None
    found = [row for T in lengths for row in _one_length(max(1, tokens // T), T, *heads, clock, torch)]
    return found + [row for B, T in decoded for row in _decoding(B, T, *heads, clock, torch)]


def _one_length(B, T, NH, hs, clock, torch):
    C, normal = NH * hs, Numbers(cuda.xp, B * T).normal
    qkv, dout = normal(B, T, 3 * C), normal(B, T, C)
    out, dqkv, stats = cuda.empty((B, T, C)), cuda.empty((B, T, 3 * C)), cuda.empty((B, NH, T))
    operations = 2 * 2 * B * NH * hs * (T * (T + 1) // 2)  # forward: two products of all pairs that are seen
    shape = {"B": B, "T": T, "NH": NH, "hs": hs}
    forward = partial(attention.attention_forward, out, stats, qkv, NH)
    backward = partial(attention.attention_backward, dqkv, dout, out, stats, qkv, NH)
    forward()  # what the backward pass reads
    for what, call, versions, flops in (
        ("forward", forward, FORWARD, operations),
        ("backward", backward, BACKWARD, operations * 5 // 2),
    ):
        for version in versions if cuda.device() == "gpu" else versions[:-2]:  # the last two are for tensor cores
            graph = (what, version) != ("forward", 2)  # which calls the library
            us = clock([partial(call, version=version)], graph=graph)
            extra = 4 * B * NH * T * (T if what == "forward" and version < 3 else 1)  # probabilities; stats or delta
            row = shape | dict(what=what, by=f"llmc v{version}", tf32=version == versions[-1], us=us, extra=extra)
            yield row | {"tflop_s": flops / us / 1e6}
    if torch:
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
            out = attend()
            back = partial(torch.autograd.grad, out, (q, k, v), given, retain_graph=True)
            for what, call, factor, made in (("forward", attend, 1, 1), ("backward", back, 2.5, 3)):
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_allocated() + made * out.nbytes
                call()
                extra = torch.cuda.max_memory_allocated() - before
                us = clock([torch.no_grad()(call)], graph=False)
                row = dict(what=what, by=by, tf32=tf32, us=us, extra=extra)
                yield row | {"tflop_s": factor * operations / us / 1e6}
    torch.backends.cuda.matmul.allow_tf32 = False


def _decoding(B, T, NH, hs, clock, torch):
    """One new token after T - 1 in the cache; caches take turns, so that none of them stays in the L2."""
    C, normal = NH * hs, Numbers(cuda.xp, B * T + 1).normal
    each = 2 * B * T * C * 4  # bytes of keys and values
    turns = ceil_div(200_000_000, each) if clock is times.microseconds else 1
    caches = [normal(2, B, NH, T, hs) for _ in range(turns)]
    qkv, out, start = normal(B, 1, 3 * C), cuda.empty((B, 1, C)), cuda.xp.full(1, T - 1, np.int32)
    shape, attend = dict(what="decoding", B=B, T=T, NH=NH, hs=hs, tf32=False), attention_cached.attention_cached
    for version in (1, 2, 3):
        us = clock([partial(attend, out, cache, qkv, NH, start, version=version) for cache in caches])
        yield shape | dict(by=f"llmc v{version}", us=us, gb_s=each / us / 1e3)
    if torch:
        q = torch.from_dlpack(qkv)[..., :C].view(B, 1, NH, hs).transpose(1, 2)  # (B, NH, 1, hs)
        attend = torch.no_grad()(torch.nn.functional.scaled_dot_product_attention)
        us = clock([partial(attend, q, *torch.from_dlpack(cache)) for cache in caches], graph=False)
        yield shape | dict(by="torch", us=us, gb_s=each / us / 1e3)
