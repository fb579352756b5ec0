// Every load and store of a checked kernel comes here first: the compiler's thread-sanitizer pass calls __tsan_read4 and
// the like, and these are ours. An access is looked up (which array is it in?), refused if it is outside, and compared
// with what the shadow remembers of its neighbours in time.
//
// Two accesses of one place, one of them a write, race unless something orders them:
//   a __syncthreads in between (another epoch of the block), a __syncwarp in between (same warp), or an atomic or
//   volatile variable through which the first thread's past became visible to the second (`acquired`).
// Checked blocks run one after the other, so what happened before what is known exactly, and reports repeat.
#include "state.h"
#include "arena.h"
#include <algorithm>
#include <cstring>

[[noreturn]] void end_thread(Worker& w);

// ------------------------------------------------------------------------------------------------ segments

void new_segment(Worker& w, Warp& warp) {
    Launch& l = *w.launch;
    if (l.first_segment + l.segments.size() >= (1u << 27) - 1) return;  // this long a launch goes on unwatched
    warp.segment = l.first_segment + l.segments.size();
    warp.dirty = false;
    l.segments.push_back({w.block, w.epoch, warp.syncwarps});
}

void begin_block_memory(Worker& w) {
    Launch& l = *w.launch;
    w.first_segment = l.first_segment + l.segments.size();
    for (int i = 0; i < w.num_warps; i++) new_segment(w, w.warps[i]);
    // poison: NaN, and no sensible index
    if (arena.shared_dynamic.size) memset(arena.shared_dynamic.data, 0xff, arena.shared_dynamic.size);
    for (int i = 0; i < arena.shared_arrays; i++)
        if (!arena.shared_mark[i])
            memset(arena.shared_static.data + arena.shared_from[i], 0xff, arena.shared_to[i] - arena.shared_from[i]);
}

// Whether access `a` cannot clash with what thread t does now. `first` is the oldest segment that counts.
static bool ordered(const Worker& w, const Thread& t, Access a, uint32_t first) {
    const Launch& l = *w.launch;
    if (a.segment < first) return true;
    const Segment& s = l.segments[a.segment - l.first_segment];
    if (s.block != w.block) return a.segment < w.acquired;
    if (a.segment < t.acquired || s.epoch != w.epoch || int(a.thread) == t.id) return true;
    return int(a.thread) / WARP == t.warp && s.syncwarps != w.warps[t.warp].syncwarps;
}

// ------------------------------------------------------------------------------------------------ reports

static Problem describe(Worker& w, int kind, const Region* r, const void* address, int size, bool write, const char* pc) {
    Problem p = blank(w, kind);
    p.pc = pc >= w.launch->library && pc < w.launch->library_end ? pc - w.launch->library : 0;
    p.size = size;
    p.write = write;
    if (r) p.space = r->space, p.argument = r->argument, p.offset = (const char*)address - r->data;
    else p.offset = (int64_t)address;
    return p;
}

static Problem race(Worker& w, const Region& r, const char* address, int size, bool write, const char* pc, Access other,
                    bool other_writes) {
    Problem p = describe(w, RACE, &r, address, size, write, pc);
    const Segment& s = w.launch->segments[other.segment - w.launch->first_segment];
    p.write2 = other_writes;
    p.pc2 = other.pc;
    p.block2 = s.block;
    p.thread2 = other.several && int(other.thread) == w.current->id ? ~0u : other.thread;
    if (s.block == w.block && int(other.thread) / WARP == w.current->warp && !(other.several && other.atomic)) p.kind = MISSING_SYNCWARP;
    return p;
}

void flush_pending(Worker& w) {
    if (!w.pending.on) return;
    w.pending.on = false;
    if (memcmp(w.pending.before, w.pending.address, w.pending.size)) report(w, w.pending.problem);
}

// ------------------------------------------------------------------------------------------------ one cell

struct Here {  // who accesses what, for the cells that one access covers
    Worker& w;
    Thread& t;
    Warp& warp;
    Region& r;
    char* address;
    int size;
    bool vol;
    const char* pc;
    uint32_t first = r.space == SHARED ? w.first_segment : w.launch->first_segment;  // shared memory begins with the block
    Access mine(unsigned bytes) const {
        Access a;
        uint64_t offset = pc - w.launch->library;
        a.segment = warp.segment, a.thread = t.id, a.bytes = bytes, a.several = 0, a.atomic = 0, a.vol = vol, a.plain = 0;
        a.pc = offset < (1u << 19) ? offset : 0;
        return a;
    }
};

