// malloc and free, new and delete. Only included where the kernel's text has one of these words (prepare in source.py).
#pragma once

// The heap of the device: 8 MB. malloc returns null when it is used up.
LLMC_INLINE void* malloc(size_t bytes) { return llmc_malloc(bytes); }
LLMC_INLINE void free(void* p, LLMC_HERE) { llmc_free(p, line); }
// Not inline, as the language demands; linked with -Bsymbolic, the library uses these and not the process's own.
#define LLMC_NEW __attribute__((noinline))
LLMC_NEW void* operator new(size_t bytes) { return llmc_malloc(bytes); }
LLMC_NEW void* operator new[](size_t bytes) { return llmc_malloc(bytes); }
inline void* operator new(size_t, void* place) noexcept { return place; }
inline void* operator new[](size_t, void* place) noexcept { return place; }
LLMC_NEW void operator delete(void* p) noexcept { llmc_free(p, 0); }
LLMC_NEW void operator delete[](void* p) noexcept { llmc_free(p, 0); }
LLMC_NEW void operator delete(void* p, size_t) noexcept { llmc_free(p, 0); }
LLMC_NEW void operator delete[](void* p, size_t) noexcept { llmc_free(p, 0); }
