"""Answers to the exercises of lesson 23 as learners write them: right ones that look different, and wrong ones.

Each wrong answer comes with words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 23` runs those of this lesson.
`layernorm` and `gelu` are those of the exercise notebook.
"""

# ruff: noqa: F821
import heapq

import numpy as np

from llmc.course.old.authoring.answers import right, wrong

# ---------------------------------------------------------------------------------------------------------- 1 top_p


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
def top_p_with_searchsorted(p, share):
    order = np.argsort(-p, kind="stable")
    n = np.searchsorted(np.cumsum(p[order]), share) + 1
    q = p.copy()
    q[p < p[order[n - 1]]] = 0
    q /= q.sum()
    return q


@right("top_p")
def top_p_from_what_is_above(p, share):
    above = np.array([p[p > each].sum() for each in p])  # what lies strictly above every candidate
    q = p * (above < share)
    return q / q.sum()


def _top(p, share, ties=True, strict=False, cross=True, scale=True):
    order = np.argsort(-p, kind="stable")
    held = np.cumsum(p[order])
    n = int(np.argmax(held > share if strict else held >= share)) + bool(cross)
    which = np.zeros(len(p), bool)
    which[order[:n]] = True
    if ties:
        which = p >= p[order[n - 1]] if n else which
    q = np.where(which, p, 0.0)
    return q / q.sum() if scale and q.sum() else q


@wrong("top_p", says="the reference without ties")
def top_p_by_id(p, share):
    return _top(p, share, ties=False)


@wrong("top_p", says="without any candidate as probable as the last one kept")
def top_p_above_the_edge(p, share):
    order = np.sort(p)[::-1]
    edge = order[np.argmax(np.cumsum(order) >= share)]
    q = np.where(p > edge, p, 0.0)
    return q / q.sum()


@wrong("top_p", says="and without those tied with it that have larger ids: all of them stay")
def top_p_without_the_crossing(p, share):
    return _top(p, share, ties=False, cross=False)


@wrong("top_p", says="the share exceeded instead of reached")
def top_p_exceeds(p, share):
    order = np.sort(p)[::-1]
    over = np.cumsum(order) > share
    q = np.where(p >= order[np.argmax(over)], p, 0.0) if over.any() else p
    return q / q.sum()


@wrong("top_p", says="before it is scaled to sum to 1")
def top_p_unscaled(p, share):
    return _top(p, share, scale=False)


@wrong("top_p", says="put every candidate back into its own place")
def top_p_in_order(p, share):
    return np.sort(_top(p, share))[::-1].copy()


@wrong("top_p", says="begin with the most probable")
def top_p_of_the_least(p, share):
    order = np.argsort(p, kind="stable")
    n = int(np.argmax(np.cumsum(p[order]) >= share)) + 1
    q = np.zeros(len(p))
    q[order[:n]] = p[order[:n]]
    return q / q.sum()


@wrong("top_p", says="p itself: nothing is cut off")
def top_p_keeps_all(p, share):
    return p / p.sum()


@wrong("top_p", says="which is called min-p")
def top_p_against_the_best(p, share):
    q = np.where(p >= share * p.max(), p, 0.0)
    return q / q.sum()


@wrong("top_p", says="divide them by their sum")
def top_p_softmax(p, share):
    kept = _top(p, share) > 0
    e = np.where(kept, np.exp(p - p.max()), 0.0)
    return e / e.sum()


@wrong("top_p", says="scaled by the share instead of the sum that is kept")
def top_p_divides_by_the_share(p, share):
    return _top(p, share, scale=False) / share


@wrong("top_p", says="and without those tied with it that have smaller ids: all of them stay")
def top_p_without_the_crossing_from_behind(p, share):
    order = np.argsort(p, kind="stable")[::-1]
    q = np.zeros(len(p))
    few = order[: int(np.argmax(np.cumsum(p[order]) >= share))]
    q[few] = p[few]
    return q / q.sum() if few.size else q


