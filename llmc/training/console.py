"""The console output of a run: lines like llm.c's for files and pipes, a progress bar for terminals."""

import sys

from llmc.training.report import RunFacts, StepReport


def clock(seconds) -> str:
    """95 -> "1:35"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def headline(run: RunFacts) -> str:
    """One line each about the model, the data and the steps, and a fourth if the run continues from a checkpoint."""
    s, c = run.settings, run.config
    passes = s.steps * s.tokens_per_step / run.train_tokens
    batch = f"B={s.batch_size} x T={s.sequence_length}" + (f" x {s.micro_batches}" if s.micro_batches > 1 else "")
    shared = f" on {run.ranks} ranks" + (" with ZeRO-1" if s.zero else "") if run.ranks > 1 else ""
    lines = [
        f"model {s.model or s.preset}: {c.num_parameters:,} parameters (L={c.L} C={c.C} NH={c.NH} V={c.V}), backend"
        f" {s.backend}{f' in {s.precision}' if s.precision != 'fp32' else ''}",
        f"data {s.data}: {run.train_tokens:,} training and {run.val_tokens:,} validation tokens,"
        f" {run.bytes_per_token:.2f} bytes each on average",
        f"{s.steps:,} steps of {batch} tokens{shared}: {passes:.2f} passes over the training data",
    ]
    return "\n".join([*lines, f"continuing from step {run.resumed_at}"] if run.resumed_at else lines)


def val_line(report: StepReport) -> str:
    """ "val loss 3.0123 | 2.204 bits per byte"."""
    return f"val loss {report.val:.4f} | {report.bits_per_byte:.3f} bits per byte"


def hellaswag_line(report: StepReport) -> str:
    """ "HellaSwag accuracy 0.2951"."""
    return f"HellaSwag accuracy {report.hellaswag:.4f}"


def step_line(report: StepReport) -> str:
    """One step, as in llm.c's console line, with the time left at the end."""
    r, left = report, clock(report.seconds_left)
    line = (
        f"step {r.step:4d}/{r.run.settings.steps} | loss {r.loss:7.6f}{_z(r.loss_z)} | norm {r.norm:6.4f}{_z(r.norm_z)}"
        f" | lr {r.lr:.2e} | {r.ms:.2f} ms{_mfu(r)} | {r.tokens_per_second:.0f} tok/s | {left} left"
    )
    return f"{line}\n{skip_line(r)}" if r.skipped else line


def _z(z):
    """ " (+0.53z)", or "" while there is no z-score yet."""
    return "" if z is None else f" ({z:+.2f}z)"


def _mfu(r):
    """ " | 41.3% bf16 MFU", or "" if the device's peak is not known."""
    return "" if r.mfu is None else f" | {100 * r.mfu:.1f}% {r.run.settings.precision} MFU"


def skip_line(report: StepReport) -> str:
    """llm.c's line for a skipped update: "skipping update due to loss z-score of 5.31"."""
    return f"skipping update due to {report.skipped}"


class PlainConsole:
    """Prints lines on stdout, for files and pipes: every validation and sample, and about 50 of the steps."""

    def __init__(self):
        self.started = False

    def __call__(self, report: StepReport):
        """Print the lines that are due."""
        if not self.started:
            self.started = True
            print(headline(report.run), flush=True)
        if report.notice is not None:
            print(report.notice, flush=True)
        every = max(1, report.run.settings.steps // 50)
        due = report.step % every == 0 or report.step == report.run.resumed_at + 1 or report.last
        if report.loss is not None and (due or report.skipped):
            print(step_line(report), flush=True)
        if report.val is not None:
            print(val_line(report), flush=True)
        if report.hellaswag is not None:
            print(hellaswag_line(report), flush=True)
        if report.sample is not None:
            print(f"--- sample at step {report.step}\n{report.sample}\n---", flush=True)


class BarConsole:
    """A tqdm bar for terminals; validation losses and samples are printed above it."""

    def __init__(self):
        self.bar = None

    def __call__(self, report: StepReport):
        """Move the bar and print the lines that are due."""
        from tqdm import tqdm

        if self.bar is None:
            tqdm.write(headline(report.run))
            form = "{percentage:3.0f}%|{bar}| {n}/{total} [{elapsed}, {postfix}]"
            steps = dict(total=report.run.settings.steps, initial=report.step)
            self.bar = tqdm(**steps, bar_format=form, dynamic_ncols=True, leave=False)
        if report.notice is not None:
            tqdm.write(report.notice)
        if report.loss is not None:
            mfu = "" if report.mfu is None else f"{report.mfu:.0%} MFU, "
            speed = f"{report.tokens_per_second:,.0f} tok/s, {mfu}{clock(report.seconds_left)} left"
            text = f"loss {report.loss:.3f}, {speed}"
            self.bar.set_postfix_str(text, refresh=False)
            self.bar.update(report.step - self.bar.n)
        if report.skipped:
            tqdm.write(f"step {report.step:4d} | {skip_line(report)}")
        if report.val is not None:
            tqdm.write(f"step {report.step:4d} | {val_line(report)}")
        if report.hellaswag is not None:
            tqdm.write(f"step {report.step:4d} | {hellaswag_line(report)}")
        if report.sample is not None:
            tqdm.write(f"--- sample at step {report.step}\n{report.sample}\n---")

    def close(self):
        """Remove the bar."""
        if self.bar is not None:
            self.bar.close()


def audience(on_step, quiet):
    """(say, on_step): where to send lines about the preparation, and where to send the StepReports."""
    if on_step is not None:
        return None, on_step
    return (None, silent) if quiet else (print, console())


def silent(report: StepReport):
    """Print nothing."""


def console():
    """A progress bar on a terminal, lines otherwise."""
    return BarConsole() if sys.stdout.isatty() and sys.stderr.isatty() else PlainConsole()
