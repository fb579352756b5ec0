// Bulk copies (cp.async.bulk): many bytes, or a box of a tensor, by a machine of their own. A real copy happens at some
// moment between the request and the end of the wait for it. Here it happens at the last one, so that whoever does not
// wait finds poison, and whoever overwrites what is still to be copied sees it.
#include "accesses.h"
#include "arena.h"
#include "hopper.h"
#include "shadow.h"

// Where a 16-byte piece of a row lies: the pattern of swizzled tiles exchanges the pieces of neighbouring rows.
static char* swizzled(char* p, int mode) { return (char*)((uintptr_t)p ^ ((uintptr_t)p >> 7 & ((1 << mode) - 1)) << 4); }

// action(shared, global, bytes) for each piece of a copy; global is null for what lies outside the tensor.
template <class Action>
static void for_pieces(const Bulk& c, Action action) {
    if (!c.map.rank) {
        for (unsigned i = 0; i < c.bytes; i += 16) action(c.shared + i, c.global + i, 16);
        return;
    }
    const TensorMap& m = c.map;
    int row = m.box[0] * m.itemsize, pitch = m.swizzle ? 16 << m.swizzle : row, index[5] = {};
    for (char* line = c.shared;; line += pitch) {
        char* from = m.address + (int64_t)c.at[0] * m.itemsize;
        bool inside = true;
        for (int k = 1; k < m.rank; k++) {
            int64_t i = (int64_t)c.at[k] + index[k];
            inside &= i >= 0 && i < m.sizes[k];
            from += i * (int64_t)m.strides[k - 1];
        }
        for (int i = 0; i < row; i += 16) {
            int64_t first = c.at[0] + i / m.itemsize, last = c.at[0] + (i + 15) / m.itemsize;
            char* to = swizzled(line + i, m.swizzle);
            if (!inside || last < 0 || first >= m.sizes[0]) action(to, (char*)nullptr, 16);
            else if (first >= 0 && last < m.sizes[0]) action(to, from + i, 16);
            else
                for (int e = 0; e < 16; e += m.itemsize) {
                    int64_t x = c.at[0] + (i + e) / m.itemsize;
                    action(to + e, x >= 0 && x < m.sizes[0] ? from + i + e : nullptr, m.itemsize);
                }
        }
        int k = 1;
        while (k < m.rank && ++index[k] == m.box[k]) index[k++] = 0;
        if (k >= m.rank) return;
    }
}

template <class Action>
static void cells_of_piece(Worker& w, Thread& t, Region& r, char* address, int bytes, const char* pc, Action action) {
    w.accesses++;
    Here h{w, t, w.warps[t.warp], r, address, bytes, false, pc};
    for (size_t i = (address - r.data) >> r.shift; i <= size_t(address + bytes - 1 - r.data) >> r.shift; i++) action(h, i);
}

// Global memory, as an ordinary access: 16 bytes may begin at any element. `first`: of a copy.
static void touch_global(Worker& w, char* address, int bytes, bool write, bool& first, const char* pc) {
    int step = std::min<size_t>(bytes, (uintptr_t)address & -(uintptr_t)address);  // which may be more than an int holds
    for (int done = 0; done < bytes; done += step) {
        Region* r = admit(w, address + done, step, write, pc);
        if (r && w.launch->measured) measure_piece(w, *r, address + done, step, write, first, pc), first = false;
        if (r) cells_of_piece(w, *w.current, *r, address + done, step, pc, [&](const Here& h, size_t i) {
            unsigned all = step >= 4 || r->shift < 2 ? 15 : ((1u << step) - 1) << ((uintptr_t)(address + done) & 3) & 15;
            if (write) {
                write_cell(h, r->cells[i], all);
                if (r->written) r->written[i] = 1;
            } else {
                check_written(h, i);
                read_cell(h, r->cells[i], all);
            }
        });
    }
    w.warps[w.current->warp].dirty = true;
}

// ------------------------------------------------------------------------------------------------ is it well formed?

[[noreturn]] static void refuse_bulk(Worker& w, const char* address, const char* detail, const char* pc) {
    Problem p = describe(w, WRONG_TILE, region_of(address), address, 16, WRITES, pc);
    snprintf(p.detail, sizeof p.detail, "%s", detail);
    report(w, p);
    if (!w.launch->checked) w.launch->abort = AFTER_PROBLEM;
    end_thread(w);
}

