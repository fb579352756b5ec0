"""The emulator's reports: their words, from launches made by hand and from real ones."""

import re

import numpy as np
import pytest

from llmc.cuda import RawKernel, inspect
from llmc.cuda.emulator.findings.kinds import KINDS
from llmc.cuda.emulator.findings.places import lane_list
from llmc.cuda.emulator.findings.raw import RawProblem
from llmc.cuda.emulator.reporting.report import Report
from llmc.tests.emulator.by_hand import CODE, launch

# ------------------------------------------------------------------------------------------------ words


def problem(kind, **rest):
    return Report(launch(RawProblem(kind, **rest))).problems[0]


def race(line, line2, code=CODE, **rest):
    """The text of a race between threads 3 and 9 of a block."""
    rest = {"space": "shared", "offset": 128, "size": 4, "write": True} | rest
    rest = {"block2": (0, 0, 0), "thread": (3, 0, 0), "thread2": (9, 0, 0)} | rest
    return Report(launch(RawProblem("race", line=line, line2=line2, **rest), code=code)).problems[0].text


def test_out_of_bounds_names_line_index_length_thread_and_count():
    place = {"space": "global", "argument": 0, "offset": 4096, "size": 4}
    found = problem("out-of-bounds", line=8, write=True, block=(4, 0, 0), count=96, **place)
    assert found.text.splitlines()[:2] == [
        "out of bounds: kernel add_up, line 8: `if (t == 0) out[blockIdx.x] = s[1];` writes out[1024], "
        "but out has 1024 elements (0 to 1023).",
        "Thread (0, 0, 0) of block (4, 0, 0) was the first of 96 threads to do it.",
    ]
    assert "`if (i < n)`" in found.text
    assert (found.line, found.where, found.source) == (8, "out[1024]", "if (t == 0) out[blockIdx.x] = s[1];")


@pytest.mark.parametrize(
    ("argument", "offset", "size", "where"),
    [
        (1, 4 * 37, 4, "x[37] (row 1, column 5)"),
        (1, -4, 4, "x[-1]"),
        (0, 4080, 16, "16 bytes of out, elements 1020 to 1023"),
        (0, 6, 4, "4 bytes of out starting at byte 6, inside element 1"),
        (-1, 128, 4, "shared memory, byte 128 (4-byte element 32)"),
        (-1, 32, 16, "shared memory, bytes 32 to 47 (4-byte elements 8 to 11)"),
        (-1, 130, 4, "shared memory, 4 bytes starting at byte 130"),
    ],
)
def test_places(argument, offset, size, where):
    space = "global" if argument >= 0 else "shared"
    assert problem("uninitialised", argument=argument, space=space, offset=offset, size=size).where == where


def test_index_of_a_three_dimensional_array():
    raw = launch(RawProblem("uninitialised", argument=0, space="global", offset=4 * 17, size=4))
    raw.arguments[0].array = np.zeros((2, 3, 5), np.float32)
    assert Report(raw).problems[0].where == "out[17] (index 1, 0, 2)"


def test_a_negative_index_and_a_vector_past_the_end_have_advice_of_their_own():
    assert "`if (i > 0)`" in problem("out-of-bounds", argument=1, space="global", offset=-4, size=4).text
    assert "vector reaches past" in problem("out-of-bounds", argument=1, space="global", offset=4088, size=16).text
    static = problem("out-of-bounds", space="shared", offset=256, size=4).text
    assert "make the array larger, or check" in static and "shared_mem" not in static


def test_only_an_array_of_the_launch_wants_more_bytes_at_the_launch():
    raw = launch(RawProblem("out-of-bounds", space="shared", offset=256, size=4))
    raw.code = CODE.replace("__shared__ float s[64]", "extern __shared__ float s[]")
    text = Report(raw).problems[0].text
    assert "pass enough bytes as `shared_mem` at the launch, or check" in text and "array larger" not in text


