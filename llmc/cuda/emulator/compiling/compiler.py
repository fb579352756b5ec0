"""The host's C++ compiler: from the text of a kernel to a shared library, kept on disk by its content.

A library is named after a hash of everything that went into it, written under another name and renamed when it is
complete, so two notebooks may compile the same kernel at once, and a second run compiles nothing. Plain builds are for
speed. In checked builds the compiler's thread-sanitizer pass puts a call before every load and store, and those calls
lead to our runtime (`../runtime/hooks.cpp`), which sees what the kernel does.
"""

import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
from functools import lru_cache, partial
from pathlib import Path

from llmc.cuda.emulator.compiling import toolchain
from llmc.cuda.emulator.compiling.compile_errors import explain
from llmc.cuda.emulator.compiling.compile_warnings import in_cpp
from llmc.cuda.emulator.compiling.dynamic_shared import KERNEL_FILE
from llmc.cuda.emulator.compiling.precompiled import precompiled, without_headers
from llmc.cuda.emulator.compiling.refusals import is_suspicious, settled
from llmc.cuda.emulator.compiling.rules import check_rules
from llmc.cuda.emulator.compiling.source import INCLUDE, SOURCE_FILE, may_have_asm, prepare
from llmc.cuda.emulator.compiling.store import cache_folder, is_whole, whole
from llmc.errors import KernelError, NoCompiler

HERE = Path(__file__).parents[1]
RUNTIME = HERE / "runtime"
COMMON = (
    *("-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-ffp-contract=off", "-fdiagnostics-color=never"),
    "-UNDEBUG",  # zig defines it, and a kernel's own assert would be silent
    *("-ffunction-sections", "-fdata-sections"),  # so that the linker drops what the kernel does not use
    "-fno-strict-aliasing",  # kernels look at the same bytes as halves, as unsigned, as uint4
    "-fstack-protector-strong",  # a write past a local array is noticed: __stack_chk_fail in llmc_words.h
    "-fstack-clash-protection",  # a large frame must touch the guard page below the stack, not jump over it
)
# Not -ffast-math: a library linked with it makes the whole process lose its subnormal numbers.
FAST_MATH = ("-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-fno-trapping-math", "-DLLMC_FAST_MATH")
NO_HOST_HEADERS = ("-nostdinc++", "-I", str(INCLUDE / "std"), "-I", str(INCLUDE))
WARNINGS = ("-Wuninitialized", "-Wmaybe-uninitialized")  # what compile_warnings.py reads
SEEN = (
    "-fsanitize=thread",
    "-fsanitize=integer-divide-by-zero,signed-integer-overflow,return,shift-exponent,float-cast-overflow",
    "-DLLMC_CHECKED",
)
GCC_SEEN = (
    "-fsanitize=bounds",
    *("--param", "tsan-instrument-func-entry-exit=0", "--param", "tsan-distinguish-volatile=1"),
    "-fno-tree-sra",  # a float4 stays one access of 16 bytes
)
CLANG_SEEN = (
    "-fsanitize=array-bounds",  # its "bounds" has a second half that ends the process without a word
    *("-mllvm", "-tsan-instrument-func-entry-exit=0", "-mllvm", "-tsan-instrument-read-before-write=1"),
    *("-mllvm", "-tsan-instrument-atomics=0", "-mllvm", "-tsan-distinguish-volatile=1"),
    *("-fno-slp-vectorize", "-fno-vectorize", "-fno-unroll-loops"),
)
KILLED = re.compile(r"terminated program|unable to execute command: \w+$", re.MULTILINE)  # by a signal
LONG_NAMES = {"-define-macro": "-D", "-undefine-macro": "-U", "-include-path": "-I"}


def compile(code: str, names, options=(), checked: bool = True, quick: bool = False) -> Path:
    """Path of the shared library with one entry for each of `names`, compiled unless it is there.

    `names` are kernels or name expressions ("scale<float>"), `options` are NVRTC's. quick: without optimization, for a
    long text that is run a few times. Raises KernelError for what the emulator refuses and for what does not compile,
    NoCompiler where there is no compiler.
    """
    if isinstance(options, str):
        raise KernelError(f"options is a string; write a tuple: options=({options!r},).")
    return _compile(code, tuple(names), tuple(options), bool(checked), bool(quick))


