"""Models of kernels: they give what the solutions give, and name the change of a solution that a learner has made."""

import ast
import re
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from llmc.course.old.authoring.answers import Answer, Lesson
from llmc.course.old.kernel_checks import dependence, modelled
from llmc.course.old.kernel_checks.experiments import Experiment
from llmc.course.old.kernel_checks.in_c import can_be_said, in_c
from llmc.course.old.kernel_checks.masked import Launch
from llmc.course.old.kernel_checks.modelled import MODELS, KernelEvidence, _too_far, model_of
from llmc.course.old.kernel_checks.seen import Seen
from llmc.course.old.kernel_checks.slips import slips
from llmc.course.old.kernel_checks.threads import memories
from llmc.course.old.mutants.python_source import mutants
from llmc.course.old.mutants.stoppable import TooLong, stoppable
from llmc.cuda import RawKernel, inspect

ROOT = Path(__file__).resolve().parents[3]
LESSONS = [
    "12_first_kernels",
    "13_reductions",
    "14_backward_kernels",
    "15_matmul_kernels",
    "16_attention_kernels",
    "17_gpu_training",
]


def launched(text, grid, block, *arguments):
    """The Launch of a kernel in Python; it writes to the arrays."""
    tree = stoppable(ast.parse(text))
    functions = {node.name: node for node in tree.body}
    names = [a.arg for a in tree.body[0].args.args]
    launch = Launch((grid,), (block,), lambda: False)
    launch.run(functions, tree.body[0].name, memories(names, arguments))
    return launch


@pytest.mark.skipif(not (ROOT / "solutions").is_dir(), reason="needs a checkout: models are held against solutions")
@pytest.mark.parametrize("name", LESSONS)
def test_models_give_what_the_solutions_give(name, monkeypatch):
    compared = set()
    after = KernelEvidence.after

    def and_compare(self, replay, result, arguments, options):
        after(self, replay, result, arguments, options)
        if replay is None:
            return
        with np.errstate(all="ignore"):
            outputs = replay.run(self.solution().function(time.thread_time() + 60))
        for mine, its in zip(outputs, replay.outputs, strict=True):
            assert np.allclose(mine, its, rtol=1e-3, atol=1e-3, equal_nan=True), self.exercise
        compared.add(self.exercise)

    monkeypatch.setattr(KernelEvidence, "after", and_compare)
    lesson = Lesson(ROOT, name)
    kernels = [exercise for exercise in lesson.check_of if isinstance(lesson.namespace[exercise], str)]
    for exercise in kernels:
        assert lesson.give(Answer(exercise, lambda code: code, says=None), seed=1).accepted
    assert compared == {*kernels} and compared <= MODELS.keys()


def test_threads_that_return_or_fail_a_check_do_nothing():
    out = np.zeros(8)
    text = """
def f(out, n):
    t = threadIdx.x
    if t >= n:
        return
    if t % 2 == 0:
        out[t] = 1.0
    else:
        out[t] = 2.0 if t > 1 else 3.0
"""
    launched(text, 1, 8, out, 5)
    assert out.tolist() == [1, 3, 1, 2, 1, 0, 0, 0]


def test_each_thread_has_turns_of_its_own():
    out = np.zeros(4)
    launched("def f(out):\n    for c in range(threadIdx.x, 6, 4):\n        out[threadIdx.x] += c", 1, 4, out)
    assert out.tolist() == [0 + 4, 1 + 5, 2, 3]


def test_shuffles_stay_inside_of_a_warp():
    out = np.zeros(64)
    launched("def f(out):\n    out[threadIdx.x] = __shfl_down_sync(ALL, threadIdx.x, 16)", 1, 64, out)
    assert out[:16].tolist() == [*range(16, 32)] and out[16] == 16 and out[32] == 48 and out[63] == 63


def test_a_lane_that_takes_no_part_cannot_be_read():
    text = "def f(out):\n    if threadIdx.x < 16:\n        out[threadIdx.x] = __shfl_xor_sync(ALL, threadIdx.x, 16)"
    with pytest.raises(ValueError, match="takes no part"):
        launched(text, 1, 32, np.zeros(32))


