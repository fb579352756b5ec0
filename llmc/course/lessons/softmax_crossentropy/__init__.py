"""Lesson 05: its exercises, and what they are compared with, which other lessons also use."""

from llmc.course.lessons.softmax_crossentropy.references import classifier, softmax  # noqa: F401
