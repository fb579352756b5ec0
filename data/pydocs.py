"""Write the corpus "pydocs", Python's own documentation, to data/pydocs/: train.bin, val.bin, tokenizer.bin.

    python data/pydocs.py [--out DIR] [--vocabulary V]

The same as `llmc data pydocs`; how it is made is in llmc/data/pydocs.py.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # works from a checkout that is not installed

from llmc import data  # noqa: E402
from llmc.errors import UserError  # noqa: E402


def main() -> int:
    """Parse the options, prepare the corpus. Returns the exit status: 2 when the input is bad."""
    parser = argparse.ArgumentParser(description="Prepare the corpus pydocs.")
    data.add_options(parser)
    parser.set_defaults(name="pydocs")
    try:
        return data.run(parser.parse_args())
    except UserError as error:
        print(f"llmc: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("llmc: stopped; nothing was written.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
