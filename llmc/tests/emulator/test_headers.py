"""CUDA's words on the emulator: headers, types, qualifiers, memory, atomics, and the part of std:: that exists."""

import math
import re
import subprocess

import numpy as np
import pytest

from llmc.cuda.emulator.compiling import toolchain
from llmc.cuda.emulator.compiling.compiler import COMMON, NO_HOST_HEADERS, SEEN
from llmc.cuda.emulator.kernels import RawKernel
from llmc.cuda.emulator.modules import RawModule
from llmc.errors import KernelError
from llmc.tests.emulator.words import each, run

CHECKED = pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])


# ------------------------------------------------------------------------------------------------- the headers


HEADERS = """cuda_fp16.h cuda_bf16.h mma.h cooperative_groups.h cooperative_groups/reduce.h cooperative_groups/scan.h
cooperative_groups/memcpy_async.h cuda/barrier cuda/atomic cuda_runtime.h cmath math.h stdio.h cstdio stdint.h cstdint
assert.h cassert float.h cfloat limits limits.h climits type_traits cuda/std/type_traits cuda/std/limits
algorithm cuda_pipeline.h cuda/pipeline cuda_fp8.h curand_kernel.h cub/cub.cuh cuda/functional""".split()


@pytest.mark.parametrize("build", [(), ("-O1", *SEEN)], ids=["plain", "checked"])
def test_all_headers_compile_without_a_warning(tmp_path, build):
    source = tmp_path / "all.cpp"
    source.write_text(
        '#include "llmc_cuda.h"\n#include "llmc_heap.h"\n#include "llmc_ptx.h"\n'
        + "".join(f"#include <{header}>\n" for header in HEADERS)
    )
    flags = [flag for flag in (*COMMON, *NO_HOST_HEADERS) if flag != "-w"]
    flags += [*build, "-std=c++17", "-Wall", "-Wextra", "-c", str(source), "-o", str(tmp_path / "all.o")]
    command = [*toolchain.find().command, *flags]
    said = subprocess.run(command, capture_output=True, text=True).stderr
    assert not re.findall(r".*(?:warning|error):.*", said)


def test_names_of_limits_and_numbers():
    names = {
        "FLT_MAX": np.finfo("f4").max,
        "FLT_EPSILON": 2.0**-23,
        "DBL_MAX": np.finfo("f8").max,
        "INT_MAX": 2**31 - 1,
    }
    names |= {
        "INT_MIN": -(2**31),
        "UINT_MAX": 2**32 - 1,
        "-INFINITY": -math.inf,
        "CUDART_INF_F": math.inf,
        "NAN": math.nan,
    }
    names |= {"M_PI": math.pi, "std::numeric_limits<float>::lowest()": -np.finfo("f4").max, "INT64_MAX": 2.0**63}
    names |= {"std::numeric_limits<int>::min()": -(2**31), "std::numeric_limits<unsigned char>::max()": 255}
    got = each(names, 1, dtype=np.float64)[:, 0]
    np.testing.assert_array_equal(got, np.array([float(value) for value in names.values()]))


SIZES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "float": 4}
SIZES |= {"long": 8, "ulong": 8, "longlong": 8, "ulonglong": 8, "double": 8}


def test_vector_types_are_as_large_and_as_aligned_as_on_a_gpu():
    types = [f"{name}{n}" for name in SIZES for n in (1, 2, 3, 4)]
    got = each([f"sizeof({t}) * 100 + alignof({t})" for t in types], 1, dtype=np.int32)[:, 0]
    expected = [n * size * 100 + min(16, size * (1 if n == 3 else n)) for size in SIZES.values() for n in (1, 2, 3, 4)]
    np.testing.assert_array_equal(got, expected)


@CHECKED
def test_vector_types_are_made_copied_and_reinterpreted(check):
    x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    body = """  float4 v = reinterpret_cast<const float4*>(x)[i];
    reinterpret_cast<float4*>(out)[i] = make_float4(v.w, v.z + 1, v.y, float2{v.x, 0}.x);"""
    run(body, check, x=x, out=out)
    quads = x.reshape(32, 4)[:, ::-1] + np.array([0, 1, 0, 0])
    np.testing.assert_array_equal(out.reshape(32, 4), quads)


