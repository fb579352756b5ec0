"""One CUDA C: what the emulator takes, NVRTC compiles (with what dialect.py adds), and what one refuses, both do."""

import sys
from pathlib import Path

import pytest

from llmc import cuda
from llmc.cuda.dialect import for_gpu, said_by_nvrtc
from llmc.tests.kernels.test_compile import compile_log, nvrtc

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = [folder for path in sys.path for folder in sorted(Path(path, "nvidia").glob("*/include*"))]
FOLDERS += [folder / "cccl" for folder in FOLDERS if (folder / "cccl").is_dir()]
needs_headers = pytest.mark.skipif(
    nvrtc() is None or not any((folder / "cuda_fp16.h").is_file() for folder in FOLDERS),
    reason="needs NVRTC and CUDA's headers (pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl)",
)

VALUES = """INFINITY NAN HUGE_VALF HUGE_VAL FLT_MAX FLT_MIN FLT_EPSILON FLT_DIG DBL_MAX DBL_EPSILON M_PI M_PI_2 M_E
    M_LN2 M_SQRT2 M_SQRT1_2 M_LOG2E CUDART_INF_F CUDART_PI_F CUDART_NAN_F INT_MAX INT_MIN UINT_MAX LONG_MAX LLONG_MAX
    CHAR_BIT SHRT_MAX UCHAR_MAX INT32_MAX UINT8_MAX INT64_MAX SIZE_MAX warpSize""".split()
TYPES = """uint8_t uint16_t uint32_t uint64_t int8_t int16_t int32_t int64_t uintptr_t intptr_t size_t ptrdiff_t
    ssize_t uchar ushort uint ulong clock_t dim3""".split()
HEADERS = (  # compiled together
    """math.h cmath stdint.h cstdint stddef.h cstddef float.h cfloat limits.h climits limits algorithm stdio.h cstdio
    stdlib.h cstdlib string.h cstring assert.h cassert time.h stdbool.h iostream vector string functional numeric random
    memory array utility type_traits initializer_list iomanip fstream stdexcept chrono""",
    """cuda.h cuda_runtime.h cuda_runtime_api.h device_launch_parameters.h device_functions.h math_constants.h
    vector_types.h cuda_fp16.h cuda_bf16.h cuda_fp8.h cooperative_groups.h cuda_pipeline.h cuComplex.h""",
    """cuda/ptx cuda/atomic cuda/std/cstdint cuda/std/limits cuda/std/cmath cuda/std/complex cuda/std/type_traits
    cuda/std/utility cub/block/block_reduce.cuh cub/warp/warp_reduce.cuh""",
    "cub/cub.cuh",
)
STD = """std::max(1,2) std::min(1.f,2.f) std::clamp(3,1,2) std::abs(-1.f) std::sqrt(2.f) std::exp(1.f) std::pow(2.f,2.f)
    std::isnan(x[0]) std::numeric_limits<float>::infinity() std::numeric_limits<int>::max() std::is_same<int,int>::value
    std::is_same_v<int,float> std::move(n) cuda::std::numeric_limits<float>::lowest() cuda::std::max(1,2)""".split()
STATEMENTS = [
    'assert(n > 0); printf("%d\\n", n);',
    "float* p = (float*)malloc(4); memset(p, 0, 4); memcpy(x, p, 4); free(p); p = new float[2]; delete[] p; p = NULL;",
    "auto f = [&](int a) { return a + n; }; x[0] = f(2); if constexpr (sizeof(int) == 4) n = 1; if (n and x) n = 2;",
    "static int count; count++; goto end; end: union { int i; float f; } u; u.f = 1; x[0] = u.i; x[1] = clock64();",
    "constexpr float low = -INFINITY, half = M_PI / 2; x[0] = low + half; x[1] = __builtin_expect(n, 1);",
]
REFUSED = """thread_local~int~a; __int128~a=n; __typeof__(n)~a; float~s[n]; x[0]=__builtin_inff(); x[0]=__FLT_MAX__;
    register~int~a=1; _Float16~h=1; throw~1; std::cout<<n; std::string~s; float4~v;v=v+v; __half~h; x[0]=undefined_name;
    x[0]=__builtin_popcount(n); typeid(n); x[0]=({n++;n;});""".split()


