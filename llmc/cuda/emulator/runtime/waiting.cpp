// What threads wait for: __syncthreads, the functions that a warp executes together, __activemask. The last to arrive
// lets the others go on.
#include "hopper.h"

// ------------------------------------------------------------------------------------------------ barriers of a block

// Some threads ended without coming to this barrier. Those that had done nothing since the last one returned early,
// which is common and works; one that had read or written skipped the barrier.
static void report_absent(Worker& w) {
    int skipped = -1, early = -1, skips = 0, waits = 0;
    for (int i = 0; i < w.num_threads; i++) {
        Warp& warp = w.warps[i / WARP];
        if (warp.at_barrier & (1u << i % WARP)) waits = i;
        if (!(warp.exited & (1u << i % WARP))) continue;
        (w.threads[i].touched ? skipped : early) = i;
        skips += w.threads[i].touched;
    }
    Problem p = blank(w, skips ? BARRIER_DIVERGENCE : EARLY_RETURN, w.barrier_pc);
    p.line = w.barrier_line, p.thread = skips ? skipped : early, p.thread2 = waits, p.block2 = w.block;
    p.absent = skips ? skips : w.num_threads - w.alive;
    report(w, p);
}

// What was visible to one of these threads through atomics is visible to all of them behind a barrier.
static void share_acquired(Thread* threads, int n, unsigned lanes = ~0u) {
    uint32_t acquired = 0;
    for (int i = 0; i < n; i++)
        if (lanes >> i % WARP & 1) acquired = std::max(acquired, threads[i].acquired);
    for (int i = 0; acquired && i < n; i++)
        if (lanes >> i % WARP & 1) threads[i].acquired = acquired;
}

static void release_checked(Worker& w) {
    if (w.other_line) {
        Problem p = blank(w, DIFFERENT_BARRIERS, w.barrier_pc);
        p.line = w.barrier_line, p.line2 = w.other_line, p.pc2 = offset_of(*w.launch, w.other_pc);
        report(w, p);
    }
    if (w.alive < w.num_threads) report_absent(w);
    share_acquired(w.threads, w.num_threads);
    if (w.hopper_on) {
        std::vector<int> all(w.num_threads);
        for (int i = 0; i < w.num_threads; i++) all[i] = i;
        meet(w, all.data(), w.num_threads);
    }
    w.launch->barriers++;
    w.epoch++;
    for (int i = 0; i < w.num_warps; i++) {
        new_segment(w, w.warps[i]);
        for (int lane = 0; lane < WARP; lane++)  // a thread that leaves now, having done nothing since, returns early
            if (w.warps[i].at_barrier >> lane & 1)
                w.threads[i * WARP + lane].touched = false, w.threads[i * WARP + lane].looked_at = nullptr;
        if (w.launch->measured) measure_warp(i);
    }
    w.epoch_start = w.warps[0].segment;
}

void release_barrier(Worker& w) {
    w.idle = 0;
    if (w.launch->checked) release_checked(w);
    for (int i = 0; i < w.num_warps; i++) {
        w.warps[i].ready |= w.warps[i].at_barrier;
        w.warps[i].at_barrier = 0;
    }
    w.waiting = 0;
    w.barrier_result = w.barrier_value;
}

static void arrive(Worker& w, Thread& t, int line, const char* pc) {
    flush_pending(w);
    t.touched = true;
    t.barrier_line = line;
    if (!w.waiting) w.barrier_line = line, w.barrier_pc = pc, w.other_line = 0;
    else if (line != w.barrier_line) w.other_line = line, w.other_pc = pc;
    w.warps[t.warp].at_barrier |= 1u << t.lane;
    if (++w.waiting == w.alive) release_barrier(w);
    suspend(w);  // the last to arrive too: the lowest lane of the warp goes first
}

extern "C" void llmc_block_barrier(int line) {
    Worker& w = *llmc_worker;
    arrive(w, *w.current, line, (char*)__builtin_return_address(0));
}

extern "C" int llmc_block_barrier_reduce(int line, int value, int operation) {
    Worker& w = *llmc_worker;
    if (!w.waiting) w.barrier_value = operation == LLMC_AND;
    w.barrier_value = operation == LLMC_COUNT ? w.barrier_value + (value != 0)
                      : operation == LLMC_AND ? w.barrier_value && value
                                              : w.barrier_value || value;
    arrive(w, *w.current, line, (char*)__builtin_return_address(0));
    return w.barrier_result;
}

