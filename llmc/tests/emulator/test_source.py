"""The text of a kernel: names, parameters, the one rewritten declaration, and what is refused."""

import numpy as np
import pytest

from llmc.cuda.emulator.compiling import compiler
from llmc.cuda.emulator.compiling.rules import check_rules
from llmc.cuda.emulator.compiling.source import global_names, kernel_names, kernels, parameter_names, prepare
from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.compiling.units import units
from llmc.cuda.emulator.modules import RawModule
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


def test_asking_for_instances_of_a_template_makes_no_more_kernels():
    code = """template <class T, int N> __global__ void fill(T* x, int n) { x[0] = N; }
        template __global__ void fill<float, 3>(float* x, int n);
        template <> __global__ void fill<int, 4>(int* special, int n) { *special = n; }
        __device__ float f(float* x) { return float(x[0]); }"""
    assert [(each.name, each.template) for each in kernels(code)] == [("fill", True)] * 2
    check_rules(code, ("fill<float, 3>",))


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


def test_dynamic_shared_memory_that_is_cast_to_a_reference():
    code = (
        'struct P { float a[32]; int b; };\nextern "C" __global__ void k(float* x) {\n  extern __shared__ char s[];\n'
    )
    code += "  P& p = reinterpret_cast<P&>(s); p.a[threadIdx.x] = 2;\n"
    code += "  x[threadIdx.x] = p.a[threadIdx.x] + (s == (char*)&p);\n}"
    x = np.zeros(32, np.float32)
    for check in (True, False):
        RawModule(code=code, check=check).get_function("k")((1,), (32,), (x,), shared_mem=132)
        assert (x == 3).all()


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
    __constant__ float c, d[2] = {1, 2}, *e, g = f(1, 2); __device__ Pair<int, 3> p, q;
    __device__ void f() { int local; } template <class T> __device__ T many;
    #ifdef A
    __device__ int perhaps;
    #endif
    """
    assert global_names(code) == ("table", "counter", "half", *"cdegpq")


# ----------------------------------------------------------------------------------------------------- refusals

REFUSED = {
    "asm": ('int x; asm volatile("isspacep.global %0, %1;" : "=r"(x));', r"the PTX instruction `isspacep\.global`"),
    "launch": ("k<<<1, 32>>>();", "dynamic parallelism"),
    "grids": ("auto g = cooperative_groups::this_multi_grid();", "several GPUs"),
    "clusters": ("auto c = cg::this_cluster();", "clusters"),
    "blackwell": ("tcgen05_fence();", "Blackwell"),
    "maps": ("cuTensorMapEncodeTiled(m);", r"host code \(cuTensorMapEncodeTiled\)"),
    "texture": ("float v = tex2D<float>(t, 1, 2);", "textures"),
    "surface": ("surf2Dwrite(v, s, 0, 0);", "textures and surfaces"),
    "malloc": ("cudaMalloc(&p, 4);", r"host code \(cudaMalloc\)"),
    "cub": ("cub::DeviceReduce::Sum(a, b, c, d, e);", r"host code \(cub::DeviceReduce\)"),
    "throw": ("throw 1;", r"exceptions \(throw\), which CUDA does not have"),
}


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """Compile a text with these kernels, in an empty cache."""
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path))
    compiler._compile.cache_clear()
    yield lambda code, *names: compiler.compile(code, names or ("k",), (), False)
    compiler._compile.cache_clear()


@pytest.mark.parametrize(("line", "feature"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_names_feature_and_line(compiled, line, feature):
    with pytest.raises(KernelError, match=rf"^line 3: the emulator does not run .*{feature}.*\.$") as error:
        compiled(f"// cudaMalloc(asm)\n__global__ void k() {{\n{line}\n}}")
    assert error.value.line == 3 and error.value.report is None


UNUSED = {
    "comment": "// k<<<1, 2>>>()",
    "string": '__device__ const char* text() { return "cudaMalloc(main("; }',
    "barrier for the compiler": '__device__ void f() { asm volatile("" ::: "memory"); }',
    "shifts": "__device__ int f(int a, int b, int c) { int n = a << 2; return b >> n; }",
    "function": 'struct P { float a; };\n__device__ P f(float x) { asm("ex2.f32 %0, %1;" : "=f"(x)); return {x}; }',
    "its caller": "__device__ int f(int x) {\n  return tex2D(x);\n}\ntemplate <int n> int g() { return f(n); }",
    "method": 'struct S { int x; __device__ void f() { asm("exit;"); } int g() { return x; } };\n__device__ S s;',
    "macro": '#define BARRIER(n) \\\n  asm volatile("bar.sync %0;" :: "r"(n))',
    "false branch": "#if __CUDA_ARCH__ >= 900\n__device__ void f() { this_cluster(); }\n#endif",
    "other kernel": '__global__ void other(float* x) {\n asm("exit;"); }',
    "attributes": "__global__ void __cluster_dims__(2, 1, 1) other(float* x) {}",
    "texture": "texture<float, 2> image;\n__global__ void other(float* x) { *x = tex2D(image, 0, 0); }",
    "host": "void run(float* x) { k<<<1, 32>>>(x); cudaFree(x); std::vector<float> v; }\nint main() { run(0); }",
    "host's headers": "".join(
        f"#include <{name}>\n"
        for name in "chrono ctime fstream iomanip iostream iterator map memory random set sstream "
        "stdexcept string sys/time.h thread time.h unistd.h unordered_map vector".split()
    ),
    "throw": "template <class T> T check(T x) { if (!x) throw x; return x; }",
    "namesake": "void k(int) { k<<<1, 2>>>(0); }\nstruct R { int operator()(); };\nint R::operator()() { cudaFree(); }",
    "name of a library": "__device__ int f(int x) { return std::max(x, 1); }\nvoid max(int n) { k<<<1, n>>>(0); }",
    "managed": "__device__ __managed__ int counter;",
}


@pytest.mark.parametrize("text", UNUSED.values(), ids=UNUSED)
def test_what_the_kernel_does_not_use_does_not_matter(compiled, text):
    compiled(text + "\n__global__ void k(float* x) { x[0] = 1; }")


def test_a_class_of_the_text_with_a_name_of_cub_is_not_refused(compiled):
    compiled("""struct DeviceScan { static __device__ float one(); };
        __device__ float DeviceScan::one() { return 1; }
        __global__ void k(float* x) { x[0] = DeviceScan::one(); }""")


def test_a_use_by_way_of_others_names_the_line_of_the_feature(compiled):
    code = '#define EXIT asm("exit;")\nstruct S {\n  __device__ S() {\n    EXIT; }\n};\n'
    code += "__device__ int f() { S s; return 1; }\n"
    code += "template <class T> __global__ void k(T* x) { x[0] = f(); }\n__global__ void other(float* x) {}"
    with pytest.raises(KernelError, match=r"^line 4: .*PTX instruction `exit`"):
        compiled(code, "k<float>")
    compiled(code, "other")


def test_a_refused_kernel_leaves_the_rest_of_its_module_alone(compiled):
    code = """extern "C" __global__ void a(float* x) { x[0] = 7; }
    extern "C" __global__ void b(float* x) {
        asm("exit;"); }
