"""A training step on a GPU against PyTorch's, compiled in two ways.

All contestants train the same GPT-2 in one process, on tokens that are already on the GPU. PyTorch uses its fused AdamW
and the padded vocabulary, and autocast if we compute in 16 or 8 bits; in fp8 torchao competes too, if it is there. They
take turns, so that whatever slows down the machine slows down all of them. A turn is several steps without a wait in
between; it lasts, by the wall clock, until the GPU is done.
"""

import gc
import sys
from importlib.util import find_spec
from statistics import median
from time import perf_counter

import numpy as np

from llmc import cuda, kernels
from llmc.bench.torch_step import torch_step
from llmc.config import preset
from llmc.cuda import recorder
from llmc.errors import UserError
from llmc.model import GPT2
from llmc.peaks import find_peak

TURNS, STEPS, BATCHES = 3, 10, 4  # turns of each runner, steps of a turn, batches that the steps go through
WARM_UP = 4  # steps before the first turn: they compile, choose and record
PEERS = {  # name: arguments of torch_step
    "torch.compile": dict(fused=True, padded=True, compiled=True),
    "reduce-overhead": dict(fused=True, padded=True, compiled=True, mode="reduce-overhead"),
}
FLOAT8 = {"torchao, fp8": PEERS["torch.compile"] | dict(float8=True)}


class Ours:
    """Steps of our model on the "cuda" backend, launched as CUDA graphs or kernel by kernel."""

    def __init__(self, model, batches, as_graphs):
        self.model, self.batches, self.as_graphs = model, batches, as_graphs

    def step(self, i):
        """Launch step i."""
        recorder.graphs(self.as_graphs)
        self.model.launch(*self.batches[i % BATCHES], dloss=1.0)
        self.model.backward(accumulate=False)
        self.model.update(1e-4)

    def begin(self):
        """Start a turn; nothing of the others is counted."""

    def memory(self):
        """Bytes of GPU memory that it holds."""
        return cuda.xp.get_default_memory_pool().total_bytes()


class Theirs:
    """Steps of a PyTorch peer."""

    def __init__(self, model, batches, settings):
        import torch

        self.torch = torch
        before = torch.cuda.memory_allocated()
        low = model.precision.weights.name
        self.take = torch_step(model, **settings, autocast={"bfloat16": "bf16", "float16": "fp16"}.get(low))
        self.batches = [
            [torch.as_tensor(tokens, dtype=torch.int64, device="cuda") for tokens in batch] for batch in batches
        ]
        self.held = torch.cuda.memory_allocated() - before

    def begin(self):
        """Start a turn: from now on, track the peak of its memory, without what the others hold."""
        self.torch.cuda.reset_peak_memory_stats()
        self.others = self.torch.cuda.memory_allocated() - self.held

    def step(self, i):
        """Launch step i."""
        self.torch.compiler.cudagraph_mark_step_begin()
        self.take(*self.batches[i % BATCHES], wait=False)

    def memory(self):
        """The peak number of bytes that its tensors have taken in GPU memory."""
        return self.torch.cuda.max_memory_allocated() - self.others


def versus(
    name, precision="fp32", recompute=None, *, B, T, peers=None, matmul="fastest", attention="own"
) -> list[dict]:
    """Two rows for us and one for each peer, with the medians of their turns.

    peers: {name: arguments of torch_step}, None for all that there are · matmul, attention: as for `Backend.choose`.
    Raises UserError without a GPU.
    """
    if peers is None:
        peers = PEERS | (FLOAT8 if precision == "fp8" and find_spec("torchao") else {})
    if cuda.device() != "gpu":
        raise UserError("--versus needs a GPU; `llmc bench` without it times a step anywhere.")
    graphs = recorder.graphs()
    _tidy()
    try:
        model = GPT2(preset(name), "cuda", precision, recompute=recompute)
        model.backend.choose(matmul, attention)
        model.allocate(B, T)
        model.init_weights()
        draw = np.random.RandomState(0)
        batches = [draw.randint(0, model.config.V, (2, B, T)).astype(np.int32) for _ in range(BATCHES)]
        runners = {"llmc": Ours(model, batches, True), "llmc, no graphs": Ours(model, batches, False)}
        runners |= {peer: Theirs(model, batches, settings) for peer, settings in peers.items()}
        rows = _take_turns(runners)
    finally:
        recorder.graphs(graphs)
    peak = find_peak("cuda", precision)
    best = min((row["ms"] for row in rows if row["who"] in peers), default=None)
    for row in rows:
        row |= dict(B=B, T=T, numbers=precision)
        row |= dict(tokens_per_s=1e3 * B * T / row["ms"], ratio=best and best / row["ms"])
        row |= dict(mfu=peak.utilisation(model.config, T, row["tokens_per_s"]))
    return rows


def _tidy():
    """Free what earlier comparisons have left behind, so that it is not counted as this one's memory."""
    recorder.forget()
    kernels.free_scratch()
    if "torch" in sys.modules:
        sys.modules["torch"]._dynamo.reset()
    gc.collect()
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()
    cuda.xp.get_default_memory_pool().free_all_blocks()


def _take_turns(runners) -> list[dict]:
    memory = {}
    for name, runner in runners.items():
        runner.begin()
        for i in range(WARM_UP):
            runner.step(i)
        cuda.synchronize()
        memory[name] = runner.memory()
    turns = {name: [] for name in runners}
    for _ in range(TURNS):
        for name, runner in runners.items():
            turns[name].append(_turn(runner))
    return [
        dict(who=name, ms=median(t[0] for t in ts), host_ms=median(t[1] for t in ts), memory_gb=memory[name] / 1e9)
        for name, ts in turns.items()
    ]


def _turn(runner):
    """(ms per step, ms that the host takes to launch a step on an idle GPU)."""
    runner.step(0)
    cuda.synchronize()
    start = perf_counter()
    for i in range(STEPS):
        runner.step(i)
    cuda.synchronize()
    ms = 1e3 * (perf_counter() - start) / STEPS
    start = perf_counter()
    runner.step(0)
    host = 1e3 * (perf_counter() - start)
    cuda.synchronize()
    return ms, host


HEAD = (
    f"{'B':>3} {'T':>5} {'numbers':<8} {'who':<16} {'ms':>8} {'tokens/s':>10} {'MFU':>6} {'speed':>7}"
    f" {'memory':>8} {'host':>8}"
)


def line(row) -> str:
    """A row as text; the speed is relative to the best peer's."""
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}x"
    return (
        f"{row['B']:3} {row['T']:5} {row['numbers']:<8} {row['who']:<16} {row['ms']:8.2f} {row['tokens_per_s']:10,.0f}"
        f" {row['mfu']:6.1%} {ratio:>7} {row['memory_gb']:5.1f} GB {row['host_ms']:5.1f} ms"
    )
