// Asynchronous copies into shared memory (cp.async): asked for now, done when they are waited for. A real copy lands at
// some moment in between. Here it lands at the last possible one, so that whoever does not wait finds nothing there.
#include "accesses.h"
#include "arena.h"
#include "hopper.h"
#include "shadow.h"
#include <cstdio>

template <class Action>
static void for_cells(Worker& w, const Copy& c, Action action) {
    Region* r = region_of(c.to);
    Here h{w, *w.current, w.warps[w.current->warp], *r, c.to, int(c.room), false, c.pc};
    for (size_t i = (c.to - r->data) >> r->shift; i <= (c.to + c.room - 1 - r->data) >> r->shift; i++)
        action(h, r->cells[i]);
}

// Whether the copy may wait: one to global memory is made at once, as on a GPU.
static bool promise(Worker& w, const Copy& c) {
    Region* r = region_of(c.to);
    if (!r || r->space != SHARED) return false;
    flush_pending(w);
    memset(c.to, 0xff, c.room);  // poison
    for_cells(w, c, promise_cell);
    return true;
}

// Whether what was there had been written before the block's last barrier.
static bool goes_over(const Worker& w, const Copy& c) {
    Region* r = region_of(c.to);
    return r && r->space == SHARED && published(w, r->cells[(c.to - r->data) >> r->shift]);
}

// One access if all of it is read; the part of a copy that ends in zeros is aligned like a whole one.
static void read_source(Worker& w, const Copy& c) {
    require_alignment(w, c.from, c.bytes ? c.room : 1, c.pc);
    unsigned word = c.bytes & -c.bytes;
    for (unsigned done = 0; done < c.bytes; done += word)
        ordinary_access((char*)c.from + done, word, false, false, c.pc, done > 0);
}

static void move(const Copy& c) {
    memcpy(c.to, c.from, c.bytes);
    memset(c.to + c.bytes, 0, c.room - c.bytes);
}

static void settle(Worker& w, const Copy& c) {
    move(c);
    if (!w.launch->checked) return;
    for_cells(w, c, settle_cell);
    w.warps[w.current->warp].dirty = true;
}

// Do the copies of one thread that `due` says are due, and forget them.
template <class Due>
static void settle_if(Worker& w, std::vector<Copy>& copies, Due due) {
    size_t kept = 0;
    for (Copy& c : copies) {
        if (due(c)) settle(w, c);
        else copies[kept++] = c;
    }
    copies.resize(kept);
}

void describe_copy(const Worker& w, const char* address, Problem& p) {
    if (describe_load(w, address, p)) return;
    for (const Copy& c : w.copies[p.thread2]) {
        if (address < c.to || address >= c.to + c.room) continue;
        bool ended = c.group < w.threads[p.thread2].group;
        if (c.barrier) continue;
        if (c.over && c.epoch == w.epoch) snprintf(p.detail, sizeof p.detail, "over");
        else if (c.left_by_wait < 0) snprintf(p.detail, sizeof p.detail, ended ? "no wait" : "no group, no wait");
        else if (!ended) snprintf(p.detail, sizeof p.detail, "no group");
        else if (!c.ended_at_wait) snprintf(p.detail, sizeof p.detail, "ended after the wait");
        else snprintf(p.detail, sizeof p.detail, "left by wait %d", c.left_by_wait);
    }
}

void forget_copies(Worker& w) {
    for (auto& copies : w.copies) {
        for (const Copy& c : copies)
            if (w.launch->checked) for_cells(w, c, [](const Here&, Cell& cell) { cell.write = Access{}; });
        copies.clear();
    }
    w.copying = false;
}

// ------------------------------------------------------------------------------------------------ called by kernels

// Copy `bytes` bytes, and fill up with zeros to `room`: one access of 1, 2, 4, 8 or 16 bytes.
extern "C" void llmc_copy_later(void* to, const void* from, unsigned bytes, unsigned room) {
    Worker& w = *llmc_worker;
    Copy c{(char*)to, (const char*)from, (const char*)__builtin_return_address(0), nullptr, bytes, room, w.current->group};
    if (w.launch->checked) {
        read_source(w, c);
        c.epoch = w.epoch, c.over = goes_over(w, c);
        ordinary_access((char*)to, room, true, false, c.pc);
        if (!promise(w, c)) return move(c);
    }
    w.copies[w.current->id].push_back(c);
    w.copying = true;
}

extern "C" void llmc_commit_copies() { llmc_worker->current->group++; }

// All but the last `prior` groups of this thread that were committed.
extern "C" void llmc_wait_copies(unsigned prior) {
    Worker& w = *llmc_worker;
    unsigned group = w.current->group;
    std::vector<Copy>& copies = w.copies[w.current->id];
    settle_if(w, copies, [=](const Copy& c) { return !c.barrier && c.group + prior < group; });
    for (Copy& c : copies) c.left_by_wait = prior, c.ended_at_wait = c.group < group;
}

// What this thread has asked for so far is done when the barrier's phase ends, instead of when it waits.
extern "C" void llmc_bind_copies(const void* barrier) {
    for (Copy& c : llmc_worker->copies[llmc_worker->current->id])
        if (!c.barrier) c.barrier = barrier;
}

extern "C" void llmc_finish_copies(const void* barrier) {
    Worker& w = *llmc_worker;
    for (int i = 0; w.copying && i < w.num_threads; i++)
        settle_if(w, w.copies[i], [=](const Copy& c) { return c.barrier == barrier; });
}
