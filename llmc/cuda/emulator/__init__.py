"""CUDA kernels on the CPU: each thread runs, in turns, and everything it does is seen. `llmc.cuda` is the way in.

How it works. The host's C++ compiler compiles the kernel's own text (`compiling/`) with headers that
explain CUDA's words (`include/`). A small runtime (`runtime/`) runs every CUDA thread of a block as a fiber; a thread
goes on until it waits at a barrier or for its warp. In a checked build the compiler's thread-sanitizer pass calls the
runtime before every load and store, which looks the address up, compares it with what other threads did, and counts.
`reading.py` collects what was found, `reporting/` puts it into words.

What it sees: addresses outside of arrays, misaligned ones, races within a block and between blocks, reads of what
nothing wrote, outputs that nothing wrote, barriers and warp functions that not all reach, kernels that do not end,
division by zero, static indices, asserts; and per line the memory transactions and bank conflicts.

What it does not see, or sees differently:
- Time. It counts what a memory system would move, and is no model of how long that takes.
- check=False is for speed: the kernel works on your arrays themselves, and a wrong index may overwrite something else.
- Checked blocks run one after the other, in order. A block that waits for a later one never ends, as it may on a GPU.
- Missing fences: an atomic publishes all that its thread did before, with `__threadfence` or without.
- Barriers made of atomics (cuda::barrier) order more than they should: a missing second wait goes unnoticed. So does an
  ordinary read of shared memory beside other threads' atomics.
- Arithmetic agrees with a GPU to rounding: nothing is fused into multiply-adds unless the kernel says fmaf.
- Refused, by name and line: inline PTX, launches from kernels, textures, grid-wide barriers, clusters, TMA, wgmma.
"""
