"""Checks of exercises: is it right, and if not, what exactly is wrong? `check`, `compare`, `gradient_check`."""
