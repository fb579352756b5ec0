"""Key/value cache: what a model has read stays read, so that a further token costs one row instead of all of them.

Attention looks back through the keys and values of earlier positions alone, and those never change, so they are kept
(every decoder does; Shazeer 2019 counts what it saves and what it costs). It holds as long as positions stay: when a
window slides, each token stands one position further left, and all must be read again.

Memory: keys and values (L, 2, B, NH, T, hs), and one layer's activations for T new tokens, planned once.
"""

from llmc.errors import UserError
from llmc.flat_buffer import FlatBuffer


class KeyValueCache:
    """The memory of `model.forward_cached`, for B sequences of up to T tokens (default: the model's maxT).

    `length`: how many tokens of each sequence it holds; set it back to forget the later ones. What it holds is right
    only as long as the model's parameters stay as they are.
    """

    def __init__(self, model, B: int = 1, T: int | None = None):
        c = model.config
        self.T = c.maxT if T is None else T
        c.check_sequence_length(self.T)
        self.model, self.B, self.length = model, B, 0
        flat = FlatBuffer(model.backend, model.dtype, {"kv": (c.L, 2, B, c.NH, self.T, c.hs)})
        self._kv = flat.allocate()["kv"]  # (L, 2, B, NH, T, hs)
        self._rows = FlatBuffer(model.backend, model.dtype)
        self._rows.allocate(self._shapes(self.T))
        self._weights = [{name: model.params[name][l] for name in BLOCK} for l in range(c.L)]

    def _shapes(self, n):
        """One layer's activations for n tokens, used by all layers in turn; logits behind the last token alone."""
        B, C = self.B, self.model.config.C
        return {
            "x": (B, n, C),  # the residual stream between blocks
            "residual": (B, n, C),  # and in the middle of one
            "ln": (B, n, C),
            "mean": (B, n),
            "rstd": (B, n),
            "qkv": (B, n, 3 * C),
            "atty": (B, n, C),
            "proj": (B, n, C),
            "fch": (B, n, 4 * C),
            "fch_gelu": (B, n, 4 * C),
            "last": (B, 1, C),
            "lnf": (B, 1, C),
            "lnf_mean": (B, 1),
            "lnf_rstd": (B, 1),
            "logits": (B, 1, self.model.config.Vp),
        }

    def extend(self, tokens):
        """Read tokens (B, n) int32, which follow those that are here: `forward_cached` without its checks of ids."""
        B, n = tokens.shape
        if B != self.B or self.length + n > self.T:
            raise UserError(
                f"this cache is for {self.B} x {self.T} tokens and holds {self.length} of each sequence;"
                f" {B} x {n} more do not fit."
            )
        be, p = self.model.backend, self.model.params
        a = self._rows.allocate(self._shapes(n))
        be.encoder_forward(a["x"], be.from_numpy(tokens), p["wte"], p["wpe"][self.length :])  # (B, n, C)
        for weights, kv in zip(self._weights, self._kv):
            self._block(a, weights, kv)  # (B, n, C)
        self.length += n
        a["last"][...] = a["x"][:, -1:]  # (B, 1, C)
        be.layernorm_forward(a["lnf"], a["lnf_mean"], a["lnf_rstd"], a["last"], p["lnfw"], p["lnfb"])  # (B, 1, C)
        be.matmul_forward(a["logits"], a["lnf"], p["wte"], None)  # (B, 1, Vp)
        return a["logits"]

    def _block(self, a, w, kv):
        """One block on n new positions, in place of x; kv (2, B, NH, T, hs) is the layer's part of the cache."""
        be, x, norm = self.model.backend, a["x"], (a["ln"], a["mean"], a["rstd"])
        be.layernorm_forward(*norm, x, w["ln1w"], w["ln1b"])  # (B, n, C)
        be.matmul_forward(a["qkv"], a["ln"], w["qkvw"], w["qkvb"])  # (B, n, 3C)
        be.attention_cached(a["atty"], kv, a["qkv"], self.model.config.NH, self.length)  # (B, n, C)
        be.matmul_forward(a["proj"], a["atty"], w["attprojw"], w["attprojb"])  # (B, n, C)
        be.residual_layernorm_forward(a["residual"], *norm, x, a["proj"], w["ln2w"], w["ln2b"])  # (B, n, C)
        be.matmul_gelu_forward(a["fch_gelu"], a["fch"], a["ln"], w["fcw"], w["fcb"])  # (B, n, 4C) both
        be.matmul_forward(a["proj"], a["fch_gelu"], w["fcprojw"], w["fcprojb"])  # (B, n, C)
        be.residual_forward(x, a["residual"], a["proj"])  # (B, n, C)


BLOCK = (
    *("ln1w", "ln1b", "qkvw", "qkvb", "attprojw", "attprojb"),
    *("ln2w", "ln2b", "fcw", "fcb", "fcprojw", "fcprojb"),
)
