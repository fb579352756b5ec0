// cp.async.bulk: copies by a machine of their own; see runtime/bulk.cpp.
#pragma once

namespace llmc_ptx {
LLMC_INLINE void bulk_load(char* to, const char* from, u32 bytes, char* barrier) { llmc_bulk_load(to, from, bytes, barrier); }
LLMC_INLINE void bulk_store(char* to, const char* from, u32 bytes) { llmc_bulk_store(to, from, bytes); }
LLMC_INLINE void alone(u32 mask, int line) {
    if (mask != 1) llmc_stop(LLMC_UNSUPPORTED, line, "a copy to other blocks of a cluster");
}
LLMC_INLINE void bulk_load_to(char* to, const char* from, u32 bytes, char* barrier, u16 mask, LLMC_HERE) {
    alone(mask, line);
    llmc_bulk_load(to, from, bytes, barrier);
}
template <int rank>
LLMC_INLINE void tensor_load(char* to, const char* map, Vector<s32, rank> at, char* barrier) {
    llmc_tensor_load(to, map, rank, at.x, barrier);
}
template <int rank>
LLMC_INLINE void tensor_load_to(char* to, const char* map, Vector<s32, rank> at, char* barrier, u16 mask, LLMC_HERE) {
    alone(mask, line);
    llmc_tensor_load(to, map, rank, at.x, barrier);
}
template <int rank>
LLMC_INLINE void tensor_store(const char* map, Vector<s32, rank> at, const char* from) {
    llmc_tensor_store(map, rank, at.x, from);
}
template <int rank> LLMC_INLINE void tensor_prefetch(const char*, Vector<s32, rank>) {}
LLMC_INLINE void bulk_prefetch(const char*, u32) {}
LLMC_INLINE void bulk_commit_group() { llmc_bulk_commit(); }
LLMC_INLINE void bulk_wait_group(u32 prior) { llmc_bulk_wait(prior); }
}  // namespace llmc_ptx