def test_what_is_outside_and_what_is_written_twice_is_noted():
    out = np.zeros(6)
    launch = launched("def f(out):\n    out[threadIdx.x] = blockIdx.x", 2, 8, out)
    assert launch.outside() == [("out", 6, 6, 0, 4)]
    assert sorted(launch.rewritten()) == [("out", k) for k in range(6)]
    assert launch.written("out", 6).all() and not launch.written("x", 6).any()


def test_shared_memory_belongs_to_a_block():
    out = np.zeros(4)
    text = "def f(out):\n    s = shared(2)\n    s[threadIdx.x] = blockIdx.x\n    out[blockIdx.x] = s[0] + s[1]"
    launched(text, 4, 2, out)
    assert out.tolist() == [0, 2, 4, 6]


def test_a_tile_has_two_axes_and_ends_with_each_row():
    out = np.zeros(6)
    text = "def f(out):\n    t = shared(2, 3)\n    t[threadIdx.x % 2, threadIdx.x // 2] = threadIdx.x\n"
    text += "    out[threadIdx.x] = t[threadIdx.x // 3, threadIdx.x % 3]"
    assert launched(text, 1, 6, out).outside() == [] and out.tolist() == [0, 2, 4, 1, 3, 5]
    launch = launched("def f(out):\n    t = shared(2, 3)\n    t[0, threadIdx.x] = 1.0", 1, 6, out)
    assert launch.outside() == [("shared memory", -1, 3, 0, 3)], "the number behind a row is not the next row's"


@pytest.mark.parametrize("runs", [True, False])
def test_a_slice_is_fetched_with_zeros_outside(runs):
    a, out = np.arange(1.0, 16).reshape(5, 3), np.zeros((2, 2, 4))  # (n, K), blocks of (2, 4)
    text = "def f(out, a):\n    t = shared(2, 4)\n    fetch(t, a, 4 * blockIdx.x, 2, 5, 3, RUNS)\n"
    text += "    out[8 * blockIdx.x + threadIdx.x] = t[threadIdx.x // 4, threadIdx.x % 4]"
    launched(text.replace("RUNS", str(runs)), 2, 8, out.reshape(-1), (a if runs else a.T.copy()).reshape(-1))
    assert out[0].tolist() == [[3, 6, 9, 12], [0, 0, 0, 0]] and out[1].tolist() == [[15, 0, 0, 0], [0, 0, 0, 0]]


def test_a_mask_may_differ_between_four_numbers():
    out = np.zeros(6)
    launched(
        "def f(out, n):\n    i = 4 * threadIdx.x\n    if i + slots < n:\n        out[i + slots] = 1.0", 1, 2, out, 6
    )
    assert out.tolist() == [1] * 6


def test_a_loop_without_end_is_stopped():
    with pytest.raises(TooLong):
        launched("def f(out):\n    for c in range(0, 4, 0):\n        out[c] = 1.0", 1, 1, np.zeros(4))


def test_mistakes_of_kernels_are_among_the_mutants():
    model = model_of("warp_softmax")
    found = set(mutants(model.tree, model.more))
    for words in (
        "with __shfl_down_sync in place of __shfl_xor_sync in `v += __shfl_xor_sync(ALL, v, gap)`, in warp_sum",
        "with 8 in place of 16 in `halves(16, 0)`, in warp_max",
        "without the line `total = warp_sum(total)`",
        "with fminf in place of fmaxf in `top = fmaxf(top, x[c])`",
    ):
        assert words in found
    assert not any("arguments" in words for words in found)


@pytest.mark.parametrize(
    "python, words",
    [
        ("without the line `row >= N`, in f", "without the check `if (row >= N)`, in f"),
        ("without the line `total = a // b`", "without the line `total = a / b`"),
        ("in `range(t, C - 1, blockDim.x)`", "in `for (… = t; … < C - 1; … += blockDim.x)`"),
        ("the lines of `for k in range(i, n, 1):`", "the lines of `for (int k = i; k < n; k++)`"),
        ("in `halves(16, 0)`", "in `for (gap = 16; gap > 0; gap /= 2)`"),
        ("without the line `y[4 * i + slots] = u`", "without the line that writes float4s to y"),
        (
            "with `f(v)` alone in place of `g(f(v), v)` in `v = g(f(v), v)`, in warp_sum",
            "with `f(…)` alone in place of `g(f(…), …)`, where the lanes' sums are added up",
        ),
        ("without the factor `a`, in warp_sum", "without the factor `a`, where the lanes' sums are added up"),
        ("in `total += sum4(u)`", "in `total += u.x + u.y + u.z + u.w`"),
        ("in `out[4 * i + slots]`", "in `out[4 * i]`"),
        ("in `out[i] = a if a > 0.0 else b`", "in `out[i] = a > 0.0 ? a : b`"),
        (
            "without the term `slots` in `x[i + slots]`",
            "with the first of each four numbers in all four places in `x[i]`",
        ),
    ],
)
def test_a_model_is_quoted_in_c(python, words):
    assert in_c(python) == words


