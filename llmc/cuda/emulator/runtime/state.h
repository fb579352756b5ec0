// What the runtime knows while a kernel runs. A launch is shared by all workers; a worker (one operating-system thread)
// runs one block at a time, and each CUDA thread of that block is a fiber: a stack of its own, switched by hand.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#define LLMC_RUNTIME
#include "../include/llmc_core.h"

constexpr int WARP = 32, MAX_THREADS = 1024;
constexpr size_t STACK = 128 << 10;        // bytes of a fiber; a guard page lies below
constexpr size_t MAX_SHARED = 227 << 10;   // dynamic shared memory of a block, the most any GPU here has

// ------------------------------------------------------------------------------------------------ problems

// Kinds, in the order of KINDS in ../reading.py.
enum Kind {
    OUT_OF_BOUNDS, MISALIGNED, INVALID_POINTER, RACE, MISSING_SYNCWARP, UNINITIALISED, BARRIER_DIVERGENCE, DEADLOCK,
    INACTIVE_LANE, RUNAWAY, STACK_OVERFLOW, DIVISION_BY_ZERO, INTEGER_OVERFLOW, BOUNDS, ASSERT, CRASH,
    EARLY_RETURN, DIFFERENT_BARRIERS,  // these two are notes
};
enum Space { NOWHERE, GLOBAL, SHARED, LOCAL };

struct Problem {  // also read by ../reading.py: keep the two alike
    int32_t kind, space, argument, line, line2, write, write2, size;
    int64_t pc, pc2, offset, count;
    uint32_t block, thread, block2, thread2;  // linear; ~0u where there is none
    uint32_t lanes;
    char detail[84];
};

// ------------------------------------------------------------------------------------------------ memory

// One access that a shadow cell remembers, packed: 0 means none.
struct Access {
    uint64_t segment : 27, thread : 10, bytes : 4, several : 1, atomic : 1, vol : 1, plain : 1, pc : 19;
};
struct Cell {
    Access w, r;  // the last write, the last read; for what atomics use, r.plain marks an ordinary write before them
};
static_assert(sizeof(Cell) == 16, "a cell is two words");

struct Region {  // memory that a kernel may touch
    char* data;
    size_t size;
    Cell* cells;       // one for each 1 << shift bytes
    uint8_t* written;  // one for each 1 << shift bytes, or null where it does not matter
    int shift, space, argument;
    size_t room;  // bytes of `cells`
};

// A stretch of a warp's life without a barrier or __syncwarp in between.
struct Segment {
    uint32_t block, epoch, syncwarps;
};

// ------------------------------------------------------------------------------------------------ launch

struct Launch;

struct alignas(64) Thread {  // one line of the cache
    void* sp;
    char* stack;
    uint3 index;
    int barrier_line;
    unsigned mask;
    uint32_t acquired;  // what its block did before this segment is visible to the thread, through an atomic
    short id;
    unsigned char lane, warp;
    bool atomics;  // it has used an atomic: it may hold a lock, and give it back by an ordinary write
    bool touched;  // it has read or written since its last barrier: leaving before the next is suspicious then
};

struct Collective {
    unsigned mask, arrived;
    int kind, line;
    void (*last)(void**, unsigned);
    void* slots[WARP];
};

struct Warp {
    unsigned exists, unstarted, ready, exited, at_barrier, at_active;
    int active_line[WARP];
    std::vector<Collective> collectives;
    uint32_t segment, syncwarps;
    bool dirty;  // accesses since the segment began
};

struct Worker {
    Launch* launch = nullptr;
    Thread* current = nullptr;
    void* home = nullptr;  // the worker's own stack
    int num_threads = 0, num_warps = 0, warp = 0;
    int alive = 0, waiting = 0;
    // the barrier that threads arrive at: its line, a second line if they differ, and what __syncthreads_count & co find
    int barrier_line = 0, other_line = 0, barrier_value = 0, barrier_result = 0;
    uint32_t block = 0, epoch = 0, first_segment = 0;
    uint32_t acquired = 0;  // what other blocks did before this segment is visible to this one
    std::vector<char*> free_stacks, all_stacks;
    char* dynamic_shared = nullptr;
    void* thread_handle = nullptr;
    int idle = 0, spins = 0;  // turns given away since anything happened; reads of volatile variables
    bool tainted = false;  // a thread was ended early: what follows from that is not news
    Warp warps[MAX_THREADS / WARP];
    Thread threads[MAX_THREADS];
    // a write to where another thread wrote: a race only if it changes the value, known when the next access comes
    struct { bool on; char* address; int size; char before[16]; Problem problem; } pending = {};
};

struct Launch {
    void (*entry)(void**);
    void** arguments;
    uint3 grid, block;
    size_t shared;
    bool checked, measured;
    std::atomic<uint64_t> next_block{0};
    uint64_t blocks;
    std::atomic<int> abort{0};
    std::atomic<uint64_t> blocks_run{0};
    uint64_t barriers = 0, lost_threads = 0;
    // the kernel's library in memory
    char *library, *library_end;
    void* (*shared_anchor)();
    std::vector<Region> regions;
    std::vector<Problem> problems;
    std::vector<Segment> segments;
    uint32_t first_segment = 1;
    std::vector<char> printed;
};

extern "C" {
extern LLMC_THREAD_LOCAL uint3 threadIdx, blockIdx, llmc_block_dim, llmc_grid_dim;
extern LLMC_THREAD_LOCAL Worker* llmc_worker;
}

// scheduler.cpp
void run_block(Worker& w, uint64_t block);
[[noreturn]] void leave(Worker& w);  // give the current thread up: it runs no further
[[noreturn]] void give_up(Worker& w, const char* pc = nullptr);  // the same, because the launch is to end
// memory.cpp
void begin_block_memory(Worker& w);
void new_segment(Worker& w, Warp& warp);
void flush_pending(Worker& w);
bool make_shared_regions(Worker& w);
void settle_block(Worker& w);
// measure.cpp
void measure_access(Worker& w, const Region& r, const char* address, int size, bool write, bool atomic, const char* pc);
void measure_warp(Worker& w, int warp);
void measure_begin(Launch& launch);
// faults.cpp
void install_handlers();
void restore_handlers();
void interrupt(Worker& w);
// problems.cpp
Problem& report(Worker& w, Problem p);
Problem blank(Worker& w, int kind);
