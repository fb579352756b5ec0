"""Lesson 02: its exercises, and what they are compared with, which other lessons use too."""

# for lessons 07 and 11, until they use Exercise, too; then for 11 and 14
from llmc.course.lessons.embeddings.old_mistakes import backward_mistakes, forward_mistakes  # noqa: F401
from llmc.course.lessons.embeddings.references import awkward_tokens, backward, zipf_tokens  # noqa: F401
