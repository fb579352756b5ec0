"""From plain functions to the contract of `llmc/backends`: one small adapter per layer, used by `plug.py`.

The learner's function takes arrays and returns new ones; the contract's writes in place and accumulates. An adapter
takes the learner's function and returns one with the contract's name and arguments.
"""

from inspect import Parameter, signature

import numpy as np

from llmc.backends import reference
from llmc.course.checks.guards.arguments import refuses_read_only
from llmc.errors import UserError


class Yours:
    """One of the learner's functions. It gets read-only inputs, and the shapes of its results are checked.

    A kernel that cannot take read-only arrays, because of its explicit signatures, gets copies.
    """

    def __init__(self, name, function):
        self.name, self.function, self.copies = name, function, False

    def __call__(self, *inputs, **shapes):
        """The results as a tuple of arrays. shapes: {name of a result: shape it must have}, in order."""
        results = self._run(inputs)
        results = results if isinstance(results, tuple | list) else (results,)
        if len(results) != len(shapes):
            wanted = ", ".join(shapes)
            got = f"{len(results)} values" if len(results) != 1 else "one value"
            raise UserError(f"your {self.name} returned {got} instead of {len(shapes)}: {wanted}.")
        for (name, shape), result in zip(shapes.items(), results):
            if result is None or np.shape(result) != shape:
                got = "None" if result is None else f"of shape {np.shape(result)}"
                raise UserError(f"{name} of your {self.name} is {got}, but should be an array of shape {shape}.")
        return results

    def _run(self, inputs):
        if not self.copies:
            try:
                return self.function(*[_locked(value) for value in inputs])
            except Exception as error:
                if not refuses_read_only(error):
                    raise
            self.copies = True
        return self.function(*[np.array(value) if isinstance(value, np.ndarray) else value for value in inputs])


def _locked(value):
    """A read-only view of an array; any other value itself."""
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def _writes_its_first(yours):
    """The contract's function writes its first argument; the learner's returns it, computed from the others."""

    def adapted(out, *inputs):
        (out[...],) = yours(*inputs, **{result: out.shape})  # (B, T, C), or any shape for gelu

    adapted.__name__, result = yours.name, "dx" if yours.name == "gelu_backward" else "out"
    return adapted


def _encoder_backward(yours):
    def encoder_backward(dwte, dwpe, dout, tokens):
        shapes = {"dwte": dwte.shape, "dwpe": dwpe.shape}
        more = yours(dout, tokens, len(dwte), len(dwpe), **shapes)
        dwte += more[0]  # (Vp, C)
        dwpe += more[1]  # (maxT, C)

    return encoder_backward


def _layernorm_forward(yours):
    def layernorm_forward(out, mean, rstd, x, w, b):
        shapes = {"out": out.shape, "mean": mean.shape, "rstd": rstd.shape}
        out[...], mean[...], rstd[...] = yours(x, w, b, **shapes)  # (B, T, C), (B, T), (B, T)

    return layernorm_forward


def _layernorm_backward(yours):
    def layernorm_backward(dx, dw, db, dout, x, w, mean, rstd):
        more = yours(dout, x, w, mean, rstd, dx=dx.shape, dw=dw.shape, db=db.shape)
        dx += more[0]  # (B, T, C), added: the residual stream forks in front of the layernorm
        dw += more[1]  # (C,)
        db += more[2]  # (C,)

    return layernorm_backward


def _matmul_forward(yours):
    def matmul_forward(out, x, w, b):
        b = np.zeros(len(w), w.dtype) if b is None else b  # (C_out,): the output head has none
        (out[...],) = yours(x, w, b, out=out.shape)  # (B, T, C_out)

    return matmul_forward


def _matmul_backward(yours):
    def matmul_backward(dx, dw, db, dout, x, w):
        more = yours(dout, x, w, dx=x.shape, dw=w.shape, db=(len(w),))
        if dx is not None:
            dx[...] = more[0]  # (B, T, C_in)
        dw += more[1]  # (C_out, C_in)
        if db is not None:
            db += more[2]  # (C_out,)

    return matmul_backward


def _attention_forward(yours):
    def attention_forward(out, stats, qkv, NH):
        shapes = {"out": out.shape, "probabilities": stats.shape}
        out[...], stats[...] = yours(qkv, NH, **shapes)  # (B, T, C), (B, NH, T, T)

    return attention_forward


def _attention_backward(yours):
    def attention_backward(dqkv, dout, out, stats, qkv, NH):
        (dqkv[...],) = yours(dout, qkv, stats, NH, dqkv=dqkv.shape)  # (B, T, 3C)

    return attention_backward