@lru_cache(maxsize=1024)
def _compile(code, names, options, checked, quick):
    tool = toolchain.find()
    wanted, defines = _options(options)
    text, flags = prepare(code, names, defines), (*_flags(tool.clang, checked, quick), *wanted)
    library = _place("kernel", tool, flags, text)
    if not is_whole(library):
        failure = partial(explain, code=code, names=names)
        check_rules(code, names, options)
        if is_suspicious(code) or may_have_asm(code):
            text = settled(_preprocessed(tool, flags, text, failure), names)
        _build(tool, flags, text, library, checked, failure)
    return library


@lru_cache(maxsize=64)
def faulty_lines(code: str, names, options=()) -> tuple[int, ...]:
    """The lines of a text in which the compiler finds errors; () if it compiles. Nothing is made. names: a tuple."""
    tool = toolchain.find()
    wanted, defines = _options(options)
    flags, all_errors = _flags(tool.clang, True, True), "-ferror-limit=0" if tool.clang else "-fmax-errors=0"
    with tempfile.TemporaryDirectory(prefix="llmc-") as folder:
        source = Path(folder) / SOURCE_FILE
        source.write_text(prepare(code, names, defines), encoding="utf-8")
        command = [*tool.command, *_headers_once(tool, (*flags, *wanted)), *flags, *wanted, all_errors]
        environment = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(
            [*command, "-fsyntax-only", str(source)], cwd=folder, env=environment, capture_output=True, encoding="utf-8"
        )
    found = re.findall(rf"^{KERNEL_FILE}:(\d+):\d+: error", done.stderr, re.MULTILINE)
    return tuple(sorted({int(line) for line in found}))


def compile_runtime(agreement: str) -> Path:
    """Path of the runtime's shared library, compiled unless it is there.

    All of runtime/*.cpp is one translation unit, followed by `agreement`: C++ that compiles only if Python describes
    the runtime's records correctly.
    """
    tool = toolchain.find()
    files = (
        "state.h",
        *sorted(source.name for source in RUNTIME.glob("*.cpp")),
    )  # state.h: macOS wants its macros first
    text = "".join(f'#include "{name}"\n' for name in files) + agreement
    flags = ("-std=c++17", "-O2", "-fPIC", "-fno-semantic-interposition", "-pthread", "-w", "-I", str(RUNTIME))
    library = _place("runtime", tool, flags, text + "".join(_texts(RUNTIME)))
    if not is_whole(library):
        with whole(library) as out:
            source = out.parent / "runtime.cpp"
            source.write_text(text, encoding="utf-8")
            _run([*tool.command, *flags, "-shared", str(source), "-o", str(out)], out.parent, _runtime_failed)
    return library


def _runtime_failed(said):
    return KernelError(f"the emulator's own runtime does not compile here, so no kernel can run:\n{said}")


def _flags(clang, checked, quick=False):
    """Compiler flags for a kernel. GCC must not make a template's statics unique among all libraries of the process."""
    kind = (() if clang else ("-fno-gnu-unique",)) + COMMON + ("-Werror=vla",) + NO_HOST_HEADERS
    if not checked:
        return ("-O2", "-g1", "-gdwarf-4", *kind)  # lines for a kernel that never ends
    if quick:
        return ("-O0", "-w", *kind, *SEEN, *(CLANG_SEEN if clang else GCC_SEEN))
    return ("-O1", "-g1", "-gdwarf-4", *kind, *WARNINGS, *SEEN, *(CLANG_SEEN if clang else GCC_SEEN))


def _options(options):
    """(flags, lines of #define) for NVRTC's options. Those about the GPU have no effect here, except -arch=sm_90a.

    Macros are defined after our headers, since -DN=32 must not change a name in them.
    """
    standard, flags, lines = "c++17", [], []
    words = [str(option).strip() for option in options]
    for i, word in enumerate(words):
        name, _, value = ("-" + word.lstrip("-")).partition("=")
        if word in ("-D", "-I", "-U"):
            word += "".join(words[i + 1 : i + 2])
        if name in LONG_NAMES:
            word = LONG_NAMES[name] + value
        if name == "-std":
            standard = max(standard, value)  # our headers need C++17
        elif name == "-use_fast_math":
            flags += [*FAST_MATH]
        elif name in ("-arch", "-gpu-architecture") and value.endswith("90a"):
            flags.append("-DLLMC_HOPPER")  # what __CUDA_ARCH__ says
        elif word.startswith("-I"):
            flags.append(word)
        elif word.startswith("-U"):
            lines.append(f"#undef {word[2:]}\n")
        elif word.startswith("-D"):
            macro, given, text = word[2:].partition("=")
            lines.append(f"#define {macro} {text if given else 1}\n" + "#include <cassert>\n" * (macro == "NDEBUG"))
    return (f"-std={standard}", *flags), "".join(lines)