"""
    module, x = RawModule(code=code), np.zeros(1, np.float32)
    module.get_function("a")((1,), (1,), (x,))
    assert x[0] == 7
    for check in (True, False):
        with pytest.raises(KernelError, match=r"^line 3: .*PTX instruction `exit`") as error:
            RawModule(code=code, check=check).get_function("b")((1,), (1,), (x,))
        assert error.value.line == 3


def test_lines_stay_right_where_functions_were_left_out(compiled):
    code = "__device__ int f() {\n  return tex2D(1);\n}\n#define TWO \\\n  2\n"
    code += "__global__ void k(float* x) {\n  x[0] = TWO + y;\n}"
    with pytest.raises(KernelError, match=r"^line 7: 'y' was not declared|^line 7: use of undeclared") as error:
        compiled(code)
    assert error.value.line == 7


def test_the_first_line_is_named(compiled):
    with pytest.raises(KernelError, match="^line 2: .*textures"):
        compiled('__global__ void k() {\ntex1D(t, 1);\nasm("exit;"); }')


def test_units_of_a_text():
    code = "int a[2] = {1, 2}; namespace n { struct S { int x; S(int y) { z(); } int f() { return 1; } }; }\n"
    code += "template <class T, int k> static T g(T x) { return x; } S operator+(S a, S b) { return a; }"
    found = [(sorted(unit.names), unit.function) for unit in units(code) if unit.names != {""}]
    assert found == [
        (["a"], False),
        (["x"], False),
        (["S"], False),
        (["f"], False),
        (["g"], True),
        (["operator"], False),
    ]
