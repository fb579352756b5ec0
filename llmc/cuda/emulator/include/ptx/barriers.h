// mbarrier: see runtime/mbarriers.cpp. A state is the number of a phase. A block is a cluster of its own here.
#pragma once

namespace llmc_ptx {
LLMC_INLINE void mbarrier_init(char* at, u32 count) { llmc_mbarrier_init(at, count); }
LLMC_INLINE void mbarrier_inval(char* at) { llmc_mbarrier_inval(at); }
LLMC_INLINE b64 mbarrier_arrive(char* at, u32 count = 1) { return llmc_mbarrier_arrive(at, count, 0, false); }
LLMC_INLINE b64 mbarrier_arrive_drop(char* at, u32 count = 1) { return llmc_mbarrier_arrive(at, count, 0, true); }
LLMC_INLINE b64 mbarrier_arrive_expect_tx(char* at, u32 bytes) { return llmc_mbarrier_arrive(at, 1, bytes, false); }
LLMC_INLINE void mbarrier_expect_tx(char* at, u32 bytes) { llmc_mbarrier_expect(at, (int)bytes); }
LLMC_INLINE void mbarrier_complete_tx(char* at, u32 bytes) { llmc_mbarrier_expect(at, -(int)bytes); }
LLMC_INLINE pred mbarrier_try_wait(const char* at, b64 state, u32 = 0) { return llmc_mbarrier_test(at, state, false, true); }
LLMC_INLINE pred mbarrier_test_wait(const char* at, b64 state) { return llmc_mbarrier_test(at, state, false, false); }
LLMC_INLINE pred mbarrier_try_wait_parity(const char* at, u32 parity, u32 = 0) {
    return llmc_mbarrier_test(at, parity, true, true);
}
LLMC_INLINE pred mbarrier_test_wait_parity(const char* at, u32 parity) { return llmc_mbarrier_test(at, parity, true, false); }
// What this thread has asked for with cp.async so far belongs to the phase.
LLMC_INLINE void cp_async_mbarrier_arrive(char* at) { llmc_bind_copies(at); }
LLMC_INLINE void cp_async_mbarrier_arrive_noinc(char* at) { llmc_bind_copies(at), llmc_mbarrier_arrive(at, 1, 0, false); }

LLMC_INLINE void fence_proxy_async() { llmc_fence(), llmc_fence_proxy(); }
LLMC_INLINE void barrier_cluster_arrive() {}
LLMC_INLINE void barrier_cluster_wait(LLMC_HERE) { __syncthreads(line); }
template <class T>
LLMC_INLINE T mapa(T address, u32 block, LLMC_HERE) {
    if (block) llmc_stop(LLMC_UNSUPPORTED, line, "shared memory of another block of a cluster");
    return address;
}
LLMC_INLINE WithPredicate<b32> elect(u32 mask, LLMC_HERE) {
    unsigned lanes = __ballot_sync(mask, true, line), leader = (unsigned)__builtin_ctz(lanes);
    return {leader, llmc_lane() == leader};
}
LLMC_INLINE void setmaxnreg(u32 registers, LLMC_HERE) {
    if (registers < 24 || registers > 256 || registers % 8)
        llmc_stop(LLMC_ASSERT, line, "setmaxnreg takes 24 to 256 registers, a multiple of 8");
}
LLMC_INLINE void nothing_here() {}
}  // namespace llmc_ptx
