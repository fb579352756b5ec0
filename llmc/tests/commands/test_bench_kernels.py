"""`llmc bench --kernels`: every kernel has a case, every version of it is right on awkward sizes, the numbers add up.

What is checked here runs on a GPU where there is one, else on the emulator.
"""

import argparse
import json
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from llmc import cuda
from llmc.bench.kernels import checks, times
from llmc.bench.kernels.calls import MAKERS
from llmc.bench.kernels.cases import SMALL, Case, Numbers, Sizes
from llmc.bench.kernels.table import line
from llmc.bench.kernels.versions import AGREE_TF32, Version, versions
from llmc.commands import bench
from llmc.errors import UserError
from llmc.kernels import SOURCES, STEPS, cublas, encoder, layernorm, matmul, norm, source, tiling

ROOT = Path(__file__).resolve().parents[3]
on_gpu = pytest.mark.skipif(cuda.device() != "gpu", reason="needs a GPU")
on_emulator = pytest.mark.skipif(cuda.device() != "emulator", reason="counts what the emulator sees")
AWKWARD = {  # rows that no block divides, widths that four does not divide, frequent tokens, more than one tile
    "ones": Sizes(B=1, T=1, C=1, NH=1, V=1, Vp=4, parameters=1),
    "odd": Sizes(B=3, T=5, C=7, NH=1, V=5, Vp=8, parameters=127),
    "primes": Sizes(B=2, T=67, C=129, NH=3, V=61, Vp=128, parameters=4099),
    "wide": Sizes(B=1, T=9, C=1600, NH=25, V=1000, Vp=1024, parameters=40_001),
}
FUNCTIONS = list(dict.fromkeys(version.function for version in versions()))


def run(capsys, *words):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    assert bench.run(parser.parse_args(["--kernels", *words])) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("sizes", AWKWARD.values(), ids=AWKWARD)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_version_is_right(function, sizes):
    if function.startswith("matmul") and cuda.device() == "emulator":  # 92 million multiplications take it minutes
        sizes = replace(sizes, B=1, T=min(sizes.T, 37), C=min(sizes.C, 33))
    for row in checks.check(versions(function), sizes):
        assert row["right"], row


@on_emulator
def test_every_kernel_of_every_file_is_launched(monkeypatch):
    there = {name for layer in (*SOURCES, *STEPS) for name in re.findall(r"__global__ .*?(\w+)\([a-z]", source(layer))}
    launched = set()

    def launch(self, grid, block, args, shared_mem=0):
        launched.add(self.kernel.name)
        self.kernel(grid, block, args, shared_mem=shared_mem)

    monkeypatch.setattr(checks.Inspected, "__call__", launch)
    monkeypatch.setattr(tiling, "choose", lambda *sizes: (tiling.TILES[0], 2))  # two parts, which are then added
    for function in FUNCTIONS:
        checks.check(versions(function), SMALL)
        checks.check(versions(function), AWKWARD["odd"])
    with ExitStack() as stack:
        for module in (norm, encoder, cublas, layernorm, matmul):  # what no ladder above has launched
            stack.enter_context(checks.inspected(module))
        norm.clip_factor(np.ones(1, np.float32), np.ones(1), 1.0)
        x, w = np.ones((1, 4, 8), np.float32), np.ones(8, np.float32)
        layernorm.layernorm_again(np.empty_like(x), x, w, w, x[..., 0].copy(), x[..., 0].copy())
        matmul.gelu_again(np.empty_like(x), x)
        encoder.encoder_forward_at(np.empty((2, 1, 8), np.float32), np.int32([0, 1]), x[0], x[0], np.int32([3]))
        for version in (1, 2):
            cublas.transpose(np.empty((4, 8), np.float32), np.ones((8, 4), np.float32), version)
        numbers = [np.ones(n, np.float32) for n in (12, 32, 24)]  # (4, 3), (4, 8), (3, 8)
        matmul.in_warp_tiles("matmul_forward", *numbers, 4, 3, 8, tile=tiling.TENSOR_CORES[0], version=10)
        cublas.matmul_row(np.empty(3, np.float32), np.ones(8, np.float32), np.ones((3, 8), np.float32))
    assert there - launched == set() and len(there) > 40


def test_every_function_has_a_case():
    assert set(FUNCTIONS) == set(MAKERS)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_case_counts_the_bytes_of_its_arrays(function):
    """At least the results, at most all arrays both read and written."""
    case = MAKERS[function](SMALL, Numbers(cuda.xp))
    arrays = [a for a in case.arguments.values() if hasattr(a, "nbytes")]
    assert min(a.nbytes for a in arrays) <= case.nbytes <= 2 * sum(a.nbytes for a in arrays)
    assert case.flops > 0


def test_a_wrong_kernel_is_found(monkeypatch, capsys):
    def wrong(self, out, x):
        out[...] = x + 1e-4  # (B, T, 4C)

    version = versions("gelu_forward")[0]
    monkeypatch.setattr(Version, "launch", wrong)
    row = checks.check([version], SMALL)[0]
    assert not row["right"] and row["error"] > 1e-5


