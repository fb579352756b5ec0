"""Lesson 23: its views into the model, its panel, and what its exercises compare with."""
