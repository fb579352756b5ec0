"""The kernels of llmc/kernels/mixed, for `llmc bench --kernels --precision bf16` or fp16.

The calls are those of calls.py, with the arrays that have 16 bits in training rounded. Their minimum bytes are those
that a step's profile counts (floors.py). A kernel is right if its result differs by less than the gap between two
16-bit numbers, at the largest element, from what the "numpy" backend computes from the same numbers in float64.
"""

from dataclasses import replace
from importlib import import_module
from typing import NamedTuple

import numpy as np

from llmc import cuda
from llmc.backends import Backend, reference
from llmc.bench.kernels.calls import MAKERS
from llmc.bench.kernels.cases import Case
from llmc.bench.kernels.floors import LEAST
from llmc.errors import UserError
from llmc.kernels.mixed.pointwise import round_to

GAP = {"bfloat16": 2.0**-7, "float16": 2.0**-10}  # from 1 to the next number
FUNCTIONS = {  # layer -> {function: names of its float32 arrays}
    "encoder": {"encoder_forward": ("out",), "encoder_backward": ("dout",)},
    "layernorm": {
        "layernorm_forward": ("x", "mean", "rstd"),
        "residual_layernorm_forward": ("residual", "x1", "mean", "rstd"),
        "layernorm_backward": ("dx", "x", "mean", "rstd"),
        "layernorm_backward_rounded": ("dx", "x", "mean", "rstd"),
    },
    "columns": {"bias_backward": ()},
    "pointwise": {"residual_forward": ("out", "x1"), "gelu_forward": (), "gelu_backward": (), "scale": ()},
    "matmul": {
        "matmul_forward": (),
        "matmul_gelu_forward": (),
        "matmul_gelu_forward_once": (),
        "matmul_backward": (),
        "gelu_matmul_backward": (),
    },
    "attention": {"attention_forward": ("stats",), "attention_backward": ("stats",), "attention_cached": ()},
    "classifier": {"fused_classifier": ("losses",)},
    "adamw": {"global_norm": (), "adamw_update": ("m", "v", "master", "settings")},
}


class MixedVersion(NamedTuple):
    """A function of llmc/kernels/mixed/<layer>.py for numbers of this dtype, and the number of its version, if it has
    any.

    If it has versions, None means cuDNN's. It has the same attributes as `Version` in versions.py.
    """

    layer: str
    function: str
    number: int | None
    dtype: np.dtype
    by: str | None = None  # whose kernels compute it, where there is a choice: as `Backend.choose` was told

    @property
    def name(self) -> str:
        """ "attention_forward_v2", "attention_forward_cudnn", "gelu_forward"."""
        whose = "_cudnn" if self.function in getattr(self.module, "VERSIONS", {}) else ""
        return self.function + (f"_v{self.number}" if self.number else whose)

    def launch(self, **arguments):
        """Call it and return what it returns."""
        which = {"version": self.number} if self.number else {"by": self.by} if self.by else {}
        return getattr(self.module, self.function)(**arguments, **which)

    def make(self, sizes, numbers) -> Case:
        """Make a call of these sizes."""
        case = (MAKERS | OWN)[self.function](sizes, numbers)
        exact = FUNCTIONS[self.layer][self.function]
        arguments = {name: a if name in exact else rounded(a, self.dtype) for name, a in case.arguments.items()}
        if self.function == "attention_backward":  # what the forward pass keeps belongs to the rounded numbers
            kept = [arguments[name] for name in ("out", "stats", "qkv", "NH")]
            self.module.attention_forward(*kept, version=self.number, by=self.by)
        return replace(case, arguments=arguments, nbytes=least_bytes(self.function, arguments))

    @property
    def agree(self) -> float:
        """The largest error allowed, relative to the largest element."""
        return GAP[self.dtype.name]

    @property
    def chosen(self) -> bool:
        """Whether llmc uses this version."""
        last = getattr(self.module, "VERSIONS", {}).get(self.function)
        return self.number == (None if last is None or self.by == "cudnn" else last)

    @property
    def by_library(self) -> bool:
        """Whether a library computes its products."""
        return self.layer == "matmul"

    @property
    def module(self):
        """llmc.kernels.mixed.<layer>."""
        return import_module(f"llmc.kernels.mixed.{self.layer}")

    @property
    def launches_by(self):
        """The module through which its kernels are found."""
        return import_module("llmc.kernels.mixed")


