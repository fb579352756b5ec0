"""Answers to the exercises of lesson 23 as strangers write them, with words that wrong ones must get."""

# ruff: noqa: F821   layernorm and gelu are those of the notebook
import heapq

import numpy as np

from llmc.course.authoring.answers import right, wrong


@right("top_p")
def top_p_with_a_loop(p, share):
    edge, held = 0.0, 0.0
    for candidate in sorted(range(len(p)), key=lambda i: -p[i]):
        if held >= share:
            break
        edge, held = p[candidate], held + p[candidate]
    out = np.zeros(len(p))
    for i in range(len(p)):
        if p[i] >= edge:
            out[i] = p[i]
    return out / out.sum()


@right("top_p")
def top_p_from_what_is_above(p, share):
    above = np.array([p[p > each].sum() for each in p])  # what lies strictly above every candidate
    q = p * (above < share)
    return q / q.sum()


@right("next_row")
def row_with_loops_over_heads(W, keys, values, t, token):
    L, NH, _, hs = keys.shape
    C = NH * hs
    x = W["wte"][token] + W["wpe"][t]
    for l in range(L):
        qkv = W["qkvw"][l].dot(layernorm(x, W["ln1w"][l], W["ln1b"][l])) + W["qkvb"][l]
        mixed = np.empty(C)
        for h in range(NH):
            part = slice(h * hs, (h + 1) * hs)
            keys[l, h, t] = qkv[C : 2 * C][part]
            values[l, h, t] = qkv[2 * C :][part]
            scores = np.array([keys[l, h, i] @ qkv[part] for i in range(t + 1)]) * hs**-0.5
            e = np.exp(scores - scores.max())
            mixed[part] = sum(w * values[l, h, i] for i, w in enumerate(e / e.sum()))
        x = x + W["attprojw"][l].dot(mixed) + W["attprojb"][l]
        hidden = gelu(W["fcw"][l].dot(layernorm(x, W["ln2w"][l], W["ln2b"][l])) + W["fcb"][l])
        x = x + W["fcprojw"][l].dot(hidden) + W["fcprojb"][l]
    return W["wte"].dot(layernorm(x, W["lnfw"], W["lnfb"]))


@right("next_row")
def row_with_the_whole_cache_masked(W, keys, values, t, token):
    L, NH, T, hs = keys.shape
    x = W["wte"][token] + W["wpe"][t]
    there = np.arange(T) <= t
    for l in range(L):
        h = layernorm(x, W["ln1w"][l], W["ln1b"][l])
        q, k, v = (W["qkvw"][l] @ h + W["qkvb"][l]).reshape(3, NH, hs)
        keys[l, :, t], values[l, :, t] = k, v
        scores = np.where(there, (keys[l] * q[:, None]).sum(-1) / np.sqrt(hs), -np.inf)  # (NH, T)
        p = np.exp(scores - scores.max(axis=1)[:, None])
        x = x + W["attprojw"][l] @ ((p / p.sum(axis=1)[:, None])[:, None] @ values[l])[:, 0].ravel() + W["attprojb"][l]
        x = x + W["fcprojw"][l] @ gelu(W["fcw"][l] @ layernorm(x, W["ln2w"][l], W["ln2b"][l]) + W["fcb"][l])
        x = x + W["fcprojb"][l]
    return W["wte"] @ layernorm(x, W["lnfw"], W["lnfb"])


@wrong("next_row", says="logits equal the reference without the largest score")
def row_overflows(W, keys, values, t, token):
    L, NH, T, hs = keys.shape
    x = W["wte"][token] + W["wpe"][t]
    for l in range(L):
        h = layernorm(x, W["ln1w"][l], W["ln1b"][l])
        q, keys[l, :, t], values[l, :, t] = (W["qkvw"][l] @ h + W["qkvb"][l]).reshape(3, NH, hs)
        p = np.exp(np.einsum("hd,hnd->hn", q, keys[l, :, : t + 1]) / np.sqrt(hs))
        out = np.einsum("hn,hnd->hd", p / p.sum(axis=-1, keepdims=True), values[l, :, : t + 1]).reshape(-1)
        x = x + W["attprojw"][l] @ out + W["attprojb"][l]
        h = layernorm(x, W["ln2w"][l], W["ln2b"][l])
        x = x + W["fcprojw"][l] @ gelu(W["fcw"][l] @ h + W["fcb"][l]) + W["fcprojb"][l]
    return W["wte"] @ layernorm(x, W["lnfw"], W["lnfb"])


