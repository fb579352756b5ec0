"""Lesson 12's references and known mistakes, held against each other: nothing of llmc.kernels is used in them."""

import json
from pathlib import Path

import numpy as np
import pytest

from llmc.course import recording
from llmc.course.figures import roofline
from llmc.course.learner.refusal import Refusal
from llmc.course.lessons.first_kernels import mistakes
from llmc.course.lessons.first_kernels import references as lesson
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.kernel_checks.check import kernel_check
from llmc.course.old.kernel_checks.source import one_index
from llmc.kernels import encoder, gelu, residual

RNG = np.random.default_rng(12)
X = RNG.normal(0.3, 2, 129).astype(np.float32)  # (n,)
LESSON = Path(__file__).resolve().parents[3] / "notebooks" / "12_first_kernels.ipynb"
MEASURED = LESSON.parent / "reference" / "h200_kernels.json"
COPY = """
extern "C" __global__ void copy(float* out, const float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i];
}
"""


def tables():
    """(what is right, {sentence: (wrong array, where)}) of every exercise that compares arrays."""
    x3 = RNG.normal(1, 2, (3, 5, 7)).astype(np.float32)  # (B, T, C)
    qkv = RNG.normal(1, 2, (2, 3, 3 * 5 * 4)).astype(np.float32)  # (B, T, 3C)
    for slope in (0.3, 1.7):
        yield lesson.leaky_relu(X, slope), mistakes.leaky_relu(X, slope)
    yield lesson.swap_axes(x3), mistakes.swap_axes(x3, lesson.swap_axes(x3))
    yield X + X[::-1], mistakes.residual(X, X[::-1], X + X[::-1])
    yield 2.5 * X, mistakes.axpy(2.5, X, X[::-1], 2, 32)
    heads = lesson.split_heads(qkv, 5)
    yield heads, mistakes.split_heads(qkv, 5, np.zeros_like(heads))


def test_every_known_mistake_is_wrong_and_unlike_the_others():
    for right, wrongs in tables():
        arrays = [right, *(np.asarray(array) for array, _ in wrongs.values())]
        for i, one in enumerate(arrays):
            assert one.shape == right.shape
            for k, other in enumerate(arrays[:i]):
                names = [None, *wrongs][i], [None, *wrongs][k]
                assert np.abs(one - other).max() > 3e-4 * np.abs(one).max(), names


def test_references_element_by_element():
    x = RNG.normal(0, 1, (2, 3, 4)).astype(np.float32)  # (B, T, C)
    swapped = lesson.swap_axes(x)
    assert all(swapped[b, c, t] == x[b, t, c] for b, t, c in np.ndindex(x.shape))
    qkv = RNG.normal(0, 1, (2, 3, 24)).astype(np.float32)  # (B, T, 3C), C = 8
    out = lesson.split_heads(qkv, 2)
    assert out.shape == (3, 2, 2, 3, 4) and out.flags.c_contiguous
    assert all(out[s, b, h, t, j] == qkv[b, t, s * 8 + h * 4 + j] for s, b, h, t, j in np.ndindex(out.shape))
    assert np.allclose(lesson.leaky_relu(np.float32([-2, 0, 3]), 0.5), [-1, 0, 3])


@pytest.mark.parametrize(
    "got, words",
    [
        ((1, 3), "too few blocks in x: 1 · 4 threads for 7 columns"),
        ((2, 4), "axes are swapped"),
        ((2, 9), "too many blocks in y: 6 of them have nothing to do"),
        ((3, 3), "too many blocks in x: 1 of them has nothing to do"),
        ((3, 2), "wrong order"),
        ((2.0, 3.0), "whole numbers"),
        (6, "tuple of two"),
        ([2, 3], "tuple of two"),
    ],
    ids=str,
)
def test_wrong_grids(got, words):
    with pytest.raises(WrongAnswer) as error:
        lesson.compare_grid(got, 5, 7, (4, 2))
    assert words.lower() in str(error.value).lower()


def test_the_right_grid():
    lesson.compare_grid((2, 3), 5, 7, (4, 2))
    lesson.compare_grid((np.int64(3), 16), 64, 96, (32, 4))


