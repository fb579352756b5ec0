// Where a checked launch keeps its arrays: copies, each in a slot of its own with gigabytes of nothing around it, so
// that any wrong index still tells which array was meant.
#pragma once
#include "state.h"

constexpr size_t SLOT = size_t(8) << 30, ARENA = SLOT * MOST_ARRAYS;
constexpr size_t BEFORE = size_t(2) << 30;     // of a slot, in front of its array
constexpr size_t MAX_ARRAY = size_t(2) << 30;  // bytes of an array
constexpr size_t ALIGNED = size_t(4) << 30;    // so that addresses have the same low bits in every process

constexpr int MOST_SHARED_ARRAYS = 64;

struct Arena {
    // what lies in the library's thread-local memory, as offsets: static __shared__ arrays of the kernel that runs, and
    // the compiler's own marks (whether a constructor has run); none known: -1
    int shared_arrays = -1;
    size_t shared_from[MOST_SHARED_ARRAYS], shared_to[MOST_SHARED_ARRAYS];
    bool shared_mark[MOST_SHARED_ARRAYS];
    char* base = nullptr;
    Region slots[MOST_ARRAYS] = {};
    int used = 0;  // of them
    Region shared_static = {}, shared_dynamic = {}, module = {}, heap = {};
};
extern Arena arena;
Region* region_of(const char* address);  // null: memory that is not watched
void place(Region& r, char* data, size_t size, int shift, int space, int argument = NO_ARGUMENT);
