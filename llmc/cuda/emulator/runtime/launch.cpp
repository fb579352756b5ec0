// What Python calls: start a launch on the pool of workers, wait for it, read what it found.
//
// Unchecked, blocks run in parallel, one worker a core, on the caller's own arrays. Checked, one worker runs them one
// after the other, so that reports repeat, on copies of the arrays in the arena.
#include "state.h"
#include "arena.h"
#include "measure.h"
#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <pthread.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#ifdef __linux__
#include <link.h>
#endif

void alternative_stack();
Arena arena;

// ------------------------------------------------------------------------------------------------ workers

// Never destroyed: at the end of the process idle workers still wait on them.
static std::mutex& pool_lock = *new std::mutex;
static std::condition_variable& pool_begin = *new std::condition_variable;
static std::condition_variable& pool_done = *new std::condition_variable;
static std::vector<Worker*>& workers = *new std::vector<Worker*>;
static Launch* current_launch = nullptr;
static uint64_t generation = 0;
static int wanted = 0, running = 0;

static void prepare(Worker& w, Launch& l);

static void serve(Worker* w, int index) {
    llmc_worker = w;
    w->thread_handle = (void*)pthread_self();
    alternative_stack();
    uint64_t seen = 0;
    for (;;) {
        Launch* l;
        {
            std::unique_lock<std::mutex> hold(pool_lock);
            pool_begin.wait(hold, [&] { return generation != seen && index < wanted; });
            seen = generation;
            l = current_launch;
        }
        prepare(*w, *l);
        for (uint64_t b; !l->abort.load() && (b = l->next_block++) < l->blocks;) run_block(*w, b);
        w->current = nullptr;
        w->launch = nullptr;
        std::lock_guard<std::mutex> hold(pool_lock);
        if (--running == 0) pool_done.notify_all();
    }
}

static void start_workers(int n) {
    while (int(workers.size()) < n) {
        Worker* w = new Worker;
        size_t guard = sysconf(_SC_PAGESIZE), size = (MAX_SHARED + guard - 1) / guard * guard;
        w->dynamic_shared = (char*)mmap(nullptr, size + guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(w->dynamic_shared + size, guard, PROT_NONE);
        std::thread(serve, w, int(workers.size())).detach();
        workers.push_back(w);
    }
}

extern "C" void llmc_after_fork() {  // the child has no threads: start anew (the old ones are lost with the parent)
    new (&pool_lock) std::mutex;
    new (&pool_begin) std::condition_variable;
    new (&pool_done) std::condition_variable;
    workers.clear();
    running = 0;
}

// ------------------------------------------------------------------------------------------------ a library's memory

struct Loaded {  // where a kernel's library lies
    char *base = nullptr, *end = nullptr, *data = nullptr, *data_end = nullptr;
    size_t shared = 0;    // bytes of its thread-local segment: all static __shared__ arrays
    char* anchor_block = nullptr;
};

#ifdef __linux__
static int look(struct dl_phdr_info* info, size_t, void* out) {
    Loaded& found = *(Loaded*)out;
    if ((char*)info->dlpi_addr != found.base) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto& s = info->dlpi_phdr[i];
        char *from = (char*)info->dlpi_addr + s.p_vaddr, *to = from + s.p_memsz;
        if (s.p_type == PT_LOAD) {
            found.end = std::max(found.end, to);
            if (s.p_flags & PF_W) found.data = from, found.data_end = to;
        }
        if (s.p_type == PT_TLS) {
            found.shared = s.p_memsz;
            found.anchor_block = (char*)info->dlpi_tls_data;
        }
    }
    return 1;
}
static Loaded look_up(void* symbol, void* (*anchor)()) {
    anchor();  // gives this thread its copy of the thread-local segment
    Dl_info info;
    dladdr(symbol, &info);
    Loaded found;
    found.base = (char*)info.dli_fbase;
    dl_iterate_phdr(look, &found);
    return found;
}
#else  // macOS: sections of the image instead of segments (by construction, not run by us)
#include <mach-o/getsect.h>
#include <mach-o/loader.h>
static Loaded look_up(void* symbol, void* (*anchor)()) {
    Dl_info info;
    dladdr(symbol, &info);
    Loaded found;
    found.base = (char*)info.dli_fbase;
    auto* header = (const struct mach_header_64*)info.dli_fbase;
    unsigned long n = 0, zero = 0, data = 0;
    getsegmentdata(header, "__TEXT", &n);
    found.data = (char*)getsegmentdata(header, "__DATA", &data);
    found.data_end = found.data + data;
    found.end = std::max(found.base + n, found.data_end);
    getsectiondata(header, "__DATA", "__thread_bss", &zero);
    getsectiondata(header, "__DATA", "__thread_data", &n);
    found.shared = n + zero;
    found.anchor_block = (char*)anchor() - found.shared / 2;  // somewhere in its middle: the order is the linker's
    return found;
}
#endif

