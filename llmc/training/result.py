"""The outcome of a run, in memory."""

from dataclasses import dataclass

from llmc.training.plot import plot_run


@dataclass
class TrainResult:
    """The outcome of `train`. Losses are in nats per token.

    model, encoding: the trained model and its tokenizer · run: its RunFacts (settings, config, baselines, …) · history:
    the log with all digits, in the form of read_log (with four decimals for anything before a resume) · bits_per_byte:
    from the last validation · steps: the total number made · seconds: the time of the whole loop since it was started
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
