// The copy behind memcpy_async: the threads of a group copy words in turns, right away. On a GPU it may happen later.
#pragma once

namespace cuda {
template <size_t alignment>
struct aligned_size_t {
    size_t value;
    constexpr explicit aligned_size_t(size_t n) : value(n) {}
    constexpr operator size_t() const { return value; }
};
}  // namespace cuda

template <class Word>
LLMC_INLINE void llmc_copy_words(void* to, const void* from, size_t bytes, size_t rank, size_t threads) {
    typedef Word __attribute__((may_alias)) Any;
    for (size_t i = rank; i < bytes / sizeof(Word); i += threads) ((Any*)to)[i] = ((const Any*)from)[i];
}
LLMC_INLINE void llmc_copy(void* to, const void* from, size_t bytes, size_t rank, size_t threads) {
    size_t bits = (size_t)to | (size_t)from | bytes;
    if (bits % 4) llmc_copy_words<char>(to, from, bytes, rank, threads);
    else llmc_copy_words<unsigned>(to, from, bytes, rank, threads);
}
