"""What a run tells while it goes: a StepReport after every step, and the console that shows it.

Whoever wants to follow a run passes a function of one StepReport; if it has a `close` method, that is called at the
end.
"""

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class StepReport:
    """One finished step. Losses are nats per token.

    step: steps finished, 1 … steps · loss, norm, lr: of this step; None in the first report, which stands in front of
    the first step (or of the first after a resume) · ms: its duration · tokens_per_second: mean over the last steps ·
    seconds_left: estimate, validation included · val, bits_per_byte: set when validation has just been measured ·
    sample: set when a sample has just been written · last: nothing comes after it · history: the log so far, as
    read_log gives it · run: the run's facts, see RunFacts · loss_z, norm_z: z-scores among the last 128 steps, None
    until there are as many · skipped: why this step made no update, None when it made one.
    """

    step: int
    loss: float | None
    lr: float | None
    norm: float | None
    ms: float
    tokens_per_second: float
    seconds_left: float
    val: float | None
    bits_per_byte: float | None
    sample: str | None
    last: bool
    history: dict
    run: "RunFacts"
    loss_z: float | None = None
    norm_z: float | None = None
    skipped: str | None = None


@dataclass(frozen=True)
class RunFacts:
    """What does not change during a run: settings and config, the folder it writes (or None), what to compare with.

    baselines: nats per token by name · bytes_per_token: mean length of a validation token · train_tokens, val_tokens:
    ids in their files · resumed_at: steps that were made before this process took over.
    """

    settings: object
    config: object
    run_dir: object
    baselines: dict
    bytes_per_token: float
    train_tokens: int
    val_tokens: int
    resumed_at: int = 0


def clock(seconds) -> str:
    """95 -> "1:35"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def headline(run: RunFacts) -> str:
    """Two lines on what is about to be trained on what; a third when it goes on from a checkpoint."""
    s, c = run.settings, run.config
    passes = s.steps * s.tokens_per_step / run.train_tokens
    batch = f"B={s.batch_size} x T={s.sequence_length}" + (f" x {s.micro_batches}" if s.micro_batches > 1 else "")
    return (
        f"model {s.model or s.preset}: {c.num_parameters:,} parameters (L={c.L} C={c.C} NH={c.NH} V={c.V}), backend"
        f" {s.backend}\n"
        f"data {s.data}: {run.train_tokens:,} training and {run.val_tokens:,} validation tokens of "
        f"{run.bytes_per_token:.2f} bytes; {s.steps} steps of {batch} = {passes:.1f} passes"
    ) + (f"\ngoing on from step {run.resumed_at}" if run.resumed_at else "")


def val_line(report: StepReport) -> str:
    """ "val loss 3.0123 | 2.204 bits per byte"."""
    return f"val loss {report.val:.4f} | {report.bits_per_byte:.3f} bits per byte"


def step_line(report: StepReport) -> str:
    """One step in the form of llm.c's console line, with the time left at its end."""
    r, left = report, clock(report.seconds_left)
    line = (
        f"step {r.step:4d}/{r.run.settings.steps} | loss {r.loss:7.6f}{_z(r.loss_z)} | norm {r.norm:6.4f}{_z(r.norm_z)}"
        f" | lr {r.lr:.2e} | {r.ms:.2f} ms | {r.tokens_per_second:.0f} tok/s | {left} left"
    )
    return f"{line}\n{skip_line(r)}" if r.skipped else line


def _z(z):
    """ " (+0.53z)", and nothing while there is no z-score."""
    return "" if z is None else f" ({z:+.2f}z)"


def skip_line(report: StepReport) -> str:
    """What an outlier is answered with: "skipping update due to loss z-score of 5.31"."""
    return f"skipping update due to {report.skipped}"


class PlainConsole:
    """Lines on stdout, for files and pipes: every validation, and one step in `every` (None: about 50 in all)."""

    def __init__(self, every=None):
        self.every = every
        self.started = False

    def __call__(self, report: StepReport):
        """Print what is due."""
        if not self.started:
            self.started = True
            print(headline(report.run), flush=True)
        every = self.every or max(1, report.run.settings.steps // 50)
        due = report.step % every == 0 or report.step == report.run.resumed_at + 1 or report.last
        if report.loss is not None and (due or report.skipped):
            print(step_line(report), flush=True)
        if report.val is not None:
            print(val_line(report), flush=True)
        if report.sample is not None:
            print(f"--- sample at step {report.step}\n{report.sample}\n---", flush=True)


class BarConsole:
    """A tqdm bar, for terminals; validation and samples are printed above it."""

    def __init__(self):
        self.bar = None

    def __call__(self, report: StepReport):
        """Move the bar and print what is due."""
        from tqdm import tqdm

        if self.bar is None:
            tqdm.write(headline(report.run))
            form = "{percentage:3.0f}%|{bar}| {n}/{total} [{elapsed}, {postfix}]"
            steps = dict(total=report.run.settings.steps, initial=report.step)
            self.bar = tqdm(**steps, bar_format=form, dynamic_ncols=True, leave=False)
        if report.loss is not None:
            text = f"loss {report.loss:.3f}, {report.tokens_per_second:,.0f} tok/s, {clock(report.seconds_left)} left"
            self.bar.set_postfix_str(text, refresh=False)
            self.bar.update(report.step - self.bar.n)
        if report.skipped:
            tqdm.write(f"step {report.step:4d} | {skip_line(report)}")
        if report.val is not None:
            tqdm.write(f"step {report.step:4d} | {val_line(report)}")
        if report.sample is not None:
            tqdm.write(f"--- sample at step {report.step}\n{report.sample}\n---")

    def close(self):
        """Take the bar away."""
        if self.bar is not None:
            self.bar.close()


def audience(on_step, quiet):
    """(who is told about the preparation, who about the steps): a listener alone, nobody, or the console."""
    if on_step is not None:
        return None, on_step
    return (None, lambda report: None) if quiet else (print, console())


def console():
    """A bar when a person is watching, lines when not."""
    return BarConsole() if sys.stdout.isatty() and sys.stderr.isatty() else PlainConsole()
