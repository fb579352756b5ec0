"""Write tinyshakespeare to data/tinyshakespeare/: tiny_shakespeare_train.bin, tiny_shakespeare_val.bin, tokenizer.bin.

    python data/tinyshakespeare.py [--file input.txt] [--tokenizer gpt2] [--format int32] [--out DIR]

Fetches 1.1 MB. The same as `llmc data tinyshakespeare`; see llmc/data/corpora/tinyshakespeare.py.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that it runs from a checkout that is not installed

from llmc.commands.data import script  # noqa: E402

if __name__ == "__main__":
    sys.exit(script("tinyshakespeare"))
