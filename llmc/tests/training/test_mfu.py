"""The share of the device's FLOPs that a run uses, in its log line and its progress bar."""

import io
import re

import pytest

from llmc.config import PRESETS, GPT2Config
from llmc.peaks import Peak
from llmc.tests.tiny_corpus import write_corpus
from llmc.training import TrainSettings, loop, train
from llmc.training.console import BarConsole, PlainConsole


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Makes TrainSettings for two steps of a very small model, on a device with a peak of 1e9 FLOP/s."""
    monkeypatch.setitem(PRESETS, "nano", GPT2Config(maxT=16, L=1, NH=2, C=16))
    monkeypatch.setattr(loop, "find_peak", lambda backend, precision: None if backend == "cuda" else Peak(1e9, ""))
    write_corpus(tmp_path / "data")
    small = dict(preset="nano", batch_size=2, sequence_length=16, steps=2, warmup=1, val_batches=1, sample_tokens=4)
    return lambda **more: TrainSettings(**small, data=str(tmp_path / "data"), out=str(tmp_path / "run"), **more)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_log_line_has_it_and_names_the_precision(settings, capsys, precision):
    console = PlainConsole()
    seen = []
    train(settings(precision=precision, backend="numpy"), on_step=lambda report: (seen.append(report), console(report)))
    printed = re.findall(rf"ms \| ([\d.]+)% {precision} MFU \| (\d+) tok/s \|", capsys.readouterr().out)
    assert len(printed) == 2
    flops = seen[-1].run.config.flops_per_token(16)
    for (share, speed), report in zip(printed, seen[1:]):
        assert report.mfu == pytest.approx(report.tokens_per_second * flops / 1e9)
        assert float(share) == pytest.approx(100 * report.mfu, abs=0.051)
        assert int(speed) == round(report.tokens_per_second)


def test_nobody_looking_nothing_measured(settings, monkeypatch):
    monkeypatch.setattr(loop, "find_peak", lambda *which: pytest.fail("measured"))
    train(settings(backend="numpy"), quiet=True)


def test_no_share_where_no_peak_is_known(settings, capsys):
    train(settings(backend="cuda"), on_step=PlainConsole())
    printed = capsys.readouterr().out
    assert " ms | " in printed and "MFU" not in printed


def test_the_bar_has_it(settings, monkeypatch):
    lines = []
    console = BarConsole()

    def listen(report):
        console(report)
        lines.append(console.bar.postfix)

    monkeypatch.setattr("sys.stderr", io.StringIO())
    train(settings(backend="numpy"), on_step=listen)
    console.close()
    assert re.fullmatch(r"loss [\d.]+, [\d,]+ tok/s, \d+% MFU, [\d:]+ left", lines[-1])
