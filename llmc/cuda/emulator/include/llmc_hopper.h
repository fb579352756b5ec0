// Hopper's own machines, as ../runtime runs them: mbarriers, bulk copies, products of warpgroups. ptx/barriers.h, bulk.h
// and warpgroups.h say what their instructions are.
#pragma once

// What each of a warpgroup's 128 threads asks for with a wgmma: 64 x n = 64 x k by k x n, 32 bytes along k.
struct LlmcProduct {
    void* const* registers;  // of the sum, `count` of them: f32, or pairs of f16
    const unsigned* a;       // four registers of A, null: it is in shared memory
    unsigned long long from_a, from_b;  // descriptors of matrices there
    int n, count;
    int type, type_b;        // of A and B, which differ only if both are fp8
    bool half, adds;         // the sum is in f16; it is added to
    bool minus_a, minus_b, along_m, along_n;  // A, B are negated, or lie along m, n instead of along k
};
enum { LLMC_F16, LLMC_BF16, LLMC_TF32, LLMC_E4M3, LLMC_E5M2 };

extern "C" {
void llmc_mbarrier_init(void* at, unsigned count);
void llmc_mbarrier_inval(void* at);
unsigned long long llmc_mbarrier_arrive(void* at, unsigned count, unsigned bytes, bool leaves);
void llmc_mbarrier_expect(void* at, int bytes);
bool llmc_mbarrier_test(const void* at, unsigned long long phase, bool parity, bool waits);
void llmc_fence_proxy();
void llmc_bulk_load(void* to, const void* from, unsigned bytes, const void* barrier);
void llmc_bulk_store(void* to, const void* from, unsigned bytes);
void llmc_tensor_load(void* to, const void* map, int rank, const int* at, const void* barrier);
void llmc_tensor_store(const void* map, int rank, const int* at, const void* from);
void llmc_bulk_commit();
void llmc_bulk_wait(unsigned prior);
void llmc_wgmma_fence();
void llmc_wgmma(const LlmcProduct* product, int line);
void llmc_wgmma_commit(int line);
void llmc_wgmma_wait(unsigned pending, int line);
}
