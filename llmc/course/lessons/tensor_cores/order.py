"""Lesson 19: in which order blocks have the tiles of a result, and how much of it the L2 need not fetch again.

In turn t each block has its t-th tile, all of them at about the same time. A tile in row r and column c of the grid
reads the r-th band of a and the c-th band of b; what a turn reads twice comes from the L2. So the order decides how
many bands the turns read: rows times columns are the tiles, rows plus columns the reading.
"""

from contextlib import suppress

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe

DOWN = 8  # tiles of a band of rows
MOST = 1.25  # times as many bands as in this order may be read
GRIDS = [(1, 8, 3), (1, 16, 3), (1, 11, 3), (1, 3, 4)]  # blocks, down, across; one block shows the numbering
GRIDS += [(8, 16, 12), (12, 24, 18), (32, 16, 24), (5, 11, 3), (7, 3, 4), (16, 20, 40), (9, 1, 5), (4, 30, 1)]
GRIDS += [(8, 24, 5)]  # with as many blocks as one before


def in_bands(number, down, across, height=DOWN):
    """(row, column) of tile `number` if bands of `height` rows follow each other, in each column by column."""
    band, place = divmod(number, height * across)
    height, first = min(height, down - band * height), band * height
    return first + place % height, place // height


def numbered(down, across, order) -> np.ndarray:
    """(down, across): when each tile has its turn, by order(number, down, across)."""
    when = np.full((down, across), -1)
    for number in range(down * across):
        when[order(number, down, across)] = number
    return when


def bands_read(tiles, blocks) -> int:
    """Bands of a and b that all turns read, each turn's counted once. tiles: in the order in which they are had."""
    return _read([tiles[k : k + blocks] for k in range(0, len(tiles), blocks)])


def _read(turns) -> int:
    return sum(len({r for r, _ in turn}) + len({c for _, c in turn}) for turn in turns)


def judge_tiles(c, function, blocks, down, across) -> int:
    """Bands read; WrongAnswer unless every tile is had once, blocks have equally many, and turns read little."""
    lists = [c.call(function, block, blocks, down, across) for block in range(blocks)]
    try:
        lists = [pairs(tiles, block) for block, tiles in enumerate(lists)]
        each_once(lists, f"with {blocks} block{'s' * (blocks > 1)} and {down} x {across} tiles", down, across)
        turns = [[tiles[t] for tiles in lists if t < len(tiles)] for t in range(len(max(lists, key=len)))]
        read, ours = _read(turns), bands_read([in_bands(n, down, across) for n in range(down * across)], blocks)
        if read > MOST * ours:
            told = f"every tile once, but the turns read {read} bands with {blocks} blocks and {down} x {across} tiles"
            rows, columns = ({tile[axis] for tile in turns[0]} for axis in (0, 1))
            first = f"The {len(turns[0])} tiles of the first turn are in rows: {len(rows)}, columns: {len(columns)}"
            more = [f"{first}. Nearly a square reads the least."]
            raise WrongAnswer(f"{told}; {ours} would do", Kind.DEMAND, more=more)
        return read
    except WrongAnswer as error:
        c.calls.clear()  # the sentence names its block, which may not be that of the last call
        error.diagnosis.look = c.exercise.look_for()
        raise


def pairs(tiles, block) -> list:
    """What was returned for a block, as pairs of ints; WrongAnswer for anything else."""
    with suppress(TypeError, ValueError):
        found = [(row, column) for row, column in tiles]
        if all(isinstance(n, int | np.integer) for pair in found for n in pair):
            return [(int(row), int(column)) for row, column in found]
    raise WrongAnswer(f"a list of (row, column) is expected, but for block {block} it is {describe(tiles)}", Kind.SHAPE)


def each_once(lists, call, down, across):
    """WrongAnswer unless every tile belongs to one block, and no block has more tiles than it must."""
    owners, every, more = {}, {*np.ndindex(down, across)}, _about_numbering(lists, down, across)
    for block, tile in ((block, tile) for block, tiles in enumerate(lists) for tile in tiles):
        if tile not in every:
            raise WrongAnswer(f"block {block} gets tile {tile}, which does not exist, {call}", more=more)
        if tile in owners:
            both = f"twice to block {block}" if owners[tile] == block else f"to blocks {owners[tile]} and {block}"
            raise WrongAnswer(f"tile {tile} belongs {both}, {call}", more=more)
        owners[tile] = block
    missing, counts, least = sorted(every - {*owners}), [*map(len, lists)], -(-len(every) // len(lists))
    if missing:
        each = " to ".join(map(str, sorted({min(counts), max(counts)})))
        sizes = f"The blocks have {each} tiles each, {len(owners)} of {len(every)} together."
        raise WrongAnswer(f"tile {missing[0]} belongs to no block, {call}", more=[sizes, *more])
    if max(counts) > least:
        told = f"block {counts.index(max(counts))} has {max(counts)} tiles where {least} would do, {call}"
        even = "Numbers 0, 1, 2, …, dealt out one by one, make lists whose lengths differ by one at most."
        raise WrongAnswer(f"{told}; block {counts.index(min(counts))} has {min(counts) or 'none'}", more=[even])


def _about_numbering(lists, down, across) -> list[str]:
    """What a block that is alone gets in the first column that is wrong; what the grids before had in common."""
    turned = sorted((column, row) for tiles in lists for row, column in tiles) == [*np.ndindex(down, across)]
    said = ["With row and column exchanged, every tile occurs once."] if turned else []
    rows = [[row for row, other in lists[0] if other == column] for column in range(across)]
    wrong = next((column for column in range(across) if sorted(rows[column]) != [*range(down)]), None)
    if len(lists) == 1 and wrong is not None:
        said.append(f"In column {wrong} it gets the rows {', '.join(map(str, rows[wrong])) or '(none)'}.")
        said += ["8 and 16 rows were right: here the last band has 3 rows."] * (down == 11)
    return said


Exercise("tiles_of_block", "19", cases=lambda c: iter(GRIDS), look="2.6 · Which tile comes next?")
