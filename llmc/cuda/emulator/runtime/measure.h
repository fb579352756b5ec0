// What was counted, as ../reading.py reads it: keep the two alike.
#pragma once
#include <cstdint>
#include <vector>

struct Counted {
    int64_t pc, requests, lanes, sectors, ideal, passes, least, worst;
    int32_t space, argument, size, write, atomic, unused;
};
struct Traced {
    int64_t pc, offset;
    uint32_t block, thread;
    int32_t argument, size, write, space;
};
struct Measured {
    std::vector<Counted> counts;
    std::vector<Traced> trace;
};
extern Measured measured;
