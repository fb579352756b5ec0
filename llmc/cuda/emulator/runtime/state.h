// What the runtime knows while a kernel runs. A launch is shared by all workers; a worker (one operating-system thread)
// runs one block at a time, and each CUDA thread of that block is a fiber: a stack of its own, switched by hand.
//
// The files of this folder are compiled as one (compile_runtime in ../compiling/compiler.py). That is quicker, and
// whatever is called for every access of a kernel can be inlined; but a static name may occur only once in all of them.
#pragma once
#ifdef __APPLE__  // for ucontext.h, before anything else is included
#define _XOPEN_SOURCE 700
#define _DARWIN_C_SOURCE
#endif
#include "kinds.h"
#include "records.h"
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#define LLMC_RUNTIME
#include "../include/llmc_core.h"
#include "../include/llmc_hopper.h"

constexpr int WARP = 32, MAX_THREADS = 1024;
constexpr size_t STACK = 128 << 10;       // bytes of a fiber; a guard page lies below
constexpr size_t MAX_SHARED = 227 << 10;  // dynamic shared memory of a block, the most any GPU here has
constexpr size_t AROUND = 1 << 20;  // bytes of nothing in front of it and behind it, so that a wrong index meets nothing

// ------------------------------------------------------------------------------------------------ memory

// One access that a shadow cell remembers, packed; all zeros where there was none.
struct Access {
    uint64_t segment : 26, thread : 10, bytes : 4, pc : 19;
    uint64_t vol : 1;          // through a volatile pointer
    uint64_t atomic : 1;
    uint64_t several : 1;      // a read: other threads have read in the same stretch as well,
    uint64_t other_warps : 1;  // some of them in other warps
    uint64_t is_write : 1;     // in Cell::read: not a read, but a write or an atomic that another thread's atomic followed
};
constexpr uint32_t MOST_SEGMENTS = (1u << 26) - 1;
struct Cell {
    Access write, read;  // the last of each
};
static_assert(sizeof(Cell) == 16, "a cell is two words");

struct Region {  // memory that a kernel may touch
    char* data;
    size_t size;
    Cell* cells;       // one for each 1 << shift bytes
    uint8_t* written;  // one for each 1 << shift bytes, or null where it does not matter
    int shift, space, argument;
    size_t room;  // bytes of `cells`
    char* home;   // the caller's array, of which this is a copy
    bool kept;    // whether a kernel keeps a pointer to it for the next launch
};

// A stretch of a warp's life without a barrier or __syncwarp in between.
struct Segment {
    uint32_t block, epoch, syncwarps;
    uint32_t agent = 0;  // not a warp's: what copies or tensor cores do, hopper.h
};

// ------------------------------------------------------------------------------------------------ launch

struct Launch;
struct Hopper;

struct alignas(64) Thread {  // one line of the cache
    void* sp;
    char* stack;
    uint3 index;
    int barrier_line;
    unsigned mask;      // the lanes that took part in its last collective
    uint32_t acquired;  // what its block did before this segment is visible to the thread, through an atomic
    short id;
    unsigned char lane, warp;
    unsigned group;  // of asynchronous copies, counted up by each commit
    bool touched;  // it has read or written since its last barrier: then it is suspicious to leave before the next
    // its last plain read next to other threads' atomics since a barrier: by which instruction, and of what
    uint32_t looked_pc;
    const char* looked_at;
};
static_assert(sizeof(Thread) == 64, "one line of the cache");

struct Collective {
    unsigned mask, arrived;
    int kind, line;
    const char* pc;
    void (*last)(void**, unsigned);
    void* slots[WARP];
    int other_line;  // of a lane that came to it by another call; 0: all by the same one
    const char* other_pc;
};

struct LastRead {  // of a lane: what it read, and by which instruction
    const char* address;
    uint32_t pc;
    int size;
};

struct Passed {  // what these lanes read by this instruction was their part of one shuffle
    uint32_t pc;
    unsigned lanes, took_part;
};

struct Warp {
    unsigned exists, unstarted, ready, exited, at_barrier, at_active;
    int active_line[WARP];
    std::vector<Collective> collectives;
    uint32_t segment, syncwarps;
    bool dirty;  // accesses since the segment began
    LastRead last_read[WARP];
    std::vector<Passed> passed;  // since the segment began
    int met_line, met_line2;  // the first two calls in which lanes met though they were different ones, or 0
    const char *met_pc, *met_pc2;
};

struct Copy {  // an asynchronous copy that nobody has waited for yet: `bytes` bytes, then zeros up to `room`
    char* to;
    const char *from, *pc;
    const void* barrier;  // that it is done with; null: when its thread waits
    unsigned bytes, room, group;
    // what a message says about it: when it was asked for, and whether its place had been written before a barrier;
    // how many groups the last wait since then left under way, -1 without one, and whether its own had ended by then
    uint32_t epoch = 0;
    bool over = false, ended_at_wait = false;
    int left_by_wait = -1;
};

struct Tile {  // threads of several warps that wait for each other
    int first, threads, arrived;
    unsigned round;
    std::vector<void*> slots;
};

struct NamedBarrier {  // bar.sync 1, 64: so many threads of the block meet, whichever they are
    int name, threads, line;
    unsigned round;
    const char* pc;
    std::vector<int> arrived;
};