def test_what_is_only_in_a_model_is_never_named():
    only = re.compile(r"\b(slots|halves|sum4|warp_sum|warp_max)\b|shared\(| else ")
    for name in MODELS:
        model = model_of(name)
        said = [in_c(words) for words in mutants(model.tree, model.more) if can_be_said(words)]
        assert len(said) > 100 and not [words for words in said if only.search(words)], name
    assert not can_be_said("without the line `partial = shared(blockDim.x)`")
    assert can_be_said("without the term `slots`, everywhere")
    assert can_be_said("with the offset added twice in `x += i`") and not can_be_said("without added")


def test_a_message_leaves_out_what_is_only_in_a_model():
    said = (
        "f: out has the values that our solution gives with - in place of + before `slots` in `x[i + slots]`.\nA line."
    )
    assert in_c(said) == "f: out has wrong values.\nA line."
    assert in_c("In `float slots = 1;`, a race.") == "In `float slots = 1;`, a race.", "the learner's own name"
    own = "line 3: expected ';'\n    int b = i // (T * C);"
    assert in_c(own, "{\n    int b = i // (T * C);\n}") == own


def test_functions_that_the_learner_has_keep_their_names():
    words = "Our solution gives the same numbers without the line `top = warp_max(top)`."
    assert in_c(words, "__device__ float warp_max(float v)") == words
    assert "warp_max" not in in_c(words, "no such function")


@pytest.mark.parametrize(
    "name, words",
    [
        (
            "split_heads",
            "`i + 4 < 3 * B * NH * T * hs` in place of `i < 3 * B * NH * T * hs`, which leaves out the last four",
        ),
        ("warp_softmax", "with `row + 1 >= N` in place of `row >= N`, which leaves out the last one"),
        ("warp_softmax", "with the offset added twice in `x += row * C`"),
        ("warp_softmax", "with the loop `range(lane, C, 32)` only where `lane == 0`"),
        ("warp_softmax", "with `top` rather than `total` in `__shfl_xor_sync(ALL, total, gap)`"),
        ("warp_softmax", "with `total` rather than `top` in `__shfl_xor_sync(ALL, top, gap)`"),
        ("fused_layernorm", "with `total` rather than `squares` in `__shfl_xor_sync(ALL, squares, gap)`"),
    ],
)
def test_bounds_offsets_and_shuffles_go_wrong_in_mutants(name, words):
    model = model_of(name)
    assert any(words in found for found in mutants(model.tree, model.more))


@pytest.mark.parametrize("reduction, of_two", [("warp_sum", np.add), ("warp_max", np.fmax)])
def test_shuffles_of_another_variable_are_like_a_loop_of_them(reduction, of_two):
    place = SimpleNamespace(node=ast.parse(f"{reduction}(mine)", mode="eval").body)
    ((words, pasted),) = [(words, new) for _, words, new in slips(place, ["mine", "other"]) if "rather than" in words]
    lanes, out = np.arange(32), np.zeros(32)
    lines = ["mine = threadIdx.x * 2", "other = threadIdx.x * 3", f"out[threadIdx.x] = {ast.unparse(pasted)}"]
    text = "\n    ".join(["def f(out):", *lines])
    launched(text, 1, 32, out)
    expected = 2 * lanes
    for gap in (16, 8, 4, 2, 1):
        expected = of_two(expected, 3 * (lanes ^ gap))
    assert words.startswith("with `other` rather than `mine` in ") and out.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "words, likely",
    [
        ("with `row > N` in place of `row >= N`", True),
        ("with `i <= n` in place of `i < n`", True),
        ("with `row >= C` in place of `row >= N`", False),
        ("with `row < N` in place of `row >= N`", False),
        ("with `i > n` in place of `i < n`", False),
        ("with `i <= n` in place of `i < n` and without the line `x += 1`", False),
        ("without the line `row >= N`", True),
    ],
)
def test_an_access_outside_has_few_likely_causes(words, likely):
    assert _too_far(words) == likely


