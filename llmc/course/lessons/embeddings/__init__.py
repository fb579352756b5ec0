"""Lesson 02: its exercises, and what they are compared with, which other lessons also use."""

from llmc.course.lessons.embeddings.references import awkward_tokens, backward, zipf_tokens  # noqa: F401
