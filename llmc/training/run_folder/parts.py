"""A checkpoint of ranks that share the optimizer's state: rank 0 writes it, and each other rank adds its part."""

from pathlib import Path

from llmc.checkpoints.folder import save_part


def announce(ranks, folder):
    """Rank 0: have the others add their parts to the checkpoint in `folder`; returns {rank: SHA-256}."""
    ranks.share(str(Path(folder).resolve()))
    return dict(enumerate(ranks.exchange("", str)[1:], start=1))


def announce_nothing(ranks):
    """Rank 0: tell the others that there is nothing to save this time."""
    ranks.share("")


def follow(trainer):
    """Any other rank: add our part, if rank 0 says where to."""
    folder = trainer.ranks.share(None, str)
    if folder:
        trainer.ranks.exchange(save_part(folder, trainer.model, trainer.state()))
