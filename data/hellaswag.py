"""Write HellaSwag's validation set to data/hellaswag/hellaswag_val.bin, llm.c's eval file: 10,042 examples.

    python data/hellaswag.py [--file hellaswag_val.jsonl] [--out DIR]

Fetches 12 MB. The same as `llmc data hellaswag`; see llmc/hellaswag/. `llmc eval --hellaswag` needs no such file.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that it runs from a checkout that is not installed

from llmc.commands.data import script  # noqa: E402

if __name__ == "__main__":
    sys.exit(script("hellaswag"))
