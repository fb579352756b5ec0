"""From the address of an instruction to the line of the kernel, through headers, by whichever tool there is."""

import shutil
import subprocess

import pytest

from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.findings.loops import loop_around, turns_in_a_branch
from llmc.cuda.emulator.findings.raw import RawProblem
from llmc.cuda.emulator.reporting import lines
from llmc.cuda.emulator.reporting.report import Report
from llmc.tests.emulator.by_hand import CODE, launch


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """(library, return addresses of the two calls of note()): the first in a header's inlined function."""
    if not shutil.which("g++") or not shutil.which("addr2line"):
        pytest.skip("needs g++ and addr2line")
    text = (
        'extern "C" void note();\n#line 1 "header.h"\n'
        "static inline __attribute__((always_inline)) void in_header() { note(); }\n"
        '#line 1 "kernel.cu"\n\nextern "C" void k() {\n    in_header();\n\n    note();\n}\n'
    )
    folder = tmp_path_factory.mktemp("lines")
    (folder / "k.cpp").write_text(text)
    subprocess.run(["g++", "-O1", "-g1", "-shared", "-fPIC", "-o", folder / "k.so", folder / "k.cpp"], check=True)
    code = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", folder / "k.so"], capture_output=True, text=True
    ).stdout
    rows = code[code.index("<k>:") :].split("\n\n")[0].splitlines()
    after = [int(next_row.split(":")[0], 16) for row, next_row in zip(rows, rows[1:]) if "note" in row]
    if len(after) != 2:
        pytest.skip("this disassembly is not understood")
    return folder / "k.so", after


def test_lines_look_through_headers_and_ask_only_once(library, monkeypatch):
    path, (first, second) = library
    assert lines.source_lines(path, [first, second]) == {first: (3,), second: (5,)}
    monkeypatch.setattr(lines, "_look_up", lambda *unused: pytest.fail("asked again"))
    assert lines.source_lines(path, {second}) == {second: (5,)}


@pytest.mark.skipif(not shutil.which("llvm-symbolizer"), reason="needs llvm-symbolizer")
def test_lines_by_llvm(library, monkeypatch):
    path, (first, second) = library
    only = {"llvm-symbolizer": shutil.which("llvm-symbolizer")}
    monkeypatch.setattr(lines, "_known", {})
    monkeypatch.setattr(lines.shutil, "which", only.get)
    assert lines.source_lines(path, [first, second]) == {first: (3,), second: (5,)}


def test_atos_is_understood():
    text = "in_header (in k) (header.h:1)\nk (in k) (kernel.cu:3)\n\nk (in k) (kernel.cu:5)\n"
    assert lines._read_atos(text, [10, 20]) == {10: (3,), 20: (5,)}


def test_without_a_symbolizer_the_report_says_what_to_install(library, monkeypatch):
    monkeypatch.setattr(lines.shutil, "which", lambda name: None)
    monkeypatch.setattr(lines, "_known", {})
    raw = launch(RawProblem("out-of-bounds", pc=library[1][0], argument=0, space="global", offset=4096, size=4))
    raw.library = library[0]
    assert "line unknown: reads out[1024]" in str(Report(raw)) and "binutils" in str(Report(raw))


def test_loops_are_found_by_their_braces():
    assert loop_around(CODE, 6) == (5, 7)
    assert loop_around(CODE, 8) is None and loop_around(CODE, 6, 8) is None
    assert loop_around("for (int i = 0; i < 3; i++)\n  s[t] += s[t + i];\nx = 1;", 2) == (1, 2)


def test_a_long_text_is_masked_only_once():
    code = "x = 1;\n" * 999 + "for (int k = 0; k < 9; k++)\n  if (t == k) {\n    s[k] = t;\n    y = s[0];\n  }\n"
    before = mask.cache_info().misses
    assert turns_in_a_branch(code, 1002, 1003) == (1000, 1001)
    assert turns_in_a_branch(code, 998, 999) == (0, 0)
    assert mask.cache_info().misses == before + 1