@pytest.mark.parametrize(
    ("access", "vectors"),
    [
        ("float4 v = p[4 * i];", True),
        ("float4 v = ((const float4*)x)[4 * i];", True),
        ("float4 v = reinterpret_cast<const float4*>(x)[4 * i];", True),
        ("float4 v = *q;", False),
        ("float4 v = ((const float4*)(x + i))[0];", False),
    ],
)
def test_an_index_that_counts_elements_where_the_pointer_counts_vectors(access, vectors):
    pointers = "    const float4* p = (const float4*)x; const float4* q = p + i;\n"
    head = f"__global__ void f(float* x, int n) {{\n{pointers}    if (i < n) {{\n"
    found = RawProblem("out-of-bounds", line=4, argument=1, space="global", offset=16 * 512, size=16)
    text = Report(launch(found, code=f"{head}        {access}\n    }}\n}}\n")).problems[0].text
    advice = "counts vectors of 4: index 512 means elements 2048 to 2051. Divide by 4 whatever counts single elements"
    assert (advice in text) == vectors and "line 3" in text


def test_race_names_both_lines_both_threads_and_where_the_barrier_belongs():
    text = race(8, 6, write=False, write2=True, count=31)
    assert "kernel add_up, lines 8 and 6: `if (t == 0) out[blockIdx.x] = s[1];` reads shared memory, byte 128" in text
    assert "`if (t < k) s[t] += s[t + k];` writes it" in text
    assert (
        "Thread (3, 0, 0) of block (0, 0, 0) read it, and thread (9, 0, 0) of the same block wrote it; it happened 31"
        in text
    )
    assert "Put `__syncthreads();` between line 6 and line 8" in text


def test_race_in_a_tree_wants_a_barrier_at_the_end_of_the_loop():
    assert "at the end of the body of the loop on line 5, outside the `if` on line 6" in race(6, 6)
    with_barrier = CODE.replace("    }\n    if", "        __syncthreads();\n    }\n    if")
    told = race(6, 6, code=with_barrier)  # as in a scan that works in place, or in a tree in which too many add
    assert "in the same round: either the index by which it reads is wrong, or the `if` on line 6 lets too many" in told
    all_do = with_barrier.replace("if (t < k) s[t]", "s[t]")
    assert "should both take part in the round? Then read into a variable" in race(6, 6, code=all_do)
    for_some = CODE.replace("    }\n    if", "        if (k > 32) __syncthreads();\n    }\n    if")
    told = race(6, 6, code=for_some)
    assert "the barrier of this loop is inside the `if` on line 7, where perhaps not every round passes it" in told
    on_one_line = re.sub(r"\{\s*(if \(t < k\)[^;]*;)\s*\}", r"\1", CODE)
    assert race(5, 5, code=on_one_line).endswith("outside any `if`, so that all threads reach it.")  # none is around it
    commented = CODE.replace("    }\n    if", "        // __syncthreads();\n    }\n    if")
    assert "at the end of the body of the loop on line 5, outside the `if` on line 6" in race(6, 6, code=commented)


def test_race_between_rounds_wants_a_second_barrier():
    code = (
        "void k() {\n  for (int i = 0; i < n; i++) {\n    s[t] = x[i];\n    __syncthreads();\n    v += s[0];\n  }\n}\n"
    )
    text = race(5, 3, code=code)
    assert "line 5 of one round clashes with line 3 of the next" in text and "a second `__syncthreads();`" in text
    assert "between line 3 and line 5" in race(5, 3, code=code.replace("    __syncthreads();\n", "\n"))


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ({"write2": True}, "`if (threadIdx.x == 0)`"),
        ({"space": "global", "argument": 0, "block2": (1, 0, 0)}, "Blocks run in any order"),
        ({"space": "global", "argument": 0}, "Within a block it orders global memory too"),
    ],
    ids=["both write", "between blocks", "global within a block"],
)
def test_advice_on_other_races(rest, words):
    assert words in race(6, 6, **rest)