static void check_form(Worker& w, const Bulk& c) {
    flush_pending(w);
    w.current->touched = true;
    if (!c.map.rank && c.bytes % 16) refuse_bulk(w, c.shared, "bytes", c.pc);
    int needed = c.map.rank ? 128 : 16;
    if ((uintptr_t)c.shared % needed) refuse_bulk(w, c.shared, c.map.rank ? "aligned 128" : "aligned 16", c.pc);
    if (!c.map.rank && (uintptr_t)c.global % 16) refuse_bulk(w, c.global, "aligned 16", c.pc);
}

static Bulk of_tensor(Worker& w, const void* map, int rank, const int* at, char* shared, const char* pc) {
    Bulk c = {};
    memcpy(&c.map, map, sizeof c.map);
    c.pc = pc, c.thread = w.current->id, c.shared = shared;
    if (c.map.magic != TENSOR_MAP) refuse_bulk(w, shared, "no tensor map", pc);
    if (c.map.rank != rank) {
        char said[64];
        snprintf(said, sizeof said, "axes %d %d", rank, c.map.rank);
        refuse_bulk(w, shared, said, pc);
    }
    if ((long long)at[0] * c.map.itemsize % 16) {  // an H200 stops there: illegal instruction
        char said[64];
        snprintf(said, sizeof said, "coordinate %d %d", at[0], (int)c.map.itemsize);
        refuse_bulk(w, shared, said, pc);
    }
    memcpy(c.at, at, rank * sizeof(int));
    c.bytes = c.map.itemsize;
    for (int k = 0; k < rank; k++) c.bytes *= c.map.box[k];
    return c;
}

// ------------------------------------------------------------------------------------------------ into shared memory

static void begin_load(Worker& w, Bulk c, const void* at) {
    check_form(w, c);
    MBarrier* barrier = barrier_at(w, at, c.pc);
    c.barrier = barrier - w.hopper->barriers.data();
    bool first = true;
    // All of it is looked at before any is claimed: a copy that ends the launch here is not among `loads`, whose claims
    // are given up when the block ends.
    std::vector<Region*> regions;
    for_pieces(c, [&](char* shared, char* global, int bytes) {
        if (!w.launch->checked) return;
        regions.push_back(admit(w, shared, bytes, true, c.pc));
        if (global) touch_global(w, global, bytes, false, first, c.pc);
    });
    size_t piece = 0;
    for_pieces(c, [&](char* shared, char*, int bytes) {
        Region* r = w.launch->checked ? regions[piece++] : nullptr;
        if (r) cells_of_piece(w, *w.current, *r, shared, bytes, c.pc, [&](const Here& h, size_t i) { claim_cell(h, r->cells[i]); });
        memset(shared, 0xff, bytes);  // poison
    });
    w.hopper->loads.push_back(c);
    if (barrier->waiters.size()) advance(w, *barrier);
}

bool deliver_one(Worker& w, int barrier, unsigned* bytes) {
    Hopper& h = *w.hopper;
    auto found = std::find_if(h.loads.begin(), h.loads.end(), [=](const Bulk& c) { return c.barrier == barrier; });
    if (found == h.loads.end()) return false;
    Bulk c = *found;
    h.loads.erase(found);
    MBarrier& by = h.barriers[barrier];
    uint32_t segment = w.launch->checked ? begin_asynchronous(w, by.agent) : 0;
    char *low = c.shared, *high = c.shared;
    for_pieces(c, [&](char* shared, char* global, int n) {
        if (global) memcpy(shared, global, n);
        else memset(shared, 0, n);
        low = std::min(low, shared), high = std::max(high, shared + n);
        if (!w.launch->checked) return;
        Region* r = region_of(shared);
        if (r) cells_of_piece(w, w.threads[c.thread], *r, shared, n, c.pc, [&](const Here& here, size_t i) {
            arrive_cell(here, r->cells[i], segment);
        });
    });
    *bytes = c.bytes;
    if (!w.launch->checked) return true;
    end_asynchronous(w, segment);
    by.next.seen[by.agent] = segment + 1;
    auto over = [=](const Delivered& d) { return d.from < high && low < d.to; };
    h.delivered.erase(std::remove_if(h.delivered.begin(), h.delivered.end(), over), h.delivered.end());
    if (c.map.rank) h.delivered.push_back({low, high, c.map.swizzle, c.pc});
    return true;
}

