"""Answers to the exercises of lesson 02 as learners write them: right ones that look different, and wrong ones.

Each wrong answer names words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 02` runs those of this lesson.
"""

import numba
import numpy as np

from llmc.course.old.authoring.answers import right, wrong

# ------------------------------------------------------------------------------------------- 1 encoder_forward


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
def forward_with_take_and_positions(tokens, wte, wpe):
    out = np.take(wte, tokens, axis=0)
    positions = np.arange(tokens.shape[1])
    out += np.expand_dims(wpe[positions], 0)
    return out


@right("encoder_forward")
def forward_as_a_matmul(tokens, wte, wpe):
    T = tokens.shape[1]
    return np.eye(len(wte), dtype=wte.dtype)[tokens] @ wte + np.eye(T, len(wpe), dtype=wpe.dtype) @ wpe


@wrong("encoder_forward", says="out equals wte[tokens] alone: the positions are missing")
def forward_forgets_positions(tokens, wte, wpe):
    return wte[tokens]


@wrong("encoder_forward", says="wpe[tokens] in place of wpe[t]")
def forward_looks_up_tokens_twice(tokens, wte, wpe):
    return wte[tokens] + wpe[tokens]


@wrong("encoder_forward", says="with wte (11, 7), tokens (3, 5), wpe (16, 7)")
def forward_adds_all_positions(tokens, wte, wpe):
    return wte[tokens] + wpe


@wrong("encoder_forward", says="out equals the reference with wpe[-T:], its last rows")
def forward_takes_the_last_positions(tokens, wte, wpe):
    return wte[tokens] + wpe[-tokens.shape[1] :]


@wrong("encoder_forward", says="out equals the reference with the positions counted from 1")
def forward_counts_positions_from_one(tokens, wte, wpe):
    return wte[tokens] + wpe[1 : tokens.shape[1] + 1]


@wrong("encoder_forward", says="the reference with wpe[b] in place of wpe[t]")
def forward_loops_over_the_wrong_axis(tokens, wte, wpe):
    out = wte[tokens]
    for b in range(tokens.shape[0]):
        out[b] += wpe[b]
    return out


@wrong("encoder_forward", says="positions that go on counting from one sequence to the next")
def forward_counts_on(tokens, wte, wpe):
    positions = np.arange(tokens.size).reshape(tokens.shape)
    return wte[tokens] + wpe[positions]


@wrong("encoder_forward", says="wte scaled by √C")
def forward_scales_as_the_first_transformer(tokens, wte, wpe):
    return wte[tokens] * np.sqrt(wte.shape[1]) + wpe[: tokens.shape[1]]


@wrong("encoder_forward", says="out equals the reference with wte[tokens - 1]: token ids start at 0")
def forward_counts_tokens_from_one(tokens, wte, wpe):
    return wte[tokens - 1] + wpe[: tokens.shape[1]]


@wrong("encoder_forward", says="An input was written to")
def forward_writes_into_the_table(tokens, wte, wpe):
    for v in range(len(wte)):
        wte[v] += wpe[0]
    return wte[tokens]


@wrong("encoder_forward", says="out is None: nothing was returned for it")
def forward_returns_nothing(tokens, wte, wpe):
    out = wte[tokens] + wpe[: tokens.shape[1]]  # noqa: F841


@wrong("encoder_forward", says="out for float32 inputs has dtype float64, expected float32")
def forward_in_float64(tokens, wte, wpe):
    B, T = tokens.shape
    out = np.zeros((B, T, wte.shape[1]))
    out += wte[tokens]
    out += wpe[:T]
    return out


@wrong("encoder_forward", says="your code uses llmc.backends")
def forward_calls_the_package(tokens, wte, wpe):
    from llmc.backends import reference

    out = np.empty((*tokens.shape, wte.shape[1]), wte.dtype)
    reference.encoder_forward(out, tokens, wte, wpe)
    return out


# ----------------------------------------------------------------------------------------------------- 2 one_hot


@right("one_hot")
def one_hot_from_the_identity(tokens, V, dtype=np.float32):
    return np.eye(V, dtype=dtype)[tokens]


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


@wrong("one_hot", says="O equals rows that all have a 1 for every token of the batch")
def one_hot_marks_the_whole_batch(tokens, V, dtype=np.float32):
    out = np.zeros((*tokens.shape, V), dtype)
    out[:, :, tokens] = 1
    return out


@wrong("one_hot", says="rows that have a 1 for every token of their sequence")
def one_hot_marks_the_sequence(tokens, V, dtype=np.float32):
    out = np.zeros((*tokens.shape, V), dtype)
    for b in range(len(tokens)):
        out[b, :, tokens[b]] = 1
    return out


@wrong("one_hot", says="ones at the places `tokens` of the flattened array: they belong at [b, t, tokens[b, t]]")
def one_hot_put_into_the_flattened_array(tokens, V, dtype=np.float32):
    out = np.zeros((*tokens.shape, V), dtype)
    np.put(out, tokens, 1)
    return out


@wrong("one_hot", says="expected (B, T, V) = (3, 5, 11)")
def one_hot_asks_the_tokens_for_v(tokens, V, dtype=np.float32):
    return np.eye(tokens.max() + 1, dtype=dtype)[tokens]


@wrong("one_hot", says="O has shape (3, 11, 5), expected (3, 5, 11). Its axes 1 and 2 are exchanged")
def one_hot_with_axes_swapped(tokens, V, dtype=np.float32):
    return (tokens[:, None, :] == np.arange(V)[:, None]).astype(dtype)


@wrong("one_hot", says="O has dtype bool, expected float32, the default of dtype")
def one_hot_of_booleans(tokens, V, dtype=np.float32):
    return tokens[..., None] == np.arange(V)


