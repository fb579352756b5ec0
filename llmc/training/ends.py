"""The ways in which a run can fail: one sentence says what happened, what is saved, and how to continue."""

from llmc.errors import UserError
from llmc.terminal import llmc_command, shown


class RunDiverged(UserError):
    """Training stopped because the loss, gradients or weights are no longer finite numbers.

    Sweeps and scripts recognise this by the exit status. reason: "the loss is nan at step 12".
    """

    status = 3

    def __init__(self, reason, trainer, folder):
        """folder: the RunFolder, or None if nothing is saved."""
        self.reason = reason
        super().__init__(f"{reason}, so training stopped; {_advice(trainer, folder)}.")


def _advice(trainer, folder):
    """What to do about the divergence: "lower the learning rate (it was 0.1) and start again"."""
    lr = trainer.settings.learning_rate
    if folder and folder.latest is not None:
        command = llmc_command("train", "--resume", folder.path, "--learning-rate", f"{lr / 2:g}")
        return f"step {folder.latest} is saved; continue from it with a lower learning rate: `{command}`"
    kept = f"; the log is in {shown(folder.path)}" if folder and trainer.step else ""
    return f"lower the learning rate (it was {lr:g}) and start again{kept}"


def changed_notice(changed) -> str | None:
    """The warning of a resumed run whose surroundings have changed; changed: ["threads 1 instead of 2"]."""
    if not changed:
        return None
    return f"continuing with {', '.join(changed)}: the last bits will differ from those of an uninterrupted run"


def failed(error, trainer, folder) -> UserError:
    """The error of a run that cannot continue for another reason, such as a full disk or missing data."""
    saved = _saved(trainer, folder)
    return UserError(f"{str(error).removesuffix('.')}{saved and '; '}{saved}.")


def abandoned(trainer, folder) -> str:
    """The error of a run that a second signal has ended."""
    return f"stopped at once by the second signal; {_saved(trainer, folder) or 'no step was saved'}."


def _saved(trainer, folder) -> str:
    """What is saved of a run, and the command that continues from there; "" if nothing is saved."""
    if not folder or folder.latest is None:
        return ""
    if folder.latest == trainer.settings.steps:
        command = llmc_command("sample", folder.path)
        return f"all {folder.latest} steps are saved; to sample from the model, run `{command}`"
    command = llmc_command("train", "--resume", folder.path)
    ranks = ", on any number of ranks" if trainer.ranks.world > 1 else ""
    return f"step {folder.latest} is saved; continue from it with `{command}`{ranks}"
