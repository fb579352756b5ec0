"""A training run seen live in a notebook: a progress bar and a loss plot that redraw in place, then stay as a picture.

Both are ordinary outputs (HTML and PNG) that are replaced while the run goes on. So no widget is needed at
reading time: JupyterLab shows the movement, and nbconvert, nbval or a code-hosting page the last state.
"""

import time

from llmc.course.figures.showing import as_output
from llmc.training.console import clock
from llmc.training.plot import plot_run

BAR = '<progress value="{step}" max="{steps}" style="width: 24em; vertical-align: middle"></progress> {text}'


class LivePlot:
    """Follows a run: `train(TrainSettings(...), on_step=LivePlot())`.

    every: seconds between two drawings; one takes about 0.2 s, which the training waits for. Outside of a notebook it
    shows nothing.
    """

    def __init__(self, every: float = 2.0):
        self.every = every
        self._bar = self._plot = self._report = self._figure = None
        self._drawn = 0.0

    def __call__(self, report):
        """Take note of a StepReport, and redraw when it is time."""
        first, self._report = self._report is None, report
        due = time.monotonic() - self._drawn > self.every
        if first:
            self._open()
        if self._plot is not None and (first or due or report.last):
            self._draw()

    def close(self):
        """Leave the last state as the output that is stored."""
        if self._plot is None:
            return
        self._draw()
        self._bar.update(_Text(self._status()))
        self._bar = self._plot = None

    def _open(self):
        """The two places on the page; none outside of IPython's kernel."""
        from IPython import get_ipython
        from IPython.display import display

        if getattr(get_ipython(), "kernel", None) is not None:
            self._bar = display(_Text("…"), display_id=True)
            self._plot = display(_Text("…"), display_id=True)

    def _draw(self):
        from IPython.display import HTML

        r = self._report
        bar = BAR.format(step=r.step, steps=r.run.settings.steps, text=self._status())
        self._bar.update(HTML(bar))
        self._figure = self._picture(r)
        picture, about = as_output(self._figure)
        self._plot.update(picture, metadata=about, raw=True)
        self._drawn = time.monotonic()

    def _picture(self, r):
        """The figure for a report: the one drawn before, changed, if there is one."""
        return plot_run(r.history, r.run.baselines, r.run.bytes_per_token, r.run.settings.steps, self._figure)

    def _status(self):
        """ "step 120/300 · loss 4.512 · validation 4.620 · 8,200 tokens/s · 0:21 left"."""
        r = self._report
        parts = [f"step {r.step}/{r.run.settings.steps}"]
        if r.history["train"]:  # a report after a stop, or before a resume, has none
            parts.append(f"loss {r.history['train'][-1][1]:.3f}")
        if r.history["val"]:
            parts.append(f"validation {r.history['val'][-1][1]:.3f}")
        if r.step:
            parts.append(f"{r.tokens_per_second:,.0f} tokens/s")
        return " · ".join(parts if r.last else [*parts, f"{clock(r.seconds_left)} left"])


class _Text:
    """Plain text as an output of its own, without quotation marks."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text
