"""A training run seen live and steered: loss, speed, gradient norm, learning rate, a sample, and three buttons.

Everything but the buttons is an ordinary output, as in live.py: where no widget is drawn, the last state stays as a
picture. A press only sets a flag, which the run reads after every step. It arrives while a cell waits with `await`, so
the run has a thread of its own; other cells wait until it is over, as for any run.
"""

import asyncio

import numpy as np

from llmc.course.figures.live import LivePlot, _Text
from llmc.course.figures.style import BLUE, RED
from llmc.training.plot import draw_run
from llmc.training.report import PAUSE, STOP

SIZE = (10, 5.6)  # inches
LAYOUT = [["loss", "speed"], ["loss", "norm"], ["loss", "rate"]]
SMALL = dict(loc="left", fontsize=10.5, fontweight="normal")


class Dashboard(LivePlot):
    """Follows a run, and lets you pause, resume and stop it: `result = await Dashboard().train(TrainSettings(...))`.

    every: seconds between two drawings; one takes about 0.4 s, which the training waits for. A stopped run is saved.
    Presses arrive during a run with ipykernel 7.4 or newer; the ■ of the toolbar stops it everywhere. `train(settings,
    on_step=Dashboard())` also draws it, in the cell's own thread, where presses wait until it is over.
    """

    def __init__(self, every: float = 2.0):
        super().__init__(every)
        self.speeds = []  # (step, tokens per second, share of the device's FLOPs or None)
        self.paused = self.stopped = False
        self.sample = ""
        self._buttons = self._text = self._shown = None

    def __call__(self, report):
        """Take note of a StepReport. Returns what the run should do next: see llmc/training/report.py."""
        if not (self.speeds and self.speeds[-1][0] == report.step) and report.loss is not None:
            self.speeds.append((report.step, report.tokens_per_second, report.mfu))
        self.sample = report.sample or self.sample
        super().__call__(report)
        if self._plot is not None and self._shown != (self.paused, self.stopped):
            self._shown = self.paused, self.stopped
            self._draw()
        return STOP if self.stopped else PAUSE if self.paused and not report.last else None

    async def train(self, settings=None, **options):
        """llmc.training.train in a thread of its own; await it. Arguments, result and errors are the same."""
        from llmc.training import train

        return await self._steered(train, settings, **options)

    async def resume_run(self, run=None, **options):
        """llmc.training.resume in a thread of its own; await it. Arguments, result and errors are the same."""
        from llmc.training import resume

        return await self._steered(resume, run, **options)

    async def _steered(self, function, *arguments, **options):
        work = asyncio.create_task(asyncio.to_thread(function, *arguments, on_step=self, **options))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:  # the ■ of the toolbar
            self.stop()
            return await work

    def pause(self, *unused):
        """Hold the run after the step in progress."""
        self.paused = True
        self._show_buttons()

    def resume(self, *unused):
        """Go on."""
        self.paused = False
        self._show_buttons()

    def stop(self, *unused):
        """End the run after the step in progress; it is saved."""
        self.stopped, self.paused = True, False
        self._show_buttons()

    def close(self):
        """Leave the last state as the output that is stored, and switch the buttons off."""
        super().close()
        if self._text is not None:
            self._text.update(_Text(self._said()))
        if self._buttons:
            for button in self._buttons:
                button.disabled = True
        self._text = None

    def _open(self):
        from IPython.display import display

        super()._open()
        if self._plot is None:
            return
        self._buttons = _buttons((self.pause, self.resume, self.stop))
        if self._buttons:
            from ipywidgets import HBox

            display(HBox(self._buttons))
            self._show_buttons()
        self._text = display(_Text("…"), display_id=True)
        self._shown = False, False

    def _show_buttons(self):
        if self._buttons:
            pause, resume, stop = self._buttons
            pause.disabled = self.paused or self.stopped
            resume.disabled, stop.disabled = not self.paused, self.stopped

    def _draw(self):
        super()._draw()
        if self._text is not None:
            from html import escape

            from IPython.display import HTML

            self._text.update(HTML(f'<pre style="white-space:pre-wrap">{escape(self._said())}</pre>'))

    def _said(self):
        return f"latest sample:\n{self.sample}" if self.sample else "no sample yet"

    def _status(self):
        status = super()._status()
        if self.stopped:
            return f"{status} · {'stopped' if self._report.last else 'stopping'}"
        return f"{status} · paused" if self.paused else status

    def _picture(self, r):
        from matplotlib.figure import Figure

        figure = self._figure or Figure(figsize=SIZE, dpi=144, layout="constrained")
        draw_dashboard(figure, r, self.speeds)
        return figure


