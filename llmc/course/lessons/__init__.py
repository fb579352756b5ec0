"""What the checks of each lesson compare with: a float64 reference, and known mistakes by name.

A message says what was measured, or what the learner's numbers equal to the digit. What to do about it is said
only where the task demands it, or where it was tried and passes: advice that nobody has tested misleads.

One file a lesson, or a folder. Nothing here uses llmc.backends: a mistake there must not become a right answer here.
"""
