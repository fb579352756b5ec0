"""`llmc train`: turn the command line into a run, and print a summary at the end.

Options have no defaults of their own: if one is not given, its value comes from the recipe, the resumed run or
TrainSettings, which also checks the values.
"""

import argparse
from dataclasses import fields

from llmc.data.permuted import LLM_C
from llmc.errors import UserError
from llmc.precision import find_precision
from llmc.terminal import llmc_command, shown
from llmc.training.recipes import RECIPES, recipe
from llmc.training.settings import AUTO, TrainSettings

RANKS = ("ranks", "rank", "world", "server", "init_file")


def number_or_auto(text: str):
    """An int, or "auto"; argparse's error for anything else."""
    try:
        return text if text == AUTO else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, or {AUTO}, not {text!r}") from None


TYPES = {int: int, float: float, str: str, int | None: int, str | None: str, int | str: number_or_auto}
EXIT_STATUS = """exit status: 0 if the run is complete; 2 for bad input or an interruption; 3 if training diverged,
that is, if the loss or the weights are no longer finite numbers; 130 if it was interrupted before it began"""


def add_arguments(parser):
    """Declare the arguments of `llmc train` on an argparse parser."""
    parser.epilog = EXIT_STATUS
    parser.set_defaults(recipe=None, resume=None, dry_run=False)
    parser.add_argument("--resume", nargs="?", const="", metavar="RUN", help="continue a run (default: the newest)")
    parser.add_argument("--recipe", metavar="NAME", help=f"settings to start from: {', '.join(RECIPES)}")
    parser.add_argument("--dry-run", action="store_true", help="print the memory plan without training")
    add_settings(parser)
    group = parser.add_argument_group(
        "several processes", "mpirun and Slurm tell each process its rank; otherwise use:"
    )
    group.add_argument("--ranks", type=int, metavar="N", help="start N processes on this machine that train together")
    group.add_argument("--rank", type=int, metavar="N", help="the number of this process, from 0")
    group.add_argument("--world", type=int, metavar="N", help="how many processes there are")
    group.add_argument("--server", metavar="HOST:PORT", help="the address where rank 0 listens and the others connect")
    group.add_argument(
        "--init-file", metavar="PATH", help="a file that all ranks can see, into which rank 0 writes its address"
    )


def add_settings(parser, without=()):
    """Add an option for every setting, except those in `without`. Read the options that were given with `given`."""
    groups = {}
    for field in fields(TrainSettings):
        title = field.metadata["group"]
        group = groups[title] = groups.get(title) or parser.add_argument_group(title)
        if field.metadata["help"] and field.name not in without:
            _add(group, field)
    former = dict(dest="order", default=argparse.SUPPRESS, help=argparse.SUPPRESS)  # names of --order in older versions
    group.add_argument("--shuffle", nargs="?", choices=["random", LLM_C], const="random", **former)
    group.add_argument("--in-order", action="store_const", const="files", **former)
    text = "keep a float32 copy of 16-bit weights for AdamW to update (the default)"
    about = dict(action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=text)
    group.add_argument("--master-weights", **about)


def _add(group, field):
    """Add the option for one field."""
    text = field.metadata["help"]
    default = "" if field.default is None else f" (default: {field.default})"
    kind = TYPES[field.type]
    metavar = {int: "N", float: "X", number_or_auto: "N"}.get(kind, field.name.upper())
    name = "--" + field.name.replace("_", "-")
    group.add_argument(name, type=kind, default=argparse.SUPPRESS, help=text + default, metavar=metavar)


def given(args) -> dict:
    """{field of TrainSettings: value} for the options given on the command line."""
    names = {field.name for field in fields(TrainSettings)}
    options = {name: value for name, value in vars(args).items() if name in names}
    if options.get("precision") == AUTO:
        from llmc.training.start import fastest_precision

        options["precision"] = fastest_precision(options.get("backend", TrainSettings.backend))
    return options


def run(args) -> int:
    """Train and print a summary. Returns 0. Raises UserError if the run was interrupted."""
    from llmc.distributed.start import together

    if args.dry_run and args.resume is None:
        print(_plan(new_settings(args.recipe, given(args)), args.ranks or args.world or 1))
        return 0
    if args.ranks is not None:
        return _launch(args)
    where = {name: getattr(args, name) for name in RANKS[1:]}
    with together(**where) as ranks:
        result = _train(args, ranks)
        if result.interrupted and not ranks.rank:
            raise _interrupted(result)
        if not ranks.rank:
            _print_summary(result)
    return 0


