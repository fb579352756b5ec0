// mbarriers: a phase is complete when so many arrivals have come and so many bytes been copied as were announced. What is
// in the 8 bytes themselves is nobody's business; all is kept here. A copy arrives when someone waits for it: see bulk.cpp.
#include "accesses.h"
#include "arena.h"
#include "hopper.h"
#include "shadow.h"

static Problem of_barrier(Worker& w, int kind, const void* address, const char* pc) {
    Region* r = region_of((const char*)address);
    return describe(w, kind, r, (const char*)address, 8, UPDATES, pc);
}

[[noreturn]] static void refuse_barrier(Worker& w, const void* address, const char* detail, const char* pc) {
    Problem p = of_barrier(w, MBARRIER, address, pc);
    snprintf(p.detail, sizeof p.detail, "%s", detail);
    report(w, p);
    if (!w.launch->checked) w.launch->abort = AFTER_PROBLEM;
    end_thread(w);
}

static MBarrier* find_barrier(Worker& w, const void* address) {
    for (MBarrier& barrier : hopper(w).barriers)
        if (barrier.address == address) return &barrier;
    return nullptr;
}

// Whether what initialised it is still there, and visible to this thread.
static void check_initialised(Worker& w, MBarrier& barrier, const char* pc) {
    Region* r = region_of(barrier.address);
    if (!r || r->space != SHARED) return;
    Cell& cell = r->cells[(barrier.address - r->data) >> r->shift];
    Here h{w, *w.current, w.warps[w.current->warp], *r, barrier.address, 8, false, pc};
    if (cell.write.segment != barrier.init.segment || cell.write.pc != barrier.init.pc)
        refuse_barrier(w, barrier.address, "written over", pc);
    w.accesses++;
    read_cell(h, cell, 15);
    cell.read = Access{};
}

MBarrier* barrier_at(Worker& w, const void* address, const char* pc) {
    flush_pending(w);
    w.current->touched = true;
    MBarrier* barrier = find_barrier(w, address);
    if (!barrier) refuse_barrier(w, address, "not initialised", pc);
    if (w.launch->checked) check_initialised(w, *barrier, pc);
    return barrier;
}

static void complete_phase(Worker& w, MBarrier& barrier) {
    barrier.phase++;
    barrier.pending = barrier.expected;
    barrier.wanted = barrier.brought = 0;
    barrier.polled = -1;
    barrier.done = barrier.next;
    w.idle = 0;
    for (int id : barrier.waiters) w.warps[id / WARP].ready |= 1u << id % WARP;
    barrier.waiters.clear();
}

static void settle_phase(Worker& w, MBarrier& barrier) {
    if (!barrier.pending && !barrier.bytes) complete_phase(w, barrier);
}

void advance(Worker& w, MBarrier& barrier) {
    Hopper& h = *w.hopper;
    int index = &barrier - h.barriers.data();
    unsigned phase = barrier.phase, bytes;
    while (barrier.phase == phase && !barrier.pending && deliver_one(w, index, &bytes)) {
        barrier.bytes -= bytes, barrier.brought += bytes;
        settle_phase(w, barrier);
    }
}

// ------------------------------------------------------------------------------------------------ called by kernels

extern "C" void llmc_mbarrier_init(void* at, unsigned count) {
    Worker& w = *llmc_worker;
    const char* pc = (const char*)__builtin_return_address(0);
    Hopper& h = hopper(w);
    if (!count || count > 0xfffff) refuse_barrier(w, at, "a count from 1 to 1048575", pc);
    MBarrier fresh = {};
    if (MBarrier* old = find_barrier(w, at)) {
        if (old->waiters.size()) refuse_barrier(w, at, "initialised again while threads wait", pc);
        fresh.agent = old->agent;
    } else {
        h.barriers.reserve(256);
        h.barriers.emplace_back();
        fresh.agent = DELIVERIES + std::min<int>(h.barriers.size() - 1, MOST_BARRIERS - 1);
        h.barriers.back().address = (char*)at;
    }
    fresh.address = (char*)at, fresh.expected = fresh.pending = count;
    if (w.launch->checked) {
        ordinary_access((char*)at, 8, true, false, pc);
        if (Region* r = region_of((char*)at)) fresh.init = r->cells[((char*)at - r->data) >> r->shift].write;
    }
    *find_barrier(w, at) = fresh;
    memset(at, 0, 8);
}

