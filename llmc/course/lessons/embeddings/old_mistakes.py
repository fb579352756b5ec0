"""Old tables of mistakes {output: {words after "equals ": (array, where)}}, for lessons 07 and 11 until they move."""

import numpy as np

from llmc.course.lessons.embeddings.references import backward
from llmc.course.old.checks.arrangement import names
from llmc.course.uncleared import GARBAGE

PICTURE = 'lesson 02, section "1 · What it does, in one picture"'
ONE_HOT = 'lesson 02, section "2.1 · As a matmul with one-hot rows"'
GATHER = 'lesson 02, section "2.2 · As a gather"'
POSITIONS = 'lesson 02, section "3.2 · The positions"'
TOKENS = 'lesson 02, section "3.3 · The tokens"'
BUG = 'lesson 02, section "4.1 · Three steps that NumPy takes"'
SORTING = 'lesson 02, section "5.2 · Sort, then sum every run"'
ACCUMULATE = 'lesson 02, section "7.1 · Why accumulate?"'
LOST = "its rows of dout are lost"


def one_hot(tokens, V, dtype=np.float32):
    """(B, T, V) with a single 1 in each row, at its token."""
    return (tokens[..., None] == np.arange(V)).astype(dtype)


def forward_mistakes(tokens, wte, wpe) -> dict:
    """Known wrong out, except for mistakes that would read outside of a table."""
    (B, T), (maxT, C) = tokens.shape, wpe.shape
    wte, wpe = np.asarray(wte, np.float64), np.asarray(wpe, np.float64)
    rows = wte[tokens]  # (B, T, C)
    counted_on = np.arange(B * T).reshape(B, T)  # (B, T)
    positions = {  # what a learner may add in place of wpe[t]
        "the reference with wpe[-T:], its last rows: positions start at 0": np.arange(maxT - T, maxT),
        "the reference with the positions counted from 1": np.arange(1, T + 1),
        "the reference with wpe[0] at every position": np.zeros(T, int),
        "the reference with the positions in reverse": np.arange(T)[::-1],
        "the reference with wpe[tokens] in place of wpe[t]: a position is a place in the sequence, not a token": tokens,
        "the reference with wpe[b] in place of wpe[t]: b is the sequence, t the position": np.arange(B)[:, None],
        "the reference with positions that go on counting from one sequence to the next": counted_on,
        "the reference with position b + t in place of t": np.arange(B)[:, None] + np.arange(T),
    }
    wrong = {
        "wte[tokens] alone: the positions are missing": (rows, PICTURE),
        "wpe[t] alone: the tokens are missing": (0 * rows + wpe[:T], PICTURE),
        "wte[tokens] · wpe[t]: the two rows should be added, not multiplied": (rows * wpe[:T], PICTURE),
        "the reference with the sum of all rows of wpe at every position": (rows + wpe[:T].sum(axis=0), PICTURE),
        "the reference with wte scaled by √C, which GPT-2 does not do": (rows * np.sqrt(C) + wpe[:T], GATHER),
        "wte[tokens] - wpe[t]: the two rows should be added": (rows - wpe[:T], PICTURE),
        "the reference with wte[tokens - 1]: token ids start at 0": (wte[tokens - 1] + wpe[:T], GATHER),
    }
    if B * T > maxT:
        for text, at in {"n % maxT": counted_on % maxT, "min(n, maxT - 1)": np.minimum(counted_on, maxT - 1)}.items():
            numbered = f"the reference with position {text}, where n = b·T + t goes on counting from one sequence to"
            positions[f"{numbered} the next: each sequence begins at position 0"] = at
    wrong |= {text: (rows + wpe[at], PICTURE) for text, at in positions.items() if at.max() < maxT}
    return {"out": wrong}


def backward_mistakes(dout, tokens, V, maxT, held=None) -> dict:
    """Known wrong dwte and dwpe. held: what the two buffers held before, for the exercise that adds to them."""
    dout = np.asarray(dout, np.float64)
    right = backward(dout, tokens, V, maxT)
    wrong_dwte = _wrong_dwte(dout, tokens, V, right.dwte)
    wrong_dwpe = _wrong_dwpe(dout, tokens, maxT, right.dwpe)
    if held is not None:
        dwte0, dwpe0 = (np.asarray(array, np.float64) for array in held)
        used, T = np.unique(tokens), tokens.shape[1]
        kept_sum, kept_last = np.zeros_like(dwte0), np.zeros_like(dwte0)  # (V, C): what is added, in effect
        kept_sum[used] = right.dwte[used] - dwte0[used]
        kept_last[used] = _last(dout, tokens, V)[used] - dwte0[used]
        kept_positions = np.zeros_like(dwpe0)  # (maxT, C)
        kept_positions[:T] = right.dwpe[:T] - dwpe0[:T]
        text = "the reference in rows that were overwritten instead of accumulated"
        wrong_dwte[text] = (kept_sum, ACCUMULATE)
        wrong_dwte["the last row of dout for each token, written over what dwte held"] = (kept_last, BUG)
        wrong_dwpe[text] = (kept_positions, ACCUMULATE)
    return {"dwte": wrong_dwte, "dwpe": wrong_dwpe}


