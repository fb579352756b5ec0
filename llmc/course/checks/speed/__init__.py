"""How fast an answer is, next to the given one and to a limit, and what it keeps in memory."""
