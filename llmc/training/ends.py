"""The ways in which a run fails: what happened, what is saved, and how to continue from there, in one sentence."""

from llmc.errors import UserError
from llmc.terminal import llmc_command, shown


class RunDiverged(UserError):
    """Training stopped because loss, gradient or weights are not finite numbers any more.

    Sweeps and scripts recognise it by its exit status. reason: "the loss is nan at step 12".
    """

    status = 3

    def __init__(self, reason, trainer, folder):
        """folder: the RunFolder; None when nothing is saved."""
        self.reason = reason
        super().__init__(f"{reason}, so training stopped; {_advice(trainer, folder)}.")


def _advice(trainer, folder):
    """What to do about a divergence: "lower the learning rate (it was 0.1) and start again"."""
    lr = trainer.settings.learning_rate
    if folder and folder.latest is not None:
        command = llmc_command("train", "--resume", folder.path, "--learning-rate", f"{lr / 2:g}")
        return f"step {folder.latest} is saved, so continue from it with a lower learning rate: `{command}`"
    kept = f"; the log is in {shown(folder.path)}" if folder and trainer.step else ""
    return f"lower the learning rate (it was {lr:g}) and start again{kept}"


def changed_notice(changed) -> str | None:
    """What a resumed run says when its surroundings have changed; changed: ["threads 1 instead of 2"]."""
    if not changed:
        return None
    return f"continuing with {', '.join(changed)}: the last bits will differ from those of an uninterrupted run"


def failed(error, trainer, folder) -> UserError:
    """The error of a run that cannot continue for another reason: the disk is full, the data is gone."""
    saved = _saved(trainer, folder)
    return UserError(f"{str(error).removesuffix('.')}{saved and '; '}{saved}.")


def abandoned(trainer, folder) -> str:
    """What a second signal leaves of a run."""
    return f"ended at once, at the second signal; {_saved(trainer, folder) or 'no step was saved'}."


def _saved(trainer, folder) -> str:
    """What is saved of a run, and the command that goes on from there; "" when nothing is."""
    if not folder or folder.latest is None:
        return ""
    if folder.latest == trainer.settings.steps:
        command = llmc_command("sample", folder.path)
        return f"all {folder.latest} steps are saved: `{command}` lets it write"
    command = llmc_command("train", "--resume", folder.path)
    ranks = ", on any number of ranks" if trainer.ranks.world > 1 else ""
    return f"step {folder.latest} is saved: continue from it with `{command}`{ranks}"
