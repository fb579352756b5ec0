// The regions that a checked launch may touch, each with its shadow cells: the caller's arrays, copied into slots; the
// block's shared memory; the library's own variables.
#include "arena.h"
#include "heap.h"
#include "loaded.h"
#include <sys/mman.h>

Arena arena;

// Shadow cells for a region; what earlier launches have left in them is older than any segment of this one.
static void give_cells(Region& r, size_t size, int shift) {
    size_t needed = ((size >> shift) + 2) * sizeof(Cell);
    if (r.room >= needed) return;
    if (r.cells) munmap((void*)r.cells, r.room);
    void* cells = mmap(nullptr, needed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    r.cells = cells == MAP_FAILED ? nullptr : (Cell*)cells;
    r.room = r.cells ? needed : 0;
}

void place(Region& r, char* data, size_t size, int shift, int space, int argument) {
    r.data = data, r.size = size, r.shift = shift, r.space = space, r.argument = argument;
    give_cells(r, size, shift);
}

// Pointers to the caller's arrays that kernels keep, in variables or in memory of their own, from launch to launch: lead
// them to the copies of this launch, or back.
static void lead_pointers(bool back) {
    for (Region* r : {&arena.module, &arena.heap}) {
        char** end = (char**)(r == &arena.heap ? heap_end() : r->data + r->size);
        for (char** p = (char**)(((uintptr_t)r->data + 7) & -8); p + 1 <= end; p++)
            for (Region* s = arena.slots; s < arena.slots + arena.used; s++) {
                char *from = back ? s->data : s->home, *to = back ? s->home : s->data;
                if (size_t(*p - from) < s->size) {
                    *p = to + (*p - from);
                    s->kept = true;
                    break;
                }
            }
    }
}

void place_regions(Worker& w) {
    Launch& l = *w.launch;
    Loaded here = look_up((void*)l.entry, l.shared_anchor);
    place(arena.shared_static, here.anchor_block, here.shared, 2, SHARED, STATIC_SHARED);
    place(arena.shared_dynamic, w.dynamic_shared, l.shared, 2, SHARED);
    place(arena.module, here.data, here.data_end - here.data, 2, GLOBAL);
    lead_pointers(false);
}

void forget_cells() {
    auto forget = [](Region& r) {
        if (r.cells) memset((void*)r.cells, 0, r.room);
    };
    for (Region& r : arena.slots) forget(r);
    for (Region* r : {&arena.shared_static, &arena.shared_dynamic, &arena.module, &arena.heap}) forget(*r);
}

// ------------------------------------------------------------------------------------------------ called from Python

static char* slot(int index) {
    if (!arena.base) {
        void* p = mmap(nullptr, ARENA + ALIGNED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) return nullptr;
        arena.base = (char*)(((uintptr_t)p + ALIGNED - 1) & -ALIGNED);
    }
    return arena.base + index * SLOT + BEFORE;
}

// Make room for `size` bytes in slot `index` and return where they go; null: no memory. `written` as in Region, or
// null. `home`: the caller's array; a misaligned one stays so.
extern "C" char* llmc_place(int index, size_t size, char* home, int shift, int argument, uint8_t* written) {
    size_t lead = (uintptr_t)home % 16;
    char* data = index < MOST_ARRAYS && size <= MAX_ARRAY ? slot(index) : nullptr;
    if (!data || mprotect(data, size + lead + 1, PROT_READ | PROT_WRITE)) return nullptr;
    data += lead;
    Region& r = arena.slots[index];
    place(r, data, size, shift, GLOBAL, argument);
    r.written = written, r.home = home, r.kept = false;
    arena.used = index + 1;
    return r.cells ? data : nullptr;
}

// Which static __shared__ arrays the kernel of the next launch may touch; n = -1: not known.
extern "C" void llmc_shared_arrays(int n, const int64_t* from, const int64_t* to, const int64_t* mark) {
    arena.shared_arrays = n > MOST_SHARED_ARRAYS ? -1 : n;
    for (int i = 0; i < arena.shared_arrays; i++)
        arena.shared_from[i] = from[i], arena.shared_to[i] = to[i], arena.shared_mark[i] = mark[i];
}

// The first `slots` of the arena are free again. Returns a bit for each of them to which a kernel has kept a pointer.
extern "C" uint64_t llmc_forget(int slots) {
    lead_pointers(true);
    uint64_t kept = 0;
    arena.used = 0;
    for (int i = 0; i < slots; i++) {
        Region& r = arena.slots[i];
        if (r.size > (size_t(64) << 20)) madvise(r.data, r.size, MADV_DONTNEED);
        kept |= uint64_t(r.kept) << i;
        r.data = nullptr, r.written = nullptr, r.size = 0;
    }
    return kept;
}
