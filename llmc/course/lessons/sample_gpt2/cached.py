"""Lesson 23: a GPT-2 in float64, whole or one row at a time, and the logits that known mistakes of a cache give."""

from time import perf_counter

import numpy as np

from llmc.config import GPT2Config
from llmc.course.lessons.sample_gpt2.places import BLOCK, CACHE

MISTAKES = {  # name: (sentence after "the logits equals ", where to look)
    "first position": ("the reference with position 0 for every token: the token is at position t", CACHE),
    "next position": ("the reference with position t + 1: the first token is at position 0", CACHE),
    "not itself": (
        "the reference in which a token does not look at itself: its own key and value are there, too",
        CACHE,
    ),
    "only the first itself": (
        "the reference in which only the first token looks at itself: the others' own keys and values are there, too",
        CACHE,
    ),
    "only itself": ("the reference in which a token looks at nothing but itself: look at positions 0 to t", CACHE),
    "one cache": ("the reference with the keys and values of layer 0 in every layer: each layer has its own", CACHE),
    "last cache": ("the reference with one cache that every layer overwrites: each layer has its own", CACHE),
    "old row": ("the reference in which the newest row is written only after attention: write it before", CACHE),
    "old value": (
        "the reference in which the newest value is written only after attention has read the values: write it before",
        CACHE,
    ),
    "keys twice": ("the reference with keys in place of values", CACHE),
    "values twice": ("the reference with values in place of keys", CACHE),
    "no scale": ("the reference without the division by the root of hs", BLOCK),
    "scale C": ("the reference with scores divided by the root of C: each head has hs channels", BLOCK),
    "one head": ("the reference with a single head of C channels", BLOCK),
    "heads first": (
        "the reference with q, k and v taken per head: the rows of qkvw are all queries, keys, values",
        BLOCK,
    ),
    "one softmax": ("the reference with one softmax over all heads: each head's probabilities add up to 1", BLOCK),
    "ln1 again": ("the reference with ln1w and ln1b before the MLP: it has ln2w and ln2b", BLOCK),
    "ln1 last": ("the reference with ln1w and ln1b of layer 0 after the last layer: it has lnfw and lnfb", BLOCK),
    "probabilities": ("the probabilities: return the logits, before any softmax", BLOCK),
    "no ln1": ("the reference without the layernorm before attention", BLOCK),
    "no ln2": ("the reference without the layernorm before the MLP", BLOCK),
    "no lnf": ("the reference without the last layernorm", BLOCK),
    "no residual1": ("the reference without the residual around attention: add it to x", BLOCK),
    "no residual2": ("the reference without the residual around the MLP: add it to x", BLOCK),
    "no gelu": ("the reference without GELU", BLOCK),
    "no projection": ("the reference without attproj", BLOCK),
    "no softmax": ("the reference with exp of the scores, not divided by their sum", BLOCK),
    "no wpe": ("the reference without positions", BLOCK),
    "late residual": (
        "the reference whose second layernorm reads what attention gives alone: add it to x before, not after",
        BLOCK,
    ),
    "parallel": ("the reference whose second layernorm reads x as it was before attention: it reads the sum", BLOCK),
    "normed residual": ("the reference that adds attention to the layernorm of x: add it to x itself", BLOCK),
    "normed residual2": ("the reference that adds the MLP to the layernorm of x: add it to x itself", BLOCK),
    "normed both": (
        "the reference that adds attention and the MLP to what their layernorms give: add both to x",
        BLOCK,
    ),
    "after": (
        "the reference with each layernorm after its sum: both stand before attention, and before the MLP",
        BLOCK,
    ),
    "ln1 of layer 0": ("the reference with the first layernorm of layer 0 in every layer: each has its own", BLOCK),
    "ln2 of layer 0": ("the reference with the second layernorm of layer 0 in every layer: each has its own", BLOCK),
    "lnf inside": ("the reference with the last layernorm after every layer: it comes once, after all of them", BLOCK),
    "late gelu": ("the reference with GELU after fcproj: it stands between fc and fcproj", BLOCK),
    "exchanged": ("the reference with keys and values exchanged in the caches", CACHE),
    "scale t": ("the reference with scores divided by the root of t + 1: divide by that of hs", BLOCK),
}


