"""The host's compiler: libraries kept by content, and errors that say what to do."""

import errno
import os
import subprocess
import sys

import pytest

from llmc.cuda import RawKernel
from llmc.cuda.emulator.compiling import compiler, precompiled, store, toolchain
from llmc.errors import KernelError, NoCompiler, UserError

HEAD = 'extern "C" __global__ void k(float* x, const float* y) {\n'
CODE = HEAD + "    x[threadIdx.x] = y[threadIdx.x];\n}\n"
both = pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache for kernels alone, and nothing remembered from earlier tests."""
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "precompiled", lambda *_: ())
    compiler._compile.cache_clear()
    yield tmp_path / "cache"
    compiler._compile.cache_clear()


def fail(*_, **__):
    raise AssertionError("the compiler was started")


@both
def test_a_second_run_starts_no_compiler(cache, monkeypatch, checked):
    first = compiler.compile(CODE, ("k",), (), checked)
    assert first.parent == cache and first.is_file()
    compiler._compile.cache_clear()  # as another process would
    monkeypatch.setattr(compiler.subprocess, "run", fail)
    assert compiler.compile(CODE, ("k",), (), checked) == first


def test_what_goes_in_decides_the_name(cache, monkeypatch):
    for folder in (cache, cache / ".building-now", cache / ".building-killed"):
        folder.mkdir(0o700)
    os.utime(cache / ".building-killed", (0, 0))
    texts = [(CODE, ()), (CODE + " ", ()), (CODE, ("-DA=1",)), (CODE, ("--use_fast_math",))]
    paths = {compiler.compile(code, ("k",), options, checked) for code, options in texts for checked in (False, True)}
    assert len(paths) == 8
    assert [path for path in cache.iterdir() if path not in paths] == [cache / ".building-now"]


def test_options_that_concern_a_gpu_change_nothing(cache):
    plain = compiler.compile(CODE, ("k",), (), False)
    assert compiler.compile(CODE, ("k",), ("-arch=sm_90", "--maxrregcount=32", "-std=c++11"), False) == plain


@pytest.mark.parametrize(
    ("option", "flags"),
    [
        ("-std=c++20", ("-std=c++20",)),
        ("--std=c++14", ("-std=c++17",)),
        ("-Ifolder", ("-std=c++17", "-Ifolder")),
        ("-use_fast_math", ("-std=c++17", *compiler.FAST_MATH)),
        ("--gpu-architecture=compute_80", ("-std=c++17",)),
    ],
)
def test_options_of_nvrtc(option, flags):
    assert compiler._options((option,)) == (flags, "")


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (("-DTILE=32",), "#define TILE 32\n"),
        (("-D", "TILE=32"), "#define TILE 32\n"),
        (("--define-macro=TILE=32",), "#define TILE 32\n"),
        (("-DFAST",), "#define FAST 1\n"),
        (("-DEMPTY=", "-UFAST"), "#define EMPTY \n#undef FAST\n"),
    ],
)
def test_macros_are_defined_behind_the_headers(options, lines):
    assert compiler._options(options)[1] == lines


@both
def test_macros_with_the_names_of_template_parameters(cache, checked):
    compiler.compile(CODE.replace("x[threadIdx.x] =", "x[N] = A +"), ("k",), ("-DN=3", "-DT=float", "-DA=1"), checked)


def test_options_are_a_tuple():
    with pytest.raises(KernelError, match=r"options=\('-DA',\)"):
        compiler.compile(CODE, ("k",), "-DA")


def test_two_processes_at_once(cache):
    command = "import sys; from llmc.cuda.emulator.compiling.compiler import compile; print(compile(sys.argv[1], 'k'))"
    runs = [
        subprocess.Popen([sys.executable, "-c", command, CODE], stdout=subprocess.PIPE, text=True, env={**os.environ})
        for _ in range(2)
    ]
    paths = {run.communicate(timeout=60)[0] for run in runs}
    assert [run.returncode for run in runs] == [0, 0]
    assert len(paths) == 1 and [str(path) for path in cache.glob("[!h]*")] == [paths.pop().strip()]
    assert [path.name for path in cache.glob("headers-*/*")] in ([], [f"{precompiled.HEADER.name}.gch"])


# ------------------------------------------------------------------------------------------------------- errors

WRONG = {
    "semicolon": ("    x[0] = 1.0f\n}", 2, r"x\[0\] = 1.0f\nHint: a `;` is missing"),
    "misspelt": ("    int i = 0;\n    __syncthread();\n}", 3, "did you mean __syncthreads?"),
    "own-name": ("    int index = 0;\n    x[indx] = 0;\n}", 3, "indx is not declared anywhere; did you mean index?"),
    "own-name, undeclared": ("    x[0] = zebra2(y[0]);\n    x[1] = zebra4(y[1]);\n}", 2, r"declared anywhere\.$"),
    "undeclared": ("    x[zebra] = 0;\n}", 2, "zebra is not declared anywhere"),
    "const": ("    y[0] = 0;\n}", 2, "declared const cannot be written to"),
    "semicolon above": ("    float a = y[0]\n    x[0] = a;\n}", 2, r"float a = y\[0\]\nHint: a `;` is missing"),
    "header": ("}\n#include <no_such_header>\n", 3, "only CUDA's device headers exist.*leave out the #include"),
    "own header": ('}\n#include "common.h"\n', 3, "options=..-Ifolder"),
    "library": ("}\n#include <cublas_v2.h>\n", 3, "host code.*call that library from Python"),
    "brace": ("    if (x) {\n}\n", 1, "a `{` is never closed"),
    "braces": ("    if (x) {\n}\n__device__ void f() {}\n}", 4, "never closed"),
    "call": ("    x[0] = sqrtf(1.0f, 2.0f);\n}", 2, "exactly the arguments that it is declared with"),
    "barrier": ("    __syncthreads(1, 2);\n}", 2, r"'void __syncthreads\(\)'"),
    "float4 of a float": ("    float4 v = y[0];\n}", 2, r"reinterpret_cast<const float4\*>"),
    "float4 of a pointer": ("    float4* v = y;\n}", 2, r"reinterpret_cast<const float4\*>"),
    "float4 without const": ("    auto v = (reinterpret_cast<float4*>(y));\n}", 2, "a cast that keeps const"),
    "shared size": ("    int n = 3;\n    __shared__ float s[n];\n}", 3, "extern __shared__ float s"),
    "shared value": ("    __shared__ float s[2] = {0, 0};\n}", 2, "cannot have an initial value"),
    "kernel called": ("    x[0] = 1;\n    k(x, y);\n}", 3, "k is a kernel, which is launched"),
    "vector": ("    std::vector<float> v(3);\n}", 2, "no containers: use a plain array"),
    "string": ('    std::string s = "a";\n    printf("%s", s);\n}', 2, "no containers"),
    "cout": ("    std::cout << y[0];\n}", 2, "prints with printf"),
    "sort": ("    std::sort(x, x + 3);\n}", 2, "runs on the host: write the loop yourself"),
    "rand": ("    x[0] = rand();\n}", 2, "curand_kernel.h"),
    "capture": ("    float a = 1;\n    auto f = [](float b) { return a + b; };\n}", 3, r"`\[=\]` copies"),
    "return": ("    return 1;\n}", 2, "a kernel returns nothing"),
    "member": ("    x[0] = threadIdx.w;\n}", 2, "there are .x, .y and .z"),
    "float index": ("    float j = 0;\n    x[j] = 1;\n}", 3, "an index is an integer"),
    "remainder": ("    x[0] = y[0] % 2.0f;\n}", 2, "fmodf"),
    "sum of arrays": ("    x = x + y;\n}", 2, "take one element of each"),
    "array for element": ("    x = y[0];\n}", 2, "write one element"),
    "half": ("    __half h;\n}", 2, "#include <cuda_fp16.h>"),
    "groups": ("    auto b = cooperative_groups::this_thread_block();\n}", 2, "#include <cooperative_groups.h>"),
    "address": ("    atomicAdd(x[0], 1.0f);\n}", 2, "first argument of an atomic is an address"),
    "mask": ("    x[0] = __shfl_down_sync(y[0], 16);\n}", 2, "the mask of the lanes"),
    "old shuffle": ("    x[0] = __shfl_down(y[0], 16);\n}", 2, r"`__shfl_down_sync\(0xffffffff"),
    "older shuffle": ("    x[0] = __shfl(y[0], 16);\n}", 2, r"no longer has it: `__shfl_sync\(0xffffffff"),
    "macro": ("#define N 8  // so many\n    int N = 3;\n    x[N] = 0;\n}", 3, r"N is a macro.* sees 8 here \(line 2\)"),
    "two types": ("    x[0] = max(y[0], 0);\n}", 2, "must have the same type"),
    "else": ("    if (x) x[0] = 1; x[1] = 2; else x[0] = 0;\n}", 2, "put several in braces"),
    "commas": ("    for (int j = 0, j < 5, j++) x[j] = 0;\n}", 2, "separated by `;`"),
    "parenthesis": ("    for (int j = 0; j < 5; j++ {\n        x[j] = 0;\n    }\n}", 2, r"a `\)` is missing"),
    "choice": ("    x[0] = y[0] if 1 < 2 else 0;\n}", 2, r"condition \? a : b"),
    "shape": ("    int n = x.shape;\n}", 2, "does not know its size"),
    "nested": ("    __device__ float f(float a) { return a; }\n}", 2, "defined outside of others"),
    "copy": ("    float a[3], b[3];\n    a = b;\n}", 3, "copied element by element"),
    "vector element": ("    float4 v;\n    x[0] = v[0];\n}", 3, ".x, .y, .z, .w"),
    "floor division": ("    int i = 7 // 2 + 1;\n    x[i] = 0;\n}", 2, "`//` starts a comment"),
    "remark": ("    # the index\n    x[0] = 1;\n}", 2, "a comment begins with `//`"),
    "remark behind": ("    x[0] = 1;  # the first\n}", 2, "a comment begins with `//`"),
    "if with a colon": ("    int i = 1;\n    if i < 5:\n        x[i] = 0;\n}", 3, "the condition goes in brackets"),
    "if with brackets and colon": ("    if (y[0] < 5):\n        x[0] = 0;\n}", 2, "without a colon"),
    "for in": ("    for i in range(5):\n        x[i] = 0;\n}", 2, r"int c = 0; c < C; c\+\+"),
    "length": ("    int n = len(x);\n}", 2, "does not know its length"),
    "no x": ("    int i = blockIdx * blockDim + threadIdx;\n    x[i] = 0;\n}", 2, ".x is missing: blockIdx.x"),
    "no type": ("    i = threadIdx.x;\n    x[i] = 0;\n}", 2, "`int i = …;`"),
    "three indices": ("    x[0][1][2] = 0;\n}", 2, "C has one index"),
    "float4": ("    float4 a, b;\n    a = a + b;\n    x[0] = a.x;\n}", 3, "no arithmetic on a float4"),
    "power": ("    x[0] = y[0] ** 2;\n}", 2, "C has no power operator"),
}


@pytest.mark.parametrize(("body", "line", "told"), WRONG.values(), ids=WRONG)
def test_errors_name_the_line_and_help(cache, body, line, told):
    with pytest.raises(KernelError, match=told) as error:
        compiler.compile(HEAD + body, ("k",))
    assert error.value.line == line and str(error.value).startswith(f"line {line}: ")
    assert "/" not in str(error.value).split("Hint")[0].replace("//", "")  # no path of this machine
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "line", "told"),
    [
        ("float f(float a) { return a; }\n" + HEAD + "    x[0] = f(1);\n}", 1, "f is a host function"),
        ("template <int N> __device__ int f(int) { return N; }\n" + HEAD + "    x[0] = f(1);\n}", 3, "cannot guess N"),
        ("using V = std::vector<float>;\ntemplate <int N> __device__ int f(int) { return N; }\n"
         + HEAD + "    x[0] = f(1);\n}", 1, "a kernel has no containers"),
        ("\n__global__ float k(float* x) { return x[0]; }", 2, "a kernel returns void"),
        ("__global__ void k(float* x int n) {}", 1, "a comma is missing"),
        ("#include <cub/block/block_shuffle.cuh>\n" + HEAD + "}", 1, "the emulator has these parts of CUB: WarpReduce"),
        ("#include <cub/cub.cuh>\nusing S = cub::BlockShuffle<int, 32>;\n" + HEAD + "}", 2, "has these parts of CUB"),
        ("template <class T> __device__ T f(T x) { return __ballot(1) ? x : 0; }\n" + HEAD + "    x[0] = f(1);\n}", 1,
         r"'__ballot' was not declared.*`__ballot_sync\(0xffffffff"),
        ("\n#define n 32\n__global__ void k(float* x, int n) {}", 3, "n is a macro, so the compiler sees 32"),
        ("\ufeff__global__ void k(float* x) {}", 1, "begins with a byte-order mark"),
    ],
    ids=["host function", "template argument", "two mistakes", "kernel with a value", "comma", "CUB's header",
         "CUB", "in a template", "macro", "byte-order mark"],
)  # fmt: skip
def test_errors_outside_of_the_kernels_body(cache, code, line, told):
    with pytest.raises(KernelError, match=f"(?s){told}") as error:
        compiler.compile(code, ("k",))
    assert error.value.line == line


@pytest.mark.parametrize("name", ["k<1, 2>", "k<float>", "k"])
def test_wrong_template_arguments_of_a_kernel_are_named(cache, name):
    with pytest.raises(KernelError, match="(?s)line 2:.*template arguments in name_expressions must be as many"):
        compiler.compile("\ntemplate <int N> __global__ void k(float* x) { x[0] = N; }", (name,))


@pytest.mark.parametrize(
    "code",
    [
        "struct S { int k; __device__ S(int k) : k(k) {} };\n" + HEAD + "    S k(3);\n    x[0] = S(1).k;\n}",
        "#define DEVICE __device__ __forceinline__\nDEVICE float f(float a) { return a; }\n"
        + HEAD
        + "    x[0] = f(1);\n}",
        "__device__ float f(float a);\nfloat f(float a) { return a; }\n" + HEAD + "    x[0] = f(1);\n}",
        "constexpr int f(int a) { return a; }\nvoid host() {}\n" + HEAD + "    x[0] = f(1);\n}",
        HEAD + "    auto f = [](float a) { return a; };\n    x[0] = f(1);\n}",
    ],
    ids=["constructor", "macro", "declared before", "constexpr", "lambda"],
)
def test_what_only_looks_like_a_call_of_host_code(cache, code):
    compiler.compile(code, ("k",))


def test_line_of_an_error_after_dynamic_shared_memory(cache):
    code = "extern __shared__ float s[];\n" + HEAD + "    extern __shared__\n        float t[];\n    x[0] = u;\n}\n"
    with pytest.raises(KernelError) as error:
        compiler.compile(code, ("k",))
    assert error.value.line == 5


@pytest.mark.parametrize(
    ("code", "names", "told"),
    [
        (CODE, ("scale",), "no kernel 'scale' in this code; it has k"),
        ("float f() { return 1; }", ("k",), "no __global__ function"),
        ("template <class T> __global__ void t(T* x) {}", ("u<int>",), r"it has t<\.\.\.>"),
    ],
    ids=["other", "none", "template"],
)
def test_a_kernel_that_is_not_there(cache, code, names, told):
    with pytest.raises(KernelError, match=told):
        compiler.compile(code, names)


@both
@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("__device__ float f(float);\n" + HEAD + "    x[0] = f(1);\n}", 1),
        ("namespace far {\n__device__ float f(float*);\n}\n" + HEAD + "    x[0] = far::f(x);\n}", 2),
        (HEAD.replace(" {\n", ";"), 1),
    ],
    ids=["function", "in a namespace", "kernel"],
)
def test_what_is_declared_and_never_defined_is_named(emulator, code, line, checked):
    with pytest.raises(KernelError, match="is declared here and defined nowhere in this text") as error:
        RawKernel(code, "k", check=checked).compile()
    assert error.value.line == line


# ----------------------------------------------------------------------------------------------------- toolchain


@pytest.fixture
def empty_path(tmp_path, monkeypatch):
    """A PATH without programs."""
    for name in ("LLMC_CXX", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(folder, name, last=""):
    (folder / name).write_text(f"#!/bin/sh\n{last}\n")
    (folder / name).chmod(0o755)


def test_without_a_compiler_there_is_one_sentence(empty_path, monkeypatch):
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    toolchain._find.cache_clear()
    with pytest.raises(NoCompiler, match=r"needs a C\+\+ compiler.* or `.*pip install ziglang`\.$") as error:
        toolchain.find()
    assert isinstance(error.value, UserError) and isinstance(error.value, KernelError)
    toolchain._find.cache_clear()


def test_the_order_of_the_search(empty_path, monkeypatch):
    program(empty_path, "clang++")
    assert toolchain.find().clang
    toolchain._find.cache_clear()
    program(empty_path, "g++")
    found = toolchain.find()
    assert found.command == (str(empty_path / "g++"),) and found.clang == (sys.platform == "darwin")
    program(empty_path, "mine")
    monkeypatch.setenv("LLMC_CXX", "mine --flag")
    assert toolchain.find().command == (str(empty_path / "mine"), "--flag")
    monkeypatch.setenv("LLMC_CXX", "absent")
    with pytest.raises(NoCompiler, match="LLMC_CXX is 'absent'"):
        toolchain.find()
    toolchain._find.cache_clear()


@pytest.mark.parametrize("last, words", [("exit 3", "ends with status 3"), ("exit 0", "has written nothing")])
def test_a_compiler_that_is_none_is_one_sentence(empty_path, cache, monkeypatch, last, words):
    program(empty_path, "false", last)
    monkeypatch.setenv("LLMC_CXX", "false")
    toolchain._find.cache_clear()
    with pytest.raises(NoCompiler, match=f"{words}.*set LLMC_CXX to another"):
        compiler.compile(CODE, ["k"])
    toolchain._find.cache_clear()


def test_an_unwritable_cache_is_replaced(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path / "file" / "below"))
    store._private_folder.cache_clear()
    folder = store.cache_folder()
    (folder / "a").write_text("it can be written")
    assert store.cache_folder() == folder != tmp_path / "file" / "below"
    err = capsys.readouterr().err
    assert err.startswith("llmc: ") and err.count("\n") == 1 and "below" in err and "LLMC_CACHE" in err
    store._private_folder.cache_clear()


@pytest.mark.parametrize("variable", ["LLMC_CACHE", "HOME"])
def test_a_cache_that_names_no_folder_is_replaced(monkeypatch, variable):
    for name in ("LLMC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "~no-such-user/x" if variable == "LLMC_CACHE" else os.devnull)
    store._private_folder.cache_clear()
    assert store.cache_folder().is_dir()
    store._private_folder.cache_clear()


def to_a_folder(library):
    library.unlink()
    (library / "below").mkdir(parents=True)


@pytest.mark.skipif(not store.SEALED, reason="a library of macOS carries no digest of ours")
@pytest.mark.parametrize(
    "damage",
    [
        lambda library: library.write_bytes(b""),
        lambda library: library.write_bytes(b"\0" * library.stat().st_size),
        lambda library: library.write_bytes(library.read_bytes()[:-4000]),  # loading this one would end the process
        lambda library: library.write_bytes(library.read_bytes()[:5000] + b"\xff" + library.read_bytes()[5001:]),
        lambda library: library.write_bytes(b"not a library"),
        to_a_folder,
    ],
    ids=["empty", "zeros", "short", "flipped", "text", "folder"],
)
def test_a_damaged_library_is_compiled_again(cache, damage):
    library = compiler.compile(CODE, ("k",), (), False)
    damage(library)
    assert not store.is_whole(library)
    compiler._compile.cache_clear()
    assert compiler.compile(CODE, ("k",), (), False) == library and store.is_whole(library)
    assert list(cache.iterdir()) == [library]


def test_a_full_disk_is_one_sentence(cache, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(UserError, match="No space left on device; free some space"):
        patch.setattr(compiler, "_run", full)
        compiler.compile(CODE, ("k",))
    assert list(cache.iterdir()) == []