def problem(kind, where="", text=""):
    return SimpleNamespace(kind=kind, where=where, text=text, thread=(0, 0, 0), block=(0, 0, 0))


def seen(monkeypatch, text, problems=(), rewrites=0):
    """What a kernel in Python with 4 threads leaves in an output of 6, and a function that says who does the same."""
    after = np.full(6, np.nan)
    launched(text, 1, 4, after)
    monkeypatch.setattr("llmc.course.old.kernel_checks.shares.rewrites", lambda report: rewrites)
    report = SimpleNamespace(problems=list(problems), raw=SimpleNamespace(trace=None))
    noted = Seen(("out",), [np.full(6, np.nan)], [after], report)

    def like(other):
        ours = np.full(6, np.nan)
        return noted.like(launched(other, 1, 4, ours), [ours])

    return like


FIRST_4 = "def f(out):\n    out[threadIdx.x] = 1.0"


def test_only_a_launch_that_leaves_the_same_numbers_is_like_it(monkeypatch):
    like = seen(monkeypatch, FIRST_4, [problem("never-written")])
    assert like(FIRST_4)
    assert not like("def f(out):\n    out[threadIdx.x] = 2.0")
    assert not like("def f(out):\n    out[threadIdx.x + 1] = 1.0")
    nan = "def f(out):\n    x = shared(1)\n    out[threadIdx.x] = 1.0\n    out[5] = x[0]"
    assert not like(nan), "what is not a number has been written"
    twice = "def f(out):\n    out[threadIdx.x] = 1.0\n    out[3 - threadIdx.x] = 1.0"
    assert not like(twice), "each number had one writer"
    assert not like("def f(out):\n    out[threadIdx.x] = 1.0\n    out[6 + threadIdx.x] = 1.0"), "nothing was outside"


def test_an_access_outside_must_be_the_same_one(monkeypatch):
    text = "`…` writes out[6], but out has shape (6,).\nThread (2, 0, 0) of block (0, 0, 0) was the first of 2 threads."
    outside = problem("out-of-bounds", text=text)
    outside.thread = (2, 0, 0)
    kernel = "def f(out):\n    out[threadIdx.x + 4] = 1.0"
    like = seen(monkeypatch, kernel, [outside])
    assert like(kernel)
    assert not like("def f(out):\n    out[2 * threadIdx.x + 2] = 1.0")


def test_a_race_in_shared_memory_is_not_searched_for(monkeypatch):
    monkeypatch.setattr(modelled, "first_mutant", lambda *unused: pytest.fail("a model has no barriers"))
    evidence, replay = modelled.KernelEvidence("tree_sum"), SimpleNamespace(arguments=(1, 1), arrays=[])
    for where in ("partial[3]", "shared memory, byte 12"):
        race = problem("race", where, "race in shared memory: kernel f, line 3: `…` writes it.")
        assert evidence.cause(replay, SimpleNamespace(problems=[race])) is None


def test_two_changes_must_both_be_of_our_own_source():
    source = "out[i * n + j] = x[i]"
    assert modelled._of_our_own("with j in place of i in `x[i]` and without the term `j` in `i * n + j`", source)
    assert not modelled._of_our_own("with `a` and with `n` applied to `j` alone in `(i + j) * n`", source)


def test_coordinates_are_exchanged_in_a_mutant():
    model = model_of("leaky_relu")
    words = "with `threadIdx.x` and `blockIdx.x` exchanged in `i = blockIdx.x * blockDim.x + threadIdx.x`"
    assert words in mutants(model.tree, model.more)


def test_a_race_must_be_at_the_same_place(monkeypatch):
    kernel = "def f(out):\n    out[threadIdx.x // 2] = threadIdx.x"
    like = seen(monkeypatch, kernel, [problem("race", where="out[1] (row 1)")], rewrites=2)
    assert like(kernel)
    assert not like("def f(out):\n    out[2 * (threadIdx.x // 2)] = threadIdx.x")