@wrong("top_p", says="in the order of their ids")
def top_p_unsorted(p, share):
    q = np.where(np.cumsum(p) <= share, p, 0.0)
    return q / q.sum() if q.sum() else q


@wrong("top_p", says="at least the (1 - share) quantile, which is found by counting: the share is of their sum")
def top_p_by_a_quantile(p, share):
    q = np.where(p >= np.quantile(p, 1 - share), p, 0.0)
    return q / q.sum()


@wrong("top_p", says="nothing was returned")
def top_p_returns_nothing(p, share):
    _top(p, share)


# ------------------------------------------------------------------------------------------------------- 2 next_row


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
def row_with_matmul(W, keys, values, t, token):
    L, NH, T, hs = keys.shape
    x = (W["wte"][token] + W["wpe"][t])[None]  # (1, C)
    ln = lambda x, w, b: layernorm(x[0], w, b)[None]  # noqa: E731
    for l in range(L):
        qkv = ln(x, W["ln1w"][l], W["ln1b"][l]) @ W["qkvw"][l].T + W["qkvb"][l]
        q, k, v = np.split(qkv[0], 3)
        keys[l, :, t, :] = k.reshape(NH, hs)
        values[l, :, t, :] = v.reshape(NH, hs)
        s = keys[l, :, : t + 1] @ q.reshape(NH, hs, 1) / hs**0.5  # (NH, t + 1, 1)
        w = np.exp(s - s.max(axis=1, keepdims=True))
        w = w / w.sum(axis=1, keepdims=True)
        out = (w * values[l, :, : t + 1]).sum(axis=1).reshape(1, -1)
        x = x + out @ W["attprojw"][l].T + W["attprojb"][l]
        x = (
            x
            + gelu(ln(x, W["ln2w"][l], W["ln2b"][l]) @ W["fcw"][l].T + W["fcb"][l]) @ W["fcprojw"][l].T
            + W["fcprojb"][l]
        )
    return (ln(x, W["lnfw"], W["lnfb"]) @ W["wte"].T)[0]


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


def _row(norm, act, W, keys, values, t, token, **how):
    """The solution with some of it exchanged; norm, act: the notebook's layernorm and gelu."""
    L, NH, T, hs = keys.shape
    x = W["wte"][token] + W["wpe"][how.get("position", t)]
    for l in range(L):
        h = norm(x, W["ln1w"][l], W["ln1b"][l])
        qkv = W["qkvw"][l] @ h + W["qkvb"][l]
        q, k, v = qkv.reshape(NH, 3, hs).transpose(1, 0, 2) if how.get("per_head") else qkv.reshape(3, NH, hs)
        m = how.get("layer", l)
        keys[m, :, t], values[m, :, t] = k, v
        first, last = how.get("first", 0), how.get("last", t + 1)
        K, U = keys[m, :, first:last].copy(), values[m, :, first:last].copy()
        scores = np.einsum("hd,hnd->hn", q, K) / how.get("scale", np.sqrt(hs))
        p = np.exp(scores - (0 if how.get("raw") else scores.max(axis=-1, keepdims=True)))
        p = p if how.get("raw") else p / p.sum(axis=-1, keepdims=True)
        out = np.einsum("hn,hnd->hd", p, K if how.get("keys_twice") else U).reshape(-1)
        out = W["attprojw"][l] @ out + W["attprojb"][l]
        x = out if how.get("alone") else x + out
        m = how.get("second", l)
        read = out if how.get("late") else x
        h = W["fcw"][l] @ (x if how.get("no_ln2") else norm(read, W["ln2w"][m], W["ln2b"][m])) + W["fcb"][l]
        x = x + W["fcprojw"][l] @ (h if how.get("linear") else act(h)) + W["fcprojb"][l]
    return W["wte"] @ (x if how.get("no_lnf") else norm(x, W["lnfw"], W["lnfb"]))


@wrong("next_row", says="the reference with position 0 for every token")
def row_at_position_0(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, position=0)


@wrong("next_row", says="the reference with position t + 1")
def row_at_the_next_position(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, position=t + 1)


