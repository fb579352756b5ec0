"""Lesson 02: its exercises, and what they are compared with, which other lessons use too."""

from llmc.course.lessons.embeddings.references import awkward_tokens, backward, zipf_tokens  # noqa: F401
