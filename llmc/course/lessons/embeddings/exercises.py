"""Lesson 02's exercises: what is right, what is tried, and which mistakes have a name."""

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.lessons.embeddings.references import awkward_tokens, backward, forward, zipf_tokens

TIMED = (4, 1024, 768, 1024, 1024)  # B, T, C, V, maxT

# ------------------------------------------------------------------------------------------------------- inputs


def batch(c, B, T, V, end):
    """tokens (B, T) that repeat; at the end comes one of two tokens, the last of the vocabulary or the first."""
    tokens = awkward_tokens(c.rng, B, T, V)
    tokens[-1, -2:] = end
    return tokens


def lookups(c):
    """tokens (B, T), wte (V, C), wpe (maxT, C): odd shapes, one with T = maxT, a single position; then float32."""
    first = (3, 5, 7, 11, 16)
    shapes = [first, (2, 4, 3, 9, 4), (3, 5, 7, 13, 8), (4, 1, 2, 300, 6), (66, 67, 65, 70, 80), (1, 5, 7, 300, 6)]
    for (B, T, C, V, maxT), end in [*((shape, shape[3] - 1) for shape in shapes), (first, 0)]:
        c.new("66 sequences of 67 tokens, and 65 channels" if B == 66 else "")
        tokens, wte, wpe = batch(c, B, T, V, end), c.random(V, C), c.random(maxT, C)
        yield tokens, wte, wpe
    c.new("float32 tables")
    yield tokens, wte.astype(np.float32), wpe.astype(np.float32)


def one_hot_rows(c):
    """tokens (B, T), V, {dtype: …}: odd shapes and a square one, one token; the default dtype, then two others."""
    for B, T, V, end in [(3, 5, 11, 10), (3, 5, 11, 0), (2, 2, 7, 6), (1, 1, 300, 299), (66, 67, 65, 0), (1, 6, 33, 0)]:
        tokens = batch(c, B, T, V, end)
        yield tokens, V, {}
    for dtype in (np.float64, np.int64):
        c.new(f"dtype is np.{dtype.__name__}")
        yield tokens, V, {"dtype": dtype}


def gradients(c):
    """dout (B, T, C), tokens (B, T), V, maxT: odd shapes, one with T = maxT, a single position; large; float32."""
    first = (3, 5, 7, 11, 16)
    shapes = [first, (2, 4, 3, 9, 4), (3, 6, 5, 4, 8), (4, 1, 2, 9, 6), (1, 2, 3, 5, 3)]
    for (B, T, C, V, maxT), end in [(first, 0), *((shape, shape[3] - 1) for shape in shapes)]:
        small = c.random(B, T, C), batch(c, B, T, V, end), V, maxT
        yield small
    c.new("66 sequences of 67 tokens, and 65 channels")
    yield c.random(66, 67, 65), awkward_tokens(c.rng, 66, 67, 70), 70, 80
    c.new("float32 inputs")
    dout, *others = small
    yield dout.astype(np.float32), *others


def accumulating(c):
    """dwte (V, C), dwpe (maxT, C), dout (B, T, C), tokens (B, T): both buffers go on adding up."""
    C, V, maxT = 7, 11, 8
    dwte, dwpe = c.buffer(V, C), c.buffer(maxT, C)
    for B, T, end in [(3, 5, 10), (3, 8, 0), (3, 5, 0), (1, 3, 10), (4, 1, 10)]:
        yield dwte, dwpe, c.random(B, T, C), batch(c, B, T, V, end)


