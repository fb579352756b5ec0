// cp.async: copies into shared memory that arrive when they are waited for, not before; see runtime/copies.cpp.
#pragma once

namespace llmc_ptx {
constexpr bool ca = false, cg = true;  // which caches a copy passes: .cg knows only 16 bytes
// `bytes` from global to shared memory; what follows the first `source_bytes` becomes zeros and is not read.
template <bool cg>
LLMC_INLINE void cp_async_part(void* to, const void* from, u32 bytes, u32 source_bytes, LLMC_HERE) {
    if (cg && bytes != 16) llmc_stop(LLMC_ASSERT, line, "cp.async.cg copies 16 bytes");
    if (bytes != 4 && bytes != 8 && bytes != 16) llmc_stop(LLMC_ASSERT, line, "cp.async.ca copies 4, 8 or 16 bytes");
    if (source_bytes > bytes) llmc_stop(LLMC_ASSERT, line, "cp.async cannot read more bytes than it copies");
    llmc_copy_later(to, from, source_bytes, bytes);
}
template <bool cg>
LLMC_INLINE void cp_async(void* to, const void* from, u32 bytes, LLMC_HERE) {
    cp_async_part<cg>(to, from, bytes, bytes, line);
}
template <bool cg>
LLMC_INLINE void cp_async_unless(void* to, const void* from, u32 bytes, pred ignored, LLMC_HERE) {
    cp_async_part<cg>(to, from, bytes, ignored ? 0 : bytes, line);
}
LLMC_INLINE void cp_async_commit_group() { llmc_commit_copies(); }
LLMC_INLINE void cp_async_wait_group(u32 prior) { llmc_wait_copies(prior); }
LLMC_INLINE void cp_async_wait_all() { llmc_commit_copies(), llmc_wait_copies(0); }
}  // namespace llmc_ptx
