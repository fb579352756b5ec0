"""One training run from settings to a run folder: steps, validation, checkpoints, the log, and a clean end."""

import time
from contextlib import nullcontext

import numpy as np

from llmc.errors import UserError
from llmc.training.continuation import load_run
from llmc.training.ends import broken, diverged
from llmc.training.interrupt import StopRequest
from llmc.training.progress import RunFacts, StepReport, audience
from llmc.training.result import TrainResult
from llmc.training.run_folder import RunFolder
from llmc.training.settings import TrainSettings
from llmc.training.start import check_before_data
from llmc.training.stopwatch import Stopwatch
from llmc.training.trainer import Diverged, Stopped, Trainer


def train(settings=None, on_step=None, quiet=False, save=True) -> TrainResult:
    """Train a model; returns a TrainResult. Defaults: the tiny preset on Python's own documentation.

    on_step: called with a StepReport after every step (and its `close()`, if it has one, at the end); without it
    progress goes to the console, unless `quiet`. save: write the run folder (see run_folder.py); False leaves no
    file. Ctrl-C and SIGTERM end the run after the batch in progress, saved, with `interrupted` set. Raises UserError
    for bad settings or data, before any step, and when the loss is no finite number any more.
    """
    settings = settings or TrainSettings()
    check_before_data(settings)
    say, on_step = audience(on_step, quiet)
    with RunFolder.create(settings.out, settings.title) if save else nullcontext() as folder:
        return _Run(Trainer(settings, say), folder, on_step).drive()


def resume(run=None, on_step=None, quiet=False, **changes) -> TrainResult:
    """Go on with a run from its newest checkpoint, as if it had never stopped: same batches, losses, weights.

    run: its folder, or its name under runs/; None takes the newest · changes: settings to go on with, such as
    steps=3000 (counted from the run's beginning) or learning_rate · on_step, quiet, the result and the errors as of
    `train`. The history of what came before is read from main.log, so it has four digits.
    """
    say, on_step = audience(on_step, quiet)
    with load_run(run, changes, say) as (trainer, folder, history):
        return _Run(trainer, folder, on_step, history).drive()


class _Run:
    """A run between its steps. history: the log of what came before, in the form of read_log."""

    def __init__(self, trainer, folder, on_step, history=None):
        t = self.trainer = trainer
        self.settings, self.folder, self.on_step = t.settings, folder, on_step
        self.history = history or {"val": [], "train": [], "eval": []}
        self.watch = Stopwatch()
        path = folder.path if folder else None
        sizes = (t.train_loader.num_tokens, t.val_loader.num_tokens)
        self.facts = RunFacts(t.settings, t.config, path, t.baselines, t.bytes_per_token, *sizes, t.step)

    def drive(self) -> TrainResult:
        """All steps that are left, and the end. What goes wrong becomes one sentence, with what was kept."""
        with StopRequest() as stop, np.errstate(all="ignore"):  # what overflows is found by looking at loss and norm
            try:
                self._loop(stop)
                self._checkpoint()
            except Diverged as reason:
                raise UserError(diverged(reason, self.trainer, self.folder)) from None
            except UserError as error:
                raise UserError(self._rescue(error)) from None
            finally:
                getattr(self.on_step, "close", lambda: None)()
            return self._finish(stop.requested and self.trainer.step < self.settings.steps)

    # ------------------------------------------------------------------------------------------- steps

    def _loop(self, stop):
        """Validation in front of the first step, then steps until the last one or a wish to stop."""
        row = None
        while True:
            if row and self._is_due(self.settings.checkpoint_every):
                self._checkpoint()
            val = self._validate(stop) if self._is_due(self.settings.val_every) and not stop.requested else None
            sample = self.trainer.sample() if self._is_due(self.settings.sample_every) and row else None
            last = self.trainer.step == self.settings.steps or stop.requested
            self._report(row, val, sample, last, stop)
            if last:
                return
            row = self._step(stop)

    def _is_due(self, every):
        step = self.trainer.step
        return bool(every) and (step % every == 0 or step == self.settings.steps)

    def _step(self, stop):
        """One step, logged: (step, loss, lr, norm); None when it was left for a stop."""
        step, start = self.trainer.step, time.perf_counter()
        try:
            row = (step, *self.trainer.train_step(lambda: stop.requested))
        except Stopped:
            return None
        self.watch.add_step(time.perf_counter() - start)
        self.history["train"].append(row)
        if self.folder:
            self.folder.log.train(*row)
        return row

    def _checkpoint(self):
        """Keep where the run stands. Raises Diverged instead when the weights are not worth it."""
        if self.folder and self.trainer.step:
            self.trainer.check_weights()
            self.folder.save_checkpoint(self.trainer)

    def _validate(self, stop):
        """Validation loss, logged; None when it was left for a stop, or made before the run was resumed."""
        step, start = self.trainer.step, time.perf_counter()
        if step in [row[0] for row in self.history["val"][-1:]]:
            return None
        val = self.trainer.validate(lambda: stop.requested)
        self.watch.validation = time.perf_counter() - start
        if val is None:
            return None
        self.history["val"].append((step, val))
        if self.folder:
            self.folder.log.val(step, val)
        return val

    def _report(self, row, val, sample, last, stop):
        """Tell whoever follows the run. A listener whose pipe is closed (`llmc train | head`) ends it, saved."""
        t, s, watch = self.trainer, self.settings, self.watch
        _, loss, lr, norm = row or (None,) * 4
        bits = None if val is None else t.bits_per_byte(val)
        speed = s.tokens_per_step / watch.mean if watch.mean else 0.0
        left = watch.left(s.steps - t.step, s.val_every)
        about = (watch.last * 1e3, speed, left, val, bits, sample, last, self.history, self.facts)
        outliers = (t.loss_detector.z, t.norm_detector.z, t.skipped) if row else ()
        try:
            self.on_step(StepReport(t.step, loss, lr, norm, *about, *outliers))
        except BrokenPipeError:
            stop.requested = True

    # ------------------------------------------------------------------------------------------- ends

    def _rescue(self, error):
        """The sentence for a run that something else stopped, its state kept if the disk allows it."""
        try:
            self._checkpoint()
        except (UserError, Diverged):
            pass
        return broken(error, self.folder)

    def _finish(self, interrupted) -> TrainResult:
        """Write the rest of the run folder and hand over the result."""
        t, val, watch = self.trainer, self.history["val"], self.watch
        bits = t.bits_per_byte(val[-1][1]) if val else None
        tokens = (t.step - self.facts.resumed_at) * self.settings.tokens_per_step
        speed = tokens / watch.steps if watch.steps else 0.0
        about = (self.history, bits, t.step, watch.total, speed, self.facts.run_dir, interrupted)
        result = TrainResult(t.model, t.encoding, self.facts, *about)
        if self.folder and t.step:
            result.sample = t.sample()
            self.folder.save_result(t, result)
        elif self.folder:
            self.folder.discard()
            result.run_dir = None
        return result