extern "C" void llmc_mbarrier_inval(void* at) {
    Worker& w = *llmc_worker;
    MBarrier* barrier = barrier_at(w, at, (const char*)__builtin_return_address(0));
    barrier->address = nullptr;
}

// `count` arrivals, and `bytes` more to be copied in this phase. Returns the phase.
extern "C" unsigned long long llmc_mbarrier_arrive(void* at, unsigned count, unsigned bytes, bool leaves) {
    Worker& w = *llmc_worker;
    const char* pc = (const char*)__builtin_return_address(0);
    MBarrier& barrier = *barrier_at(w, at, pc);
    unsigned phase = barrier.phase;
    if (int(count) > barrier.pending) {
        char said[88];
        snprintf(said, sizeof said, "one arrival too many: %d of %d were missing", barrier.pending, barrier.expected);
        refuse_barrier(w, at, said, pc);
    }
    barrier.bytes += bytes, barrier.wanted += bytes;
    if (leaves) barrier.expected -= count;
    barrier.pending -= count;
    if (!barrier.pending) llmc_finish_copies(at);  // cp.async that are bound to it
    publish(w, *w.current, barrier.next);
    settle_phase(w, barrier);
    if (barrier.phase == phase && barrier.waiters.size()) advance(w, barrier);
    return phase;
}

extern "C" void llmc_mbarrier_expect(void* at, int bytes) {
    Worker& w = *llmc_worker;
    MBarrier& barrier = *barrier_at(w, at, (const char*)__builtin_return_address(0));
    barrier.bytes += bytes;
    (bytes < 0 ? barrier.brought : barrier.wanted) += std::abs(bytes);
    publish(w, *w.current, barrier.next);
    settle_phase(w, barrier);
}

// Whether this phase is complete, told by its number or by its parity; `waits`: until it is.
extern "C" bool llmc_mbarrier_test(const void* at, unsigned long long phase, bool parity, bool waits) {
    Worker& w = *llmc_worker;
    const char* pc = (const char*)__builtin_return_address(0);
    MBarrier* barrier = barrier_at(w, at, pc);
    int index = barrier - w.hopper->barriers.data();
    auto complete = [&] {
        barrier = &w.hopper->barriers[index];
        unsigned now = barrier->phase;
        return parity ? (now & 1) != (phase & 1) : now != unsigned(phase);
    };
    if (!complete()) advance(w, *barrier);
    while (waits && !complete()) {
        barrier->waiters.push_back(w.current->id);
        w.hopper->waits[w.current->id] = pc;
        suspend(w);
    }
    if (!complete()) {
        barrier->polled = w.current->id;
        w.hopper->waits[w.current->id] = pc;
        llmc_yield();
        return false;
    }
    observe(w, *w.current, barrier->done);
    return true;
}

// ------------------------------------------------------------------------------------------------ nobody comes

// Why the barriers that somebody waits for never end their phases: the last one into p, those before it are reported. It
// is one deadlock, so only the first one counts.
bool describe_stuck_barriers(Worker& w, Problem& p) {
    bool any = false;
    for (MBarrier& barrier : w.hopper->barriers) {
        if (barrier.waiters.empty() && barrier.polled < 0) continue;
        int thread = barrier.waiters.empty() ? barrier.polled : barrier.waiters[0];
        Problem found = of_barrier(w, DEADLOCK, barrier.address, w.hopper->waits[thread]);
        found.thread = thread;
        int came = barrier.expected - barrier.pending;
        long long wanted = barrier.wanted, brought = barrier.brought;
        if (barrier.pending)
            snprintf(found.detail, sizeof found.detail, "arrivals %d of %d, phase %u", came, barrier.expected, barrier.phase);
        else
            snprintf(found.detail, sizeof found.detail, "bytes %lld of %lld, phase %u", brought, wanted, barrier.phase);
        if (any && !w.tainted) add_problem(w, p);
        if (any) found.count = 0;
        p = found;
        any = true;
    }
    return any;
}