@pytest.mark.skipif(not LESSON.exists(), reason="needs a checkout")
def test_places_to_look_are_sections_of_the_lesson():
    text = LESSON.read_text(encoding="utf-8")
    places = {value for value in vars(lesson).values() if isinstance(value, str) and value.startswith("lesson 12")}
    for place in places | set(lesson.WHERE.values()):
        assert f"# {place.split(chr(34))[1]}" in text, place


@pytest.mark.skipif(not MEASURED.exists(), reason="no stored measurements")
def test_the_stored_measurements_say_what_the_lesson_says():
    names = "gelu_forward", "residual_forward", "encoder_forward"
    share = {row["kernel"]: row["gb_s"] / row["copy_gb_s"] for row in roofline.stored(MEASURED, names)}
    said = {"gelu_forward_v1": 0.60, "gelu_forward_v2": 1.0, "gelu_forward_v3": 0.92, "gelu_forward_v4": 0.90}
    said |= {"residual_forward_v1": 0.80, "residual_forward_v2": 1.01, "residual_forward_v3": 0.95}
    said |= {"encoder_forward_v1": 0.10, "encoder_forward_v2": 0.41, "encoder_forward_v3": 0.86}
    said |= {"encoder_forward_v4": 0.92}
    assert share == pytest.approx(said, abs=0.02)
    for module, name in zip((gelu, residual, encoder), names):
        fastest = getattr(module, "FASTEST", module.VERSIONS)[name]
        assert max(said, key=lambda kernel: share[kernel] if kernel.startswith(name) else 0) == f"{name}_v{fastest}"


@pytest.mark.skipif(not LESSON.exists(), reason="needs a checkout")
def test_the_lesson_names_the_exercises_that_there_are():
    cells = json.loads((LESSON.parents[1] / "solutions" / LESSON.name).read_text(encoding="utf-8"))["cells"]
    names = [c["metadata"]["llmc"]["exercise"] for c in cells if c["metadata"].get("llmc", {}).get("role") == "answer"]
    text = "".join(next(c for c in json.loads(LESSON.read_text())["cells"] if c["id"] == "exercises")["source"])
    assert [f"| {k} | `{name}`" in text for k, name in enumerate(names, 1)] == [True] * 6


@pytest.mark.parametrize("index", ["x[b, t]", "x[b][t, c]", "x[f(b, t), c]", "s[i][j] = x[(b), t]", "a = {x[1, 2]}"])
def test_a_comma_in_an_index_is_found(index):
    with pytest.raises(WrongAnswer, match=r"line 2: it compiles, but \[i, j\] means \[j\]"):
        one_index(f"// x[1, 2]\n{index};\n")


PLAIN = ["float a[2], b[3];", "x[f(b, t)]", "f(x[1], y[2])", "float a[2] = {1, 2};", "{[&](a, b)}"]
MODERN = [
    "const auto [q, r] = f(i);",
    "auto& [x, y, z, w] = p[i];",
    "return [a, b](int i) {}(3);",
    "x[at<16, 17>(i, j)]",
]


@pytest.mark.parametrize("code", PLAIN + MODERN)
def test_other_commas_are_none(code):
    one_index(code)


def check_copy(code, **limits):
    with kernel_check("copy") as c:
        x, out = c.random(40), c.output(40)  # (n,) each
        c.launch(code, 5, 8, (out, x, 40))
        c.demand(**limits)


def test_numbers_that_are_written_twice_are_counted(capsys):
    was = recording(False)
    check_copy(COPY, rewrites=0)
    everyone = COPY.replace("if (i < n)", "for (i = 0; i < n; i++)")
    with pytest.raises(WrongAnswer, match="right, but 1,560 writes go to numbers that another thread has written"):
        check_copy(everyone, rewrites=0)
    check_copy(everyone, rewrites=1560)
    recording(was)


def test_there_is_no_report_of_a_kernel_that_does_not_compile():
    c = kernel_check("copy")
    with pytest.raises(WrongAnswer, match="does not run"), c:
        c.launch(COPY.replace("x[i];", "x[i]"), 5, 8, (c.output(40), c.random(40), 40))
    with pytest.raises(Refusal, match="no launch of this check has run yet"):
        c.report.plot()
