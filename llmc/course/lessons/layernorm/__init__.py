"""Lesson 01: its exercises (exercises.py), its reference (rows.py), its experiment (networks.py) and its drawings."""
