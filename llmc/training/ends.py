"""The one sentence for a run that cannot go on: what happened, what is kept, and how to go on from there."""


def diverged(reason, trainer, folder) -> str:
    """For numbers that are none any more. folder: the RunFolder, None when nothing is saved."""
    lr = trainer.settings.learning_rate
    what = f"{reason} at step {trainer.step + 1}, so training stopped"
    if folder and folder.latest is not None:
        lower = f"`llmc train --resume {folder.path} --learning-rate {lr / 2:g}`"
        return f"{what}; go on from step {folder.latest}, which is kept, with a lower learning rate: {lower}."
    kept = f"; {folder.path} keeps the log" if folder and trainer.step else ""
    return f"{what}; lower the learning rate (it was {lr:g}) and start again{kept}."


def broken(error, folder) -> str:
    """For everything else: a disk that is full, data that is gone."""
    what = str(error).removesuffix(".")
    if not folder or folder.latest is None:
        return f"{what}."
    return f"{what}; step {folder.latest} is kept: go on from it with `llmc train --resume {folder.path}`."
