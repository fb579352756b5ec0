"""`llmc exercises`: `build` for authors, `grade` and `export` for teachers; `start` and `update` are older names."""

from llmc.commands import start, update
from llmc.files.reading import folder_path

OLDER = {"start": start, "update": update}


def add_arguments(parser):
    """Declare one subcommand for each action."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    sub = actions.add_parser("build", help="regenerate exercises/ from solutions/", allow_abbrev=False)
    sub.add_argument(
        "--check", action="store_true", help="write nothing; exit with status 1 if an exercise is out of date"
    )
    sub.add_argument("--force", action="store_true", help="overwrite exercises even if somebody has worked in them")
    sub = actions.add_parser("grade", help="rerun learners' exercises and list what passes", allow_abbrev=False)
    sub.add_argument("folders", metavar="FOLDER", nargs="+", help="a learner's copy, or exercise notebooks")
    sub = actions.add_parser("export", help="write the exercises as an nbgrader course", allow_abbrev=False)
    sub.add_argument("--nbgrader", metavar="DIR", required=True, help="a folder that does not exist yet")
    for name, module in OLDER.items():
        module.add_arguments(actions.add_parser(name, help=f"the same as `llmc {name}`", allow_abbrev=False))


def run(args) -> int:
    """Run the chosen action and return the exit status."""
    if args.action in OLDER:
        return OLDER[args.action].run(args)
    if args.action == "grade":
        from llmc.course.exercises import own_files
        from llmc.course.learner import grading

        for folder in args.folders:
            print(grading.grade(folder_path(folder), own_files.course()), flush=True)
        return 0
    if args.action == "export":
        from llmc.course.exercises import nbgrader, own_files

        print(nbgrader.export(folder_path(args.nbgrader), own_files.course()))
        return 0
    from llmc.course.exercises.builder import main

    return main(["build", *(f"--{flag}" for flag in ("check", "force") if getattr(args, flag))])
