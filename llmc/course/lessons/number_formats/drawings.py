"""The figures of lesson 18 that take more than a few lines: a number line, bit fields, numbers over their exponents."""

import numpy as np

from llmc.course.figures import blank_axes, describe, ink, panels, tint
from llmc.course.figures.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, SKY
from llmc.course.lessons.number_formats.formats import FORMATS, decode, encode, meaning

SIGN, EXPONENT, MANTISSA = RED, ORANGE, BLUE
DIGITS = dict(ha="center", va="center_baseline", size=9, family="DejaVu Sans Mono", zorder=5)


def draw_number_line(fmt):
    """All numbers ≥ 0 of a small format on a line: a group for each exponent, and the patterns of the first eight."""
    import matplotlib.pyplot as plt

    codes = np.arange(1 << fmt.bits - 1)
    values = decode(codes, fmt)
    codes, values = codes[np.isfinite(values)], values[np.isfinite(values)]
    group = codes >> fmt.mantissa  # the exponent's field
    fig, ax = plt.subplots(figsize=(10, 1.9), layout="constrained")
    for k in np.unique(group):
        color = GREY if k == 0 else (BLUE, ORANGE)[k % 2]
        mine = values[group == k]
        ax.vlines(mine, 0, 1, color=color, lw=2)
        name = "subnormal" if k == 0 else f"exponent {k - fmt.bias}"
        if k == 0 or k > fmt.bias - 1:
            ax.text(mine.mean(), 1.1, name, ha="center", va="bottom", color=ink(color), size=9)
    ax.set(xlabel="number", yticks=[], ylim=(0, 1.6), xlim=(-0.15, 1.02 * values.max()))
    ax.spines["left"].set_visible(False)
    ax.grid(visible=False)
    ax.set_title(
        f"{len(values)} numbers from 0 to {values[-1]:g}: every power of two is cut into {2**fmt.mantissa} steps"
    )
    describe(fig, "A line with a mark for each number; from each power of two to the next they are half as dense.")
    return fig


def draw_fields():
    """The bits of the six formats, side by side, with their range and their steps."""
    fig, ax = blank_axes((-5.2, 44.5), (-7.2, 1.5), "16 bits are cut in two ways: bf16 keeps the range, fp16 the steps")
    for x, text in ((33.2, "largest"), (37.6, "smallest\nnormal"), (41.8, "step\nafter 1")):
        ax.text(x, 0.35, text, size=9.5, color=GREY, va="bottom")
    for row, fmt in enumerate(FORMATS.values()):
        top = -1.18 * row
        ax.text(-0.5, top - 0.5, f"{fmt.name}", ha="right", va="center_baseline", weight="bold")
        _cells(ax, top, fmt)
        limits = (33.2, _power(fmt.largest)), (37.6, _power(fmt.smallest_normal)), (41.8, f"$2^{{-{fmt.mantissa}}}$")
        for x, text in limits:
            ax.text(x, top - 0.5, text, va="center_baseline", size=10)
    said = "; ".join(f"{f.name}: {f.exponent} bits of exponent, {f.mantissa} of mantissa" for f in FORMATS.values())
    describe(fig, f"Rows of bits, the sign first. {said}. bf16 has fp32's exponent.")
    return fig


def _power(x) -> str:
    """ "65504" or "3.4·10³⁸" as mathtext."""
    if 0.001 <= x < 1e5:
        return f"{x:.5g}"
    digits, power = f"{x:.1e}".split("e")
    return f"${digits}\\cdot10^{{{int(power)}}}$"