static void* map(size_t bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : p;
}

// Shadow cells for a region; what stands in them from earlier launches is older than any segment of this one.
static void give_cells(Region& r, size_t size, int shift) {
    size_t needed = ((size >> shift) + 2) * sizeof(Cell);
    if (r.room >= needed) return;
    if (r.cells) munmap((void*)r.cells, r.room);
    r.cells = (Cell*)map(needed);
    r.room = r.cells ? needed : 0;
}

static void place(Region& r, char* data, size_t size, int shift, int space) {
    r.data = data, r.size = size, r.shift = shift, r.space = space;
    r.argument = -1;
    give_cells(r, size, shift);
}

static void prepare(Worker& w, Launch& l) {
    w.launch = &l;
    w.tainted = false;
    w.pending.on = false;
    llmc_block_dim = l.block;
    llmc_grid_dim = l.grid;
    if (!l.checked) return;
    Loaded here = look_up((void*)l.entry, l.shared_anchor);
    place(arena.shared_static, here.anchor_block, here.shared, 2, SHARED);
    arena.shared_static.argument = -2;  // SHARED_STATIC in ../reading.py
    place(arena.shared_dynamic, w.dynamic_shared, l.shared, 2, SHARED);
    place(arena.module, here.data, here.data_end - here.data, 2, GLOBAL);
}

// ------------------------------------------------------------------------------------------------ the arena

extern "C" char* llmc_slot(int index) {
    if (!arena.base) {
        void* p = mmap(nullptr, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) return nullptr;
        arena.base = (char*)p;
    }
    return arena.base + index * SLOT + BEFORE;
}

// Make room for `size` bytes in slot `index` and return where they go; null: no memory. `written` as in Region, or null.
// `lead`: bytes from a multiple of 16 to the caller's array, so that a misaligned one stays so.
extern "C" char* llmc_place(int index, size_t size, int lead, int shift, int argument, uint8_t* written) {
    char* data = llmc_slot(index);
    if (!data || index >= int(SLOTS) || size > MAX_ARRAY) return nullptr;
    if (mprotect(data, size + lead + 1, PROT_READ | PROT_WRITE)) return nullptr;
    data += lead;
    Region& r = arena.slots[index];
    place(r, data, size, shift, GLOBAL);
    r.argument = argument;
    r.written = written;
    return r.cells ? data : nullptr;
}

extern "C" void llmc_shared_arrays(int n, const int64_t* from, const int64_t* to, const int64_t* mark) {
    arena.shared_arrays = n > MOST_SHARED_ARRAYS ? -1 : n;
    for (int i = 0; i < arena.shared_arrays; i++) {
        arena.shared_from[i] = from[i], arena.shared_to[i] = to[i], arena.shared_mark[i] = mark[i];
    }
}

extern "C" void llmc_forget(int slots) {
    for (int i = 0; i < slots; i++) {
        Region& r = arena.slots[i];
        if (r.size > (size_t(64) << 20)) madvise(r.data, r.size, MADV_DONTNEED);
        r.data = nullptr, r.written = nullptr, r.size = 0;
    }
}

// ------------------------------------------------------------------------------------------------ a launch