def fast_gradients(c):
    """The same in float32, with new buffers each time: the first token and the last in the middle; the timed size."""
    small, tiny = (3, 5, 7, 11, 8), (1, 2, 3, 5, 4)
    for B, T, C, V, maxT in [small, (5, 27, 33, 6, 27), tiny, (2, 1, 7, 9, 1), small, TIMED, TIMED]:
        dwte, dwpe = c.buffer(V, C, dtype=np.float32), c.buffer(maxT, C, dtype=np.float32)
        tokens = (zipf_tokens if T == 1024 else awkward_tokens)(c.rng, B, T, V)
        if B > 1:  # these two might otherwise be missing, and are not at the end
            tokens[1, 0] = tokens[1, T // 2] = V - 1
            tokens[0, T // 2] = tokens[1, -1] = 0
        if T == 2:  # neither of them again
            tokens[0] = c.rng.permutation([1, 3])
        yield dwte, dwpe, c.random(B, T, C, dtype=np.float32), tokens


# -------------------------------------------------------------------------------------------------------- rules


def every_row(tried):
    """A sentence if a table ends where the tokens or positions of this batch end, or the rows of one_hot do."""
    whose = {"dwte": "a row for every token", "dwpe": "a row for every position", "O": "V places in each row"}
    for name, right in tried.expected.items():
        way = -1 if name == "O" else 1  # it is the last axis that is V long
        mine, wanted = getattr(tried.got[name], "shape", ())[::way], right.shape[::way]
        if mine[1:] == wanted[1:] and mine[:1] < wanted[:1]:
            return f"{name} has shape {mine[::way]}, expected {right.shape}: {whose[name]}, used here or not"
    return None


def keeps_digits(tried):
    """A sentence if what should be float64 is nearly right, and all of its numbers are float32 ones."""
    for name, right in tried.expected.items():
        got = tried.got[name]
        known = right.dtype == np.float64 == getattr(got, "dtype", None) and got.shape == right.shape
        if known and np.allclose(got, right, rtol=1e-5) and np.array_equal(got, got.astype(np.float32)):
            return f"{name} is float64, but all of its numbers are rounded to float32, which has fewer digits"
    return None


# ------------------------------------------------------------------------------------------------------- tables
# POSITIONS and TOKENS stand for the edits that put something else in place of one line of a solution.

GRADIENTS = r"""
    with only the last sequence of dout: the others are lost | POSITIONS dwpe[:T] += dout[-1]
    with only the first sequence of dout: the others are lost | POSITIONS dwpe[:T] += dout[0]
    with the sum over t in place of the sum over the batch
        | POSITIONS dwpe[: len(dout)] += dout.sum(axis=1)[: len(dwpe)]
    with running sums over t | POSITIONS dwpe[:T] += dout.sum(axis=0).cumsum(axis=0)
    with the positions in reverse: row t belongs to position t | POSITIONS dwpe[:T] += dout.sum(axis=0)[::-1]
    with row n of dout (B·T, C) added at n // B: it has position n % T | POSITIONS np.add.at(dwpe, n // len(dout), dout)
    with row n of dout (B·T, C) added at n % maxT: it has position n % T
        | POSITIONS np.add.at(dwpe, n % len(dwpe), dout)
    repeated in the rows from T on, which no position of this batch uses
        | POSITIONS dwpe += np.resize(dout.sum(axis=0), dwpe.shape)
    [4.1 · Three steps] with only the last row of dout for each token: the others are lost | TOKENS dwte[tokens] += dout
    with only the first row of dout for each token: the others are lost | TOKENS dwte[ids] += rows[at]
    [4.1 · Three steps] without the repeats inside a sequence: only the last of them is left
        | TOKENS for b in range(len(dout)): dwte[tokens[b]] += dout[b]
    without the repeats inside a sequence: only the first of them is left
        | TOKENS for b in range(len(dout)): dwte[tokens[b, ::-1]] += dout[b, ::-1]
    [4.1 · Three steps] without the repeats at one position of several sequences: only the last is left
        | TOKENS for t in range(tokens.shape[1]): dwte[tokens[:, t]] += dout[:, t]
    with dout's rows matched to the wrong tokens: the rows go position by position, the tokens sequence by sequence
        | TOKENS np.add.at(dwte, tokens, dout.swapaxes(0, 1).reshape(dout.shape))
    with the last row of dout for each token, times how often it occurs | TOKENS dwte[tokens] += dout * often
    with the first row of dout for each token, times how often it occurs
        | TOKENS dwte[ids] += (dout * often).reshape(rows.shape)[at]
    times how often each token occurs | TOKENS np.add.at(dwte, tokens, dout * often)
    with the mean over the occurrences of each token, not their sum | TOKENS np.add.at(dwte, tokens, dout / often)
    with the one-hot array reshaped to (V, B·T): reshape does not transpose
        | TOKENS dwte += np.eye(len(dwte))[tokens].reshape(len(dwte), -1) @ rows
    without the last row of the sorted order | TOKENS np.add.at(dwte, tokens.ravel()[order[:-1]], rows[order[:-1]])
    [5.2 · Sort] with sums of rows in their old order: dout was not brought into the order of the sorted tokens
        | TOKENS dwte[ids] += np.add.reduceat(rows, np.searchsorted(np.sort(tokens, axis=None), ids))
    [5.2 · Sort] with sums of runs that begin at np.unique's first places, in rows that were not sorted
        | TOKENS dwte[ids] += np.add.reduceat(rows, at)
    [5.2 · Sort] with np.add.reduceat of runs of the sorted rows that begin where the tokens first occur before sorting
        | TOKENS dwte[ids] += np.add.reduceat(rows[order], at)
"""
OVER = "= the last row of dout for each token, written over what dwte held | TOKENS dwte[tokens] = dout"


def instead_of(positions, tokens, table):
    """The table for a solution with these lines. Its edits may also use other names:

    n (B, T): the number of each row of dout. ids, at (distinct,): of np.unique. often (B, T, 1): counts of the tokens.
    rows (B*T, C): of dout. order (B*T,): of the sorted tokens.
    """
    positions += " => T, n = dout.shape[1], np.arange(tokens.size).reshape(tokens.shape);"
    tokens += " => (ids, at), rows = np.unique(tokens, return_index=True), dout.reshape(tokens.size, -1)"
    tokens += r'\n    order = np.argsort(tokens, axis=None, kind="stable")'
    tokens += r"\n    often = np.bincount(tokens.ravel())[tokens][..., None]\n   "
    return table.replace("POSITIONS", positions).replace("TOKENS", tokens)


# ---------------------------------------------------------------------------------------------------- exercises

Exercise(
    "encoder_forward",
    "02",
    reference=forward,
    returns="out",
    cases=lookups,
    rules=(keeps_digits,),
    look="1 · What it does, in one picture",
    mistakes=r"""
        = wte[tokens] alone: the positions are missing | + wpe[: tokens.shape[1]] =>
        = wte[tokens] · wpe[t]: the two rows should be added, not multiplied | wte[tokens] + => wte[tokens] *
        with wpe[-T:], its last rows: positions start at 0 | wpe[: tokens.shape[1]] => wpe[-tokens.shape[1] :]
        with the positions counted from 1 | wpe[: tokens.shape[1]] => wpe[1 : tokens.shape[1] + 1]
        with the positions in reverse | wpe[: tokens.shape[1]] => wpe[: tokens.shape[1]][::-1]
        with wpe[tokens] in place of wpe[t]: a position is a place in the sequence, not a token
            | wpe[: tokens.shape[1]] => wpe[tokens]
        with wpe[b] in place of wpe[t]: b is the sequence, t the position
            | wpe[: tokens.shape[1]] => wpe[: len(tokens), None]
        with positions that go on counting from one sequence to the next
            | wpe[: tokens.shape[1]] => wpe[np.arange(tokens.size).reshape(tokens.shape) % len(wpe)]
        [2.2 · As a gather] with wte[tokens - 1]: token ids start at 0 | wte[tokens] => wte[tokens - 1]
        [2.2 · As a gather] with wte scaled by √C, which GPT-2 does not do
            | wte[tokens] => wte[tokens] * wte.shape[1] ** 0.5
    """,
)

Exercise(
    "one_hot",
    "02",
    reference=lambda tokens, V, dtype=np.float32: np.eye(V, dtype=dtype)[tokens],
    returns="O",
    cases=one_hot_rows,
    rules=(every_row,),
    look="2.1 · As a matmul with one-hot rows",
    mistakes=r"""
        = the one-hot rows of tokens - 1, with none for token 0: token ids start at 0
            | (tokens[..., None] => (tokens[..., None] - 1
        = rows that all have a 1 for every token of the batch | HOT => np.broadcast_to(HOT.any(axis=(0, 1)), HOT.shape)
        = rows that have a 1 for every token of their sequence: each position has a row of its own
            | HOT => np.broadcast_to(HOT.any(axis=1, keepdims=True), HOT.shape)
        = rows that hold how often each token occurs in their sequence: each position has a row of its own
            | HOT => np.broadcast_to(HOT.sum(axis=1, keepdims=True), HOT.shape)
        = rows that have a 1 for every token of their sequence so far: each position has a row of its own
            | HOT => np.maximum.accumulate(HOT, axis=1)
        = rows that have a 1 for the tokens of all sequences at their position: each sequence has rows of its own
            | HOT => np.broadcast_to(HOT.any(axis=0), HOT.shape)
        = rows that have a 1 for every token up to their own | == np.arange(V) => >= np.arange(V)
        = ones at the places `tokens` of the flattened array: they belong at [b, t, tokens[b, t]]
            | HOT => np.isin(np.arange(HOT.size), tokens).reshape(HOT.shape)
        = one-hot columns (B, V, T) reshaped to (B, T, V): reshape does not transpose
            | HOT => HOT.swapaxes(1, 2).reshape(HOT.shape)
        = the reference times the token: the entry is 1, whatever the token | HOT => (HOT * tokens[..., None])
    """.replace("HOT", "(tokens[..., None] == np.arange(V))"),
)

Exercise(
    "encoder_backward",
    "02",
    reference=backward,
    returns="dwte dwpe",
    cases=gradients,
    rules=(every_row, keeps_digits),
    look={"dwpe": "3.2 · The positions", "dwte": "3.3 · The tokens"},
    mistakes=instead_of(
        "dwpe[:T] = …",
        "np.add.at(dwte, tokens, dout)",
        GRADIENTS
        + r"""
            with the rows of dout added by token, not by position | POSITIONS np.add.at(dwpe, tokens, dout)
            without the last row of dout, dout[-1, -1] | TOKENS np.add.at(dwte, tokens.ravel()[:-1], rows[:-1])
            without the rows of the largest token that occurs
                | TOKENS np.add.at(dwte, tokens, dout * (tokens < tokens.max())[..., None])
        """,
    ),
)

Exercise(
    "encoder_backward_accumulate",
    "02",
    reference=lambda dwte, dwpe, dout, tokens: backward(dout, tokens, len(dwte), len(dwpe)),
    adds="dwte dwpe",
    cases=accumulating,
    look={"dwpe": "3.2 · The positions", "dwte": "3.3 · The tokens"},
    mistakes=instead_of("dwpe[: tokens.shape[1]] += …", "np.add.at(dwte, tokens, dout)", GRADIENTS + OVER),
)

Exercise(
    "fast_encoder_backward",
    "02",
    reference=lambda dwte, dwpe, dout, tokens: backward(dout, tokens, len(dwte), len(dwpe)),
    adds="dwte dwpe",
    cases=fast_gradients,
    look={"dwpe": "3.2 · The positions", "dwte": "3.3 · The tokens"},
    slow="A whole row of `dout` can be added at once, and need not be one number at a time (hint 1).",
    mistakes=instead_of(
        r"for b in range(B):\n        dwpe[:T] += dout[b]",
        r"for token, start, end in zip(found.tolist(), bounds, bounds[1:]):\n        dwte[token] += …",
        GRADIENTS + OVER,
    ),
)