def _last(dout, tokens, V):
    """(V, C): what dwte[tokens] += dout leaves."""
    dwte = np.zeros((V, dout.shape[-1]))
    for b, t in np.ndindex(tokens.shape):
        dwte[tokens[b, t]] = dout[b, t]
    return dwte


def _without_row(table, row):
    """A copy of table (rows, C) with zeros in that row."""
    copy = table.copy()
    copy[row] = 0
    return copy


def _wrong_dwte(dout, tokens, V, right):
    """dwte with rows lost, averaged, or added in the wrong place."""
    flat, rows = tokens.reshape(-1), dout.reshape(tokens.size, -1)  # (B*T,), (B*T, C)
    counts = np.bincount(flat, minlength=V)[:, None]  # (V, 1)
    found, starts = np.unique(flat, return_index=True)  # (distinct,) each
    runs = np.searchsorted(np.sort(flat), found)  # (distinct,)
    first, unsorted, unordered, reduced = (np.zeros_like(right) for _ in range(4))  # (V, C)
    first[found] = rows[starts]
    unsorted[found] = np.add.reduceat(rows, starts, axis=0)
    unordered[found] = np.add.reduceat(rows, runs, axis=0)
    in_order = rows[np.argsort(flat, kind="stable")]  # (B*T, C)
    reduced[found] = np.add.reduceat(in_order, starts, axis=0)
    unsorted_starts, ascending_starts = (_sums_of_runs(in_order, found, at, V) for at in (starts, np.sort(starts)))
    places = "of the sorted rows that begin where the tokens first occur before they are sorted"
    cut, last = right.copy(), np.argsort(flat, kind="stable")[-1]  # (V, C), its place
    cut[flat[last]] -= rows[last]
    cut_at_the_end = right.copy()  # (V, C)
    cut_at_the_end[flat[-1]] -= rows[-1]
    in_a_sequence = sum(_last(dout[b : b + 1], tokens[b : b + 1], V) for b in range(len(tokens)))  # (V, C)
    turned = dout[:, ::-1], tokens[:, ::-1]  # each sequence from its end
    firsts = [_last(*(array[b : b + 1] for array in turned), V) for b in range(len(tokens))]  # (V, C) each
    often = [np.bincount(sequence, minlength=V)[:, None] for sequence in tokens]  # (V, 1) each
    by_position = backward(dout.swapaxes(0, 1).reshape(dout.shape), tokens, len(right), 1 + tokens.shape[1]).dwte
    tokens_by_position = backward(dout, tokens.T.reshape(tokens.shape), len(right), 1 + tokens.shape[1]).dwte
    between = sum(_last(dout[:, t : t + 1], tokens[:, t : t + 1], V) for t in range(tokens.shape[1]))  # (V, C)
    bug = BUG if names("+=") else TOKENS
    wrong = {
        "the last row of dout for each token: the other rows of a repeated token are lost": (
            _last(dout, tokens, V),
            bug,
        ),
        "the first row of dout for each token: the other rows of a repeated token are lost": (first, TOKENS),
        "the reference without the repeats inside a sequence: only the last of them is left": (in_a_sequence, bug),
        "the reference without the repeats inside a sequence: only the first of them is left": (sum(firsts), TOKENS),
        "the reference with the first row of a token in its sequence in place of the rows of its repeats there": (
            sum(n * rows for n, rows in zip(often, firsts)),
            TOKENS,
        ),
        "the reference without the repeats at the same position of several sequences: only the last is left": (
            between,
            bug,
        ),
        "the reference with dout's rows matched to the wrong tokens: the rows go position by position, (T, B), the "
        "tokens sequence by sequence, (B, T)": (by_position, TOKENS),
        "the reference with dout's rows matched to the wrong tokens: the tokens go position by position, (T, B), the "
        "rows sequence by sequence, (B, T)": (tokens_by_position, TOKENS),
        "the last row of dout for each token, times how often it occurs": (
            counts * _last(dout, tokens, V),
            TOKENS,
        ),
        "the first row of dout for each token, times how often it occurs": (
            counts * first,
            TOKENS,
        ),
        "the reference times how often each token occurs": (
            counts * right,
            TOKENS,
        ),
        "the mean over the occurrences of each token: it should be their sum": (right / np.maximum(counts, 1), TOKENS),
        "the reference with the one-hot array reshaped to (V, B·T): reshape does not transpose": (
            one_hot(tokens, V, np.float64).reshape(V, -1) @ rows,
            TOKENS,
        ),
        "how often each token occurs: dout itself is missing": (counts + 0 * right, TOKENS),
        "sums of runs that begin at np.unique's first places, in rows that were not sorted": (unsorted, SORTING),
        f"sums of runs {places}": (unsorted_starts, SORTING),
        f"sums of runs {places} (in ascending order)": (ascending_starts, SORTING),
        f"what np.add.reduceat gives for runs {places}": (reduced, SORTING),
        "sums of rows in their old order: dout was not brought into the order of the sorted tokens": (
            unordered,
            SORTING,
        ),
        "the reference without the first token, 0: its rows of dout are lost": (_without_row(right, 0), TOKENS),
        "the reference without the last row of dout, dout[-1, -1]": (cut_at_the_end, TOKENS),
        "the reference on top of memory that was never cleared: np.empty is not np.zeros": (
            right + GARBAGE,
            "the line that makes dwte",
        ),
    }
    wrong[f"the reference without the last token, V - 1: {LOST}"] = (_without_row(right, -1), TOKENS)
    if names("sort", "unique"):
        wrong["the reference without the last row of the sorted order"] = (cut, SORTING)
    if flat.max() < V - 1:
        wrong[f"the reference without the largest token that occurs: {LOST}"] = (
            _without_row(right, flat.max()),
            TOKENS,
        )
    return wrong