def weights(rng, L=2, NH=2, hs=3, V=11, maxT=12, scores=1.0) -> dict:
    """{name: array} of a random GPT-2, float64, as in the table of llmc/config.py; wte without padding.

    scores: how many times as large those of attention are.
    """
    table = GPT2Config(maxT=maxT, V=V, L=L, NH=NH, C=NH * hs).parameter_table()
    W = {}
    for p in table:  # of sizes at which no softmax is certain and nothing drowns in anything else
        shape = (V, *p.shape[1:]) if p.name == "wte" else p.shape
        size = 0.3 if p.name.endswith("b") or p.name.startswith("ln") else 1.0 if p.name in ("wte", "wpe") else 0.0
        size = size or 1.5 / np.sqrt(shape[-1])
        W[p.name] = size * rng.normal(size=shape) + (p.name in ("ln1w", "ln2w", "lnfw"))
    W["qkvw"] = W["qkvw"] * np.sqrt(scores)
    return W


def layernorm(x, w, b):
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5) * w + b


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def whole(W, NH, tokens):
    """(logits (T, V), keys, values (L, NH, T, hs)) of all tokens at once, with a mask and no cache."""
    T, (L, C) = len(tokens), W["ln1w"].shape
    hs = C // NH
    x, all_keys, all_values = W["wte"][tokens] + W["wpe"][:T], [], []  # (T, C)
    for l in range(L):
        qkv = layernorm(x, W["ln1w"][l], W["ln1b"][l]) @ W["qkvw"][l].T + W["qkvb"][l]  # (T, 3C)
        q, k, v = qkv.reshape(T, 3, NH, hs).transpose(1, 2, 0, 3)  # (NH, T, hs) each
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(hs)  # (NH, T, T)
        scores = np.where(np.tri(T, dtype=bool), scores, -np.inf)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out = (p / p.sum(axis=-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(T, C)
        x = x + out @ W["attprojw"][l].T + W["attprojb"][l]
        h = gelu(layernorm(x, W["ln2w"][l], W["ln2b"][l]) @ W["fcw"][l].T + W["fcb"][l])  # (T, 4C)
        x = x + h @ W["fcprojw"][l].T + W["fcprojb"][l]
        all_keys.append(k), all_values.append(v)
    return layernorm(x, W["lnfw"], W["lnfb"]) @ W["wte"].T, np.array(all_keys), np.array(all_values)


def row_by_row(W, NH, tokens, bug=None, held=0.0):
    """(V,) logits after the last token, each token read once, with a mistake or with none.

    held: what the cache held before, (2, L, NH, T, hs) or a number, where a mistake reads it.
    """
    L, C = W["ln1w"].shape
    cache = np.zeros((2, L, NH, len(tokens), C // NH)) + held  # keys, values
    with np.errstate(all="ignore"):
        for t, token in enumerate(tokens):
            logits = _row(W, NH, cache, t, token, bug)
    return logits


def _row(W, NH, cache, t, token, bug):
    L, C = W["ln1w"].shape
    position = {"first position": 0, "next position": t + 1}.get(bug, t)
    x = W["wte"][token] + (0 if bug == "no wpe" else W["wpe"][position])  # (C,)
    for l in range(L):
        first, second = (0 if bug == f"ln{k} of layer 0" else l for k in (1, 2))
        normed = layernorm(x, W["ln1w"][first], W["ln1b"][first])  # (C,)
        h, before = x if bug in ("no ln1", "after") else normed, x
        out = _attend(W["qkvw"][l] @ h + W["qkvb"][l], NH, cache, 0 if bug == "last cache" else l, t, bug)  # (C,)
        out = out if bug == "no projection" else W["attprojw"][l] @ out + W["attprojb"][l]
        x = out if bug == "no residual1" else (normed if bug in ("normed residual", "normed both") else x) + out
        x = layernorm(x, W["ln1w"][l], W["ln1b"][l]) if bug == "after" else x
        ln = "ln1" if bug == "ln1 again" else "ln2"
        read = {"late residual": out, "parallel": before}.get(bug, x)  # (C,)
        normed = layernorm(read, W[ln + "w"][second], W[ln + "b"][second])  # (C,)
        h = W["fcw"][l] @ (x if bug in ("no ln2", "after") else normed) + W["fcb"][l]
        h = W["fcprojw"][l] @ (h if bug in ("no gelu", "late gelu") else gelu(h)) + W["fcprojb"][l]
        h = gelu(h) if bug == "late gelu" else h
        x = h if bug == "no residual2" else (normed if bug in ("normed residual2", "normed both") else x) + h
        x = layernorm(x, W["ln2w"][l], W["ln2b"][l]) if bug == "after" else x
        x = layernorm(x, W["lnfw"], W["lnfb"]) if bug == "lnf inside" else x
    last = (W["ln1w"][0], W["ln1b"][0]) if bug == "ln1 last" else (W["lnfw"], W["lnfb"])
    logits = W["wte"] @ (x if bug in ("no lnf", "lnf inside") else layernorm(x, *last))  # (V,)
    return np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum() if bug == "probabilities" else logits


def _attend(qkv, NH, cache, l, t, bug):
    """(C,) attention of one row, whose key and value join the cache (2, L, NH, T, hs)."""
    hs = cache.shape[-1]
    if bug == "heads first":
        q, k, v = qkv.reshape(NH, 3, hs).transpose(1, 0, 2)
    else:
        q, k, v = qkv.reshape(3, NH, hs)
    old = cache[:, l].copy()
    cache[:, l, :, t] = (v, k) if bug == "exchanged" else (k, v)
    read = old if bug == "old row" else cache[:, 0 if bug == "one cache" else l]
    own = bug != "not itself" and (bug != "only the first itself" or t == 0)
    first, last = (t if bug == "only itself" else 0), t + own
    keys, values = read[0, :, first:last], read[1, :, first:last]  # (NH, n, hs)
    values = old[1, :, first:last] if bug == "old value" else values
    keys = values if bug == "values twice" else keys
    values = keys if bug == "keys twice" else values
    if bug == "one head":
        q, keys, values = q.reshape(1, -1), *(a.transpose(1, 0, 2).reshape(1, last - first, -1) for a in (keys, values))
    scale = {"no scale": 1.0, "scale C": np.sqrt(NH * hs), "scale t": np.sqrt(t + 1)}.get(bug, np.sqrt(q.shape[-1]))
    scores = np.einsum("hd,hnd->hn", q, keys) / scale  # (NH, n)
    p = np.exp(scores if bug == "no softmax" else scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
    p = np.exp(scores - scores.max()) if bug == "one softmax" else p
    p = p if bug == "no softmax" else p / p.sum(axis=None if bug == "one softmax" else -1, keepdims=True)
    return np.einsum("hn,hnd->hd", p, values).reshape(-1)


def known(W, NH, tokens, held) -> dict:
    """Known wrong logits after the last token: functions of nothing, since most are never asked for."""
    return {
        said: (lambda bug=bug: row_by_row(W, NH, tokens, bug, held), where) for bug, (said, where) in MISTAKES.items()
    }


def explain_writes(name, cache, before, t):
    """What is wrong with which rows of a cache were written, as a sentence; None when nothing is.

    cache, before: (L, NH, T, hs), after the call for token t and before it.
    """
    changed = np.flatnonzero((cache != before).any(axis=(0, 1, 3)))
    where = f".\n→ Where to look: {CACHE}"
    if not changed.size:
        return f"nothing was written to {name}: its row t = {t} is what it was before{where}"
    if t not in changed:
        return f"row {changed[0]} of {name} was written, and t is {t}{where}"
    other = changed[changed != t]
    if other.size:
        why = "the rows before t are done" if other[0] < t else "the rows behind t are not there yet"
        return f"row {other[0]} of {name} was changed, and t is {t}: {why}{where}"
    kept = np.flatnonzero((cache[:, :, t] == before[:, :, t]).all(axis=(1, 2)))
    if kept.size:
        return f"row t = {t} of {name} was written, but not in layer {kept[0]}: each layer has its own{where}"
    return None


def timed(next_row, rng) -> tuple[float, float]:
    """Tokens per second on a small model of random weights: all rows again for each token, and with next_row."""
    L, NH, hs, V, T = 4, 4, 16, 64, 64
    W, tokens = weights(rng, L, NH, hs, V, T), rng.integers(0, V, T)
    keys, values = np.zeros((2, L, NH, T, hs))
    again = cached = np.inf
    for _ in range(3):
        start = perf_counter()
        for t in range(T):
            whole(W, NH, tokens[: t + 1])
        middle = perf_counter()
        for t in range(T):
            next_row(W, keys, values, t, int(tokens[t]))
        again, cached = min(again, middle - start), min(cached, perf_counter() - middle)
    return T / again, T / cached
