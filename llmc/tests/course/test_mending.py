"""The change of a learner's kernel that makes it right: pieces of it, what may stand there instead, all in one text."""

import numpy as np
import pytest

from llmc.course.old.kernel_checks import mending, switched
from llmc.course.old.kernel_checks.names_in_c import Names
from llmc.course.old.kernel_checks.pieces import EXPRESSION, STATEMENT, pieces
from llmc.course.old.kernel_checks.repairs import Repair, repairs
from llmc.course.old.kernel_checks.switched import Switched, changed
from llmc.course.old.kernel_checks.tokens import Tokens

HELPED = r"""
// the largest of a row
template <typename F> __device__ float reduced(float v, F f)
{
    for (int gap = 16; gap > 0; gap /= 2) v = f(v, __shfl_xor_sync(0xffffffff, v, gap));
    return v;
}
extern "C" __global__ void largest(float* out, const float* x, int N, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= N) return;
    const float* mine = &x[row * C];
    float top = -3.4e38f;
    for (int c = lane; c < C; c += 32)
        top = fmaxf(top, mine[c]);
    top = reduced(top, [](float a, float b) { return fmaxf(a, b); });
    if (lane == 0) out[row] = top;
}
"""
SLIPS = {
    "-3.4e38f;": ("0.0f;", "`-3.4e38f` in place of `0.0f` in line 13"),
    "row >= N": ("row > N", "`row >= N` in place of `row > N` in line 11"),
    "lane == 0": ("threadIdx.x == 0", "`threadIdx.x % 32 == 0` in place of `threadIdx.x == 0` in line 17"),
    "c < C;": ("c < N;", "`c < C` in place of `c < N` in line 14"),
    "row * C": ("row * N", "`&x[row * C]` in place of `&x[row * N]` in line 12"),
    "fmaxf(top, mine[c])": ("fminf(top, mine[c])", "fmaxf(top, mine[c])` in place of `top = fminf(top, mine[c])"),
    "__shfl_xor_sync(": ("__shfl_up_sync(", "__shfl_xor_sync(0xffffffff, v, gap))` in place of"),
}


def launch():
    """What `mended` needs of a launch, and what a right kernel leaves."""
    x = -1 - np.random.default_rng(3).random((9, 45)).astype(np.float32)  # (N, C)
    out = np.full(9, np.nan, np.float32)  # (N,)
    return ((2, 1, 1), (256, 1, 1), [out, x, 9, 45], (0,), 0, ()), [x.max(axis=1), x, 9, 45]


@pytest.mark.parametrize("right", SLIPS)
def test_slip_is_found_with_its_line(right):
    wrong, says = SLIPS[right]
    assert HELPED.count(right) == 1
    code = HELPED.replace(right, wrong)
    seen = []

    def confirmed(other):
        seen.append(other)
        return other.replace("(threadIdx.x % 32)", "lane").replace("(-3.4e38f)", "-3.4e38f") == HELPED

    said = mending.mended(code, "largest", *launch(), confirmed)
    assert said and says in said and seen


def test_nothing_is_said_that_the_whole_check_does_not_confirm():
    code = HELPED.replace("-3.4e38f;", "0.0f;")
    assert mending.mended(code, "largest", *launch(), lambda other: False) is None


def test_nothing_is_said_of_what_no_single_change_mends():
    code = HELPED.replace("-3.4e38f;", "0.0f;").replace("row * C", "row * N")
    assert mending.mended(code, "largest", *launch(), lambda other: True) is None


def test_pieces_of_a_kernel():
    found = [(piece.kind, HELPED[piece.start : piece.end]) for piece in pieces(HELPED)]
    assert (EXPRESSION, "threadIdx.x % 32") in found
    assert (EXPRESSION, "c < C") in found
    assert (STATEMENT, "top = fmaxf(top, mine[c])") in found
    assert (STATEMENT, "return fmaxf(a, b)") not in found  # it belongs to the statement around the lambda


def test_operands_reach_as_far_as_in_c():
    each = Tokens("a.x * (float)b[i] - f(c, d) / 2")
    minus = next(k for k, token in enumerate(each.all) if token.text == "-")
    assert each.piece(each.term(minus - 1, False), minus - 1) == "a.x * (float)b[i]"
    assert each.piece(minus + 1, each.term(minus + 1, True)) == "f(c, d) / 2"
    assert not Tokens("(const float4*)x").is_binary(3)


