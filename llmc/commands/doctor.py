"""`llmc doctor`: show what this machine has, what is missing, and what that costs you."""

import json

from llmc.course import doctor


def add_arguments(parser):
    """The arguments of `llmc doctor`, for an argparse parser."""
    parser.add_argument("--json", action="store_true", help="print the rows as a JSON list instead of a table")


def run(args) -> int:
    """Print the report. Always returns 0, because nothing that is missing counts as an error."""
    report = doctor()
    print(json.dumps([vars(row) for row in report], indent=1) if args.json else report)
    return 0
