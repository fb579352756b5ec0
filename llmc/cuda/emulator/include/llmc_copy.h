// The copy behind memcpy_async: the threads of a group ask for words in turns, which arrive when they are waited for.
#pragma once

namespace cuda {
template <size_t alignment>
struct aligned_size_t {
    size_t value;
    constexpr explicit aligned_size_t(size_t n) : value(n) {}
    constexpr operator size_t() const { return value; }
};
}  // namespace cuda

LLMC_INLINE void llmc_copy(void* to, const void* from, size_t bytes, size_t rank, size_t threads) {
    size_t bits = (size_t)to | (size_t)from | bytes;
    unsigned word = bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : 1;
    for (size_t i = rank * word; i < bytes; i += threads * word)
        llmc_copy_later((char*)to + i, (const char*)from + i, word, word);
}
