"""Write TinyStories to data/tinystories/: TinyStories_train.bin, TinyStories_val.bin, tokenizer.bin.

    python data/tinystories.py [--file TinyStories_all_data.tar.gz] [--tokenizer gpt2] [--out DIR]

Fetches 1.6 GB. The same as `llmc data tinystories`; see llmc/data/corpora/tinystories.py.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that it runs from a checkout that is not installed

from llmc.commands.data import script  # noqa: E402

if __name__ == "__main__":
    sys.exit(script("tinystories"))
