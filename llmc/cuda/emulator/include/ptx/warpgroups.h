// wgmma: products of four warps; see runtime/warpgroups.cpp. The registers of the sum are the kernel's own variables, for
// they get their values only when the product is waited for.
#pragma once

namespace llmc_ptx {
template <int n> struct Registers { void* place[n]; };
template <class... R>
LLMC_INLINE Registers<sizeof...(R)> registers(R&... each) {
    static_assert(((sizeof(R) == 4) && ...), "the registers of a wgmma's sum have 32 bits");
    return {{(void*)&each...}};
}
constexpr int type_of(f16*) { return LLMC_F16; }
constexpr int type_of(bf16*) { return LLMC_BF16; }
constexpr int type_of(tf32*) { return LLMC_TF32; }
constexpr int type_of(e4m3*) { return LLMC_E4M3; }
constexpr int type_of(e5m2*) { return LLMC_E5M2; }

template <int n, class D, class T, class TB = T, int count>
LLMC_INLINE LlmcProduct product(const Registers<count>& d, b64 b, pred adds, int scale_a, int scale_b, int line) {
    static_assert(n >= 8 && n <= 256 && n % 8 == 0, "wgmma has n from 8 to 256, a multiple of 8");
    if ((scale_a != 1 && scale_a != -1) || (scale_b != 1 && scale_b != -1))
        llmc_stop(LLMC_ASSERT, line, "imm-scale-a and imm-scale-b of a wgmma are 1 or -1");
    LlmcProduct p = {};
    p.registers = d.place, p.count = count, p.n = n, p.from_b = b, p.adds = adds;
    p.type = type_of((T*)nullptr), p.type_b = type_of((TB*)nullptr);
    p.half = std::is_same_v<D, f16>, p.minus_a = scale_a < 0, p.minus_b = scale_b < 0;
    return p;
}
template <int n, class D, class T, class TB = T, int count>
LLMC_INLINE void wgmma(Registers<count> d, b64 a, b64 b, pred adds, int scale_a, int scale_b, int along_m, int along_n, LLMC_HERE) {
    LlmcProduct p = product<n, D, T, TB>(d, b, adds, scale_a, scale_b, line);
    p.from_a = a, p.along_m = along_m, p.along_n = along_n;
    llmc_wgmma(&p, line);
}
template <int n, class D, class T, class TB = T, int count>
LLMC_INLINE void wgmma_a(Registers<count> d, Vector<b32, 4> a, b64 b, pred adds, int scale_a, int scale_b, int along_n, LLMC_HERE) {
    LlmcProduct p = product<n, D, T, TB>(d, b, adds, scale_a, scale_b, line);
    p.a = a.x, p.along_n = along_n;
    llmc_wgmma(&p, line);
}
template <int n, class D, class T, class TB = T, int count>
LLMC_INLINE void wgmma_along_k(Registers<count> d, b64 a, b64 b, pred adds, int scale_a, int scale_b, LLMC_HERE) {
    wgmma<n, D, T, TB>(d, a, b, adds, scale_a, scale_b, 0, 0, line);
}
template <int n, class D, class T, class TB = T, int count>
LLMC_INLINE void wgmma_a_along_k(Registers<count> d, Vector<b32, 4> a, b64 b, pred adds, int scale_a, int scale_b, LLMC_HERE) {
    wgmma_a<n, D, T, TB>(d, a, b, adds, scale_a, scale_b, 0, line);
}
LLMC_INLINE void wgmma_fence() { llmc_wgmma_fence(); }
LLMC_INLINE void wgmma_commit(LLMC_HERE) { llmc_wgmma_commit(line); }
LLMC_INLINE void wgmma_wait(u32 pending, LLMC_HERE) { llmc_wgmma_wait(pending, line); }
}  // namespace llmc_ptx
