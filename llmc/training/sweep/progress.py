"""The progress of a sweep: a bar over all steps (on a terminal), and a line for each run that has ended."""

import time
from pathlib import Path

from llmc.training.log import LOG

EVERY = 0.5  # seconds between two looks at the logs


class SweepProgress:
    """Follows runs through their logs. Call it with the running processes, `show` each result, and `close` it."""

    def __init__(self, settings, quiet=False):
        from tqdm import tqdm

        self.quiet, self._ended, self._looked = quiet, 0, 0.0
        hidden = True if quiet else None  # None: shown on a terminal only
        form = "{percentage:3.0f}%|{bar}| step {n_fmt}/{total_fmt} [{elapsed}<{remaining}]"
        total = sum(s.steps for s in settings)
        self._bar = tqdm(total=total, disable=hidden, leave=False, bar_format=form, dynamic_ncols=True)

    def __call__(self, processes):
        """Move the bar to the steps in the logs of the processes."""
        if self._bar.disable or time.monotonic() - self._looked < EVERY:
            return
        self._looked = time.monotonic()
        logs = [Path(process.settings.out) / LOG for process in processes]
        steps = sum(log.read_bytes().count(b" trl:") for log in logs if log.is_file())
        self._bar.update(min(self._ended + steps, self._bar.total) - self._bar.n)

    def show(self, result, steps):
        """Print the result of a run of `steps` steps."""
        self._ended += steps
        if not self.quiet:
            what = "" if result.val_loss is None else "validation loss "
            self._bar.write(f"learning rate {result.learning_rate:g}: {what}{result.outcome}")

    def close(self):
        """Remove the bar."""
        self._bar.close()
