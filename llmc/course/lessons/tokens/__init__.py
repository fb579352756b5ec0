"""Lesson 08: byte-pair encoding, token files, batches."""