@wrong("next_row", says="in which a token looks at nothing but itself")
def row_looks_at_itself(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, first=t)


@wrong("next_row", says="in which the newest row is written only after attention")
def row_writes_too_late(W, keys, values, t, token):
    L, NH, T, hs = keys.shape
    x = W["wte"][token] + W["wpe"][t]
    for l in range(L):
        h = layernorm(x, W["ln1w"][l], W["ln1b"][l])
        q, k, v = (W["qkvw"][l] @ h + W["qkvb"][l]).reshape(3, NH, hs)
        scores = np.einsum("hd,hnd->hn", q, keys[l, :, : t + 1]) / np.sqrt(hs)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out = np.einsum("hn,hnd->hd", p / p.sum(axis=-1, keepdims=True), values[l, :, : t + 1]).reshape(-1)
        keys[l, :, t], values[l, :, t] = k, v
        x = x + W["attprojw"][l] @ out + W["attprojb"][l]
        h = layernorm(x, W["ln2w"][l], W["ln2b"][l])
        x = x + W["fcprojw"][l] @ gelu(W["fcw"][l] @ h + W["fcb"][l]) + W["fcprojb"][l]
    return W["wte"] @ layernorm(x, W["lnfw"], W["lnfb"])


@wrong("next_row", says="but not in layer 1: each layer has its own")
def row_with_one_cache(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, layer=0)


@wrong("next_row", says="without the division by the root of hs")
def row_without_the_scale(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, scale=1.0)


@wrong("next_row", says="divided by the root of C")
def row_scaled_by_C(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, scale=np.sqrt(keys.shape[1] * keys.shape[3]))


@wrong("next_row", says="with keys in place of values")
def row_mixes_keys(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, keys_twice=True)


@wrong("next_row", says="q, k and v taken per head")
def row_splits_per_head(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, per_head=True)


@wrong("next_row", says="without the residual around attention")
def row_forgets_the_residual(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, alone=True)


@wrong("next_row", says="without the layernorm before the MLP")
def row_without_ln2(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, no_ln2=True)


@wrong("next_row", says="without the last layernorm")
def row_without_lnf(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, no_lnf=True)


@wrong("next_row", says="the reference without GELU")
def row_without_gelu(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, linear=True)


@wrong("next_row", says="exp of the scores, not divided by their sum")
def row_without_softmax(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, raw=True)


@wrong("next_row", says="infinite")
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


@wrong("next_row", says="nothing was written to keys")
def row_writes_to_a_copy(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys.copy(), values.copy(), t, token)


@wrong("next_row", says="the rows behind t are not there yet")
def row_fills_the_rest(W, keys, values, t, token):
    keys[:, :, t:] = values[:, :, t:] = 0
    return _row(layernorm, gelu, W, keys, values, t, token)


@wrong("next_row", says="logits is None")
def row_returns_nothing(W, keys, values, t, token):
    _row(layernorm, gelu, W, keys, values, t, token)


# ---------------------------------------------------------------------------------------------------- 3 beam_search


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


@right("beam_search")
def beam_by_recursion(model, prompt, n, width):
    def go(beam, left):
        if not left:
            return max(beam, key=lambda pair: pair[1])
        found = [
            (text + [token], total + each)
            for text, total in beam
            for token, each in enumerate(model.log_probs(prompt + text))
        ]
        return go(sorted(found, key=lambda pair: pair[1], reverse=True)[:width], left - 1)

    return go([([], 0.0)], n)


@right("beam_search")
def beam_with_tuples_of_the_whole_text(model, prompt, n, width):
    beam = {tuple(prompt): 0.0}
    for _ in range(n):
        longer = {}
        for text, total in beam.items():
            for token, number in enumerate(model.log_probs(np.array(text))):
                longer[(*text, token)] = total + number
        beam = dict(sorted(longer.items(), key=lambda pair: -pair[1])[:width])
    text = next(iter(beam))
    return list(text[len(prompt) :]), beam[text]


