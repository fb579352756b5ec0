"""Lesson 06: attention head by head, and its memory."""
