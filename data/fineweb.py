"""Write FineWeb or FineWeb-Edu to data/fineweb10B/, data/edu_fineweb10B/, …: shards of 10^8 tokens, tokenizer.bin.

    python data/fineweb.py [--kind classic|edu] [--sample 10B|100B] [--shards N] [--file FILE] [--out DIR]

Fetches 30 GB for 10B, less for N shards. The same as `llmc data fineweb`; see llmc/data/corpora/fineweb.py.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that it runs from a checkout that is not installed

from llmc.commands.data import script  # noqa: E402

if __name__ == "__main__":
    sys.exit(script("fineweb"))
