// One block: its threads take turns on one worker. A thread runs until it waits (waiting.cpp) or ends; then the lowest
// lane of its warp that can run goes on, and when there is none, the next warp. A thread that ends passes its stack on
// to the next one that has not begun, so a kernel without barriers never switches at all.
#include "fiber.h"
#include "hopper.h"
#include "loaded.h"
#include "state.h"
#include <sys/mman.h>
#include <unistd.h>

extern "C" {
LLMC_THREAD_LOCAL uint3 threadIdx, blockIdx, llmc_block_dim, llmc_grid_dim;
LLMC_THREAD_LOCAL Worker* llmc_worker;
}
extern "C" unsigned llmc_lane() { return llmc_worker->current->lane; }
extern "C" unsigned llmc_tid() { return llmc_worker->current->id; }
extern "C" unsigned llmc_dynamic_bytes() { return llmc_worker->launch->shared; }
extern "C" void* llmc_dynamic_shared() { return llmc_worker->dynamic_shared; }

// Where the library's static __shared__ arrays begin, rounded down: what is aligned in the one is aligned in the other.
extern "C" char* llmc_static_shared() {
    Worker& w = *llmc_worker;
    if (w.static_library != w.launch->library) {
        Loaded here = look_up((void*)w.launch->entry, w.launch->shared_anchor);
        w.static_shared = (char*)((uintptr_t)here.anchor_block & ~uintptr_t(1023));
        w.static_size = here.anchor_block + here.shared - w.static_shared;
        w.static_library = w.launch->library;
    }
    return w.static_shared;
}

// ------------------------------------------------------------------------------------------------ who is next

static char* take_stack(Worker& w) {
    if (w.free_stacks.empty()) {
        size_t guard = sysconf(_SC_PAGESIZE);
        char* p = (char*)mmap(nullptr, STACK + guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) llmc_stop(LLMC_TRAP, 0, "no memory for the stacks of a block's threads");
        mprotect(p, guard, PROT_NONE);
        w.all_stacks.push_back(p + guard);
        return p + guard;
    }
    char* stack = w.free_stacks.back();
    w.free_stacks.pop_back();
    return stack;
}

static void make_current(Worker& w, Thread& t) {
    w.current = &t;
    w.warp = t.warp;
    threadIdx = t.index;
}

static void fiber_main();

// Go on with thread `t`, which waits or has not begun; `save` receives the stack pointer of the caller.
static void resume(Worker& w, Thread& t, void** save) {
    make_current(w, t);
    Warp& warp = w.warps[t.warp];
    unsigned bit = 1u << t.lane;
    if (warp.unstarted & bit) {
        warp.unstarted &= ~bit;
        t.stack = take_stack(w);
        // tops at different places in a page: all at the same would share a few lines of the cache
        llmc_switch(save, fresh_stack(t.stack + STACK - t.id % 31 * 128, fiber_main));
    } else {
        warp.ready &= ~bit;
        llmc_switch(save, t.sp);
    }
}

// No lane of this warp can run but some wait in __activemask: those at the smallest line are active together.
static void settle_active(Worker& w, int index) {
    Warp& warp = w.warps[index];
    int line = 1 << 30;
    for (unsigned m = warp.at_active; m; m &= m - 1) line = std::min(line, warp.active_line[__builtin_ctz(m)]);
    unsigned together = 0;
    for (unsigned m = warp.at_active; m; m &= m - 1)
        if (warp.active_line[__builtin_ctz(m)] == line) together |= m & -m;
    for (unsigned m = together; m; m &= m - 1) w.threads[index * WARP + __builtin_ctz(m)].mask = together;
    warp.at_active &= ~together;
    warp.ready |= together;
}

// The next thread that can run, or null: then all have ended, or all wait for something that never comes.
static Thread* next_thread(Worker& w) {
    for (int k = 0; k < w.num_warps; k++) {
        int index = w.warp + k < w.num_warps ? w.warp + k : w.warp + k - w.num_warps;
        Warp& warp = w.warps[index];
        if (!(warp.ready | warp.unstarted) && warp.at_active) settle_active(w, index);
        if (unsigned m = warp.ready | warp.unstarted) return &w.threads[index * WARP + __builtin_ctz(m)];
    }
    return nullptr;
}

void suspend(Worker& w) {
    Thread* self = w.current;
    if (w.launch->abort.load(std::memory_order_relaxed)) give_up(w);
    Thread* other = next_thread(w);
    if (!other) {
        deadlock(w);
        leave(w);
    }
    if (other == self) {
        w.warps[self->warp].ready &= ~(1u << self->lane);
        return;
    }
    resume(w, *other, &self->sp);
}

bool all_spin(const Worker& w) { return w.idle > 4096 * (w.num_threads + 1); }

