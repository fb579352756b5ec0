// Races. Each place in memory has a shadow cell that remembers the last write and the last read. Two accesses of one
// place, one of them a write, race unless something orders them:
//   a __syncthreads in between (another epoch of the block), a __syncwarp in between (same warp), or an atomic or
//   volatile variable through which the first thread's past became visible to the second (`acquired`).
// Checked blocks run one after the other, so it is known exactly what happened before what, and reports repeat.
#include "arena.h"
#include "hopper.h"
#include "shadow.h"
#include <cstdio>

// ------------------------------------------------------------------------------------------------ segments

void new_segment(Worker& w, Warp& warp) {
    Launch& l = *w.launch;
    warp.passed.clear();
    if (l.first_segment + l.segments.size() >= MOST_SEGMENTS) return;  // a launch this long goes on unwatched
    warp.segment = l.first_segment + l.segments.size();
    warp.dirty = false;
    l.segments.push_back({w.block, w.epoch, warp.syncwarps});
}

void begin_block_memory(Worker& w) {
    Launch& l = *w.launch;
    w.first_segment = w.epoch_start = l.first_segment + l.segments.size();
    for (int i = 0; i < w.num_warps; i++) {
        new_segment(w, w.warps[i]);
        memset(w.warps[i].last_read, 0, sizeof w.warps[i].last_read);
    }
    // poison: NaN, and no sensible index
    if (arena.shared_dynamic.size) memset(arena.shared_dynamic.data, 0xff, arena.shared_dynamic.size);
    for (int i = 0; i < arena.shared_arrays; i++)
        if (!arena.shared_mark[i])
            memset(arena.shared_static.data + arena.shared_from[i], 0xff, arena.shared_to[i] - arena.shared_from[i]);
}

static const Segment& segment_of(const Worker& w, Access a) {
    return w.launch->segments[a.segment - w.launch->first_segment];
}

// Whether access `a` cannot clash with what thread t does now. `first` is the oldest segment that counts.
static bool ordered(const Worker& w, const Thread& t, Access a, uint32_t first) {
    if (a.segment < first) return true;
    const Segment& s = segment_of(w, a);
    if (s.block != w.block) return a.segment < w.acquired;
    if (s.agent) return seen_by_clock(w, t, a);
    if (a.segment < t.acquired || s.epoch != w.epoch || int(a.thread) == t.id) return true;
    if (int(a.thread) / WARP == t.warp && s.syncwarps != w.warps[t.warp].syncwarps) return true;
    return seen_by_clock(w, t, a);
}

// ------------------------------------------------------------------------------------------------ reports

Problem describe(Worker& w, int kind, const Region* r, const char* address, int size, int deed, const char* pc) {
    Problem p = blank(w, kind, pc);
    p.size = size;
    p.write = deed;
    if (r) p.space = r->space, p.argument = r->argument, p.offset = address - r->data;
    else p.offset = (int64_t)address;
    return p;
}

// The race of this access with an earlier one.
static Problem race(const Here& h, Deed deed, Access earlier, Deed earlier_deed) {
    Problem p = describe(h.w, RACE, &h.r, h.address, h.size, deed, h.pc);
    const Segment& s = segment_of(h.w, earlier);
    p.write2 = earlier_deed;
    p.pc2 = earlier.pc;
    p.block2 = s.block;
    p.thread2 = earlier.several && int(earlier.thread) == h.t.id ? NOBODY : earlier.thread;
    bool same_warp = s.block == h.w.block && int(earlier.thread) / WARP == h.t.warp && !s.agent;
    if (s.agent >= DELIVERIES) p.kind = COPY_RACE;
    if (same_warp && !earlier.other_warps) p.kind = MISSING_SYNCWARP;
    return p;
}

void flush_pending(Worker& w) {
    if (!w.pending.on) return;
    w.pending.on = false;
    if (memcmp(w.pending.before, w.pending.address, w.pending.size)) report(w, w.pending.problem, w.pending.access);
}

