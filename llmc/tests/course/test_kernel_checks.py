"""`kernel_check`: what it says of right and of broken CUDA kernels."""

import re
from types import SimpleNamespace

import pytest

from llmc.course.old.authoring.answers import replaced
from llmc.course.old.kernel_checks import words as kernel_words
from llmc.course.old.kernel_checks.source import literal_block
from llmc.course.old.kernel_checks.words import Launch, with_comparison
from llmc.tests.course.kernel_cells import (
    ROW_SUM,
    SCALE,
    WARP_SUM,
    WHERE,
    check_row_sum,
    check_scale,
    check_warp_sum,
    message,
)

pytestmark = pytest.mark.usefixtures("not_recorded", "one_second")


@pytest.mark.parametrize(
    "check_cell, code", [(check_scale, SCALE), (check_row_sum, ROW_SUM), (check_warp_sum, WARP_SUM)]
)
def test_right_kernels_pass(check_cell, code, capsys):
    check_cell(code)
    assert re.search(r"^✓ \w+ is right\.", capsys.readouterr().out)


GRID_STRIDE = (
    "if (i < n)\n        out[i] = factor * inp[i];",
    "for (; i < n; i += blockDim.x * gridDim.x) out[i] = factor * inp[i];",
)


def test_right_in_another_way_passes(capsys):
    check_scale(replaced(SCALE, *GRID_STRIDE))
    assert "✓ scale is right." in capsys.readouterr().out


BROKEN_SCALE = {
    "no bounds check": (("if (i < n)", ""), "out of bounds, line 7"),
    "off by one": (("i < n", "i < n - 1"), "never written"),
    "one too far": (("i < n", "i <= n"), "out of bounds, line 7"),
    "blockDim assumed": (
        ("blockDim.x", "256"),
        "Right with blocks of 256 and 128 threads, wrong with 96. There is a 256",
    ),
    "blockDim too small": (("blockDim.x", "96"), "wrong with 32. There is a 96"),
    "only one block": (
        ("blockIdx.x * blockDim.x + ", ""),
        "Right with 1 block, wrong with 2: blockIdx and blockDim do not occur in the kernel.",
    ),
    "forgets the factor": (("factor * ", ""), "out equals inp itself: nothing was multiplied"),
    "writes the input": (
        ("const float* inp", "float* inp", "factor * inp[i]", "inp[i] *= factor"),
        "the kernel wrote to inp, which is an input",
    ),
    "writes the input through a cast": (
        ("inp[i];", "inp[i], ((float*)inp)[i] = 0;"),
        "the kernel wrote to inp, which is an input, in line 7",
    ),
    "reads the output": (("= factor", "+= factor"), "uninitialised, line 7"),
    "strided": (
        ("if (i < n)", "i = (i % 32) * 32 + i / 32; if (i < n)"),
        "never written",
    ),
    "no semicolon": (("inp[i];", "inp[i]"), "the kernel does not run. line 7: expected ';'"),
    "another name": (("void scale", "void scales"), "should have a kernel called scale; it has scales"),
    "one parameter less": ((", int n", ""), "the kernel does not run."),
    "never ends": (("if (i < n)", "while (i < n)"), "no end in sight"),
}


@pytest.mark.parametrize("edits, says", BROKEN_SCALE.values(), ids=BROKEN_SCALE)
def test_broken_scale(edits, says):
    told = message(check_scale, replaced(SCALE, *edits))
    assert says in told, told


BROKEN_ROW_SUM = {
    "no barrier before the tree": (("partial[t] = sum;\n    __syncthreads();", "partial[t] = sum;"), "race in shared"),
    "no barrier in the tree": (("        __syncthreads();\n        length", "        length"), "race in shared"),
    "barrier in a branch": (
        (
            "partial[t] += partial[t + half];\n        __syncthreads();",
            "{ partial[t] += partial[t + half]; __syncthreads(); }",
        ),
        "barrier not reached by all",
    ),
    "uninitialised": (("    partial[t] = sum;", "    if (t < C) partial[t] = sum;"), "uninitialised"),
    "blocks of a power of two": (
        ("(length + 1) / 2", "length / 2"),
        "Right with blocks of 256 and 128 threads, wrong with 96",
    ),
    "stride assumed": (("c += blockDim.x", "c += 256"), "There is a 256"),
    "without the last column": (("c < C; c +=", "c < C - 1; c +="), "out equals the sum without its last column"),
    "race in the tree": (("if (t + half < length)", "if (t + half < blockDim.x)"), "race in shared"),
    "too much shared memory": (("partial[t] = sum;", "partial[t + 1] = sum;"), "out of bounds, line 10"),
}


@pytest.mark.parametrize("edits, says", BROKEN_ROW_SUM.values(), ids=BROKEN_ROW_SUM)
def test_broken_row_sum(edits, says):
    told = message(check_row_sum, replaced(ROW_SUM, *edits))
    assert says in told, told


BROKEN_WARP_SUM = {
    "wrong mask": (("0xffffffff", "0x0000ffff"), "lane"),
    "half of the warp": (("offset = 16", "offset = 8"), "out has wrong values"),
    "shuffle in a branch": (("        sum += __shfl", "        if (lane < offset) sum += __shfl"), "lane"),
}


@pytest.mark.parametrize("edits, says", BROKEN_WARP_SUM.values(), ids=BROKEN_WARP_SUM)
def test_broken_warp_sum(edits, says):
    told = message(check_warp_sum, replaced(WARP_SUM, *edits))
    assert says in told, told


def test_a_message_has_all_its_parts():
    told = message(check_scale, replaced(SCALE, "if (i < n)", "")).splitlines()
    assert told[0] == "✗ scale: out of bounds, line 7."
    assert "inp[1]" in told[1] and "kernel scale" not in told[1]
    assert '→ Where to look: lesson 12, section "The edge".' in told
    assert (
        told[-1]
        == "The call was scale((1,), (256,), (out (1,) float32, inp (1,) float32, factor np.float32(1.5), n 1))."
    )


