"""Answers to the exercises of lesson 02 as learners write them: right ones that look different, and wrong ones.

Each wrong answer names words that its check must say. CI runs them all;
`python -m llmc.course.authoring.answers 02` runs those of this lesson.
"""

import numba
import numpy as np

from llmc.course.authoring.answers import right, wrong

# --------------------------------------------------------------------------------------------------- 1 encoder_forward


@right("encoder_forward")
def forward_with_loops(tokens, wte, wpe):
    B, T = tokens.shape
    C = wte.shape[1]
    out = np.zeros((B, T, C), wte.dtype)
    for b in range(B):
        for t in range(T):
            for c in range(C):
                out[b, t, c] = wte[tokens[b, t], c] + wpe[t, c]
    return out


@right("encoder_forward")
def forward_as_a_matmul(tokens, wte, wpe):
    T = tokens.shape[1]
    return np.eye(len(wte), dtype=wte.dtype)[tokens] @ wte + np.eye(T, len(wpe), dtype=wpe.dtype) @ wpe


@wrong("encoder_forward", says="with `tokens.shape[1]` in place of `min(tokens.shape[1], 64)`")
def forward_of_64_positions(tokens, wte, wpe):
    out = wte[tokens]
    for t in range(min(tokens.shape[1], 64)):
        out[:, t] += wpe[t]
    return out


@wrong("encoder_forward", says="out has dtype float64, expected float32")
def forward_as_an_array_of_float64(tokens, wte, wpe):
    rows = []
    for sentence in tokens:
        rows.append([wte[token] + wpe[t] for t, token in enumerate(sentence)])
    return np.array(rows, dtype=np.float64)


# ----------------------------------------------------------------------------------------------------------- 2 one_hot


@right("one_hot")
def one_hot_with_loops(tokens, V, dtype=np.float32):
    B, T = tokens.shape
    out = np.zeros((B, T, V), dtype)
    for b in range(B):
        for t in range(T):
            out[b, t, tokens[b, t]] = 1
    return out


@right("one_hot")
def one_hot_with_put_along_axis(tokens, V, dtype=np.float32):
    out = np.zeros((*tokens.shape, V), dtype=dtype)
    np.put_along_axis(out, tokens[:, :, None], 1, axis=2)
    return out


@wrong("one_hot", says="O equals one-hot columns (B, V, T) reshaped to (B, T, V): reshape does not transpose")
def one_hot_columns_reshaped(tokens, V, dtype=np.float32):
    B, T = tokens.shape
    columns = np.zeros((B, V, T), dtype)
    for b in range(B):
        columns[b, tokens[b], np.arange(T)] = 1
    return columns.reshape(B, T, V)


@wrong("one_hot", says="O is all zeros")
def one_hot_in_a_copy(tokens, V, dtype=np.float32):
    B, T = tokens.shape
    flat = np.zeros((B * T, V), dtype)
    flat[np.arange(B * T)][:, tokens.ravel()] = 1
    return flat.reshape(B, T, V)


@wrong("one_hot", says="assignment destination is read-only")
def one_hot_into_a_broadcast_view(tokens, V, dtype=np.float32):
    B, T = tokens.shape
    O = np.broadcast_to(np.zeros(V, dtype), (B, T, V))
    for b in range(B):
        for t in range(T):
            O[b, t, tokens[b, t]] = 1
    return O


# -------------------------------------------------------------------------------------------------- 3 encoder_backward


@right("encoder_backward")
def backward_by_sorting(dout, tokens, V, maxT):
    B, T, C = dout.shape
    flat = tokens.ravel()
    order = np.argsort(flat)
    found, starts = np.unique(flat[order], return_index=True)
    dwte = np.zeros((V, C), dout.dtype)
    dwte[found] += np.add.reduceat(dout.reshape(-1, C)[order], starts, axis=0)
    return dwte, np.concatenate([dout.sum(0), np.zeros((maxT - T, C), dout.dtype)])


@right("encoder_backward")
def backward_token_by_token(dout, tokens, V, maxT):
    dwte = np.stack([dout[tokens == v].sum(axis=0) for v in range(V)])
    dwpe = np.pad(np.einsum("btc->tc", dout), ((0, maxT - dout.shape[1]), (0, 0)))
    return dwte, dwpe


def _dwpe(dout, maxT):
    """dwpe as it should be: these answers go wrong elsewhere."""
    dwpe = np.zeros((maxT, dout.shape[2]), dout.dtype)
    dwpe[: dout.shape[1]] = dout.sum(axis=0)
    return dwpe


def _dwte(dout, tokens, V):
    """dwte as it should be."""
    dwte = np.zeros((V, dout.shape[2]), dout.dtype)
    np.add.at(dwte, tokens, dout)
    return dwte


@wrong("encoder_backward", says="the rows go position by position, the tokens sequence by sequence")
def backward_flattens_tokens_and_dout_differently(dout, tokens, V, maxT):
    B, T, C = dout.shape
    chosen = np.eye(V, dtype=dout.dtype)[tokens.ravel()]
    return chosen.T @ dout.transpose(1, 0, 2).reshape(-1, C), _dwpe(dout, maxT)