// Volatile accesses of different warps are how flags are passed; within one warp they are the old habit of relying on
// lockstep, which GPUs have not had since 2017.
static bool excused(const Here& h, Access other) {
    return h.vol && other.vol && int(other.thread) / WARP != h.t.warp;
}

static uint32_t block_of(const Worker& w, Access a) {
    return w.launch->segments[a.segment - w.launch->first_segment].block;
}

// What the thread that released `a` had done before is visible from here on; of other blocks', to the whole block.
static void acquire(const Here& h, Access a) {
    uint32_t& visible = block_of(h.w, a) == h.w.block ? h.t.acquired : h.w.acquired;
    visible = std::max<uint32_t>(visible, a.segment);
}

static void read_cell(const Here& h, Cell& cell, unsigned bytes) {
    Access w = cell.w;
    if (w.segment >= h.first) {
        if (h.vol && (w.atomic || w.vol)) acquire(h, w);
        else if (w.bytes & bytes && !w.atomic && !(w.segment == h.warp.segment && int(w.thread) == h.t.id) &&
                 !ordered(h.w, h.t, w, h.first) && !excused(h, w))
            report(h.w, race(h.w, h.r, h.address, h.size, false, h.pc, w, true));
    }
    Access r = cell.r;
    if (r.segment == h.warp.segment && int(r.thread) == h.t.id) {
        cell.r.bytes |= bytes;
    } else if (int(r.thread) != h.t.id && !ordered(h.w, h.t, r, h.first)) {
        cell.r.several = 1;  // keep the first: one witness is enough
        cell.r.atomic |= int(r.thread) / WARP != h.t.warp || block_of(h.w, r) != h.w.block;  // for readers: "other warps"
        cell.r.bytes |= bytes;
    } else {
        cell.r = h.mine(bytes);
    }
}

static void write_cell(const Here& h, Cell& cell, unsigned bytes) {
    Access w = cell.w, r = cell.r;
    bool own = w.segment == h.warp.segment && int(w.thread) == h.t.id;
    bool unlocks = w.atomic && h.t.atomics;
    if (w.bytes & bytes && !own && !unlocks && !ordered(h.w, h.t, w, h.first) && !excused(h, w) && !h.w.pending.on) {
        h.w.pending.on = true;
        h.w.pending.address = h.address;
        h.w.pending.size = h.size;
        memcpy(h.w.pending.before, h.address, h.size);
        h.w.pending.problem = race(h.w, h.r, h.address, h.size, true, h.pc, w, true);
    }
    if (r.bytes & bytes && !excused(h, r)) {
        bool unordered = int(r.thread) != h.t.id && !ordered(h.w, h.t, r, h.first);
        if (!unordered && r.several) {  // others read in the same stretch as the one we know: ask for one of those
            Access witness = r;
            witness.thread = r.atomic ? (h.t.id + WARP) % MAX_THREADS : h.t.id ^ 1;
            unordered = !ordered(h.w, h.t, witness, h.first);
        }
        if (unordered) report(h.w, race(h.w, h.r, h.address, h.size, true, h.pc, r, r.plain));
    }
    cell.r = Access{};
    if (own) cell.w.bytes |= bytes;
    else cell.w = h.mine(bytes);
}

// ------------------------------------------------------------------------------------------------ one access

static Region* find(const char* address) {
    size_t offset = address - arena.base;
    if (offset < ARENA) return arena.slots[offset / SLOT].data ? &arena.slots[offset / SLOT] : nullptr;
    for (Region* r : {&arena.shared_static, &arena.shared_dynamic, &arena.module})
        if (size_t(address - r->data) < r->size) return r;
    return nullptr;
}

// Static shared memory holds the arrays of all kernels of the library, one behind the other: only those of this one
// count. The index of the array that holds the access, -1 if none does.
static int shared_array(const char* address, int size) {
    size_t offset = address - arena.shared_static.data;
    for (int i = 0; i < arena.shared_arrays; i++)
        if (offset >= arena.shared_from[i] && offset + size <= arena.shared_to[i]) return i;
    return -1;
}

static bool on_a_stack(Worker& w, const char* address) {
    const char* here = w.current->stack;
    if (address >= here && address < here + STACK) return true;
    for (const char* s : w.all_stacks)  // another thread's: a pointer passed through shared memory; rare
        if (address >= s && address < s + STACK) return true;
    return false;
}

