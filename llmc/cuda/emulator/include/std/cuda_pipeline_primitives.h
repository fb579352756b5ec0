// The functions of cuda_pipeline.h; see there.
#pragma once

LLMC_INLINE void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0, LLMC_HERE) {
    if (bytes != 4 && bytes != 8 && bytes != 16)
        llmc_stop(LLMC_ASSERT, line, "__pipeline_memcpy_async copies 4, 8 or 16 bytes");
    llmc_copy_later(to, from, (unsigned)(bytes - zeros), (unsigned)bytes);  // the last `zeros` bytes become 0
}
LLMC_INLINE void __pipeline_commit() { llmc_commit_copies(); }
LLMC_INLINE void __pipeline_wait_prior(size_t batches) { llmc_wait_copies((unsigned)batches); }