def _buttons(actions):
    """[pause, resume, stop], or [] where there is no ipywidgets."""
    try:
        from ipywidgets import Button
    except ImportError:
        return []
    made = [Button(description=name, icon=icon) for name, icon in (("pause", "pause"), ("resume", "play"))]
    made.append(Button(description="stop and save", icon="stop", button_style="warning"))
    for button, action in zip(made, actions, strict=True):
        button.on_click(action)
    return made


def draw_dashboard(figure, report, speeds):
    """Draw the four panels of a run into a matplotlib figure.

    report: the latest StepReport · speeds: [(step, tokens per second, share of the device's FLOPs or None)].
    """
    figure.clear()
    axes = figure.subplot_mosaic(LAYOUT, width_ratios=(1.75, 1))
    run, steps = report.run, report.run.settings.steps
    draw_run(axes["loss"], report.history, run.baselines, run.bytes_per_token, steps)
    figure.suptitle(axes["loss"].get_title(loc="left"), x=0.01, ha="left", fontsize=12, fontweight="bold")
    axes["loss"].set_title(f"Step {report.step} of {steps}", **SMALL)
    _speed(axes["speed"], np.array([row[:2] for row in speeds], float).reshape(-1, 2), report)
    log = np.array(report.history["train"], float).reshape(-1, 4)  # (steps, 4)   step, loss, learning rate, norm
    _norm(axes["norm"], log, run.settings.clip)
    axes["rate"].plot(log[:, 0], 1e3 * log[:, 2], color=BLUE, lw=1.6)
    axes["rate"].set(xlabel="training step", ylabel="rate (1/1000)", ylim=(0, None))
    axes["rate"].set_title(f"Learning rate {log[-1, 2]:.1e}" if len(log) else "Learning rate", **SMALL)
    for name in ("speed", "norm", "rate"):
        axes[name].set_xlim(0, steps)
        axes[name].spines[["top", "right"]].set_visible(False)
        if name != "rate":
            axes[name].tick_params(labelbottom=False)


def _speed(ax, speeds, report):
    """Tokens per second, and the limit: those that the device would do if it did nothing but matmuls."""
    ax.plot(speeds[:, 0], speeds[:, 1] / 1e3, color=BLUE, lw=1.6)
    ax.set(ylabel="1000 tokens/s")
    title = "Speed"
    if len(speeds):
        title = f"{speeds[-1, 1]:,.0f} tokens/s"
    if report.mfu:
        limit = speeds[-1, 1] / report.mfu
        ax.axhline(limit / 1e3, color="black", lw=2)
        title += f", {report.mfu:.0%} of the limit ({limit:,.0f})"
    ax.set_ylim(0, None)
    ax.set_title(title, **SMALL)


def _norm(ax, log, clip):
    """The norm of the gradient before clipping, and where it is clipped."""
    ax.plot(log[:, 0], log[:, 3], color=BLUE, lw=1.0)
    if len(log):
        ax.set_yscale("log")
    if clip:
        ax.axhline(clip, color=RED, ls="--", lw=1.2)
    share = np.mean(log[:, 3] > clip) if clip and len(log) else 0
    last = f"Gradient norm {log[-1, 3]:.2f}" if len(log) else "Gradient norm"
    ax.set(ylabel="norm")
    ax.set_title(f"{last}, {share:.0%} clipped" if clip else last, **SMALL)