def test_nan_is_wrong():
    got, expected = np.float32([1, np.nan]), np.float32([1, 1])
    assert checks.difference(got, expected) == np.inf
    assert checks.difference(expected, expected) == 0


def test_names():
    assert [v.name for v in versions("gelu_forward_v2")] == ["gelu_forward_v2"]
    assert {v.function for v in versions("layernorm")} == {
        "layernorm_forward",
        "residual_layernorm_forward",
        "layernorm_backward",
    }
    with pytest.raises(UserError, match="no kernel 'gleu'; choose one of .*gelu_forward"):
        versions("gleu")


def test_what_llmc_uses_is_known():
    chosen = {v.function: v.number for v in versions() if v.chosen and v.number}
    assert (chosen["gelu_forward"], chosen["layernorm_backward"], chosen["global_norm"]) == (2, 5, 2)


@on_emulator
def test_the_table_says_which_versions_round_differently():
    row = checks.check(versions("global_norm_v1"), SMALL)[0]
    assert "bits" not in line(row) and line(row | {"repeats": False}).endswith("different bits in each run")


def test_what_llmc_uses_must_repeat_its_bits(monkeypatch):
    """One that does not is wrong, however close it is."""
    run = Version.launch
    noise = iter(np.float32(1) + np.float32(1e-7) * np.arange(100, dtype=np.float32))

    def restless(self, **arguments):
        run(self, **arguments)
        arguments["grads"] *= next(noise)

    monkeypatch.setattr(Version, "launch", restless)
    group = versions("scale")
    rows = [{"right": True} for _ in group]
    small = dict(GPT2_32=SMALL, ROTATE=1, microseconds=lambda launches, graph: 1.0)
    monkeypatch.setattr(cuda, "name_of_gpu", lambda: "a GPU")
    for name, value in small.items():
        monkeypatch.setattr(times, name, value)
    times.add_times(group, rows, {"copy_gb_s": 1.0, "sgemm_tflop_s": 1.0})
    assert [(row["repeats"], row["right"]) for row in rows] == [(False, True), (False, False)]


@on_emulator
def test_the_table_and_the_json_of_the_emulator(capsys):
    table = run(capsys, "layernorm_forward")
    rows = json.loads(run(capsys, "layernorm_forward", "--json"))
    assert [row["kernel"] for row in rows] == re.findall(r"^layernorm_forward_v\d", table, re.MULTILINE)
    assert rows[0]["over_ideal"] > 5 > 1.01 > rows[5]["over_ideal"]
    assert rows[1]["barriers"] > rows[2]["barriers"] > rows[3]["barriers"] == 0
    assert rows[3]["over_needed"] > rows[4]["over_needed"] > rows[5]["over_needed"]


def test_rates_are_shares_of_the_nearer_limit():
    bounds = {"copy_gb_s": 4000.0, "sgemm_tflop_s": 50.0}
    moving = times.rates(Case("", {}, [], nbytes=4_000_000, flops=1), 2.0, bounds)
    assert (moving["limit"], moving["gb_s"]) == ("memory", 2000) and moving["share"] == pytest.approx(0.5)
    computing = times.rates(Case("", {}, [], nbytes=1, flops=100_000_000), 4.0, bounds)
    assert (computing["limit"], computing["tflop_s"]) == ("compute", 25) and computing["share"] == pytest.approx(0.5)


@on_gpu
def test_the_table_of_a_gpu(capsys):
    rows = json.loads(run(capsys, "residual_forward", "--json"))
    assert [row["kernel"] for row in rows] == [f"residual_forward_v{v}" for v in (1, 2, 3)]
    for row in rows:
        assert row["gb_s"] / row["share"] == pytest.approx(row["copy_gb_s"], rel=1e-2)
        assert 0.3 < row["share"] < 1.2 and row["apart"] == 0


def test_the_stored_table_of_the_h200_is_whole():
    rows = json.loads((ROOT / "notebooks/reference/h200_kernels.json").read_text(encoding="utf-8"))
    assert all(row["right"] and row["device"] == "NVIDIA H200" for row in rows)
    assert {row["kernel"].rsplit("_", 1)[0] for row in rows} == set(FUNCTIONS)
    for row in rows:
        shares = row["gb_s"] / row["copy_gb_s"], row["tflop_s"] / row["sgemm_tflop_s"]
        assert row["share"] == pytest.approx(max(shares), rel=2e-3)
        assert row["limit"] == ("memory" if shares[0] > shares[1] else "compute")


@on_emulator
def test_tf32_has_a_table_of_its_own(capsys):
    rows = json.loads(run(capsys, "attention", "--precision", "tf32", "--json"))
    assert [row["kernel"] for row in rows] == ["attention_forward_v7", "attention_backward_v5"]
    assert rows[0]["right"] and 1e-5 < rows[0]["error"] < AGREE_TF32
    with pytest.raises(UserError, match="there is no kernel 'gelu_forward'"):
        versions("gelu_forward", tf32=True)
