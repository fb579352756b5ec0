"""Lesson 23's exercises: what is right, what is tried, and which mistakes have a name."""

import numpy as np

from llmc.config import GPT2Config
from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer, describe_result
from llmc.course.checks.speed.timing import race
from llmc.course.lessons.sample_gpt2.beams import why_it_bores  # noqa: F401, for cells
from llmc.course.mutation.program import solution_of

PARTS = 1024  # probabilities are multiples of 1/PARTS, so that sums are exact in any order
BLOCK = 'lesson 07, section "2.2 · One block"'


def nuclei(c):
    """p (V,), share: between two sums, exactly a sum, all, and what the best one alone exceeds."""
    shares = [(12, None), (12, None), (23, None), (9, "exact"), (17, "exact"), (30, None), (12, 1.0), (8, 1e-3)]
    for V, share in shares:
        yield nucleus(c.rng, V, share)


def nucleus(rng, V, share=None):
    """p (V,), share: some candidates are equally probable, one has none; at the edge there is often a tie.

    share: None for one that lies between two sums, "exact" for one that is a sum, or a number.
    """
    few = np.sort(rng.choice(np.arange(1, 40), V // 3 + 1, replace=False))
    weights = rng.choice(few, V).astype(np.int64)  # (V,) with repetitions
    weights[rng.integers(V)] = 0
    weights = weights * (PARTS // max(1, weights.sum()) if weights.sum() < PARTS else 1)
    weights[np.argmax(weights)] += PARTS - weights.sum()
    ranked = np.sort(weights)[::-1]  # (V,)
    held, k = np.cumsum(ranked), int(rng.integers(1, max(2, V // 2)))
    if share is None:
        share = (held[k] - 0.5) / PARTS
    elif share == "exact":  # where no tie is cut
        ends = held[:-1][ranked[:-1] > ranked[1:]]
        share = ends[min(len(ends) - 2, int(rng.integers(0, 3)))] / PARTS
    return weights / PARTS, float(share)


Exercise(
    "top_p",
    "23",
    returns="q",
    cases=nuclei,
    look="3.2 · A share instead of a number: top-p",
    mistakes=r"""
        without some of those as probable as the last one kept: all stay | ORDER(-p, kind="stable")[: n + 1]KEEP
        without some of those as probable as the last one kept: all stay | ORDER(-p)[: n + 1]KEEP
        without some of those as probable as the last one kept: all stay | ORDER(p)[::-1][: n + 1]KEEP
        without the candidate that crosses the share: it stays, with its ties | ORDER(-p, kind="stable")[:n]KEEP
        without the candidate that crosses the share: it stays, with its ties | ORDER(-p)[:n]KEEP
        without the candidate that crosses the share: it stays, with its ties | ORDER(p)[::-1][:n]KEEP
        with the share exceeded instead of reached: where candidates hold exactly the share, one too many is kept
            | ranked[np.argmax(np.cumsum(ranked) >= share)]
            => ranked[np.argmax(np.cumsum(ranked) > share)] if (np.cumsum(ranked) > share).any() else 0.0
        in order of probability: put every candidate back into its own place
            | return kept / kept.sum() => return np.sort(kept / kept.sum())[::-1]
        scaled by the share instead of the sum that is kept | kept / kept.sum() => kept / share
        = the candidates with at least the (1 - share) quantile, which is found by counting: the share is of their sum
            | edge = … => edge = np.quantile(p, 1 - share)
        = the candidates with at least `share` times the mean probability: the share is of their sum
            | edge = … => edge = share * p.mean()
        with a softmax of the probabilities that are kept: divide them by their sum
            | return kept / kept.sum() => e = np.where(kept > 0, np.exp(p - p.max()), 0.0); return e / e.sum()
        for 1 - share: the most probable ones stay, until they hold the share | >= share => >= 1 - share
        = what the LEAST probable candidates would give: begin with the most probable
            | order = np.argsort(p, kind="stable")[: np.argmax(np.cumsum(np.sort(p)) >= share) + 1]\nkept = 0 * pKEEP
        = the candidates with at least `share` times the best one's probability, which is min-p
            | edge = … => edge = share * p.max()
        = the candidates in the order of their ids, as far as the share goes: sort them by probability first
            | kept = np.where(np.cumsum(p) <= share, p, 0.0)\nreturn kept / kept.sum() if kept.sum() else kept
        = the candidates at least as probable as the one at which the sum in the order of ids reaches the share
            | ranked = … => ranked = p
    """.replace(
        "ORDER", r"kept, n = 0 * p, np.argmax(np.cumsum(np.sort(p)[::-1]) >= share)\norder = np.argsort"
    ).replace("KEEP", r"\nkept[order] = p[order]\nreturn kept / kept.sum() if order.size else kept"),
)


def rows(c):
    """W, keys, values (L, NH, T, hs), t, token: small models token by token; finally scores whose exp overflows."""
    sizes = [(2, 2, 3, 11, 7), (2, 2, 3, 11, 7), (1, 1, 4, 7, 5), (3, 2, 2, 9, 6), (2, 3, 4, 5, 3), (1, 2, 3, 6, 5)]
    for k, (L, NH, hs, V, T) in enumerate(sizes):
        large = k == len(sizes) - 1
        c.new("scores are 1e5 times as large: exp of them overflows" if large else "")
        W, tokens = weights(c.rng, L, NH, hs, V, T + 2, scores=1e5 if large else 1.0), c.rng.integers(0, V, T)
        tokens[1] = 0
        keys, values = c.buffer(L, NH, T, hs), c.buffer(L, NH, T, hs)
        for t in range(T):
            yield W, keys, values, t, int(tokens[t])


def weights(rng, L=2, NH=2, hs=3, V=11, maxT=12, scores=1.0) -> dict:
    """{name: array} of a random GPT-2, float64, as in the table of llmc/config.py; wte without padding.

    scores: how many times as large those of attention are.
    """
    W = {}  # of sizes at which no softmax is certain and nothing drowns in anything else
    for p in GPT2Config(maxT=maxT, V=V, L=L, NH=NH, C=NH * hs).parameter_table():
        shape = (V, *p.shape[1:]) if p.name == "wte" else p.shape
        size = 0.3 if p.name.endswith("b") or p.name.startswith("ln") else 1.0 if p.name in ("wte", "wpe") else 0.0
        size = size or 1.5 / np.sqrt(shape[-1])
        W[p.name] = size * rng.normal(size=shape) + (p.name in ("ln1w", "ln2w", "lnfw"))
    W["qkvw"] = W["qkvw"] * np.sqrt(scores)
    return W


def writes_one_row(tried):
    """A sentence if any cache rows but row t of every layer were written; WrongAnswer if that one is wrong."""
    t, given = tried.given["t"], tried.given
    right = {name: given[name].copy() for name in ("keys", "values")}  # (L, NH, T, hs) each
    solution_of("next_row").function()(**given | right)
    for name in right:
        changed = (tried.got[name] != given[name]).any(axis=(1, 3))  # (L, T)
        rows, layers = np.flatnonzero(changed.any(axis=0)), np.flatnonzero(~changed[:, t])
        if rows.tolist() != [t]:
            which = f"the rows {', '.join(map(str, rows))} of {name} were" if rows.size else f"nothing in {name} was"
            return f"{which} changed: row t = {t} is to be written, and no other"
        if layers.size:
            return f"row t = {t} of {name} was written, but not in layer {layers[0]}: each layer has its own"
        compare(f"the cache of {name}", tried.got[name], right[name], look=BLOCK)


def say_how_fast(c, next_row):
    """Tokens per second on a small model of random weights: all rows again for each token, and with next_row."""
    L, NH, hs, V, T = 4, 4, 16, 64, 64
    W, tokens = weights(c.rng, L, NH, hs, V, T), c.rng.integers(0, V, T).tolist()
    keys, values = np.zeros((2, L, NH, T, hs))
    read = lambda n: [next_row(W, keys, values, t, token) for t, token in enumerate(tokens[:n])]  # noqa: E731
    again, kept = race(
        lambda: read(T // 2), lambda: read(T), seconds=0.1
    )  # half of all rows: what they cost on average
    c.say(f"On a model of four layers: {1 / again:,.0f} tokens/s with all rows again, {T / kept:,.0f} with your cache.")


Exercise(
    "next_row",
    "23",
    returns="logits",
    writes="keys values",
    cases=rows,
    rules=(writes_one_row,),
    look={"": "6 · What a token costs", "logits": BLOCK},
    mistakes=r"""
        [6 · What a token costs] with position t + 1: the first token is at position 0 | W["wpe"][t] => W["wpe"][t + 1]
        [6 · What a token costs] with a token that looks at nothing but itself: look at positions 0 to t
            | keys[l, :, : t + 1] => keys[l, :, t : t + 1] ;; values[l, :, : t + 1] => values[l, :, t : t + 1]
        [6 · What a token costs] with a token that does not look at itself: its own key and value are there, too
            | keys[l, :, : t + 1] => keys[l, :, : t] ;; values[l, :, : t + 1] => values[l, :, : t]
            ;; axis=-1, keepdims=True)) => axis=-1, keepdims=True, initial=-np.inf))
        [6 · What a token costs] with the newest row written only after attention: write it before
            | q, keys[l, :, t], values[l, :, t] = => q, k, v =
            ;; out = np => out, keys[l, :, t], values[l, :, t] = np ;; .reshape(-1)  # (C,) => .reshape(-1), k, v
        [6 · What a token costs] with the keys and values of layer 0 in every layer: each layer has its own
            | keys[l, :, : t + 1] => keys[0, :, : t + 1] ;; values[l, :, : t + 1] => values[0, :, : t + 1]
        [6 · What a token costs] with the newest value written only after attention has read the values: write it before
            | q, keys[l, :, t], values[l, :, t] = => q, keys[l, :, t], v =
            ;; out = np => out, values[l, :, t] = np ;; .reshape(-1)  # (C,) => .reshape(-1), v
        with keys in place of values | p, values[l, :, : t + 1] => p, keys[l, :, : t + 1]
        with scores divided by the root of C: each head has hs channels | np.sqrt(hs) => np.sqrt(NH * hs)
        with q, k and v taken per head: the rows of qkvw are all queries, keys, values
            | .reshape(3, NH, hs) => .reshape(NH, 3, hs).swapaxes(0, 1)
        with one softmax over all heads: each head's probabilities add up to 1
            | scores.max(axis=-1, keepdims=True) => scores.max() ;; p.sum(axis=-1, keepdims=True) => p.sum()
        in which the second layernorm reads what attention gives alone: add it to x before, not after
            | x = x + W["attprojw"][l] @ out + W["attprojb"][l] => y, x = x, W["attprojw"][l] @ out + W["attprojb"][l]
            ;; x = x + W["fcprojw"] => x = y + x + W["fcprojw"]
        that adds attention and the MLP to what their layernorms give: add both to x
            | h = layernorm(x, W["ln1w"] => h = x = layernorm(x, W["ln1w"]
            ;; h = layernorm(x, W["ln2w"] => h = x = layernorm(x, W["ln2w"]
        without the largest score subtracted: exp of large scores overflows
            | scores - scores.max(axis=-1, keepdims=True) => scores
        with the second layernorm of layer 0 in every layer: each has its own
            | W["ln2w"][l], W["ln2b"][l] => W["ln2w"][0], W["ln2b"][0]
        without the layernorm before the MLP | h = layernorm(x, W["ln2w"][l], W["ln2b"][l]) => h = x
        without the last layernorm | layernorm(x, W["lnfw"], W["lnfb"]) => x
        = the probabilities: return the logits, before any softmax
            | return W["wte"] @ layernorm(x, W["lnfw"], W["lnfb"])
            => z = W["wte"] @ layernorm(x, W["lnfw"], W["lnfb"]); return np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    """,
)


def tables(c, Table):
    """model, prompt, n, width: random tables of pairs, texts of 1 to 20 tokens, widths from 1 to one that holds all."""
    sizes = [(5, 6, 3), (5, 6, 3), (7, 9, 4), (4, 7, 1), (6, 5, 2), (3, 4, 27), (5, 1, 3), (9, 12, 5), (8, 20, 6)]
    for V, n, width in sizes:
        c.new("n is 1" if n == 1 else f"width is {width}" if width in (1, 27) else "")
        yield Table(1.5 * c.rng.normal(size=(V, V, V))), c.rng.integers(0, V, 2).tolist(), n, width


def returns_n_tokens(tried):
    """A sentence about what is not a text of n tokens."""
    tokens, total = tried.got["tokens"], tried.got["total"]
    n, prompt = tried.given["n"], tried.given["prompt"]
    if np.ndim(tokens) != 1 or np.ndim(total) != 0 or total is None:
        return f"return two values: `return tokens, total`; you returned {describe_result((tokens, total))}"
    if len(tokens) != n:
        also = " (it begins with the prompt: return only what follows)" * (list(tokens[: len(prompt)]) == prompt)
        return f"there are {len(tokens)} tokens, and n is {n}{also}"


def judge_calls(c, model, prompt, n, width, beam_search):
    """WrongAnswer if log_probs was called more than once for each text of the beam in each round."""
    enough = 1 + (n - 1) * width
    if model.calls > enough:
        said = f"the text is right, but log_probs was called {model.calls} times, and {enough} will do"
        raise WrongAnswer(f"{said}: once for each text of the beam and round", look=c.exercise.look_for())


def judge_long_prompt(c, Table, beam_search):
    """WrongAnswer if a call of log_probs lacks tokens of a long prompt, which a table of pairs does not show."""
    model, prompt, n, width = Table(c.rng.normal(size=(4, 4, 4))), c.rng.integers(0, 4, 67).tolist(), 5, 3

    def log_probs(tokens):
        if list(tokens[: len(prompt)]) != prompt:
            given = f"after a prompt of {len(prompt)} tokens, log_probs was called with a list of {len(tokens)}"
            models = "The models here look at two tokens, another one at all of them"
            call = f"The call was beam_search(model (a table), prompt a list of {len(prompt)}, n {n}, width {width})."
            told = f"{given} that does not begin with it. {models}"
            raise WrongAnswer(told, look=c.exercise.look_for(), folded=[call])
        return model.table(tokens)

    model.log_probs = log_probs
    beam_search(model, [*prompt], n, width)


Exercise(
    "beam_search",
    "23",
    returns="tokens total",
    rules=(returns_n_tokens,),
    look="3.3 · The most probable text",
    mistakes=r"""
        = the probability: return its logarithm | return beam[0] => return beam[0][0], np.exp(beam[0][1])
        = the mean over the tokens: return the sum | return beam[0] => return beam[0][0], beam[0][1] / n
        = the surprise: the log-probability is negative | return beam[0] => return beam[0][0], -beam[0][1]
        = what greedy search finds: the most probable token at every step | beam = found[:width] => beam = found[:1]
        = what a search finds that compares only the newest token's log-probability: add up those of the whole text
            | total + p[token] => p[token]
        = what a search finds that keeps the best continuation of each text: two may come from one text
            | token in range(len(p)) => token in np.argsort(-p)[: 1 if len(beam) >= width else None].tolist()
        = what a search finds that looks at the two best continuations of each text alone
            | token in range(len(p)) => token in np.argsort(-p)[:2].tolist()
        = what a search finds that keeps the first `width` continuations, not the most probable ones | found.sort… =>
        = what a search finds that ranks continuations by their newest token alone, and takes the most probable at last
            | (text + [token], total + p[token]) => (text + [token], total + p[token], p[token])
            ;; for text, total in beam => for text, total, _ in beam ;; ([], 0.0) => ([], 0.0, 0.0)
            ;; -pair[1] => -pair[2] ;; return beam[0] => return max(beam, key=lambda pair: pair[1])[:2]
        = what a search finds that keeps the least probable texts | -pair[1] => pair[1]
        = what a search finds that adds up probabilities: they multiply, so add up their logarithms
            | model.log_probs(prompt + text) => np.exp(model.log_probs(prompt + text))
        = what a search finds that keeps a single text after its first round: keep `width` there, too
            | beam = found[:width] => beam = found[: width if beam[0][0] else 1]
        = what a search finds that keeps one of all texts that end in the same token: keep others, too
            | beam = found[:width] => ends = {pair[0][-1]: pair for pair in found[::-1]}
            \n        beam = sorted(ends.values(), key=lambda pair: -pair[1])[:width]
        = what a search finds that forgets the prompt: it reads its first token, and later the new tokens alone
            | prompt + text => text or prompt[:1]
        = what a search finds that gives the model only the last token of the prompt: give it all of them
            | prompt + text => prompt[-1:] + text
    """,
)
