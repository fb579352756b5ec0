"""The emulator's headers, precompiled: found by g++, made again when damaged, and not needed."""

import subprocess

import pytest

from llmc.cuda.emulator.compiling import compiler, precompiled, store, toolchain
from llmc.errors import KernelError, NoCompiler

TOOL = toolchain.find()
CODE = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] = rsqrtf(x[threadIdx.x]); }'
pytestmark = pytest.mark.skipif(TOOL.clang, reason="only g++ looks for precompiled headers")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and nothing remembered from earlier tests."""
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path))
    for function in (compiler._compile, precompiled.precompiled):
        function.cache_clear()
    yield tmp_path
    for function in (compiler._compile, precompiled.precompiled):
        function.cache_clear()


def header_read(flags, folder):
    """The first line of what g++ says about the headers that it reads: "! " before a precompiled
    one, "x " before one that it passes over, ". " before others."""
    (folder / "use.cpp").write_text(f'#include "{precompiled.HEADER.name}"\n')
    command = [*TOOL.command, *flags, "-H", "-fsyntax-only", "use.cpp"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stderr.splitlines()[0]


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
def test_gpp_finds_them(cache, checked):
    flags = (*compiler._flags(False, checked), *compiler._options(())[0])
    found = compiler._headers_once(TOOL, flags)
    assert header_read((*found, *flags), cache).startswith("! ")
    assert header_read(flags, cache).startswith(". ")
    assert header_read((*found, *compiler._flags(False, not checked)), cache).startswith("x ")  # passed over


def test_folders_of_the_user_make_no_difference(cache):
    flags = compiler._flags(False, True)
    assert compiler._headers_once(TOOL, flags) == compiler._headers_once(TOOL, (*flags, "-Imine"))
    assert compiler._headers_once(TOOL, flags) != compiler._headers_once(TOOL, (*flags, *compiler.FAST_MATH))


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-4000], lambda data: data[:99] + data])
def test_damaged_ones_are_made_again(cache, damage):
    compiler.compile(CODE, ("k",))
    (made,) = cache.glob("headers-*/*")
    made.write_bytes(damage(made.read_bytes()))
    precompiled.precompiled.cache_clear()
    compiler.compile(CODE + "\n", ("k",))
    assert [*cache.glob("headers-*/*")] == [made] and store.is_whole(made)


@pytest.mark.parametrize("option", ["-x", "-fsyntax-only"], ids=["cannot be made", "cannot be used"])
def test_a_compiler_that_cannot_use_them_does_without(cache, monkeypatch, option):
    run = compiler._run

    def failing(command, folder, failure):
        if option in command:
            raise failure("the PCH cannot be mapped")
        return run(command, folder, failure)

    monkeypatch.setattr(compiler, "_run", failing)
    assert compiler.compile(CODE, ("k",)).is_file() and not [*cache.glob("headers-*/*")]


def test_an_error_is_the_same_with_them_and_without(cache, monkeypatch):
    wrong = CODE.replace("rsqrtf", "rsqrt_f")
    with pytest.raises(KernelError) as error:
        compiler.compile(wrong, ("k",))
    monkeypatch.setattr(compiler, "precompiled", lambda *_: ())
    with pytest.raises(KernelError) as without:
        compiler.compile(wrong, ("k",))
    assert str(error.value) == str(without.value) and "line 1" in str(error.value)


def compiler_that(says, cases, folder):
    """The command of a compiler that fails with these words in some cases, shell patterns of its arguments."""
    mine = folder / "mine"
    mine.write_text(
        f"""#!/bin/sh\ncase "$*" in {cases}) echo "{says}" >&2; exit 1;; esac\nexec {TOOL.command[0]} "$@"\n"""
    )
    mine.chmod(0o755)
    return str(mine)


def test_where_they_cannot_be_mapped_a_kernel_is_compiled_without(cache, monkeypatch):
    compiler.compile(CODE, ("k",))  # they can be made
    words = "<command-line>: fatal error: had to relocate PCH"
    monkeypatch.setenv("LLMC_CXX", compiler_that(words, '*headers-*" -c "*', cache))
    assert compiler.compile(CODE + "\n", ("k",)).is_file()


def test_a_compiler_that_was_killed_is_no_fault_of_the_kernel(cache, monkeypatch):
    words = "g++: fatal error: Killed signal terminated program cc1plus"
    monkeypatch.setenv("LLMC_CXX", compiler_that(words, '*" -c "*', cache))
    with pytest.raises(NoCompiler, match="was killed, perhaps for want of memory"):
        compiler.compile(CODE + "\n", ("k",))
