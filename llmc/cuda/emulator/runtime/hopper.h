// What Hopper's instructions keep while a block runs: mbarriers, bulk copies, products of warpgroups, and clocks that say
// what of all this is visible to whom. A block that uses none of them has none of it.
#pragma once
#include "state.h"
#include <memory>

// ------------------------------------------------------------------------------------------------ clocks

// Who does something to memory at a pace of its own: a warp, the bulk stores of a warp, the products of a warpgroup, the
// copies that an mbarrier counts.
constexpr int WARPS = MAX_THREADS / WARP, GROUP = 4 * WARP, GROUPS = MAX_THREADS / GROUP;
constexpr int BULK_STORES = WARPS, PRODUCTS = BULK_STORES + WARPS, DELIVERIES = PRODUCTS + GROUPS;
constexpr int MOST_BARRIERS = 64;  // with clocks of their own; more of them share one
constexpr int AGENTS = DELIVERIES + MOST_BARRIERS;

struct Clock {
    uint32_t seen[AGENTS];   // what each agent did before this segment is visible
    uint32_t fenced[WARPS];  // and what each warp wrote before this one, to the asynchronous proxy as well,
    uint32_t floor;          // and what any of them wrote before this one
    uint32_t acquired;       // as Thread::acquired
};
constexpr int CLOCK_WORDS = sizeof(Clock) / 4;

// ------------------------------------------------------------------------------------------------ mbarriers

struct MBarrier {
    char* address;
    int agent;
    int expected, pending;   // arrivals: of each phase; those that this one lacks
    int64_t bytes;           // that this phase still waits for; below 0: copies brought more than was expected so far
    int64_t wanted, brought;  // bytes of this phase: announced by expect_tx, brought by copies
    unsigned phase;          // how many are complete
    Access init;             // the write that initialised it
    std::vector<int> waiters;
    int polled = -1;         // who has asked in vain
    Clock next, done;        // what arrivals publish; what those who wait for a phase see
};

// ------------------------------------------------------------------------------------------------ bulk copies

// A tensor in global memory as ../calling/maps.py describes it: axis 0 is the innermost.
struct TensorMap {
    uint64_t magic;
    char* address;
    uint64_t strides[4];  // bytes between neighbours along axes 1 to 4
    uint32_t sizes[5];
    uint16_t box[5];
    uint8_t rank, itemsize, swizzle;  // swizzle: 0 none, 1, 2, 3: in rows of 32, 64, 128 bytes
};
constexpr uint64_t TENSOR_MAP = 0x70616d5f636d6c6c;

struct Bulk {  // a copy under way
    TensorMap map;  // rank 0: `bytes` bytes in a row
    int at[5];      // where in the tensor
    char *shared, *global;
    unsigned bytes;
    int thread, barrier;  // who asked for it; the index of its mbarrier (loads)
    const char* pc;
    uint32_t segment;  // of its reads (stores)
    unsigned group;    // stores: which one of its thread's
};

struct Delivered {  // where a tile lies that a tensor copy has brought, and in which order
    char *from, *to;
    int swizzle;
    const char* pc;
};

// ------------------------------------------------------------------------------------------------ products

struct Accumulator {  // of a warpgroup: 64 x n, in registers, and what is in them while products are under way
    int n, registers;
    bool half;
    int under_way = 0;
    std::vector<void*> places;  // [thread][register]
    std::vector<float> values;  // [row][column]
    std::vector<char*> low, high;  // of each thread: its registers lie in between
    std::vector<const char*> touched;  // of each: which instruction of its own used them since its last fence
    const char* pc = nullptr;  // of the last product
    bool committed = false;
};

struct Product {
    LlmcProduct asked;
    std::vector<unsigned> a;  // [thread][register], if A is in registers
    std::shared_ptr<Accumulator> sum;
    const char* pc;
    uint32_t segment;
};

struct Warpgroup {
    int arrived = 0, kind = 0, line = 0;
    const char* pc = nullptr;
    const LlmcProduct* slots[GROUP];
    const char* frames[GROUP];  // where the functions end that each of them is in
    bool came[GROUP] = {};      // who waits for the others
    std::vector<Product> products;
    std::vector<unsigned> ends;  // of each committed group: how many products were asked for by then
    unsigned asked = 0, finished = 0;
    std::vector<std::shared_ptr<Accumulator>> sums;
};

struct Hopper {
    std::vector<Clock> clocks;  // of each thread, in a checked launch
    std::vector<MBarrier> barriers;
    const char* waits[MAX_THREADS];  // the instruction with which a thread waits for one
    std::vector<Bulk> loads, stores;
    unsigned store_group[MAX_THREADS];
    std::vector<Delivered> delivered;
    Warpgroup groups[GROUPS];
    bool fenced[MAX_THREADS];  // by wgmma.fence, at least once
    float a[64][32], b[32][256];  // of the product that is made
};

// clocks.cpp
Hopper& hopper(Worker& w);             // begun, if this block has none yet
void end_hopper(Worker& w);            // the block has ended: what was never waited for?
uint32_t begin_asynchronous(Worker& w, int agent);  // a segment of its own for what an agent does
void end_asynchronous(Worker& w, uint32_t segment);
bool is_asynchronous(const Worker& w, Access a);
bool seen_by_clock(const Worker& w, const Thread& t, Access a);
bool is_fenced(const Worker& w, const Thread& t, Access a);  // its write is visible to the asynchronous proxy
void publish(Worker& w, Thread& t, Clock& to);
void observe(Worker& w, Thread& t, const Clock& from);
void meet(Worker& w, const int* threads, int n);  // they have waited for each other
// mbarriers.cpp
bool describe_stuck_barriers(Worker& w, Problem& p);
MBarrier* barrier_at(Worker& w, const void* address, const char* pc);
void advance(Worker& w, MBarrier& barrier);  // let copies arrive that it waits for
// bulk.cpp
bool deliver_one(Worker& w, int barrier, unsigned* bytes);  // the first load under way that it counts
void forget_loads(Worker& w);
bool describe_load(const Worker& w, const char* address, Problem& p);
void report_stores(Worker& w);
// warpgroups.cpp, which continues products.cpp
void use_registers(Worker& w, char* address, int size, const char* pc);
bool describe_stuck_group(Worker& w, Problem& p);
void report_products(Worker& w);
