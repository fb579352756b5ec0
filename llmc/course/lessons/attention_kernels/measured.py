"""Lesson 16: how long attention takes on a GPU, every version of llmc's and PyTorch's, for T = 256 to 8192.

    python -m llmc.course.lessons.attention_kernels.measured OUT.json

Needs CuPy, and PyTorch for the comparison. All rows come from one run. B is chosen so that B·T is 8192: the linear
layers around attention would do the same work at every T. Causal, float32 in memory; "tf32" says whether factors were
rounded to TF32. "extra" is what a call needs in addition to its arguments, in bytes, its result not counted.
"""

import json
import math
import sys
from functools import partial
from pathlib import Path

import numpy as np

from llmc import cuda
from llmc.bench.kernels import times
from llmc.kernels import attention, attention_backward, attention_cached

TOKENS, NH, HS = 8192, 12, 64
LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
FORWARD, BACKWARD = range(1, 8), range(1, 6)  # versions
ROUNDED = {"forward": 7, "backward": 5}  # the versions whose factors are rounded to TF32
DECODED = ((1, 1024), (1, 8192), (8, 1024), (8, 8192), (32, 1024))  # B, positions in the cache


def measure(lengths=LENGTHS, decoded=DECODED, tokens=TOKENS, heads=(NH, HS), clock=times.microseconds, torch=None):
    """All rows as dictionaries. heads: (NH, hs). clock: µs of each of several launches. torch: the module, or None."""
    rows = []
    for T in lengths:
        rows += _one_length(max(1, tokens // T), T, *heads, clock, torch)
        print(f"T={T}: {len(rows)} rows", flush=True)
    for B, T in decoded:
        rows += _decoding(B, T, *heads, clock, torch)
    return rows


def _one_length(B, T, NH, hs, clock, torch):
    C, normal = NH * hs, _noise(B * T)
    qkv, dout = normal(B, T, 3 * C), normal(B, T, C)
    out, dqkv, stats = cuda.empty((B, T, C)), cuda.empty((B, T, 3 * C)), cuda.empty((B, NH, T))
    operations = 2 * 2 * B * NH * hs * (T * (T + 1) // 2)  # forward: two products of all pairs that are seen
    shape, found = {"B": B, "T": T, "NH": NH, "hs": hs}, []
    ways = [("forward", v, operations) for v in FORWARD] + [("backward", v, operations * 5 // 2) for v in BACKWARD]
    attention.attention_forward(out, stats, qkv, NH)  # what the backward pass reads
    for which, version, flops in ways:
        if cuda.device() == "emulator" and version > {"forward": 5, "backward": 3}[which]:
            continue  # for tensor cores
        if which == "forward":
            launch = partial(attention.attention_forward, out, stats, qkv, NH, version)
        else:
            launch = partial(attention_backward.attention_backward, dqkv, dout, out, stats, qkv, NH, version)
        by_library = (which, version) == ("forward", 2)
        us = clock([launch], graph=not by_library)
        extra = 4 * B * NH * T * (T if which == "forward" and version < 3 else 1)  # probabilities; stats or delta
        row = dict(what=which, by=f"llmc v{version}", tf32=version == ROUNDED[which], us=us, extra=extra)
        found.append(row | shape | {"tflop_s": flops / us / 1e6})
    if torch is not None:
        found += [row | shape for row in _by_torch(torch, qkv, dout, NH, operations, clock)]
    return found


def _by_torch(torch, qkv, dout, NH, operations, clock):
    """Rows of scaled_dot_product_attention: its memory-efficient kernel, and the three kernels of its plain way."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    B, T, C = dout.shape
    q, k, v = torch.from_dlpack(qkv).view(B, T, 3, NH, C // NH).permute(2, 0, 3, 1, 4)  # (B, NH, T, hs) each
    q, k, v = (part.detach().requires_grad_() for part in (q, k, v))
    given = torch.from_dlpack(dout).view(B, T, NH, C // NH).transpose(1, 2)  # (B, NH, T, hs)
    ways = [("torch", SDPBackend.EFFICIENT_ATTENTION, False), ("torch", SDPBackend.EFFICIENT_ATTENTION, True)]
    ways += [("torch unfused", SDPBackend.MATH, False)]
    for by, backend, tf32 in ways:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        with sdpa_kernel(backend):
            before = _forget(torch)
            out = scaled_dot_product_attention(q, k, v, is_causal=True)
            saved = torch.cuda.max_memory_allocated() - before - out.nbytes
            us = clock([partial(_forward, torch, q, k, v)], graph=False)
            yield dict(what="forward", by=by, tf32=tf32, us=us, extra=saved, tflop_s=operations / us / 1e6)
            before = _forget(torch)
            torch.autograd.grad(out, (q, k, v), given, retain_graph=True)
            saved = torch.cuda.max_memory_allocated() - before - 3 * out.nbytes
            back = partial(torch.autograd.grad, out, (q, k, v), given, retain_graph=True)
            us = clock([back], graph=False)
            yield dict(what="backward", by=by, tf32=tf32, us=us, extra=saved, tflop_s=operations * 2.5 / us / 1e6)
    torch.backends.cuda.matmul.allow_tf32 = False


def _forward(torch, q, k, v):
    with torch.no_grad():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _forget(torch) -> int:
    """Bytes in use now; the peak is counted from here."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def _decoding(B, T, NH, hs, clock, torch):
    """One new token behind T - 1 in the cache; caches take turns, so that none of them stays in the L2."""
    C, normal = NH * hs, _noise(B * T + 1)
    each = 2 * B * T * C * 4  # bytes of keys and values
    turns = math.ceil(2e8 / each) if clock is times.microseconds else 1
    caches = [normal(2, B, NH, T, hs) for _ in range(turns)]
    qkv, out, start = normal(B, 1, 3 * C), cuda.empty((B, 1, C)), cuda.xp.full(1, T - 1, np.int32)
    shape, rows = dict(what="decoding", B=B, T=T, NH=NH, hs=hs, tf32=False), []
    for version in (1, 2):
        attend = attention_cached.attention_cached
        us = clock([partial(attend, out, cache, qkv, NH, start, version) for cache in caches])
        rows.append(shape | dict(by=f"llmc v{version}", us=us, gb_s=each / us / 1e3))
    if torch is not None:
        q = torch.from_dlpack(qkv)[..., :C].view(B, 1, NH, hs).transpose(1, 2)  # (B, NH, 1, hs)
        pairs = [torch.from_dlpack(cache) for cache in caches]
        attend = torch.nn.functional.scaled_dot_product_attention
        with torch.no_grad():
            us = clock([partial(attend, q, pair[0], pair[1]) for pair in pairs], graph=False)
        rows.append(shape | dict(by="torch", us=us, gb_s=each / us / 1e3))
    return rows


def _noise(seed):
    """normal(*shape): random float32 numbers where kernels run, a million of them again and again."""
    rng = np.random.RandomState(seed)

    def normal(*shape):
        few = rng.standard_normal(1 << 20).astype(np.float32)  # (2^20,)
        return cuda.xp.resize(cuda.xp.asarray(few), math.prod(shape)).reshape(shape)

    return normal


def main(path):
    """Measure on this GPU and write the table."""
    try:
        import torch
    except ImportError:
        torch = None
    rows = measure(torch=torch)
    table = {"device": cuda.name_of_gpu(), "torch": getattr(torch, "__version__", None), "rows": rows}
    Path(path).write_text(json.dumps(table, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
