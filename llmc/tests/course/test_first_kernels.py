"""Lesson 12: its references, what it says of the measurements, and what every check of a kernel sees in its text."""

from pathlib import Path

import numpy as np
import pytest

from llmc.bench.kernels.versions import default
from llmc.course.checks.messages.diagnosis import WrongAnswer
from llmc.course.figures import roofline
from llmc.course.kernel_checks.source import one_index
from llmc.course.lessons.first_kernels.exercises import split
from llmc.kernels import encoder, pointwise

MEASURED = Path(__file__).resolve().parents[3] / "notebooks" / "reference" / "h200_kernels.json"
COPY = """
extern "C" __global__ void copy(float* out, const float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i];
}
"""
COMMAS = "x[b, t]", "x[b][t, c]", "x[f(b, t), c]", "s[i][j] = x[(b), t]", "a = {x[1, 2]}"
OTHERS = "float a[2], b[3];", "x[f(b, t)]", "f(x[1], y[2])", "float a[2] = {1, 2};", "{[&](a, b)}"
MODERN = "const auto [q, r] = f(i);", "auto& [x, y] = p[i];", "return [a, b](int i) {}(3);", "x[at<16, 17>(i, j)]"


def test_heads_element_by_element():
    qkv = np.random.default_rng(12).normal(size=(2, 3, 24))  # (B, T, 3C), C = 8
    out = split(qkv, 2, 3, 2, 4)  # (3, B, NH, T, hs)
    assert all(out[s, b, h, t, j] == qkv[b, t, s * 8 + h * 4 + j] for s, b, h, t, j in np.ndindex(out.shape))


@pytest.mark.skipif(not MEASURED.exists(), reason="no stored measurements")
def test_the_stored_measurements_say_what_the_lesson_says():
    said = {"gelu_forward": (0.60, 1.0, 0.91, 0.97), "residual_forward": (0.80, 1.01, 0.95)}
    said |= {"encoder_forward": (0.10, 0.41, 0.86, 0.92)}
    share = {row["kernel"]: row["gb_s"] / row["copy_gb_s"] for row in roofline.stored(MEASURED, tuple(said))}
    for module, (name, shares) in zip((pointwise, pointwise, encoder), said.items()):
        assert [share[f"{name}_v{k}"] for k in range(1, len(shares) + 1)] == pytest.approx(shares, abs=0.02)
        assert max(shares) == shares[default(module, name) - 1]


def test_commas_in_an_index_are_found_and_others_are_none():
    for index in COMMAS:
        with pytest.raises(WrongAnswer, match=r"line 2: it compiles, but \[i, j\] means \[j\]"):
            one_index(f"// x[1, 2]\n{index};\n")
    for code in (*OTHERS, *MODERN):
        one_index(code)
