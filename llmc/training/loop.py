"""One training run from settings to a run folder: steps, validation, the log, and a clean end however it ends."""

import time
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np

from llmc.data.tokenizer import END_OF_TEXT
from llmc.errors import UserError
from llmc.sampling import generate
from llmc.training.interrupt import StopRequest
from llmc.training.progress import RunFacts, StepReport, console
from llmc.training.result import TrainResult
from llmc.training.run_folder import RunFolder
from llmc.training.settings import TrainSettings
from llmc.training.trainer import Diverged, Trainer, check_before_data

RECENT = 20  # steps over which speed is averaged
SAMPLE_TEMPERATURE = 0.8  # a little bolder than the model is: small models are too unsure


@dataclass
class _Clock:
    """Durations of the run, for its speed and the time left."""

    start: float = field(default_factory=time.perf_counter)
    steps: float = 0.0  # seconds in training steps
    last: float = 0.0
    validation: float = 0.0  # of the last one
    recent: deque = field(default_factory=lambda: deque(maxlen=RECENT))

    def add_step(self, seconds):
        self.last = seconds
        self.steps += seconds
        self.recent.append(seconds)

    @property
    def mean(self):
        """Seconds per step, over the last ones."""
        return sum(self.recent) / len(self.recent) if self.recent else 0.0


def train(settings=None, on_step=None, quiet=False, save=True) -> TrainResult:
    """Train a model; returns a TrainResult. Defaults: the tiny preset on Python's own documentation.

    on_step: called with a StepReport after every step (and its `close()`, if it has one, at the end); without it
    progress goes to the console, unless `quiet`. save: write the run folder (see run_folder.py); False leaves no
    file. Ctrl-C and SIGTERM end the run after the step in progress, saved, with `interrupted` set. Raises UserError
    for bad settings or data, before any step, and when the loss is no finite number any more.
    """
    settings = settings or TrainSettings()
    check_before_data(settings)
    say = print if on_step is None and not quiet else None
    if on_step is None:
        on_step = (lambda report: None) if quiet else console()
    with RunFolder(settings.out, settings.name or settings.preset) if save else nullcontext() as folder:
        run = _Run(Trainer(settings, say), folder, on_step)
        with StopRequest() as stop, np.errstate(all="ignore"):  # what overflows is found by looking at loss and norm
            try:
                run.loop(stop)
            finally:
                getattr(on_step, "close", lambda: None)()
            return run.finish(stop.requested and run.trainer.step < settings.steps)


class _Run:
    """The state of `train` between its steps."""

    def __init__(self, trainer, folder, on_step):
        t = self.trainer = trainer
        self.settings, self.folder, self.on_step = t.settings, folder, on_step
        self.history = {"val": [], "train": [], "eval": []}
        self.clock = _Clock()
        path = folder.path if folder else None
        sizes = (t.train_loader.tokens.size, t.val_loader.tokens.size)
        self.facts = RunFacts(t.settings, t.config, path, t.baselines, t.bytes_per_token, *sizes)

    def loop(self, stop):
        """Validation in front of the first step, then steps until the last one or a wish to stop."""
        row = None
        while True:
            val = self._validate(stop) if self._is_due(self.settings.val_every) and not stop.requested else None
            sample = self._sample() if self._is_due(self.settings.sample_every) and row else None
            last = self.trainer.step == self.settings.steps or stop.requested
            self._report(row, val, sample, last, stop)
            if last:
                return
            row = self._step()

    def _is_due(self, every):
        step = self.trainer.step
        return bool(every) and (step % every == 0 or step == self.settings.steps)

    def _step(self):
        """One update, logged: (step, loss, lr, norm)."""
        step, start = self.trainer.step, time.perf_counter()
        try:
            row = (step, *self.trainer.train_step())
        except Diverged as reason:
            raise UserError(self._diverged(reason)) from None
        self.clock.add_step(time.perf_counter() - start)
        self.history["train"].append(row)
        if self.folder:
            self.folder.log.train(*row)
        return row

    def _validate(self, stop):
        """Validation loss, logged, and the model saved with it; None when it was left for a stop."""
        step, start = self.trainer.step, time.perf_counter()
        val = self.trainer.validate(lambda: stop.requested)
        self.clock.validation = time.perf_counter() - start
        if val is None:
            return None
        self.history["val"].append((step, val))
        if self.folder:
            self.folder.log.val(step, val)
            if 0 < step < self.settings.steps and np.isfinite(val):
                self.folder.save_model(self.trainer.model, self.trainer.encoding)
        return val

    def _sample(self):
        """Text that the model writes from the start of a document; where it ends one, the next begins on a new line."""
        t, s = self.trainer, self.settings
        window = s.sequence_length  # positions from there on were never trained
        start = [t.encoding.eot_token]
        ids = generate(t.model, start, s.sample_tokens, SAMPLE_TEMPERATURE, seed=s.seed, window=window)
        return t.encoding.decode(list(ids)).replace(END_OF_TEXT, "\n")

    def _report(self, row, val, sample, last, stop):
        """Tell whoever follows the run. A listener whose pipe is closed (`llmc train | head`) ends it, saved."""
        s, clock = self.settings, self.clock
        _, loss, lr, norm = row or (None,) * 4
        bits = None if val is None else self.trainer.bits_per_byte(val)
        speed = s.batch_size * s.sequence_length / clock.mean if clock.mean else 0.0
        to_go = s.steps - self.trainer.step
        left = to_go * clock.mean + -(-to_go // s.val_every) * clock.validation
        about = (clock.last * 1e3, speed, left, val, bits, sample, last, self.history, self.facts)
        try:
            self.on_step(StepReport(self.trainer.step, loss, lr, norm, *about))
        except BrokenPipeError:
            stop.requested = True

    def _diverged(self, reason):
        """The sentence for a run that cannot go on."""
        advice = f"lower the learning rate (it was {self.settings.learning_rate:g}) and start again"
        kept = ""
        if self.folder and self.folder.has_model:
            kept = f"; {self.folder.path} keeps the log and the model of the last validation"
        elif self.folder and self.history["train"]:
            kept = f"; {self.folder.path} keeps the log"
        return f"{reason} at step {self.trainer.step + 1}, so training stopped; {advice}{kept}."

    def finish(self, interrupted) -> TrainResult:
        """Write the run folder and hand over the result."""
        t, val, clock = self.trainer, self.history["val"], self.clock
        seconds = time.perf_counter() - clock.start
        bits = t.bits_per_byte(val[-1][1]) if val else None
        tokens = t.step * self.settings.batch_size * self.settings.sequence_length
        speed = tokens / clock.steps if clock.steps else 0.0
        about = (self.history, bits, t.step, seconds, speed, self.facts.run_dir, interrupted)
        result = TrainResult(t.model, t.encoding, self.facts, *about)
        if self.folder and t.step:
            self._save(result)
        elif self.folder:
            self.folder.discard()
            result.run_dir = None
        return result

    def _save(self, result):
        """The model first: what comes after it can be made again from it and the log."""
        self.folder.save_model(result.model, result.encoding)
        result.sample = self._sample()
        self.folder.save_sample(result.sample)
        self.folder.save_plot(result.plot())
