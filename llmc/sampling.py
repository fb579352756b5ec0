"""From a model to text: one token at a time, each drawn from the distribution the model gives.

Randomness is llm.c's: xorshift64* and a walk along the cumulative probabilities, so equal logits and an equal seed give
equal text. No key/value cache: every token runs the whole context again.
"""

from codecs import getincrementaldecoder
from functools import partial

import numpy as np

from llmc.errors import UserError

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


def probabilities(logits, temperature=1.0, top_k=None):
    """(V,) float64 probabilities from logits (V,): softmax(logits / temperature) over the top_k largest.

    Ties at the edge of the top_k are resolved in favour of the lower id. temperature must be above 0.
    """
    z = np.asarray(logits, dtype=np.float64) / temperature  # (V,)
    p = np.exp(z - z.max())  # (V,)
    if top_k is not None and top_k < p.size:
        p[np.argsort(-z, kind="stable")[top_k:]] = 0.0
    return p / p.sum()


def choose(logits, temperature, top_k, random) -> int:
    """One token id from logits (V,); temperature 0 takes the most probable one and draws nothing.

    Raises UserError when a logit is not a number: a model whose training diverged.
    """
    if not np.isfinite(logits).all():
        raise UserError(
            "this model's output is not a number: its training diverged; train it anew with a lower learning rate."
        )
    if temperature == 0:
        return int(np.argmax(logits))
    cumulative = np.cumsum(probabilities(logits, temperature, top_k))  # (V,)
    return int(np.searchsorted(cumulative, random.uniform() * cumulative[-1], side="right"))


def check_options(max_tokens, temperature, top_k):
    """Raise UserError unless the three make sense."""
    if max_tokens < 0:
        raise UserError(f"the number of tokens must be zero or more, not {max_tokens}.")
    if not 0 <= temperature < float("inf"):
        raise UserError(f"the temperature must be a number of zero or more, not {temperature}.")
    if top_k is not None and top_k < 1:
        raise UserError(f"top-k must be at least 1, not {top_k}; leave it out to keep every token.")


def generate(model, tokens, max_tokens, temperature=1.0, top_k=None, seed=1337, stop=None, window=None):
    """Yield up to max_tokens ids that continue `tokens` (at least one id). Ends early before the id `stop`.

    temperature: below 1 bolder, above 1 wilder, 0 always the most probable · top_k: only the k most probable, None
    for all · the same seed gives the same ids · window: how many tokens the model looks back on, at most and by
    default maxT. When the window is full, the oldest token leaves for each new one, and positions are counted from
    the first that stays. Raises UserError for options out of range, at once.
    """
    check_options(max_tokens, temperature, top_k)
    window = model.config.maxT if window is None else window
    model.config.check_sequence_length(window)
    context = [int(t) for t in tokens]
    if not context:
        raise UserError("generation needs at least one token to continue; begin with the end-of-text token.")
    draw = partial(choose, temperature=temperature, top_k=top_k, random=Random(seed))
    return _generate(model, context, max_tokens, draw, stop, window)


def _generate(model, context, max_tokens, draw, stop, window):
    for _ in range(max_tokens):
        token = draw(_next_logits(model, context[-window:]))
        if token == stop:
            return
        context.append(token)
        yield token


def _next_logits(model, context):
    """(V,) float64 logits behind the last of at most maxT tokens.

    T is padded to a power of two, so that a growing context re-plans the model's buffers a few times only; what stands
    behind the last token cannot change its logits, attention being causal.
    """
    n = len(context)
    T = min(model.config.maxT, 1 << (n - 1).bit_length())
    x = np.zeros((1, T), dtype=np.int32)  # (B, T)
    x[0, :n] = context
    logits = model.forward(x)[0, n - 1, : model.config.V]  # (V,)
    return np.asarray(model.backend.to_numpy(logits), dtype=np.float64)


def stream_text(ids, encoding):
    """Yield text for token ids as they come. Bytes that do not complete a character yet wait for the next token.

    Bytes that can never become a character, also those left at the end, appear as U+FFFD, the replacement character.
    """
    decoder = getincrementaldecoder("utf-8")(errors="replace")
    for token in ids:
        text = decoder.decode(encoding.decode_single_token_bytes(token))
        if text:
            yield text
    rest = decoder.decode(b"", final=True)
    if rest:
        yield rest


def sample_text(model, encoding, prompt="", max_tokens=256, temperature=1.0, top_k=None, seed=1337, window=None):
    """Yield pieces of text that continue the prompt (not repeated); an empty prompt begins a document.

    Ends at the end-of-text token or after max_tokens. Raises UserError when model and tokenizer do not belong together.
    """
    V = model.config.V
    if encoding.n_vocab != V:
        raise UserError(
            f"model and tokenizer do not belong together, with {V} and {encoding.n_vocab} tokens; use those of one run."
        )
    tokens = encoding.encode_ordinary(prompt) or [encoding.eot_token]
    ids = generate(model, tokens, max_tokens, temperature, top_k, seed, encoding.eot_token, window)
    return stream_text(ids, encoding)
