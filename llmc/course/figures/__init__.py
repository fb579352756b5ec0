"""Figures of the course: one look, live loss curves, rooflines."""
