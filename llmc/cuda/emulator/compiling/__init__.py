"""From the text of a kernel to a shared library: what is rewritten or refused, by which compiler, where it is kept."""
