"""`llmc bench --versus` and `--profile`: what they print, and what they say without a GPU."""

import argparse

import numpy as np
import pytest

from llmc import cuda, kernels
from llmc.bench import gpu_profile, versus
from llmc.bench.kernels.floors import least
from llmc.commands import bench
from llmc.config import preset
from llmc.errors import UserError
from llmc.model import GPT2

without_gpu = pytest.mark.skipif(cuda.device() == "gpu", reason="what is said without a GPU")


def options(*words):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return parser.parse_args(words)


@without_gpu
@pytest.mark.parametrize("words", [["--versus", "2"], ["--profile", "--batch-size", "2"]])
def test_without_a_gpu_both_say_so(words):
    with pytest.raises(UserError, match="needs a GPU"):
        bench.run(options(*words, "--sequence-length", "8"))


@pytest.mark.skipif(cuda.device() != "gpu", reason="needs a GPU")
def test_torch_compile_is_timed_beside_it(capsys):
    assert bench.run(options("--versus", "1", "2", "--sequence-length", "8")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == versus.HEAD and len(lines) == 1 + 2 * 4


class Turns:
    """A runner whose steps take no time."""

    def begin(self):
        self.steps = 0

    def step(self, i):
        self.steps += 1

    def memory(self):
        return 2e9


def test_runners_take_turns_and_a_row_fits_the_head():
    runners = {"llmc": Turns(), "torch.compile": Turns()}
    rows = versus._take_turns(runners)
    assert [row["who"] for row in rows] == list(runners)
    assert {runner.steps for runner in runners.values()} == {versus.WARM_UP + versus.TURNS * (versus.STEPS + 2)}
    row = rows[0] | dict(B=4, T=1024, numbers="TF32", ms=19.07, tokens_per_s=214765.0, mfu=0.371)
    row |= dict(ratio=1.47, host_ms=1.4)
    assert versus.line(row).endswith(" 37.1%   1.47x   2.0 GB   1.4 ms") and len(versus.line(row)) == len(versus.HEAD)


class Clock:
    """Events that are one millisecond apart, in place of CuPy's."""

    now = 0

    def record(self):
        Clock.now += 1
        self.at = Clock.now

    def synchronize(self):
        """There is nothing to wait for."""


@pytest.fixture
def events(monkeypatch):
    class Cuda:
        Event = Clock
        get_elapsed_time = staticmethod(lambda begin, end: float(end.at - begin.at))

    class Door:
        class xp:
            cuda = Cuda

    monkeypatch.setattr(gpu_profile, "cuda", Door)


def test_a_profile_has_every_function_with_its_kernels_and_floors(events):
    model = GPT2(preset("tiny"), "cuda")
    model.init_weights()
    model.backend = backend = gpu_profile.EventBackend(model.backend)
    with kernels.watched(backend.watch):
        whole = gpu_profile._step(model, np.zeros((1, 8), np.int32))
    result = gpu_profile.table([(whole, gpu_profile.sums(backend.spans, {False: (1e6, 1e9), True: (1e6, 2e9)}))])
    rows = {(row["function"], row["kernel"]): row for row in result["rows"]}
    L = model.config.L
    assert rows["attention_forward", None]["calls"] == L and rows["residual_layernorm_forward", None]["calls"] == 2 * L
    kernel = next(row for (function, name), row in rows.items() if function == "gelu_backward" and name)
    assert kernel["calls"] == L and kernel["ms"] == L and kernel["floor_ms"] is None
    assert rows["gelu_backward", None]["ms"] == 3 * L  # the two events of its kernel lie between its own
    assert {row["function"] for row in result["rows"]} >= {"clip", "adamw_update_by", "matmul_backward", "zero"}
    functions = [row["ms"] for row in result["rows"] if row["kernel"] is None]
    assert functions == sorted(functions, reverse=True)
    text = gpu_profile.text(result)
    assert text.splitlines()[-1].startswith("step") and "    gelu_backward_v" in text
    assert kernels.kernel("norm", "scale_v1") is kernels.kernel("norm", "scale_v1")  # nobody watches now


def test_a_floor_counts_what_is_read_and_written():
    x, w, b = np.zeros((2, 3, 8), np.float32), np.zeros((5, 8), np.float32), np.zeros(5, np.float32)
    out = np.zeros((2, 3, 5), np.float32)
    assert least("matmul_forward", (out, x, w, b), {}) == (4 * (30 + 48 + 40 + 5), 2 * 6 * 5 * 8)
    assert least("matmul_backward", (x, w, b, out, x, w), {}) == (4 * (48 + 80 + 30 + 48 + 40), 4 * 6 * 5 * 8)
    assert least("matmul_backward", (None, w, b, out, x, w), {})[1] == 2 * 6 * 5 * 8
    flat, settings = np.zeros(10, np.float32), np.zeros(7, np.float32)
    assert least("adamw_update_by", (flat,) * 4 + (None, settings), dict(clear=True)) == (320, 0)
    assert least("adamw_update_by", (flat,) * 4 + (None, settings), {}) == (280, 0)
    assert least("to_numpy", (flat,), {}) is None


@pytest.mark.parametrize("precision", ["fp32", "fp8"])
def test_every_function_of_a_step_has_a_floor_or_does_no_work(precision, monkeypatch):
    from llmc.bench.profiling import profile

    monkeypatch.setattr("llmc.backends.gpu_fp8.CudaFp8.HEAD_ROWS", 64)  # so that logits come in parts
    model = GPT2(preset("tiny"), "cuda", precision)
    model.init_weights()
    calls = profile(model, lambda: gpu_step(model, B=32))
    no_work = {"attention_stats_shape", "from_numpy", "adamw_settings", "later", "to_numpy"}
    from llmc.bench.kernels.floors import LEAST

    assert {call.name for call in calls} - no_work <= set(LEAST)
    fp8 = {"classifier_gradient", "attention_bias_backward"}  # what fp8 alone has
    assert ({call.name for call in calls} >= fp8) == (precision == "fp8")


def gpu_step(model, B=1):
    x = np.zeros((B, 8), np.int32)  # (B, T)
    model.launch(x, x, dloss=1.0)
    model.backward()
    model.update(1e-4, zero_grad=True, max_norm=1.0)