def _beam(model, prompt, n, width, start=0.0, add=True, per_text=None, pick=0, rising=False, short=False):
    beam = [([], start)]
    for _ in range(n):
        found = []
        for text, total in beam:
            p = model.log_probs(text or prompt[:1] if short else prompt + text)
            each = [(text + [k], (total if add else 0.0) + p[k]) for k in range(len(p))]
            found += sorted(each, key=lambda pair: -pair[1])[:per_text] if len(beam) >= width else each
        found.sort(key=lambda pair: pair[1] if rising else -pair[1])
        beam = found[:width]
    return beam[pick]


@wrong("beam_search", says="with it: that is not the log-probability of this text.")
def beam_by_the_largest_log_probability(model, prompt, n, width):
    beam = [([], 0.0)]
    for _ in range(n):
        found = []
        for text, total in beam:
            p = model.log_probs(prompt + text)
            found += [([*text, token], max(total, p[token])) for token in range(len(p))]
        found.sort(key=lambda pair: -pair[1])
        beam = found[:width]
    return beam[0]


@wrong("beam_search", says="It is what a search finds that looks at the two best continuations of each text alone.")
def beam_with_two_continuations_each(model, prompt, n, width):
    beam = [(0.0, [])]
    for _ in range(n):
        found = []
        for total, text in beam:
            p = model.log_probs(prompt + text)
            found += [(total + p[token], [*text, int(token)]) for token in np.argsort(p)[::-1][:2]]
        beam = sorted(found, reverse=True)[:width]
    return beam[0][1], beam[0][0]


@wrong("beam_search", says="they multiply, so add up their logarithms")
def beam_adds_probabilities(model, prompt, n, width):
    beam = [([], 0.0)]
    for _ in range(n):
        found = []
        for text, total in beam:
            p = np.exp(model.log_probs(prompt + text))  # (V,)
            found += [(text + [token], total + p[token]) for token in range(len(p))]
        beam = sorted(found, key=lambda pair: -pair[1])[:width]
    return beam[0][0], float(np.log(beam[0][1]))


@wrong("beam_search", says="what greedy search finds")
def beam_is_greedy(model, prompt, n, width):
    return _beam(model, prompt, n, 1)


@wrong("beam_search", says="newest token's log-probability")
def beam_forgets_the_sum(model, prompt, n, width):
    return _beam(model, prompt, n, width, add=False)


@wrong("beam_search", says="keeps the best continuation of each text")
def beam_keeps_one_of_each(model, prompt, n, width):
    return _beam(model, prompt, n, width, per_text=1)


@wrong("beam_search", says="the LEAST probable text of the last beam")
def beam_returns_the_last(model, prompt, n, width):
    return _beam(model, prompt, n, width, pick=-1)


@wrong("beam_search", says="keeps the least probable texts")
def beam_sorts_the_wrong_way(model, prompt, n, width):
    return _beam(model, prompt, n, width, rising=True)


@wrong("beam_search", says="forgets the prompt")
def beam_forgets_the_prompt(model, prompt, n, width):
    return _beam(model, prompt, n, width, short=True)


@wrong("beam_search", says="it begins with the prompt: return only what follows")
def beam_returns_the_prompt(model, prompt, n, width):
    text, total = _beam(model, prompt, n, width)
    return prompt + text, total


@wrong("beam_search", says="the probability: return its logarithm")
def beam_returns_a_probability(model, prompt, n, width):
    text, total = _beam(model, prompt, n, width)
    return text, np.exp(total)


@wrong("beam_search", says="the mean over the tokens: return the sum")
def beam_returns_the_mean(model, prompt, n, width):
    text, total = _beam(model, prompt, n, width)
    return text, total / n


@wrong("beam_search", says="the surprise: the log-probability is negative")
def beam_returns_the_surprise(model, prompt, n, width):
    text, total = _beam(model, prompt, n, width)
    return text, -total


@wrong("beam_search", says="6 times with one and the same text")
def beam_asks_for_every_token(model, prompt, n, width):
    beam = [([], 0.0)]
    for _ in range(n):
        found = []
        for text, total in beam:
            for token in range(len(model.log_probs(prompt + text))):
                found.append((text + [token], total + model.log_probs(prompt + text)[token]))
        found.sort(key=lambda pair: -pair[1])
        beam = found[:width]
    return beam[0]


