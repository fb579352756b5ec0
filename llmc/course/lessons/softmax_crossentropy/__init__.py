"""Lesson 05: its exercises, and what they are compared with, which other lessons use too."""

from llmc.course.lessons.softmax_crossentropy.buffers import classifier_mistakes  # noqa: F401, for lessons 07 and 17
from llmc.course.lessons.softmax_crossentropy.probabilities import softmax_mistakes  # noqa: F401, for lesson 13
from llmc.course.lessons.softmax_crossentropy.references import Classified, classifier, softmax  # noqa: F401
