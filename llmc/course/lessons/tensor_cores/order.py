"""Lesson 19: in which order blocks have the tiles of a result, and how much of it the L2 need not fetch again.

In turn t each block has its t-th tile, all of them at about the same time. A tile in row r and column c of the grid
reads the r-th band of a and the c-th band of b; what a turn reads twice comes from the L2. So the order decides how
many bands the turns read: rows times columns are the tiles, rows plus columns the reading.
"""

from itertools import pairwise

import numpy as np

from llmc.course.lessons.tensor_cores.places import ORDER
from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.explain import WrongAnswer, describe

DOWN = 8  # tiles of a band of rows
GRIDS = (  # blocks, down, across; two of them with equally many blocks
    *((8, 16, 12), (12, 24, 18), (32, 16, 24), (5, 11, 3), (7, 3, 4), (16, 20, 40), (9, 1, 5), (4, 30, 1)),
    (8, 24, 5),
)
ALONE = (8, 3), (16, 3), (11, 3), (3, 4)  # grids that one block gets alone


def in_bands(number, down, across, height=DOWN):
    """(row, column) of tile `number` if bands of `height` rows follow each other, in each column by column."""
    band, place = divmod(number, height * across)
    height, first = min(height, down - band * height), band * height
    return first + place % height, place // height


def bands_read(tiles, blocks) -> int:
    """Bands of a and b that all turns read, each turn's counted once. tiles: in the order in which they are had."""
    turns = [tiles[k : k + blocks] for k in range(0, len(tiles), blocks)]
    return sum(len({r for r, _ in turn}) + len({c for _, c in turn}) for turn in turns)


def numbered(down, across, order) -> np.ndarray:
    """(down, across): when each tile has its turn, by order(number, down, across)."""
    when = np.full((down, across), -1)
    for number in range(down * across):
        when[order(number, down, across)] = number
    return when


