"""`llmc bench`: time a training step here and, on a GPU, profile it, compare it with PyTorch, or time every kernel."""

import argparse
import json
from importlib.util import find_spec

from llmc.backends import ATTENTION, MATMUL, WHOSE_ATTENTION, WHOSE_MATMUL, get_backend
from llmc.bench.step import PEERS, SGEMM_SIZE, measure
from llmc.blocks import RECOMPUTE
from llmc.commands.train import number_or_auto
from llmc.config import preset
from llmc.errors import UserError
from llmc.precision import TRAINED, find_precision
from llmc.training.memory import check_step, largest_batch
from llmc.training.settings import AUTO

DEFAULTS = {"preset": "tiny", "backend": "cpu", "batch_size": 16, "sequence_length": 64, "steps": 10}
WITHOUT = {  # what else can be measured, and the options that would do nothing then
    "kernels": (*DEFAULTS, "recompute", "peer", "versus", "profile"),
    "versus": ("backend", "batch_size", "steps", "peer", "profile"),
    "profile": ("backend", "steps", "peer"),
}


def add_arguments(parser):
    """Declare the arguments of `llmc bench` on an argparse parser."""
    default = {name: f"(default: {value})" for name, value in DEFAULTS.items()}
    parser.add_argument("--preset", help=f"model to time {default['preset']}")
    parser.add_argument("--backend", help=f"backend to time {default['backend']}")
    own = "(default: %(default)s)"
    parser.add_argument("--precision", choices=TRAINED, default="fp32", help=f"compute precision {own}")
    again = (
        "what the backward pass recomputes: 0 nothing, 1 GELU, 2 GELU and layernorm, 3 layernorm (default: depends on"
    )
    again += " the backend)"
    parser.add_argument("--recompute", type=int, choices=RECOMPUTE, help=again)
    parser.add_argument("--attention", choices=ATTENTION, default="own", help=f"{WHOSE_ATTENTION} {own}")
    parser.add_argument("--matmul", choices=MATMUL, default="fastest", help=f"{WHOSE_MATMUL} {own}")
    batch = f"B {default['batch_size']}; auto: the largest power of two that fits into free memory"
    parser.add_argument("--batch-size", type=number_or_auto, metavar="N", help=batch)
    parser.add_argument("--sequence-length", type=int, help=f"T {default['sequence_length']}")
    parser.add_argument("--steps", type=int, help=f"number of steps to time; the median is reported {default['steps']}")
    parser.add_argument(
        "--peer",
        choices=PEERS,
        help="also time a GPT-2 in PyTorch (torch-fused: with fused AdamW; torch-compile: fused and compiled;"
        " torch-autocast: fused, and in bfloat16 wherever PyTorch considers that safe)",
    )
    parser.add_argument(
        "--kernels",
        nargs="?",
        const="all",
        metavar="NAME",
        help="time CUDA kernels instead: all, or those of NAME; with --precision tf32, those that round to TF32; with"
        " bf16 or fp16, next to PyTorch's",
    )
    parser.add_argument(
        "--versus",
        type=int,
        nargs="+",
        metavar="B",
        help="compare with torch.compile on the GPU instead, at each of these batch sizes",
    )
    parser.add_argument("--race", dest="versus", type=int, nargs="+", help=argparse.SUPPRESS)  # former names
    parser.add_argument("--vs", dest="peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument(
        "--profile",
        action="store_true",
        help="list where a step on the GPU spends its time, by function and kernel, next to lower bounds",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(args) -> int:
    """Measure and print. Returns 0, or 1 if a kernel's results are wrong."""
    on_cuda, precision = args.kernels or args.versus or args.profile, find_precision(args.precision)
    _settle(args)
    chosen = dict(matmul=args.matmul, attention=args.attention)
    get_backend("cuda" if on_cuda else args.backend, precision).choose(**chosen)
    if args.kernels:
        return _kernels(args, precision, chosen)
    if args.versus:
        return _versus(args, chosen)
    if args.batch_size == AUTO:
        sizes = preset(args.preset), args.sequence_length, "cuda" if args.profile else args.backend
        args.batch_size = largest_batch(*sizes, precision=args.precision, recompute=args.recompute)
    if args.profile:
        return _profile(args, chosen)
    kept = dict(precision=args.precision, recompute=args.recompute)
    check_step(preset(args.preset), args.batch_size, args.sequence_length, args.backend, **kept)
    sizes = dict(B=args.batch_size, T=args.sequence_length, steps=args.steps)
    result = measure(args.preset, args.backend, **kept, **sizes, **chosen, peer=args.peer)
    print(json.dumps(result) if args.json else table(result))
    return 0


def _settle(args):
    """Fill in the options' defaults. Raises UserError for an option that would have no effect."""
    for what, others in WITHOUT.items():
        for name in others if getattr(args, what) else ():
            given = getattr(args, name)
            if given and (name, given) != ("backend", "cuda"):
                raise UserError(f"--{what} does not use --{name.replace('_', '-')}; leave it out.")
    for name, default in DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, default)