def _train(args, ranks):
    from llmc.training.loop import resume, train

    if args.resume is not None:
        for name in ("precision", "batch_size"):
            if vars(args).get(name) == AUTO:
                delattr(args, name)  # the run has one
    options = given(args)
    if args.resume is not None:
        _refuse_with_resume(args)
        return resume(args.resume or None, ranks=ranks, **options)
    return train(new_settings(args.recipe, options), ranks=ranks)


def _launch(args) -> int:
    """Start the processes for `--ranks N`, each with the rest of this command line."""
    from llmc.distributed.launch import launch

    for name in RANKS[1:]:
        if getattr(args, name) is not None:
            raise UserError(f"--ranks starts all processes itself; leave out --{name.replace('_', '-')}.")
    return launch(_without_ranks(args.command_line), args.ranks)


def _without_ranks(words):
    """The command line without `--ranks N`, in either spelling."""
    at = next(i for i, word in enumerate(words) if word.partition("=")[0] == "--ranks")
    return [*words[:at], *words[at + (1 if "=" in words[at] else 2) :]]


def _refuse_with_resume(args):
    for name in ("recipe", "dry_run"):
        if getattr(args, name):
            raise UserError(f"--resume continues with the run's own settings; leave out --{name.replace('_', '-')}.")


def new_settings(name, options) -> TrainSettings:
    """The settings of a new run: those of the recipe `name`, if there is one, overridden by the options.

    Raises UserError for options that contradict each other or would have no effect.
    """
    if {"preset", "model"} <= options.keys():
        raise UserError("--preset and --model both choose the model; leave one of them out.")
    if None not in (options.get("out"), options.get("name")):
        raise UserError("--out and --name both choose the folder; leave one of them out.")
    settings = TrainSettings(**{**(recipe(name) if name else {}), **options})
    if not settings.master_weights and not find_precision(settings.precision).is_mixed:
        raise UserError(f"--no-master-weights is for 16-bit weights, not for {settings.precision}; leave it out.")
    return settings


def _plan(settings, ranks) -> str:
    """A table of the memory that each of `ranks` ranks would use, also at other --recompute levels."""
    from llmc.blocks import RECOMPUTE
    from llmc.distributed.ranks import Ranks
    from llmc.model import GPT2, training_buffers
    from llmc.training.memory import choose_batch
    from llmc.training.start import check_before_data

    config = check_before_data(settings)
    here = Ranks()
    here.world = here.neighbours = ranks
    s = choose_batch(settings, config, ranks=here) if settings.batch_size == AUTO else settings
    model = GPT2(config, s.backend, s.precision, s.master_weights, s.recompute)
    if s.zero and ranks > 1:
        model.keep_part(0, ranks)
    sizes = (model.config, model.backend, s.batch_size, s.sequence_length, s.precision, s.master_weights)
    lines = [model.memory_plan(s.batch_size, s.sequence_length)]
    for level in (level for level in RECOMPUTE if level != model.recompute):
        total = sum(buffer.nbytes for buffer in training_buffers(*sizes, level, model.part[1]).values())
        lines.append(f"{f'total with --recompute {level}':<44} {total / 2**20:12,.2f} MiB")
    return "\n".join(lines)


def _interrupted(result) -> UserError:
    """The error of an interrupted run: what was saved, and how to continue."""
    if result.run_dir is None:
        return UserError("interrupted before the first step was complete, so nothing was saved; start it again.")
    return UserError(
        f"interrupted after step {result.steps} of {result.run.settings.steps}; the model, log, loss curve and a sample"
        f" are in {shown(result.run_dir)}; continue with `{llmc_command('train', '--resume', result.run_dir)}`."
    )


def _print_summary(result):
    from llmc.training.console import clock
    from llmc.training.plot import finding

    if not result.run.settings.sample_every:  # otherwise the console has just shown the same sample
        print(f"\n--- sample\n{result.sample}\n---")
    baselines = ", ".join(f"{name} {value:.2f}" for name, value in result.baselines.items())
    steps = result.steps - result.run.resumed_at
    print(f"\n{finding(result.val, result.baselines, result.run.bytes_per_token)} ({baselines} nats per token).")
    print(f"{steps} steps in {clock(result.seconds)}, {result.tokens_per_second:,.0f} tokens/s.")
    if result.notice:
        print(result.notice)
    print(f"{shown(result.run_dir)} holds {', '.join(sorted(p.name for p in result.run_dir.iterdir()))}.")
    print(f"For more text: {llmc_command('sample', result.run_dir, '--prompt', 'The ')}")
