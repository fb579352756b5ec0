"""One more token of a few sequences, through all layers in one call.

Each kernel then takes only microseconds, and Python takes as long again between two of them. Here a compiled function
calls the kernels one after the other; they are the ones that longer sequences use, so every number is rounded the same
way.
"""

from numba import get_num_threads

from llmc.backends.cpu.attention import one_query
from llmc.backends.cpu.bfloat16 import bits, load
from llmc.backends.cpu.compiled import serial
from llmc.backends.cpu.layernorm import forward_row
from llmc.backends.cpu.matmul import few_rows
from llmc.backends.cpu.pointwise import gelu_constants
from llmc.backends.cpu.scratch import scratch
from llmc.backends.reference import EPS
from llmc.config import GPT2Config

WEIGHTS = [parameter.name for parameter in GPT2Config().parameter_table()]
ROWS = "residual2", "residual3", "ln1", "qkv", "atty", "attproj", "fch", "fch_gelu", "logits"


@serial
def _one_token(weights, rows, stats, cache, tokens, start, NH, constants, scores, sums, parts):
    """weights, rows (N, …): arrays of these names · stats: mean, rstd (N,) · scores, sums: of `one_query`."""
    wte, wpe, ln1w, ln1b, qkvw, qkvb, attprojw, attprojb, ln2w, ln2b, fcw, fcb, fcprojw, fcprojb, lnfw, lnfb = weights
    between, x, ln, qkv, atty, added, fch, fch_gelu, logits = rows
    (mean, rstd), (scale, eps, linear, cubic) = stats, constants
    (L, C), N, none = ln1w.shape, x.shape[0], ln[:0]
    heads, columns = atty.reshape(N, 1, C), qkv.reshape(N, 1, 3 * C)
    for n in range(N):
        for c in range(C):
            x[n, c] = load(wte, (tokens[n, 0], c)) + load(wpe, (start, c))
        forward_row(n, x, ln, mean, rstd, x, ln[:0], ln1w[0], ln1b[0], eps)
    for l in range(L):
        few_rows(qkv, ln, qkvw[l], qkvb[l], none, linear, cubic, parts)
        one_query(heads, cache[l], columns, NH, 0, start, scale, scores, sums)
        few_rows(added, atty, attprojw[l], attprojb[l], none, linear, cubic, parts)
        for n in range(N):
            forward_row(n, between, ln, mean, rstd, x, added, ln2w[l], ln2b[l], eps)
        few_rows(fch, ln, fcw[l], fcb[l], fch_gelu, linear, cubic, parts)
        few_rows(added, fch_gelu, fcprojw[l], fcprojb[l], none, linear, cubic, parts)
        w, b = (ln1w[l + 1], ln1b[l + 1]) if l + 1 < L else (lnfw, lnfb)
        for n in range(N):
            forward_row(n, x, ln, mean, rstd, between, added, w, b, eps)
    few_rows(logits, ln, wte, lnfw[:0], none, linear, cubic, parts)


def one_token(acts, cache, params, tokens, start, NH):
    """*acts["logits"] (B, 1, Vp) after one more token (B, 1) of at most FEW sequences; see the contract."""
    B, dtype, hs = len(tokens), acts["encoded"].dtype, cache.shape[-1]
    rows = (acts[name].reshape(B, -1) for name in ROWS)
    stats = acts["ln1_mean"].reshape(B), acts["ln1_rstd"].reshape(B)
    constants = dtype.type(hs**-0.5), dtype.type(EPS), *gelu_constants(dtype)
    room = scratch("one query", (B * NH, cache.shape[-2]), dtype), scratch("one output", (B * NH, hs), dtype)
    weights, rows = tuple(bits(params[name]) for name in WEIGHTS), tuple(bits(row) for row in rows)
    parts = get_num_threads()
    _one_token(weights, rows, stats, bits(cache), tokens, start, NH, constants, *room, parts)
