// cub::BlockRadixSort. CUB sorts digit by digit; here each thread counts how many keys come before each of its own,
// which is the same order (stable, by the bits of the key) and short.
#pragma once

#include "llmc_cub_memory.h"

namespace cub {
// The bits of a key as an unsigned number of the same order: of a negative float all are flipped, else the sign.
template <class Key>
LLMC_INLINE unsigned long long llmc_radix(Key key) {
    constexpr int bits = 8 * sizeof(Key);
    unsigned long long x = 0, sign = 1ull << (bits - 1);
    __builtin_memcpy(&x, &key, sizeof(Key));
    if (std::is_signed_v<Key> && std::is_integral_v<Key>) return x ^ sign;
    if (!std::is_unsigned_v<Key>) return x & sign ? x ^ (~0ull >> (64 - bits)) : x ^ sign;
    return x;
}

template <class Key, int x, int items, class Value = NullType, int radix_bits = 4, bool memoize = true,
          BlockScanAlgorithm scan = BLOCK_SCAN_WARP_SCANS, int shared_config = 0, int y = 1, int z = 1, int arch = 0>
class BlockRadixSort {
    static constexpr int all = x * y * z * items;
    static constexpr bool has_values = !std::is_same_v<Value, NullType>;

public:
    union TempStorage {
        LlmcStorage<unsigned long long, all> bits;
        typename BlockExchange<Key, x, items, false, y, z>::TempStorage keys;
        typename BlockExchange<Value, x, items, false, y, z>::TempStorage values;
    };
    LLMC_METHOD BlockRadixSort(TempStorage& storage) : storage(storage) {}
    LLMC_METHOD BlockRadixSort() : storage(own()) {}
#define LLMC_CUB_SORT(name, descending, striped)                                                                      \
    LLMC_METHOD void name(Key (&keys)[items], int begin = 0, int end = 8 * sizeof(Key), LLMC_HERE_TOO) {              \
        NullType none[items];                                                                                         \
        sort(keys, none, begin, end, descending, striped, line.at);                                                   \
    }                                                                                                                 \
    LLMC_METHOD void name(Key (&keys)[items], Value (&values)[items], int begin = 0, int end = 8 * sizeof(Key),       \
                          LLMC_HERE_TOO) {                                                                            \
        sort(keys, values, begin, end, descending, striped, line.at);                                                 \
    }
    LLMC_CUB_SORT(Sort, false, false)
    LLMC_CUB_SORT(SortDescending, true, false)
    LLMC_CUB_SORT(SortBlockedToStriped, false, true)
    LLMC_CUB_SORT(SortDescendingBlockedToStriped, true, true)
#undef LLMC_CUB_SORT

private:
    TempStorage& storage;
    template <class V>
    LLMC_METHOD void sort(Key (&keys)[items], V (&values)[items], int begin, int end, bool descending, bool striped,
                          int line) {
        int ranks[items], first = llmc_tid() * items;
        unsigned long long mine[items];
        for (int k = 0; k < items; k++) {
            mine[k] = (descending ? ~llmc_radix(keys[k]) : llmc_radix(keys[k])) >> begin & ~0ull >> (64 - end + begin);
            storage.bits[first + k] = mine[k];
        }
        __syncthreads(line);
        for (int k = 0; k < items; k++) {
            ranks[k] = 0;
            for (int i = 0; i < all; i++)
                ranks[k] += storage.bits[i] < mine[k] || (storage.bits[i] == mine[k] && i < first + k);
        }
        __syncthreads(line);
        scatter(storage.keys, keys, ranks, striped, line);
        if constexpr (has_values) {
            __syncthreads(line);
            scatter(storage.values, values, ranks, striped, line);
        }
    }
    template <class Storage, class T>
    LLMC_METHOD void scatter(Storage& storage, T (&in)[items], int (&ranks)[items], bool striped, int line) {
        BlockExchange<T, x, items, false, y, z> exchange(storage);
        if (striped) exchange.ScatterToStriped(in, in, ranks, {line});
        else exchange.ScatterToBlocked(in, in, ranks, {line});
    }
    LLMC_METHOD static TempStorage& own() {
        __shared__ TempStorage storage;
        return storage;
    }
};
}  // namespace cub
