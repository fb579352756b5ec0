"""From a model to text: one token at a time, each drawn from the distribution that the model predicts.

Random numbers come from llm.c's xorshift64* and a walk along the cumulative probabilities, so the same logits and seed
give the same text. Temperature, top-k and top-p (Holtzman et al. 2020) narrow the choice in this order.
"""

from codecs import getincrementaldecoder
from functools import partial

import numpy as np

from llmc import quick_draw
from llmc.data.encoding import encode
from llmc.errors import UserError
from llmc.kv_cache import KeyValueCache

MASK = (1 << 64) - 1
STATE_OF_SEED_ZERO = 0x9E3779B97F4A7C15  # xorshift never leaves state zero, so seed 0 starts here


class Random:
    """xorshift64* (Marsaglia 2003, Vigna 2016), as in llm.c's train_gpt2.c. seed: any whole number."""

    def __init__(self, seed=1337):
        self.state = seed & MASK or STATE_OF_SEED_ZERO

    def uint32(self) -> int:
        """The next 32 bits."""
        s = self.state
        s ^= s >> 12
        s ^= (s << 25) & MASK
        s ^= s >> 27
        self.state = s
        return ((s * 0x2545F4914F6CDD1D) & MASK) >> 32

    def uniform(self) -> float:
        """A number in [0, 1) with 24 bits."""
        return (self.uint32() >> 8) / (1 << 24)


def probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    """(V,) float64 probabilities from logits (V,): softmax(logits / temperature), with all but the chosen part set to
    zero.

    top_k: keep the k most probable tokens.
    top_p: of those, keep as few of the most probable as make up a share of at least top_p.

    The probabilities that are kept are scaled to sum to 1. Equally probable tokens are ordered by id.
    temperature must be above 0.
    """
    z = np.asarray(logits, dtype=np.float64)  # (V,)
    with np.errstate(over="ignore"):  # at a temperature near 0 all but the largest become -inf
        p = np.exp((z - z.max()) / temperature)  # (V,)
    if (top_k or p.size) < p.size or (top_p or 1) < 1:
        order = np.argsort(-z, kind="stable")[:top_k]  # (k,)
        held = np.cumsum(p[order])  # (k,)
        n = order.size if top_p is None else np.searchsorted(held, top_p * held[-1]) + 1
        kept = np.zeros_like(p)  # (V,)
        kept[order[:n]] = p[order[:n]]
        p = kept
    return p / p.sum()


def choose(logits, temperature, top_k, random, top_p=None) -> int:
    """Choose a token id from logits (V,); temperature 0 takes the most probable one without drawing a random number.

    Raises UserError if a logit is not a finite number, because then the model's training has diverged.
    """
    z = np.asarray(logits)  # (V,)
    z = z if z.dtype in (np.float32, np.float64) else z.astype(np.float64)
    if not (np.isfinite(z.min()) and np.isfinite(z.max())):
        raise UserError(
            "this model's output is not a number, so its training diverged; train it again with a lower learning rate."
        )
    if temperature == 0:
        return int(np.argmax(z))
    coin = random.uniform()
    token = quick_draw.draw(z, temperature, top_k, top_p, coin)
    return drawn(probabilities(z, temperature, top_k, top_p), coin) if token is None else token


def drawn(p, coin) -> int:
    """The token that a coin, a number in [0, 1), chooses according to probabilities p (V,)."""
    cumulative = np.cumsum(p)  # (V,)
    return int(np.searchsorted(cumulative, coin * cumulative[-1], side="right"))


def check_options(max_tokens, temperature, top_k, top_p=None):
    """Raise UserError unless all four options make sense."""
    if max_tokens < 0:
        raise UserError(f"the number of tokens must be zero or more, not {max_tokens}.")
    if not 0 <= temperature < float("inf"):
        raise UserError(f"the temperature must be a number of zero or more, not {temperature}.")
    if top_k is not None and top_k < 1:
        raise UserError(f"top-k must be at least 1, not {top_k}; leave it out to keep every token.")
    if top_p is not None and not 0 < top_p <= 1:
        raise UserError(f"top-p must be above 0 and at most 1, not {top_p}; leave it out to keep every token.")


