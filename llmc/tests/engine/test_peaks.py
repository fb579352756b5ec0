"""What a device can do at most, and the share of it that a model uses."""

import numpy as np
import pytest

from llmc import cuda, peaks
from llmc.backends import get_backend
from llmc.config import preset


@pytest.fixture
def gpu(monkeypatch):
    """Makes this machine one with a GPU of that name; what is measured there takes no time."""

    def of_name(name):
        monkeypatch.setattr(cuda, "device", lambda *forced: "gpu")
        monkeypatch.setattr(cuda, "name_of_gpu", lambda: name)
        monkeypatch.setattr(peaks, "get_backend", lambda backend, precision: (backend, precision.name))
        monkeypatch.setattr(peaks, "measured", lambda backend, precision, largest: (backend, precision, largest))
        return peaks.find_peak.__wrapped__

    return of_name


def test_a_known_gpu_has_nvidias_numbers(gpu):
    find = gpu("NVIDIA H200")
    assert [find("cuda", name) for name in ("fp32", "tf32", "bf16", "fp16", "fp8")] == [
        peaks.Peak(tflops * 1e12, "NVIDIA H200") for tflops in (67.0, 494.5, 989.5, 989.5, 1979.0)
    ]
    assert gpu("Tesla T4")("cuda", "fp16") == peaks.Peak(65e12, "Tesla T4")


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA H200 MIG 1g.18gb", "Tesla T4"])
def test_anything_else_is_measured_in_the_models_precision(gpu, name):
    assert gpu(name)("cuda", "tf32") == peaks.Peak((("cuda", "tf32"), "tf32", 4096), "a matmul measured here")
    assert gpu(name)("cpu", "bf16") == peaks.Peak((("cpu", "bf16"), "bf16", 2048), "a matmul measured here")


def test_an_emulator_has_no_peak(monkeypatch):
    monkeypatch.setattr(cuda, "device", lambda: "emulator")
    assert peaks.find_peak.__wrapped__("cuda", "fp32") is None


def test_the_table_is_plausible():
    for name, rates in peaks.PEAKS.items():
        assert len(rates) in (4, 5) and not name.startswith("NVIDIA"), name
        fp32, tf32, bf16, fp16, *fp8 = rates
        assert not fp8 or 1.9 < fp8[0] / bf16 < 2.1, name
        assert (tf32 is None) == (bf16 is None), name
        assert fp32 < fp16 and (bf16 is None or (fp32 <= tf32 < bf16 == fp16)), name
        assert tf32 is None or 1.9 < bf16 / tf32 < 2.1, name


@pytest.mark.parametrize("rate, largest", [(1e8, 256), (1e9, 256), (2e11, 1024), (1e12, 2048)])
def test_a_measurement_takes_less_than_a_third_of_a_second(monkeypatch, rate, largest):
    """With a clock that only products move, at this many operations a second, and slower ones of small matrices."""
    now, sizes = [0.0], []  # the very first product takes two seconds more

    class Slow:
        from_numpy = staticmethod(np.asarray)

        @staticmethod
        def matmul_forward(out, x, w, b):
            n = w.shape[0]
            sizes.append(n)
            now[0] += 2 * n**3 / rate + 1e-6 + 2 * (len(sizes) == 1)

    monkeypatch.setattr(peaks, "perf_counter", lambda: now[0])
    found = peaks.measured(Slow, "fp32", 2048)
    assert max(sizes) == largest and 0.99 * rate < found <= rate
    assert now[0] - 2 < 0.3 or max(sizes) == peaks.FIRST  # the first one is made in any case


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_real_measurement_is_a_real_rate(precision):
    assert 1e7 < peaks.find_peak("numpy", precision).flops < 1e14
    assert peaks.find_peak("numpy", precision) is peaks.find_peak("numpy", precision)  # once in a process
    assert peaks.measured(get_backend("numpy"), "fp64", 256) > 1e7


def test_the_share_is_that_of_llmcs_formula():
    config, T = preset("d12"), 1024
    each = 6 * 124_475_904 + 6 * 12 * 768 * 1024  # FLOPs of a token
    assert peaks.Peak(1e15, "").utilisation(config, T, 1e6) == pytest.approx(each * 1e6 / 1e15)
