"""The text of a kernel: names, parameters, the one rewritten declaration, and what is refused."""

import pytest

from llmc.cuda.emulator.compiling.refusals import refuse
from llmc.cuda.emulator.compiling.source import global_names, kernel_names, kernels, parameter_names, prepare
from llmc.cuda.emulator.compiling.text import mask
from llmc.errors import KernelError

TRAPS = r"""
// __global__ void in_a_comment(int a)
/* __global__ void in_another(int a) */
#define MAKE(name) __global__ void name(int a)
const char* text = "__global__ void in_a_string(int a)";
extern "C" __global__ void __launch_bounds__(128, 2) plain(float* __restrict__ x, const float4 *y, int n = f(1, 2));
extern "C" __global__
void plain(float *__restrict__ x, const float4* y, int n) { if (n) { x[0] = 1'000'000; } }
extern "C" { __global__ static void inside(unsigned long long const* const p, float (&tile)[32][33], int) {} }
template <typename T, int N = (3 > 2)> __global__ void templated(T* out, pair<int, T> both) {}
template <> __global__ void templated<float, 1>(float* out, pair<int, float> both) {}
namespace outer::inner { void __global__ hidden(void) {} }
#if WHO_KNOWS
extern "C" __global__ void perhaps() {}
#endif
__device__ void helper(int a) {}
"""


def test_names_of_kernels():
    assert kernel_names(TRAPS) == ("plain", "inside", "outer::inner::hidden", "perhaps")


def test_which_kernels_have_c_linkage_and_surely_exist():
    linked = {each.name for each in kernels(TRAPS) if each.c_linkage}
    assert linked == {"plain", "inside", "perhaps"}
    assert [each.name for each in kernels(TRAPS) if not each.certain] == ["perhaps"]


@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        ("plain", ("x", "y", "n")),
        ("inside", ("p", "argument 1", "argument 2")),
        ("templated<float, 4>", ("out", "both")),
        ("outer::inner::hidden", ()),
        ("nowhere", ()),
    ],
)
def test_names_of_parameters(kernel, names):
    assert parameter_names(TRAPS, kernel) == names


def test_mask_keeps_every_position():
    masked = mask(TRAPS)
    assert len(masked) == len(TRAPS)
    assert [i for i, c in enumerate(masked) if c == "\n"] == [i for i, c in enumerate(TRAPS) if c == "\n"]
    assert "in_a_comment" not in masked and "in_a_string" not in masked and "plain" in masked


def test_mask_of_raw_strings_characters_and_open_comments():
    assert "inner" not in mask('x = R"(inner " )"; y')
    assert mask("""c = '"'; d = '\\''; e""").endswith("e") and '"' not in mask("""c = '"'; d""")
    assert mask("a /* b").strip() == "a"


# ------------------------------------------------------------------------------------------ dynamic shared memory

IN_A_FUNCTION = [
    ("extern __shared__ float s[];", "float* s = (float*)llmc_dynamic_shared();"),
    ("extern __shared__ unsigned char s[];", "unsigned char* s = (unsigned char*)llmc_dynamic_shared();"),
    ("extern __shared__ __align__(16) float4 s[];", "float4* s = (float4*)llmc_dynamic_shared();"),
    ("extern __shared__ __align__(sizeof(T)) T s[];", "T* s = (T*)llmc_dynamic_shared();"),
    ("extern __shared__ alignas(16) char s[];", "char* s = (char*)llmc_dynamic_shared();"),
    ("extern volatile __shared__ float s[];", "volatile float* s = (volatile float*)llmc_dynamic_shared();"),
    ("__shared__ extern int s [ ] ;", "int* s = (int*)llmc_dynamic_shared();"),
    ("extern __shared__ float s[][33];", "float (*s)[33] = (float (*)[33])llmc_dynamic_shared();"),
    ("extern __shared__ pair<int, float> s[];", "pair<int, float>* s = (pair<int, float>*)llmc_dynamic_shared();"),
]


