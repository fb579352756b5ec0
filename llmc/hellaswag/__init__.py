"""HellaSwag (Zellers et al. 2019): which of four endings does a model think a text goes on with?

examples.py has the examples, as tokens; eval_file.py llm.c's file of them; fetch.py the validation set; scoring.py what
a model makes of them. `llmc eval --hellaswag` prints it, next to what GPT-2 and GPT-3 reach.
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
