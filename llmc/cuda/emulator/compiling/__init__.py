"""From the text of a kernel to a shared library: what is rewritten or refused, which compiler, where it is kept."""