def kernel(body="", head=""):
    return f'{head}\nextern "C" __global__ void k(float* x, int n) {{ {body} }}'


def refused_by_the_emulator(code) -> str:
    try:
        cuda.RawKernel(code, "k", check=False).compile()
    except cuda.KernelError as error:
        return str(error)
    return ""


def refused_by_nvrtc(code) -> str:
    log = compile_log(for_gpu(code), "-arch=compute_90", "-std=c++17", *(f"-I{folder}" for folder in FOLDERS))
    return str(said_by_nvrtc(log)) if "error" in log else ""


@pytest.mark.parametrize(
    "body",
    [
        " ".join(f"x[0] = (float){name};" for name in VALUES),
        " ".join(f"{name} {name}_{k}{{1}};" for k, name in enumerate(TYPES)),
        " ".join(f"(void)({each});" for each in STD) + " int a = 1; std::swap(a, n);",
        *STATEMENTS,
    ],
    ids=lambda body: body.split()[0],
)
@needs_headers
def test_both_take_it(body):
    assert refused_by_the_emulator(kernel(body)) == "" and refused_by_nvrtc(kernel(body)) == ""


@pytest.mark.parametrize("headers", HEADERS, ids=lambda headers: headers.split()[0])
@needs_headers
def test_both_have_the_headers(headers):
    code = kernel(head="".join(f"#include <{header}>\n" for header in headers.split()))
    assert refused_by_the_emulator(code) == "" and refused_by_nvrtc(code) == ""


@pytest.mark.parametrize("body", [each.replace("~", " ") for each in REFUSED])
@needs_headers
def test_both_refuse_it_by_line(body):
    code = kernel(body)
    assert refused_by_the_emulator(code).startswith("line 2: ") and refused_by_nvrtc(code).startswith("line 2: ")


WHOLE_FILE = """#include <iostream>
#include <vector>
__device__ float twice(float x) { return 2 * x; }
extern "C" __global__ void k(float* x, int n) { if (n > 0) x[0] = twice(x[0]); }
static float half(float x) { return x / 2; }
int main() {
    std::vector<float> h(1, half(3));
    k<<<1, 1>>>(h.data(), 1);
    cudaDeviceSynchronize();
    std::cout << h[0] << std::endl;
}
"""


@needs_headers
def test_both_take_the_kernels_of_a_whole_file():
    assert refused_by_the_emulator(WHOLE_FILE) == "" and refused_by_nvrtc(WHOLE_FILE) == ""
    assert for_gpu(WHOLE_FILE).split("\n")[-len(WHOLE_FILE.split("\n")) :][3] == WHOLE_FILE.split("\n")[3]


def test_a_text_that_needs_nothing_stays_as_it_is():
    code = kernel("x[0] = fmaxf(x[1], 0.0f);")
    assert for_gpu(code) is code


def right_answers():
    """(lesson, name, code) of each solution in CUDA C, and of each right answer that is made from it or a text."""
    from llmc.course.authoring import answers

    for name in [name for name in answers.lessons(ROOT) if name[:2] in "12 13 14 15 16 17 19 20"]:
        lesson = answers.Lesson(ROOT, name)
        for exercise in lesson.check_of:
            solution = lesson.namespace.get(exercise)
            if isinstance(solution, str) and "__global__" in solution:
                yield f"{name[:2]}-{exercise}", solution
                for answer in lesson.answers:
                    if answer.exercise == exercise and answer.says is None and not isinstance(answer.made, str):
                        yield f"{name[:2]}-{answer.name}", answer.made(solution)


@pytest.mark.skipif(not (ROOT / "solutions").is_dir(), reason="needs a checkout: the answers lie beside the solutions")
@needs_headers
def test_every_kept_right_answer_compiles_for_a_gpu():
    """Those with mma.h or -arch=sm_90a are for the GPU's own machine: NVRTC's packages lack what they include."""
    told = []
    for name, code in right_answers():
        if "<mma.h>" not in code and (error := refused_by_nvrtc(code)):
            told.append(f"{name}: {error}")
    assert not told, "\n".join(told)
