"""Lesson 24's drawings: one text in two tokenizers, the rows and masks of an example, the bill."""

from llmc.course.figures import (
    BLUE,
    GREEN,
    GREY,
    LOOKS,
    ORANGE,
    bars,
    blank_axes,
    cell_row,
    describe,
    panels,
    plain_ticks,
)

WIDE = 0.95  # of a letter, in units


def draw_text(cuts, title):
    """cuts: {name: (pieces of one text, bits for each)}: the pieces, to scale, one row for each tokenizer."""
    length = max(sum(map(len, pieces)) for pieces, _ in cuts.values())
    figure, ax = blank_axes((-3.2, WIDE * length + 0.5), (-1.9 * len(cuts) + 0.9, 1.0), title)
    for k, (name, (pieces, bits)) in enumerate(cuts.items()):
        shown, left = [piece.replace(" ", "␣") for piece in pieces], 0.0
        widths, color = [WIDE * len(p) for p in pieces], (BLUE, GREEN)[k % 2]
        cell_row(ax, shown, (0, -1.9 * k + 0.6), widths, colors=color, label=name)
        for piece, cost in zip(pieces, bits):
            ax.text(left + WIDE * len(piece) / 2, -1.9 * k - 0.55, f"{cost:g}", ha="center", size=9)
            left += WIDE * len(piece)
    words = (f"{name}: " + ", ".join(f"'{p}' {b:g} bits" for p, b in zip(*cut)) for name, cut in cuts.items())
    describe(figure, "; ".join(words) + ".")


def draw_rows(pieces, contexts, title):
    """pieces: the texts of the tokens in each row; contexts: how many of them come before the ending."""
    width, columns = 2.15, max(map(len, pieces))
    figure, ax = blank_axes((-2.3, width * columns + 0.3), (-len(pieces) - 1.3, 1.2), title)
    for k, row in enumerate(pieces):
        shown = [piece.replace(" ", "␣").replace("\n", "↵") for piece in row] + ["0"] * (columns - len(row))
        kinds = [GREY] * contexts + [ORANGE] * (len(row) - contexts) + ["#FFFFFF"] * (columns - len(row))
        cell_row(ax, shown, (0, -k), width, colors=kinds, label=f"ending {k}")
    for t in range(columns):
        ax.text(width * (t + 0.5), 0.15, t, ha="center", size=9)
    y = -len(pieces) - 0.6
    ax.text(0, y, "grey: context, mask 0   ·   orange: ending, mask 1   ·   white: padding, mask 0", size=9.5)
    told = f"{len(pieces)} rows of tokens: {contexts} of the context, the same in each row, then those of the ending"
    describe(figure, f"{told}, then padding. Only the ending has mask 1.")


def draw_bill(bills, gpus, price):
    """bills: {model: a Bill for each number of GPUs}. Hours over GPUs; dollars on the most over those on the first."""
    figure, (left, right) = panels(2, height=4.2, width_ratios=(3, 2))
    for (name, row), (color, dash) in zip(bills.items(), LOOKS):
        left.plot(gpus, [each.hours for each in row], color=color, ls=dash, marker="o", ms=4, label=name)
    left.set(xscale="log", yscale="log", xlabel="GPUs", ylabel="hours")
    plain_ticks(left.xaxis, gpus)
    left.legend(fontsize=9)
    left.set_title("More GPUs: fewer hours …")
    ratios = {name: row[-1].dollars / row[0].dollars for name, row in bills.items()}
    dollars = [rf"\${row[0].dollars:,.0f} → \${row[-1].dollars:,.0f}" for row in bills.values()]  # no formula
    words = [f"{ratio:.1f}×, {paid}" for ratio, paid in zip(ratios.values(), dollars)]
    bars(right, ratios, text=words, limit=1, limit_label=f"on {gpus[0]} GPU")
    right.set(xlim=(0, 4), xlabel=f"cost on {gpus[-1]} GPUs, times that on {gpus[0]} (${price:g} an hour)")
    right.set_title(f"… for {min(ratios.values()):.1f} to {max(ratios.values()):.1f} times the money")
    first, last = f"on {gpus[0]} GPU", f"on {gpus[-1]}"
    lines = [
        f"{name}: {a.hours:,.0f} hours and ${a.dollars:,.0f} {first}, {z.hours:,.1f} hours and ${z.dollars:,.0f} {last}"
        for name, (a, *_, z) in bills.items()
    ]
    describe(figure, "; ".join(lines) + ".")
