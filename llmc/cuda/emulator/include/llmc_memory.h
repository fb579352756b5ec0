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

LLMC_QUIET void llmc_fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
LLMC_INLINE void __threadfence() { llmc_fence(); }
LLMC_INLINE void __threadfence_block() { llmc_fence(); }
LLMC_INLINE void __threadfence_system() { llmc_fence(); }

LLMC_INLINE unsigned __isGlobal(const void* address) { return address != nullptr; }
LLMC_INLINE size_t __cvta_generic_to_shared(const void* address) { return (size_t)address; }
LLMC_INLINE size_t __cvta_generic_to_global(const void* address) { return (size_t)address; }
