"""Write the corpus "pydocs", Python's own documentation, to data/pydocs/: train.bin, val.bin, tokenizer.bin.

    python data/pydocs.py [--out DIR] [--vocabulary V]

The same as `llmc data pydocs`; see llmc/data/corpora/pydocs.py.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that it runs from a checkout that is not installed

from llmc.commands.data import script  # noqa: E402

if __name__ == "__main__":
    sys.exit(script("pydocs"))
