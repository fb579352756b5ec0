"""`llmc bench --kernels --precision bf16`: every kernel of llmc/kernels/mixed has a call, PyTorch's computes the same.

What is checked here runs on a GPU where there is one, else on the emulator.
"""

import argparse
import json
import re
from pathlib import Path

import numpy as np
import pytest

from llmc import cuda
from llmc.bench.kernels import checks, times
from llmc.bench.kernels.cases import SMALL, Numbers, Sizes
from llmc.bench.kernels.mixed import FUNCTIONS, MixedVersion, mixed_versions
from llmc.bench.kernels.table import head, line
from llmc.bench.kernels.torch_calls import counterpart
from llmc.commands import bench
from llmc.errors import UserError
from llmc.kernels import mixed, source
from llmc.precision import find_precision

TYPES = {name: find_precision(name).weights for name in ("bf16", "fp16")}
ODD = Sizes(B=3, T=5, C=7, NH=1, V=5, Vp=11, parameters=127)  # rows that are not of 128-bit words
EVEN = Sizes(B=2, T=9, C=32, NH=2, V=64, Vp=64, parameters=200)
NAMES = [function for functions in FUNCTIONS.values() for function in functions]
on_emulator = pytest.mark.skipif(cuda.device() != "emulator", reason="counts what the emulator sees")


def versions(function, precision="bf16"):
    return [v for v in mixed_versions("all", TYPES[precision]) if v.function == function]


@pytest.mark.parametrize("precision", TYPES)
@pytest.mark.parametrize("function", NAMES)
def test_every_version_is_right(function, precision):
    for row in checks.check(versions(function, precision), ODD if precision == "bf16" else EVEN):
        assert row["right"], row


LADDERS = re.compile("matmul_|matvec|attention_hopper")  # test_mixed_products, _few_rows and _attention launch them


@on_emulator
def test_every_kernel_of_every_file_is_launched(monkeypatch):
    files = [path for path in sorted(Path(mixed.__file__).parent.glob("*.cu")) if not LADDERS.match(path.name)]
    named = re.compile(r"__global__ void (?:__launch_bounds__\(.*?\)\s+)?(\w+)\(", re.S)
    there = {name for file in files for name in named.findall(source(f"mixed/{file.stem}"))}
    launched = set()

    def launch(self, grid, block, args, shared_mem=0):
        launched.add(self.kernel.name)
        self.kernel(grid, block, args, shared_mem=shared_mem)

    monkeypatch.setattr(checks.Inspected, "__call__", launch)
    for function in NAMES:
        for sizes in (ODD, EVEN):
            checks.check(versions(function), sizes)
    elsewhere = {"layernorm_again_v1", "round_bias_backward_v2"}  # of the backward pass
    elsewhere |= {"encoder_forward_at_v1"}  # of sampling
    elsewhere |= {"copies_v1"}  # of fp8
    assert there - launched == elsewhere and len(there) > 25


@pytest.mark.parametrize("function", NAMES)
def test_pytorch_computes_the_same(function):
    pytest.importorskip("torch")
    version = versions(function)[0]
    case = coherent(version)
    before = {name: checks.in_double(cuda.asnumpy(a)) for name, a in case.arguments.items() if hasattr(a, "shape")}
    got = [tensor.detach().cpu().double().numpy() for tensor in counterpart(function, case.arguments)()]
    case = coherent(version)
    wanted = checks.results(version.launch, case, case.arguments)
    for name, mine, its in zip(theirs(function, case), wanted, got, strict=False):
        mine = checks.in_double(cuda.asnumpy(mine))
        adds = "backward" in function and np.isfinite(before[name]).all()
        if adds and (function, name) != ("layernorm_backward_rounded", "dx"):  # to which PyTorch's adds it, too
            mine = mine - before[name]
        assert checks.difference(its.reshape(mine.shape), mine) < 3e-2, name


def coherent(version):
    """A call whose numbers belong together, as those that PyTorch computes itself do."""
    case = version.make(EVEN, Numbers(cuda.xp))
    a, module = case.arguments, version.module
    if version.function.startswith("layernorm_backward"):
        module.layernorm_forward(a["dout"].copy(), a["mean"], a["rstd"], a["x"], a["w"], a["w"])
    if version.function == "gelu_matmul_backward":
        module.gelu_forward(a["x"], a["pre"])
    return case


def theirs(function, case):
    """Names of what PyTorch's counterpart returns."""
    return ["master"] if function == "adamw_update" else case.written or ["norm"]


def test_a_wrong_kernel_is_found(monkeypatch):
    def wrong(self, out, x):
        out[...] = cuda.asarray(cuda.asnumpy(x).astype(np.float32) * 1.02).astype(out.dtype)  # (B, T, 4C)

    monkeypatch.setattr(MixedVersion, "launch", wrong)
    row = checks.check(versions("gelu_forward"), SMALL)[0]
    assert not row["right"] and row["error"] > 1e-2


@on_emulator
def test_the_table_of_the_emulator(capsys):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    assert bench.run(parser.parse_args(["--kernels", "pointwise", "--precision", "bf16", "--json"])) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["kernel"] for row in rows] == ["residual_forward", "gelu_forward", "gelu_backward", "scale"]
    assert rows[1]["bytes"] == 2 * 2 * SMALL.B * SMALL.T * 4 * SMALL.C and rows[1]["over_needed"] < 1.01
    with pytest.raises(UserError, match="there is no kernel 'softmax' in float16; choose one of encoder_forward"):
        mixed_versions("softmax", TYPES["fp16"])


def test_pytorchs_time_is_beside_ours(monkeypatch):
    asked, group = [], versions("scale")
    monkeypatch.setattr(times, "GPT2_32", SMALL)
    monkeypatch.setattr(times, "ROTATE", 1)
    monkeypatch.setattr(times, "microseconds", lambda launches, graph: [each() for each in launches] and 2.0 + graph)
    monkeypatch.setattr(cuda, "name_of_gpu", lambda: "a GPU")

    def peer(function, arguments):
        asked.append(function)
        return lambda: None

    rows = checks.check(group, SMALL)
    times.add_times(group, rows, {"copy_gb_s": 1.0, "sgemm_tflop_s": 1.0}, peer)
    assert asked == ["scale"] and rows[0]["right"] and rows[0]["peer_us"] == 2.0 and rows[0]["us"] == 3.0
    assert "the library's bf16 product" in head(rows[0], "bf16") and "PyTorch µs" in head(rows[0], "bf16")
    assert re.search(r" 3\.0 .* 2\.0 ", line(rows[0]))