def _texts(folder):
    """Names and contents of all files in a folder and below."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return [f"{path.relative_to(folder)}\n{path.read_text('utf-8')}" for path in files]


@lru_cache(maxsize=1)
def _headers() -> bytes:
    return hashlib.sha256("\0".join(_texts(INCLUDE)).encode()).digest()


def _place(kind, tool, flags, text) -> Path:
    """Where the library made from this text belongs."""
    about = "\0".join([platform.machine(), tool.identity, *flags, text])
    name = hashlib.sha256(_headers() + about.encode()).hexdigest()[:32]
    return cache_folder() / f"{kind}-{name}.so"


def _preprocessed(tool, flags, text, failure) -> str:
    """The text with macros expanded and #if decided, and lines such as `# 12 "kernel.cu"` that say where it is from."""
    with tempfile.TemporaryDirectory(prefix="llmc-") as folder:
        source, out = Path(folder) / SOURCE_FILE, Path(folder) / "expanded.cpp"
        source.write_text(text, encoding="utf-8")
        _run([*tool.command, *flags, "-E", str(source), "-o", str(out)], folder, failure)
        return out.read_text(encoding="utf-8")


def _headers_once(tool, flags):
    """Flags that spare GCC our headers; the user's own folders make no difference to what is in them."""
    if tool.clang:
        return ()
    ours = tuple(flag for flag in flags if flag == "-I" or not flag.startswith("-I"))
    return precompiled(tool.command, ours, _place("headers", tool, ours, "").with_suffix(""), _run)


def _build(tool, flags, text, library, checked, failure):
    """Compile a kernel's text. A checked one is linked separately, without the sanitizers' own libraries."""
    with whole(library) as out:
        source = out.parent / SOURCE_FILE
        source.write_text(text, encoding="utf-8")
        symbols = (
            ("-undefined", "dynamic_lookup") if sys.platform == "darwin" else ("-Wl,-Bsymbolic", "-Wl,--gc-sections")
        )
        link = [*tool.command, "-O2", "-shared", *symbols, "-o", str(out)]  # zig adds its own checks below -O2
        flags = (*_headers_once(tool, flags), *flags)
        if not checked:
            return _run([*link, *flags, str(source)], out.parent, failure)
        object_file = str(out.with_suffix(".o"))
        said = _run([*tool.command, *flags, "-c", str(source), "-o", object_file], out.parent, failure)
        if warnings := in_cpp(said):
            source.write_text(warnings, encoding="utf-8")
            link.append(str(source))
        wrap = ("-Wl,--wrap=memcpy",) if tool.clang and sys.platform != "darwin" else ()
        return _run([*link, *wrap, object_file], out.parent, failure)


def _run(command, folder, failure):
    """What the compiler said, in English, so that we can read it; raise failure(what it said) if it fails."""
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode:
        if "PCH" in done.stderr and (other := without_headers(command)) != command:  # not mapped, in this process
            return _run(other, folder, failure)
        if KILLED.search(done.stderr):
            raise _no_compiler(command, "was killed, perhaps for want of memory")
        if "xcode-select" in done.stderr:
            raise toolchain.none_found()
        if not done.stderr.strip():  # then it is no kernel's fault
            raise _no_compiler(command, f"ends with status {done.returncode} and does not say why")
        raise failure(done.stderr.strip())
    if "-o" in command and not Path(folder, command[command.index("-o") + 1]).exists():
        raise _no_compiler(command, "claims success but has written nothing")
    return done.stderr


def _no_compiler(command, what):
    return NoCompiler(f"the C++ compiler {command[0]} {what}; set LLMC_CXX to another one.")
