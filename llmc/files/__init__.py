"""Code that data/ and checkpoints/ share: files written whole or not at all, llm.c's header, long runs of numbers."""
