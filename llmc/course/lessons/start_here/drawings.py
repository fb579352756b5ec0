"""Lesson 00's two drawings: the map of the course, and the page on which two words go through a GPT-2."""

import numpy as np

from llmc.course.figures import GREEN, GREY, area, arrow, blank_axes, box, describe, number_grid

PARTS = {  # part: what it is about, its lessons
    "Start": ("", "00_start_here"),
    "I · Layers by hand": ("forward and backward, NumPy",
        "01_layernorm 02_embeddings 03_matmul 04_gelu_residual 05_softmax_crossentropy 06_attention 07_gpt2_model"),
    "II · The CPU training loop": ("text in, falling loss out", "08_tokens 09_adamw 10_training_loop 11_fast_on_cpu"),
    "III · CUDA kernels": ("the same layers on a GPU,\nor on an emulated one",
        "12_first_kernels 13_reductions 14_backward_kernels 15_matmul_kernels 16_attention_kernels 17_gpu_training"),
    "IV · Mixed precision": ("16 bits where 32 are wasted",
        "18_number_formats 19_tensor_cores 20_mixed_precision_training"),
    "V · GPT-2": ("train it, sample it, judge it",
        "21_many_gpus 22_train_gpt2 23_sample_gpt2 24_evaluate_and_reproduce"),
    "VI · Beyond llm.c": ("eight bits are enough", "25_fp8_training"),
}  # fmt: skip

CARDS = {  # array: column, row, how many numbers wide, shape, how it is made
    "tokens": (0, 0, 1, "(T,)", "the, cat"), "encoded": (0, 1, 4, "(T, C)", "wte[tokens] + wpe"),
    "ln1": (1, 1, 4, "(T, C)", "layernorm(encoded)"), "q": (2, 1, 4, "(T, C)", "ln1 @ qw.T"),
    "scores": (3, 1, 2, "(T, T)", "q @ k.T / 2"), "v": (1, 2, 4, "(T, C)", "ln1 @ vw.T"),
    "k": (2, 2, 4, "(T, C)", "ln1 @ kw.T"), "att": (3, 2, 2, "(T, T)", "mask, softmax"),
    "residual2": (0, 3, 4, "(T, C)", "encoded + attproj"), "attproj": (1, 3, 4, "(T, C)", "atty @ attprojw.T"),
    "atty": (2, 3, 4, "(T, C)", "att @ v"), "ln2": (1, 4, 4, "(T, C)", "layernorm(residual2)"),
    "fch": (2, 4, 4, "4 of (T, 4C)", "ln2 @ fcw.T"), "residual3": (0, 5, 4, "(T, C)", "residual2 + fcproj"),
    "fcproj": (1, 5, 4, "(T, C)", "fch_gelu @ fcprojw.T"), "fch_gelu": (2, 5, 4, "4 of (T, 4C)", "gelu(fch)"),
    "lnf": (0, 6, 4, "(T, C)", "layernorm(residual3)"), "logits": (1, 6, 4, "(T, V)", "lnf @ wte.T"),
    "probs": (2, 6, 4, "(T, V)", "softmax(logits)"), "losses": (3, 6, 1, "(T,)", "-log(probs[target])"),
}  # fmt: skip
NAMED = ("encoded", "logits", "probs")  # arrays whose columns are words
PATHS = (  # an arrow from each to the next
    "tokens encoded ln1 q scores att atty attproj residual2 ln2 fch fch_gelu fcproj residual3 lnf logits probs losses",
    "ln1 k scores",
    "ln1 v atty",
)
LEGEND = (
    "T = 2 tokens: two rows on every card, one for each\nC = 4 channels, V = 4 words\nblue: negative, orange: positive"
)

ABOUT_PAGE = (
    "Twenty cards, each an array with its shape and how it is made, joined by arrows: "
    + "; ".join(" → ".join(path.split()) for path in PATHS)
    + ". A thick arrow, the residual stream, runs from encoded to residual2 to residual3, past attention and the MLP."
)
WIDE = 1.5  # of a cell, in its heights


