"""CUDA kernels on the CPU: threads run in turns, and everything they do is observed. `llmc.cuda` is the way in.

How it works. The host's C++ compiler compiles the kernel's own text (`compiling/`) with headers that explain CUDA's
words (`include/`). A small runtime (`runtime/`) runs every CUDA thread of a block as a fiber; a thread goes on until it
waits at a barrier or for its warp. In a checked build the compiler's thread-sanitizer pass calls the runtime before
every load and store; the runtime looks the address up, compares the access with what other threads did, and counts it.

    calling/    from the arguments of a launch to bytes; everything that can be wrong with them
    compiling/  from the text of a kernel to a shared library
    launching/  from both to a launch, and from the runtime's memory to its records
    findings/   those records, the table of all kinds of problems (kinds.py), and the sentences about them
    reporting/  the Report that a learner reads: problems, tables, pictures

What it sees: addresses outside arrays, misaligned ones, races within a block and between blocks, reads of what nothing
wrote, outputs that nothing wrote, barriers and warp functions that not all threads reach, kernels that do not end,
division by zero, overflow, static indices, asserts, local variables without a value; and for each line the memory
transactions and bank conflicts.

What it does not see, or sees differently:
- Time. It counts what a memory system would move; it does not model how long that takes.
- check=False is for speed: the kernel works on your arrays themselves, and a wrong index may overwrite something else.
- Checked blocks run one after the other, in order. A block that waits for a later one never ends,
  which can happen on a GPU too.
- Missing fences: an atomic publishes everything its thread did before, with or without `__threadfence`.
- An ordinary read next to other threads' atomics is a race, unless its thread goes on to atomicCAS, Min, Max, And or Or
  on what it has read: those look again, as in `if (x > *largest) atomicMax(largest, x);`. A volatile read is taken to
  be meant.
- Local variables without a value: only what the compiler sees without running the kernel, as a note.
- Arithmetic agrees with a GPU up to rounding: nothing is fused into multiply-adds unless the kernel says fmaf. A float
  below 2^-126 stays what it is; CuPy has a GPU flush it to zero (-ftz=true). What does not fit an integer becomes what
  a GPU makes of it where a cast is written, and is a problem elsewhere; so is a shift by all the bits or more, which
  processors treat differently. 570 operations and instructions are tested against an H200's bits. The order in which
  the arguments of a call are computed, which C++ leaves open, is the choice of the host's compiler.
- Addresses in structs, in arrays of pointers, in the kernel's variables and in its own memory are followed to arrays
  that were arguments, or that a variable of a running function holds.
- Threads that have returned count as arrived at a barrier, as on a GPU since Volta. A barrier in an `if` that threads
  go past alive is a mistake, whether or not they end before anybody could notice.
- Asynchronous copies (cp.async, cuda::pipeline) arrive when they are waited for, never before: reading too early is
  always found, and is called a race. What a GPU would find there is luck.
- Inline PTX is translated to C++ (`compiling/ptx/`, whose forms.py is the table of what is known): cp.async, ldmatrix,
  stmatrix, mma.sync, loads, stores and atomics with their hints, conversions, shuffles, barriers with a number, plain
  arithmetic. Cache hints and .ftz have no effect; shared memory has 32-bit addresses of its own, as on a GPU.
- Tensor cores (mma.sync, wmma): products are exact and are added up in fp32 along k; a GPU adds in an order of its own,
  so the last bits differ; Hopper keeps about 14 bits when it adds products of fp8. The last 13 bits of a tf32 are
  ignored. All 32 lanes must execute the same instruction.
- Hopper (mbarrier, bulk copies with tensor maps, wgmma; cuda::barrier is an mbarrier): a copy arrives when its
  mbarrier is waited for, a product is made and a bulk store reads when its group is waited for, each at the last
  moment: whoever comes too early finds poison, and what is overwritten too early is seen. What an mbarrier orders is
  known exactly; so is what fence.proxy.async covers, from the writing or from the reading side. A bulk copy counts as
  one request for sectors of global memory; what it and wgmma do to the banks of shared memory is not counted.
- wgmma: m64nNk16 of f16 and bf16, m64nNk8 of tf32, m64nNk32 of e4m3 and e5m2, sums in f32 or f16, A from shared
  memory or registers; not sparse, not of integers. All four warps meet at each of its instructions, and what one thread
  has waited for is done for all. A thread's own use of a sum's registers is seen; its use of A's registers is not.
- A cluster has one block: of other blocks' shared memory, and of copies to several blocks, it says that it has none.
- Refused, by name and line, where a kernel that is launched uses it: other PTX (Blackwell's own instructions, integer
  and sparse wgmma, reductions by bulk copies), launches from kernels, textures, cooperative_groups' clusters; barriers
  of a grid of several blocks.
"""
