"""One training run, from settings to a run folder: steps, validation, checkpoints, the log, and a clean end."""

import time
from contextlib import nullcontext, suppress
from threading import Timer

import numpy as np

from llmc.checkpoints.folder import checkpoints
from llmc.distributed import RankLost
from llmc.distributed.data_parallel import ALONE
from llmc.errors import UserError
from llmc.peaks import find_peak
from llmc.training.console import audience, silent
from llmc.training.continuation import load_run
from llmc.training.ends import RunDiverged, abandoned, changed_notice, failed
from llmc.training.report import PAUSE, STOP, RunFacts, StepReport, TrainResult
from llmc.training.run_folder import RunFolder, check_disk, save_our_part
from llmc.training.settings import TrainSettings
from llmc.training.start import check_before_data, find_communicator
from llmc.training.stop_request import AgreedStop, StopRequest
from llmc.training.stopwatch import Stopwatch
from llmc.training.trainer import Diverged, Stopped, Trainer

NAP = 0.05  # seconds between two questions to a listener that pauses the run
LONG = 2  # seconds of a first step, after which it is explained
COMPILING = "compiling CUDA kernels, once per machine: about 15 s on a GPU, longer on the emulator"
LOOKS = ("checkpoint_every", "val_every", "hellaswag_every", "sample_every")  # settings of what looks at the weights


def train(settings=None, on_step=None, quiet=False, save=True, ranks=ALONE) -> TrainResult:
    """Train a model; returns a TrainResult. By default this is the tiny preset on Python's own documentation.

    on_step: called with a StepReport after every step (and its `close()`, if it has one, at the end); without it,
        progress goes to the console, unless `quiet`. On a GPU, the next step is already running by then. Its return
        value may pause or stop the run, see report.py.
    save: write the run folder (see run_folder.py); False leaves no files.
    ranks: see llmc/distributed; all ranks make this call, but only rank 0 reports and writes the run folder.

    Ctrl-C, SIGTERM and SIGHUP end the run after the batch in progress; the run is saved, and `interrupted` is set. A
    second signal ends it at once, with KeyboardInterrupt. Raises UserError for bad settings or data, before any step,
    and its subclass RunDiverged if the loss is no longer a finite number.
    """
    settings = settings or TrainSettings()
    communicator = find_communicator(settings, ranks)
    check_before_data(settings)
    say, on_step = audience(on_step, quiet or ranks.rank)
    with RunFolder.create(settings.out, settings.title) if save and not ranks.rank else nullcontext() as folder:
        trainer = Trainer(settings, say, ranks=ranks, communicator=communicator)
        return _Run(trainer, folder, on_step, say=say, saves=save).drive()


def resume(run=None, on_step=None, quiet=False, ranks=ALONE, **changes) -> TrainResult:
    """Continue a run from its newest checkpoint as if it had never stopped: same batches, losses, weights.

    run: its folder, or its name in runs/; None takes the newest.
    changes: settings to replace, such as steps=3000 (counted from the beginning of the run) or learning_rate.
    on_step, quiet, ranks: as for `train`, as are the result and the errors.

    The earlier history is read from main.log, so it has four decimals. The number of ranks may differ from before; then
    the last bits differ, and batch_size may change too.
    """
    say, on_step = audience(on_step, quiet or ranks.rank)
    with load_run(run, changes, say, ranks) as (trainer, folder, history):
        return _Run(trainer, folder, on_step, history, say).drive()


