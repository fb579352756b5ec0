"""The runs of a sweep: their results, in memory and in results.json, and what they show."""

import json
import signal
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path

from llmc.errors import UserError, why
from llmc.files.atomic_write import atomic_write
from llmc.files.checked_json import read_json
from llmc.training.log import LOG, read_log
from llmc.training.settings import PLACE
from llmc.training.settings_file import renamed
from llmc.training.sweep.side_by_side import DIVERGED, DONE, INTERRUPTED

WAITING = "waiting"  # the status of a run that is planned, and has not ended yet
STORED = {"settings": dict, "runs": [{"learning_rate": float, "status": str, "run_dir": str, "message": str}]}
ITS_OWN = ("learning_rate", *PLACE)  # the settings that differ between the runs of one sweep


@dataclass(frozen=True)
class SweepRun:
    """One learning rate and its outcome.

    status: "finished", "diverged" (the loss, gradients or weights are no longer finite numbers), "interrupted",
    "killed" (by the system or a person, without the others) or "waiting" · history: its log, as read_log gives it ·
    run_dir: its folder, None if nothing is saved · message: why it diverged, or what killed it.
    """

    learning_rate: float
    status: str
    history: dict = field(repr=False)
    run_dir: str | None = None
    message: str = ""

    @classmethod
    def of(cls, process) -> "SweepRun":
        """The outcome of a Process that has ended. Raises UserError if it failed, unless it diverged."""
        s, history = process.settings, _history(process.settings.out)
        status, message = _ending(process, history)
        return cls(learning_rate=s.learning_rate, status=status, history=history, run_dir=s.out, message=message)

    @classmethod
    def planned(cls, settings) -> "SweepRun":
        """A run that has not begun yet."""
        return cls(settings.learning_rate, WAITING, _history(settings.out), settings.out)

    @property
    def unfinished(self) -> bool:
        """Whether it can be continued."""
        return self.status not in ("finished", "diverged")

    @property
    def steps(self) -> int:
        """The number of steps taken."""
        return len(self.history["train"])

    @property
    def val_loss(self) -> float | None:
        """The last validation loss (nats per token), or None for a run that did not finish."""
        return self.history["val"][-1][1] if self.status == "finished" and self.history["val"] else None

    @property
    def outcome(self) -> str:
        """ "3.2104", "diverged: the loss is nan at step 12", "interrupted after step 80"."""
        if self.val_loss is not None:
            return f"{self.val_loss:.4f}"
        if self.status == "diverged" and self.message:
            return f"diverged: {self.message}"
        return f"{self.status}{self.message and f' by {self.message}'} after step {self.steps}"


def _ending(process, history):
    """(status, message) of a Process that has ended. Raises UserError if it failed, unless it diverged."""
    s = process.settings
    end, loss = history["val"][-1] if history["val"] else (0, 0.0)
    if process.status == DIVERGED:
        return "diverged", process.message
    if process.status == DONE or end == s.steps:  # Ctrl-C or a full disk may also come after the last step
        return ("finished", "") if isfinite(loss) else ("diverged", "the validation loss is not a number")
    if process.status == INTERRUPTED:
        return "interrupted", ""
    if process.status < 0:
        return "killed", _signal_name(-process.status)
    reason = process.message.removesuffix(".") or f"its process ended with status {process.status}"
    raise UserError(f"the run with learning rate {s.learning_rate:g} failed: {reason}.")


def _signal_name(number) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def best(results):
    """The run with the lowest final validation loss; None if none has finished."""
    return min((r for r in results if r.val_loss is not None), key=lambda r: r.val_loss, default=None)


def finding(results) -> str:
    """The result as a plot title: "A learning rate of 0.004 ends lowest, at 3.21 nats per token"."""
    first = best(results)
    if first is None:
        return "No learning rate has finished"
    what, rates = f"A learning rate of {first.learning_rate:g}", [r.learning_rate for r in results]
    if len(rates) == 1:
        return f"{what} ends at {first.val_loss:.2f} nats per token"
    for side, edge in (("small", min(rates)), ("larg", max(rates))):
        if first.learning_rate == edge:
            return f"{what} ends lowest, but is the {side}est tried: try {side}er ones too"
    return f"{what} ends lowest, at {first.val_loss:.2f} nats per token"


def table(results) -> str:
    """Learning rates and outcomes, one per line, with the best one marked."""
    first = best(results)
    rows = [(f"{r.learning_rate:g}", r.outcome + "   best" * (r is first)) for r in results]
    return "\n".join(f"{rate:>13}   {outcome}" for rate, outcome in [("learning rate", "validation loss"), *rows])


# ---------------------------------------------------------------------------------------------------- results.json


def write_results(path, settings, results):
    """Write {learning rate: SweepRun} next to the runs; the curves are in the runs' own logs."""
    runs = [
        {
            "learning_rate": r.learning_rate,
            "status": r.status,
            "val_loss": r.val_loss,
            "steps": r.steps,
            "run_dir": Path(r.run_dir).name,
            "message": r.message,
        }
        for _, r in sorted(results.items())
    ]
    with atomic_write(path, "w") as file:
        json.dump({"settings": _shared(settings), "runs": runs}, file, indent=1)


def read_results(path, settings) -> dict:
    """{learning rate: SweepRun} from an earlier sweep with the same settings; {} if there was none.

    Raises UserError for a sweep with other settings, and for a damaged file.
    """
    path = Path(path)
    if not path.exists():
        return {}
    try:
        found = read_json(path, STORED, "choose another folder with --out")
        earlier = renamed(found["settings"])
        results = {r["learning_rate"]: _read_run(path.parent, r) for r in found["runs"]}
    except OSError as error:  # no folder of a run can have that name
        raise UserError(f"{path} is damaged: {why(error)}; choose another folder with --out.") from None
    shared = _shared(settings)
    other = [name.replace("_", " ") for name in shared if earlier.get(name) != shared[name]]
    if other:
        raise UserError(
            f"the sweep in {path.parent} used a different value for {other[0]}; choose another folder with --out."
        )
    return results


def _read_run(folder, run):
    folder = folder / run["run_dir"]
    history = _history(folder)
    begun = run["status"] == WAITING and history["train"]  # its sweep was killed before it could write how it ended
    return SweepRun(
        learning_rate=float(run["learning_rate"]),
        status="interrupted" if begun else run["status"],
        history=history,
        run_dir=str(folder),
        message=run["message"],
    )


def _shared(settings) -> dict:
    return {name: value for name, value in asdict(settings).items() if name not in ITS_OWN}


def _history(folder) -> dict:
    """The log of a run; empty if it ended before its first line."""
    path = Path(folder) / LOG
    return read_log(path) if path.is_file() else {"val": [], "train": [], "eval": []}