def test_qualifiers_in_every_order():
    head = """
    template <int N> struct __align__(16) Tile { float x[N]; };
    __constant__ float weights[4] = {1, 2, 3, 4};
    __device__ int calls;
    static __device__ __forceinline__ float a(float x) { return x + 1; }
    __device__ inline __forceinline__ float b(float x) { return x * 2; }
    __host__ __device__ __noinline__ float c(const float* __restrict__ x) { return *x; }
    template <typename T> __device__ T d(T x) {
        static __shared__ alignas(16) T kept[32];
        kept[threadIdx.x] = x;
        return kept[threadIdx.x];
    }
    __global__ void __launch_bounds__(32, 4) other(int n) {}
    __device__ static inline float e() {
        auto twice = [] __device__ (float x) { return 2 * x; };
        return twice(weights[3]);
    }
    """
    out = each(
        ["a(1)", "b(2)", "c(weights + 1)", "d(3.5f)", "d(7)", "e()", "alignof(Tile<3>)", "calls", "warpSize"],
        4,
        head=head,
    )
    np.testing.assert_array_equal(out[:, 2], [2, 4, 2, 3.5, 7, 8, 16, 0, 32])


# --------------------------------------------------------------------------------------------------- memory, atomics


@CHECKED
def test_loads_and_stores_with_hints(check):
    x, out = np.arange(32, dtype=np.float32), np.zeros(128, np.float32)
    run("""  out[i] = __ldg(x + i); __stcs(out + 32 + i, __ldcs(&x[i])); __stcg(&out[64 + i], __ldcg(x + i) + 1);
        float4 v = __ldg(reinterpret_cast<const float4*>(x) + i / 4); __stwt(out + 96 + i, i % 2 ? v.y : v.x);
        __threadfence(); __threadfence_block(); __threadfence_system();""", check, x=x, out=out)  # fmt: skip
    np.testing.assert_array_equal(out, np.concatenate([x, x, x + 1, np.arange(32) // 4 * 4 + np.arange(32) % 2]))


ATOMICS = {  # call: what the place holds after 64 threads, i = 0 ... 63, from 100
    "atomicAdd(p, i)": lambda v, i: v + i,
    "atomicSub(p, 1)": lambda v, i: v - 1,
    "atomicMin(p, i + 7)": lambda v, i: min(v, i + 7),
    "atomicMax(p, 2 * i)": lambda v, i: max(v, 2 * i),
    "atomicAnd(p, ~(1 << i % 8))": lambda v, i: v & ~(1 << i % 8),
    "atomicOr(p, 1 << i % 16)": lambda v, i: v | 1 << i % 16,
    "atomicXor(p, i)": lambda v, i: v ^ i,
    "atomicInc(p, 20)": lambda v, i: 0 if v >= 20 else v + 1,
    "atomicDec(p, 20)": lambda v, i: 20 if v == 0 or v > 20 else v - 1,
    "atomicCAS(p, 100, 5)": lambda v, i: 5 if v == 100 else v,
    "atomicExch(p, 9)": lambda v, i: 9,
}
HAS = {
    "u4": ATOMICS,
    "i4": [c for c in ATOMICS if "Inc" not in c and "Dec" not in c],
    "f4": ["atomicAdd(p, i)", "atomicExch(p, 9)"],
}
HAS |= {
    "u8": [c for c in HAS["i4"] if "Sub" not in c],
    "i8": ["atomicMin(p, i + 7)", "atomicMax(p, 2 * i)"],
    "f8": ["atomicAdd(p, i)"],
}


@CHECKED
@pytest.mark.parametrize("dtype, scope", [*((dtype, "") for dtype in HAS), ("u4", "_block"), ("u4", "_system")])
def test_atomics(dtype, scope, check):
    calls = [call.replace("(", scope + "(", 1) for call in HAS[dtype]]
    x = np.full(len(calls), 100, dtype)
    run("\n".join(f"  {{ auto p = x + {k}; {call}; }}" for k, call in enumerate(calls)), check, 64, x=x)
    for got, call in zip(x, HAS[dtype]):
        value = 100
        for i in range(64):
            value = ATOMICS[call](value, i)
        assert got == value, call


@CHECKED
def test_atomics_return_what_was_there_and_work_in_shared_memory(check):
    out, total = np.zeros(256, np.int32), np.zeros(1, np.float32)
    run("""  __shared__ int next; __shared__ float sum; __shared__ double d;
        if (i == 0) next = 0, sum = 0, d = 0;
        __syncthreads();
        out[i] = atomicAdd(&next, 1); atomicAdd(&sum, 0.5f); atomicAdd(&d, 1.5);
        __syncthreads();
        if (i == 0) total[0] = sum + (float)d;""", check, 256, out=out, total=total)  # fmt: skip
    assert sorted(out) == list(range(256)) and total[0] == 256 * 2


@CHECKED
def test_a_spin_lock_lets_the_others_run(check):
    x, lock = np.zeros(1, np.int32), np.zeros(1, np.int32)
    body = """  while (atomicCAS(lock, 0, 1) != 0);
    __threadfence(); x[0] = x[0] + 1; __threadfence(); atomicExch(lock, 0);"""
    run(body, check, 64, blocks=4, x=x, lock=lock)
    assert x[0] == 256
    run(body.replace("CAS(lock, 0, 1) != 0", "Exch(lock, 1) == 1"), check, 64, x=x, lock=lock)
    assert x[0] == 320


def test_atomic_references_and_variables():
    x, out = np.full(8, 100, np.int32), np.zeros(64, np.int32)
    run("""  __shared__ cuda::atomic<int, cuda::thread_scope_block> next; __shared__ float total;
        if (i == 0) { next = 5; total = 0; }
        __syncthreads();
        cuda::atomic_ref<int, cuda::thread_scope_device> a(x[0]), b(x[1]), c(x[2]), d(x[3]);
        a.fetch_add(i, cuda::memory_order_relaxed); ++b; c.fetch_max(3 * i);
        int expected = 100; d.compare_exchange_strong(expected, i);
        out[i] = next++;
        cuda::atomic_ref<float, cuda::thread_scope_block>(total) += 0.5f;
        cuda::std::atomic_ref<int>(x[5]).fetch_sub(1, cuda::std::memory_order_acq_rel);
        __syncthreads();
        if (i == 0) x[4] = next.load(), x[6] = total;""",
        threads=64, head="#include <cuda/std/atomic>", x=x, out=out)  # fmt: skip
    assert sorted(out) == list(range(5, 69)) and x.tolist()[:3] == [2116, 164, 189] and x[3] < 64
    assert x[4] == 69 and x[5] == 36 and x[6] == 32


# ---------------------------------------------------------------------------------------------- the heap of the device

LIST = """struct Node { int value; Node* next; };
__device__ Node* top;
"""


@CHECKED
def test_what_a_thread_allocates_others_may_use_and_free(check):
    out = np.zeros(64, np.int32)
    run("""  __shared__ int* rows[64];
        rows[i] = (int*)malloc(4 * (i + 1)); int* made = new int[3]; made[2] = i;
        for (int k = 0; k <= i; k++) rows[i][k] = k + made[2];
        delete[] made;
        __syncthreads();
        int* other = rows[63 - i];
        for (int k = 0; k < 64 - i; k++) out[i] += other[k];
        __syncthreads();
        free(rows[i]);""", check, 64, out=out)  # fmt: skip
    n = 64 - np.arange(64)
    np.testing.assert_array_equal(out, n * (n - 1) // 2 + n * (n - 1))


@CHECKED
def test_the_heap_outlives_a_launch_and_ends(check):
    kernel = (
        LIST
        + """extern "C" __global__ void push(int value) { top = new Node{value, top}; }
        extern "C" __global__ void pop(int* out) { *out = top->value; Node* gone = top; top = top->next; delete gone; }
        extern "C" __global__ void all(int* out) { void* p = malloc(16 << 20); *out = p == nullptr; free(p); }"""
    )
    module, out = RawModule(code=kernel, check=check), np.zeros(1, np.int32)
    for value in (7, 8):
        module.get_function("push")((1,), (1,), (value,))
    for value in (8, 7):
        module.get_function("pop")((1,), (1,), (out,))
        assert out[0] == value
    module.get_function("all")((1,), (1,), (out,))
    assert out[0] == 1  # there is no such piece of 8 MB


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("int* p = (int*)malloc(40); p[10] = 1;", "invalid pointer"),
        ("int* p = (int*)malloc(40); free(p); p[0] = 1;", "invalid pointer"),
        ("int* p = (int*)malloc(40); out[0] = p[3];", "uninitialised"),
        ("int* p = new int; free(p); free(p);", "free of what malloc did not return, or of what is free already"),
    ],
    ids=["past the end", "after free", "unwritten", "twice"],
)
def test_wrong_uses_of_the_heap(body, said):
    with pytest.raises(KernelError, match=said):
        run("  " + body, threads=1, out=np.zeros(1, np.int32))


@CHECKED
def test_an_object_with_virtual_functions_made_in_shared_memory(check):
    head = """struct Shape { int n; __device__ Shape(int n) : n(n) {} __device__ virtual int area() { return 0; } };
    struct Square : Shape { __device__ Square(int n) : Shape(n) {} __device__ int area() override { return n * n; } };
    """
    out = np.zeros(64, np.int32)
    run("""  __shared__ __align__(16) char memory[64]; __shared__ Shape* shape;
        if (i == 0) shape = new (memory) Square(7);
        __syncthreads();
        out[i] = shape->area() + i;""", check, 64, head, out=out)  # fmt: skip
    np.testing.assert_array_equal(out, 49 + np.arange(64))


def test_the_nth_bit():
    calls = {
        "__fns(0xf0u, 0, 1)": 4,
        "__fns(0xf0u, 5, 2)": 6,
        "__fns(0xf0u, 5, -2)": 4,
        "__fns(0xf0u, 0, 5)": 2**32 - 1,
    }
    calls |= {"__fns(0xf0u, 4, 0)": 4, "__fns(0xf0u, 3, 0)": 2**32 - 1, "__fns(1u << 31, 31, 1)": 31}
    assert each(calls, 1, dtype=np.uint32)[:, 0].tolist() == list(calls.values())


@CHECKED
def test_parameters_may_have_the_names_of_types(check):
    code = """extern "C" __global__ void words(int* out, int dim3, int uint3, int float4) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; out[i] = i + dim3 + uint3 + float4 + gridDim.x; }"""
    out = np.zeros(64, np.int32)
    RawKernel(code, "words", check=check)((2,), (32,), (out, 100, 200, 300))
    np.testing.assert_array_equal(out, np.arange(64) + 602)


# ------------------------------------------------------------------------------------------------------------- std


def test_the_little_of_std():
    head = """
    template <typename T, std::enable_if_t<std::is_integral_v<T>, int> = 0> __device__ int kind(T) { return 1; }
    template <typename T> __device__ std::enable_if_t<std::is_floating_point<T>::value, int> kind(T) { return 2; }
    template <int... I> __device__ int total(std::integer_sequence<int, I...>) { return (I + ...); }
    __device__ int swapped() { int a = 1, b = 2; std::swap(a, b); return 10 * a + b; }
    __device__ int list() {
        cuda::std::array<int, 2> a = {4, 5};
        int sum = a[0] + a[1];
        for (int x : {1, 2, 3}) sum += x;
        return sum;
    }
    """
    expected = {
        **{
            "kind(1)": 1,
            "kind(1.0f)": 2,
            "total(std::make_integer_sequence<int, 5>())": 10,
            "swapped()": 21,
            "list()": 15,
        },
        **{
            "std::is_same_v<std::decay_t<const int&>, int>": 1,
            "std::is_same_v<std::common_type<int, const float&>::type, float>": 1,
            "cuda::std::is_same<float, double>::value": 0,
        },
        **{"sizeof(std::conditional_t<true, char, int>)": 1, "cuda::std::numeric_limits<int>::max()": 2**31 - 1},
        **{"sizeof(std::aligned_storage_t<12, 8>)": 16, "alignof(std::aligned_storage<8, 8>::type)": 8},
        **{"std::is_pointer_v<int*>": 1, "std::is_unsigned_v<unsigned>": 1, "sizeof(std::make_unsigned_t<short>)": 2},
        **{
            "cuda::std::max(3, 4)": 4,
            "std::clamp(7, 1, 5)": 5,
            "std::bit_cast<int>(1.0f)": 0x3F800000,
            "std::plus<>()(1, 2)": 3,
        },
    }
    assert each(expected, 1, dtype=np.int64, head=head)[:, 0].tolist() == list(expected.values())


# ------------------------------------------------------------------------------------------------ what a kernel says


def test_printf_and_clocks(capsys):
    run("""  long long before = clock64(); __nanosleep(10);
        if (i == 3) printf("thread %d of %s, %.2f\\n", i, "a block", 1.5);
        if (clock64() < before) printf("backwards");""")
    assert capsys.readouterr().out == "thread 3 of a block, 1.50\n"


@pytest.mark.parametrize("stop", ["assert(i != 5);", "if (i == 5) __trap();"], ids=["assert", "trap"])
def test_a_kernel_can_stop_itself(stop):
    with pytest.raises(KernelError, match="line 4"):
        run(stop)


def test_bytes_are_copied_and_set_within_arrays_only():
    x, out = np.arange(8, dtype=np.int32), np.ones(8, np.int32)
    run("  memcpy(out, x, 16); std::memset(out + 4, 0, 12); memmove(out + 1, out, 8);", threads=1, x=x, out=out)
    assert out.tolist() == [0, 0, 1, 3, 0, 0, 0, 1]
    for copy in ("memcpy(out, x, 36)", "memmove(out, x + 7, 5)"):
        with pytest.raises(KernelError, match=r"out of bounds.*x\[8\]"):
            run(f"  {copy};", threads=1, x=x, out=out)
    with pytest.raises(KernelError, match=r"out of bounds.*out\[8\]"):
        run("  memset(out + 1, 0, 32);", threads=1, out=out)