def test_race_against_an_atomic():
    code = "void k() {\n  s[0] = 0;\n  atomicAdd(&s[0], 1.0f);\n  x = s[0];\n}\n"
    text = race(2, 3, code=code, write2=True, atomic2=True)
    assert "`atomicAdd(&s[0], 1.0f);` updates it" in text and "thread (9, 0, 0) of the same block updated it" in text
    assert "Atomics protect only against other atomics" in text and "between line 2 and line 3" in text
    text = race(4, 3, code=code, write=False, write2=True, atomic2=True)
    assert "Other threads' atomics may still be to come. Put `__syncthreads();` between line 3 and line 4" in text
    text = race(4, 3, code=code, write=False, write2=True, atomic2=True, block2=(1, 0, 0))
    assert "read the result in a later launch" in text
    text = race(2, 3, code=code.replace("s[0] = 0", "i = s[0]"), write=False, write2=True, atomic2=True)
    assert "use the value that the atomic returns" in text


def test_missing_syncwarp_says_where_it_belongs():
    ends = {"space": "shared", "size": 4, "write": True, "block2": (0, 0, 0), "thread2": (1, 0, 0)}
    assert (
        "`__syncwarp();` at the end of the body of the loop"
        in problem("missing-syncwarp", line=6, line2=6, **ends).text
    )
    assert "`__syncwarp();` between line 4 and line 6" in problem("missing-syncwarp", line=6, line2=4, **ends).text


def test_barrier_says_how_many_do_not_come():
    text = problem("barrier-divergence", line=6, absent=16, thread=(20, 0, 0), thread2=(3, 0, 0), block2=(0, 0, 0)).text
    assert "16 of the block's 64 threads never reach `if (t < k) s[t] += s[t + k];`." in text
    assert (
        "Thread (20, 0, 0) of block (0, 0, 0) ended without reaching it, while thread (3, 0, 0) of the same block"
        in text
    )


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ({"detail": "read from an absent lane", "lanes": 1 << 20}, "reads from lane 20, which does not take part"),
        (
            {"detail": "mask without the caller", "lanes": 3},
            "names lanes 0 to 1 (mask 0x00000003) but is called by another",
        ),
        (
            {"detail": "lane ended without it", "lanes": 0x8000FFFF},
            "names lanes 0 to 15 and 31 (mask 0x8000ffff), but one",
        ),
        (
            {"detail": "lanes met in different calls", "lanes": 0xFFFFFFFF, "line2": 8},
            "names lanes 0 to 31 (mask 0xffffffff), but some of them were at another call then, line 8: `",
        ),
    ],
    ids=["absent", "caller", "ended", "met"],
)
def test_lanes(rest, words):
    assert words in problem("inactive-lane", line=6, **rest).text


def test_deadlock_says_where_the_others_wait():
    text = problem("deadlock", line=4, line2=8, lanes=0xFF, thread2=(9, 0, 0), block2=(0, 0, 0)).text
    assert "`s[t] = x[t];` waits for lanes 0 to 7 of a warp, but not all of them come; some wait at line 8" in text


def test_static_index_overflow_and_never_written():
    for detail in ("33 'float4 [32][33]'", "33 'float4[32][33]'"):  # g++, clang++
        assert "uses index 33 in an array of 32 elements (0 to 31)" in problem("bounds", line=4, detail=detail).text
    assert "the sum does not fit in the type `int`" in problem("integer-overflow", line=4, detail="sum of 'int'").text
    text = problem("never-written", argument=0, space="global", offset=4000, count=24).text
    assert "nothing writes out[1000] or 23 other elements of out" in text and "Thread" not in text


def test_lane_lists():
    masks = (1, 0b1011, 0xFFFFFFFF, 0)
    assert [lane_list(mask) for mask in masks] == ["lane 0", "lanes 0 to 1 and 3", "lanes 0 to 31", ""]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_has_a_paragraph_with_advice(kind):
    raw = launch(RawProblem(kind.name, line=6, line2=6, space="shared", size=4))
    first, *rest = Report(raw).problems[0].text.splitlines()
    assert "kernel add_up" in first and first.endswith(".") and len(rest[-1]) > 60
    assert not any(word in "\n".join([first, *rest]) for word in ("None", "BETWEEN", "{", "  "))


