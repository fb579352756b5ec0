"""What a GPU does and this processor would do otherwise: casts that saturate, shifts, bounds of a launch, barriers."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from llmc import cuda
from llmc.cuda.emulator.compiling.casts import saturating

HEAD = """extern "C" __global__ void k(int* out, const float* x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
"""


def report(body, x=(0,), n=0, threads=None):
    x, out = np.array(x, np.float32), np.zeros(64, np.int32)
    kernel = cuda.RawKernel(f"{HEAD}    {body}\n}}", "k")
    return cuda.inspect(kernel, (1,), (threads or x.size,), (out, x, np.int32(n))), out


EDGES = [3e9, -3e9, np.inf, np.nan, -5, 1.75]


@pytest.mark.parametrize(
    "cast, expected",
    [
        ("(int)x[t]", [2**31 - 1, -(2**31), 2**31 - 1, 0, -5, 1]),
        ("static_cast<int>(x[t] * 1)", [2**31 - 1, -(2**31), 2**31 - 1, 0, -5, 1]),
        ("int(x[t] / 2)", [1500000000, -1500000000, 2**31 - 1, 0, -2, 0]),
        ("(unsigned)x[t]", [-1294967296, 0, -1, 0, 0, 1]),
        ("(unsigned char)x[t]", [0, 0, 255, 0, 0, 1]),
        ("(long long)x[t] >> 32", [0, -1, 2**31 - 1, -(2**31), -1, 0]),
    ],
)
def test_a_float_that_does_not_fit_becomes_what_a_gpu_makes_of_it(cast, expected):
    got, out = report(f"out[t] = {cast};", EDGES)
    assert got.ok and out[:6].tolist() == expected
    assert {note.kind for note in got.raw.notes} <= {"saturated"} and "not in the range of" in str(got)


def test_without_a_cast_it_is_a_problem_with_its_line():
    got, _ = report("int i = x[t]; out[t] = i;", EDGES)
    assert got.kinds == {"conversion"} and "line 4: in `int i = x[t]; out[t] = i;`, 3e+09 is not in" in str(got)


@pytest.mark.parametrize(
    "text, changed",
    [
        ("sizeof(int) * n", None),
        ("void f(int) {", None),
        ("(int*)p", None),
        ("(int)sizeof x", None),
        ("int (x);", None),
        ("-(int)-x.y[3](z) + 1", "-llmc_to<int>(-x.y[3](z)) + 1"),
        ("(float)(int)x", "(float)llmc_to<int>(x)"),
        ("(int)(float)p->q[(int)r]", "llmc_to<int>((float)p->q[llmc_to<int>(r)])"),
        ("return (long long)row * C;", "return llmc_to<long long>(row) * C;"),
        ("f(int(x), 2)", "f(llmc_to<int>((x)), 2)"),
        ('"(int)x" // (int)x', None),
    ],
)
def test_casts_are_found_in_the_text(text, changed):
    assert saturating(text) == (changed or text)


@pytest.mark.parametrize(
    "shift, by", [("(1u << (t + 30)) - 1", 32), ("0xffffffffu >> (32 - t)", 32), ("n << (t - 1)", -1)]
)
def test_a_shift_by_all_the_bits_is_named(shift, by):
    got, _ = report(f"out[t] = {shift};", [0, 0, 0])
    assert (
        got.kinds == {"shift"}
        and f"{by} is not a valid distance for a shift of 32 bits" in str(got)
        and "a GPU" in str(got)
    )


def test_a_sum_comes_before_a_shift():
    got, _ = report("out[t] = (unsigned)n << 16 + t * 16;", [0, 0], n=3)
    assert got.kinds == {"shift"} and "Write `(a << 16) + b` if that is meant" in str(got)


def test_launch_bounds_hold():
    code = '#define N 32\nextern "C" __global__ void __launch_bounds__(N * 2, 1) k(float* x) { x[threadIdx.x] = 1; }'
    kernel, x = cuda.RawKernel(code, "k"), np.zeros(128, np.float32)
    kernel((1,), (64,), (x,))
    assert kernel.max_threads_per_block == kernel.attributes["max_threads_per_block"] == 64
    with pytest.raises(cuda.KernelError, match="128 threads, but the kernel's `__launch_bounds__` promises at most 64"):
        kernel((1,), (128,), (x,))


FIRST, LATER = "s[t] = 1;\n", "s[t] = 0;\n__syncthreads();\n"


@pytest.mark.parametrize("before", ["", LATER])
@pytest.mark.parametrize(
    "body, kind",
    [
        ("if (t >= n) return;\ns[t] = 1;\n__syncthreads();\nout[t] = s[t];", None),
        ("if (t < n) {\ns[t] = 1;\n__syncthreads();\nout[t] = s[t];\n}", "barrier-divergence"),
        ("if (t < n) __syncthreads();", "barrier-divergence"),
        ("if (t < n)\n__syncthreads();\nout[t] = 1;", "barrier-divergence"),
    ],
)
def test_one_rule_for_the_first_barrier_and_for_others(before, body, kind):
    got, _ = report(before + body, n=20, threads=40)
    assert got.kinds == ({kind} if kind else set())
    assert [note.kind for note in got.raw.notes] == ([] if kind else ["early-return"])


def test_an_array_of_shared_memory_has_all_its_indices():
    code = f"#define TILE 16\n{HEAD}".replace("s[64]", "s[2 * TILE][TILE + 1]")
    kernel = cuda.RawKernel(f"{code}    s[t][2] = t; out[t] = s[t][3];\n}}", "k")
    got = cuda.inspect(kernel, (1,), (8,), (np.zeros(8, np.int32), np.zeros(1, np.float32), np.int32(0)))
    assert "reads s[0][3], which nothing has written yet" in str(got)


def test_arrays_in_fortrans_order_null_and_copies_of_a_kernel():
    code = 'extern "C" __global__ void k(float* out, const float* x) { out[threadIdx.x] = x ? x[threadIdx.x] : -1; }'
    kernel, out = pickle.loads(pickle.dumps(cuda.RawKernel(code, "k"))), np.zeros(6, np.float32)
    kernel((1,), (6,), (out, np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))))
    assert out.tolist() == [0, 3, 1, 4, 2, 5]
    kernel((1,), (6,), (out, np.intp(0)))
    assert out.tolist() == [-1] * 6 and kernel.num_regs == -1


def test_a_pointer_where_ptx_takes_an_address_in_shared_memory():
    got, _ = report('float v; asm("ld.shared.f32 %0, [%1];" : "=f"(v) : "l"(&s[t])); out[t] = v;')
    assert got.kinds == {"invalid-pointer"} and "(unsigned)__cvta_generic_to_shared(p)" in str(got)


def test_in_front_of_dynamic_shared_memory_lies_nothing():
    code = HEAD.replace("__shared__ float s[64]", "extern __shared__ float s[]") + "s[t - 64 * n] = t; out[t] = 0; }"
    for n in (1, 100, 1000, 4000):
        given = (np.zeros(64, np.int32), np.zeros(1, np.float32), np.int32(n))
        got = cuda.inspect(cuda.RawKernel(code, "k"), (1,), (64,), given, shared_mem=256)
        assert got.kinds == {"out-of-bounds"} and "writes shared memory" in str(got), n


def test_a_text_in_any_language_under_any_locale():
    code = 'extern "C" __global__ void k() { printf("µ\\n"); }  // größer → „gut“'
    told = f"from llmc import cuda; cuda.RawKernel({code!a}, 'k')((1,), (1,), ())"
    own = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", told], env={**os.environ, **own}, capture_output=True, check=True)
    assert done.stdout.decode() == "µ\n"


TAKEN = {
    "halves": """#include <cuda_fp16.h>
        $ { __shared__ __half s[2]; s[t] = 1; __syncthreads(); s[t] = s[t] + s[t]; x[t] = s[t]; }""",
    "the last block": """$ { __shared__ bool last; if (t == 0) last = atomicAdd(n, 1) == gridDim.x - 1; __syncthreads();
        if (last) x[t] = *n; }""",
    "own names": """__device__ int cudaHalf(int gridDim) { return gridDim / 2; }
        $ { int blockDim = cudaHalf(4); x[t] = blockDim; }""",
    "a label": """__device__ int two() { return 2; }
        class C { public: __device__ C() { w = two(); } int w; };
        void host() { cudaFree(0); }
        $ { C c; x[t] = c.w; }""",
    "an instance": """template <int N> __global__ void other(float* y) { *y = N; }
        template __global__ void other<2>(float* y);
        void host() { cudaFree(0); }
        $ { x[t] = 2; }""",
    "room": """__device__ float one(int t) { __shared__ float s[9000]; s[t] = 1; return s[t]; }
        extern "C" __global__ void other(float* x) { *x = one(0); }
        __device__ float two(int t) { __shared__ float s[9000]; s[t] = 2; return s[t]; }
        $ { x[t] = two(t); }""",
    "a method": """__device__ unsigned high(unsigned x) { return __umulhi(x, 2); }
        struct Fast { unsigned c; __device__ unsigned div(unsigned x) { return high(x); } };
        void host() { cudaFree(0); }
        $ { x[t] = 2; }""",
    "a barrier": """#include <cuda/barrier>
        $ { __shared__ cuda::barrier<cuda::thread_scope_block> bar; __shared__ float s;
        if (t == 0) { init(&bar, 2); s = 1; }
        __syncthreads(); float a = s; bar.arrive_and_wait(); if (t == 1) s = a; __syncthreads(); x[t] = a + s; }""",
    "no asserts": "#define NDEBUG\n#include <cassert>\n$ { assert(*n > 100); x[t] = 2; }",
    "a register": """$ { unsigned r; asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(r)); x[t] = r / 16; }""",
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_a_gpu_runs_is_taken(name):
    head = 'extern "C" __global__ void k(float* x, int* n)'
    code = TAKEN[name].replace("$ {", f"{head} {{ int t = threadIdx.x;")
    x, n = np.zeros(2, np.float32), np.zeros(1, np.int32)
    got = cuda.inspect(cuda.RawKernel(code, "k"), (2,), (2,), (x, n), shared_mem=32)
    assert got.ok and x.tolist() == [2, 2], str(got)


@pytest.mark.parametrize(
    "body",
    [
        "if (blockIdx.x == 0) out[t] = 0; __syncthreads(); atomicAdd(&out[t], 1);",  # by the same thread of two blocks
        "int q = atomicAdd(&out[0], 1); if (q >= 4) out[0] = t;",  # written by several after their atomics
        "if (t == 0) atomicAdd(out, 1); __syncthreads(); out[1 + t + 32 * blockIdx.x] = out[0];",
    ],
)
def test_races_beside_atomics(body):
    given = (np.zeros(100, np.int32), np.zeros(1, np.float32), np.int32(0))
    got = cuda.inspect(cuda.RawKernel(f"{HEAD}{body}\n}}", "k"), (2,), (32,), given)
    assert got.kinds & {"race", "missing-syncwarp"}


def test_pointers_that_kernels_keep_lead_to_the_same_arrays_in_the_next_launch():
    a, y, places = np.array([3, 4, 5], np.float32), np.array([10, 20, 30], np.float32), np.zeros(1, np.uint64)
    module = cuda.RawModule(
        code="""struct Kept { float* a; };
        __device__ float* kept;
        extern "C" __global__ void keep(Kept** k, float* a) { kept = a; *k = new Kept; (*k)->a = a; }
        extern "C" __global__ void use(float* y, Kept** k) { y[0] = kept[1]; y[1] = (*k)->a[2]; }"""
    )
    module.get_function("keep")((1,), (1,), (places, a))
    module.get_function("use")((1,), (1,), (y, places))
    assert y.tolist() == [4, 5, 30]