def _cells(ax, top, fmt, code=None):
    """One cell a bit, with its digit where there is a code."""
    from matplotlib.patches import Rectangle

    text = None if code is None else f"{int(code):0{fmt.bits}b}"
    for k in range(fmt.bits):
        color = SIGN if k == 0 else EXPONENT if k <= fmt.exponent else MANTISSA
        ground = tint(color, 0.3)
        ax.add_patch(Rectangle((k, top - 1), 1, 1, facecolor=ground, edgecolor="white", lw=1.2, zorder=3))
        if text:
            ax.text(k + 0.5, top - 0.5, text[k], color=ink(INK, ground), **DIGITS)
    if code is None:
        middles = {"s": 0.5, "exponent": 1 + fmt.exponent / 2, "mantissa": 1 + fmt.exponent + fmt.mantissa / 2}
        sizes = {"s": 1, "exponent": fmt.exponent, "mantissa": fmt.mantissa}
        for name, x in middles.items():
            label = name if sizes[name] == 1 else f"{name} {sizes[name]}" if sizes[name] > 4 else f"{sizes[name]}"
            ax.text(x, top - 0.5, label, **DIGITS | {"family": None})


def draw_apart(x):
    """One number in all six formats: its bits, and what they stand for."""
    exact = sum(float(decode(encode(x, fmt), fmt)) == x for fmt in FORMATS.values())
    fig, ax = blank_axes((-5.2, 52), (-7.2, 0.6), f"{exact or 'None'} of the six formats can hold {x:g} exactly")
    said = []
    for row, fmt in enumerate(FORMATS.values()):
        top, code = -1.18 * row, encode(x, fmt)
        ax.text(-0.5, top - 0.5, fmt.name, ha="right", va="center_baseline", weight="bold")
        _cells(ax, top, fmt, code)
        ax.text(33.0, top - 0.5, meaning(code, fmt), va="center_baseline", size=9)
        said.append(f"{fmt.name}: {meaning(code, fmt)}")
    describe(fig, f"Rows of bits with their meaning. {'; '.join(said)}.")
    return fig


def draw_exponents(tensors, formats, title):
    """{name: numbers (n,), none of them 0} as histograms over the exponent, and above each what the formats can hold.

    The exponent of x is the k in 2^k ≤ |x| < 2^(k+1).
    """
    low, high, top = -52, 18, 34  # exponents; percent
    fig, axes = panels(2, 3, title=title, height=2.1, sharex=True, sharey=True)
    for ax, (name, numbers) in zip(axes.flat, tensors.items()):
        size = np.abs(numbers[::5]).astype(np.float64)  # every fifth is enough
        exponent = (np.frexp(size)[1] - 1).clip(low, high)  # (n,)
        share = np.bincount(exponent - low, minlength=high - low + 1) / size.size
        ax.bar(np.arange(low, high + 1) + 0.5, 100 * share, width=1, color=BLUE, zorder=3)
        for k, (fmt, color) in enumerate(zip(formats, (GREEN, PURPLE, SKY, ORANGE))):
            y, ends = top + 4.5 * (len(formats) - k), (fmt.smallest, fmt.smallest_normal, fmt.largest)
            zero, normal, last = np.clip(np.log2(ends), low, high)
            beyond = fmt.largest > 2.0 ** (high + 1)  # the axis ends first: the bar becomes an arrow to its edge
            ax.plot([normal, high + 8 if beyond else last], [y, y], color=color, lw=4, solid_capstyle="butt")
            ax.plot([zero, normal], [y, y], color=color, lw=4, alpha=0.6, ls=(0, (0.6, 0.6)))
            if beyond:
                ax.plot(high + 7.2, y, color=color, marker=">", ms=8)
            ground = dict(facecolor="white", edgecolor="none", pad=1) if beyond else None
            at = last - 1 if beyond else last + 0.8
            ax.text(at, y, fmt.name, va="center_baseline", size=9, color=ink(color), bbox=ground, zorder=6)
        ax.set(xlim=(low, high + 8), ylim=(0, top + 21), yticks=(0, 10, 20, 30))
        ax.set_title(name, size=10.5)
    for ax in axes[:, 0]:
        ax.set_ylabel("share of the\nnumbers (%)")
    for ax in axes[-1]:
        ax.set_xlabel("exponent k, of $2^k ≤ |x| < 2^{k+1}$")
    described = "; ".join(f"{name}: median exponent {_median(numbers)}" for name, numbers in tensors.items())
    describe(fig, f"Six histograms over the exponent, with the ranges of the formats as bars above. {described}.")
    return fig


def _median(numbers) -> int:
    return int(np.floor(np.log2(np.median(np.abs(numbers[::5])))))
