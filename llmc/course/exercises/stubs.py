"""What stands in an exercise where the answer belongs: it fails, in Python and in CUDA C, until it is replaced."""

STUB = "raise NotImplementedError"
STUB_IN_C = "#error not done yet"