def judge(lists, blocks, down, across, most=1.25, again=None):
    """Bands read; WrongAnswer unless the lists, one for each block, have every tile once, are even, and read little.

    again: the function that made the lists, for calls with one block and with other grids.
    """
    lists = [_tiles_of(tiles, block, down, across, again) for block, tiles in enumerate(lists)]
    call = f"with {blocks} blocks and {down} x {across} tiles"
    seen = {}
    for block, tiles in enumerate(lists):
        for tile in tiles:
            if tile in seen:
                twice = (
                    f"twice to block {block}" if seen[tile] == block else f"to block {seen[tile]} and to block {block}"
                )
                raise _wrong(f"tile {tile} belongs {twice}, {call}. {_of_one_block(again, down)}".rstrip())
            seen[tile] = block
    missing = [(r, c) for r in range(down) for c in range(across) if (r, c) not in seen]
    if missing:
        more = f", and {len(missing) - 1} others have none either" if missing[1:] else ""
        why = _left_over(lists, blocks, down * across, _of_one_block(again, down))
        raise _wrong(f"tile {missing[0]} belongs to no block, {call}{more}. {why}")
    least, longest = -(-down * across // blocks), max(map(len, lists))
    if longest > least:
        block = [len(tiles) for tiles in lists].index(longest)
        why = _full_bands(lists, blocks, down, across)
        fewest = min(map(len, lists))
        count = sum(len(tiles) == fewest for tiles in lists)
        others = f"{count} of the blocks {'have' if count > 1 else 'has'} {fewest or 'none at all'}"
        raise _wrong(f"block {block} has {longest} tiles where {least} would do, {call}: {others}.{why}")
    turns = [tiles[t] for t in range(least) for tiles in lists if t < len(tiles)]
    read = _read(lists, least)
    ours = bands_read([in_bands(n, down, across) for n in range(down * across)], blocks)
    if read > most * ours:
        raise _wrong(
            f"every tile once, but the turns read {read} bands {call}; {ours} would do. {_why(turns, blocks, lists)}"
        )
    return read


def _of_one_block(again, down) -> str:
    """A sentence if a single block does not get each tile once; with which numbers of rows it does. "" otherwise."""
    wrong = [grid for grid in ALONE if not _each_once(_alone(again, *grid), *grid)] if again else []
    if not wrong:
        return ""
    if all(_alone(again, *grid) == _in_short_columns(*grid) for grid in ALONE):
        return (
            f"The bands that a block goes through, where it is alone, are {DOWN} columns wide, but have {DOWN} · "
            f"across tiles, as bands of {DOWN} rows do: those of columns have {DOWN} · down."
        )
    if down % DOWN and all(rows % DOWN for rows, _ in wrong):
        whole = " or ".join(str(rows) for rows, _ in ALONE if not rows % DOWN)
        rows = f"the last band has {down % DOWN} row{'s' * (down % DOWN > 1)} here, and {DOWN} there"
        return f"With {whole} rows of tiles, a block that is alone gets each tile once: {rows}."
    height, width = wrong[0]
    tiles = _alone(again, height, width)
    if tiles is None:
        return ""
    alone = f"Alone, with {height} x {width} tiles, a block"
    for column in range(width):
        rows = [row for row, c in tiles if c == column]
        if sorted(rows) != list(range(height)):
            return f"{alone} gets in column {column} the rows {', '.join(map(str, rows)) or '(none)'}."
    return f"{alone} gets {sorted(set(tiles) - set(np.ndindex(height, width)))[0]}, which does not exist."


def _in_short_columns(down, across) -> list:
    """What a single block gets in bands of DOWN columns that are as long as those of DOWN rows."""
    tiles = []
    for number in range(down * across):
        band, place = divmod(number, DOWN * across)
        width = min(DOWN, across - DOWN * band)
        tiles += [(place // width, DOWN * band + place % width)] if width else []
    return tiles


def _alone(again, down, across) -> list | None:
    """What a single block gets, as pairs of ints; None if that is anything else."""
    try:
        return [(int(row), int(column)) for row, column in outcome(again, 0, 1, down, across)]
    except (TypeError, ValueError):
        return None


def _each_once(tiles, down, across) -> bool:
    return tiles is not None and sorted(tiles) == list(np.ndindex(down, across))


def _left_over(lists, blocks, tiles, alone) -> str:
    """How many tiles the blocks have. alone: what is wrong with a block that has no others beside it."""
    each, rest = divmod(tiles, blocks)
    if rest and not alone and all(len(mine) == each for mine in lists):
        return f"Each block has {each}, which makes {each * blocks} of {tiles} tiles."
    counts = sorted({len(mine) for mine in lists})
    had = f"{counts[0]} to {counts[-1]}" if counts[1:] else f"{counts[0]}"
    return f"The blocks have {had} tiles each, {sum(map(len, lists))} of {tiles} together. {alone}".rstrip()


def _full_bands(lists, blocks, down, across) -> str:
    """A sentence if tiles below the last row were numbered, too, and then left out; "" otherwise."""
    bands, each = -(-down // DOWN), DOWN * across
    rows_and_columns = (lambda n: (n % DOWN, n // DOWN), lambda n: divmod(n, across))
    for inside in rows_and_columns:
        places = [(DOWN * (n // each) + inside(n % each)[0], inside(n % each)[1]) for n in range(bands * each)]
        if lists == [[tile for tile in places[block::blocks] if tile[0] < down] for block in range(blocks)]:
            rows = f"the last band has {down % DOWN} row{'s' * (down % DOWN > 1)}, and is numbered as if it had {DOWN}"
            return f" Here {rows}: numbers of tiles that do not exist are lost to the blocks that have them."
    return ""


def _read(lists, turns) -> int:
    """bands_read, where lists may end at different turns."""
    each = [[tiles[t] for tiles in lists if t < len(tiles)] for t in range(turns)]
    return sum(len({r for r, _ in turn}) + len({c for _, c in turn}) for turn in each)


def _why(turns, blocks, lists) -> str:
    """What the first turn looks like."""
    first = [tiles[0] for tiles in lists if tiles]
    rows, columns = ({tile[axis] for tile in first} for axis in (0, 1))
    together = all(_distance(*tiles[:2]) == 1 for tiles in lists if len(tiles) > 1)
    apart = all(_distance(*pair) > 1 for pair in pairwise(first))
    if together and apart and len(lists[0]) > 1:
        return "A block's own tiles are neighbours, but those of a turn are far apart."
    if len(rows) > 2 and _have_their_own_rows(lists):
        return f"Each block has rows of its own, so a turn has tiles in {len(rows)} rows."
    many = [f"{len(found)} {what}{'s' * (len(found) > 1)}" for found, what in ((rows, "row"), (columns, "column"))]
    return f"The tiles of the first turn lie in {' and '.join(many)}; nearly a square reads the least."


def _have_their_own_rows(lists) -> bool:
    """Does each row belong to one block, which goes along it?"""
    owners = {(row, block) for block, tiles in enumerate(lists) for row, _ in tiles}
    along = [one[0] == other[0] for tiles in lists for one, other in pairwise(tiles)]
    return len(owners) == len({row for row, _ in owners}) and 2 * sum(along) > len(along)


def _distance(one, other) -> int:
    """In rows and columns; 1 between neighbours."""
    return sum(abs(a - b) for a, b in zip(one, other))


def _tiles_of(tiles, block, down, across, again) -> list:
    """What was returned for a block, as a list of pairs of ints; WrongAnswer for anything else, or a tile outside."""
    try:
        pairs = [tuple(tile) for tile in tiles]
        right = all(len(pair) == 2 and all(isinstance(n, (int, np.integer)) for n in pair) for pair in pairs)
    except TypeError:
        right = False
    if not right:
        raise _wrong(
            f"tiles_of_block should return a list of (row, column); for block {block} it returned {describe(tiles)}."
        )
    for row, column in pairs:
        if not (0 <= row < down and 0 <= column < across):
            turned = again and all(
                _each_once([pair[::-1] for pair in _alone(again, *grid) or ()], *grid) for grid in ALONE
            )
            exchanged = "With row and column exchanged, a block that is alone gets each tile once."
            why = exchanged if turned else _of_one_block(again, down)
            raise _wrong(
                f"block {block} gets tile ({row}, {column}), which does not exist: there are {down} x {across} tiles. "
                f"{why}".rstrip()
            )
    return [(int(r), int(c)) for r, c in pairs]


def _wrong(text):
    return WrongAnswer(f"{text}\n→ Where to look: {ORDER}.")
