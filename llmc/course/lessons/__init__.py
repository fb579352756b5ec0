"""What the checks of each lesson compare with: a float64 reference, and known mistakes by name. One file a lesson, or a folder.

Independent of llmc.backends on purpose: a mistake there must not become a right answer here.
"""