class _Run:
    """A run, between two of its steps.

    folder: None if there is none, and on all ranks but 0 · history: the log so far, as read_log gives it · say(line) is
    told why the first step takes long · saves: whether rank 0 has a folder.
    """

    def __init__(self, trainer, folder, on_step, history=None, say=None, saves=True):
        t = self.trainer = trainer
        self.first = Timer(LONG, say, [COMPILING]) if say and t.settings.backend == "cuda" else None
        self.settings, self.folder, self.on_step, self.saves = t.settings, folder, on_step, saves
        if folder:
            check_disk(t.settings, t.config, folder.path, checkpoints(folder.path), t.step)
        self.history = history or {"val": [], "train": [], "eval": []}
        self.watch, self.told_to_stop = Stopwatch(), False
        self.notice = changed_notice(t.changed)
        self.facts = RunFacts(
            settings=t.settings,
            config=t.config,
            baselines=t.baselines,
            bytes_per_token=t.bytes_per_token,
            train_tokens=t.train_loader.num_tokens,
            val_tokens=t.val_loader.num_tokens,
            resumed_at=t.step,
            ranks=t.ranks.world,
            peak=None if on_step is silent else find_peak(t.settings.backend, t.settings.precision),
        )

    def drive(self) -> TrainResult:
        """Take all the remaining steps and end the run. A failure becomes one sentence that says what is saved."""
        try:
            if self.first:
                self.first.start()
            return self._drive()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(abandoned(self.trainer, self.folder)) from None
        finally:
            self._first_is_over()

    def _first_is_over(self):
        if self.first:
            self.first.cancel()

    def _drive(self):
        with StopRequest() as stop, np.errstate(all="ignore"):  # overflows are found by looking at loss and norm
            if self.trainer.ranks.world > 1:
                stop = AgreedStop(stop, self.trainer.ranks)
            try:
                self._loop(stop)
                self._checkpoint()
            except Diverged as error:
                raise RunDiverged(str(error), self.trainer, self.folder) from None
            except UserError as error:
                self._rescue(error)
                raise failed(error, self.trainer, self.folder) from None
            finally:
                self._close()
            try:
                return self._finish(stop)
            except UserError as error:
                raise failed(error, self.trainer, self.folder) from None

    # ------------------------------------------------------------------------------------------- steps

    def _loop(self, stop):
        """Validate before the first step, then take steps until the last one or a request to stop."""
        row = None
        while True:
            if row and self._is_due(self.settings.checkpoint_every):
                self._checkpoint()
            val = self._validate(stop) if self._is_due(self.settings.val_every) and not stop.requested else None
            accuracy = self._score(stop) if self._is_due(self.settings.hellaswag_every) and not stop.requested else None
            sample = self._sample(stop) if self._is_due(self.settings.sample_every) and row else None
            last = self.trainer.step == self.settings.steps or (stop.requested and not self.trainer.begun)
            self._send(self._report(row, val, accuracy, sample, last), stop)
            if last:
                return
            row = self._step(stop)
            stop.agree()

    def _is_due(self, every, step=None):
        step = self.trainer.step if step is None else step
        return bool(every) and (step % every == 0 or step == self.settings.steps)

    def _step(self, stop):
        """Take and log one step: (step, loss, lr, norm), or None if it was abandoned because of a request to stop.

        On a GPU, the next step is launched before this one's loss is read, unless something else comes first.
        """
        t, start = self.trainer, time.perf_counter()
        if self.told_to_stop and not t.begun:
            return None
        try:
            if not t.begun:
                t.begin_step(lambda: stop.requested)
            if t.overlaps_steps and not (stop.requested or self._pauses_after(t.step + 1)):
                t.begin_step(lambda: stop.requested)
        except Stopped:
            if not t.begun:
                return None
        row = self._end_step()
        self._first_is_over()
        self.watch.add_step(time.perf_counter() - start)
        return row

    def _pauses_after(self, step):
        """Whether something needs the weights as they are after this step."""
        s = self.settings
        pauses = (self._is_due(getattr(s, name), step) for name in LOOKS)
        return step == s.steps or any(pauses)

    def _end_step(self):
        row = (self.trainer.step, *self.trainer.end_step())
        self.history["train"].append(row)
        if self.folder:
            self.folder.log.train(*row)
        return row

    def _checkpoint(self):
        """Save the state of the run. Raises Diverged instead if the weights are useless."""
        if not self.saves or not self.trainer.step:
            return
        self.trainer.check_weights()
        if self.folder:
            self.notice = self.folder.save_checkpoint(self.trainer, self.history) or self.notice
        elif self.trainer.together.is_sharded:
            save_our_part(self.trainer)

    def _validate(self, stop):
        """Measure and log the validation loss; None if it was abandoned, or if a resumed run's log already has it."""
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

    def _score(self, stop):
        """Measure and log the accuracy on HellaSwag; returns None in the same cases as `_validate`."""
        step, start = self.trainer.step, time.perf_counter()
        if step in [row[0] for row in self.history["eval"][-1:]]:
            return None
        accuracy = self.trainer.hellaswag.accuracy(self.trainer.model, lambda: stop.requested)
        self.watch.scoring = time.perf_counter() - start
        if accuracy is None:
            return None
        if np.isnan(accuracy):
            raise Diverged(f"the loss on HellaSwag is not a number after step {step}")
        self.history["eval"].append((step, accuracy))
        if self.folder:
            self.folder.log.eval(step, accuracy)
        return accuracy

    def _sample(self, stop):
        """A text written by the model; only rank 0 needs it."""
        return None if self.trainer.ranks.rank else self.trainer.sample(stop.patience())

    def _report(self, row, val, accuracy, sample, last) -> StepReport:
        """The report on the step just taken or, without a row (its line in the log), the report before any step."""
        t, s, watch = self.trainer, self.settings, self.watch
        _, loss, lr, norm = row or (None,) * 4
        speed, peak = s.tokens_per_step / watch.mean if watch.mean else 0.0, self.facts.peak
        notice, self.notice = self.notice, None
        return StepReport(
            step=t.step,
            run=self.facts,
            history=self.history,
            ms=watch.last * 1e3,
            tokens_per_second=speed,
            mfu=peak and peak.utilisation(t.config, s.sequence_length, speed / t.ranks.world),
            seconds_left=watch.left(s.steps - t.step, s.val_every, s.hellaswag_every),
            last=last,
            loss=loss,
            lr=lr,
            norm=norm,
            loss_z=t.loss_detector.z if row else None,
            norm_z=t.norm_detector.z if row else None,
            skipped=t.skipped if row else None,
            val=val,
            bits_per_byte=None if val is None else t.bits_per_byte(val),
            hellaswag=accuracy,
            sample=sample,
            notice=notice,
        )

    def _send(self, report, stop):
        """Pass on a report, and pause or stop if the listener says so.

        If the listener's pipe is closed (`llmc train | head`), the run is saved and ends. If it cannot write for
        another reason (a full disk, a terminal that is gone), it is not called again.
        """
        try:
            while (answer := self.on_step(report)) == PAUSE and not stop.requested:
                time.sleep(NAP)
            if answer == STOP:
                stop.request()
                self.told_to_stop = self.trainer.ranks.world == 1  # other ranks begin the next step
        except BrokenPipeError:
            stop.request()
        except OSError:
            self.on_step = silent

    def _close(self):
        """Close the listener, once."""
        close, self.on_step = getattr(self.on_step, "close", None), silent
        if close:
            with suppress(OSError):
                close()

    # ------------------------------------------------------------------------------------------- ends

    def _rescue(self, error):
        """Save the state of a run that failed, if the disk allows it and no ranks that have ended are needed for it."""
        t = self.trainer
        if t.together.is_sharded or (isinstance(error, RankLost) and t.begun):
            return
        try:
            while self.trainer.begun:
                self._end_step()
            self._checkpoint()
        except (UserError, Diverged):
            pass

    def _finish(self, stop) -> TrainResult:
        """Write the rest of the run folder and return the result."""
        t, val, watch = self.trainer, self.history["val"], self.watch
        saved = self.folder is not None and t.step > 0
        tokens = (t.step - self.facts.resumed_at) * self.settings.tokens_per_step
        interrupted = stop.requested and t.step < self.settings.steps
        sample = t.sample(stop.patience()) if saved else ""
        self._checkpoint()  # again, if the folder has disappeared during the sample
        result = TrainResult(
            model=t.model,
            encoding=t.encoding,
            run=self.facts,
            history=self.history,
            bits_per_byte=t.bits_per_byte(val[-1][1]) if val else None,
            steps=t.step,
            seconds=watch.total,
            tokens_per_second=tokens / watch.steps if watch.steps else 0.0,
            run_dir=self.folder.path if saved else None,
            interrupted=interrupted,
            sample=sample,
            notice=self.notice,
        )
        if saved:
            self.folder.save_result(t, result)
        elif self.folder:
            self.folder.discard()
        return result