// An asynchronous copy that is not done counts as no write, but its instruction is remembered.
static bool is_promised(const Cell& cell) { return cell.write.segment == 0 && cell.write.vol; }

// How many bytes in front of a cell are written without a gap, and how far behind it the next written one is, or -1.
static void describe_written(const Here& h, size_t cell, Problem& p) {
    auto written = [&](size_t i) { return h.r.cells[i].write.segment >= h.first; };
    size_t below = cell, above = cell, cells = h.r.size >> h.r.shift;
    while (below > 0 && written(below - 1)) below--;
    while (above < cells && !written(above)) above++;
    int next = above < cells ? int(above - cell) << h.r.shift : -1;
    snprintf(p.detail, sizeof p.detail, "%d;%d", int(cell - below) << h.r.shift, next);
}

void check_written(const Here& h, size_t cell) {
    bool in_shared = h.r.space == SHARED && h.r.cells[cell].write.segment < h.first;
    if (!(h.r.written ? !h.r.written[cell] : in_shared)) return;
    Access before = h.r.cells[cell].write;
    bool under_way = in_shared && is_promised(h.r.cells[cell]);
    Problem p = describe(h.w, under_way ? COPY_RACE : UNINITIALISED, &h.r, h.address, h.size, false, h.pc);
    if (under_way) p.pc2 = before.pc, p.write2 = WRITES, p.thread2 = before.thread, p.block2 = h.w.block;
    Problem* noted = report(h.w, p, h.w.accesses);
    if (noted && under_way) describe_copy(h.w, h.r.data + (cell << h.r.shift), *noted);
    else if (noted && in_shared) describe_written(h, cell, *noted);
}

// ------------------------------------------------------------------------------------------------ one cell

static Access mine(const Here& h, unsigned bytes, bool atomic = false) {
    Access a = {};
    uint64_t offset = h.pc - h.w.launch->library;
    a.segment = h.warp.segment, a.thread = h.t.id, a.bytes = bytes, a.vol = h.vol, a.atomic = atomic;
    a.pc = offset < (1u << 19) ? offset : 0;
    return a;
}

static bool is_mine(const Here& h, Access a) { return a.segment == h.warp.segment && int(a.thread) == h.t.id; }

// Volatile accesses of different warps are how flags are passed; within one warp they are the old habit of relying on
// lockstep, which GPUs have not had since 2017.
static bool excused(const Here& h, Access other) {
    return h.vol && other.vol && int(other.thread) / WARP != h.t.warp;
}

// What the thread that published `a` had done before is visible from here on: to this thread, or to all of the block if
// the other one belongs to another.
static void acquire(const Here& h, Access a) {
    uint32_t& visible = segment_of(h.w, a).block == h.w.block ? h.t.acquired : h.w.acquired;
    visible = std::max<uint32_t>(visible, a.segment);
}

// ------------------------------------------------------------------------------------------------ next to atomics

// A plain read next to other threads' atomics is a race, with one exception: a thread that goes on to atomicCAS, Max,
// Min, And or Or on what it has read. Those look again, so an old value costs a turn of a loop or a needless call, as in
// `if (x > *largest) atomicMax(largest, x)`. What some thread is seen to settle in this way is excused for all.

static void excuse(Launch& l, uint32_t pc) {
    if (!std::count(l.excused.begin(), l.excused.end(), pc)) l.excused.push_back(pc);
}

static void look(const Here& h) {
    h.t.looked_at = h.address;
    h.t.looked_pc = h.pc - h.w.launch->library;
}

static void settle(const Here& h, Access r) {
    if (h.t.looked_at == h.address) excuse(*h.w.launch, h.t.looked_pc);
    if (r.segment < h.first || r.is_write || int(r.thread) != h.t.id) return;
    const Segment& s = segment_of(h.w, r);
    if (s.block == h.w.block && s.epoch == h.w.epoch) excuse(*h.w.launch, r.pc);
}

