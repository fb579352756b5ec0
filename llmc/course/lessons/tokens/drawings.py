"""Lesson 08's drawings: a text on its way to a batch, merges, a merge tree, words, a token file, batches."""

import numpy as np
import regex

from llmc.course.figures import BLUE, GREEN, GREY, ORANGE, PALE, RED, SKY, blank_axes, cell_row, describe, ink, panels

KINDS = {  # alternative of GPT-2's pattern: (the pieces that it finds, their colour)
    "1 contraction": (r"'(?:[sdmt]|ll|ve|re)", RED),
    "2 letters": (r" ?\p{L}+", SKY),
    "3 digits": (r" ?\p{N}+", ORANGE),
    "4 signs": (r" ?[^\s\p{L}\p{N}]+", GREEN),
    "5, 6 spaces": (r"\s+", GREY),
}


def visible(piece) -> str:
    """bytes or str as a figure can show it: spaces and line breaks as signs, half a character as its number."""
    try:
        text = piece.decode() if isinstance(piece, bytes) else str(piece)
    except UnicodeDecodeError:
        text = " ".join(map(str, piece))
    text = text.replace(" ", "·").replace("\n", "↵")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)  # no font has a control character


def draw_journey(sentence, words, pieces, ids):
    """The steps from a sentence to a batch, one below the other; words, pieces: bytes, ids: the pieces' ids."""
    raw, wide = sentence.encode(), [len(piece) for piece in pieces]
    title = "A text becomes bytes, words, tokens, ids; y is x, one token later"
    figure, ax = blank_axes((-2.4, len(raw) + 0.1), (-8.4, 0.1), title)
    rows = {
        "text": (sentence, [len(c.encode()) for c in sentence], (PALE, PALE)),
        "bytes": (raw, 1, (PALE, PALE)),
        "words": (words, [len(word) for word in words], (ORANGE, PALE)),
        "tokens": (pieces, wide, (SKY, BLUE)),
        "ids": (ids, wide, (SKY, BLUE)),
        "x": (ids[:-1], wide[:-1], (SKY, BLUE)),
        "y": (ids[1:], wide[:-1], (BLUE, SKY)),
    }
    for k, (label, (texts, widths, colors)) in enumerate(rows.items()):
        cell_row(ax, map(visible, texts), (0, -1.2 * k), widths, colors=_in_turns(colors, len(texts)), label=label)
    about = f"The sentence {sentence!r}, its {len(raw)} bytes, {len(words)} words, {len(pieces)} tokens"
    describe(figure, f"{about} and their ids; x is all ids but the last, y all but the first.")


def draw_merges(words, steps):
    """A text after each merge, and the pairs that compete for the next.

    words: of the text, str. steps: (words as lists of tokens, {pair: count}, the token that was just made) of each.
    """
    merges, left = len(steps) - 1, len("".join(words)) + 3
    first, *_, last = (len(_parts(words, state)) for state, _, _ in steps)
    title = f"{merges} merges of the most frequent pair: {first} tokens become {last}"
    figure, ax = blank_axes((-2, left + 21), (-2.7 * merges - 2.1, 2.2), title)
    for k, (state, pairs, new) in enumerate(steps):
        parts, top = _parts(words, state), -2.7 * k
        colors = [ORANGE if part == new else SKY if len(part) > 1 else PALE for part in parts]
        cell_row(ax, map(visible, parts), (0, top), map(len, parts), colors=colors, height=2, label=str(k))
        ranking = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[:4]
        told = [f"{visible(pair)} {pairs[pair]}" for pair in ranking]
        cell_row(ax, told, (left, top), 5, colors=[ORANGE, PALE, PALE, PALE], height=2)
    ax.text(0, 0.5, "merges made, and the text in tokens; the new one in orange", color=GREY)
    ax.text(left, 0.5, "most frequent pairs; orange is next", color=GREY)
    made = ", ".join(visible(new) for _, _, new in steps[1:])
    describe(figure, f"The text of {first} bytes after each merge. The tokens made, in order: {made}.")


def _parts(words, state):
    """The tokens of all the words in the text, in order."""
    parts_of = {b"".join(word): word for word in state}
    return [part for word in words for part in parts_of[word.encode()]]


def draw_tree(word, merges, rows):
    """How a word is merged, drawn above how two rules cut it.

    merges: (rank, i), the place of the left part, in the order in which they are made. rows: {rule: [token (bytes)]}.
    """
    parts, joints = [(i + 0.5, 0) for i in range(len(word))], []  # (middle, height) of each part; two of each rank
    for rank, i in merges:
        (left, low), (right, high) = parts[i : i + 2]
        joints.append((rank, *parts[i : i + 2]))
        parts[i : i + 2] = [((left + right) / 2, max(low, high) + 0.7)]
    title = "Merging in the order of training ends elsewhere than the longest token"
    figure, ax = blank_axes((-2.6, len(word) + 0.1), (-2.2, max(top for _, top in parts) + 0.4), title, width=8)
    plate = dict(boxstyle="round,pad=0.15", facecolor="white", edgecolor=BLUE)
    for rank, (left, low), (right, high) in joints:
        top = max(low, high) + 0.7
        ax.plot([left, left, right, right], [low, top, top, high], color=BLUE, lw=1.6)
        ax.text((left + right) / 2, top, rank, ha="center", va="center", size=9.5, bbox=plate, zorder=3)
    cell_row(ax, map(visible, (word[i : i + 1] for i in range(len(word)))), (0, 0), height=0.6, colors=PALE)
    for k, (rule, pieces) in enumerate(rows.items()):
        colors = _in_turns((SKY, BLUE) if k == 0 else (ORANGE, PALE), len(pieces))
        look = dict(colors=colors, label=rule, height=0.6)
        cell_row(ax, map(visible, pieces), (0, -0.75 * (k + 1)), map(len, pieces), **look)
    cuts = "; ".join(f"{rule}: {' + '.join(map(visible, pieces))}" for rule, pieces in rows.items())
    describe(figure, f"A tree over the letters of {visible(word)} with the rank of each merge. {cuts}.")