def table(r: dict) -> str:
    """Format a result of `measure` as text."""
    lines = [
        f"{r['preset']} on {r['backend']} in {r['precision']}, B={r['B']} T={r['T']}, recompute {r['recompute']},"
        f" median of {r['steps']} steps;"
        f" BLAS: {r['blas']}",
        f"  step     {r['ms_per_step']:10.1f} ms      {r['tokens_per_s']:10,.0f} tokens/s",
        f"  step     {r['gflops']:10.1f} GFLOP/s (6N + 6LCT per token)",
        f"  limit    {r['sgemm_gflops']:10.1f} GFLOP/s (one {SGEMM_SIZE}³ matmul): {r['share_of_sgemm']:.0%} reached",
        f"  limit    {r['bandwidth_gb_s']:10.1f} GB/s (sum of two arrays)",
        f"  floor    {r['floor_ms']:10.1f} ms (matmuls and AdamW at these limits); {r['over_floor']:.2f} times that",
        f"  first    {r['first_step_s']:10.1f} s for the first step, including compiling and loading",
    ]
    if r["mfu"] is not None:
        peak = f"{r['peak_gflops']:,.1f} GFLOP/s in {r['precision']} ({r['peak_source']})"
        lines.append(f"  MFU      {r['mfu']:10.1%} of {peak}")
    if r["peak_memory_mb"] is not None:
        lines.append(f"  memory   {r['peak_memory_mb']:10,.0f} MB at most")
    if r["ratio"] is not None:
        lines.append(f"  {r['peer']:<12} {r['peer_ms_per_step']:6.1f} ms a step: {r['ratio']:.2f} times ours")
    lines += ["", f"  {'function':<28} {'ms a step':>10} {'share':>7}"]
    total = sum(r["layers_ms"].values())
    lines += [f"  {name:<28} {ms:10.2f} {ms / total:7.1%}" for name, ms in r["layers_ms"].items() if ms > 0.001 * total]
    return "\n".join(lines)


def _versus(args, chosen) -> int:
    """Print a row for each runner, one batch size after another. Always returns 0."""
    from llmc.bench.versus import HEAD, line, versus

    rows = []
    for B in args.versus:
        kept = dict(precision=args.precision, recompute=args.recompute)
        check_step(preset(args.preset), B, args.sequence_length, "cuda", **kept)
        found = versus(args.preset, args.precision, args.recompute, B=B, T=args.sequence_length, **chosen)
        rows += found
        if not args.json:
            print(*([HEAD] if rows == found else []), *map(line, found), sep="\n", flush=True)
    if args.json:
        print(json.dumps(rows, indent=1))
    return 0


def _profile(args, chosen) -> int:
    """Print where a step on the GPU spends its time. Always returns 0."""
    from llmc.bench.gpu_profile import profile, text

    kept = dict(precision=args.precision, recompute=args.recompute)
    check_step(preset(args.preset), args.batch_size, args.sequence_length, "cuda", **kept)
    result = profile(args.preset, **kept, **chosen, B=args.batch_size, T=args.sequence_length)
    print(json.dumps(result, indent=1) if args.json else text(result))
    return 0


def _kernels(args, precision, chosen) -> int:
    """Measure kernels and print each row as soon as it is ready. Returns 1 if a kernel is wrong, else 0."""
    from llmc.bench import kernels
    from llmc.bench.kernels.table import head, line

    rows = []
    for row in kernels.measure(**_to_measure(args.kernels, precision, chosen)):
        rows.append(_rounded(row))
        if not args.json:
            print(*([head(row, args.precision)] if len(rows) == 1 else []), line(row), sep="\n", flush=True)
    if args.json:
        print(json.dumps(rows, indent=1))
    return 0 if all(row["right"] for row in rows) else 1


def _to_measure(name, precision, chosen) -> dict:
    """What to measure and what to compare it with, as arguments for `kernels.measure`."""
    from llmc.bench.kernels.mixed import mixed_versions
    from llmc.bench.kernels.torch_calls import counterpart
    from llmc.bench.kernels.versions import versions

    if precision.has_8_bit_factors:
        raise UserError("--kernels has no table for fp8; use --profile, which times its kernels in a step, or bf16.")
    if not precision.is_mixed:
        return dict(chosen=versions(name, precision.rounds_factors), tf32=precision.rounds_factors)
    peer = counterpart if find_spec("torch") else None
    return dict(chosen=mixed_versions(name, precision.weights, **chosen), low=precision.weights, peer=peer)


def _rounded(row) -> dict:
    return {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items()}
