// Loads and stores of one to four elements, as one access; cache hints have no effect. Shared memory has addresses of its
// own: see llmc_memory.h.
#pragma once

namespace llmc_ptx {
LLMC_INLINE char* in_shared(u64 address) { return (char*)__cvta_shared_to_generic(address); }
LLMC_INLINE char* in_global(u64 address) { return (char*)address; }

template <class T>
LLMC_QUIET T fresh(const char* from) { return *(const volatile T*)from; }  // read again each time
template <class T>
LLMC_QUIET void store_fresh(char* to, T value) { *(volatile T*)to = value; }

template <class T, int n>
LLMC_INLINE Vector<T, n> ld(const char* from) {
    Vector<T, n> values;
    llmc_access(from, sizeof values, false, false);
    llmc_move_bytes(&values, from, sizeof values);
    return values;
}
template <class T, int n>
LLMC_INLINE void st(char* to, Vector<T, n> values) {
    llmc_access(to, sizeof values, true, false);
    llmc_move_bytes(to, &values, sizeof values);
}
// .volatile, .relaxed, .acquire, .release: how threads pass flags.
template <class T, int n>
LLMC_INLINE Vector<T, n> ld_volatile(const char* from) {
    Vector<T, n> values;
    llmc_access(from, sizeof values, false, true);
    for (int k = 0; k < n; k++) values.x[k] = fresh<T>(from + k * sizeof(T));
    return values;
}
template <class T, int n>
LLMC_INLINE void st_volatile(char* to, Vector<T, n> values) {
    llmc_access(to, sizeof values, true, true);
    for (int k = 0; k < n; k++) store_fresh<T>(to + k * sizeof(T), values.x[k]);
}

LLMC_INLINE u64 cvta_to_shared(u64 address) { return __cvta_generic_to_shared((const void*)address); }
LLMC_INLINE u64 cvta_shared(u64 address) { return (u64)__cvta_shared_to_generic(address); }
LLMC_INLINE void prefetch(const char*) {}
LLMC_INLINE void fence() { llmc_fence(); }
LLMC_INLINE b64 createpolicy(f32 = 1) { return 0; }  // a cache hint, for .L2::cache_hint
}  // namespace llmc_ptx