@wrong("beam_search", says="there are")
def beam_stops_early(model, prompt, n, width):
    text, total = _beam(model, prompt, n, width)
    return text[:-1], total


@wrong("beam_search", says="return two values")
def beam_returns_the_text_alone(model, prompt, n, width):
    return _beam(model, prompt, n, width)[0]


@wrong("beam_search", says="Your function never reads `prompt`")
def beam_without_the_prompt(model, prompt, n, width):
    beam = [([], 0.0)]
    for _ in range(n):
        found = [(text + [k], so_far + p) for text, so_far in beam for k, p in enumerate(model.log_probs(text))]
        beam = sorted(found, key=lambda item: -item[1])[:width]
    return beam[0]


@wrong("beam_search", says="nothing was returned")
def beam_returns_nothing(model, prompt, n, width):
    _beam(model, prompt, n, width)


@wrong("beam_search", says="only the last token of the prompt")
def last_token_of_the_prompt_alone(model, prompt, n, width):
    beam = [([], 0.0)]
    for _ in range(n):
        found = []
        for text, total in beam:
            p = model.log_probs(prompt[-1:] + text)
            found += [(text + [i], total + p[i]) for i in range(len(p))]
        found.sort(key=lambda x: -x[1])
        beam = found[:width]
    return beam[0]


@wrong("beam_search", says="called with a list of 3 that does not begin with it")
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


@wrong("beam_search", says="keeps a single text after its first round")
def first_round_of_one(model, prompt, n, width):
    beam = [([], 0.0)]
    for step in range(n):
        found = []
        for text, total in beam:
            p = model.log_probs(prompt + text)
            found += [(text + [i], total + p[i]) for i in range(len(p))]
        beam = sorted(found, key=lambda x: -x[1])[: width if step else 1]
    return beam[0]


@wrong(
    "top_p", says="at least (1 - share) times the best one's probability, a kind of min-p: the share is of their sum"
)
def top_p_by_a_part_of_the_best(p, share):
    kept = p * (p >= (1 - share) * p.max())
    return kept / kept.sum()


@wrong("top_p", says="as many candidates as `share` times their number, rounded up: the share is of the sum")
def top_p_of_the_number_of_candidates(p, share):
    n = max(1, int(np.ceil(share * len(p))))
    kept = np.where(p >= np.sort(p)[-n], p, 0.0)
    return kept / kept.sum()


@wrong("top_p", says="at least `share` times the mean probability: the share is of their sum")
def top_p_by_the_mean(p, share):
    kept = np.where(p < share * p.mean(), 0.0, p)
    return kept / kept.sum()


@wrong("next_row", says="in the other order: the first reads `values`, which the second changes.")
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


@wrong(
    "next_row",
    says="with the line `keys[l, :, t] = k` before the line `past = keys[l, :, :t + 1].copy()`, where `keys`",
)
def row_of_keys_that_is_copied_too_soon(W, keys, values, t, token):
    L, NH, T, hs = keys.shape
    x = W["wte"][token] + W["wpe"][t]
    for l in range(L):
        h = layernorm(x, W["ln1w"][l], W["ln1b"][l])
        q, k, v = (W["qkvw"][l] @ h + W["qkvb"][l]).reshape(3, NH, hs)
        values[l, :, t] = v
        past = keys[l, :, : t + 1].copy()
        scores = np.einsum("hd,hnd->hn", q, past) / np.sqrt(hs)
        keys[l, :, t] = k
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        out = np.einsum("hn,hnd->hd", p, values[l, :, : t + 1]).reshape(-1)
        x = x + W["attprojw"][l] @ out + W["attprojb"][l]
        h = layernorm(x, W["ln2w"][l], W["ln2b"][l])
        x = x + W["fcprojw"][l] @ gelu(W["fcw"][l] @ h + W["fcb"][l]) + W["fcprojb"][l]
    return W["wte"] @ layernorm(x, W["lnfw"], W["lnfb"])