def test_demands():
    wasteful = replaced(
        SCALE, "int i = blockIdx.x * blockDim.x + threadIdx.x;", "int i = blockIdx.x + gridDim.x * threadIdx.x;"
    )
    told = message(check_scale, wasteful)
    assert told.startswith("✗ scale: right, but ") and "the goal is at least 90%" in told and "sectors" in told
    assert "blockDim" not in told.splitlines()[1]
    check_scale(wasteful, WHERE, 0.1)


# ------------------------------------------------------------------------------------------ without the emulator


def problem(kind, title, line, line2=0, lines=""):
    text = f"{title}: kernel k, {lines or f'line {line}'}: `x` went wrong.\nThread (0, 0, 0) did it.\nDo better."
    calls = (40,) if kind == "deadlock" else ()
    return SimpleNamespace(kind=kind, text=text, line=line, line2=line2, where="out[1]", calls=calls, found=None)


def test_the_gravest_problem_is_told_first():
    found = [
        problem("uninitialised", "uninitialised", 9),
        problem("race", "race in shared memory", 9, 5, "lines 5 and 9"),
        problem("race", "race in shared memory", 5, 9),
    ]
    told = kernel_words.problem_text(SimpleNamespace(problems=found), WHERE).splitlines()
    assert told[:2] == ["race in shared memory, lines 5 and 9.", "`x` went wrong."]
    assert "The report also has: uninitialised, line 9." in told and told[-1].startswith("→ Where to look: lesson 13")

    found = [problem("deadlock", "deadlock", 25), problem("copy-race", "race with an asynchronous copy", 31)]
    told = kernel_words.problem_text(SimpleNamespace(problems=found[:1]), WHERE).splitlines()
    assert told[0] == "deadlock, line 25, called at line 40."
    told = kernel_words.problem_text(SimpleNamespace(problems=found), WHERE).splitlines()
    assert told[0] == "race with an asynchronous copy, line 31." and "The report also has: deadlock, line 25." in told


def launch(grid=4, block=256, code=SCALE, n=1000, inputs=0):
    return Launch(code, "scale", (grid, 1, 1), (block, 1, 1), (str(n),), inputs)


IN_GRIDS = "for (int i = 0; i < n; i += gridDim.x * blockDim.x)"
EIGHTS = "int row = blockIdx.x * 8 + threadIdx.x / 32;"


@pytest.mark.parametrize(
    "launches, says",
    [
        ([launch()], None),
        ([launch(n=5), launch(block=32)], None),
        ([launch(), launch(n=5), launch()], "was right before"),
        ([launch(4), launch(2)], "Right with 4 blocks, wrong with 2."),
        (
            [launch(block=256), launch(block=128), launch(8, 96)],
            "Right with blocks of 256 and 128 threads, wrong with 96",
        ),
        ([launch(inputs=1), launch(inputs=2)], "was right before, with other numbers."),
        ([launch(code="int i = 512 * blockIdx.x;", block=96)], "There is a 512 in the kernel, and this block has 96"),
        ([launch(4, code=IN_GRIDS), launch(2, code=IN_GRIDS)], "Right with 4 blocks, wrong with 2.\n"),
        ([launch(4, code=EIGHTS), launch(11, 96, EIGHTS)], "There is an 8 in the kernel, the warps of 256 threads"),
        ([launch(code="int columns = 512;", block=96)], None),
        ([launch(code="float a[512]; // 128", block=96)], None),
        ([launch(code="int i = 96;", block=96)], None),
    ],
)
def test_what_tells_the_wrong_launch_from_right_ones(launches, says):
    told = with_comparison("wrong\nbecause", launches)
    assert told.startswith("wrong\n") and told.endswith("because")
    assert told == "wrong\nbecause" if says is None else says in told


def test_a_size_beyond_all_that_were_right_is_told():
    def sized(n, block=256):
        given = f"({n},) float32", f"({n},) float32", "0.5", str(n)
        return Launch(SCALE, "scale", (4, 1, 1), (block, 1, 1), given)

    right = [sized(127, 32), sized(5, 64)]
    told = with_comparison("wrong", [*right, sized(1000)])
    assert told == "wrong\nRight with n up to 127; this launch is the first with n = 1000."
    assert with_comparison("wrong", [*right, sized(6)]) == with_comparison("wrong", [sized(5, 32), sized(9)]) == "wrong"


def test_launches_on_other_numbers_tell_something_of_indices_alone():
    others = [launch(inputs=1), launch(block=96, inputs=2)]
    assert "Right with blocks of 256 threads, wrong with 96" in with_comparison("wrong", others)
    assert with_comparison("wrong", others, numbers=True) == "wrong"
    same = [launch(inputs=1), launch(block=96, inputs=1)]
    assert "Right with blocks of 256 threads, wrong with 96" in with_comparison("wrong", same, numbers=True)


def test_literals():
    assert literal_block("x += 128; // 64", 32) == "128" and literal_block("x += 128;", 128) is None
    for code in ("blockIdx.x * 256 + t", "for (h = 256 / 2; h > 0; h /= 2)", "for (h = 256; h; h >>= 1)", "i += 256)"):
        assert literal_block(code, 96) == "256", code
    assert literal_block("threadIdx.x < 256", 96) == "256" and literal_block("c < 256 && row * 64", 96) is None
    assert literal_block("x1024 = a.256f + 0x64", 32) is None and literal_block('"64" /* 64 */', 32) is None


def test_not_a_string():
    assert "should be CUDA C in a string" in message(check_scale, None)