@wrong("one_hot", says="O has dtype float64, expected float32, the default of dtype")
def one_hot_forgets_dtype(tokens, V, dtype=np.float32):
    return np.eye(V)[tokens]


@wrong("one_hot", says="O with dtype=np.float64 has dtype float32")
def one_hot_with_its_own_dtype(tokens, V, dtype=np.float32):
    return (tokens[..., None] == np.arange(V)).astype(np.float32)


@wrong("one_hot", says="tokens (3, 5)")
def one_hot_does_not_broadcast(tokens, V, dtype=np.float32):
    return (tokens == np.arange(V)).astype(dtype)


@wrong("one_hot", says="O equals the one-hot rows of tokens - 1")
def one_hot_counts_from_one(tokens, V, dtype=np.float32):
    return (tokens[..., None] == np.arange(1, V + 1)).astype(dtype)


@wrong("one_hot", says="O equals the reference times the token")
def one_hot_keeps_the_token(tokens, V, dtype=np.float32):
    return np.where(tokens[..., None] == np.arange(V), tokens[..., None], 0).astype(dtype)


@wrong("one_hot", says="O equals 1 minus the reference")
def one_hot_inverted(tokens, V, dtype=np.float32):
    return (tokens[..., None] != np.arange(V)).astype(dtype)


@wrong("one_hot", says="a 1 for every token of their sequence so far")
def one_hot_of_all_tokens_so_far(tokens, V, dtype=np.float32):
    B, T = tokens.shape
    O = np.zeros((B, T, V), dtype)
    for b in range(B):
        for t in range(T):
            O[b, t:, tokens[b, t]] = 1
    return O


# ------------------------------------------------------------------------------------------ 3 encoder_backward


@wrong("one_hot", says="O equals rows that have a 1 for every token up to their own")
def hot_up_to_the_token(tokens, V, dtype=np.float32):
    return (tokens[:, :, None] >= np.arange(V)).astype(dtype)


@wrong("one_hot", says="V places in each row, also for tokens that do not occur here")
def hot_without_the_last_places(tokens, V, dtype=np.float32):
    return np.eye(int(tokens.max()) + 1, dtype=dtype)[tokens]