def test_instructions_of_one_line_are_one_problem_and_both_orders_of_a_race_too():
    ends = {"space": "shared", "block2": (0, 0, 0), "thread2": (1, 0, 0), "size": 4}
    raw = launch(
        RawProblem("race", line=4, line2=6, write=True, count=3, **ends),
        RawProblem("race", line=6, line2=4, write2=True, count=4, **ends),
        RawProblem("race", line=6, line2=8, write=True, **ends),
    )
    report = Report(raw)
    assert [found.count for found in report.problems] == [7, 1] and report.kinds == {"race"} and not report.ok
    assert str(report).startswith(
        "2 problems in kernel add_up, grid (4, 1, 1), block (64, 1, 1).\n\nrace in shared memory"
    )
    assert repr(report) == "<Report of add_up: 2 race>"


def test_a_clean_launch_and_its_notes():
    raw = launch(notes=[RawProblem("early-return", line=6, absent=12)])
    report = Report(raw)
    assert report.ok and report.problems == [] and report.kinds == set()
    assert str(report).startswith("No problems in kernel add_up") and "Note: early return" in str(report)
    assert "12 of the block's 64 threads returned before the barrier" in str(report)


def test_html_is_escaped():
    html = Report(launch(RawProblem("runaway", line=5)))._repr_html_()
    assert "k &gt; 0" in html and "color" not in html


# ------------------------------------------------------------------------------------------- end to end

STRIDED = """extern "C" __global__ void shift(float* out, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[8 * i % n];
}
"""


def test_a_real_launch_from_source_to_picture():
    kernel, x = RawKernel(STRIDED, "shift"), np.arange(256, dtype=np.float32)
    report = inspect(kernel, (1,), (32,), (np.zeros(32, np.float32), x, np.int32(256)))
    assert report.ok, str(report)
    assert [(use.line, use.access, use.sectors, use.ideal) for use in report.lines] == [
        (3, "reads x", 32, 4),
        (3, "writes out", 4, 4),
    ]
    titles = [axes.get_title(loc="left") for axes in report.plot().get_axes()]
    assert titles[0].startswith("line 3 reads x: 32 sectors") and titles[1].startswith("line 3 writes out: 4 sectors")
    report = inspect(kernel, (2,), (32,), (np.zeros(40, np.float32), x, np.int32(256)))
    found = report.problems[0]
    assert (found.kind, found.line, found.where, found.count) == ("out-of-bounds", 3, "out[40]", 24)
    assert (found.block, found.thread) == ((1, 0, 0), (8, 0, 0))


def test_a_launch_counts_barriers_by_blocks_and_shuffles_by_warps():
    code = r"""
extern "C" __global__ void sums(float* out, const float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int gap = 16; gap > 0; gap /= 2) v += __shfl_xor_sync(0xffffffffu, v, gap);
    __syncthreads();
    if (threadIdx.x < 8) v = __shfl_sync(0xffu, v, 0);  // a part of one warp
    out[i] = v;
}"""
    x, out = np.ones(192, np.float32), np.zeros(192, np.float32)  # (192,) both
    report = inspect(RawKernel(code, "sums"), (3,), (64,), (out, x))
    assert report.ok and (out == 32).all()
    assert (report.barriers, report.shuffles) == (3, 3 * 2 * 5 + 3)


@pytest.mark.parametrize(
    ("T", "read"),
    [
        ("float", "s[t]"),
        ("double", "s[t]"),
        ("float4", "s[t].w"),
        ("float4", "(v = s[t]).w"),
        ("double4", "(v = s[t]).w"),
    ],
)
def test_an_access_of_several_words_counts_once(T, read):
    code = f"""extern "C" __global__ void f(float* out, const {T}* x) {{
    __shared__ {T} s[24];
    int t = threadIdx.x;
    {T} v = x[t];
    if (t < 12) s[t] = v;
    __syncthreads();
    if (t > 1) out[t] = (float){read};
}}"""
    x, out = np.ones(24 * 4, "f8" if "double" in T else "f4"), np.zeros(24, np.float32)
    (found,) = inspect(RawKernel(code, "f"), (1,), (24,), (out, x)).problems
    assert (found.kind, found.count) == ("uninitialised", 12)
