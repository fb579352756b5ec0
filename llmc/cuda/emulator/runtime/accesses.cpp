// Every load and store of a checked kernel comes here first. An access is looked up (which array is it in?), refused if
// it lies outside, compared with what the shadow remembers, and counted.
#include "accesses.h"
#include "arena.h"
#include "heap.h"
#include "hopper.h"
#include "shadow.h"

// ------------------------------------------------------------------------------------------------ where is it?

Region* region_of(const char* address) {
    size_t offset = address - arena.base;
    if (offset < ARENA) return arena.slots[offset / SLOT].data ? &arena.slots[offset / SLOT] : nullptr;
    for (Region* r : {&arena.shared_static, &arena.shared_dynamic, &arena.module, &arena.heap})
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
    return size_t(address - w.current->stack) < STACK;
}

static bool readable_anyway(Worker& w, const char* address) {
    if (address >= w.launch->library && address < w.launch->library_end) return true;  // the library's constants
    for (const void* own : {&threadIdx, &blockIdx, &llmc_block_dim, &llmc_grid_dim})  // clang reports these reads
        if (size_t(address - (const char*)own) < sizeof(uint3)) return true;
    return false;
}

// ------------------------------------------------------------------------------------------------ is it allowed?

[[noreturn]] static void refuse(Worker& w, int kind, const Region* r, const char* address, int size, bool write,
                                const char* pc) {
    report(w, describe(w, kind, r, address, size, write, pc));
    if (w.launch->lost_threads > 100000) w.launch->abort = AFTER_PROBLEM;
    end_thread(w);
}

[[noreturn]] static void refuse_nowhere(Worker& w, const char* address, int size, bool write, const char* pc) {
    if (size_t(address - w.dynamic_shared + AROUND) < MAX_SHARED + 2 * AROUND)
        refuse(w, OUT_OF_BOUNDS, &arena.shared_dynamic, address, size, write, pc);
    size_t near_shared = address - arena.shared_static.data + (64 << 10);
    if (arena.shared_static.size && near_shared < (128 << 10) + arena.shared_static.size)
        refuse(w, OUT_OF_BOUNDS, &arena.shared_static, address, size, write, pc);
    refuse(w, INVALID_POINTER, nullptr, address, size, write, pc);
}

Region* admit(Worker& w, char* address, int size, bool write, const char* pc) {
    flush_pending(w);
    if (w.launch->abort.load(std::memory_order_relaxed)) give_up(w, pc);
    Region* r = region_of(address);
    if (!r) {
        if (on_a_stack(w, address)) {
            if (w.hopper_on) use_registers(w, address, size, pc);
            return nullptr;
        }
        if (readable_anyway(w, address)) return nullptr;
        refuse_nowhere(w, address, size, write, pc);
    }
    size_t offset = address - r->data;
    bool outside = offset >= r->size || offset + size > r->size;
    if (r == &arena.shared_static && arena.shared_arrays >= 0) {
        int array = shared_array(address, size);
        if (array >= 0 && arena.shared_mark[array]) return nullptr;
        outside = array < 0;
    }
    if (r == &arena.heap && !heap_holds(address, size)) refuse(w, INVALID_POINTER, r, address, size, write, pc);
    w.current->touched = true;
    if (outside) refuse(w, OUT_OF_BOUNDS, r, address, size, write, pc);
    if ((uintptr_t)address & (size - 1) && !(size & (size - 1))) refuse(w, MISALIGNED, r, address, size, write, pc);
    return r;
}

void require_alignment(Worker& w, const char* address, int size, const char* pc) {
    Region* r = region_of(address);
    if (r && (uintptr_t)address & (size - 1)) refuse(w, MISALIGNED, r, address, size, false, pc);
}

// ------------------------------------------------------------------------------------------------ one access

struct Cells {  // of a region: the first and the last that an access covers, and which bytes of each
    size_t first, last;
    unsigned bytes;
};

static Cells cells_of(const Region& r, const char* address, int size) {
    size_t offset = address - r.data;
    bool whole = size >= 4 || r.shift < 2;
    unsigned bytes = whole ? 15 : ((1u << size) - 1) << ((uintptr_t)address & 3) & 15;
    return {offset >> r.shift, (offset + size - 1) >> r.shift, bytes};
}

void ordinary_access(char* address, int size, bool write, bool vol, const char* pc, bool again) {
    Worker* worker = llmc_worker;
    if (!worker || !worker->current) return;  // the host's side of the library
    Worker& w = *worker;
    Region* r = admit(w, address, size, write, pc);
    if (!r) return;
    if (vol && !write && ++w.spins % 8 == 0) {  // perhaps it waits for another thread's flag
        w.last_atomic = pc;
        llmc_yield();
    }
    Warp& warp = w.warps[w.current->warp];
    if (w.launch->measured) measure_access(w, *r, address, size, write, false, pc);
    if (!again) w.accesses++;
    Here h{w, *w.current, warp, *r, address, size, vol, pc};
    if (vol && write && warp.dirty) new_segment(w, warp);  // what came before is published by this flag
    Cells cells = cells_of(*r, address, size);
    for (size_t i = cells.first; i <= cells.last; i++) {
        if (write) {
            write_cell(h, r->cells[i], cells.bytes);
            if (r->written) r->written[i] = 1;
        } else {
            check_written(h, i);
            read_cell(h, r->cells[i], cells.bytes);
        }
    }
    if (!write) warp.last_read[w.current->lane] = {address, uint32_t(pc - w.launch->library), size <= 8 ? size : 0};
    warp.dirty = true;
    if (!vol) w.idle = 0;
}

void atomic_access(char* address, int size, Atomic what, const char* pc) {
    Worker* worker = llmc_worker;
    if (!worker || !worker->current) return;
    Worker& w = *worker;
    Region* r = admit(w, address, size, true, pc);
    if (!r) return;
    Warp& warp = w.warps[w.current->warp];
    if (w.launch->measured) measure_access(w, *r, address, size, true, true, pc);
    w.accesses++;
    Here h{w, *w.current, warp, *r, address, size, false, pc};
    Cells cells = cells_of(*r, address, size);
    Access last = r->cells[cells.first].write;  // what its thread had seen is seen here, and published again
    if (warp.dirty || ((last.atomic || last.vol) && last.segment > warp.segment)) new_segment(w, warp);
    for (size_t i = cells.first; i <= cells.last; i++) {
        if (what != STORE) check_written(h, i);
        atomic_cell(h, r->cells[i], cells.bytes, what == COMPARE);
        if (r->written) r->written[i] = 1;
    }
    w.last_atomic = pc;
    warp.dirty = true;  // the next atomic, perhaps on a flag, publishes this one
}
