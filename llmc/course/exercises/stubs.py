"""The placeholders for answers: they fail, in Python and in CUDA C, until they are replaced."""

STUB = "raise NotImplementedError"
STUB_IN_C = "#error not done yet"
