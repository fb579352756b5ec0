"""Mutation: what an edit of our solution, or of a learner's answer, makes of the numbers. It names mistakes."""
