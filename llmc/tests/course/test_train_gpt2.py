"""Lesson 22's logs and answers, the dashboard and its buttons, the proposal, and where GPT-2 is looked for."""

from types import SimpleNamespace as Made

import numpy as np
import pytest

from llmc.checkpoints import write_model
from llmc.config import GPT2Config
from llmc.course.lessons.train_gpt2 import gpt2_124m, logs
from llmc.course.machine import proposal
from llmc.model import GPT2
from llmc.training.report import PAUSE, STOP

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("which", [("none", "", 10), ("warmup", "0", 1), ("val_data", "other letters", 0)])
def test_the_logs_are_of_runs_that_can_be_made_again(which):
    """The letters differ a little from one Python to the next, so their losses do, too."""
    rows, _ = logs.train(*which, steps=3)
    with np.load(logs.FILE) as file:
        stored = file["/".join(map(str, which)) + "/rows"]
    assert np.allclose(rows[:, :2], stored[:3, :2], rtol=1e-6, atol=[0.15, 0])


def report(step=2, **changes):
    run = Made(settings=Made(steps=4, clip=1.0), baselines={"uniform": 5.0}, bytes_per_token=2.0)
    history = {"train": [(k, 5.0 - k, 1e-3, 0.5 + k) for k in range(step)], "val": [(0, 5.0)]}
    facts = dict(loss=4.0, last=False, tokens_per_second=9.0, seconds_left=1.0, mfu=0.25, sample=None)
    return Made(**(facts | dict(step=step, run=run, history=history) | changes))


def test_dashboard_draws_what_there_is():
    from matplotlib.figure import Figure

    from llmc.course.figures.dashboard import draw_dashboard

    figure = Figure(figsize=(10, 5.6), layout="constrained")
    for r, speeds in ((report(0, loss=None, mfu=None), []), (report(3), [(1, 8.0, 0.2), (3, 9.0, 0.25)])):
        draw_dashboard(figure, r, speeds)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    norm, rate = "Gradient norm 2.50, 67% clipped", "Learning rate 1.0e-03"
    assert titles[:4] == ["Step 3 of 4", "9 tokens/s, 25% of the limit (36)", norm, rate]


def test_buttons_answer_the_run():
    from llmc.course.figures.dashboard import Dashboard

    board = Dashboard()
    assert board(report(1)) is None
    board.pause()
    assert board(report(2)) == PAUSE == board(report(2)) and len(board.speeds) == 2
    assert board(report(4, last=True)) is None  # a run that is over waits for nobody
    board.resume()
    assert board(report(3, sample="text")) is None and board.sample == "text"
    board.stop()
    assert board(report(3)) == STOP


def test_a_run_is_steered_from_outside_of_its_thread(tmp_path):
    import asyncio

    from llmc.course.figures.dashboard import Dashboard
    from llmc.tests.tiny_corpus import write_corpus
    from llmc.training import TrainSettings

    write_corpus(tmp_path / "data")
    small = dict(batch_size=2, sequence_length=16, steps=4000, warmup=2, val_every=4000, sample_tokens=8)
    settings = TrainSettings(**small, data=str(tmp_path / "data"), out=str(tmp_path / "run"))
    board, again = Dashboard(), Dashboard()

    async def steer():
        run = asyncio.create_task(board.train(settings))
        while len(board.speeds) < 3:
            await asyncio.sleep(0.01)
        board.pause()
        await asyncio.sleep(0.3)
        held = board.speeds[-1][0]
        await asyncio.sleep(0.3)
        assert board.speeds[-1][0] == held and not run.done()
        board.resume()
        while board.speeds[-1][0] <= held:
            await asyncio.sleep(0.01)
        run.cancel()  # what the kernel does when the toolbar's button is pressed
        result = await run
        return result, await again.resume_run(result.run_dir, steps=result.steps + 2)

    stopped, more = asyncio.run(steer())
    assert stopped.interrupted and stopped.steps < 4000
    assert more.steps == stopped.steps + 2 and not more.interrupted


def test_a_proposal_fits_into_its_minutes(monkeypatch):
    class Quick:
        def __init__(self, settings):
            self.settings, self.config = settings, Made(num_parameters=536_064)

        def train_step(self):
            clock[0] += 0.1

        def validate(self):
            clock[0] += 1.0

    clock = [0.0]
    monkeypatch.setattr(proposal, "Trainer", Quick)
    monkeypatch.setattr(proposal, "perf_counter", lambda: clock[0])
    made = proposal.propose(minutes=2)
    assert made.settings.steps == 960 and made.ms == pytest.approx(100)
    assert 0.1 * 960 + proposal.VALIDATIONS <= 2 * 60
    assert "960 steps" in str(made) and "--steps 960" in made.command()


def test_gpt2_is_found_where_it_is(tmp_path, monkeypatch):
    small = GPT2Config(maxT=64, V=16, L=1, NH=1, C=8)
    monkeypatch.setattr(gpt2_124m, "preset", lambda name: small)
    assert gpt2_124m.find_gpt2([tmp_path]) is None
    (tmp_path / "gpt2.bin").write_bytes(b"half a download")
    assert gpt2_124m.find_gpt2([tmp_path]) is None
    write_model(tmp_path / "gpt2_124M.bin", GPT2(small))
    assert gpt2_124m.find_gpt2([tmp_path / "no", tmp_path]) == tmp_path / "gpt2_124M.bin"
    monkeypatch.setattr(gpt2_124m.cuda, "device", lambda: "emulator")
    on_cpu = gpt2_124m.finetune_settings("x")
    monkeypatch.setattr(gpt2_124m.cuda, "device", lambda: "gpu")
    on_gpu = gpt2_124m.finetune_settings("x")
    shapes = [(it.batch_size, it.sequence_length, it.steps) for it in (on_cpu, on_gpu)]
    assert shapes == [(4, 64, 40), (4, 1024, 74)]