@wrong("encoder_backward", says="dwpe equals the reference with running sums over t")
def backward_never_starts_its_sum_again(dout, tokens, V, maxT):
    dwpe = np.zeros((maxT, dout.shape[-1]), dout.dtype)
    for sequence in dout:
        total = np.zeros_like(sequence[0])
        for t, row in enumerate(sequence):
            total = total + row
            dwpe[t] += total
    return _dwte(dout, tokens, V), dwpe


@wrong("encoder_backward", says="dwte is float64, but all of its numbers are rounded to float32")
def backward_in_float32(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwte = np.zeros((V, C), np.float32)
    dwpe = np.zeros((maxT, C), np.float32)
    for b, t in np.ndindex(B, T):
        dwte[tokens[b, t]] += dout[b, t]
        dwpe[t] += dout[b, t]
    return dwte.astype(dout.dtype), dwpe.astype(dout.dtype)


# --------------------------------------------------------------------------------------- 4 encoder_backward_accumulate


@right("encoder_backward_accumulate")
def accumulate_with_loops(dwte, dwpe, dout, tokens):
    for b in range(len(tokens)):
        for t, token in enumerate(tokens[b]):
            dwte[token] += dout[b, t]
            dwpe[t] += dout[b, t]


@right("encoder_backward_accumulate")
def accumulate_with_bincount(dwte, dwpe, dout, tokens):
    for c in range(dout.shape[2]):
        dwte[:, c] += np.bincount(tokens.reshape(-1), weights=dout[:, :, c].reshape(-1), minlength=len(dwte))
        dwpe[: dout.shape[1], c] += dout[:, :, c].sum(axis=0)


@wrong("encoder_backward_accumulate", says="dwte was never written")
def accumulate_adds_to_a_copy(dwte, dwpe, dout, tokens):
    dwpe[: dout.shape[1]] += dout.sum(axis=0)
    rows = dwte[np.arange(len(dwte))]  # index arrays copy
    np.add.at(rows, tokens, dout)


@wrong("encoder_backward_accumulate", says="with dwte (11, 7), words (24,), dout (3, 8, 7)")
def accumulate_of_a_short_bincount(dwte, dwpe, dout, tokens):
    words = tokens.reshape(-1)
    for channel in range(dout.shape[2]):
        dwte[:, channel] += np.bincount(words, weights=dout[:, :, channel].reshape(-1))
    for t in range(dout.shape[1]):
        dwpe[t] += dout[:, t].sum(axis=0)


@wrong("encoder_backward_accumulate", says="with `min(t, len(dwpe) - 1)` in place of `min(n, len(dwpe) - 1)`")
def accumulate_never_begins_a_new_sequence(dwte, dwpe, dout, tokens):
    n = 0
    for b, t in np.ndindex(tokens.shape):
        dwpe[min(n, len(dwpe) - 1)] += dout[b, t]
        dwte[tokens[b, t]] += dout[b, t]
        n += 1


# --------------------------------------------------------------------------------------------- 5 fast_encoder_backward


@right("fast_encoder_backward")
def fast_with_a_plain_loop(dwte, dwpe, dout, tokens):
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)
    for token, row in zip(tokens.reshape(-1).tolist(), dout.reshape(-1, dout.shape[2])):
        dwte[token] += row


@right("fast_encoder_backward")
def fast_row_by_row_into_a_list_of_views(dwte, dwpe, dout, tokens):
    for sentence, rows in zip(tokens.tolist(), dout):
        dwpe[: len(rows)] += rows
        for into, row in zip(map(dwte.__getitem__, sentence), rows):
            np.add(into, row, into)


@wrong(
    "fast_encoder_backward",
    says="with `ordered` in place of `np.diff(ordered)`",
)
def fast_with_runs_that_begin_one_too_early(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    dwpe[:T] += dout.sum(axis=0)
    order = np.argsort(tokens.ravel(), kind="stable")
    ordered, rows = tokens.ravel()[order], dout.reshape(B * T, C)[order]
    borders = np.flatnonzero(np.diff(ordered))
    edges = [0, *borders, len(ordered)]
    for start, end in zip(edges, edges[1:]):
        dwte[ordered[end - 1]] += rows[start:end].sum(axis=0)


_kept = {}


@wrong("fast_encoder_backward", says="its first call would be right: it keeps something from one call to the next")
def fast_sorts_each_shape_once(dwte, dwpe, dout, tokens):
    order = _kept.setdefault(tokens.shape, np.argsort(tokens.reshape(-1), kind="stable"))
    flat, rows = tokens.reshape(-1)[order], dout.reshape(tokens.size, -1)[order]
    found, starts = np.unique(flat, return_index=True)
    for token, run in zip(found, np.split(rows, starts[1:])):
        dwte[token] += run.sum(axis=0)
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)


@wrong("fast_encoder_backward", says="a race: turns 0 and 1 of the prange both read and write dwpe[0, 0]")
def fast_with_threads_that_share_rows(dwte, dwpe, dout, tokens):
    threads_that_share_rows(dwte, dwpe, dout, tokens)


@numba.njit(parallel=True)
def threads_that_share_rows(dwte, dwpe, dout, tokens):
    for b in numba.prange(tokens.shape[0]):
        for t in range(tokens.shape[1]):
            for c in range(dout.shape[2]):
                dwte[tokens[b, t], c] += dout[b, t, c]
                dwpe[t, c] += dout[b, t, c]