// ------------------------------------------------------------------------------------------------ functions of a warp

static Problem lane_problem(Worker& w, const Collective& c, uint32_t thread, uint32_t thread2, const char* detail) {
    Problem p = blank(w, INACTIVE_LANE, c.pc);
    p.line = c.line, p.lanes = c.mask, p.thread = thread, p.thread2 = thread2, p.block2 = w.block;
    strcpy(p.detail, detail);
    return p;
}

static void report_lane(Worker& w, const Collective& c, uint32_t thread, uint32_t thread2, const char* detail) {
    report(w, lane_problem(w, c, thread, thread2, detail));
}

// A lane that ended without this. If it had done nothing since the last barrier it returned early, which is common and
// works, but not for what tensor cores do: that takes all lanes of a full warp.
static void report_lost_lane(Worker& w, Warp& warp, const Collective& c, Thread* lanes) {
    for (unsigned m = c.mask & warp.exited; m; m &= m - 1) {
        Thread& ended = lanes[__builtin_ctz(m)];
        if (!ended.touched && c.kind != LLMC_MMA) continue;
        uint32_t caller = lanes[__builtin_ctz(c.arrived)].id;  // the thread that runs may be one that ends
        Problem p = lane_problem(w, c, ended.id, caller, "lane ended without it");
        if (warp.met_line) {  // that is why it had one call fewer to make
            p.line = warp.met_line, p.line2 = warp.met_line2;
            p.pc = offset_of(*w.launch, warp.met_pc), p.pc2 = offset_of(*w.launch, warp.met_pc2);
            strcpy(p.detail, "lanes met in different calls");
        }
        return (void)report(w, p);
    }
    if (c.kind == LLMC_MMA && ~warp.exists) report_lane(w, c, w.current->id, NOBODY, "warp is not full");
}

// What a lane has just read and passes on: whoever takes part writes only after that read.
static void note_passed(Warp& warp, const Collective& c) {
    if (warp.passed.size() > 100) warp.passed.clear();  // a long loop of shuffles: the latest ones count
    for (unsigned m = c.arrived; m; m &= m - 1) {
        int lane = __builtin_ctz(m);
        LastRead read = warp.last_read[lane];
        warp.last_read[lane].size = 0;
        if (!read.size || !c.slots[lane] || memcmp(c.slots[lane], read.address, read.size)) continue;
        if (warp.passed.empty() || warp.passed.back().pc != read.pc || warp.passed.back().took_part != c.arrived)
            warp.passed.push_back({read.pc, 0, c.arrived});
        warp.passed.back().lanes |= 1u << lane;
    }
}

void complete(Worker& w, Warp& warp, int collective) {
    w.idle = 0;
    Collective c = warp.collectives[collective];
    warp.collectives[collective] = warp.collectives.back();
    warp.collectives.pop_back();
    Thread* lanes = &w.threads[(&warp - w.warps) * WARP];
    if (c.other_line && !warp.met_line) {
        warp.met_line = c.line, warp.met_line2 = c.other_line;
        warp.met_pc = c.pc, warp.met_pc2 = c.other_pc;
    }
    if (w.launch->checked) report_lost_lane(w, warp, c, lanes);
    if (c.last) c.last(c.slots, c.arrived);
    if (c.kind == LLMC_SHFL && w.launch->checked) {
        w.launch->shuffles++;  // a single worker runs a checked launch
        note_passed(warp, c);
    }
    if (c.kind == LLMC_SYNCWARP && w.launch->checked) {
        share_acquired(lanes, WARP, c.arrived);
        if (w.hopper_on) {
            int ids[WARP], n = 0;
            for (unsigned m = c.arrived; m; m &= m - 1) ids[n++] = lanes[__builtin_ctz(m)].id;
            meet(w, ids, n);
        }
        warp.syncwarps++;
        new_segment(w, warp);
    }
    for (unsigned m = c.arrived; m; m &= m - 1) lanes[__builtin_ctz(m)].mask = c.arrived;
    warp.ready |= c.arrived;
}