def test_all_changes_are_in_one_text_and_one_is_switched_on():
    several = repairs(HELPED)
    all_in_one = Switched(HELPED, "largest", several)
    (grid, block, arguments, outputs, *_), right = launch()
    assert not all_in_one.launch(None, grid, block, arguments, outputs).raw.problems
    np.testing.assert_array_equal(arguments[0], right[0])
    turned = next(k for k in all_in_one.alive if "fminf(top, mine[c])" in changed(HELPED, several[k]))
    all_in_one.launch(turned, grid, block, arguments, outputs)
    assert (arguments[0] == np.float32(-3.4e38)).all()
    all_in_one.launch(None, grid, block, arguments, outputs)
    np.testing.assert_array_equal(arguments[0], right[0])
    assert len(all_in_one.alive) > len(several) * 0.8


ENTERED = r"""
extern "C" __global__ void largest(float* out, const float* x, int N, int C)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    do {
        float top = x[row * C];
        int c = 1;
        do top = fmaxf(top, x[row * C + c]); while (++c < C);
        out[row] = top;
        row += gridDim.x * blockDim.x;
    } while (row < N);
}
"""


def test_a_loop_whose_first_turn_needs_the_condition():
    said = mending.mended(ENTERED, "largest", *launch(), lambda other: "if (row < N) do {" in other)
    assert "`while (row < N) { … }` in place of `do { … } while (row < N);` in line 5" in said


@pytest.mark.parametrize(
    ("text", "out", "words"),
    [
        ("x[0] = 1; if (n > f(2)) return; x[1] = 2;", "return", "without `if (n > f(2)) return;`"),
        (
            "for (int k = 0; k < n; k++) if (k) x[k] = k;",
            "x[k] = k",
            "without `for (int k = 0; k < n; k++) if",
        ),
        ("if (n) x[0] = 1; else x[1] = 2;", "x[0] = 1", "with `;` in place of `x[0] = 1;`"),
        ("if (n) x[0] = 1; else x[1] = 2;", "x[1] = 2", "without `else x[1] = 2;`"),
        ("if (n) { x[0] = 1; x[1] = 2; }", "x[0] = 1", "without `x[0] = 1;`"),
    ],
)
def test_what_has_nothing_left_to_do_is_left_out_too(text, out, words):
    code = f'extern "C" __global__ void f(float* x, int n)\n{{\n    {text}\n}}'
    (piece,) = (each for each in pieces(code) if code[each.start : each.end] == out)
    said = mending.sentence(code, Repair(1, ((piece, ""),), piece.start, out, ""))
    assert said.startswith(f"Your kernel passes this whole check {words}") and said.endswith(" in line 3.")


def test_a_change_that_breaks_a_declaration_takes_no_other_with_it():
    code = 'extern "C" __global__ void f(float* x) { float a = x[0], norm = x[1]; x[2] = a / norm; }'
    several = [
        Repair(0, ((piece, new),), piece.start, old, new)
        for piece in pieces(code)
        for old, new in (("x[0]", "x"), ("x[2] = a / norm", "x[2] = a - norm"), ("x[2] = a / norm", "x[2] = norm"))
        if code[piece.start : piece.end] == old
    ]
    assert Switched(code, "f", several).alive == {1, 2}


MISTAKES = {  # what belongs there, and what stands there
    "4 * (blockIdx.x * blockDim.x + threadIdx.x)": "int i = blockIdx.x * blockDim.x + 4 * threadIdx.x;",
    "acc = acc * old + y": "float acc = 0.0f, old = 0.5f, all = old * y; acc = acc + y;",
    "t[0] * expf(t[0])": "float sum = t[0]; for (int s = 1; s < n; s++) sum += t[s] * expf(t[s]);",
    "out[i] = y * ((float)n / i)": "int i = threadIdx.x; out[i] = y * (n / i);",
    "out += i * (n / 4)": "const float4* t4 = (const float4*)t; int i = threadIdx.x; out += i * n;",
    "acc += (expf(t[0] * y) - y)": "float acc = 0.0f; acc += expf(t[0] * y - y);",
    "out[first + n]": "for (int first = 16 * n; first < 32 * n; first++) out[16 * n + n] = y;",
    "i <= t0 && i < n": "int t0 = n + threadIdx.x; for (int i = 0; i <= threadIdx.x && i < n; i++) out[i] = y;",
    "n + row < 9 ? t[(n + row) * 2]": "int row = n, c = 2; out[row] = n + c < 9 ? t[(n + c) * 2] : y;",
    "for (int k = i;": "int i = threadIdx.x; for (int k = n / 4 * 4; k < n; k++) out[k] = y;",
    "b = i / C % B, c = i % C;": "int B = 2, C = n, i = 7; int b = i % C, c = i / C % B; out[b] = c;",
    "total = 0.0f;": "float one = 1.0f, total = one; out[0] = total + one;",
}


