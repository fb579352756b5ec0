"""This machine: what it has, what is missing, what that costs and how to fix it. `doctor()` is the report."""
