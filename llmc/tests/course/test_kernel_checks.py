"""`kernel_check`: what it says of right and of broken CUDA kernels, and how their answers are kept and built."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from llmc.course import WrongAnswer, compare, recording
from llmc.course.authoring import answers
from llmc.course.authoring.answers import replaced
from llmc.course.exercises import builder
from llmc.course.kernel_checks import demands, evidence, shares
from llmc.course.kernel_checks import runs as kernel_runs
from llmc.course.kernel_checks import words as kernel_words
from llmc.course.kernel_checks.check import BLOCKS, SIZES, kernel_check
from llmc.course.kernel_checks.source import literal_block, unfinished
from llmc.course.kernel_checks.words import Launch, with_comparison
from llmc.cuda import RawKernel, inspect

SCALE = r"""
extern "C" __global__ void scale(float* out, const float* inp, float factor, int n)
{
    // ### BEGIN SOLUTION
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = factor * inp[i];
    // ### END SOLUTION
}
"""
ROW_SUM = r"""
extern "C" __global__ void row_sum(float* out, const float* inp, int C)
{
    extern __shared__ float partial[];
    int t = threadIdx.x;
    const float* row = inp + (size_t)blockIdx.x * C;
    float sum = 0.0f;
    for (int c = t; c < C; c += blockDim.x)
        sum += row[c];
    partial[t] = sum;
    __syncthreads();
    int length = blockDim.x;
    while (length > 1) {
        int half = (length + 1) / 2;
        if (t + half < length)
            partial[t] += partial[t + half];
        __syncthreads();
        length = half;
    }
    if (t == 0)
        out[blockIdx.x] = partial[0];
}
"""
WARP_SUM = r"""
extern "C" __global__ void warp_sum(float* out, const float* inp, int C)
{
    int lane = threadIdx.x;
    float sum = 0.0f;
    for (int c = lane; c < C; c += 32)
        sum += inp[blockIdx.x * C + c];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (lane == 0)
        out[blockIdx.x] = sum;
}
"""
WHERE = {"out-of-bounds": 'lesson 12, section "The edge"', "race": 'lesson 13, section "A barrier"'}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setenv("LLMC_EMULATOR_SECONDS", "1")
    was = recording(False)
    yield
    recording(was)


def check_scale(code, where=WHERE, efficiency=0.9):
    with kernel_check("scale", where) as c:
        for n in SIZES:
            inp = c.random(n)  # (n,)
            for block in BLOCKS:
                out = c.output(n)  # (n,)
                c.launch(code, (n + block - 1) // block, block, (out, inp, np.float32(1.5), n))
                compare("out", out, np.float32(1.5) * inp, known={"inp itself: nothing was multiplied": inp})
        c.demand(efficiency=efficiency)


def check_row_sum(code):
    with kernel_check("row_sum", WHERE) as c:
        for C in (7, 1, 129, 300):
            inp = c.random(3, C)  # (N, C)
            for block in BLOCKS:
                out = c.output(3)  # (N,)
                c.launch(code, 3, block, (out, inp, C), shared_mem=4 * block)
                compare("out", out, inp.sum(axis=1), known={"the sum without its last column": inp[:, :-1].sum(axis=1)})
        c.demand(bank_conflicts=0, barriers=8)


def check_warp_sum(code):
    with kernel_check("warp_sum") as c:
        for C in (7, 129):
            inp, out = c.random(3, C), c.output(3)  # (N, C), (N,)
            c.launch(code, 3, 32, (out, inp, C))
            compare("out", out, inp.sum(axis=1))
        c.demand(shared_requests=0, barriers=0)


def message(check_cell, *arguments):
    with pytest.raises(WrongAnswer) as caught:
        check_cell(*arguments)
    return str(caught.value)


# ------------------------------------------------------------------------------------------ broken kernels


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
        "Right with 1 block, wrong with 2: does each block take its own part",
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
    return SimpleNamespace(kind=kind, text=text, line=line, line2=line2, where="out[1]")


def test_the_gravest_problem_is_told_first():
    found = [
        problem("uninitialised", "uninitialised", 9),
        problem("race", "race in shared memory", 9, 5, "lines 5 and 9"),
        problem("race", "race in shared memory", 5, 9),
    ]
    told = kernel_words.problem_text(SimpleNamespace(problems=found), WHERE).splitlines()
    assert told[:2] == ["race in shared memory, lines 5 and 9.", "`x` went wrong."]
    assert "The report also has: uninitialised, line 9." in told and told[-1].startswith("→ Where to look: lesson 13")


def launch(grid=4, block=256, code=SCALE, n=1000, inputs=0):
    return Launch(code, "scale", (grid, 1, 1), (block, 1, 1), (str(n),), inputs)


@pytest.mark.parametrize(
    "launches, says",
    [
        ([launch()], None),
        ([launch(n=5), launch(block=32)], None),
        ([launch(), launch(n=5), launch()], "was right before"),
        ([launch(4), launch(2)], "Right with 4 blocks, wrong with 2: does it assume how many blocks"),
        (
            [launch(block=256), launch(block=128), launch(8, 96)],
            "Right with blocks of 256 and 128 threads, wrong with 96",
        ),
        ([launch(inputs=1), launch(inputs=2)], "was right before, with other numbers."),
        ([launch(code="int i = 512 * blockIdx.x;", block=96)], "There is a 512 in the kernel, and this block has 96"),
        ([launch(code="int columns = 512;", block=96)], None),
        ([launch(code="float a[512]; // 128", block=96)], None),
        ([launch(code="int i = 96;", block=96)], None),
    ],
)
def test_what_tells_the_wrong_launch_from_right_ones(launches, says):
    told = with_comparison("wrong\nbecause", launches)
    assert told.startswith("wrong\n") and told.endswith("because")
    assert told == "wrong\nbecause" if says is None else says in told


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


# ------------------------------------------------------------------------------------------ stubs and answers


def test_the_builder_makes_a_stub_of_c(capsys):
    stub = builder.stub_source(SCALE, "here")
    assert stub.splitlines()[3:5] == ["    // YOUR CODE HERE (about 3 lines)", "    #error not done yet"]
    assert stub.splitlines()[:3] + stub.splitlines()[5:] == SCALE.splitlines()[:3] + SCALE.splitlines()[-1:]
    assert unfinished(stub) and not unfinished(SCALE) and not unfinished(f"/*\n{stub}*/")
    check_scale(stub)
    assert capsys.readouterr().out.startswith("not done yet: scale. Replace `#error not done yet`")


def test_markers_of_two_languages_in_one_cell():
    source = (
        f"def f():\n    ### BEGIN SOLUTION\n    # why\n    return 1\n    ### END SOLUTION\n\n\nscale = '''{SCALE}'''"
    )
    stub = builder.stub_source(source, "here")
    assert "    # YOUR CODE HERE (about 1 line)\n    raise NotImplementedError\n" in stub and "#error" in stub


def test_replaced_wants_each_text_once():
    assert replaced("a b", "a", "c", "b", "d") == "c d"
    for old in ("e", "a"):
        with pytest.raises(ValueError, match="should occur once"):
            replaced("a a", old, "x")


ANSWERS = """
from llmc.course.authoring.answers import replaced, right, wrong


