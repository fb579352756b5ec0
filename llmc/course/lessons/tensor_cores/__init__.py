"""Lesson 19: tensor cores, from a warp's squares to Hopper's copies and products in the background."""
