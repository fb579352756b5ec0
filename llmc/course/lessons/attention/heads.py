"""Lesson 06: what the old checks of lessons 07 and 11 import."""

from llmc.course.lessons.attention.backward_mistakes import backward_mistakes  # noqa: F401
from llmc.course.lessons.attention.forward_mistakes import forward_mistakes  # noqa: F401
from llmc.course.lessons.attention.references import scores, seen, softmax, softmax_backward  # noqa: F401
