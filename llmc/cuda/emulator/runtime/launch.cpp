// What Python calls: begin a launch, stop it, read what it found, release it.
//
// Unchecked, blocks run in parallel, one worker per core, on the caller's own arrays. Checked, one worker runs them one
// after the other, so that reports repeat, on copies of the arrays in the arena.
#include "arena.h"
#include "loaded.h"
#include "measure.h"
#include "workers.h"

static uint32_t next_segment = 1;

static void find_library(Launch& l) {
    static void* last_entry = nullptr;
    static Loaded loaded;
    if (last_entry != (void*)l.entry) loaded = look_up((void*)l.entry, l.shared_anchor), last_entry = (void*)l.entry;
    l.library = loaded.base;
    l.library_end = loaded.end;
}

extern "C" Launch* llmc_begin(const Options* o) {
    Launch* l = new Launch;
    l->entry = (void (*)(void**))o->entry;
    l->arguments = (void**)o->arguments;
    l->shared_anchor = (void* (*)())o->anchor;
    l->grid = {o->grid[0], o->grid[1], o->grid[2]};
    l->block = {o->block[0], o->block[1], o->block[2]};
    l->blocks = uint64_t(o->grid[0]) * o->grid[1] * o->grid[2];
    l->shared = o->shared;
    l->checked = o->checked;
    l->measured = o->measured;
    l->first = o->first;
    find_library(*l);
    if (l->checked) {
        if (next_segment > MOST_SEGMENTS / 2) forget_cells(), next_segment = 1;  // the counter is nearly used up
        l->first_segment = next_segment;
        if (l->measured) measure_begin();
    }
    install_handlers();
    put_to_work(*l, l->checked ? 1 : int(std::min<uint64_t>(o->workers, l->blocks)));
    return l;
}

extern "C" void llmc_abort(Launch* l, int why) { l->abort = why; }
extern "C" void llmc_restore() { restore_handlers(); }  // once a launch has ended

extern "C" void llmc_outcome(Launch* l, Outcome* out) {
    *out = {l->barriers, l->shuffles, l->blocks_run, l->lost_threads, l->unprinted,
            {l->problems.data(), l->problems.size()}, {nullptr, 0}, {nullptr, 0}, {l->printed.data(), l->printed.size()},
            {l->excused.data(), l->excused.size()}};
    if (!l->measured) return;
    out->counts = {measured.counts.data(), measured.counts.size()};
    out->trace = {measured.trace.data(), measured.trace.size()};
}

extern "C" void llmc_release(Launch* l) {
    if (l->checked) next_segment = l->first_segment + l->segments.size() + 1;
    delete l;
}

// The whole of an unchecked launch that ends quickly, in one call from Python: 0 when it has ended without a problem;
// else the launch goes on, or has something to tell, and `*out` is to be waited for and read.
extern "C" int llmc_run(const Options* o, Launch** out) {
    Launch* l = *out = llmc_begin(o);
    if (!llmc_wait(20, 0)) return 1;
    if (l->problems.size() || l->printed.size()) return 2;
    llmc_restore();
    llmc_release(l);
    return 0;
}
