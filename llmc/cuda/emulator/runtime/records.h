// The records that the runtime and Python both read. ../launching/records.py describes the same bytes; the runtime does
// not compile unless the two agree on every field.
#pragma once
#include <cstdint>

enum Space { NOWHERE, GLOBAL, SHARED };
enum Deed { READS, WRITES, UPDATES };         // what an access does to its place; UPDATES: an atomic
enum Abort { NOT_ABORTED, AFTER_PROBLEM, TOO_LONG, BY_USER };  // why a launch ends early

constexpr uint32_t NOBODY = ~0u;                      // in place of a thread or a block
constexpr int NO_ARGUMENT = -1, STATIC_SHARED = -2;   // in place of an argument's index
constexpr int MOST_ARRAYS = 64;                       // of a checked launch: each has a slot of its own in the arena
constexpr int MOST_TRACED = 1 << 16;                  // accesses; a launch with more of them has no trace

struct Options {  // a launch
    void *entry, *arguments, *anchor;
    uint32_t grid[3], block[3];
    uint64_t shared;  // bytes of dynamic shared memory
    int32_t checked, measured, workers, first;  // first: end at the first problem
};

struct Problem {  // what went wrong at one place in the code, or at a pair of places
    int32_t kind, space, argument, line, line2, write, write2, size;
    int64_t pc, pc2, offset, count;
    uint32_t block, thread, block2, thread2;  // linear, NOBODY where there is none
    uint32_t lanes;                           // mask of a warp's lanes
    uint32_t absent;                          // how many threads did not come to a barrier
    char detail[88];
};

struct Counted {  // all that one load or store instruction did
    int64_t pc, requests, lanes, sectors, passes, ideal, worst;
    int32_t space, argument, size, write, atomic;
};

struct Traced {  // one access
    int64_t pc, offset;
    uint32_t block, thread;
    int32_t argument, size, write, space;
};

struct Span {
    void* data;
    uint64_t size;
};

struct Outcome {  // what a launch leaves behind, readable until it is released
    uint64_t barriers, shuffles, blocks_run, lost_threads, unprinted;
    Span problems, counts, trace, printed, excused;
};
