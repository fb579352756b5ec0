"""`llmc bench`: what a training step costs here, beside the limit of this machine.

The limit is the rate of one large float32 matmul (BLAS sgemm), measured in the same run: no step can do its
arithmetic faster than that. Steps and matmuls take turns, so that a busy machine slows both.
"""

import json
from statistics import median
from time import perf_counter

import numpy as np

from llmc.config import preset
from llmc.errors import UserError
from llmc.model import GPT2

SGEMM_SIZE = 1024


def add_arguments(parser):
    """Declare the arguments of `llmc bench` on an argparse parser."""
    parser.add_argument("--preset", default="tiny", help="model to time (default: tiny)")
    parser.add_argument("--backend", default="numpy", help="backend to time (default: numpy)")
    parser.add_argument("--batch-size", type=int, default=16, help="B (default: 16)")
    parser.add_argument("--sequence-length", type=int, default=64, help="T (default: 64)")
    parser.add_argument("--steps", type=int, default=10, help="steps to take the median of (default: 10)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def seconds(work) -> float:
    """Wall time of one call."""
    start = perf_counter()
    work()
    return perf_counter() - start


def training_step(model, x, y):
    """Forward, backward, clip, update on one batch: what `llmc train` does in a step."""
    model.zero_grad()
    model.forward(x, y, dloss=1.0)
    model.backward()
    model.clip_gradients(1.0)
    model.update(1e-4)


def measure(name: str, backend: str, B: int, T: int, steps: int) -> dict:
    """Medians over interleaved steps and matmuls: ms_per_step, tokens_per_s, gflops, sgemm_gflops, share."""
    if min(B, steps) < 1:
        raise UserError("--batch-size and --steps must be at least 1.")
    model = GPT2(preset(name), backend)
    model.allocate(B, T)
    model.init_weights()
    x = np.random.RandomState(0).randint(0, model.config.V, (B, T)).astype(np.int32)  # (B, T)
    a = np.ones((SGEMM_SIZE, SGEMM_SIZE), np.float32)
    out = np.empty_like(a)
    training_step(model, x, x)  # warm-up: caches, BLAS threads
    times = [(seconds(lambda: training_step(model, x, x)), seconds(lambda: np.matmul(a, a, out))) for _ in range(steps)]
    step, sgemm = (median(column) for column in zip(*times, strict=True))
    gflops = model.config.flops_per_token(T) * B * T / step / 1e9
    sgemm_gflops = 2 * SGEMM_SIZE**3 / sgemm / 1e9
    return {
        "preset": name,
        "backend": backend,
        "B": B,
        "T": T,
        "ms_per_step": 1e3 * step,
        "tokens_per_s": B * T / step,
        "gflops": gflops,
        "sgemm_gflops": sgemm_gflops,
        "share_of_sgemm": gflops / sgemm_gflops,
    }


def run(args) -> int:
    """Measure and print; always 0."""
    result = measure(args.preset, args.backend, args.batch_size, args.sequence_length, args.steps)
    if args.json:
        print(json.dumps(result))
        return 0
    print(f"{result['preset']} on {result['backend']}, B={result['B']} T={result['T']}, median of {args.steps} steps")
    print(f"  step     {result['ms_per_step']:10.1f} ms      {result['tokens_per_s']:10,.0f} tokens/s")
    print(f"  step     {result['gflops']:10.1f} GFLOP/s (6N + 6LCT per token)")
    print(f"  limit    {result['sgemm_gflops']:10.1f} GFLOP/s (one {SGEMM_SIZE}³ sgemm, same run)")
    print(f"  reached  {100 * result['share_of_sgemm']:10.1f} % of the limit")
    return 0