extern "C" void llmc_yield() {
    Worker& w = *llmc_worker;
    Thread& t = *w.current;
    flush_pending(w);
    w.idle++;
    if (w.launch->checked && all_spin(w)) {
        deadlock(w);
        leave(w);
    }
    w.warps[t.warp].ready |= 1u << t.lane;
    // the next in order, not the lowest lane again: some other thread must get the chance to release what is waited for
    for (int k = 1; k <= w.num_threads; k++) {
        Thread& other = w.threads[(t.id + k) % w.num_threads];
        Warp& warp = w.warps[other.warp];
        if ((warp.ready | warp.unstarted) & (1u << other.lane)) {
            if (w.launch->abort.load(std::memory_order_relaxed)) give_up(w, (char*)__builtin_return_address(0));
            if (&other != &t) return resume(w, other, &t.sp);
            warp.ready &= ~(1u << t.lane);
            return;
        }
    }
}

// ------------------------------------------------------------------------------------------------ beginnings and endings

// A thread has ended: any that wait only for it may go on.
static void finish(Worker& w, Thread& t) {
    Warp& warp = w.warps[t.warp];
    unsigned bit = 1u << t.lane;
    flush_pending(w);
    warp.exited |= bit;
    w.alive--;
    w.idle = 0;
    for (int i = warp.collectives.size(); i--;) {
        Collective& c = warp.collectives[i];
        if (!(c.mask & bit) || c.arrived & bit) continue;
        if (c.arrived == (c.mask & warp.exists & ~warp.exited)) complete(w, warp, i);
    }
    if (w.waiting && w.waiting == w.alive) release_barrier(w);
    if (w.launch->measured && warp.exited == warp.exists) measure_warp(t.warp);
}

static void fiber_main() {
    for (;;) {
        Worker& w = *llmc_worker;
        w.launch->entry(w.launch->arguments);
        Thread* t = w.current;
        finish(w, *t);
        if (w.launch->abort.load(std::memory_order_relaxed)) give_up(w);
        Thread* other = next_thread(w);
        if (!other) {
            if (w.alive) deadlock(w);  // the others wait for something that only this one could have done
            leave(w);
        }
        Warp& warp = w.warps[other->warp];
        unsigned bit = 1u << other->lane;
        if (warp.unstarted & bit) {  // on this very stack
            warp.unstarted &= ~bit;
            other->stack = t->stack;
            make_current(w, *other);
        } else {
            w.free_stacks.push_back(t->stack);
            void* nobody;
            resume(w, *other, &nobody);
        }
    }
}

[[noreturn]] void leave(Worker& w) {
    void* nobody;
    llmc_switch(&nobody, w.home);
    __builtin_unreachable();
}

[[noreturn]] void end_thread(Worker& w) {
    w.tainted = true;
    w.launch->lost_threads++;
    finish(w, *w.current);  // its stack, on which this runs, is not used again in this block
    Thread* other = w.launch->abort.load() ? nullptr : next_thread(w);
    void* nobody;
    if (!other) leave(w);
    resume(w, *other, &nobody);
    __builtin_unreachable();
}

// ------------------------------------------------------------------------------------------------ a block

static void begin_warp(Warp& warp, int lanes) {
    warp.exists = warp.unstarted = lanes == WARP ? ~0u : (1u << lanes) - 1;
    warp.ready = warp.exited = warp.at_barrier = warp.at_active = 0;
    warp.syncwarps = warp.met_line = 0;
    warp.collectives.clear();
    memset(warp.active_line, 0, sizeof warp.active_line);
}

static void begin_block(Worker& w, uint64_t block) {
    Launch& l = *w.launch;
    w.block = block;
    blockIdx = {unsigned(block % l.grid.x), unsigned(block / l.grid.x % l.grid.y),
                unsigned(block / l.grid.x / l.grid.y)};
    int n = w.num_threads = l.block.x * l.block.y * l.block.z;
    w.num_warps = (n + WARP - 1) / WARP;
    w.alive = n;
    w.waiting = w.warp = w.idle = w.spins = 0;
    w.epoch = w.acquired = 0;
    w.last_atomic = nullptr;
    w.tainted = false;
    uint3 at = {0, 0, 0};
    for (int i = 0; i < n; i++) {
        Thread& t = w.threads[i];
        t.index = at;
        t.id = i, t.lane = i % WARP, t.warp = i / WARP;
        t.acquired = 0;
        t.touched = false;
        t.group = 0;
        t.barrier_line = 0;
        t.looked_at = nullptr;
        if (++at.x == l.block.x && (at.x = 0, ++at.y == l.block.y)) at.y = 0, ++at.z;
    }
    for (int i = 0; i < w.num_warps; i++) begin_warp(w.warps[i], std::min(WARP, n - i * WARP));
}

void run_block(Worker& w, uint64_t block) {
    begin_block(w, block);
    if (w.launch->checked) begin_block_memory(w);
    w.free_stacks = w.all_stacks;
    resume(w, w.threads[0], &w.home);
    flush_pending(w);
    if (w.copying) forget_copies(w);
    if (w.hopper_on) end_hopper(w);
    w.tiles.clear();
    w.named.clear();
    w.current = nullptr;
    if (!w.launch->abort.load()) w.launch->blocks_run++;
}
