"""Does a model compute what PyTorch and llm.c computed? Cases, the comparison and the scoreboard."""
