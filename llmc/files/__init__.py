"""Files as every other room reads and writes them: whole or not at all, llm.c's header, long stretches of numbers."""