def _sums_of_runs(rows, found, starts, V):
    """(V, C): the sum of rows (B*T, C) from each start to the next in the row of its token; of no rows, it is 0."""
    dwte, ends = np.zeros((V, rows.shape[1])), np.append(starts[1:], len(rows))  # (V, C), (distinct,)
    dwte[found] = [rows[start:end].sum(axis=0) for start, end in zip(starts, ends)]
    return dwte


def _wrong_dwpe(dout, tokens, maxT, right):
    """dwpe with sequences lost, or rows in the wrong place."""
    B, T, _ = dout.shape
    summed = dout.sum(axis=0)  # (T, C)
    rows = {
        "the last sequence of dout: the others are lost": (dout[-1], slice(T)),
        "the first sequence of dout: the others are lost": (dout[0], slice(T)),
        "the sum over all positions, in every row": (summed.sum(axis=0), slice(T)),
        "the reference in the last T rows: positions start at 0": (summed, slice(maxT - T, maxT)),
        "the reference with the positions in reverse: row t belongs to position t": (summed[::-1], slice(T)),
        "the sum over t in place of the sum over the batch": (dout.sum(axis=1)[:maxT], slice(min(B, maxT))),
    }
    wrong = {}
    for text, (values, place) in rows.items():
        table = np.zeros_like(right)  # (maxT, C)
        table[place] = values
        wrong[text] = (table, POSITIONS)
    if tokens.max() < maxT:
        by_token = backward(dout, tokens, maxT, maxT).dwte  # (maxT, C)
        wrong["dwte: its rows were placed by token, not by position"] = (by_token, POSITIONS)
    else:
        table = np.zeros_like(right)  # (maxT, C)
        np.add.at(table, tokens % maxT, dout)
        wrong["dout's rows added at tokens % maxT: the row of dwpe is the position, t"] = (table, POSITIONS)
    n = np.arange(B * T)  # the number of a row of dout, when b and t are one axis
    places = {"n // B": n // B, "n % B": n % B, "n": n, "n % T + 1": n % T + 1}
    places |= {"n % T - 1": n % T - 1, "n % T + n // T": n % T + n // T}
    if B * T > maxT:  # else these are n
        places |= {"n % maxT": n % maxT, "min(n, maxT - 1)": np.minimum(n, maxT - 1)}
    for text, place in places.items():
        if place.max() < maxT:
            table = np.zeros_like(right)  # (maxT, C)
            np.add.at(table, place, dout.reshape(B * T, -1))
            wrong[f"the rows n of dout (B·T, C) added at {text}: row n has position n % T"] = (table, POSITIONS)
    repeated = np.resize(summed, right.shape)  # (maxT, C)
    wrong["the reference, repeated in the rows from T on: no position of this batch uses them, so they are 0"] = (
        repeated,
        POSITIONS,
    )
    if B > 1:
        wrong[f"the reference times B = {B}"] = (
            B * right,
            POSITIONS,
        )
    everything = np.zeros_like(right) + summed.sum(axis=0)  # (maxT, C)
    wrong["the sum over all positions, even in the rows from T on"] = (everything, POSITIONS)
    wrong["the reference on top of memory that was never cleared: np.empty is not np.zeros"] = (
        right + GARBAGE,
        "the line that makes dwpe",
    )
    return wrong
