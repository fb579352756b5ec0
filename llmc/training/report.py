"""What a run reports: a StepReport after every step, with the RunFacts that do not change, and finally a TrainResult.

To follow a run, pass `train` a function that takes a StepReport. If it has a `close` method, that is called at the end.
The function may return PAUSE, and then gets the same report again until it returns something else; or STOP, which saves
and ends the run as Ctrl-C does.
"""

from dataclasses import dataclass

from llmc.training.plot import plot_run

PAUSE, STOP = "pause", "stop"


@dataclass(frozen=True)
class RunFacts:
    """What does not change during a run.

    settings, config: of the run and its model · baselines: nats per token by name · bytes_per_token: mean length of a
    validation token · train_tokens, val_tokens: number of tokens in the files · resumed_at: steps taken before
    this process took over · peak: the most that the device can do (a Peak of llmc/peaks.py), None if unknown · ranks:
    how many processes train.
    """

    settings: object
    config: object
    baselines: dict
    bytes_per_token: float
    train_tokens: int
    val_tokens: int
    resumed_at: int = 0
    peak: object = None
    ranks: int = 1


@dataclass(frozen=True)
class StepReport:
    """One finished step. Losses are in nats per token.

    step: steps finished so far · run: see RunFacts · history: the log so far, as read_log gives it · ms: duration of
    the step · tokens_per_second: mean over the latest steps · mfu: the share of the device's peak FLOP/s that this is,
    None if the peak is not known · seconds_left: an estimate that includes validation · last: whether this is the last
    report.
    About the step itself (None in the first report, which comes before any step): loss, lr, norm · loss_z, norm_z:
    their z-scores among the last 128 steps, also None until there are that many · skipped: why the step made no update,
    None if it made one.
    None unless they are new: val, bits_per_byte (from a validation) · hellaswag (the accuracy, as a share) · sample (a
    text) · notice: a sentence about the run that its owner should read.
    """

    step: int
    run: RunFacts
    history: dict
    ms: float
    tokens_per_second: float
    seconds_left: float
    last: bool
    mfu: float | None = None
    loss: float | None = None
    lr: float | None = None
    norm: float | None = None
    loss_z: float | None = None
    norm_z: float | None = None
    skipped: str | None = None
    val: float | None = None
    bits_per_byte: float | None = None
    sample: str | None = None
    notice: str | None = None
    hellaswag: float | None = None


@dataclass
class TrainResult:
    """The outcome of `train`. Losses are in nats per token.

    model, encoding: the trained model and its tokenizer · run: its RunFacts (settings, config, baselines, …) · history:
    the log with all digits, in the form of read_log (with four decimals for anything before a resume) · bits_per_byte:
    from the last validation · steps: the total number taken · seconds: the time of the whole loop since it was started
    or resumed, including validation · tokens_per_second: of the steps alone · run_dir: the run folder, None if nothing
    was saved · interrupted: whether Ctrl-C or SIGTERM ended it before its last step · sample: the text in sample.txt ·
    notice: a sentence about the run that came up after the last report.
    """

    model: object
    encoding: object
    run: object
    history: dict
    bits_per_byte: float | None
    steps: int
    seconds: float
    tokens_per_second: float
    run_dir: object
    interrupted: bool
    sample: str = ""
    notice: str | None = None

    @property
    def losses(self) -> list:
        """Training loss of each step."""
        return [row[1] for row in self.history["train"]]

    @property
    def val(self) -> list:
        """[(step, validation loss)]."""
        return self.history["val"]

    @property
    def baselines(self) -> dict:
        """{"uniform", "unigram", "bigram"} on the validation data."""
        return self.run.baselines

    def plot(self):
        """The loss curve as a matplotlib Figure."""
        return plot_run(self.history, self.run.baselines, self.run.bytes_per_token)
