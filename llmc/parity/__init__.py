"""Does a model compute what PyTorch and llm.c computed? Cases, comparison, scoreboard; training in all precisions."""
