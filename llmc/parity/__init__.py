"""Does it compute what PyTorch and llm.c computed? Cases, comparisons and the scoreboard."""
