"""Lesson 13: softmax and layernorm by threads, warps and lanes."""
