"""`llmc train`: from the command line to a run, and what it says at the end.

Options have no default of their own: what is not given comes from the recipe, from the run that is resumed, or from
TrainSettings, which checks the values too.
"""

import argparse
from dataclasses import fields

from llmc.errors import UserError
from llmc.training.recipes import RECIPES, recipe
from llmc.training.settings import TrainSettings

GROUPS = {  # title -> {field of TrainSettings: help}
    "what is trained on what": {
        "preset": "size of the model, see llmc/config.py",
        "model": "model file or run to start from, instead of fresh weights",
        "data": "a corpus, or a folder with train.bin, val.bin and tokenizer.bin",
        "seed": "of weights, batches and samples",
        "backend": "who computes the layers",
    },
    "a step": {
        "batch_size": "sequences at a time, B",
        "sequence_length": "tokens per sequence, T",
        "total_batch_size": "tokens of one update, added up over batches of B x T (default: B x T)",
        "learning_rate": "highest learning rate",
        "warmup": "steps in which the learning rate rises",
        "schedule": "cosine, linear, constant or wsd",
        "final_fraction": "share of the learning rate left at the end",
        "weight_decay": "AdamW's, on matrices and embeddings",
        "beta1": "AdamW's, of the mean of the gradient",
        "beta2": "AdamW's, of the mean of its square",
        "clip": "largest norm of the gradient, 0 for any",
        "skip_loss_z": "skip an update whose loss lies X standard deviations above the last 128; 0 skips none",
        "skip_norm_z": "the same for the norm of the gradient",
    },
    "the run": {
        "steps": "steps to make in all",
        "val_every": "steps between validations",
        "val_batches": "batches of a validation (default: all there are)",
        "sample_every": "steps between samples, 0 for none but the last",
        "sample_tokens": "tokens of a sample",
        "checkpoint_every": "steps between checkpoints, 0 for none but the last",
        "keep": "newest checkpoints that stay, 0 for all",
        "out": "the run folder, empty or not there yet (default: runs/NAME)",
        "name": "of the run folder in runs/; NAME-2, … when it is taken (default: the preset's)",
    },
}
TYPES = {int: int, float: float, str: str, int | None: int, str | None: str}


def add_arguments(parser):
    """Declare the arguments of `llmc train` on an argparse parser."""
    parser.set_defaults(recipe=None, resume=None, dry_run=False)
    parser.add_argument("--resume", nargs="?", const="", metavar="RUN", help="go on with a run (default: the newest)")
    parser.add_argument("--recipe", metavar="NAME", help=f"settings to begin with: {', '.join(RECIPES)}")
    parser.add_argument("--dry-run", action="store_true", help="print the plan of memory, and train nothing")
    add_settings(parser)


def add_settings(parser, without=()):
    """An option for every setting but those `without`; what is not given leaves no trace. Read them with `given`."""
    types = {field.name: field for field in fields(TrainSettings)}
    for title, options in GROUPS.items():
        group = parser.add_argument_group(title)
        for name, text in options.items():
            if name not in without:
                _add(group, types[name], text)
    for name, value, text in (
        ("--shuffle", True, "take the batches in random order (the default, but not every recipe's)"),
        ("--in-order", False, "take the batches in llm.c's order"),
    ):
        about = dict(dest="shuffle", default=argparse.SUPPRESS, help=text)
        group.add_argument(name, action="store_const", const=value, **about)


def _add(group, field, text):
    """The option of one field."""
    default = "" if field.default is None else f" (default: {field.default})"
    kind = TYPES[field.type]
    metavar = {int: "N", float: "X"}.get(kind, field.name.upper())
    name = "--" + field.name.replace("_", "-")
    group.add_argument(name, type=kind, default=argparse.SUPPRESS, help=text + default, metavar=metavar)


def given(args) -> dict:
    """{field of TrainSettings: value} of the options that were on the command line."""
    names = {field.name for field in fields(TrainSettings)}
    return {name: value for name, value in vars(args).items() if name in names}


def run(args) -> int:
    """Train, and say what came of it; 0. Raises UserError when the run was interrupted."""
    from llmc.training.loop import resume, train

    options = given(args)
    if args.resume is not None:
        _refuse_beside_resume(args)
        result = resume(args.resume or None, **options)
    else:
        settings = _settings(args.recipe, options)
        if args.dry_run:
            print(_plan(settings))
            return 0
        result = train(settings)
    return _tell(result)


def _refuse_beside_resume(args):
    for name in ("recipe", "dry_run"):
        if getattr(args, name):
            raise UserError(f"--resume goes on with the settings of its run; leave out --{name.replace('_', '-')}.")


def _settings(name, options) -> TrainSettings:
    """The settings of a new run: the recipe's, where there is one, under the options."""
    if {"preset", "model"} <= options.keys():
        raise UserError("--preset and --model both say what to train; leave one of them out.")
    return TrainSettings(**{**(recipe(name) if name else {}), **options})


def _plan(settings) -> str:
    """What training would keep in memory, as a table."""
    from llmc.model import GPT2
    from llmc.training.start import check_before_data

    return GPT2(check_before_data(settings), settings.backend).memory_plan(
        settings.batch_size, settings.sequence_length
    )


def _tell(result) -> int:
    """Print what was reached, where it is, and what to do with it."""
    if result.run_dir is None:
        raise UserError("interrupted before the first step was complete; nothing was kept.")
    if result.interrupted:
        raise UserError(
            f"interrupted after step {result.steps} of {result.run.settings.steps}; model, log, curve and sample of it"
            f" are in {result.run_dir}: go on with `llmc train --resume {result.run_dir}`."
        )
    _print_summary(result)
    return 0


def _print_summary(result):
    from llmc.training.plot import finding
    from llmc.training.progress import clock

    print(f"\n--- sample\n{result.sample}\n---\n")
    print(finding(result.val, result.baselines, result.run.bytes_per_token), end=" ")
    print(f"({', '.join(f'{name} {value:.2f}' for name, value in result.baselines.items())} nats per token).")
    steps = result.steps - result.run.resumed_at
    print(f"{steps} steps in {clock(result.seconds)}, {result.tokens_per_second:,.0f} tokens/s.")
    print(f"{result.run_dir} holds {', '.join(sorted(p.name for p in result.run_dir.iterdir()))}.")
    print(f'More text: llmc sample {result.run_dir} --prompt "The "')
