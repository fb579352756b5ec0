"""Lesson 21: its drawings, and a ring of processes that run a program of the lesson."""
