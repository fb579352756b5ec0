"""Key/value cache: a model reads each token once, so that another token costs one row instead of all of them.

Attention looks back only through the keys and values of earlier positions, and those never change, so they are kept
(every decoder does so; Shazeer 2019 counts what it saves and what it costs). That works as long as positions stay the
same: when a window slides, each token moves one position to the left, and all of them must be read again.

Memory: keys and values (L, 2, B, NH, T, hs), and one layer's activations for T new tokens, planned once.
"""

from functools import lru_cache

import numpy as np

from llmc import blocks
from llmc.errors import UserError
from llmc.flat_buffer import FlatBuffer, Tensor


class KeyValueCache:
    """The memory of `model.forward_cached`, for B sequences of up to T tokens (default: the model's maxT).

    `length`: how many tokens of each sequence it holds; set it back to forget the later ones. Its contents are right
    only as long as the model's parameters stay the same.
    """

    def __init__(self, model, B: int = 1, T: int | None = None):
        c = model.config
        self.T = c.maxT if T is None else T
        c.check_sequence_length(self.T)
        self.model, self.B, self.length = model, B, 0
        kv, p = Tensor("kv", (c.L, 2, B, c.NH, self.T, c.hs), stacked=True), model.precision
        self._kv = FlatBuffer(model.backend, p.activations, [kv]).allocate()
        self._acts = FlatBuffer(model.backend, p.activations, _table(c, B, self.T), p.kinds).allocate()
        # (B + 1,): a token of each sequence and `length`, where a recorded step finds them
        self._next = model.backend.from_numpy(np.zeros(B + 1, np.int32))

    def extend(self, tokens):
        """Read tokens (B, n) int32, which follow those already here: `forward_cached` without its checks of ids."""
        B, n = tokens.shape
        if B != self.B or self.length + n > self.T:
            raise UserError(
                f"this cache is for {self.B} x {self.T} tokens and holds {self.length} of each sequence;"
                f" {B} x {n} more do not fit."
            )
        model, be, acts = self.model, self.model.backend, self._acts.allocate(_table(self.model.config, B, n))
        if n == 1 and B <= be.FEW:
            be.one_token(acts, self._kv["kv"], model.params, tokens, self.length, model.config.NH)
        elif n == 1 and be.RUNS_AHEAD:
            be.overwrite(self._next, np.append(tokens, np.int32(self.length)))
            arrays = model.params.flat, *acts.flats, self._kv.flat, self._next
            be.repeat((model.config, "one more token", B, self.T), arrays, lambda: self._one_more(acts))
        else:
            positions = model.params["wpe"][self.length :]  # (maxT - length, C)
            be.encoder_forward(acts["encoded"], be.from_numpy(tokens), model.params["wte"], positions)  # (B, n, C)
            self._extend(acts, self.length)
        self.length += n
        return acts["logits"]

    def _one_more(self, acts):
        """What is recorded: all that comes after the tokens and `length` have been copied."""
        tokens, start, params = self._next[: self.B], self._next[self.B :], self.model.params  # (B,), (1,)
        self.model.backend.encoder_forward_at(acts["encoded"], tokens, params["wte"], params["wpe"], start)  # (B, 1, C)
        self._extend(acts, start)

    def _extend(self, acts, start):
        """From acts["encoded"] to acts["logits"]. start: how many tokens came before, or an array (1,) that says so."""
        model, be, NH = self.model, self.model.backend, self.model.config.NH

        def attend(l, a):
            be.attention_cached(a["atty"], self._kv.layer(l)["kv"], a["qkv"], NH, start)  # (B, n, C)

        blocks.forward(be, model.config, model.params, acts, attend)
        last = acts["lnf"]  # (B, n, C)
        if last.shape[1] > 1:
            acts["last"][...] = last[:, -1:]  # (B, 1, C)
            last = acts["last"]
        be.matmul_forward(acts["logits"], last, model.params["wte"], None)  # (B, 1, Vp)


@lru_cache  # every token that is sampled asks for the table of n = 1
def _table(config, B, n):
    """One layer's activations for n tokens, used by all layers in turn; logits only after the last token."""
    head = [Tensor("last", (B, 1, config.C)), Tensor("logits", (B, 1, config.Vp))]
    table = blocks.activation_table(config, B, n) + head
    # The numbers of rows come last: all other arrays then begin at a multiple of 16 bytes, as fast kernels need.
    return sorted(table, key=lambda tensor: tensor.shape == (B, n))
