// One block: its threads take turns on one worker. A thread runs until it waits (barrier, warp collective) or ends; then
// the lowest lane of the same warp that can run goes on, and when there is none, the next warp. A thread that ends hands
// its stack to the next that has not begun, so a kernel without barriers never switches at all.
#include "fiber.h"
#include "state.h"
#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>

extern "C" {
LLMC_THREAD_LOCAL uint3 threadIdx, blockIdx, llmc_block_dim, llmc_grid_dim;
LLMC_THREAD_LOCAL Worker* llmc_worker;
}

// ------------------------------------------------------------------------------------------------ stacks

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

// ------------------------------------------------------------------------------------------------ who is next

static void fiber_main();

// Go on with thread `t`, which waits or has not begun; `save` receives the stack pointer of whoever calls.
static void resume(Worker& w, Thread& t, void** save) {
    w.current = &t;
    w.warp = t.warp;
    Warp& warp = w.warps[t.warp];
    unsigned bit = 1u << t.lane;
    threadIdx = t.index;
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
static Thread* next(Worker& w) {
    for (int k = 0; k < w.num_warps; k++) {
        int index = w.warp + k < w.num_warps ? w.warp + k : w.warp + k - w.num_warps;
        Warp& warp = w.warps[index];
        if (!(warp.ready | warp.unstarted) && warp.at_active) settle_active(w, index);
        if (unsigned m = warp.ready | warp.unstarted) return &w.threads[index * WARP + __builtin_ctz(m)];
    }
    return nullptr;
}

static void deadlock(Worker& w);

// The current thread waits: let others run until somebody makes it ready again.
static void suspend(Worker& w) {
    Thread* self = w.current;
    if (w.launch->abort.load(std::memory_order_relaxed)) give_up(w);
    Thread* other = next(w);
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

static void finish(Worker& w, Thread& t);

static void fiber_main() {
    for (;;) {
        Worker& w = *llmc_worker;
        Thread* t = w.current;
        w.launch->entry(w.launch->arguments);
        t = llmc_worker->current;
        finish(w, *t);
        if (w.launch->abort.load(std::memory_order_relaxed)) give_up(w);
        Thread* other = next(w);
        if (!other) leave(w);
        Warp& warp = w.warps[other->warp];
        unsigned bit = 1u << other->lane;
        if (warp.unstarted & bit) {  // on this very stack
            warp.unstarted &= ~bit;
            other->stack = t->stack;
            w.current = other;
            w.warp = other->warp;
            threadIdx = other->index;
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

// ------------------------------------------------------------------------------------------------ barriers

// Some threads ended without coming to this barrier. Those that had done nothing since the last one returned early, which
// is common and works; one that had read or written skipped the barrier.
static void report_absent(Worker& w, int line) {
    int skipped = -1, early = -1, count = 0, waits = 0;
    for (int i = 0; i < w.num_threads; i++) {
        Warp& warp = w.warps[i / WARP];
        if (warp.at_barrier & (1u << i % WARP)) waits = i;
        if (!(warp.exited & (1u << i % WARP))) continue;
        (w.threads[i].touched ? skipped : early) = i;
        count += w.threads[i].touched;
    }
    Problem p = blank(w, skipped >= 0 ? BARRIER_DIVERGENCE : EARLY_RETURN);
    p.line = line, p.thread = skipped >= 0 ? skipped : early, p.thread2 = waits, p.block2 = w.block;
    p.lanes = skipped >= 0 ? count : w.num_threads - w.alive;
    if (skipped < 0 && w.threads[early].barrier_line) strcpy(p.detail, "passed another barrier");
    report(w, p);
}

// What was visible to one thread through atomics is visible to all behind a barrier.
static void share_acquired(Worker& w) {
    uint32_t acquired = 0;
    for (int i = 0; i < w.num_threads; i++) acquired = std::max(acquired, w.threads[i].acquired);
    if (acquired)
        for (int i = 0; i < w.num_threads; i++) w.threads[i].acquired = acquired;
}

static void release_checked(Worker& w) {
    if (w.other_line) {
        Problem p = blank(w, DIFFERENT_BARRIERS);
        p.line = w.barrier_line, p.line2 = w.other_line;
        report(w, p);
    }
    if (w.alive < w.num_threads) report_absent(w, w.barrier_line);
    share_acquired(w);
    w.launch->barriers++;
    w.epoch++;
    for (int i = 0; i < w.num_warps; i++) {
        new_segment(w, w.warps[i]);
        for (int lane = 0; lane < WARP; lane++)  // who leaves now, having done nothing since, returns early
            if (w.warps[i].at_barrier >> lane & 1) w.threads[i * WARP + lane].touched = false;
        if (w.launch->measured) measure_warp(w, i);
    }
}

// All that are left have arrived: they may go on.
static void release_barrier(Worker& w) {
    w.idle = 0;
    if (w.launch->checked) release_checked(w);
    for (int i = 0; i < w.num_warps; i++) {
        w.warps[i].ready |= w.warps[i].at_barrier;
        w.warps[i].at_barrier = 0;
    }
    w.waiting = 0;
    w.barrier_result = w.barrier_value;
}

static void arrive(Worker& w, Thread& t, int line) {
    flush_pending(w);
    t.touched = true;
    t.barrier_line = line;
    if (!w.waiting) w.barrier_line = line, w.other_line = 0;
    else if (line != w.barrier_line) w.other_line = line;
    w.warps[t.warp].at_barrier |= 1u << t.lane;
    if (++w.waiting == w.alive) release_barrier(w);
    suspend(w);  // the last to arrive too: the lowest lane of the warp goes first
}

extern "C" void llmc_block_barrier(int line) {
    Worker& w = *llmc_worker;
    arrive(w, *w.current, line);
}

extern "C" int llmc_block_barrier_reduce(int line, int value, int op) {
    Worker& w = *llmc_worker;
    if (!w.waiting) w.barrier_value = op == LLMC_AND;
    w.barrier_value = op == LLMC_COUNT ? w.barrier_value + (value != 0)
                      : op == LLMC_AND ? w.barrier_value && value
                                       : w.barrier_value || value;
    arrive(w, *w.current, line);
    return w.barrier_result;
}

// ------------------------------------------------------------------------------------------------ warps

static void complete(Worker& w, Warp& warp, int index) {
    w.idle = 0;
    Collective c = warp.collectives[index];
    warp.collectives[index] = warp.collectives.back();
    warp.collectives.pop_back();
    if (w.launch->checked)
        for (unsigned m = c.mask & warp.exited; m; m &= m - 1)
            if (Thread& ended = w.threads[(&warp - w.warps) * WARP + __builtin_ctz(m)]; ended.touched) {
                Problem p = blank(w, INACTIVE_LANE);
                p.line = c.line, p.lanes = c.mask, p.thread = ended.id, p.thread2 = w.current->id, p.block2 = w.block;
                strcpy(p.detail, "lane ended without it");
                report(w, p);
                break;
            }
    if (c.last) c.last(c.slots, c.arrived);
    if (c.kind == LLMC_SYNCWARP && w.launch->checked) {
        uint32_t acquired = 0;
        Thread* lanes = &w.threads[(&warp - w.warps) * WARP];
        for (unsigned m = c.arrived; m; m &= m - 1) acquired = std::max(acquired, lanes[__builtin_ctz(m)].acquired);
        for (unsigned m = c.arrived; m; m &= m - 1) lanes[__builtin_ctz(m)].acquired = acquired;
        warp.syncwarps++;
        new_segment(w, warp);
    }
    for (unsigned m = c.arrived; m; m &= m - 1) w.threads[(&warp - w.warps) * WARP + __builtin_ctz(m)].mask = c.arrived;
    warp.ready |= c.arrived;
}

extern "C" unsigned llmc_collective(unsigned mask, int kind, int line, void* mine, void (*last)(void**, unsigned)) {
    Worker& w = *llmc_worker;
    Thread& t = *w.current;
    Warp& warp = w.warps[t.warp];
    unsigned bit = 1u << t.lane;
    flush_pending(w);
    t.touched = true;
    if (!(mask & bit)) {
        Problem p = blank(w, INACTIVE_LANE);
        p.line = line, p.lanes = mask;
        strcpy(p.detail, "mask without the caller");
        report(w, p);
        mask |= bit;
    }
    int index = 0, n = warp.collectives.size();
    while (index < n && !(warp.collectives[index].mask == mask && warp.collectives[index].kind == kind &&
                          !(warp.collectives[index].arrived & bit)))
        index++;
    if (index == n) warp.collectives.push_back({mask, 0, kind, line, last, {}});
    Collective& c = warp.collectives[index];
    c.arrived |= bit;
    c.slots[t.lane] = mine;
    if (c.arrived == (mask & warp.exists & ~warp.exited)) complete(w, warp, index);
    if (warp.ready == bit && !warp.unstarted) warp.ready = 0;  // alone: go on
    else suspend(w);
    return t.mask;
}

extern "C" unsigned llmc_active_lanes(int line) {
    Worker& w = *llmc_worker;
    Thread& t = *w.current;
    Warp& warp = w.warps[t.warp];
    flush_pending(w);
    warp.active_line[t.lane] = line;
    warp.at_active |= 1u << t.lane;
    suspend(w);
    return t.mask;
}

extern "C" void llmc_yield() {
    Worker& w = *llmc_worker;
    Thread& t = *w.current;
    flush_pending(w);
    if (w.launch->checked && ++w.idle > 4096 * (w.num_threads + 1)) {  // all spin, and nobody changes anything
        deadlock(w);
        leave(w);
    }
    w.warps[t.warp].ready |= 1u << t.lane;
    // the next in order, not the lowest lane again: somebody else must get the chance to release what is waited for
    int start = t.id;
    for (int k = 1; k <= w.num_threads; k++) {
        int i = (start + k) % w.num_threads;
        Warp& warp = w.warps[i / WARP];
        if ((warp.ready | warp.unstarted) & (1u << i % WARP)) {
            if (w.launch->abort.load(std::memory_order_relaxed)) give_up(w);
            if (i == start) {
                warp.ready &= ~(1u << t.lane);
                return;
            }
            resume(w, w.threads[i], &t.sp);
            return;
        }
    }
}

extern "C" unsigned llmc_lane() { return llmc_worker->current->lane; }
extern "C" unsigned llmc_warp() { return llmc_worker->current->warp; }
extern "C" unsigned llmc_tid() { return llmc_worker->current->id; }
extern "C" void* llmc_dynamic_shared() { return llmc_worker->dynamic_shared; }

// ------------------------------------------------------------------------------------------------ endings

// A thread has ended: whoever waits for all that are left may go on.
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
    if (w.launch->measured && warp.exited == warp.exists) measure_warp(w, t.warp);
}

// Nobody can run. Say who waits where: for a warp's collective if one is involved, else at a barrier.
static void deadlock(Worker& w) {
    Problem p = blank(w, DEADLOCK);
    for (int i = 0; i < w.num_warps; i++) {
        Warp& warp = w.warps[i];
        for (Collective& c : warp.collectives) {
            unsigned missing = c.mask & warp.exists & ~warp.exited & ~c.arrived;
            if (!missing) continue;
            p.thread = i * WARP + __builtin_ctz(c.arrived);
            p.line = c.line;
            p.lanes = c.mask;
            int lane = __builtin_ctz(missing);
            p.thread2 = i * WARP + lane, p.block2 = w.block;
            strcpy(p.detail, c.kind == LLMC_SYNCWARP ? "syncwarp" : "collective");
            if (warp.at_barrier & (1u << lane)) p.line2 = w.threads[i * WARP + lane].barrier_line;
            for (Collective& other : warp.collectives)
                if (other.arrived & (1u << lane)) p.line2 = other.line;
        }
    }
    if (!w.tainted) report(w, p);
    w.launch->abort = 1;
}

// End the current thread, because of a problem, and let the others go on.
[[noreturn]] void end_thread(Worker& w) {
    Thread& t = *w.current;
    w.tainted = true;
    w.launch->lost_threads++;
    finish(w, t);  // its stack, on which this runs, is not used again in this block
    Thread* other = w.launch->abort.load() ? nullptr : next(w);
    void* nobody;
    if (!other) leave(w);
    resume(w, *other, &nobody);
    __builtin_unreachable();
}

// ------------------------------------------------------------------------------------------------ a block

static void begin_block(Worker& w, uint64_t block) {
    Launch& l = *w.launch;
    w.block = block;
    blockIdx = {unsigned(block % l.grid.x), unsigned(block / l.grid.x % l.grid.y),
                unsigned(block / l.grid.x / l.grid.y)};
    int n = w.num_threads = l.block.x * l.block.y * l.block.z;
    w.num_warps = (n + WARP - 1) / WARP;
    w.alive = n;
    w.waiting = w.warp = 0;
    w.epoch = 0;
    w.acquired = 0;
    w.idle = 0;
    w.tainted = false;
    uint3 at = {0, 0, 0};
    for (int i = 0; i < n; i++) {
        Thread& t = w.threads[i];
        t.index = at;
        t.id = i, t.lane = i % WARP, t.warp = i / WARP;
        t.acquired = 0;
        t.touched = t.atomics = false;
        t.barrier_line = 0;
        if (++at.x == l.block.x && (at.x = 0, ++at.y == l.block.y)) at.y = 0, ++at.z;
    }
    for (int i = 0; i < w.num_warps; i++) {
        Warp& warp = w.warps[i];
        int lanes = std::min(WARP, n - i * WARP);
        warp.exists = warp.unstarted = lanes == WARP ? ~0u : (1u << lanes) - 1;
        warp.ready = warp.exited = warp.at_barrier = warp.at_active = 0;
        warp.syncwarps = 0;
        warp.collectives.clear();
        memset(warp.active_line, 0, sizeof warp.active_line);
    }
}

void run_block(Worker& w, uint64_t block) {
    begin_block(w, block);
    if (w.launch->checked) begin_block_memory(w);
    w.free_stacks = w.all_stacks;
    resume(w, w.threads[0], &w.home);
    flush_pending(w);
    w.current = nullptr;
    if (!w.launch->abort.load()) w.launch->blocks_run++;
}
