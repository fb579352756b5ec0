"""HellaSwag (Zellers et al. 2019): which of four endings does a model think continues a text?

examples.py reads the examples as tokens, eval_file.py reads and writes them in llm.c's format, fetch.py downloads the
validation set, and scoring.py scores a model. `llmc eval --hellaswag` prints its accuracy, next to GPT-2's and GPT-3's.
"""

from llmc.hellaswag.eval_file import read_eval_file, write_eval_file
from llmc.hellaswag.examples import Example, read_examples
from llmc.hellaswag.fetch import fetch_hellaswag, load_examples
from llmc.hellaswag.scoring import CHANCE, PUBLISHED, Scores, report, rows_of, score, score_examples

__all__ = [
    "CHANCE",
    "PUBLISHED",
    "Example",
    "Scores",
    "fetch_hellaswag",
    "load_examples",
    "read_eval_file",
    "read_examples",
    "report",
    "rows_of",
    "score",
    "score_examples",
    "write_eval_file",
]
