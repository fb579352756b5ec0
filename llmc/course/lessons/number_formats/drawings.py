"""The figures of lesson 18 that take more than a few lines: a number line, bit fields, numbers over their exponents."""

import numpy as np

from llmc.course.figures import blank_axes, cell_row, describe, ink, panels
from llmc.course.figures.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY
from llmc.course.lessons.number_formats.formats import FORMATS, decode, encode, meaning

PARTS = (RED, ORANGE, BLUE)  # sign, exponent, mantissa


def draw_number_line(fmt):
    """All numbers ≥ 0 of a small format on a line, a group for each exponent."""
    values = decode(np.arange(1 << fmt.bits - 1), fmt)
    values = values[np.isfinite(values)]
    fig, ax = panels(1, height=1.9)
    for k, start in enumerate(range(0, len(values), 1 << fmt.mantissa)):  # k: the exponent's field
        mine, color = values[start : start + (1 << fmt.mantissa)], (BLUE, ORANGE)[k % 2] if k else GREY
        ax.vlines(mine, 0, 1, color=color, lw=2)
        if k == 0 or k > fmt.bias - 1:
            name = f"exponent {k - fmt.bias}" if k else "subnormal"
            ax.text(mine.mean(), 1.1, name, ha="center", va="bottom", color=ink(color), size=9)
    ax.set(xlabel="number", yticks=[], ylim=(0, 1.6), xlim=(-0.15, 1.02 * values.max()))
    ax.spines["left"].set_visible(False)
    ax.grid(visible=False)
    steps = f"every power of two is cut into {2**fmt.mantissa} steps"
    ax.set_title(f"{len(values)} numbers from 0 to {values[-1]:g}: {steps}")
    describe(fig, "A line with a mark for each number; from each power of two to the next they are half as dense.")
    return fig


def draw_fields():
    """The bits of the six formats, side by side, with their range and their steps."""
    fig, ax = blank_axes((-5.2, 44.5), (-7.2, 1.5), "16 bits are cut in two ways: bf16 keeps the range, fp16 the steps")
    columns = {33.2: "largest", 37.6: "smallest\nnormal", 41.8: "step\nafter 1"}
    for x, text in columns.items():
        ax.text(x, 0.35, text, size=9.5, color=GREY, va="bottom")
    for row, f in enumerate(FORMATS.values()):
        fields = ("s", f"{'exponent ' * (f.exponent > 4)}{f.exponent}", f"{'mantissa ' * (f.mantissa > 4)}{f.mantissa}")
        top, widths = -1.18 * row, (1, f.exponent, f.mantissa)
        cell_row(ax, fields, (0, top), widths, colors=PARTS, label=f.name, height=1, size=9)
        for x, text in zip(columns, (_power(f.largest), _power(f.smallest_normal), f"$2^{{-{f.mantissa}}}$")):
            ax.text(x, top - 0.5, text, va="center_baseline", size=10)
    said = "; ".join(f"{f.name}: {f.exponent} bits of exponent, {f.mantissa} of mantissa" for f in FORMATS.values())
    describe(fig, f"Rows of bits, the sign first. {said}. bf16 has fp32's exponent.")
    return fig


def _power(x) -> str:
    """ "65504" or "3.4·10³⁸" as mathtext."""
    digits, power = f"{x:.1e}".split("e")
    return f"{x:.5g}" if 0.001 <= x < 1e5 else f"${digits}\\cdot10^{{{int(power)}}}$"


def draw_apart(x):
    """One number in all six formats: its bits, and what they stand for."""
    codes = {fmt: int(encode(x, fmt)) for fmt in FORMATS.values()}
    exact = sum(float(decode(code, fmt)) == x for fmt, code in codes.items())
    fig, ax = blank_axes((-5.2, 52), (-7.2, 0.6), f"{exact or 'None'} of the six formats can hold {x:g} exactly")
    for row, (fmt, code) in enumerate(codes.items()):
        colors = np.repeat(PARTS, (1, fmt.exponent, fmt.mantissa))
        cell_row(ax, f"{code:0{fmt.bits}b}", (0, -1.18 * row), colors=colors, label=fmt.name, height=1, size=9)
        ax.text(33.0, -1.18 * row - 0.5, meaning(code, fmt), va="center_baseline", size=9)
    said = (f"{fmt.name}: {meaning(code, fmt)}" for fmt, code in codes.items())
    describe(fig, f"Rows of bits with their meaning. {'; '.join(said)}.")
    return fig


def draw_exponents(tensors, formats, title):
    """{name: numbers (n,), none of them 0} as histograms over the exponent, and above each what the formats can hold.

    The exponent of x is the k in 2^k ≤ |x| < 2^(k+1).
    """
    low, high, top, medians = -52, 18, 34, []  # exponents; percent
    fig, axes = panels(2, 3, title=title, height=2.1, sharex=True, sharey=True)
    for ax, (name, numbers) in zip(axes.flat, tensors.items()):
        size = np.abs(numbers[::5]).astype(np.float64)  # every fifth is enough
        exponent = (np.frexp(size)[1] - 1).clip(low, high)  # (n,)
        share = np.bincount(exponent - low, minlength=high - low + 1) / size.size
        ax.bar(np.arange(low, high + 1) + 0.5, 100 * share, width=1, color=BLUE, zorder=3)
        for k, (fmt, color) in enumerate(zip(formats, (GREEN, PURPLE, SKY, ORANGE))):
            y, ends = top + 4.5 * (len(formats) - k), (fmt.smallest, fmt.smallest_normal, fmt.largest)
            zero, normal, last = np.clip(np.log2(ends), low, high + 8)
            beyond = last > high + 1  # the axis ends first: the bar becomes an arrow to its edge
            ax.plot([normal, last], [y, y], color=color, lw=4, solid_capstyle="butt")
            ax.plot([zero, normal], [y, y], color=color, lw=4, alpha=0.6, ls=(0, (0.6, 0.6)))
            if beyond:
                ax.plot(last - 0.8, y, color=color, marker=">", ms=8)
            ground = dict(facecolor="white", edgecolor="none", pad=1) if beyond else None
            at = high - 1 if beyond else last + 0.8
            ax.text(at, y, fmt.name, va="center_baseline", size=9, color=ink(color), bbox=ground, zorder=6)
        ax.set(xlim=(low, high + 8), ylim=(0, top + 21), yticks=(0, 10, 20, 30))
        ax.set(xlabel="exponent k, of $2^k ≤ |x| < 2^{k+1}$", ylabel="share of the\nnumbers (%)")
        ax.set_title(name, size=10.5)
        ax.label_outer()
        medians.append(f"{name}: median exponent {np.floor(np.log2(np.median(size))):.0f}")
    describe(
        fig, f"Six histograms over the exponent, with the ranges of the formats as bars above. {'; '.join(medians)}."
    )
    return fig
