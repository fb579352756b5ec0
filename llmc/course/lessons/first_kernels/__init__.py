"""Lesson 12: what the checks of its exercises try and recognise."""