static bool readable_anyway(Worker& w, const char* address) {
    if (address >= w.launch->library && address < w.launch->library_end) return true;  // the library's constants
    for (const void* own : {&threadIdx, &blockIdx, &llmc_block_dim, &llmc_grid_dim})  // clang reports these reads
        if (size_t(address - (const char*)own) < sizeof(uint3)) return true;
    return false;
}

[[noreturn]] static void refuse(Worker& w, int kind, const Region* r, const char* address, int size, bool write,
                                const char* pc) {
    report(w, describe(w, kind, r, address, size, write, pc));
    if (w.launch->lost_threads > 100000) w.launch->abort = 1;
    end_thread(w);
}

static Region* admit(Worker& w, char* address, int size, bool write, const char* pc) {
    flush_pending(w);
    if (w.launch->abort.load(std::memory_order_relaxed)) give_up(w, pc);
    Region* r = find(address);
    if (!r) {
        if (on_a_stack(w, address) || readable_anyway(w, address)) return nullptr;
        size_t dynamic = address - w.dynamic_shared;
        if (dynamic < MAX_SHARED + 4096) refuse(w, OUT_OF_BOUNDS, &arena.shared_dynamic, address, size, write, pc);
        size_t near_shared = address - arena.shared_static.data + (64 << 10);
        if (arena.shared_static.size && near_shared < (128 << 10) + arena.shared_static.size)
            refuse(w, OUT_OF_BOUNDS, &arena.shared_static, address, size, write, pc);
        refuse(w, INVALID_POINTER, nullptr, address, size, write, pc);
    }
    size_t offset = address - r->data;
    bool outside = offset >= r->size || offset + size > r->size;
    if (r == &arena.shared_static && arena.shared_arrays >= 0) {
        int array = shared_array(address, size);
        if (array >= 0 && arena.shared_mark[array]) return nullptr;
        outside = array < 0;
    }
    w.current->touched = true;
    if (outside) refuse(w, OUT_OF_BOUNDS, r, address, size, write, pc);
    if ((uintptr_t)address & (size - 1) && !(size & (size - 1))) refuse(w, MISALIGNED, r, address, size, write, pc);
    return r;
}

static unsigned byte_mask(const Region& r, const char* address, int size) {
    return size >= 4 || r.shift < 2 ? 15 : ((1u << size) - 1) << ((uintptr_t)address & 3) & 15;
}

static void uninitialised(const Here& h) {
    if (h.r.space == SHARED || h.r.written) report(h.w, describe(h.w, UNINITIALISED, &h.r, h.address, h.size, false, h.pc));
}

static void access(char* address, int size, bool write, bool vol, const char* pc) {
    Worker* worker = llmc_worker;
    if (!worker || !worker->current) return;  // the host's side of the library
    Worker& w = *worker;
    Region* r = admit(w, address, size, write, pc);
    if (!r) return;
    Thread& t = *w.current;
    Warp& warp = w.warps[t.warp];
    if (w.launch->measured) measure_access(w, *r, address, size, write, false, pc);
    Here h{w, t, warp, *r, address, size, vol, pc};
    if (vol && write && warp.dirty) new_segment(w, warp);  // what came before is published by this flag
    size_t first = (address - r->data) >> r->shift, last = (address - r->data + size - 1) >> r->shift;
    unsigned bytes = byte_mask(*r, address, size);
    for (size_t i = first; i <= last; i++) {
        if (write) {
            write_cell(h, r->cells[i], bytes);
            if (r->written) r->written[i] = 1;
        } else {
            bool never = r->written ? !r->written[i] : r->space == SHARED && r->cells[i].w.segment < h.first;
            if (never) uninitialised(h);
            read_cell(h, r->cells[i], bytes);
        }
    }
    warp.dirty = true;
    if (!vol) w.idle = 0;
    else if (!write && ++w.spins % 8 == 0) llmc_yield();  // perhaps it waits for another thread's flag
}