def draw_words(text, pattern):
    """A text of several lines as the pattern cuts it, with a colour for each alternative."""
    title = "Letters, digits and signs are parted; a word takes the space before it"
    figure, ax = blank_axes((-0.3, 56), (-1.5 * text.count("\n") - 4.2, 0.1), title)
    left, top = 0.0, 0.0
    for word in regex.findall(pattern, text):
        color = next(color for kind, color in KINDS.values() if regex.fullmatch(kind, word))
        head, newline, tail = word.partition("\n")
        if newline:  # a piece that continues on the next line
            cell_row(ax, [visible(head + "\n")], (left, top), len(head) + 1, colors=color, height=1.2)
            left, top, word = 0.0, top - 1.5, tail
        if word:
            cell_row(ax, [visible(word)], (left, top), len(word), colors=color, height=1.2)
            left += len(word)
    cell_row(ax, KINDS, (0, top - 2.6), 11, colors=[color for _, color in KINDS.values()], height=1.4)
    describe(figure, "Three lines of Python, cut into words; the colours say which alternative found each piece.")


def draw_file(data, ids):
    """A token file as a hex editor shows it: 16 bytes a row."""
    colors = [ORANGE] * 4 + [SKY] * 4 + [GREEN] * 4 + [PALE] * 1012  # of each byte
    colors += [color for color in _in_turns((SKY, BLUE), len(ids)) for _ in range(2)]
    title = f"A token file: 1024 bytes of header, then 2 bytes a token ({len(ids)} here)"
    rows = range(1024, len(data), 16)
    figure, ax = blank_axes((-1.9, 25.5), (-3 - len(rows), 1.2), title)
    for k, offset in enumerate([0, 16, None, *rows]):
        if offset is None:
            ax.text(8, -k - 0.45, "zeros, up to byte 1023", ha="center", va="center", color=GREY)
            continue
        line = slice(offset, offset + 16)
        cell_row(ax, [f"{b:02x}" for b in data[line]], (0, -k), colors=colors[line], label=str(offset))
    for middle, text, color in ((2, "magic", ORANGE), (6, "version", BLUE), (10, "tokens", GREEN)):
        ax.text(middle, 0.15, text, ha="center", va="bottom", color=ink(color))
    ax.text(-0.3, 0.15, "byte", ha="right", va="bottom", color=GREY)
    ax.text(16.3, -0.45, f"= 20240520, 1, {len(ids)}", va="center")
    ax.text(16.3, -3.45, "= " + ", ".join(map(str, ids[:6])) + ", …", va="center")
    describe(figure, f"The bytes of the file in hexadecimal: magic, version, number of tokens, zeros, ids {ids[:6]} ….")


def draw_batches(texts, B, T):
    """Which tokens each batch reads, with one process and with two. texts: of 3·B·T + 3 tokens."""
    title = "A batch begins with the token that ended the one before, as its last y"
    n = len(texts)
    figure, ax = blank_axes((-3.3, n), (-12.4, 0.1), title)
    cell_row(ax, [text if len(text) < 4 else text[:2] + "…" for text in map(visible, texts)], (0, 0), colors=PALE)
    cell_row(ax, range(n), (0, -0.9), colors="white")
    top = -2.2
    for heading, turns in (
        ("one process", ["batch 0", "batch 1", "batch 2"]),
        ("two processes take turns", ["batch 0, rank 0", "batch 0, rank 1"]),
    ):
        ax.text(n, top - 0.4, heading, ha="right", va="center", color=GREY)
        for k, (label, color) in enumerate(zip(turns, (SKY, ORANGE, GREEN))):
            ax.text(k * B * T - 0.2, top - 0.85, label, ha="right", va="center", size=9.5)
            for shift, name in ((0, "x"), (1, "y")):
                cell_row(ax, [name] * B * T, (k * B * T + shift, top), colors=color)
                top -= 0.85
            top -= 0.15
        top -= 0.5
    told = f"batch 0 reads tokens 0 to {B * T}, batch 1 begins at {B * T}"
    describe(figure, f"With one process, {told}, and so on; with two, the second process takes every other batch.")


def draw_rows(orders, cuts):
    """Where the rows of each batch begin. orders: {title: (batches, B) places}. cuts: the borders of the shards."""
    figure, axes = panels(len(orders), sharey=True)
    for ax, (title, rows) in zip(axes, orders.items()):
        for k, (begin, end, color, marker) in enumerate(zip(cuts, cuts[1:], (BLUE, ORANGE, GREEN), "os^")):
            batch, _ = np.nonzero((rows >= begin) & (rows < end))
            here = rows[(rows >= begin) & (rows < end)] / 1000  # thousands of tokens
            ax.plot(here, batch, marker, color=color, ms=2.5, label=f"shard {k}")
        ax.set(title=title, xlabel="where a row begins (thousands of tokens)")
    axes[0].set_ylabel("batch")
    axes[0].invert_yaxis()
    axes[0].legend(markerscale=2)
    order = "In file order the rows of a batch are neighbours, and the shards follow one another"
    describe(figure, f"{order}; shuffled, the rows of a batch are scattered over one shard.")


def _in_turns(pair, n):
    """[a, b, a, …], n of them."""
    return [pair[i % 2] for i in range(n)]