@right("scale")
def scale_again(code):
    return code.replace("i < n", "n > i")


@wrong("scale", says="out of bounds, line 7")
def scale_everything(code):
    return replaced(code, "if (i < n)", "")
"""
CHECK = """import numpy as np
from llmc.course.kernel_checks.check import kernel_check

with kernel_check("scale") as c:
    inp, out = c.random(40), c.output(40)  # (n,) each
    c.launch(scale, 2, 32, (out, inp, np.float32(1.5), 40))
"""


@pytest.fixture
def course(tmp_path):
    """A course with one lesson, whose exercise is in CUDA C."""
    cells = [("answer", f'scale = r"""{SCALE}"""'), ("check", CHECK)]
    cells = [
        {"cell_type": "code", "id": role, "metadata": {"llmc": {"exercise": "scale", "role": role}}, "source": source}
        for role, source in cells
    ]
    (tmp_path / "solutions" / "answers").mkdir(parents=True)
    (tmp_path / "solutions" / "12_x.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    (tmp_path / "solutions" / "answers" / "12_x.py").write_text(ANSWERS, encoding="utf-8")
    return tmp_path


def test_answers_in_c(course, monkeypatch, capsys):
    monkeypatch.setattr(answers, "checkout", lambda: course)
    assert answers.main(["12"]) == 0
    assert re.search(r"scale +1 of 1 +1 of 1 +1 of 1", capsys.readouterr().out)
    assert answers.main(["12_x", "--messages"]) == 0
    assert "== scale: scale_everything\n✗ scale: out of bounds, line 7." in capsys.readouterr().out
    with pytest.raises(SystemExit):
        answers.main(["13"])
    assert "no lesson 13 has answers" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------ with a GPU, faked


class FakeCuda:
    """llmc.cuda on a machine whose GPU runs this Python function of the arrays."""

    xp, asnumpy, synchronize = np, np.asarray, lambda self: None

    def __init__(self, function):
        self.function = function

    def RawKernel(self, code, name, options, check):
        return lambda grid, block, args, shared_mem: self.function(*args)


def gpu_result(monkeypatch, function):
    monkeypatch.setattr(kernel_runs, "cuda", FakeCuda(function))
    out, inp = np.zeros(5, np.float32), np.arange(5, dtype=np.float32)  # (n,) each
    after = kernel_runs.run_on_gpu("", "k", 1, 32, [out, inp, 5])
    assert not out.any()
    return after


def test_a_run_on_the_gpu_is_of_copies(monkeypatch):
    out, inp, n = gpu_result(monkeypatch, lambda out, inp, n: np.add(inp, n, out=out))
    assert out.tolist() == [5, 6, 7, 8, 9] and inp.tolist() == [0, 1, 2, 3, 4] and n is None


def test_an_array_that_is_given_twice_stays_one(monkeypatch):
    monkeypatch.setattr(kernel_runs, "cuda", FakeCuda(lambda a, b: np.copyto(a, b + 1)))
    x = np.zeros(3, np.float32)  # (n,)
    first, second = kernel_runs.run_on_gpu("", "k", 1, 32, [x, x])
    assert first.tolist() == second.tolist() == [1, 1, 1]


@pytest.mark.parametrize("at", [0, -1])
def test_a_run_on_the_gpu_that_writes_beside_an_array(at, monkeypatch):
    with pytest.raises(WrongAnswer, match="argument 0 of k was written outside"):
        gpu_result(monkeypatch, lambda out, inp, n: out.base.__setitem__(at, 7))


def test_a_kernel_that_the_gpu_does_not_compile(monkeypatch):
    with pytest.raises(WrongAnswer, match="right on the emulator, but it does not run on the GPU: line 3: error"):
        gpu_result(monkeypatch, lambda out, inp, n: (_ for _ in ()).throw(RuntimeError("line 3: error")))


def test_a_gpu_that_disagrees():
    right = np.array([1, np.nan, 3], np.float32)  # (n,)
    kernel_runs.agree("out", right.copy(), right)
    with pytest.raises(WrongAnswer, match="out on the GPU, compared with the emulator's, has wrong values"):
        kernel_runs.agree("out", right + np.array([0, 0, 0.5], np.float32), right)
    with pytest.raises(WrongAnswer, match="on the GPU"):
        kernel_runs.agree("out", np.array([1, 2, 4], np.int32), np.array([1, 2, 3], np.int32))


# ------------------------------------------------------------------------------------------ shares and evidence


def shared_work(code, grid=2, block=4, n=20):
    """The report of a kernel on out and x (n,)."""
    head = 'extern "C" __global__ void k(float* out, const float* x, int n)\n{\n'
    arrays = np.zeros(n, np.float32), np.ones(n, np.float32)  # (n,) each
    return inspect(RawKernel(f"{head}{code}\n}}", "k"), (grid,), (block,), (*arrays, n))


LOOP = "for (int i = {first}; i < n; i += {step}) {body}"
FIRST, STEP = "blockIdx.x * blockDim.x + threadIdx.x", "gridDim.x * blockDim.x"


@pytest.mark.parametrize(
    "code, rewrites, busiest",
    [
        (LOOP.format(first=FIRST, step=STEP, body="out[i] = x[i];"), 0, 3),
        (LOOP.format(first=FIRST, step=STEP, body="{ out[i] = x[i]; out[i] = 2 * x[i]; }"), 0, 3),
        (LOOP.format(first="threadIdx.x", step="blockDim.x", body="out[i] = x[i];"), 20, 5),
        (LOOP.format(first="0", step="1", body="out[i] = x[i];"), 140, 20),
        ("if (blockIdx.x == 0 && threadIdx.x == 0) " + LOOP.format(first="0", step="1", body="out[i] = x[i];"), 0, 20),
        ("int i = 4 * threadIdx.x; *(float4*)(out + i) = *(const float4*)(x + i);", 16, 4),
    ],
)
def test_who_handles_which_number(code, rewrites, busiest):
    report = shared_work(code)
    assert (shares.rewrites(report), shares.busiest(report)) == (rewrites, busiest)


def test_a_launch_too_large_to_be_recorded_is_counted():
    report = shared_work(LOOP.format(first="0", step="1", body="out[i] = x[i];"), block=64, n=1000)
    assert report.raw.trace is None and shares.rewrites(report) == 127_000 and shares.busiest(report) == 0


def test_where_numbers_come_from():
    x = np.random.default_rng(1).permutation(24).astype(np.float32).reshape(2, 3, 4)  # (B, T, C)
    axes, wanted = {"b": 2, "t": 3, "c": 4}, np.arange(24).reshape(2, 3, 4)
    assert evidence.came_from("x", x, x, wanted, axes) == evidence.came_from("x", x + 0.5, x, wanted, axes) == {}
    (said,) = evidence.came_from("x", x[:, :, ::-1], x, wanted, axes)
    assert said.startswith("numbers of x, but with another c than they should have (b and t are right); out[0, 0, 0]")
    assert "holds the number with (b, t, c) = (0, 0, 3), and should hold the one with (0, 0, 0)" in said


@pytest.mark.parametrize(
    "wrong, says",
    [
        ([], None),
        ([2, 6], ".z of each float4"),
        ([0, 5, 4], ".x and .y of each float4"),
        ([8, 9], "behind the last whole four"),
        ([0, 9], None),
        ([0, 1, 2, 3], None),
    ],
)
def test_which_parts_of_a_float4_are_wrong(wrong, says):
    right = np.arange(1.0, 11.0)  # (n,)
    got = right.copy()
    got[wrong] = 77
    (said,) = evidence.slots(got, right) or [None]
    assert said is None if says is None else says in said


def test_a_float4_that_is_taken_apart_too_early():
    body = "int i = threadIdx.x; const float4& v = ((const float4*)x)[i];\n"
    body += "((float4*)out)[i] = make_float4(v.x, v.y, v.z, v.w);"
    report = shared_work(body, grid=1, block=32, n=128)
    told = demands.demand_text(report, "requests", 2, {})
    assert "reads x 4 bytes at a time: read a whole float4 first" in told