def draw_map(here):
    """The lessons, a row for each part; those whose names (stems of files) are in `here` are filled."""
    lessons = [lesson for _, names in PARTS.values() for lesson in names.split()]
    ready = sum(lesson in here for lesson in lessons)
    title = f"Six parts lead from one layer to a trained GPT-2; {ready} of {len(lessons)} lessons are here (filled)"
    figure, ax = blank_axes((-2.75, 7.0), (-len(PARTS) + 0.55, 0.5), title)
    for row, (part, (about, names)) in enumerate(PARTS.items()):
        ax.text(-2.7, -row + 0.05, part, weight="bold", va="bottom" if about else "center")
        ax.text(-2.7, -row, about, size=9, color=GREY, va="top")
        for column, lesson in enumerate(names.split()):
            words = lesson.replace("crossentropy", "cross-_entropy").replace("_cpu", " cpu").replace("_and_", ",_")
            look = dict(filled=True) if lesson in here else dict(color=GREY, dashed=True)
            box(ax, column + 0.5, -row, lesson[:2], words[3:].replace("_", "\n"), width=0.92, height=0.84, **look)
    rows = [f"{part}: {', '.join(name[:2] for name in names.split())}" for part, (_, names) in PARTS.items()]
    absent = ", ".join(lesson[:2] for lesson in lessons if lesson not in here)
    about = f"Boxes with the numbers of the lessons, a row for each part. {'. '.join(rows)}. Not here: {absent}."
    describe(figure, about)


def draw_page(values, words, title):
    """All cards and arrows. values: {array: numbers}; a card without numbers stays empty. words: names of columns."""
    figure, ax = blank_axes((-0.6, 31.2), (-34.0, 1.7), title)
    area(ax, (7.6, 31.2), (-18.5, -3.4))
    area(ax, (7.6, 31.2), (-28.8, -18.8))
    look = dict(weight="bold", color=GREY, va="center")
    ax.text(25.5, -16.0, "Attention:\nthe tokens\nlook at\neach other", **look)
    ax.text(25.5, -23.8, "MLP:\neach token\nby itself", **look)
    ax.text(3.8, -10.3, "residual\nstream", weight="bold", color=GREEN, va="center")
    ax.text(8.0, -0.8, LEGEND, va="center")
    cards = {name: _draw_card(ax, name, values.get(name), words) for name in CARDS}
    for path in PATHS:
        for start, end in zip(path.split(), path.split()[1:]):
            arrow(ax, cards[start], cards[end])
    for start, end in (("encoded", "residual2"), ("residual2", "residual3")):  # the main road
        arrow(ax, cards[start], cards[end], color=GREEN, thick=True)
    describe(figure, ABOUT_PAGE)


def _draw_card(ax, name, values, words):
    """Name and shape, the numbers (T, width), how they are made; returns the card's Place."""
    column, row, width, shape, made = CARDS[name]
    left, top = 8.4 * column, -5.1 * row
    right = left + WIDE * max(width, 3.2 if column == 3 else 4)
    card = box(ax, (left + right) / 2, top - 0.7, "", color=GREY, width=right - left + 0.6, height=4.5)
    numbers = np.zeros((2, width)) if values is None else np.reshape(values, (2, -1))[:, :width]
    options = dict(text="") if values is None else {}
    options |= dict(columns=words) if name in NAMED else dict(colors="white") if name == "tokens" else {}
    number_grid(ax, numbers, (left, top), limit=2.5, wide=WIDE, **options)
    look = dict(va="center", zorder=4)
    ax.text(left, top + 1.05, name, weight="bold", **look)
    ax.text(right, top + 1.05, shape, size=9, color=GREY, ha="right", **look)
    ax.text(left, top - 2.5, made, size=9, color=GREY, **look)
    return card
