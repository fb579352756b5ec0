"""Python and C++ describe the same records and the same kinds of problems, or the emulator does not start."""

import ctypes
import shutil
import subprocess

import pytest

from llmc.cuda.emulator.compiling import compiler, toolchain
from llmc.cuda.emulator.findings.kinds import KINDS
from llmc.cuda.emulator.launching import native, records
from llmc.errors import KernelError


def test_the_runtime_compiles_where_both_agree():
    assert compiler.compile_runtime(records.agreement()).is_file()


def altered(record, change):
    """The record with its list of fields changed."""
    return type(record.__name__, (ctypes.Structure,), {"_fields_": change(list(record._fields_))})


def swapped(fields):
    names = [name for name, _ in fields]
    i, j = names.index("lanes"), names.index("absent")
    fields[i], fields[j] = fields[j], fields[i]
    return fields


def unsigned(fields):
    return [(name, ctypes.c_uint32 if name == "line" else kind) for name, kind in fields]


def with_record(change):
    return {"RECORDS": (altered(records.Problem, change),)}


def with_kinds(*kinds):
    return {"KINDS": kinds}


DISAGREEMENTS = {
    "two fields change places": (with_record(swapped), "Problem.lanes"),
    "another type of the same size": (with_record(unsigned), "Problem.line"),
    "a field too many": (with_record(lambda fields: [*fields, ("more", ctypes.c_int64)]), "Problem"),
    "a constant": ({"CONSTANTS": records.CONSTANTS | {"TOO_LONG": 1}}, "TOO_LONG"),
    "spaces in another order": ({"SPACES": ("", "shared", "global")}, "SHARED"),
    "kinds in another order": (with_kinds(KINDS[1], KINDS[0], *KINDS[2:]), "BOUNDS"),
    "a kind that only C++ knows": (with_kinds(*KINDS[:-1]), "the number of kinds"),
}


@pytest.mark.parametrize(("changed", "named"), DISAGREEMENTS.values(), ids=DISAGREEMENTS)
def test_a_disagreement_is_named(monkeypatch, tmp_path, changed, named):
    for name, value in changed.items():
        monkeypatch.setattr(records, name, value)
    (tmp_path / "agreement.cpp").write_text(records.agreement())
    command = [*toolchain.find().command, "-std=c++17", "-fsyntax-only", "-I", compiler.RUNTIME, "agreement.cpp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode and f"Python and C++ disagree about {named}" in done.stderr


def test_the_emulator_does_not_start_where_cpp_has_changed(monkeypatch, tmp_path):
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path))
    for folder in (compiler.RUNTIME, compiler.INCLUDE):
        shutil.copytree(folder, tmp_path / folder.name)
    header = tmp_path / compiler.RUNTIME.name / "records.h"
    text = header.read_text()
    header.write_text(text.replace("int32_t kind, space, argument,", "int32_t space, kind, argument,"))
    assert header.read_text() != text
    monkeypatch.setattr(compiler, "RUNTIME", header.parent)
    with pytest.raises(KernelError, match="runtime does not compile(?s:.*)disagree about Problem.kind"):
        native.library.__wrapped__()
    assert not list(tmp_path.glob("*.so"))
