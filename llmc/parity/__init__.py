"""Does a model compute what PyTorch and llm.c computed? Cases, comparison and scoreboard, and training in all
precisions."""
