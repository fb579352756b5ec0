"""What a kernel's text shows of wrong numbers: factors that are always 1, quotients of whole numbers, loops with
barriers that threads leave at different turns, vanished numbers."""

from functools import partial

import numpy as np
import pytest

from llmc.course.old.kernel_checks import runs
from llmc.course.old.kernel_checks.cut_off import cut_off, quotients
from llmc.course.old.kernel_checks.left_a_loop import left_at_different_turns
from llmc.course.old.kernel_checks.never_read import never_read
from llmc.course.old.kernel_checks.one_and_the_same import cancelled
from llmc.course.old.kernel_checks.scopes import ended_too_soon

HEAD = 'extern "C" __global__ void f(float* out, const float* x, int n, int m)\n{\n'


def kernel(*lines) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines) + "}\n"


@pytest.mark.parametrize(
    "lines, says",
    [
        (("float top = x[0];", "top = x[1];", "out[0] = expf(top - top);"), "because line 4 has put the new number"),
        (("float top = x[0], m = x[1];", "top = m;", "out[0] = expf(top - m);"), "line 4 has made the two the same"),
        (
            ("float top = x[0], m = x[1];", "m = top;", "out[0] = 2 * __expf(top - m);"),
            "line 4 has made the two the same",
        ),
        (("float a = x[0];", "float m = a = x[1];", "out[0] = expf(a - m);"), "line 4 has made the two the same"),
        (("float a = x[0], b = x[1];", "a = fmaxf(a, b);", "out[0] = expf(a - fmaxf(a, b));"), "line 4 has made the"),
        (("float a = x[0];", "a += x[1];", "out[0] = x[2] * a / a;"), "Line 5 multiplies by `a` and divides by it"),
    ],
)
def test_a_number_that_was_changed_too_early(lines, says):
    (sentence,) = cancelled(kernel(*lines))
    assert says in sentence


@pytest.mark.parametrize(
    "lines",
    [
        ("float top = x[0], m = x[1];", "top = m;", "m = x[2];", "out[0] = expf(top - m);"),
        ("float top = x[0];", "for (int c = 1; c < n; c++) {", "float h = x[c]; out[0] += expf(top - h);", "top = h;}"),
        ("float a = x[0], b = x[1];", "a += x[2];", "out[0] = x[2] * b / a;"),
        ("float a = x[0];", "a += x[2];", "out[0] = a / 2 / a * 4;"),
        ("int a = n;", "a += m;", "out[0] = m * a / a;"),
        ("float top = x[0];", "float m = top;", "for (;;) {", "out[0] += expf(top - m); top = x[1];", "}"),
        ("float a = x[0], b = x[1];", "a = fmaxf(a, b);", "b = x[2];", "out[0] = expf(a - fmaxf(a, b));"),
        ("float top = x[0], m = x[1];", "if (n > 1) { top = m; }", "out[0] = expf(top - m);"),
        ("float top = x[0], m = x[1];", "if (n > 1) top = m;", "out[0] = expf(top - m);"),
        ("float top = x[0], m = x[1];", "if (n > 1) { top = m; } else {", "out[0] = expf(top - m); }"),
    ],
)
def test_numbers_that_may_differ(lines):
    assert cancelled(kernel(*lines)) == []


@pytest.mark.parametrize(
    "line, found",
    [
        ("float s = 1 / (n * m); out[0] = s;", ["1 / (n * m)"]),
        ("float s = x[0]; out[0] = s * (n / m);", ["n / m"]),
        ("float s = x[n / m]; out[0] = s;", []),
        ("float s = x[0] * n / m; out[0] = s;", []),
        ("float s = (float)n / m; out[0] = s;", []),
        ("int s = n / m; out[s] = x[s];", []),
    ],
)
def test_quotients_of_whole_numbers_that_become_floats(line, found):
    assert [text for _, text in quotients(kernel(line))] == found


@pytest.mark.parametrize("n, cut", [(7, True), (8, False)])
def test_a_quotient_is_named_where_something_is_lost(n, cut):
    code = kernel("float s = x[0];", "out[0] = s * (n / m);")
    again = partial(partial(runs.emulate, outputs=(0,)), code, "f", (1, 1, 1), (1, 1, 1))
    given = [np.zeros(1, np.float32), np.ones(1, np.float32), n, 4]
    said = cut_off(code, again, given, lambda: [np.full(1, n / 4, np.float32), *given[1:]])
    assert bool(said) == cut and all("`(float)n / m`" in sentence for sentence in said)


@pytest.mark.parametrize("right", [1.0, 0.9, 1.5, None])
def test_a_quotient_that_is_cut_off_on_purpose_is_not_blamed_for_another_mistake(right):
    code = kernel("float s = x[0];", "out[0] = s * (n / m) + 0.25f;")  # 1.25, and 2 if it were not cut off
    again = partial(partial(runs.emulate, outputs=(0,)), code, "f", (1, 1, 1), (1, 1, 1))
    given = [np.zeros(1, np.float32), np.ones(1, np.float32), 7, 4]
    assert cut_off(code, again, given, lambda: right and [np.full(1, right, np.float32), *given[1:]]) == []