def test_numbers_that_a_mutant_leaves_alone_must_be_left_alone():
    before, after = np.zeros(6), np.ones(6)
    noted = Seen(("out",), [before], [after])
    ours = np.zeros(6)
    assert not noted.like(launched(FIRST_4, 1, 4, ours), [ours]), "the last two were written, too"
    ours = np.zeros(6)
    assert noted.like(launched("def f(out):\n    out[threadIdx.x] = 1.0", 1, 6, ours), [ours])


def test_the_same_threads_must_write_the_same_numbers():
    after = np.full(4, np.nan, np.float32)
    kernel = RawKernel('extern "C" __global__ void f(float* out) { out[threadIdx.x] = 1; }', "f")
    report = inspect(kernel, (2,), (4,), (after,))
    noted = Seen(("out",), [np.full(4, np.nan)], [after], report, exact=True)
    for place, alike in (("threadIdx.x", True), ("3 - threadIdx.x", False)):
        ours = np.full(4, np.nan)
        assert noted.like(launched(f"def f(out):\n    out[{place}] = 1.0", 2, 4, ours), [ours]) == alike


def test_a_cause_of_a_race_must_hold_in_a_smaller_launch(monkeypatch):
    evidence, y, x = modelled.KernelEvidence("axpy"), np.zeros(20, np.float32), np.ones(20, np.float32)  # (n,) each
    begin = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
    body = f"{{ for ({begin} i < n; i += blockDim.x) y[i] += a * x[i]; }}"
    code = f'extern "C" __global__ void axpy(float* y, const float* x, float a, int n) {body}'

    def launch(grid, block, arguments, code=code):
        return inspect(RawKernel(code, "axpy"), grid, block, tuple(arguments))

    sizes, arguments = ((2, 1, 1), (4, 1, 1)), [y, x, np.float32(2), 20]
    replay = evidence.before(None, (*sizes, *arguments), {})
    report = launch(*sizes, arguments)
    evidence.after(replay, None, (*sizes, *arguments), {})
    replay.arrays = arguments
    assert "without the factor `gridDim.x`" in evidence.cause(replay, report, launch)
    other = code.replace("blockDim.x)", "blockDim.x * (gridDim.x > 1 ? 1 : 2))")  # the same with two blocks alone
    assert evidence.cause(replay, report, lambda *sizes: launch(*sizes, code=other)) is None


def test_a_factor_that_is_0_here_does_not_hide_what_a_number_is_made_from():
    def summed(grid, block, out, x, delta):
        out[0] = x[0] * (delta[0] - 1) + x[1]

    x, delta = np.arange(1, 4, dtype=np.float32), np.ones(1, np.float32)
    model = SimpleNamespace(function=lambda end: summed)
    experiment = Experiment(("out", "x", "delta"), (1, 1), [np.full(1, np.nan, np.float32), x, delta], None, model)
    for mine, ours in (((0, 1), (0, 1)), ((1, 2), (1,))):
        assert dependence._with_hidden_by_0(experiment, 1, x + 3, mine, (1,), (0, 0)) == ours


@pytest.mark.parametrize(
    "used, told",
    [
        ([0, 1, 2, 4, 5, 6], "out[0] does not depend on x[3], x[7], …, every fourth one; it should."),
        ([0, 2, 4, 6], "out[0] does not depend on x[1], x[3], …, every second one; it should."),
        ([0, 1, 2, 3, 4, 5, 6], ""),  # the last one alone
    ],
)
def test_every_so_many_inputs_that_are_left_out(used, told):
    def summed(grid, block, out, x):
        out[0] = x.sum()

    def mine(arguments):
        arguments[0][0] = arguments[1][used].sum()
        return SimpleNamespace(problems=[])

    model = SimpleNamespace(function=lambda end: summed, seconds=1.0)
    arguments = [np.full(1, np.nan, np.float32), np.arange(1, 9, dtype=np.float32)]
    experiment = Experiment(("out", "x"), (1, 1), arguments, mine, model)
    reaches = [(1, (used[0], used[1], used[-1]), (0, 4, 7))]
    assert dependence._left_out(experiment, reaches, (0, 0)) == told