// The index of the collective that a lane (`bit`) joins: one that waits for it, or else a new one.
static int joined(Warp& warp, unsigned bit, unsigned mask, int kind, int line, const char* pc,
                  void (*last)(void**, unsigned)) {
    int n = warp.collectives.size();
    for (int i = 0; i < n; i++) {
        Collective& c = warp.collectives[i];
        if (c.mask != mask || c.kind != kind || c.arrived & bit) continue;
        if (line != c.line && !c.other_line) c.other_line = line, c.other_pc = pc;
        return i;
    }
    warp.collectives.push_back({mask, 0, kind, line, pc, last, {}, 0, nullptr});
    return n;
}

// What tensor cores do takes one instruction, executed by all lanes together.
static void report_other_instruction(Worker& w, const Collective& c, const Thread& t, int line, const char* pc) {
    Problem p = blank(w, INACTIVE_LANE, pc);
    p.line = line, p.line2 = c.line, p.pc2 = offset_of(*w.launch, c.pc), p.lanes = c.mask;
    p.thread2 = t.warp * WARP + __builtin_ctz(c.arrived), p.block2 = w.block;
    strcpy(p.detail, "another instruction");
    report(w, p);
}

extern "C" unsigned llmc_collective(unsigned mask, int kind, int line, void* mine, void (*last)(void**, unsigned),
                                    const void* from) {
    const char* pc = (const char*)(from ? from : __builtin_return_address(0));
    Worker& w = *llmc_worker;
    Thread& t = *w.current;
    Warp& warp = w.warps[t.warp];
    unsigned bit = 1u << t.lane;
    flush_pending(w);
    t.touched = true;
    if (!(mask & bit)) {
        Problem p = blank(w, INACTIVE_LANE, pc);
        p.line = line, p.lanes = mask;
        strcpy(p.detail, "mask without the caller");
        report(w, p);
        mask |= bit;
    }
    int index = joined(warp, bit, mask, kind, line, pc, last);
    Collective& c = warp.collectives[index];
    if (w.launch->checked && kind == LLMC_MMA && c.line != line) report_other_instruction(w, c, t, line, pc);
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

extern "C" void llmc_inactive_lane(int line, int lane, const void* from) {
    Worker& w = *llmc_worker;
    Problem p = blank(w, INACTIVE_LANE, (const char*)from);
    p.line = line, p.lanes = 1u << lane;
    strcpy(p.detail, "read from an absent lane");
    report(w, p);
}

// ------------------------------------------------------------------------------------------------ nobody comes

// Report who waits where: for a warp's collective if one is involved, else at a barrier.
void deadlock(Worker& w) {
    Problem p = blank(w, DEADLOCK);
    for (int i = 0; i < w.num_warps; i++) {
        Warp& warp = w.warps[i];
        for (Collective& c : warp.collectives) {
            unsigned missing = c.mask & warp.exists & ~warp.exited & ~c.arrived;
            if (!missing) continue;
            int lane = __builtin_ctz(missing);
            p.thread = i * WARP + __builtin_ctz(c.arrived), p.line = c.line, p.lanes = c.mask, p.pc = offset_of(*w.launch, c.pc);
            p.thread2 = i * WARP + lane, p.block2 = w.block;
            if (warp.at_barrier & (1u << lane)) p.line2 = w.threads[i * WARP + lane].barrier_line;
            for (Collective& other : warp.collectives)
                if (other.arrived & (1u << lane)) p.line2 = other.line;
        }
    }
    for (NamedBarrier& barrier : w.named) {
        if (p.line || barrier.arrived.empty()) continue;
        p.line = barrier.line, p.pc = offset_of(*w.launch, barrier.pc), p.thread = barrier.arrived[0];
        snprintf(p.detail, sizeof p.detail, "%d threads, but only %zu come", barrier.threads, barrier.arrived.size());
    }
    if (!p.line && w.hopper_on && (describe_stuck_group(w, p) || describe_stuck_barriers(w, p))) {
    } else if (!p.line && all_spin(w)) p.pc = offset_of(*w.launch, w.last_atomic);
    else if (!p.line && w.waiting) p.line = w.barrier_line, p.pc = offset_of(*w.launch, w.barrier_pc);
    if (!w.tainted) add_problem(w, p);
    w.launch->abort = AFTER_PROBLEM;
}
