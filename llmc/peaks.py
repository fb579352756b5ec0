"""How much of its device a model uses: MFU, the model's FLOPs over what the device could do in the same time.

A token's FLOPs are counted as in llm.c (`GPT2Config.flops_per_token`): 6N for the weights and 6·L·C·T for attention, no
matter what is recomputed (Chowdhery et al. 2022, appendix B). A device's FLOP/s are NVIDIA's figure for a GPU in the
table below, and for anything else those of a large matmul, measured once per process. The emulator has none.
"""

from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter

import numpy as np

from llmc import cuda
from llmc.backends import get_backend
from llmc.precision import find_precision

# TFLOP/s of dense products that are added up in float32. fp32 is that of ordinary arithmetic, without tensor cores.
# Names are those that CUDA reports, without "NVIDIA ".
PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8")  # tensor cores multiply 8 bits since Ada
PEAKS = {
    # Turing: whitepaper WP-09183, appendix (GeForce as the reference design has it); T4 datasheet
    "Tesla T4": (8.1, None, None, 65.0),
    "Quadro RTX 6000": (16.3, None, None, 130.5),
    "Quadro RTX 8000": (16.3, None, None, 130.5),
    "TITAN RTX": (16.3, None, None, 130.5),
    "GeForce RTX 2080 Ti": (13.4, None, None, 53.8),
    "GeForce RTX 2080": (10.1, None, None, 40.3),
    "GeForce RTX 2070": (7.5, None, None, 29.9),
    # Ampere: datasheets of A100, A30, A40, A10, RTX A6000; whitepaper on GA102, appendix; the Ada one has the 3090 Ti
    "A100-SXM4-40GB": (19.5, 156.0, 312.0, 312.0),
    "A100-SXM4-80GB": (19.5, 156.0, 312.0, 312.0),
    "A100-PCIE-40GB": (19.5, 156.0, 312.0, 312.0),
    "A100-PCIE-80GB": (19.5, 156.0, 312.0, 312.0),
    "A100 80GB PCIe": (19.5, 156.0, 312.0, 312.0),
    "A30": (10.3, 82.0, 165.0, 165.0),
    "A40": (37.4, 74.8, 149.7, 149.7),
    "A10": (31.2, 62.5, 125.0, 125.0),
    "RTX A6000": (38.7, 77.4, 154.8, 154.8),
    "GeForce RTX 3090 Ti": (40.0, 40.0, 80.0, 80.0),
    "GeForce RTX 3090": (35.6, 35.6, 71.0, 71.0),
    "GeForce RTX 3080": (29.8, 29.8, 59.5, 59.5),
    "GeForce RTX 3070": (20.3, 20.3, 40.6, 40.6),
    # Ada: whitepaper, appendix; datasheets of L4, L40, L40S, RTX 6000 (half of their rates with sparsity)
    "L4": (30.3, 60.0, 121.0, 121.0, 242.0),
    "L40": (90.5, 90.5, 181.0, 181.0, 362.0),
    "L40S": (91.6, 183.0, 362.0, 362.0, 733.0),
    "RTX 6000 Ada Generation": (91.1, 182.1, 364.2, 364.2, 728.5),
    "GeForce RTX 4090": (82.6, 82.6, 165.2, 165.2, 330.3),
    "GeForce RTX 4080": (48.7, 48.7, 97.5, 97.5, 194.9),
    # Hopper: datasheets of H100, H200, GH200 (half of their rates with sparsity)
    "H100 80GB HBM3": (67.0, 494.5, 989.5, 989.5, 1979.0),
    "H100 PCIe": (51.0, 378.0, 756.0, 756.0, 1513.0),
    "H100 NVL": (60.0, 417.5, 835.5, 835.5, 1670.5),
    "H200": (67.0, 494.5, 989.5, 989.5, 1979.0),
    "H200 NVL": (60.0, 417.5, 835.5, 835.5, 1670.5),
    "GH200 480GB": (67.0, 494.5, 989.5, 989.5, 1979.0),
    # Blackwell: data sheet of HGX B200 and GB200 NVL72 (half of their rates with sparsity); RTX whitepaper, appendix
    "B200": (75.0, 1100.0, 2250.0, 2250.0, 4500.0),
    "GB200": (80.0, 1250.0, 2500.0, 2500.0, 5000.0),
    "GeForce RTX 5090": (104.8, 104.8, 209.5, 209.5, 419.0),
    "GeForce RTX 5080": (56.3, 56.3, 112.6, 112.6, 225.1),
}
SECONDS = 0.25  # for all products that are measured
FIRST, LARGEST, LARGEST_ON_GPU = 256, 2048, 4096  # rows and columns of the matrices that are multiplied


@dataclass(frozen=True)
class Peak:
    """FLOP/s of a device in a precision, and the source of that figure: "NVIDIA H200", or "a matmul measured here"."""

    flops: float
    source: str

    def utilisation(self, config, T, tokens_per_second) -> float:
        """The MFU (a share of 1) when training a model of this config at sequence length T."""
        return config.flops_per_token(T) * tokens_per_second / self.flops


@lru_cache
def find_peak(backend: str, precision: str) -> Peak | None:
    """What this backend's device can do in this precision, measured if NVIDIA gives no figure; None on the emulator."""
    if backend == "cuda":
        if cuda.device() == "emulator":
            return None
        name = cuda.name_of_gpu()
        known = dict(zip(PRECISIONS, PEAKS.get(name.removeprefix("NVIDIA "), ()))).get(precision)
        if known:
            return Peak(1e12 * known, name)
    largest = LARGEST_ON_GPU if backend == "cuda" else LARGEST
    return Peak(measured(get_backend(backend, find_precision(precision)), precision, largest), "a matmul measured here")


def measured(backend, precision: str, largest) -> float:
    """FLOP/s of the fastest product of two square matrices in this precision; tries larger ones while there is time."""
    dtype, best, n = find_precision(precision).activations, 0.0, FIRST
    _seconds(backend, dtype, n)  # loads libraries and compiles, which is not counted
    end = perf_counter() + SECONDS
    while n <= largest:
        seconds = _seconds(backend, dtype, n)
        best = max(best, 2 * n**3 / seconds)
        if perf_counter() + 3 * 8 * seconds > end:  # three more, with eight times as many operations each
            break
        n *= 2
    return best


def _seconds(backend, dtype, n) -> float:
    """Seconds for the faster of two products of (n, n) matrices, after a warm-up."""
    few = np.random.RandomState(0).standard_normal(1 << 12).astype(dtype)  # zeros would be multiplied faster
    x, out = (backend.from_numpy(np.resize(few, (1, n, n))) for _ in range(2))  # both (1, n, n)
    wait = getattr(backend, "synchronize", lambda: None)

    def product():
        start = perf_counter()
        backend.matmul_forward(out, x, x[0], None)
        wait()
        return perf_counter() - start

    product()
    return min(product() for _ in range(2))
