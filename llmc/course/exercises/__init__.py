"""Notebooks: exercises built from solutions and listed, a learner's own copy, and how all of them are run."""
