"""Lesson 20: its experiments (lowered.py, bugs.py), its schedules, and what its checks compare with."""