// A read of what this thread's atomic was the last to change: `others`, of another thread of the block, came before it
// by chance. One of another block may be known to be over, by a count of blocks; what comes too late is seen later.
static void read_own_atomic(const Here& h, Access others, unsigned bytes) {
    if (h.vol || others.segment < h.w.first_segment || !(others.bytes & bytes) || ordered(h.w, h.t, others, h.first)) return;
    report(h.w, race(h, READS, others, UPDATES), h.w.accesses);
    look(h);
}

// ------------------------------------------------------------------------------------------------ one cell

// Whether what was read went into a shuffle that the thread which writes now took part in: then it came first.
static bool passed_on(const Here& h, Access r) {
    if (r.segment != h.warp.segment || int(r.thread) / WARP != h.t.warp || r.other_warps) return false;
    for (const Passed& p : h.warp.passed)
        if (p.pc == r.pc && p.lanes >> (r.thread % WARP) & 1 && p.took_part >> h.t.lane & 1) return true;
    return false;
}

void read_cell(const Here& h, Cell& cell, unsigned bytes) {
    Access w = cell.write;
    if (w.segment >= h.first) {
        if (h.vol && (w.atomic || w.vol)) acquire(h, w);
        else if (w.bytes & bytes && !is_mine(h, w) && !ordered(h.w, h.t, w, h.first) && !excused(h, w)) {
            report(h.w, race(h, READS, w, w.atomic ? UPDATES : WRITES), h.w.accesses);
            if (w.atomic) look(h);
        } else if (w.atomic && cell.read.atomic) {
            read_own_atomic(h, cell.read, bytes);
        }
    }
    Access r = cell.read;
    if (is_mine(h, r)) {
        cell.read.bytes |= bytes;
    } else if (!r.atomic && !ordered(h.w, h.t, r, h.first) && !passed_on(h, r)) {  // else no write can come too early
        if (!(r.bytes & bytes)) return;  // who has read other bytes of the cell finds no room
        cell.read.several = 1;           // keep the first: one witness is enough
        cell.read.other_warps |= int(r.thread) / WARP != h.t.warp || segment_of(h.w, r).block != h.w.block;
        cell.read.bytes |= bytes;
    } else {
        cell.read = mine(h, bytes);
    }
}

// Whether an earlier read, or one of the others in its stretch, may come after the write that happens now.
static bool read_is_unordered(const Here& h, Access r) {
    if (!ordered(h.w, h.t, r, h.first)) return true;
    if (!r.several) return false;
    r.thread = r.other_warps ? (h.t.id + WARP) % h.w.num_threads : h.t.id ^ 1;  // any of the others will do
    return !ordered(h.w, h.t, r, h.first);
}

void write_cell(const Here& h, Cell& cell, unsigned bytes) {
    Access w = cell.write, r = cell.read;
    bool again = is_mine(h, w) && !w.atomic;
    if (w.bytes & bytes && !again && !ordered(h.w, h.t, w, h.first) && !excused(h, w) && !h.w.pending.on) {
        h.w.pending = {true, h.address, h.size, {}, race(h, WRITES, w, w.atomic ? UPDATES : WRITES), h.w.accesses};
        memcpy(h.w.pending.before, h.address, h.size);
    }
    // an atomic that its own follows has no say here: the last of all threads may reset a counter by a plain write
    if (r.bytes & bytes && !r.atomic && !excused(h, r) && read_is_unordered(h, r) && !passed_on(h, r))
        report(h.w, race(h, WRITES, r, r.is_write ? WRITES : READS), h.w.accesses);
    cell.read = Access{};
    // the first line that wrote it is kept, unless this one writes the other half of the cell
    if (!again || bytes & ~w.bytes) cell.write = mine(h, again ? w.bytes | bytes : bytes);
}