def test_a_number_that_a_float_is_compared_with_is_not_taken_for_another():
    code = 'extern "C" __global__ void f(float* x, float y) { if (x[0] == 0.0f || y == 1.0f) return; x[1] = y; }'
    texts = [changed(code, each) for each in repairs(code)]
    assert any("if (y == 1.0f)" in text for text in texts)
    assert not any("== -3.4e38f" in text or "== (-3.4e38f)" in text or "== 2.0f" in text for text in texts)


def test_a_change_that_no_compiler_reads_takes_the_others_of_its_piece_along_but_not_those_of_other_pieces():
    code = 'extern "C" __global__ void f(float* x, float y) { x[0] = y; x[1] = y; }'
    there = {code[piece.start : piece.end]: piece for piece in pieces(code)}
    broken = [Repair(0, ((there["x[0] = y"], f"x[{k}] = (float+)(y"),), 0, "", "") for k in range(20)]
    whole = [Repair(0, ((there["x[1] = y"], "x[1] = -y"),), 0, "", "")]
    assert Switched(code, "f", [*broken, *whole]).alive == {20}


def test_what_still_does_not_compile_after_the_last_try_is_left_out(monkeypatch):
    monkeypatch.setattr(switched, "TRIES", 1)
    code = 'extern "C" __global__ void f(float* x, float y) { x[0] = y; x[1] = y; }'
    (first, second) = (piece for piece in pieces(code) if code[piece.start : piece.end].startswith("x["))
    strangers = [Repair(0, ((first, "x[0] = stranger"),), 0, "", "") for _ in range(3)]  # GCC names the first alone
    assert Switched(code, "f", [*strangers, Repair(0, ((second, "x[1] = -y"),), 0, "", "")]).alive == {3}


def test_a_variable_of_a_loop_is_not_known_behind_a_value_in_braces():
    code = HELPED.replace(
        "__device__",
        "struct two { float a, b; };\n__device__ float f(two t) { return t.a; }\n__device__ void g(float* v) "
        "{ for (int e = 0; e < 8; e++) v[e] = f({v[e], 1.0f}); }\n__device__",
        1,
    )
    known = Names(code, pieces(code))
    assert "e" in known.known_at(code.index("v[e]"), ("int",))
    assert "e" not in known.known_at(code.index("__global__"), ("int",))
    assert "e" not in known.known_at(code.index("top"), ("int",))


def test_the_star_of_a_cast_is_no_product():
    code = 'extern "C" __global__ void f(float* x, int n, int m) { const float4* y = (const float4*)(x + n * m * 4); }'
    assert not any("float4+" in changed(code, each) or "float4/" in changed(code, each) for each in repairs(code))


@pytest.mark.parametrize("right", MISTAKES)
def test_what_belongs_there_is_among_the_changes(right):
    head = '\nextern "C" __global__ void largest(float* out, const float* t, float y, int n)\n{\n    '
    code = f"{head}{MISTAKES[right]}\n}}\n"
    assert any(right in changed(code, each) for each in repairs(code))


def test_the_sentence_says_which_of_two_equal_pieces_is_meant():
    code = HELPED.replace("float top = -3.4e38f;", "float top = 0.0f, none = 0.0f;")
    said = mending.mended(code, "largest", *launch(), lambda other: "top = (-3.4e38f)" in other)
    assert "`top = -3.4e38f` in place of `top = 0.0f` in line 13" in said


def test_a_return_that_is_only_made_not_to_happen_is_to_go():
    said = mending.mended(HELPED.replace("row >= N", "row > N"), "largest", *launch(), lambda other: True)
    assert said.endswith("passes this whole check without the `return` in line 11.")


def test_the_lane_that_writes_alone_needs_no_place_of_its_own():
    code = HELPED.replace("if (lane == 0) out[row] = top", "out[row + lane] = top")
    said = mending.mended(code, "largest", *launch(), lambda other: "if (lane == 0) out[row] = top" in other)
    assert said.endswith("with `if (lane == 0) out[row] = top` in place of `out[row + lane] = top` in line 17.")


def test_of_a_bound_that_is_off_by_one_the_one_is_named_and_not_the_sign_before_it():
    code = HELPED.replace("row >= N", "row >= N - 1")
    said = mending.mended(code, "largest", *launch(), lambda other: True)
    assert "`row >= N` in place of `row >= N - 1` in line 11" in said


def test_two_names_exchanged_leave_their_own_product_as_it_is():
    code = 'extern "C" __global__ void f(float* x, int b, int c, int T, int C) { x[b * T * C + c * C] = 1; }'
    texts = [changed(code, each) for each in repairs(code) if each.old == "T` and `C"]
    assert texts == [code.replace("c * C]", "c * T]")]
