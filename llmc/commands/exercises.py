"""`llmc exercises start DIR`, `update DIR` for learners; `llmc exercises build` for those who write the course."""

from pathlib import Path


def add_arguments(parser):
    """One subcommand for each action."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    for name, text in ACTIONS.items():
        sub = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
        if name == "build":
            sub.add_argument("--check", action="store_true", help="write nothing; status 1 if one is not up to date")
            sub.add_argument("--force", action="store_true", help="overwrite exercises in which somebody has worked")
        else:
            sub.add_argument("folder", metavar="DIR", type=Path, help="your own folder, for example mine")


def run(args) -> int:
    """Do it; returns the exit status."""
    if args.action == "build":
        from llmc.course.exercises.builder import main as build

        return build(["build", *(f"--{flag}" for flag in ("check", "force") if getattr(args, flag))])
    from llmc.course.exercises import own_folder

    print("\n".join({"start": own_folder.start, "update": own_folder.update}[args.action](args.folder)))
    return 0


ACTIONS = {
    "start": "copy the exercises to a new folder, where `git pull` never meets your answers",
    "update": "bring new and changed exercises to such a folder; your answers stay",
    "build": "write exercises/ again from solutions/ (for those who write the course)",
}