def mixed_versions(name, dtype, matmul="fastest", attention="own") -> list[MixedVersion]:
    """All versions, or those of a layer, a function or one version; matmul, attention: as in `Backend.choose`.

    Raises UserError for a name that does not exist.
    """
    found = []
    for layer, functions in FUNCTIONS.items():
        ladders = getattr(import_module(f"llmc.kernels.mixed.{layer}"), "VERSIONS", {})
        for function in functions:
            numbers = [*range(1, ladders.get(function, 0) + 1)]
            by = {"matmul": matmul, "attention": attention}.get(layer if function != "attention_cached" else None)
            numbers += [None] if not numbers or by == "cudnn" else []
            found += [MixedVersion(layer, function, number, np.dtype(dtype), by) for number in numbers]
    wanted = [v for v in found if name in ("all", v.layer, v.function, v.name)]
    if not wanted:
        functions = ", ".join(dict.fromkeys(v.function for v in found))
        raise UserError(f"there is no kernel {name!r} in {np.dtype(dtype).name}; choose one of {functions}.")
    return wanted


def rounded(argument, dtype):
    """A float32 array in this 16-bit type; anything else unchanged."""
    if not hasattr(argument, "shape") or argument.dtype != np.float32:
        return argument
    low = cuda.xp.empty(argument.shape, dtype)
    round_to(low, argument)
    return low


def least_bytes(function, arguments) -> int:
    """The bytes that a call must move: everything it reads or writes once, and arrays that it adds to twice."""
    if function in LEAST:
        return LEAST[function](**arguments)[0]
    a = {name: array.nbytes for name, array in arguments.items() if hasattr(array, "nbytes")}
    if function == "attention_cached":
        return a["cache"] + a["qkv"] + a["out"]
    if function == "adamw_update":
        return 2 * (a["m"] + a["v"] + a["master"]) + a["params"] + a["grads"]
    twice = {"bias_backward": "db", "scale": "grads"}.get(function)  # residual_forward and global_norm: each once
    return sum(a.values()) + (a[twice] if twice else 0)


# --------------------------------------------------------------------------- functions that calls.py does not have


def layernorm_backward_rounded(s, r):
    case = MAKERS["layernorm_backward"](s, r)
    a = dict(case.arguments)
    arguments = dict(dx=a.pop("dx"), dsum=r.normal(s.C)) | a
    written = ["dx", "dsum", "dw", "db"]
    return replace(case, arguments=arguments, written=written, expected=_layernorm_backward_rounded)


def _layernorm_backward_rounded(dx, dsum, *others, **named):
    reference.layernorm_backward(dx, *others, **named)
    dsum += dx.sum(axis=(0, 1))  # (C,)


def matmul_gelu_forward_once(s, r):
    return replace(MAKERS["matmul_gelu_forward"](s, r), expected=Backend(reference).matmul_gelu_forward)


def gelu_matmul_backward(s, r):
    """Through the second linear layer of the MLP, from C to 4C."""
    N, C_out, C_in = s.B * s.T, s.C, 4 * s.C
    gradients = dict(dpre=r.nans(1, N, C_in), dw=r.normal(C_out, C_in), db=r.normal(C_out))
    inputs = dict(dout=r.normal(1, N, C_out), pre=r.normal(1, N, C_in), x=r.normal(1, N, C_in))
    inputs |= dict(w=r.normal(C_out, C_in), dbpre=r.normal(C_in))
    name = f"({N}, {C_out}) x ({C_out}, {C_in})"
    about = dict(nbytes=0, flops=4 * N * C_in * C_out, expected=_gelu_matmul_backward)
    return Case(name, gradients | inputs, written=[*gradients, "dbpre"], **about)


def _gelu_matmul_backward(dpre, dw, db, dout, pre, x, w, dbpre):
    reference.matmul_backward(dpre, dw, db, dout, x, w)
    reference.gelu_backward(dpre, dpre, pre)
    dbpre += dpre.sum(axis=(0, 1))  # (C_in,)


def adamw_update(s, r):
    """On the master weights; llmc/tests/kernels/test_mixed.py checks their stochastic rounding to the bit."""
    n = s.parameters
    arguments = dict(params=r.normal(n), grads=r.normal(n), m=r.normal(n), v=abs(r.normal(n)), master=r.normal(n))
    numbers = np.float32([1e-4, 3.0, 0.1, 0.05, 1e-8, 0.99999, 0.5, 1.0, 0.0])  # see settings in mixed/adamw.py
    arguments["settings"] = r.xp.asarray(numbers)  # (9,)
    return Case(f"({n})", arguments, ["params", "m", "v", "master"], nbytes=0, flops=16 * n, expected=_adamw)


def _adamw(params, grads, m, v, master, settings):
    step, root, rate1, rate2, eps, keep, factor, *_ = settings
    m += rate1 * (factor * grads - m)
    v += rate2 * ((factor * grads) ** 2 - v)
    master[...] = keep * master - step * m / (np.sqrt(v) * root + eps)
    params[...] = master


OWN = {
    make.__name__: make
    for make in (layernorm_backward_rounded, matmul_gelu_forward_once, gelu_matmul_backward, adamw_update)
}
