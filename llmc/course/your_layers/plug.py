"""Train GPT-2 with your own layers: `GPT2(config, backend=learner_backend(globals()))`.

The functions of lessons 01 to 06 take arrays and return new ones; a backend (the contract in `llmc/backends`) writes in
place and accumulates gradients. `adapters.py` adapts each of them. Where a function is missing or still a stub, the
reference's is used. `print(backend)` lists which functions are yours.
"""

import numpy as np

from llmc.backends import reference
from llmc.course.your_layers.adapters import ADAPTERS, Yours, sample
from llmc.errors import UserError

LIKE = 1e-4  # a function agrees with the reference when no entry differs by more than this share of the largest


class LearnerBackend:
    """What `learner_backend` returns. yours: names of the functions in use; differing: those unlike the reference."""

    def __init__(self, functions):
        self.yours, self.stubs, self.differing = [], [], []
        for name, adapter in ADAPTERS.items():
            if name in functions:
                self._plug(name, adapter, functions[name])

    def __getattr__(self, name):
        return getattr(reference, name)  # functions that were not plugged in

    def _plug(self, name, adapter, function):
        """Try the function on a few numbers, then use it. Raises UserError if it cannot be used."""
        if not callable(function):
            raise UserError(f"{name} must be a function, not {type(function).__name__}.")
        try:
            adapted = adapter(Yours(name, function))
            mine, theirs = sample(adapted.__name__), sample(adapted.__name__)
            adapted(*mine)
        except NotImplementedError:
            self.stubs.append(name)
            return
        except UserError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".replace("\n", " ").rstrip(".: ")
            if "read-only" in reason:
                raise UserError(
                    f"your {name} wrote to one of its inputs ({reason}); compute into a new array."
                ) from error
            raise UserError(f"your {name} stopped on a small input with {reason}; fix it, or leave it out.") from error
        getattr(reference, adapted.__name__)(*theirs)
        self.yours.append(name)
        self.differing += [name] * (not all(map(_agree, mine, theirs)))
        setattr(self, adapted.__name__, adapted)

    def residual_layernorm_forward(self, residual, out, mean, rstd, x1, x2, w, b):
        """Residual addition, then layernorm; each is the learner's or the reference's."""
        self.residual_forward(residual, x1, x2)  # (B, T, C)
        self.layernorm_forward(out, mean, rstd, residual, w, b)  # (B, T, C)

    def matmul_gelu_forward(self, gelu_out, out, x, w, b):
        """Matmul, then GELU; each is the learner's or the reference's."""
        self.matmul_forward(out, x, w, b)  # (B, T, C_out)
        self.gelu_forward(gelu_out, out)  # (B, T, C_out)

    def attention_cached(self, out, cache, qkv, NH, start):
        """With the attention_forward in use: it runs over the whole context, and its last n rows are kept."""
        reference.attention_cached(out, cache, qkv, NH, start)  # (B, n, C), and the cache is filled
        if "attention_forward" not in self.yours:
            return
        B, n, C = out.shape
        end = start + n
        whole = np.zeros((3, B, end, C), out.dtype)  # the earlier queries do not matter
        whole[0, :, start:] = qkv[..., :C]  # (B, n, C)
        whole[1:] = cache[:, :, :, :end].swapaxes(2, 3).reshape(2, B, end, C)
        result, stats = np.empty((B, end, C), out.dtype), np.empty((B, NH, end, end), out.dtype)
        self.attention_forward(result, stats, np.concatenate(whole, axis=-1), NH)
        out[...] = result[:, start:]  # (B, n, C)

    def __repr__(self):
        def whose(name):
            if name in self.differing:
                return "yours, but it differs from the reference"
            return "yours" if name in self.yours else "the reference's" + (" (a stub here)" * (name in self.stubs))

        rows = [f"{name:<20} {whose(name)}" for name in ADAPTERS]
        return "\n".join([*rows, f"{len(self.yours)} of {len(ADAPTERS)} functions are yours."])


def learner_backend(functions) -> LearnerBackend:
    """A backend for `llmc.model.GPT2` made of the learner's functions.

    functions: {name: function}, for example `globals()` of a notebook, or a list of functions. Known names are those of
    ADAPTERS; other entries are ignored. Functions take and return NumPy arrays and change none of their inputs:

        encoder_forward(tokens, wte, wpe) -> out             encoder_backward(dout, tokens, V, maxT) -> dwte, dwpe
        layernorm_forward(x, w, b) -> out, mean, rstd          layernorm_backward(dout, x, w, mean, rstd) -> dx, dw, db
        matmul_forward(x, w, b) -> out                         matmul_backward(dout, x, w) -> dx, dw, db
        gelu_forward(x) -> out                                 gelu_backward(dout, x) -> dx
        attention_forward(qkv, NH) -> out, probabilities       attention_backward(dout, qkv, probabilities, NH) -> dqkv
        residual_forward(x1, x2) -> out                        fused_classifier(losses, logits, targets, dloss, V)

    fused_classifier writes losses and logits in place, as in the contract and in lesson 05. It may also be
    fused_classifier(logits, targets, V) -> losses, dlogits, with the gradient of each loss or of their mean.
    Raises UserError, here or in the first step, if a function fails or returns arrays of the wrong number or shape.
    """
    if not hasattr(functions, "keys"):
        functions = {getattr(function, "__name__", "?"): function for function in functions}
    return LearnerBackend(functions)


def _agree(mine, theirs) -> bool:
    """Are two results, or two equal inputs, the same up to LIKE?"""
    if not isinstance(mine, np.ndarray):
        return True
    return bool(np.abs(mine - theirs).max() <= LIKE * np.abs(theirs).max())