def test_a_quotient_is_named_beside_another_mistake_where_its_conversion_counts_for_more():
    code = kernel("float s = x[0];", "out[0] = s * (1 / (n * m)) + 0.001f;")
    again = partial(partial(runs.emulate, outputs=(0,)), code, "f", (1, 1, 1), (1, 1, 1))
    given = [np.zeros(1, np.float32), np.ones(1, np.float32), 3, 4]
    (said,) = cut_off(code, again, given, lambda: [np.full(1, 1 / 12, np.float32), *given[1:]])
    assert "`(float)1 / (n * m)`" in said


@pytest.mark.parametrize("end, said", [("k <= t", True), ("k < n", False), ("k < n && t < n", False)])
def test_a_loop_with_barriers_that_threads_leave_at_different_turns(end, said):
    code = kernel(
        "__shared__ float tile[64];",
        "int t = threadIdx.x;",
        f"for (int k = 0; {end}; k += 32) {{",
        "    __syncthreads();",
        "    tile[t] = x[t];",
        "    __syncthreads();",
        "    out[t] = tile[63 - t];",
        "}",
    )
    given = [np.zeros(64, np.float32), np.ones(64, np.float32), 64, 0]
    report = runs.emulate(code, "f", (1, 1, 1), (64, 1, 1), given, outputs=(0,))
    assert bool(left_at_different_turns(report)) == said


def test_a_component_is_no_name_of_a_thread():
    code = kernel(
        "__shared__ float tile[64];",
        "int first = blockIdx.x % 1 * 64;",
        "float4 s; s.x = threadIdx.x; out[threadIdx.x] = s.x;",
        "for (int k = 0; k < first + n; k += 32) {",
        "    __syncthreads();",
        "    if (threadIdx.x < 9 + k) tile[threadIdx.x] = x[threadIdx.x];",
        "    __syncthreads();",
        "}",
    )
    given = [np.zeros(64, np.float32), np.ones(64, np.float32), 64, 0]
    assert left_at_different_turns(runs.emulate(code, "f", (1, 1, 1), (64, 1, 1), given, outputs=(0,))) == []


@pytest.mark.parametrize("index, said", [("w[i]", True), ("w[4 * i]", False)])
def test_single_floats_by_an_index_that_counts_float4s(index, said):
    code = kernel("int i = threadIdx.x;", "const float4* w4 = (const float4*)x;", "const float* w = out;", "")
    code = code.replace("(float* out, const float* x", "(float* out, const float* x, const float* w").replace(
        "    const float* w = out;\n", f"    float4 v = w4[i]; out[i] = v.x * {index};\n"
    )
    given = [np.zeros(16, np.float32), np.ones(64, np.float32), np.ones(64, np.float32), 64, 0]
    report = runs.emulate(code, "f", (1, 1, 1), (16, 1, 1), given, outputs=(0,))
    assert ("counts float4s" in " ".join(never_read(report))) == said


@pytest.mark.parametrize(
    "inner, wanted",
    [("float m = x[i];", "m = x[i]; "), ("float a = x[i], m = a, b = m;", "float a = x[i]; m = a; float b = m;")],
)
def test_a_second_variable_is_named_if_without_it_the_check_accepts_the_kernel(inner, wanted):
    code = kernel("float m = x[0];", "for (int i = 1; i < n; i++) {", inner, "}", "out[0] = m;")
    (said,) = ended_too_soon(code, lambda changed: f"    {wanted}" in changed)
    assert said.startswith("Line 5 declares a second `m`, which ends with the braces around it and leaves the one of l")
    assert "line 3 as it is. Without the type in front, your kernel passes this whole check." in said
    assert ended_too_soon(code, lambda changed: False) == []


def test_a_parameter_of_another_function_is_no_second_variable():
    helper = "__device__ int at(int row, int k, int n) { return row * n + k; }\n"
    loop = "for (int i = 0; i < n; i++) { int row = i; out[row] = 1; }"
    code = helper + kernel(loop, "int row = 2;", "out[row] = 0;")
    assert ended_too_soon(code, lambda changed: pytest.fail(changed)) == []


def test_lines_that_are_indented_as_if_they_belonged_to_a_loop():
    lines = "for (int k = 0; k < n; k++)", "    for (int i = 0; i < 4; i++) {", "        s += x[i];", "    }"
    code = kernel("float s = 0, t = 0;", *lines, "    t += s;  // of all", "out[0] = t;")
    whole = "for(intk=0;k<n;k++){for(inti=0;i<4;i++){s+=x[i];}t+=s;//ofall}out[0]=t;"
    (said,) = ended_too_soon(code, lambda changed: whole in "".join(changed.split()))
    assert "Line 8 is indented as if it belonged to the loop on line 4, which ends with line 7" in said
    assert ended_too_soon(code.replace("        t += s;", "    t += s;"), lambda changed: pytest.fail(changed)) == []
