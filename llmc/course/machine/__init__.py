"""This machine: what it has, what is missing, what that costs, what mends it. `doctor()` is the report."""
