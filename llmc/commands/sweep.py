"""`llmc sweep`: train with several learning rates side by side, and compare."""

from pathlib import Path

from llmc.commands.train import add_settings, given, new_settings
from llmc.errors import UserError
from llmc.training.recipes import RECIPES
from llmc.training.sweep import PLOT, RESULTS, default_rates, finding, sweep, table


def add_arguments(parser):
    """Declare the arguments of `llmc sweep` on an argparse parser: its own, and those of `llmc train`."""
    rates = "the learning rates to try (default: five, from a tenth of the usual one to ten times it)"
    parser.add_argument("--learning-rates", metavar="X,X,…", help=rates)
    jobs = "number of runs at a time (default: the number of GPUs or, without one, of cores)"
    parser.add_argument("--jobs", type=int, metavar="N", help=jobs)
    parser.add_argument("--recipe", metavar="NAME", help=f"settings to start from: {', '.join(RECIPES)}")
    out = "the sweep's folder; to continue an interrupted sweep, give its folder (default: runs/NAME)"
    parser.add_argument("--out", metavar="DIR", help=out)
    parser.add_argument(
        "--name", help="name of the sweep's folder in runs/; if it exists, NAME-2 and so on (default: sweep)"
    )
    add_settings(parser, without=("learning_rate", "out", "name"))


def run(args) -> int:
    """Run the sweep and print a table. Returns 0. Raises UserError if it was interrupted."""
    settings = new_settings(args.recipe, given(args))
    rates = default_rates(settings) if args.learning_rates is None else _parse(args.learning_rates)
    results = sweep(settings, rates, args.jobs)
    if not results:
        raise UserError("interrupted before the first step was complete, so nothing was saved; start it again.")
    print(table(results))
    folder = Path(results[0].run_dir).parent
    killed = [result for result in results if result.status == "killed"]
    if killed:
        rate = f"{killed[0].learning_rate:g}"
        raise UserError(
            f"the run with learning rate {rate} was killed by {killed[0].message}, perhaps because memory ran out; to"
            f" continue it, repeat the command with --out {folder}, and perhaps with fewer --jobs."
        )
    if any(result.unfinished for result in results) or not set(rates) <= {r.learning_rate for r in results}:
        raise UserError(
            f"interrupted, with everything saved in {folder}; to continue, repeat the command with --out {folder}."
        )
    print(f"{finding(results)}. {folder} holds {PLOT}, {RESULTS} and the runs.")
    return 0


def _parse(text) -> list[float]:
    """ "1e-4,3e-4" -> [0.0001, 0.0003]."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(
            f"--learning-rates takes numbers separated by commas, such as 1e-4,3e-4, not {text!r}."
        ) from None
