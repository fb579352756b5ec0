"""`llmc exercises build`, for authors of the course; `start` and `update` are the older names of two commands."""

from llmc.commands import start, update

OLDER = {"start": start, "update": update}


def add_arguments(parser):
    """One subcommand for each action."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    sub = actions.add_parser("build", help="write exercises/ again from solutions/", allow_abbrev=False)
    sub.add_argument("--check", action="store_true", help="write nothing; status 1 if one is not up to date")
    sub.add_argument("--force", action="store_true", help="overwrite exercises in which somebody has worked")
    for name, module in OLDER.items():
        module.add_arguments(actions.add_parser(name, help=f"the same as `llmc {name}`", allow_abbrev=False))


def run(args) -> int:
    """Do it; returns the exit status."""
    if args.action in OLDER:
        return OLDER[args.action].run(args)
    from llmc.course.exercises.builder import main

    return main(["build", *(f"--{flag}" for flag in ("check", "force") if getattr(args, flag))])