@right("beam_search")
def beam_with_a_heap(model, prompt, n, width):
    beam = [(0.0, [])]
    for _ in range(n):
        found = []
        for total, text in beam:
            p = model.log_probs([*prompt, *text])
            found.extend((total + float(p[token]), [*text, token]) for token in range(len(p)))
        beam = heapq.nlargest(width, found)
    total, text = max(beam)
    return text, total


@right("beam_search")
def beam_with_arrays(model, prompt, n, width):
    texts, totals = np.zeros((1, 0), int), np.zeros(1)
    for _ in range(n):
        p = np.array([model.log_probs(prompt + text.tolist()) for text in texts])  # (beam, V)
        sums = totals[:, None] + p
        best = np.argsort(-sums, axis=None)[:width]
        rows, tokens = np.unravel_index(best, sums.shape)
        texts, totals = np.column_stack([texts[rows], tokens]), sums[rows, tokens]
    return texts[0], totals[0]


@wrong("beam_search", says="after a prompt of 67 tokens, log_probs was called with a list")
def last_three_tokens_alone(model, prompt, n, width):
    beam = [([], 0.0)]
    for _ in range(n):
        found = []
        for text, total in beam:
            p = model.log_probs((prompt + text)[-3:])
            found += [(text + [i], total + p[i]) for i in range(len(p))]
        found.sort(key=lambda x: -x[1])
        beam = found[:width]
    return beam[0]


@wrong("top_p", says="q equals the candidates with at least the (1 - share) quantile,")
def top_p_of_the_number_of_candidates(p, share):
    n = max(1, int(np.ceil(share * len(p))))
    kept = np.where(p >= np.sort(p)[-n], p, 0.0)
    return kept / kept.sum()


@wrong("next_row", says="the cache of keys equals the reference with the newest value")
def row_kept_after_it_was_needed(W, keys, values, t, token):
    L, NH, T, hs = keys.shape
    x = W["wte"][token] + W["wpe"][t]
    for l in range(L):
        h = layernorm(x, W["ln1w"][l], W["ln1b"][l])
        q, k, v = (W["qkvw"][l] @ h + W["qkvb"][l]).reshape(3, NH, hs)
        keys[l, :, t] = k
        scores = np.einsum("hd,hnd->hn", q, keys[l, :, : t + 1]) / np.sqrt(hs)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        out = np.einsum("hn,hnd->hd", p, values[l, :, : t + 1]).reshape(-1)
        values[l, :, t] = v
        x = x + W["attprojw"][l] @ out + W["attprojb"][l]
        h = layernorm(x, W["ln2w"][l], W["ln2b"][l])
        h = gelu(W["fcw"][l] @ h + W["fcb"][l])
        x = x + W["fcprojw"][l] @ h + W["fcprojb"][l]
    return W["wte"] @ layernorm(x, W["lnfw"], W["lnfb"])


@wrong("beam_search", says="the text is right, but log_probs was called 81 times, and 16")
def beam_asks_once_for_each_token(model, prompt, n, width):
    V = len(model.log_probs(prompt))
    beam = [([], 0.0)]
    for _ in range(n):
        each = [
            (text + [token], total + model.log_probs(prompt + text)[token])
            for text, total in beam
            for token in range(V)
        ]
        beam = sorted(each, key=lambda pair: pair[1], reverse=True)[:width]
    return beam[0][0], float(beam[0][1])


@wrong("top_p", says="q has the values that our solution gives with `ranked >= edge`")
def top_p_with_a_mask_of_the_ranking(p, share):
    ranked = np.sort(p)[::-1]
    before = np.cumsum(ranked) - ranked  # what the better ones hold
    needed = before < share
    edge = ranked[needed].min()
    kept = np.where(needed | (ranked == edge), p, 0.0)
    return kept / kept.sum()