@pytest.mark.parametrize(("declaration", "pointer"), IN_A_FUNCTION, ids=[each for each, _ in IN_A_FUNCTION])
def test_dynamic_shared_memory_in_a_function(declaration, pointer):
    text = prepare("__global__ void k() {\n    int a; " + declaration + " a = 1;\n}\n", ("k",))
    assert f"    int a; {pointer} a = 1;\n" in text


def test_dynamic_shared_memory_at_file_scope_is_a_macro_and_lines_stay():
    code = "int a;\nextern __shared__\n  float s[]; int b;\n__global__ void k() { s[0] = 1; }\n"
    text = prepare(code, ("k",))
    assert "#define s ((float*)llmc_dynamic_shared())" in text
    assert '#line 3 "kernel.cu"\n int b;\n__global__ void k()' in text


def test_dynamic_shared_memory_whose_name_a_parameter_has_too():
    code = "extern __shared__ float s[];\n__device__ void f(volatile float* s, int n) {}\n"
    text = prepare(code, ())
    assert "#define" not in text and "static struct { operator float*() const" in text
    assert "void f(volatile float* s, int n) {}" in text


def test_dynamic_shared_memory_behind_a_macro():
    text = prepare("#define SHARED extern __shared__ float s[]\n__global__ void k() { SHARED; }", ("k",))
    assert "#define SHARED float* s = (float*)llmc_dynamic_shared()\n" in text


def test_static_shared_memory_stays_as_it_is():
    code = "__global__ void k() { __shared__ float s[32]; // extern __shared__ float no[];\n}"
    assert code in prepare(code, ("k",))


def test_lines_of_the_kernel_begin_at_one():
    assert '#line 1 "kernel.cu"\n__global__ void k() {}' in prepare("__global__ void k() {}", ("k",))


def test_entries_follow_in_order():
    assert "LLMC_ENTRY(0, a)\nLLMC_ENTRY(1, b<float, 4>)\n" in prepare("", ("a", "b<float, 4>"))


def test_variables_that_can_be_looked_up():
    code = """
    __constant__ float table[3][4]; __device__ int counter = 0; static __device__ const float half = 0.5f;
    __device__ float function(float x); __device__ struct Pair { int a; } pair;
    namespace far { __device__ int hidden; }
    __device__ void f() { int local; } template <class T> __device__ T many;
    #ifdef A
    __device__ int perhaps;
    #endif
    """
    assert global_names(code) == ("table", "counter", "half")


# ----------------------------------------------------------------------------------------------------- refusals

REFUSED = {
    "asm": ('asm volatile("mov.u32 %0, %laneid;" : "=r"(x));', r"inline PTX \(mov.u32\)"),
    "launch": ("k<<<1, 32>>>();", "dynamic parallelism"),
    "grid-sync": ("auto g = cooperative_groups::this_grid();", "grid-wide"),
    "clusters": ("auto c = cg::this_cluster();", "clusters"),
    "tma": ("cde::cp_async_bulk_wait_group_read<0>();", "TMA"),
    "texture": ("float v = tex2D<float>(t, 1, 2);", "textures"),
    "surface": ("surf2Dwrite(v, s, 0, 0);", "textures and surfaces"),
    "main": ("} int main() {", r"host code \(main\)"),
    "malloc": ("cudaMalloc(&p, 4);", r"host code \(cudaMalloc\)"),
    "managed": ("} __managed__ int x; void f() {", "managed memory"),
}


@pytest.mark.parametrize(("line", "feature"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_names_feature_and_line(line, feature):
    with pytest.raises(KernelError, match=rf"^line 3: the emulator does not run .*{feature}.*\.$") as error:
        refuse(f"// cudaMalloc(asm)\n__global__ void k() {{\n{line}\n}}")
    assert error.value.line == 3 and error.value.report is None


@pytest.mark.parametrize(
    "line",
    [
        "// k<<<1, 2>>>()",
        '"cudaMalloc(main(";',
        'asm volatile("" ::: "memory");',
        "int n = a << 2; b = c >> 3;",
        "domain();",
    ],
)
def test_what_only_looks_like_it_is_not_refused(line):
    refuse("__global__ void k() {\n" + line + "\n}")


def test_the_first_line_is_named():
    with pytest.raises(KernelError, match="^line 1: .*textures"):
        refuse("texture<float> t;\nint main() {}")