def _fused_classifier(yours):
    if writes_in_place(yours.function):  # the contract's own form
        return _fused_classifier_in_place(yours)
    of_the_mean = _is_gradient_of_the_mean(yours)

    def fused_classifier(losses, logits, targets, dloss, V):
        shapes = {"losses": losses.shape, "dlogits": logits.shape}
        losses[...], dlogits = yours(logits, targets, V, **shapes)  # (B, T), (B, T, Vp)
        if dloss is not None:
            np.multiply(dlogits, dloss * losses.size if of_the_mean else dloss, out=logits)  # (B, T, Vp)

    return fused_classifier


def _fused_classifier_in_place(yours):
    def fused_classifier(losses, logits, targets, dloss, V):
        yours.function(losses, logits, _locked(targets), dloss, V)  # (B, T), (B, T, Vp), (B, T)

    return fused_classifier


def writes_in_place(function) -> bool:
    """Is it called as the contract's fused_classifier(losses, logits, targets, dloss, V) is?

    A function that takes any arguments, and passes them on, is tried on a few numbers, and so is one with defaults.
    """
    kinds = [parameter.kind for parameter in signature(function).parameters.values()]
    if Parameter.VAR_POSITIONAL not in kinds and len(kinds) in (3, 5):
        return len(kinds) == 5
    try:
        function(*sample("fused_classifier"))
    except TypeError:  # it passes them on to one that takes fewer
        return False
    return True


def _is_gradient_of_the_mean(yours):
    """Has dlogits already been divided by the number of tokens? Found out with a few numbers."""
    losses, logits, targets, _, V = sample("fused_classifier")
    _, got = yours(logits, targets, V, losses=losses.shape, dlogits=logits.shape)  # (B, T, Vp)
    reference.fused_classifier(losses, logits, targets, 1.0, V)  # logits are now p - onehot
    factor = np.vdot(logits, got) / np.vdot(logits, logits)
    return bool(factor < 0.5)  # 1, or 1/(B·T) = 1/6


ADAPTERS = {
    "encoder_forward": _writes_its_first,
    "encoder_backward": _encoder_backward,
    "layernorm_forward": _layernorm_forward,
    "layernorm_backward": _layernorm_backward,
    "matmul_forward": _matmul_forward,
    "matmul_backward": _matmul_backward,
    "gelu_forward": _writes_its_first,
    "gelu_backward": _writes_its_first,
    "residual_forward": _writes_its_first,
    "attention_forward": _attention_forward,
    "attention_backward": _attention_backward,
    "fused_classifier": _fused_classifier,
}


def sample(name):
    """Arguments for the contract's function of that name: small arrays without zeros, the same in every call."""
    B, T, C, NH, V, Vp, maxT = 2, 3, 4, 2, 5, 7, 6
    draw = np.random.default_rng(7).standard_normal
    tokens = np.array([[0, 4, 4], [2, 0, 4]], np.int32)  # (B, T)
    qkv = draw((B, T, 3 * C))  # (B, T, 3C)
    att, stats = np.empty((B, T, C)), np.empty((B, NH, T, T))
    reference.attention_forward(att, stats, qkv, NH)
    x, w = draw((B, T, C)), draw((maxT, C))  # (B, T, C_in), (C_out, C_in) with C_out = maxT
    mean = x.mean(-1)  # (B, T)
    rstd = 1 / np.sqrt(x.var(-1) + reference.EPS)  # (B, T)
    return {
        "encoder_forward": (draw((B, T, C)), tokens, draw((Vp, C)), draw((maxT, C))),
        "encoder_backward": (draw((Vp, C)), draw((maxT, C)), x, tokens),
        "layernorm_forward": (draw((B, T, C)), mean.copy(), rstd.copy(), x, draw(C), draw(C)),
        "layernorm_backward": (draw((B, T, C)), draw(C), draw(C), draw((B, T, C)), x, draw(C), mean, rstd),
        "matmul_forward": (draw((B, T, maxT)), x, w, draw(maxT)),
        "matmul_backward": (draw((B, T, C)), draw((maxT, C)), draw(maxT), draw((B, T, maxT)), x, w),
        "gelu_forward": (draw((B, T, C)), x),
        "gelu_backward": (draw((B, T, C)), draw((B, T, C)), x),
        "residual_forward": (draw((B, T, C)), x, draw((B, T, C))),
        "attention_forward": (draw((B, T, C)), draw((B, NH, T, T)), qkv, NH),
        "attention_backward": (draw((B, T, 3 * C)), x, att, stats, qkv, NH),
        "fused_classifier": (draw((B, T)), draw((B, T, Vp)), tokens, 0.5, V),
    }[name]