// A write to a place where another thread wrote: a race only if it changes the value, known when the next access comes.
struct Pending {
    bool on;
    char* address;
    int size;
    char before[16];
    Problem problem;
    uint64_t access;
};

struct Worker {
    Launch* launch = nullptr;
    Thread* current = nullptr;
    void* home = nullptr;  // the worker's own stack
    int num_threads = 0, num_warps = 0, warp = 0;
    int alive = 0, waiting = 0;
    // the barrier that threads arrive at: its line, a second line if they differ, what __syncthreads_count & co find
    const char *barrier_pc = nullptr, *other_pc = nullptr;
    int barrier_line = 0, other_line = 0, barrier_value = 0, barrier_result = 0;
    uint32_t block = 0, epoch = 0, first_segment = 0, epoch_start = 0;  // the last two: of the block, of its epoch
    uint32_t seen_block = NOBODY;  // the one that ran when the launch was last interrupted
    uint32_t acquired = 0;  // what other blocks did before this segment is visible to this one
    std::vector<char*> free_stacks, all_stacks;
    char* dynamic_shared = nullptr;
    void* thread_handle = nullptr;
    const char* last_atomic = nullptr;  // the instruction: where threads spin if they do
    int idle = 0, spins = 0;  // turns given away since anything happened; reads of volatile variables
    uint64_t accesses = 0;    // the number of the one that is looked at: a problem of several cells happens once
    bool tainted = false;     // a thread was ended early: what follows from that is not reported
    Warp warps[MAX_THREADS / WARP];
    Thread threads[MAX_THREADS];
    Pending pending = {};
    std::vector<Copy> copies[MAX_THREADS];
    bool copying = false;  // some of them are not empty
    std::vector<Tile> tiles;
    std::vector<NamedBarrier> named;
    Hopper* hopper = nullptr;
    bool hopper_on = false;  // this block has used some of it
    // where the static __shared__ arrays begin, of this library
    char *static_shared = nullptr, *static_library = nullptr;
    size_t static_size = 0;
};

struct Launch {
    void (*entry)(void**);
    void** arguments;
    uint3 grid, block;
    size_t shared;
    bool checked, measured, first;  // first: it ends at its first problem
    std::atomic<uint64_t> next_block{0};
    uint64_t blocks;
    std::atomic<int> abort{NOT_ABORTED};
    std::atomic<uint64_t> blocks_run{0};
    uint64_t barriers = 0, shuffles = 0, lost_threads = 0;
    // the kernel's library in memory
    char *library, *library_end;
    void* (*shared_anchor)();
    std::vector<Problem> problems;
    std::vector<uint64_t> met_by;  // the access that had each of them last, 0 where that says nothing
    std::vector<Segment> segments;
    uint32_t first_segment = 1;
    std::vector<char> printed;
    uint64_t unprinted = 0;  // characters that did not fit
    std::vector<int64_t> excused;  // instructions that read what an atomic settles: see settle() in shadow.cpp
};

extern "C" {
extern LLMC_THREAD_LOCAL uint3 threadIdx, blockIdx, llmc_block_dim, llmc_grid_dim;
extern LLMC_THREAD_LOCAL Worker* llmc_worker;
}

// problems.cpp
Problem blank(Worker& w, int kind, const char* pc = nullptr);
int64_t offset_of(const Launch& l, const char* pc);
void add_problem(Worker& w, const Problem& p);  // also one like another
// Where it is noted now; null if its like is known, or is not listed. One access counts once.
Problem* report(Worker& w, const Problem& p, uint64_t access = 0);
// scheduler.cpp: how a thread goes on or ends
void run_block(Worker& w, uint64_t block);
bool all_spin(const Worker& w);           // threads give their turns away, and nothing changes
void suspend(Worker& w);                  // the current thread waits: others run until it is ready again
[[noreturn]] void leave(Worker& w);       // give up the whole block: back to the worker's own stack
[[noreturn]] void end_thread(Worker& w);  // end the current thread because of a problem, and let the others go on
// waiting.cpp: what threads wait for
void release_barrier(Worker& w);                       // all threads that are left have arrived
void complete(Worker& w, Warp& warp, int collective);  // and all lanes of this one
void deadlock(Worker& w);                              // nobody can run: say so, and end the launch
// shadow.cpp
void begin_block_memory(Worker& w);
void new_segment(Worker& w, Warp& warp);
void flush_pending(Worker& w);
// copies.cpp
void forget_copies(Worker& w);
// arena.cpp
void place_regions(Worker& w);  // what this worker's launch may touch besides its arrays
void forget_cells();            // all shadows begin again
// measure.cpp
void measure_begin();
void measure_access(Worker& w, const Region& r, const char* address, int size, bool write, bool atomic, const char* pc);
void measure_piece(Worker& w, const Region& r, const char* address, int size, bool write, bool first, const char* pc);
void measure_warp(int warp);
// faults.cpp
void alternative_stack();
void install_handlers();
void restore_handlers();
void interrupt(Worker& w);
void too_long(Worker& w, const char* pc = nullptr);  // say so if that is why the launch is to end
[[noreturn]] void give_up(Worker& w, const char* pc = nullptr);  // leave, because the launch is to end