static uint32_t next_segment = 1;

static void forget_segments() {  // the counter is nearly used up: all shadows begin again
    auto forget = [](Region& r) {
        if (r.cells) memset((void*)r.cells, 0, r.room);
    };
    for (Region& r : arena.slots) forget(r);
    for (Region* r : {&arena.shared_static, &arena.shared_dynamic, &arena.module}) forget(*r);
    next_segment = 1;
}

struct Options {  // as ../native.py fills it
    void (*entry)(void**);
    void** arguments;
    void* (*anchor)();
    uint32_t grid[3], block[3];
    uint64_t shared;
    int32_t checked, measured, workers, unused;
};

extern "C" Launch* llmc_begin(const Options* o) {
    Launch* l = new Launch;
    l->entry = o->entry;
    l->arguments = o->arguments;
    l->shared_anchor = o->anchor;
    l->grid = {o->grid[0], o->grid[1], o->grid[2]};
    l->block = {o->block[0], o->block[1], o->block[2]};
    l->blocks = uint64_t(o->grid[0]) * o->grid[1] * o->grid[2];
    l->shared = o->shared;
    l->checked = o->checked;
    l->measured = o->measured;
    static void* last_entry = nullptr;
    static Loaded loaded;
    if (last_entry != (void*)o->entry) loaded = look_up((void*)o->entry, o->anchor), last_entry = (void*)o->entry;
    l->library = loaded.base;
    l->library_end = loaded.end;
    if (l->checked) {
        if (next_segment > (1u << 26)) forget_segments();
        l->first_segment = next_segment;
        if (l->measured) measure_begin(*l);
    }
    int n = l->checked ? 1 : int(std::min<uint64_t>(o->workers, l->blocks));
    install_handlers();
    std::lock_guard<std::mutex> hold(pool_lock);
    start_workers(n);
    current_launch = l;
    wanted = running = n;
    generation++;
    pool_begin.notify_all();
    return l;
}

// Wait up to `milliseconds` (0: not at all); true when the launch has ended. A kernel that takes long is interrupted now
// and then, so that threads which spin let those run that they wait for.
extern "C" int llmc_wait(Launch* l, int milliseconds, int nudge) {
    std::unique_lock<std::mutex> hold(pool_lock);
    if (pool_done.wait_for(hold, std::chrono::milliseconds(milliseconds), [] { return running == 0; })) return 1;
    if (nudge)
        for (int i = 0; i < wanted; i++) interrupt(*workers[i]);
    return 0;
}

extern "C" void llmc_abort(Launch* l, int why) { l->abort = why; }  // 2: took too long, 3: the user asked for it

extern "C" void llmc_restore() { restore_handlers(); }  // once a launch has ended
extern "C" int llmc_found(Launch* l) { return l->problems.size(); }
extern "C" void llmc_release(Launch* l) {
    if (l->checked) next_segment = l->first_segment + l->segments.size() + 1;
    delete l;
}
extern "C" const Problem* llmc_problems(Launch* l) { return l->problems.data(); }
extern "C" int llmc_printed(Launch* l, const char** text) { return *text = l->printed.data(), int(l->printed.size()); }
extern "C" void llmc_numbers(Launch* l, uint64_t* out) {
    out[0] = l->barriers, out[1] = l->blocks_run, out[2] = l->lost_threads;
    out[3] = measured.counts.size(), out[4] = measured.trace.size();
}
extern "C" const void* llmc_counts() { return measured.counts.data(); }
extern "C" const void* llmc_trace() { return measured.trace.data(); }

// The whole of an unchecked launch that ends quickly, in one call from Python: 0 when it has ended without a problem;
// else the launch goes on, or has problems, and `*out` is to be waited for and read.
extern "C" int llmc_run(const Options* o, Launch** out) {
    Launch* l = llmc_begin(o);
    *out = l;
    if (!llmc_wait(l, 20, 0)) return 1;
    if (l->problems.size() || l->printed.size()) return 2;
    llmc_restore();
    llmc_release(l);
    return 0;
}
