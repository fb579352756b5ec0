// Where a kernel's library lies in memory, as the calling operating-system thread sees it.
#pragma once
#include <cstddef>

struct Loaded {
    char *base = nullptr, *end = nullptr;
    char *data = nullptr, *data_end = nullptr;  // its variables
    size_t shared = 0;                          // bytes of its thread-local segment: all static __shared__ arrays
    char* anchor_block = nullptr;               // and where this thread's copy of it begins
};
Loaded look_up(void* symbol, void* (*anchor)());
