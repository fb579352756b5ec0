// Loads and stores with a cache hint, which mean nothing here, and fences.
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

// The compiler reports neither of these. Bytes: any number of them.
#define LLMC_STRING_FUNCTION(name, T, from_is_read)                    \
    LLMC_INLINE void* name(void* to, T from, size_t bytes) {           \
        if (from_is_read && bytes) llmc_read((const void*)(size_t)from, (unsigned)bytes); \
        if (bytes) llmc_write(to, (unsigned)bytes);                    \
        return __builtin_##name(to, from, bytes);                      \
    }
LLMC_STRING_FUNCTION(memcpy, const void*, true)
LLMC_STRING_FUNCTION(memmove, const void*, true)
LLMC_STRING_FUNCTION(memset, int, false)

LLMC_QUIET void llmc_fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
LLMC_INLINE void __threadfence() { llmc_fence(); }
LLMC_INLINE void __threadfence_block() { llmc_fence(); }
LLMC_INLINE void __threadfence_system() { llmc_fence(); }

LLMC_INLINE unsigned __isGlobal(const void* address) { return address != nullptr; }
LLMC_INLINE size_t __cvta_generic_to_shared(const void* address) { return (size_t)address; }
LLMC_INLINE size_t __cvta_generic_to_global(const void* address) { return (size_t)address; }