// What has not arrived when the block ends never will; the next block's copies are others.
void forget_loads(Worker& w) {
    for (const Bulk& c : w.hopper->loads)
        for_pieces(c, [&](char* shared, char*, int n) {
            if (Region* r = region_of(shared)) cells_of_piece(w, w.threads[c.thread], *r, shared, n, c.pc, [&](const Here&, size_t i) {
                r->cells[i].write = Access{};
            });
        });
}

bool describe_load(const Worker& w, const char* address, Problem& p) {
    if (!w.hopper_on) return false;
    for (const Bulk& c : w.hopper->loads) {
        bool here = false;
        for_pieces(c, [&](char* shared, char*, int n) { here |= address >= shared && address < shared + n; });
        if (!here) continue;
        const MBarrier& barrier = w.hopper->barriers[c.barrier];
        snprintf(p.detail, sizeof p.detail, "bulk %s", barrier.phase ? "phase" : "wait");
        return true;
    }
    return false;
}

extern "C" void llmc_bulk_load(void* to, const void* from, unsigned bytes, const void* barrier) {
    Worker& w = *llmc_worker;
    Bulk c = {};
    c.shared = (char*)to, c.global = (char*)from, c.bytes = bytes, c.thread = w.current->id;
    c.pc = (const char*)__builtin_return_address(0);
    begin_load(w, c, barrier);
}

extern "C" void llmc_tensor_load(void* to, const void* map, int rank, const int* at, const void* barrier) {
    Worker& w = *llmc_worker;
    begin_load(w, of_tensor(w, map, rank, at, (char*)to, (const char*)__builtin_return_address(0)), barrier);
}

// ------------------------------------------------------------------------------------------------ out of it

static void begin_store(Worker& w, Bulk c) {
    check_form(w, c);
    Hopper& h = hopper(w);
    c.thread = w.current->id, c.group = h.store_group[c.thread];
    if (w.launch->checked) {
        c.segment = begin_asynchronous(w, BULK_STORES + w.current->warp);
        for_pieces(c, [&](char* shared, char*, int bytes) {
            Region* r = admit(w, shared, bytes, false, c.pc);
            if (r) cells_of_piece(w, *w.current, *r, shared, bytes, c.pc, [&](const Here& at, size_t i) { read_cell_later(at, i, c.segment); });
        });
    }
    h.stores.push_back(c);
}

static void finish_store(Worker& w, const Bulk& c) {
    bool first = true;
    for_pieces(c, [&](char* shared, char* global, int bytes) {
        if (!global) return;
        if (w.launch->checked) touch_global(w, global, bytes, true, first, c.pc);
        memcpy(global, shared, bytes);
    });
    if (!w.launch->checked) return;
    end_asynchronous(w, c.segment);
    uint32_t& seen = w.hopper->clocks[c.thread].seen[BULK_STORES + w.current->warp];
    seen = std::max(seen, c.segment + 1);
}

extern "C" void llmc_bulk_store(void* to, const void* from, unsigned bytes) {
    Bulk c = {};
    c.shared = (char*)from, c.global = (char*)to, c.bytes = bytes, c.pc = (const char*)__builtin_return_address(0);
    begin_store(*llmc_worker, c);
}

extern "C" void llmc_tensor_store(const void* map, int rank, const int* at, const void* from) {
    Worker& w = *llmc_worker;
    begin_store(w, of_tensor(w, map, rank, at, (char*)from, (const char*)__builtin_return_address(0)));
}

extern "C" void llmc_bulk_commit() {
    Worker& w = *llmc_worker;
    hopper(w).store_group[w.current->id]++;
}

extern "C" void llmc_bulk_wait(unsigned prior) {
    Worker& w = *llmc_worker;
    Hopper& h = hopper(w);
    int id = w.current->id;
    auto due = [&](const Bulk& c) { return c.thread == id && c.group + prior < h.store_group[id]; };
    for (const Bulk& c : h.stores)
        if (due(c)) finish_store(w, c);
    h.stores.erase(std::remove_if(h.stores.begin(), h.stores.end(), due), h.stores.end());
}

void report_stores(Worker& w) {
    for (const Bulk& c : w.hopper->stores) {
        Problem p = blank(w, NEVER_WAITED_FOR, c.pc);
        p.thread = c.thread;
        snprintf(p.detail, sizeof p.detail, c.group < w.hopper->store_group[c.thread] ? "store" : "store without a group");
        report(w, p);
    }
}