// Whether the witness in Cell::read still has something to say that a later one could not.
static bool witness_stays(const Here& h, Access r) {
    if (r.segment < h.first || r.vol || r.atomic) return false;
    return h.r.space == GLOBAL || !ordered(h.w, h.t, r, h.first);
}

void atomic_cell(const Here& h, Cell& cell, unsigned bytes, bool settles) {
    Access w = cell.write, r = cell.read;
    bool counts = w.segment >= h.first, ordinary = !w.atomic && !w.vol;
    if (counts && ordinary && w.bytes & bytes && !ordered(h.w, h.t, w, h.first))
        report(h.w, race(h, UPDATES, w, WRITES), h.w.accesses);
    if (settles) settle(h, r);
    if (r.bytes & bytes && !r.vol && !r.atomic && read_is_unordered(h, r))
        report(h.w, race(h, UPDATES, r, r.is_write ? WRITES : READS), h.w.accesses);
    bool own = int(w.thread) == h.t.id && counts && segment_of(h.w, w).block == h.w.block;
    if (counts && (ordinary || !own) && !w.vol && !witness_stays(h, r)) cell.read = w, cell.read.is_write = 1;
    if (counts && !ordinary && !own) acquire(h, w);
    cell.write = mine(h, bytes, true);
}

void promise_cell(const Here& h, Cell& cell) {
    cell.write = mine(h, 0);
    cell.write.segment = 0, cell.write.vol = 1;
}

bool published(const Worker& w, const Cell& cell) {
    return cell.write.segment >= w.first_segment && segment_of(w, cell.write).epoch != w.epoch;
}

void settle_cell(const Here& h, Cell& cell) {
    if (!is_promised(cell)) {
        Problem p = race(h, WRITES, cell.write, WRITES);
        if (p.thread2 == p.thread) p.kind = COPY_RACE;  // its own write, or another copy that it has waited for
        report(h.w, p);
    }
    cell.write = mine(h, 15);
}

// ------------------------------------------------------------------------------------------------ asynchronous ones

static Access of_segment(const Here& h, uint32_t segment) {
    Access a = mine(h, 15);
    a.segment = segment;
    return a;
}

void claim_cell(const Here& h, Cell& cell) {
    Access w = cell.write, r = cell.read;
    if (w.bytes && !ordered(h.w, h.t, w, h.first)) report(h.w, race(h, WRITES, w, w.atomic ? UPDATES : WRITES));
    else if (w.segment == 0 && w.vol && region_of(h.address) == &h.r) {  // another copy is under way
        Problem p = describe(h.w, COPY_RACE, &h.r, h.address, h.size, WRITES, h.pc);
        p.pc2 = w.pc, p.write2 = WRITES, p.thread2 = w.thread, p.block2 = h.w.block;
        report(h.w, p);
    }
    if (r.bytes && read_is_unordered(h, r)) report(h.w, race(h, WRITES, r, READS));
    cell.read = Access{};
    promise_cell(h, cell);
}

void arrive_cell(const Here& h, Cell& cell, uint32_t segment) {
    if (!is_promised(cell)) {
        Problem p = race(h, WRITES, cell.write, WRITES);
        p.kind = COPY_RACE;
        report(h.w, p);
    }
    cell.write = of_segment(h, segment);
}

void read_cell_later(const Here& h, size_t i, uint32_t segment) {
    Cell& cell = h.r.cells[i];
    check_written(h, i);
    Access w = cell.write;
    if (w.segment >= h.first && w.bytes) {
        if (!ordered(h.w, h.t, w, h.first)) {
            report(h.w, race(h, READS, w, w.atomic ? UPDATES : WRITES), h.w.accesses);
        } else if (h.r.space == SHARED && !is_fenced(h.w, h.t, w)) {
            Problem p = race(h, READS, w, WRITES);
            p.kind = MISSING_FENCE;
            strcpy(p.detail, "proxy");
            report(h.w, p, h.w.accesses);
        }
    }
    cell.read = of_segment(h, segment);
}
