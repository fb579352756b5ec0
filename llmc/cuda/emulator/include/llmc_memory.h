// Loads and stores with a cache hint, which has no effect here, and fences.
#pragma once

#define LLMC_LOAD(name)                                   \
    template <class T>                                    \
    LLMC_INLINE T name(const T* address) { return *address; }
#define LLMC_STORE(name)                                  \
    template <class T>                                    \
    LLMC_INLINE void name(T* address, typename LlmcValue<T>::type value) { *address = value; }
LLMC_LOAD(__ldg)
LLMC_LOAD(__ldca)
LLMC_LOAD(__ldcg)
LLMC_LOAD(__ldcs)
LLMC_LOAD(__ldcv)
LLMC_LOAD(__ldlu)
LLMC_STORE(__stwb)
LLMC_STORE(__stcg)
LLMC_STORE(__stcs)
LLMC_STORE(__stwt)

// Copies of bytes, reported here once: the compiler would report only some of them, depending on their size. (clang
// reports each memcpy, in ways that runtime/hooks.cpp knows.)
LLMC_QUIET void llmc_move_bytes(void* to, const void* from, size_t bytes) { __builtin_memmove(to, from, bytes); }
LLMC_QUIET void llmc_set_bytes(void* to, int byte, size_t bytes) { __builtin_memset(to, byte, bytes); }
LLMC_INLINE void* memmove(void* to, const void* from, size_t bytes) {
    if (bytes) llmc_read(from, (unsigned)bytes), llmc_write(to, (unsigned)bytes);
    llmc_move_bytes(to, from, bytes);
    return to;
}
LLMC_INLINE void* memset(void* to, int byte, size_t bytes) {
    if (bytes) llmc_write(to, (unsigned)bytes);
    llmc_set_bytes(to, byte, bytes);
    return to;
}
#if defined(__clang__) || !defined(LLMC_CHECKED)
LLMC_INLINE void* memcpy(void* to, const void* from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }
#else
LLMC_INLINE void* memcpy(void* to, const void* from, size_t bytes) { return memmove(to, from, bytes); }
#endif

LLMC_QUIET void llmc_fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
LLMC_INLINE void __threadfence() { llmc_fence(); }
LLMC_INLINE void __threadfence_block() { llmc_fence(); }
LLMC_INLINE void __threadfence_system() { llmc_fence(); }

// Shared memory has addresses of its own, of 32 bits as on a GPU: a block's dynamic shared memory begins at one constant,
// the static arrays of its kernel at another. What is aligned in the one is aligned in the other, up to 1024 bytes. Of an
// address 18 bits suffice, for that is what a wgmma's descriptor keeps. Whatever is not shared gets an address that
// belongs to nobody.
static constexpr long LLMC_DYNAMIC_ADDRESS = 32 << 20, LLMC_STATIC_ADDRESS = (16 << 20) + LLMC_STATIC_WINDOW;
static constexpr long LLMC_AROUND = 4 << 20;
LLMC_QUIET size_t llmc_shared_address(const void* pointer) {
    long dynamic = (const char*)pointer - (const char*)llmc_dynamic_shared();
    long fixed = (const char*)pointer - llmc_static_shared();
    bool is_fixed = fixed > -LLMC_AROUND && fixed < LLMC_AROUND, is_dynamic = dynamic >= 0 && dynamic < 256 << 10;
    if (!is_dynamic && is_fixed) return (size_t)(LLMC_STATIC_ADDRESS + fixed);
    if (dynamic > -LLMC_AROUND && dynamic < LLMC_AROUND) return (size_t)(LLMC_DYNAMIC_ADDRESS + dynamic);
    return 64;
}
LLMC_QUIET void* llmc_shared_pointer(size_t address) {
    long dynamic = (long)address - LLMC_DYNAMIC_ADDRESS, fixed = (long)address - LLMC_STATIC_ADDRESS;
    if (dynamic > -LLMC_AROUND && dynamic < LLMC_AROUND) return (char*)llmc_dynamic_shared() + dynamic;
    if (fixed > -LLMC_AROUND && fixed < LLMC_AROUND) return llmc_static_shared() + fixed;
    return (void*)64;
}
LLMC_INLINE unsigned __isGlobal(const void* address) { return address != nullptr; }
LLMC_INLINE unsigned __isShared(const void* address) { return llmc_shared_address(address) != 64; }
LLMC_INLINE size_t __cvta_generic_to_shared(const void* address) { return llmc_shared_address(address); }
LLMC_INLINE size_t __cvta_generic_to_global(const void* address) { return (size_t)address; }
LLMC_INLINE void* __cvta_shared_to_generic(size_t address) { return llmc_shared_pointer(address); }
LLMC_INLINE void* __cvta_global_to_generic(size_t address) { return (void*)address; }