static void atomic_access(char* address, int size, const char* pc, bool reads = true) {
    Worker* worker = llmc_worker;
    if (!worker || !worker->current) return;
    Worker& w = *worker;
    Region* r = admit(w, address, size, true, pc);
    if (!r) return;
    Thread& t = *w.current;
    Warp& warp = w.warps[t.warp];
    if (w.launch->measured) measure_access(w, *r, address, size, true, true, pc);
    Here h{w, t, warp, *r, address, size, false, pc};
    size_t first = (address - r->data) >> r->shift, last = (address - r->data + size - 1) >> r->shift;
    Access before = r->cells[first].w;  // what its writer had seen is seen here, and published again
    if (warp.dirty || ((before.atomic || before.vol) && before.segment > warp.segment)) new_segment(w, warp);
    unsigned bytes = byte_mask(*r, address, size);
    for (size_t i = first; i <= last; i++) {
        Access other = r->cells[i].w;
        bool never = r->written ? !r->written[i] : r->space == SHARED && other.segment < h.first;
        if (never && reads) uninitialised(h);
        Access& before = r->cells[i].r;
        if (other.segment >= h.first && !other.atomic && !other.vol) before = other, before.plain = 1;
        if (before.plain && before.bytes & bytes && !ordered(w, t, before, h.first))
            report(w, race(w, *r, address, size, true, pc, before, true));
        if (other.segment >= h.first && (other.atomic || other.vol)) acquire(h, other);
        Access mine = h.mine(bytes);
        mine.atomic = 1;
        r->cells[i].w = mine;
        if (r->written) r->written[i] = 1;
    }
}

// ------------------------------------------------------------------------------------------------ the compiler's calls

#define HERE (const char*)__builtin_return_address(0)
#define HOOKS(size)                                                                                     \
    extern "C" void __tsan_read##size(void* p) { access((char*)p, size, false, false, HERE); }           \
    extern "C" void __tsan_write##size(void* p) { access((char*)p, size, true, false, HERE); }           \
    extern "C" void __tsan_unaligned_read##size(void* p) { access((char*)p, size, false, false, HERE); } \
    extern "C" void __tsan_unaligned_write##size(void* p) { access((char*)p, size, true, false, HERE); } \
    extern "C" void __tsan_read_write##size(void* p) {                                                  \
        access((char*)p, size, false, false, HERE);                                                     \
        access((char*)p, size, true, false, HERE);                                                      \
    }                                                                                                   \
    extern "C" void __tsan_unaligned_read_write##size(void* p) {                                        \
        access((char*)p, size, false, false, HERE);                                                     \
        access((char*)p, size, true, false, HERE);                                                      \
    }                                                                                                   \
    extern "C" void __tsan_volatile_read##size(void* p) { access((char*)p, size, false, true, HERE); }   \
    extern "C" void __tsan_volatile_write##size(void* p) { access((char*)p, size, true, true, HERE); }   \
    extern "C" void __tsan_unaligned_volatile_read##size(void* p) { access((char*)p, size, false, true, HERE); } \
    extern "C" void __tsan_unaligned_volatile_write##size(void* p) { access((char*)p, size, true, true, HERE); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

// A structure copied as a whole: in words, so that each has its own place.
static void range(char* p, size_t size, bool write, const char* pc) {
    for (size_t done = 0; done < size;) {
        int step = 1;
        while (step < 8 && done + 2 * step <= size && !((uintptr_t)(p + done) & (2 * step - 1))) step *= 2;
        access(p + done, step, write, false, pc);
        done += step;
    }
}
extern "C" void __tsan_read_range(void* p, size_t size) { range((char*)p, size, false, HERE); }
extern "C" void __tsan_write_range(void* p, size_t size) { range((char*)p, size, true, HERE); }
extern "C" void llmc_read(const void* p, unsigned size) { range((char*)p, size, false, HERE); }
extern "C" void llmc_write(void* p, unsigned size) { range((char*)p, size, true, HERE); }
extern "C" void llmc_atomic(const volatile void* p, unsigned size) { atomic_access((char*)p, size, HERE); }
extern "C" void llmc_atomic_store(const volatile void* p, unsigned size) { atomic_access((char*)p, size, HERE, false); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_vptr_update(void**, void*) {}
extern "C" void __tsan_vptr_read(void**) {}

// clang leaves copies of structures to memcpy and does not report them; it is linked with --wrap=memcpy. From version 15
// on (zig) it calls these instead.
static void copied(void* to, const void* from, size_t size, const char* pc) {
    range((char*)from, size, false, pc);
    range((char*)to, size, true, pc);
}
extern "C" void* __wrap_memcpy(void* to, const void* from, size_t size) {
    copied(to, from, size, HERE);
    return memcpy(to, from, size);
}
extern "C" void* __tsan_memcpy(void* to, const void* from, size_t size) {
    copied(to, from, size, HERE);
    return memcpy(to, from, size);
}
extern "C" void* __tsan_memmove(void* to, const void* from, size_t size) {
    copied(to, from, size, HERE);
    return memmove(to, from, size);
}
extern "C" void* __tsan_memset(void* to, int byte, size_t size) {
    range((char*)to, size, true, HERE);
    return memset(to, byte, size);
}