@wrong("top_p", says="where candidates hold exactly the share, one too many is kept")
def top_p_that_keeps_a_tail_of_exactly_the_rest(p, share):
    rising = np.sort(p)
    edge = rising[np.argmax(np.cumsum(rising) >= 1 - share)]
    kept = p * (p >= edge)
    return kept / kept.sum()


@wrong("beam_search", says="ranks continuations by their newest token alone, not by the whole text")
def beam_ranks_by_the_newest_token(model, prompt, n, width):
    beam = [([], 0.0)]
    for _ in range(n):
        found = []
        for text, total in beam:
            p = model.log_probs(prompt + text)
            found += [(p[token], text + [token], total + p[token]) for token in range(len(p))]
        found.sort(reverse=True)
        beam = [(text, total) for _, text, total in found[:width]]
    text, total = max(beam, key=lambda pair: pair[1])
    return text, float(total)


@wrong("beam_search", says="keeps one of all texts that end in the same token: keep others, too")
def beam_keeps_one_text_for_each_token(model, prompt, n, width):
    beam = [([], 0.0)]
    for _ in range(n):
        best = {}
        for text, total in beam:
            for token, logp in enumerate(model.log_probs(prompt + text)):
                if token not in best or total + logp > best[token][1]:
                    best[token] = text + [token], total + float(logp)
        beam = sorted(best.values(), key=lambda pair: pair[1], reverse=True)[:width]
    return beam[0]


@wrong("top_p", says="at which the sum in the order of ids reaches the share: sort them first")
def top_p_with_the_edge_of_unsorted_sums(p, share):
    edge = p[int(np.argmax(np.cumsum(p) >= share))]
    kept = np.where(p >= edge, p, 0.0)
    return kept / kept.sum()


@wrong("top_p", says="whose ID is the place in the ranking: look that place up in the ranking")
def top_p_with_the_place_as_an_id(p, share):
    place = int(np.argmax(np.cumsum(np.sort(p)[::-1]) >= share))
    kept = np.where(p >= p[place], p, 0.0)
    return kept / kept.sum()


@wrong("top_p", says="equal probabilities added only once: each candidate counts")
def top_p_of_different_values(p, share):
    values = np.unique(p)[::-1]
    kept = np.where(p >= values[np.argmax(np.cumsum(values) >= share)], p, 0.0)
    return kept / kept.sum()


@wrong("top_p", says="the same probability for all that stay")
def top_p_evenly(p, share):
    ranked = np.sort(p)[::-1]
    stays = p >= ranked[np.argmax(np.cumsum(ranked) >= share)]
    return stays / stays.sum()


@wrong("next_row", says="whose second layernorm reads what attention gives alone")
def row_with_a_late_residual(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, late=True)


@wrong("next_row", says="the second layernorm of layer 0 in every layer: each has its own")
def row_with_one_second_layernorm(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, second=0)


@wrong("next_row", says="divided by the root of t + 1: divide by that of hs")
def row_scaled_by_the_number_of_positions(W, keys, values, t, token):
    return _row(layernorm, gelu, W, keys, values, t, token, scale=np.sqrt(t + 1))


@wrong("top_p", says="the reference for 1 - share: the most probable ones stay")
def top_p_for_the_rest(p, share):
    ranked = np.sort(p)[::-1]
    kept = np.where(p >= ranked[np.argmax(np.cumsum(ranked) >= 1 - share)], p, 0.0)
    return kept / kept.sum()


@wrong("top_p", says="scaled by the sum up to the candidate that crosses the share: those tied with it count, too")
def top_p_with_a_sum_that_stops(p, share):
    total, edge = 0.0, 0.0
    for edge in sorted(p, reverse=True):
        total += edge
        if total >= share:
            break
    return np.where(p >= edge, p, 0.0) / total


