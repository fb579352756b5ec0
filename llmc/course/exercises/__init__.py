"""Exercise notebooks: built from the solutions, kept in a learner's own folder, run, and listed."""
