"""`llmc start my-course`: a copy of the course of your own, which a new version of the course never overwrites."""

from llmc.files.reading import folder_path


def add_arguments(parser):
    """The arguments of `llmc start`, for an argparse parser."""
    parser.add_argument("folder", metavar="FOLDER", help="a folder that does not exist yet: my-course")


def run(args) -> int:
    """Make the copy and say how to open it; always 0. Raises UserError for a place that holds something."""
    from llmc.course.exercises.own_folder import start

    print("Making your copy of the course; this takes a few seconds.", flush=True)
    print("\n".join(start(folder_path(args.folder))))
    return 0
