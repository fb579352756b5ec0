"""`llmc bench`: its numbers are consistent, and the PyTorch peer does the same work."""

import argparse
import json
import re

import numpy as np
import pytest

from llmc.bench import step
from llmc.bench.profiling import by_function, profile
from llmc.bench.step import training_step
from llmc.commands import bench
from llmc.config import preset
from llmc.errors import UserError
from llmc.model import GPT2


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """What a matmul of 2048³ reaches is no business of a test: on the emulator it takes seconds."""
    monkeypatch.setattr(step, "SGEMM_SIZE", 256)
    monkeypatch.setattr(step, "STREAM_SIZE", 1 << 20)


def run(capsys, *words):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    assert bench.run(parser.parse_args(["--batch-size", "1", "--sequence-length", "8", "--steps", "3", *words])) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("backend", ["numpy", "cpu", "cuda"])
def test_bench_prints_one_json_object_that_adds_up(capsys, backend):
    r = json.loads(run(capsys, "--json", "--backend", backend))
    assert r["tokens_per_s"] * r["ms_per_step"] / 1e3 == pytest.approx(r["B"] * r["T"])
    assert 0 < r["share_of_sgemm"] == pytest.approx(r["gflops"] / r["sgemm_gflops"])
    assert r["over_floor"] == pytest.approx(r["ms_per_step"] / r["floor_ms"])
    assert r["blas"] and r["peak_memory_mb"] > 10 and r["ratio"] is None
    update = "adamw_update_by" if backend == "cuda" else "adamw_update"  # by settings on the device
    assert {"matmul_forward", "matmul_backward", update} <= set(r["layers_ms"])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_table_names_the_floor(capsys, precision):
    printed = run(capsys, "--precision", precision)
    assert "times that" in printed and f"tiny on cpu in {precision}, B=1 T=8" in printed
    assert re.search(rf"MFU +[\d.]+% of [\d.,]+ GFLOP/s in {precision} \(a matmul measured here\)", printed)


def test_a_step_in_tf32(capsys):
    printed = run(capsys, "--backend", "cuda", "--precision", "tf32")
    assert "tiny on cuda in tf32, B=1 T=8, recompute 1" in printed
    with pytest.raises(UserError, match="the cpu backend does not compute in tf32"):
        run(capsys, "--precision", "tf32")


def test_a_step_in_bf16_on_the_gpus_backend(capsys):
    assert "tiny on cuda in bf16, B=1 T=8" in run(capsys, "--backend", "cuda", "--precision", "bf16")


def test_the_peer_is_the_same_model_and_the_ratio_its_time_over_ours(capsys):
    pytest.importorskip("torch")
    r = json.loads(run(capsys, "--json", "--peer", "torch"))
    assert r["ratio"] == pytest.approx(r["peer_ms_per_step"] / r["ms_per_step"])


def test_pytorchs_mixed_precision_is_a_peer(capsys):
    pytest.importorskip("torch")
    from llmc.bench.torch_step import torch_step

    r = json.loads(run(capsys, "--json", "--vs", "torch-autocast", "--precision", "bf16"))
    assert r["ratio"] == pytest.approx(r["peer_ms_per_step"] / r["ms_per_step"])
    models = [GPT2(preset("tiny"), "cpu", precision) for precision in ("bf16", "fp32")]
    for model in models:
        model.init_weights()
    x = np.zeros((1, 8), np.int32)
    peers = [torch_step(models[1], fused=True, autocast=autocast) for autocast in ("bf16", None)]
    ours, mixed, exact = training_step(models[0], x, x), peers[0](x, x), peers[1](x, x)
    assert ours == pytest.approx(exact, rel=1e-2) and mixed == pytest.approx(exact, rel=1e-2) and mixed != exact


@pytest.mark.parametrize("fused", [False, True])
def test_the_peer_has_our_losses(fused):
    pytest.importorskip("torch")
    from llmc.bench.torch_step import torch_step

    model = GPT2(preset("tiny"), "cpu")
    model.init_weights()
    peer = torch_step(model, fused)
    x = np.random.RandomState(0).randint(0, model.config.V, (2, 9)).astype(np.int32)  # (B, T + 1)
    x, y = x[:, :-1], x[:, 1:]  # (B, T) both
    for _ in range(5):
        assert peer(x, y) == pytest.approx(training_step(model, x, y), rel=1e-5)


def test_a_profile_is_the_calls_of_a_step_in_order():
    model = GPT2(preset("tiny"))
    model.init_weights()
    backend, x = model.backend, np.zeros((1, 8), np.int32)
    calls = profile(model, lambda: training_step(model, x, x))
    assert model.backend is backend
    assert [call.start for call in calls] == sorted(call.start for call in calls)
    names = [call.name for call in calls]
    assert names.index("encoder_forward") < names.index("fused_classifier") < names.index("matmul_backward")
    assert names[-1] == "adamw_update"
    sums = by_function([calls])
    assert sum(sums.values()) == pytest.approx(sum(call.seconds for call in calls))


@pytest.mark.parametrize(
    "words", ["--versus 4 --steps 3", "--race 4 --steps 3", "--kernels gelu --batch-size 4", "--profile --backend cpu"]
)
def test_an_option_that_would_do_nothing_is_refused(words):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    with pytest.raises(UserError, match=r"does not use --(steps|batch-size|backend); leave it out"):
        bench.run(parser.parse_args(words.split()))
