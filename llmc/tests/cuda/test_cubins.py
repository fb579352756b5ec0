"""Machine code for one kind of GPU, which llmc has NVRTC compile and keeps itself."""

import sys
import types

import pytest

from llmc.cuda import cubins
from llmc.errors import KernelError


def test_machine_code_for_one_kind_of_gpu_is_compiled_once(monkeypatch, tmp_path):
    asked = []

    def compile_program(program, options):
        asked.append(options)
        if "-DWRONG" in options:
            raise RuntimeError

    nvrtc = types.SimpleNamespace(getVersion=lambda: (13, 0), createProgram=lambda *texts: 1, NVRTCError=RuntimeError)
    nvrtc.compileProgram, nvrtc.getCUBIN = compile_program, lambda program: b"code"
    nvrtc.destroyProgram = lambda program: None
    nvrtc.getProgramLog = lambda program: "kernel.cu(1): error: no such thing"
    package = types.ModuleType("cupy")
    package.__file__ = str(tmp_path / "cupy" / "__init__.py")
    monkeypatch.setitem(sys.modules, "cupy", package)
    monkeypatch.setitem(sys.modules, "cupy.cuda", types.SimpleNamespace(nvrtc=nvrtc, get_cuda_path=lambda: "toolkit"))
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cache"))
    assert cubins.wanted(("-std=c++17", "-arch=sm_90a")) and not cubins.wanted(("-std=c++17",))
    path = cubins.compiled("text", ("-arch=sm_90a",))
    assert cubins.compiled("text", ("-arch=sm_90a",)) == path != cubins.compiled("other", ("-arch=sm_90a",))
    assert open(path, "rb").read() == b"code" and len(asked) == 2
    assert all("-Itoolkit/include" in options for options in asked)
    assert cubins.source_of(path, "k") == ("text", "k", ("-arch=sm_90a",))
    with pytest.raises(KernelError, match="no such thing"):
        cubins.compiled("text", ("-arch=sm_90a", "-DWRONG"))
    assert len(list((tmp_path / "cache").iterdir())) == 2