@wrong("beam_search", says="the place is text · V + token, so divide it by V")
def beam_with_text_and_token_exchanged(model, prompt, n, width):
    texts, totals = [[]], np.zeros(1)
    for _ in range(n):
        scores = totals[:, None] + [model.log_probs(prompt + text) for text in texts]  # (k, V)
        order = np.argsort(-scores, axis=None)[:width]
        texts = [texts[i % len(texts)] + [int(i // len(texts))] for i in order]
        totals = scores.ravel()[order]
    return texts[0], float(totals[0])


@wrong("beam_search", says="and there are 5 tokens")
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


@wrong("top_p", says="but those with the")
def top_p_with_a_mask_of_the_ranking(p, share):
    ranked = np.sort(p)[::-1]
    before = np.cumsum(ranked) - ranked  # what the better ones hold
    needed = before < share
    edge = ranked[needed].min()
    kept = np.where(needed | (ranked == edge), p, 0.0)
    return kept / kept.sum()


@wrong("beam_search", says="and of all of these keeps the LEAST probable ones")
def beam_sorted_the_other_way(model, prompt, n, width):
    beams = [([], 0.0)]
    for _ in range(n):
        new = []
        for tokens, total in beams:
            logp = model.log_probs(prompt + tokens)
            for b in np.argsort(logp)[-width:]:
                new.append((tokens + [int(b)], total + float(logp[b])))
        new.sort(key=lambda b: b[1])
        beams = new[:width]
    return beams[-1]


@wrong("next_row", says="that adds attention and the MLP to what their layernorms give")
def row_normed_in_both_places(W, keys, values, t, token):
    L, NH, T, hs = keys.shape

    def linear(name, l, a):
        return W[name + "w"][l] @ a + W[name + "b"][l]

    x = W["wte"][token] + W["wpe"][t]
    for l in range(L):
        x = layernorm(x, W["ln1w"][l], W["ln1b"][l])
        q, keys[l, :, t], values[l, :, t] = linear("qkv", l, x).reshape(3, NH, hs)
        seen_k, seen_v = keys[l, :, : t + 1], values[l, :, : t + 1]
        scores = (seen_k @ q[:, :, None])[..., 0] / np.sqrt(hs)
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        x = x + linear("attproj", l, (p[:, None] @ seen_v).ravel())
        x = layernorm(x, W["ln2w"][l], W["ln2b"][l])
        x = x + linear("fcproj", l, gelu(linear("fc", l, x)))
    return W["wte"] @ layernorm(x, W["lnfw"], W["lnfb"])


@wrong("next_row", says="in which the newest value is written only after attention has read the values")
def row_with_a_late_value(W, keys, values, t, token):
    L, NH, T, hs = keys.shape
    C = NH * hs
    x = W["wte"][token] + W["wpe"][t]
    for l in range(L):
        h = layernorm(x, W["ln1w"][l], W["ln1b"][l])
        qkv = W["qkvw"][l] @ h + W["qkvb"][l]
        mixed = np.zeros(C)
        for head in range(NH):
            part = slice(head * hs, (head + 1) * hs)
            q, k, v = qkv[:C][part], qkv[C : 2 * C][part], qkv[2 * C :][part]
            keys[l, head, t] = k
            scores = keys[l, head, : t + 1] @ q / np.sqrt(hs)
            p = np.exp(scores - scores.max())
            mixed[part] = p / p.sum() @ values[l, head, : t + 1]
            values[l, head, t] = v
        x = x + W["attprojw"][l] @ mixed + W["attprojb"][l]
        h = layernorm(x, W["ln2w"][l], W["ln2b"][l])
        h = gelu(W["fcw"][l] @ h + W["fcb"][l])
        x = x + W["fcprojw"][l] @ h + W["fcprojb"][l]
    return layernorm(x, W["lnfw"], W["lnfb"]) @ W["wte"].T


@wrong("top_p", says="your result holds the right numbers in other places")
def candidates_put_back_by_their_rank(p, share):
    order = np.argsort(p)[::-1]
    ranked = p[order]
    last = np.argmax(np.cumsum(ranked) >= share)
    ranked[ranked < ranked[last]] = 0
    ranked /= ranked.sum()
    return ranked[order]
