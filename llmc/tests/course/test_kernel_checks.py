"""`kernel_check`: what it says of right and of broken CUDA kernels."""

import re

import pytest

from llmc.course.authoring.answers import replaced
from llmc.course.exercises import builder
from llmc.course.kernel_checks.launches import Launch, difference
from llmc.course.kernel_checks.source import unfinished
from llmc.tests.course.kernel_cells import ROW_SUM, SCALE, check_row_sum, check_scale, message

pytestmark = pytest.mark.usefixtures("not_recorded", "one_second")


GRID_STRIDE = (
    "if (i < n)\n        out[i] = factor * inp[i];",
    "for (; i < n; i += blockDim.x * gridDim.x) out[i] = factor * inp[i];",
)


@pytest.mark.parametrize(
    "check_cell, code", [(check_scale, SCALE), (check_scale, replaced(SCALE, *GRID_STRIDE)), (check_row_sum, ROW_SUM)]
)
def test_right_kernels_pass(check_cell, code, capsys):
    check_cell(code)
    assert re.search(r"^✓ \w+ is right\.", capsys.readouterr().out)


BROKEN_SCALE = {
    "writes the input through a cast": (
        ("inp[i];", "inp[i], ((float*)inp)[i] = 0;"),
        "the kernel wrote to inp, which is an input, in line 7",
    ),
    "no semicolon": (("inp[i];", "inp[i]"), "the kernel does not run. line 7: expected ';'"),
    "another name": (("void scale", "void scales"), "should have a kernel called scale; it has scales"),
    "one parameter less": ((", int n", ""), "the kernel does not run."),
    "never ends": (("if (i < n)", "while (i < n)"), "no end in sight"),
}


@pytest.mark.parametrize("edits, says", BROKEN_SCALE.values(), ids=BROKEN_SCALE)
def test_a_broken_kernel_is_explained(edits, says):
    told = message(check_scale, replaced(SCALE, *edits))
    assert says in told, told


def test_a_message_has_all_its_parts():
    told = message(check_scale, replaced(SCALE, "if (i < n)", "")).splitlines()
    assert told[0].startswith("✗ scale: out of bounds, line 7. `out[i] = factor * inp[i];` reads inp[1], but inp has 1")
    assert '→ Where to look: lesson 12, section "The edge".' in told
    called = "The launch was scale((1,), (256,), (out (1,) float32, inp (1,) float32, factor np.float32(1.5), n 1))."
    assert told[-1] == called


def test_demands():
    wasteful = replaced(SCALE, "blockIdx.x * blockDim.x + threadIdx.x", "blockIdx.x + gridDim.x * threadIdx.x")
    told = message(check_scale, wasteful)
    assert told.startswith("✗ scale: right, but ") and "the goal is at least 90%" in told and "sectors" in told
    assert "blockDim" not in told.splitlines()[1]
    check_scale(wasteful, 0.1)


def launch(grid=4, block=256, code=SCALE, n=1000):
    return Launch(code, "scale", (grid, 1, 1), (block, 1, 1), (str(n),))


IN_GRIDS = "for (int i = 0; i < n; i += gridDim.x * blockDim.x)"


@pytest.mark.parametrize(
    "launches, says",
    [
        ([launch()], ""),
        ([launch(n=5), launch(block=32)], ""),
        ([launch(), launch(n=5), launch()], "A launch of the same sizes was right before."),
        (
            [launch(block=256), launch(block=128), launch(8, 96)],
            "Right with blocks of 256 and 128 threads, wrong with 96.",
        ),
        ([launch(4, code=IN_GRIDS), launch(2, code=IN_GRIDS)], "Right with 4 blocks, wrong with 2."),
    ],
)
def test_what_tells_the_wrong_launch_from_right_ones(launches, says):
    assert difference(launches) == says


def test_a_stub_is_not_done_yet(capsys):
    stub = builder.stub_source(SCALE, "here")
    assert unfinished(stub) and not unfinished(SCALE) and not unfinished(f"/*\n{stub}*/")
    check_scale(stub)
    assert capsys.readouterr().out.startswith("not done yet: scale. Replace `#error not done yet`")


def test_not_a_string():
    assert "should be CUDA C in a string" in message(check_scale, None)