@right("encoder_backward")
def backward_with_loops(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwte, dwpe = np.zeros((V, C), dout.dtype), np.zeros((maxT, C), dout.dtype)
    for b in range(B):
        for t in range(T):
            dwte[tokens[b, t]] += dout[b, t]
            dwpe[t] += dout[b, t]
    return dwte, dwpe


@right("encoder_backward")
def backward_as_matmuls(dout, tokens, V, maxT):
    B, T, C = dout.shape
    one_hot = np.eye(V, dtype=dout.dtype)[tokens.reshape(-1)]
    places = np.eye(maxT, dtype=dout.dtype)[np.tile(np.arange(T), B)]
    rows = dout.reshape(-1, C)
    return one_hot.T @ rows, places.T @ rows


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


@wrong("encoder_backward", says="dwte equals the last row of dout for each token")
def backward_with_fancy_plus_equals(dout, tokens, V, maxT):
    dwte = np.zeros((V, dout.shape[2]), dout.dtype)
    dwte[tokens] += dout
    return dwte, _dwpe(dout, maxT)


@wrong("encoder_backward", says='lesson 02, section "3.3 · The tokens"')
def backward_assigns(dout, tokens, V, maxT):
    dwte = np.zeros((V, dout.shape[2]), dout.dtype)
    for b in range(dout.shape[0]):
        for t in range(dout.shape[1]):
            dwte[tokens[b, t]] = dout[b, t]
    return dwte, _dwpe(dout, maxT)


@wrong("encoder_backward", says="dwte equals the reference without the repeats inside a sequence")
def backward_loops_over_sequences(dout, tokens, V, maxT):
    dwte = np.zeros((V, dout.shape[2]), dout.dtype)
    for b in range(len(tokens)):
        dwte[tokens[b]] += dout[b]
    return dwte, _dwpe(dout, maxT)


@wrong("encoder_backward", says="without the repeats at the same position of several sequences")
def backward_loops_over_time(dout, tokens, V, maxT):
    dwte = np.zeros((V, dout.shape[2]), dout.dtype)
    for t in range(tokens.shape[1]):
        dwte[tokens[:, t]] += dout[:, t]
    return dwte, _dwpe(dout, maxT)


@wrong("encoder_backward", says="dwte equals the first row of dout for each token")
def backward_keeps_the_first(dout, tokens, V, maxT):
    found, first = np.unique(tokens, return_index=True)
    dwte = np.zeros((V, dout.shape[2]), dout.dtype)
    dwte[found] += dout.reshape(-1, dout.shape[2])[first]
    return dwte, _dwpe(dout, maxT)


@wrong("encoder_backward", says="dwte equals the mean over the occurrences of each token: it should be their sum")
def backward_averages_tokens(dout, tokens, V, maxT):
    dwte = np.zeros((V, dout.shape[2]), dout.dtype)
    for v in np.unique(tokens):
        dwte[v] = dout[tokens == v].mean(axis=0)
    return dwte, _dwpe(dout, maxT)


@wrong("encoder_backward", says="sums of runs that begin at np.unique's first places, in rows that were not sorted")
def backward_does_not_sort(dout, tokens, V, maxT):
    rows = dout.reshape(-1, dout.shape[2])
    found, starts = np.unique(tokens.reshape(-1), return_index=True)
    dwte = np.zeros((V, dout.shape[2]), dout.dtype)
    dwte[found] = np.add.reduceat(rows, starts, axis=0)
    return dwte, _dwpe(dout, maxT)


@wrong("encoder_backward", says="dout was not brought into the order of the sorted tokens")
def backward_sorts_tokens_only(dout, tokens, V, maxT):
    rows = dout.reshape(-1, dout.shape[2])
    found, starts = np.unique(np.sort(tokens.reshape(-1)), return_index=True)
    dwte = np.zeros((V, dout.shape[2]), dout.dtype)
    dwte[found] = np.add.reduceat(rows, starts, axis=0)
    return dwte, _dwpe(dout, maxT)


@wrong("encoder_backward", says="np.empty is not np.zeros")
def backward_in_uncleared_memory(dout, tokens, V, maxT):
    dwte = np.empty((V, dout.shape[2]), dout.dtype)
    np.add.at(dwte, tokens, dout)
    return dwte, _dwpe(dout, maxT)


@wrong(
    "encoder_backward", says="dwte equals the reference in the rows that are used, and memory that was never cleared"
)
def backward_fills_the_used_rows_alone(dout, tokens, V, maxT):
    dwte = np.empty((V, dout.shape[2]), dout.dtype)
    for v in np.unique(tokens):
        dwte[v] = dout[tokens == v].sum(axis=0)
    return dwte, _dwpe(dout, maxT)


@wrong(
    "encoder_backward", says="dwpe equals the reference in the rows that are used, and memory that was never cleared"
)
def backward_fills_the_used_positions_alone(dout, tokens, V, maxT):
    dwpe = np.empty((maxT, dout.shape[2]), dout.dtype)
    dwpe[: dout.shape[1]] = dout.sum(axis=0)
    return _dwte(dout, tokens, V), dwpe


@wrong("encoder_backward", says="expected (11, 7): a row for every token")
def backward_makes_rows_for_this_batch(dout, tokens, V, maxT):
    return _dwte(dout, tokens, tokens.max() + 1), _dwpe(dout, maxT)


@wrong("encoder_backward", says="dwpe has shape (5, 7), expected (16, 7): a row for every position")
def backward_returns_used_positions(dout, tokens, V, maxT):
    return _dwte(dout, tokens, V), dout.sum(axis=0)


@wrong("encoder_backward", says="dwpe is 1/B [B = 3] times what it should be")
def backward_averages_the_batch(dout, tokens, V, maxT):
    dwpe = np.zeros((maxT, dout.shape[2]), dout.dtype)
    dwpe[: dout.shape[1]] = dout.mean(axis=0)
    return _dwte(dout, tokens, V), dwpe


@wrong("encoder_backward", says="dwpe equals the last sequence of dout: the others are lost")
def backward_indexes_positions(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwpe = np.zeros((maxT, C), dout.dtype)
    dwpe[np.tile(np.arange(T), (B, 1))] += dout
    return _dwte(dout, tokens, V), dwpe


@wrong("encoder_backward", says="dwpe equals the sum over t in place of the sum over the batch")
def backward_sums_over_time(dout, tokens, V, maxT):
    dwpe = np.zeros((maxT, dout.shape[2]), dout.dtype)
    dwpe[: dout.shape[0]] = dout.sum(axis=1)
    return _dwte(dout, tokens, V), dwpe


@wrong("encoder_backward", says="dwpe equals dwte: its rows were placed by token, not by position")
def backward_places_positions_by_token(dout, tokens, V, maxT):
    dwpe = np.zeros((maxT, dout.shape[2]), dout.dtype)
    np.add.at(dwpe, tokens, dout)
    return _dwte(dout, tokens, V), dwpe


@wrong("encoder_backward", says="with dwpe (16, 7), dout (3, 5, 7)")
def backward_forgets_the_shorter_batch(dout, tokens, V, maxT):
    dwpe = np.zeros((maxT, dout.shape[2]), dout.dtype)
    dwpe += dout.sum(axis=0)
    return _dwte(dout, tokens, V), dwpe


@wrong("encoder_backward", says="dwte for float32 inputs has dtype float64, expected float32")
def backward_in_float64(dout, tokens, V, maxT):
    dwte, dwpe = np.zeros((V, dout.shape[2])), np.zeros((maxT, dout.shape[2]))
    np.add.at(dwte, tokens, dout)
    dwpe[: dout.shape[1]] = dout.sum(axis=0)
    return dwte, dwpe


@wrong("encoder_backward", says="only the first of them is left")
def backward_takes_the_first_of_each_sentence(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwte = np.zeros((V, C), dout.dtype)
    dwpe = np.zeros((maxT, C), dout.dtype)
    for sentence, grads in zip(tokens.tolist(), dout):
        dwpe[:T] += grads
        for token in set(sentence):
            dwte[token] += grads[sentence.index(token)]
    return dwte, dwpe


@wrong("encoder_backward", says="the reference, repeated in the rows from T on")
def backward_repeats_the_positions(dout, tokens, V, maxT):
    C = dout.shape[-1]
    dwte = np.zeros((V, C), dout.dtype)
    np.add.at(dwte, tokens, dout)
    dwpe = np.resize(dout.sum(axis=0), (maxT, C))
    return dwte, dwpe


@wrong("encoder_backward", says="the last row of dout for each token, times how often it occurs")
def backward_multiplies_the_last_by_the_count(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwte, dwpe = np.zeros((V, C), dout.dtype), np.zeros((maxT, C), dout.dtype)
    n = np.bincount(tokens.ravel(), minlength=V)
    dwte[tokens] = dout
    dwte *= n[:, None]
    dwpe[:T] = dout.sum(0)
    return dwte, dwpe


@wrong("encoder_backward", says="the reference with the positions in reverse")
def backward_reverses_the_positions(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwte, dwpe = np.zeros((V, C), dout.dtype), np.zeros((maxT, C), dout.dtype)
    np.add.at(dwte, tokens, dout)
    for t in range(T):
        dwpe[t] = dout[:, T - 1 - t].sum(0)
    return dwte, dwpe


@wrong("encoder_backward", says="the first row of a token in its sequence in place of the rows of its repeats")
def backward_looks_each_token_up_in_its_sentence(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwte, dwpe = np.zeros((V, C), dout.dtype), np.zeros((maxT, C), dout.dtype)
    dwpe[:T] = dout.sum(0)
    for b in range(B):
        for t in range(T):
            dwte[tokens[b, t]] += dout[b, tokens[b].tolist().index(tokens[b, t])]
    return dwte, dwpe


# ------------------------------------------------------------------------------- 4 encoder_backward_accumulate


@right("encoder_backward_accumulate")
def accumulate_with_loops(dwte, dwpe, dout, tokens):
    for b in range(len(tokens)):
        for t, token in enumerate(tokens[b]):
            dwte[token] += dout[b, t]
            dwpe[t] += dout[b, t]


@right("encoder_backward_accumulate")
def accumulate_own_tables_first(dwte, dwpe, dout, tokens):
    dwte += _dwte(dout, tokens, len(dwte))
    np.add(dwpe, _dwpe(dout, len(dwpe)), out=dwpe)
    return dwte, dwpe


@right("encoder_backward_accumulate")
def accumulate_with_bincount(dwte, dwpe, dout, tokens):
    for c in range(dout.shape[2]):
        dwte[:, c] += np.bincount(tokens.reshape(-1), weights=dout[:, :, c].reshape(-1), minlength=len(dwte))
        dwpe[: dout.shape[1], c] += dout[:, :, c].sum(axis=0)


@wrong("encoder_backward_accumulate", says="dwte equals the last row of dout for each token: the other rows")
def accumulate_with_fancy_plus_equals(dwte, dwpe, dout, tokens):
    dwpe[: dout.shape[1]] += dout.sum(axis=0)
    dwte[tokens] += dout


@wrong("encoder_backward_accumulate", says="the last row of dout for each token, written over what dwte held")
def accumulate_with_fancy_assignment(dwte, dwpe, dout, tokens):
    dwpe[: dout.shape[1]] += dout.sum(axis=0)
    dwte[tokens] = dout


@wrong("encoder_backward_accumulate", says="dwpe was never written")
def accumulate_rebinds_names(dwte, dwpe, dout, tokens):
    dwte = dwte + _dwte(dout, tokens, len(dwte))
    dwpe = dwpe + _dwpe(dout, len(dwpe))
    return dwte, dwpe


@wrong("encoder_backward_accumulate", says="dwpe equals the reference in rows that were overwritten instead of")
def accumulate_overwrites_positions(dwte, dwpe, dout, tokens):
    dwpe[: dout.shape[1]] = dout.sum(axis=0)
    np.add.at(dwte, tokens, dout)


@wrong("encoder_backward_accumulate", says="dwte equals the reference in rows that were overwritten instead of")
def accumulate_overwrites_found_rows(dwte, dwpe, dout, tokens):
    dwpe[: dout.shape[1]] += dout.sum(axis=0)
    for v in np.unique(tokens):
        dwte[v] = dout[tokens == v].sum(axis=0)


@wrong("encoder_backward_accumulate", says="dwte was overwritten instead of accumulated")
def accumulate_clears_first(dwte, dwpe, dout, tokens):
    dwpe[: dout.shape[1]] += dout.sum(axis=0)
    dwte[...] = 0
    np.add.at(dwte, tokens, dout)


@wrong("encoder_backward_accumulate", says="dwte was never written")
def accumulate_adds_to_a_copy(dwte, dwpe, dout, tokens):
    dwpe[: dout.shape[1]] += dout.sum(axis=0)
    rows = dwte[np.arange(len(dwte))]  # index arrays copy
    np.add.at(rows, tokens, dout)


@wrong("encoder_backward_accumulate", says="with dwpe (8, 7), dout (3, 5, 7)")
def accumulate_into_all_positions(dwte, dwpe, dout, tokens):
    dwpe += dout.sum(axis=0)
    np.add.at(dwte, tokens, dout)


@wrong("encoder_backward_accumulate", says="dwpe equals the last sequence of dout: the others are lost")
def accumulate_keeps_one_sequence(dwte, dwpe, dout, tokens):
    positions = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
    dwpe[positions] += dout
    np.add.at(dwte, tokens, dout)


@wrong("encoder_backward_accumulate", says="dwte is 2 times what it should be")
def accumulate_adds_twice(dwte, dwpe, dout, tokens):
    np.add.at(dwte, tokens, dout)
    dwpe[: dout.shape[1]] += dout.sum(axis=0)
    dwte += _dwte(dout, tokens, len(dwte))


@wrong("encoder_backward_accumulate", says="the reference times B = 3")
def accumulate_adds_the_whole_sum_each_time(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    for b in range(B):
        dwpe[:T] += dout.sum(axis=0)
        for t in range(T):
            dwte[tokens[b, t]] += dout[b, t]


@wrong("encoder_backward_accumulate", says="the reference times how often each token occurs")
def accumulate_adds_each_sum_at_every_occurrence(dwte, dwpe, dout, tokens):
    T = tokens.shape[1]
    dwpe[:T] += dout.sum(0)
    for v in tokens.ravel():
        dwte[v] += dout[tokens == v].sum(0)


# ------------------------------------------------------------------------------------- 5 fast_encoder_backward


@right("fast_encoder_backward")
def fast_with_a_plain_loop(dwte, dwpe, dout, tokens):
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)
    for token, row in zip(tokens.reshape(-1).tolist(), dout.reshape(-1, dout.shape[2])):
        dwte[token] += row


@right("fast_encoder_backward")
def fast_in_rounds_without_repeats(dwte, dwpe, dout, tokens):
    # the k-th occurrences of all tokens are different tokens: += is right for them
    B, T, C = dout.shape
    dwpe[:T] += np.add.reduce(dout, axis=0)
    flat, rows = tokens.reshape(-1), dout.reshape(-1, C)
    order = np.argsort(flat, kind="stable")
    _, starts, counts = np.unique(flat[order], return_index=True, return_counts=True)
    occurrence = np.arange(flat.size) - np.repeat(starts, counts)
    by_round = np.argsort(occurrence, kind="stable")
    bounds = np.append(0, np.cumsum(np.bincount(occurrence))).tolist()
    for start, end in zip(bounds, bounds[1:]):
        chosen = order[by_round[start:end]]
        dwte[flat[chosen]] += rows[chosen]


@right("fast_encoder_backward")
def fast_with_sums_of_runs(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    dwpe[:T] += dout.sum(axis=0)
    flat, rows = tokens.reshape(-1), dout.reshape(-1, C)
    order = np.argsort(flat, kind="stable")
    cuts = np.flatnonzero(np.diff(flat[order])) + 1
    for places in np.split(order, cuts):
        dwte[flat[places[0]]] += rows[places].sum(axis=0)


@wrong("fast_encoder_backward", says="right, but it is")
def fast_sequence_by_sequence(dwte, dwpe, dout, tokens):
    for ids, rows in zip(tokens, dout):
        np.add.at(dwte, ids, rows)
        dwpe[: len(ids)] += rows


@wrong("fast_encoder_backward", says="A whole row of `dout` can be added at once")
def fast_with_an_index_for_each_number(dwte, dwpe, dout, tokens):
    np.add.at(dwte, (tokens[:, :, None], np.arange(dout.shape[2])), dout)
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)


@wrong("fast_encoder_backward", says="dwte equals the last row of dout for each token: the other rows")
def fast_with_fancy_plus_equals(dwte, dwpe, dout, tokens):
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)
    dwte[tokens] += dout


@wrong("fast_encoder_backward", says="dout was not brought into the order of the sorted tokens")
def fast_sorts_tokens_only(dwte, dwpe, dout, tokens):
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)
    found, starts = np.unique(np.sort(tokens.reshape(-1)), return_index=True)
    dwte[found] += np.add.reduceat(dout.reshape(-1, dout.shape[2]), starts, axis=0)


@wrong("fast_encoder_backward", says="without the repeats inside a sequence")
def fast_one_sequence_at_a_time(dwte, dwpe, dout, tokens):
    for ids, rows in zip(tokens, dout):
        dwte[ids] += rows
        dwpe[: len(ids)] += rows


@wrong("fast_encoder_backward", says="dwte equals the reference in rows that were overwritten instead of accumulated")
def fast_overwrites_rows(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    dwpe[:T] += dout.sum(axis=0)
    flat = tokens.reshape(-1)
    order = np.argsort(flat, kind="stable")
    found, starts = np.unique(flat[order], return_index=True)
    dwte[found] = np.add.reduceat(dout.reshape(-1, C)[order], starts, axis=0)


@wrong("fast_encoder_backward", says="what was added to dwte equals the reference without the last row of the sorted")
def fast_drops_the_last_run(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    dwpe[:T] += dout.sum(axis=0)
    flat, rows = tokens.reshape(-1), dout.reshape(-1, C)
    order = np.argsort(flat, kind="stable")
    found, starts = np.unique(flat[order], return_index=True)
    for token, start, end in zip(found, starts, [*starts[1:], -1]):
        dwte[token] += rows[order[start:end]].sum(axis=0)


@wrong("fast_encoder_backward", says="dwpe was never written")
def fast_forgets_positions(dwte, dwpe, dout, tokens):
    for token, row in zip(tokens.reshape(-1).tolist(), dout.reshape(-1, dout.shape[2])):
        dwte[token] += row


# ------------------------------------------------------------------------------- slips that a single call would hide

_kept = {}


@wrong("one_hot", says="O with dtype=np.int64 has dtype float32")
def one_hot_in_float32_unless_it_is_float64(tokens, V, dtype=np.float32):
    return (tokens[..., None] == np.arange(V)).astype(np.float64 if dtype == np.float64 else np.float32)


@wrong("encoder_backward_accumulate", says="dwte equals the reference without the last token, V - 1")
def accumulate_stops_before_the_last_token(dwte, dwpe, dout, tokens):
    for token in range(len(dwte) - 1):
        dwte[token] += dout[tokens == token].sum(axis=0)
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)


@wrong("encoder_backward", says="dwpe grows by the right values whenever the same call is made again")
def backward_into_tables_that_it_keeps(dout, tokens, V, maxT):
    tables = _kept.setdefault((dout.shape, V), (np.zeros((V, dout.shape[-1])), np.zeros((maxT, dout.shape[-1]))))
    np.add.at(tables[0], tokens, dout)
    tables[1][: tokens.shape[1]] += dout.sum(axis=0)
    return tuple(table.astype(dout.dtype) for table in tables)


@wrong("fast_encoder_backward", says="for other numbers in `tokens`, your function is right in a first call, and wrong")
def fast_sorts_each_shape_once(dwte, dwpe, dout, tokens):
    order = _kept.setdefault(tokens.shape, np.argsort(tokens.reshape(-1), kind="stable"))
    flat, rows = tokens.reshape(-1)[order], dout.reshape(tokens.size, -1)[order]
    found, starts = np.unique(flat, return_index=True)
    for token, run in zip(found, np.split(rows, starts[1:])):
        dwte[token] += run.sum(axis=0)
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)


# ------------------------------------------------------------------- slips that no list of the lesson knows by name


@wrong("encoder_backward", says="the rows go position by position, (T, B), the tokens sequence")
def backward_flattens_tokens_and_dout_differently(dout, tokens, V, maxT):
    B, T, C = dout.shape
    chosen = np.eye(V, dtype=dout.dtype)[tokens.ravel()]
    return chosen.T @ dout.transpose(1, 0, 2).reshape(-1, C), _dwpe(dout, maxT)


@wrong("encoder_backward", says="the right dwpe without the term `total`, in the line `total = total + row`")
def backward_never_starts_its_sum_again(dout, tokens, V, maxT):
    dwpe = np.zeros((maxT, dout.shape[-1]), dout.dtype)
    for sequence in dout:
        total = np.zeros_like(sequence[0])
        for t, row in enumerate(sequence):
            total = total + row
            dwpe[t] += total
    return _dwte(dout, tokens, V), dwpe


@wrong("encoder_backward", says="the two results are in the other order: return dwte, then dwpe")
def backward_returns_positions_first(dout, tokens, V, maxT):
    return _dwpe(dout, maxT), _dwte(dout, tokens, V)


@wrong("one_hot", says="one-hot columns (B, V, T) reshaped to (B, T, V)")
def one_hot_columns_reshaped(tokens, V, dtype=np.float32):
    B, T = tokens.shape
    columns = np.zeros((B, V, T), dtype)
    for b in range(B):
        columns[b, tokens[b], np.arange(T)] = 1
    return columns.reshape(B, T, V)


@wrong("fast_encoder_backward", says="the rows go position by position, (T, B), the tokens sequence")
def fast_with_rows_position_by_position(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    by_position = dout.swapaxes(0, 1)
    dwpe[:T] += by_position.sum(axis=1)
    np.add.at(dwte, tokens.ravel(), by_position.reshape(T * B, C))


@wrong("fast_encoder_backward", says="the tokens go position by position, (T, B), the rows sequence")
def fast_with_tokens_position_by_position(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    dwpe[:T] += dout.sum(axis=0)
    np.add.at(dwte, tokens.T.ravel(), dout.reshape(B * T, C))


@wrong("fast_encoder_backward", says="right dwte with 1 added to `np.flatnonzero(np.diff(ordered))`")
def fast_with_runs_that_begin_one_too_early(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    dwpe[:T] += dout.sum(axis=0)
    order = np.argsort(tokens.ravel(), kind="stable")
    ordered, rows = tokens.ravel()[order], dout.reshape(B * T, C)[order]
    borders = np.flatnonzero(np.diff(ordered))
    edges = [0, *borders, len(ordered)]
    for start, end in zip(edges, edges[1:]):
        dwte[ordered[end - 1]] += rows[start:end].sum(axis=0)


_orders = {}


@wrong("fast_encoder_backward", says="for other numbers in `tokens`, your function is right in a first call, and wrong")
def fast_with_an_order_kept_by_shape(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    if (B, T) not in _orders:
        order = np.argsort(tokens.reshape(-1), kind="stable")
        unique, starts = np.unique(tokens.reshape(-1)[order], return_index=True)
        _orders[B, T] = order, unique, np.append(starts, B * T)
    order, unique, edges = _orders[B, T]
    rows = dout.reshape(-1, C)
    dwpe[:T] += dout.sum(axis=0)
    for i, token in enumerate(unique):
        dwte[token] += rows[order[edges[i] : edges[i + 1]]].sum(axis=0)


@wrong("fast_encoder_backward", says="a race")
def fast_with_threads_that_share_rows(dwte, dwpe, dout, tokens):
    threads_that_share_rows(dwte, dwpe, dout, tokens)


@numba.njit(parallel=True)
def threads_that_share_rows(dwte, dwpe, dout, tokens):
    for b in numba.prange(tokens.shape[0]):
        for t in range(tokens.shape[1]):
            for c in range(dout.shape[2]):
                dwte[tokens[b, t], c] += dout[b, t, c]
                dwpe[t, c] += dout[b, t, c]


@wrong("fast_encoder_backward", says="operands could not be broadcast together")
def fast_with_a_table_that_ends_at_the_largest_token(dwte, dwpe, dout, tokens):
    sums = np.zeros((tokens.max() + 1, dout.shape[2]), np.float32)
    np.add.at(sums, tokens.ravel(), dout.reshape(-1, dout.shape[2]))
    dwte += sums
    dwpe[: tokens.shape[1]] += dout.sum(axis=0)


@wrong("one_hot", says="writes into a copy, which is lost: `flat[np.arange(B * T)]` makes a new array")
def one_hot_in_a_copy(tokens, V, dtype=np.float32):
    B, T = tokens.shape
    flat = np.zeros((B * T, V), dtype)
    flat[np.arange(B * T)][:, tokens.ravel()] = 1
    return flat.reshape(B, T, V)


@wrong("encoder_backward", says="added at n // B: row n has position n % T")
def backward_with_flat_rows(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwte, dwpe = np.zeros((V, C), dout.dtype), np.zeros((maxT, C), dout.dtype)
    for n, row in enumerate(dout.reshape(B * T, C)):
        dwte[tokens.flat[n]] += row
        dwpe[n // B] += row
    return dwte, dwpe


@wrong("encoder_backward", says="the reference without the largest token that occurs: its rows of dout are lost.")
def backward_loses_the_last_run(dout, tokens, V, maxT):
    B, T, C = dout.shape
    flat = tokens.ravel()
    order = np.argsort(flat, kind="stable")
    rows = dout.reshape(-1, C)[order]
    flat = flat[order]
    edges = np.flatnonzero(np.diff(flat)) + 1
    dwte = np.zeros((V, C), dout.dtype)
    start = 0
    for end in edges:
        dwte[flat[start]] = rows[start:end].sum(axis=0)
        start = end
    dwpe = np.zeros((maxT, C), dout.dtype)
    dwpe[:T] = np.einsum("btc->tc", dout)
    return dwte, dwpe


@wrong("encoder_backward", says="with `dout.dtype` in place of `np.float32` in `dwpe = np.zeros((maxT, C)")
def backward_in_float32(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwte = np.zeros((V, C), np.float32)
    dwpe = np.zeros((maxT, C), np.float32)
    for b, t in np.ndindex(B, T):
        dwte[tokens[b, t]] += dout[b, t]
        dwpe[t] += dout[b, t]
    return dwte.astype(dout.dtype), dwpe.astype(dout.dtype)


@wrong("encoder_forward", says="positions that go on counting from one sequence to the next")
def forward_numbers_the_whole_batch(tokens, wte, wpe):
    B, T = tokens.shape
    return wte[tokens] + wpe[np.arange(B * T).reshape(B, T) % len(wpe)]


@wrong("encoder_backward", says="added at n: row n has position n % T")
def backward_numbers_the_whole_batch(dout, tokens, V, maxT):
    rows = dout.reshape(-1, dout.shape[-1])
    dwte, dwpe = np.zeros((V, rows.shape[1]), dout.dtype), np.zeros((maxT, rows.shape[1]), dout.dtype)
    np.add.at(dwte, tokens.ravel(), rows)
    np.add.at(dwpe, np.arange(len(rows)) % maxT, rows)
    return dwte, dwpe


@wrong("encoder_backward_accumulate", says="added at n % maxT: row n has position n % T")
def accumulate_numbers_the_whole_batch(dwte, dwpe, dout, tokens):
    rows = dout.reshape(-1, dout.shape[-1])
    np.add.at(dwpe, np.arange(len(rows)) % len(dwpe), rows)
    np.add.at(dwte, tokens.ravel(), rows)


@wrong("encoder_backward_accumulate", says="added at min(n, maxT - 1): row n has position n % T")
def accumulate_never_begins_a_new_sequence(dwte, dwpe, dout, tokens):
    n = 0
    for b, t in np.ndindex(tokens.shape):
        dwpe[min(n, len(dwpe) - 1)] += dout[b, t]
        dwte[tokens[b, t]] += dout[b, t]
        n += 1


@wrong("encoder_backward", says="with the one-hot array reshaped to (V, B·T): reshape does not transpose")
def backward_one_hot_reshaped_for_transposed(dout, tokens, V, maxT):
    B, T, C = dout.shape
    hot = (tokens[..., None] == np.arange(V)).astype(dout.dtype)
    dwte = hot.reshape(V, B * T) @ dout.reshape(B * T, C)
    dwpe = np.zeros((maxT, C), dout.dtype)
    for t in range(T):
        dwpe[t] = dout[:, t].sum(axis=0)
    return dwte, dwpe


@wrong("encoder_backward", says="without the last row of dout, dout[-1, -1].")
def backward_without_the_last_row(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwte, dwpe = np.zeros((V, C), dout.dtype), np.zeros((maxT, C), dout.dtype)
    dwpe[:T] = dout.sum(axis=0)
    flat, rows = tokens.reshape(-1), dout.reshape(-1, C)
    for n in range(B * T - 1):
        dwte[flat[n]] += rows[n]
    return dwte, dwpe


@wrong("encoder_backward", says="without the largest token that occurs: its rows of dout are lost.")
def backward_below_the_largest_token(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwte, dwpe = np.zeros((V, C), dout.dtype), np.zeros((maxT, C), dout.dtype)
    dwpe[:T] = dout.sum(axis=0)
    for token in range(tokens.max()):
        dwte[token] = dout[tokens == token].sum(axis=0)
    return dwte, dwpe


@wrong("encoder_backward", says="off by the same amount everywhere")
def backward_on_top_of_ones(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwte, dwpe = np.ones((V, C), dout.dtype), np.zeros((maxT, C), dout.dtype)
    dwpe[:T] = dout.sum(axis=0)
    np.add.at(dwte, tokens, dout)
    return dwte, dwpe


@wrong("encoder_backward", says="without the last token, V - 1: its rows of dout are lost.")
def backward_without_the_last_token(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwte, dwpe = np.zeros((V, C), dout.dtype), np.zeros((maxT, C), dout.dtype)
    dwpe[:T] = dout.sum(axis=0)
    for token in range(V - 1):
        dwte[token] = dout[tokens == token].sum(axis=0)
    return dwte, dwpe


def _add_runs(dwte, dout, tokens, starts):
    flat, rows = tokens.reshape(-1), dout.reshape(-1, dout.shape[-1])
    order, found = np.argsort(flat, kind="stable"), np.unique(flat)
    ends = np.append(starts[1:], len(flat))
    for token, start, end in zip(found, starts, ends):
        dwte[token] += rows[order[start:end]].sum(axis=0)


@wrong("fast_encoder_backward", says="where the tokens first occur before they are sorted (in ascending order)")
def fast_with_sorted_starts_of_unsorted_tokens(dwte, dwpe, dout, tokens):
    dwpe[: dout.shape[1]] += dout.sum(axis=0)
    _add_runs(dwte, dout, tokens, np.sort(np.unique(tokens, return_index=True)[1]))


@wrong("fast_encoder_backward", says="where the tokens first occur before they are sorted")
def fast_with_starts_of_unsorted_tokens(dwte, dwpe, dout, tokens):
    dwpe[: dout.shape[1]] += dout.sum(axis=0)
    _add_runs(dwte, dout, tokens, np.unique(tokens, return_index=True)[1])


@wrong("fast_encoder_backward", says="the first row of dout for each token, times how often it occurs")
def fast_with_the_first_row_times_the_count(dwte, dwpe, dout, tokens):
    found, first, count = np.unique(tokens, return_index=True, return_counts=True)
    dwte[found] += count[:, None].astype(np.float32) * dout.reshape(-1, dout.shape[-1])[first]
    dwpe[: dout.shape[1]] += dout.sum(axis=0)


@wrong("encoder_forward", says="with `tokens.shape[1]` alone in place of `min(tokens.shape[1], 64)`")
def forward_of_64_positions(tokens, wte, wpe):
    out = wte[tokens]
    for t in range(min(tokens.shape[1], 64)):
        out[:, t] += wpe[t]
    return out


@wrong("one_hot", says="rows that have a 1 for the tokens of all sequences at their position")
def one_hot_of_all_sequences_at_t(tokens, V, dtype=np.float32):
    B, T = tokens.shape
    O = np.zeros((B, T, V), dtype)
    for t in range(T):
        O[:, t, tokens[:, t]] = 1
    return O


@wrong("one_hot", says="rows that hold how often each token occurs in their sequence")
def one_hot_of_counts(tokens, V, dtype=np.float32):
    B, T = tokens.shape
    O = np.empty((B, T, V), dtype)
    for b in range(B):
        O[b, :] = np.bincount(tokens[b], minlength=V)
    return O


@wrong(
    "encoder_backward_accumulate",
    says="what np.add.reduceat gives for runs of the sorted rows that begin where the tokens first occur",
)
def accumulate_of_unsorted_starts(dwte, dwpe, dout, tokens):
    flat = tokens.ravel()
    rows = dout.reshape(flat.size, -1)
    words, first = np.unique(flat, return_index=True)
    order = np.argsort(flat, kind="stable")
    dwte[words] += np.add.reduceat(rows[order], first, axis=0)
    dwpe[: tokens.shape[1]] += np.einsum("btc->tc", dout)


@wrong("encoder_backward_accumulate", says="as its largest index + 1, or more with `minlength=`")
def accumulate_of_a_short_bincount(dwte, dwpe, dout, tokens):
    words = tokens.reshape(-1)
    for channel in range(dout.shape[2]):
        dwte[:, channel] += np.bincount(words, weights=dout[:, :, channel].reshape(-1))
    for t in range(dout.shape[1]):
        dwpe[t] += dout[:, t].sum(axis=0)


@wrong("fast_encoder_backward", says="its rows of dout are lost.\n→")
def fast_without_the_end_of_the_last_run(dwte, dwpe, dout, tokens):
    B, T, C = dout.shape
    for sequence in dout:
        dwpe[:T] += sequence
    rows = dout.reshape(B * T, C)
    flat = tokens.reshape(-1)
    order = np.argsort(flat, kind="stable")
    by_token = flat[order]
    edges = np.flatnonzero(np.diff(by_token)) + 1
    edges = np.concatenate([[0], edges])
    ones = np.ones(B * T, dout.dtype)
    for a, b in zip(edges[:-1], edges[1:]):
        dwte[by_token[a]] += ones[a:b] @ rows[order[a:b]]


@wrong("encoder_backward", says="It still has one value for each index of axis 0: sum over it")
def backward_of_each_sequence_alone(dout, tokens, V, maxT):
    B, T, C = dout.shape
    O = np.eye(V, dtype=dout.dtype)[tokens]
    dwte = O.swapaxes(-1, -2) @ dout
    dwpe = np.zeros((maxT, C), dout.dtype)
    dwpe[:T] = dout.sum(axis=0)
    return dwte, dwpe


@wrong("encoder_backward", says="without the largest token that occurs: its rows of dout are lost.")
def backward_without_the_last_of_unique(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwte = np.zeros((V, C), dout.dtype)
    uniq = np.unique(tokens)
    for i in range(len(uniq) - 1):
        dwte[uniq[i]] = dout[tokens == uniq[i]].sum(axis=0)
    dwpe = np.zeros((maxT, C), dout.dtype)
    dwpe[:T] = dout.sum(axis=0)
    return dwte, dwpe


@wrong("one_hot", says="`O` is not an input, but a view that cannot be written to")
def one_hot_into_a_broadcast_view(tokens, V, dtype=np.float32):
    B, T = tokens.shape
    O = np.broadcast_to(np.zeros(V, dtype), (B, T, V))
    for b in range(B):
        for t in range(T):
            O[b, t, tokens[b, t]] = 1
    return O


@wrong("encoder_forward", says="expected float32. `np.array(rows, dtype=np.float64)` makes a float64 array.")
def forward_as_an_array_of_float64(tokens, wte, wpe):
    rows = []
    for sentence in tokens:
        rows.append([wte[token] + wpe[t] for t, token in enumerate(sentence)])
    return np.array(rows, dtype=np.float64)


@wrong("encoder_backward", says="dwpe has wrong values.\ndwpe[2, ")
def backward_of_positions_from_the_running_sums(dout, tokens, V, maxT):
    B, T, C = dout.shape
    dwte = np.zeros((V, C), dout.dtype)
    dwpe = np.zeros((maxT, C), dout.dtype)
    for b in range(B):
        for t, token in enumerate(tokens[b]):
            dwte[token] += dout[b, t]
            dwpe[t] = dwte[token]
    return dwte, dwpe