def generate(
    model, tokens, max_tokens, temperature=1.0, top_k=None, top_p=None, seed=1337, stop=None, window=None, cache=True
):
    """Yield up to max_tokens ids that continue `tokens` (at least one id). Stops before it would yield the id `stop`.

    temperature: below 1 is safer, above 1 wilder, 0 always takes the most probable token.
    top_k, top_p: see `probabilities`; None keeps all.
    seed: the same seed gives the same ids.
    window: how many tokens back the model looks, at most maxT, which is the default. When the window is full, each new
        token pushes out the oldest, and positions are counted from the first token that stays.
    cache: keep keys and values, so that a token costs one row instead of the whole context; the ids are the same, up to
        rounding. This helps until the window is full: once positions shift, every token reads the whole window again.

    Raises UserError at once for options out of range.
    """
    check_options(max_tokens, temperature, top_k, top_p)
    window = model.config.maxT if window is None else window
    model.config.check_sequence_length(window)
    context = [int(t) for t in tokens]
    if not context:
        raise UserError("generation needs at least one token to continue; start with the end-of-text token.")
    draw = partial(choose, temperature=temperature, top_k=top_k, random=Random(seed), top_p=top_p)
    return _generate(model, context, max_tokens, draw=draw, stop=stop, window=window, cache=cache)


def _generate(model, context, max_tokens, *, draw, stop, window, cache):
    kept = KeyValueCache(model, T=min(window, len(context) + max_tokens)) if cache and max_tokens else None
    for _ in range(max_tokens):
        logits = _next_logits(model, context[-window:]) if kept is None else _cached_logits(kept, context, window)
        token = draw(logits)
        if token == stop:
            return
        context.append(token)
        yield token


def _next_logits(model, context):
    """(V,) logits after the last of at most maxT tokens.

    T is padded to a power of two, so that a growing context re-plans the model's buffers only a few times; because
    attention is causal, the padding cannot change the logits of the token before it.
    """
    n = len(context)
    T = min(model.config.maxT, 1 << (n - 1).bit_length())
    x = np.zeros((1, T), dtype=np.int32)  # (B, T)
    x[0, :n] = context
    return _on_host(model, model.logits(x)[0, n - 1])


def _cached_logits(kept, context, window):
    """The same, but it only reads the context's tokens that `kept` does not hold yet: after a shift, all of them."""
    if len(context) > window:
        context, kept.length = context[-window:], 0
    x = np.array([context[kept.length :]], dtype=np.int32)  # (1, n)
    return _on_host(kept.model, kept.model.forward_cached(x, kept)[0, 0])


def _on_host(model, logits):
    """(V,) float32 or float64 on the host, where tokens are drawn, from logits (Vp,) of the model's backend."""
    found = np.asarray(model.backend.to_numpy(logits[: model.config.V]))  # (V,)
    return found if found.itemsize >= 4 else found.astype(np.float32)


def stream_text(ids, encoding):
    """Yield text for token ids as they arrive. The bytes of an incomplete character wait for the next token.

    Bytes that can never become a character, and those left over at the end, become U+FFFD, the replacement character.
    """
    decoder = getincrementaldecoder("utf-8")(errors="replace")
    for token in ids:
        text = decoder.decode(encoding.decode_single_token_bytes(token))
        if text:
            yield text
    rest = decoder.decode(b"", final=True)
    if rest:
        yield rest


def sample_text(model, encoding, prompt="", max_tokens=256, temperature=1.0, top_k=None, seed=1337, **options):
    """Yield pieces of text that continue the prompt, which is not repeated; an empty prompt begins a document.

    Ends at the end-of-text token or after max_tokens. options: top_p, window, cache, see `generate`. Raises UserError
    if model and tokenizer do not belong together.
    """
    V = model.config.V
    if encoding.n_vocab != V:
        raise UserError(
            f"model and tokenizer do not belong together: the model has {V} tokens and the tokenizer"
            f" {encoding.n_vocab}; use those of one run."
        )
    tokens = encode(encoding, prompt) or [encoding.eot_token]
    ids = generate(model, tokens, max_tokens, temperature, top_k, seed=seed, stop=encoding.eot_token, **options)
    return stream_text(ids, encoding)
