// Where a checked launch keeps its arrays: copies, each in a slot of its own with gigabytes of nothing around it, so that
// any wrong index still tells which array was meant.
#pragma once
#include "state.h"

constexpr size_t SLOT = size_t(8) << 30, SLOTS = 64, ARENA = SLOT * SLOTS;
constexpr size_t BEFORE = size_t(2) << 30;       // of a slot, in front of its array
constexpr size_t MAX_ARRAY = size_t(2) << 30;    // bytes of an array

struct Arena {
    char* base = nullptr;
    Region slots[SLOTS] = {};
    Region shared_static = {}, shared_dynamic = {}, module = {};
};
extern Arena arena;
