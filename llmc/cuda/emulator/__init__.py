"""CUDA kernels on the CPU: each thread runs, in turns, and everything it does is seen. `llmc.cuda` is the way in."""
