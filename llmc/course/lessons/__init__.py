"""What the checks of each lesson compare with: a float64 reference, and known mistakes by name.

One file a lesson, or a folder. Nothing here uses llmc.backends: a mistake there must not become a right answer here.
"""
