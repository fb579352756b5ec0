"""How long a training step takes here, compared with the best that this machine could do.

A step (forward, backward, AdamW) has a floor: its matmul operations at the rate of one large matmul, plus the bytes
that AdamW must move at memory speed. Both rates are measured in the same run. The steps, the matmuls and, with `--peer
torch`, PyTorch's steps take turns, so that a busy machine slows down all of them.
"""

from statistics import median
from time import perf_counter

import numpy as np

from llmc.bench.profiling import by_function, profile
from llmc.config import preset
from llmc.errors import UserError
from llmc.model import GPT2
from llmc.peaks import find_peak

SGEMM_SIZE = 2048
STREAM_SIZE = 1 << 25  # floats in each of three arrays, far more than a cache holds
TRIES = 3  # of a limit at each turn, of which the best counts: a limit is what the machine can do
ADAMW_NUMBERS = 7  # read params, grads, m, v; write params, m, v
GPU_TRIES = 10  # launches that are timed together: most of a single one would be the launch itself
PEERS = {  # name: arguments of torch_step
    "torch": {},
    "torch-fused": {"fused": True},
    "torch-compile": {"fused": True, "compiled": True},
    "torch-autocast": {"fused": True, "autocast": "bf16"},
}


def seconds(work) -> float:
    """The wall time of one call."""
    start = perf_counter()
    work()
    return perf_counter() - start


def training_step(model, x, y):
    """Forward, backward and AdamW on one batch. Returns the loss; waits for a GPU only at the very end."""
    model.launch(x, y, dloss=1.0)
    model.backward(accumulate=False)
    model.update(1e-4)
    return model.mean_loss()


class Limits:
    """The two rates that bound a step: that of a large matmul, by NumPy or the backend, and that of adding two arrays.

    dtype: the matmul's; NumPy is only timed for float32.
    """

    def __init__(self, backend, dtype=np.float32):
        self.backend = backend
        numbers = np.random.RandomState(0).standard_normal((1, SGEMM_SIZE, SGEMM_SIZE)).astype(dtype)
        self.a, self.out = backend.from_numpy(numbers), backend.from_numpy(np.zeros_like(numbers))
        self.stream = [backend.from_numpy(np.ones(STREAM_SIZE, np.float32)) for _ in range(3)]

    def sgemm(self) -> float:
        """Seconds for one SGEMM_SIZE³ matmul, the best of a few by NumPy or by the backend."""
        a, out = self.a, self.out
        work = [lambda: self.backend.matmul_forward(out, a, a[0], None)]
        if isinstance(a, np.ndarray) and a.dtype == np.float32:
            work.append(lambda: np.matmul(a[0], a[0].T, out=out[0]))
        return min(self._seconds(each) for each in work * TRIES)

    def memory(self) -> float:
        """Seconds to read two arrays and write one."""
        return min(self._seconds(lambda: self.backend.residual_forward(*self.stream)) for _ in range(TRIES))

    def _seconds(self, work) -> float:
        if isinstance(self.a, np.ndarray):
            return seconds(work)
        self.backend.synchronize()
        return seconds(lambda: ([work() for _ in range(GPU_TRIES)], self.backend.synchronize())) / GPU_TRIES


def measure(
    name: str,
    backend: str,
    precision="fp32",
    recompute=None,
    *,
    B: int,
    T: int,
    steps: int,
    peer=None,
    matmul="fastest",
    attention="own",
):
    """Medians over `steps` turns of a step, the limits and, with peer (a name in PEERS), a PyTorch step, for JSON.

    matmul, attention: as for `Backend.choose`.
    """
    if min(B, steps) < 1:
        raise UserError("--batch-size and --steps must be at least 1.")
    model = GPT2(preset(name), backend, precision, recompute=recompute)
    model.backend.choose(matmul, attention)
    model.allocate(B, T)
    model.init_weights()
    x = np.random.RandomState(0).randint(0, model.config.V, (B, T)).astype(np.int32)  # (B, T)
    other = _peer(model, peer)
    first = seconds(lambda: training_step(model, x, x))
    memory = peak_memory_mb()
    loss = other(x, x) if other else None  # its first step too
    limits = Limits(model.backend, model.precision.weights)
    work = [lambda: seconds(lambda: training_step(model, x, x)), limits.sgemm, limits.memory]
    work += [lambda: seconds(lambda: other(x, x))] if other else []
    turns = [[measured() for measured in work] for _ in range(steps)]
    step, sgemm, stream, *others = (median(column) for column in zip(*turns, strict=True))
    layers = by_function([profile(model, lambda: training_step(model, x, x)) for _ in range(min(steps, 5))])
    result = {
        "preset": name,
        "backend": backend,
        "precision": precision,
        "recompute": model.recompute,
        "B": B,
        "T": T,
        "steps": steps,
        **_rates(model, B, T, step=step, sgemm=sgemm, stream=stream),
    }
    result |= _mfu(model.config, T, result["tokens_per_s"], find_peak(backend, precision))
    result |= {"first_step_s": first, "peak_memory_mb": memory, "blas": blas(model.backend, precision)}
    result |= {"peer": peer, "peer_ms_per_step": 1e3 * others[0] if others else None}
    result |= {"ratio": others[0] / step if others else None, "peer_loss": loss}
    result["layers_ms"] = {function: 1e3 * s for function, s in layers.items()}
    return result


def _mfu(config, T, tokens_per_s, peak) -> dict:
    """The MFU and the peak it refers to; None if the device's peak is not known."""
    if peak is None:
        return {"mfu": None, "peak_gflops": None, "peak_source": None}
    mfu = peak.utilisation(config, T, tokens_per_s)
    return {"mfu": mfu, "peak_gflops": peak.flops / 1e9, "peak_source": peak.source}


def _peer(model, name):
    if name is None:
        return None
    from llmc.bench.torch_step import torch_step

    return torch_step(model, **PEERS[name])


def _rates(model, B, T, *, step, sgemm, stream) -> dict:
    """Interpret the medians (seconds): speed, the two limits, a step's floor, and how far above it this step is."""
    flops = model.config.flops_per_token(T) * B * T
    sgemm_rate, bandwidth = 2 * SGEMM_SIZE**3 / sgemm, 12 * STREAM_SIZE / stream
    adamw_bytes = ADAMW_NUMBERS * 4 * model.config.num_parameters_padded
    floor = flops / sgemm_rate + adamw_bytes / bandwidth
    return {
        "ms_per_step": 1e3 * step,
        "tokens_per_s": B * T / step,
        "gflops": flops / step / 1e9,
        "sgemm_gflops": sgemm_rate / 1e9,
        "share_of_sgemm": flops / step / sgemm_rate,
        "bandwidth_gb_s": bandwidth / 1e9,
        "floor_ms": 1e3 * floor,
        "over_floor": step / floor,
    }


def peak_memory_mb() -> float | None:
    """The most memory that this process has held so far, in MB; None if the system does not say."""
    try:
        import resource
        import sys
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def blas(backend, precision: str = "fp32") -> str:
    """Name and kernel type of the BLAS that the backend calls."""
    if backend.name == "cuda":
        from llmc.kernels.matmul import description

        return description(precision == "tf32", backend.matmul)
    if backend.name == "cpu":
        from llmc.backends.cpu import blas, matmul_bfloat16

        multiplies = matmul_bfloat16.description() if precision == "bf16" else "float32"
        return blas.description() if multiplies == "float32" else multiplies
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController().select(user_api="blas").info()
    return (
        ", ".join(f"{lib['internal_api']} {lib['version']} ({lib.get('architecture', '?')})" for lib in found)
        or "unknown"
    )
