// Who has seen what, for Hopper's instructions. An mbarrier orders only what came before its arrivals with what comes
// after its waits; what copies and tensor cores do is seen by those who wait for it. So each thread has a clock: how far
// it has seen each agent's doings.
#include "hopper.h"

static void merge(Clock& to, const Clock& from) {
    uint32_t *a = (uint32_t*)&to, *b = (uint32_t*)&from;
    for (int i = 0; i < CLOCK_WORDS; i++) a[i] = std::max(a[i], b[i]);
}

Hopper& hopper(Worker& w) {
    if (w.hopper_on) return *w.hopper;
    if (!w.hopper) w.hopper = new Hopper;
    Hopper& h = *w.hopper;
    w.hopper_on = true;
    h.clocks.assign(w.launch->checked ? w.num_threads : 0, Clock{});
    memset(h.store_group, 0, sizeof h.store_group);
    memset(h.fenced, 0, sizeof h.fenced);
    return h;
}

void end_hopper(Worker& w) {
    Hopper& h = *w.hopper;
    bool ended = !w.launch->abort.load();
    if (ended) report_stores(w), report_products(w);
    if (w.launch->checked) forget_loads(w);
    h.barriers.clear(), h.loads.clear(), h.stores.clear(), h.delivered.clear();
    for (Warpgroup& group : h.groups) group = Warpgroup();
    w.hopper_on = false;
}

constexpr uint32_t UNDER_WAY = ~0u;  // in place of an epoch

uint32_t begin_asynchronous(Worker& w, int agent) {
    Launch& l = *w.launch;
    if (l.first_segment + l.segments.size() >= MOST_SEGMENTS) return 0;
    uint32_t segment = l.first_segment + l.segments.size();
    l.segments.push_back({w.block, UNDER_WAY, 0, uint32_t(agent)});
    // what warps do from now on is later
    for (int i = 0; i < w.num_warps; i++) new_segment(w, w.warps[i]);
    return segment;
}

void end_asynchronous(Worker& w, uint32_t segment) {
    if (segment) w.launch->segments[segment - w.launch->first_segment].epoch = w.epoch;
}

static const Segment& segment_at(const Worker& w, Access a) { return w.launch->segments[a.segment - w.launch->first_segment]; }

bool is_asynchronous(const Worker& w, Access a) {
    return w.hopper_on && a.segment >= w.first_segment && segment_at(w, a).agent;
}

// Of an access in this block that no barrier of the block orders.
bool seen_by_clock(const Worker& w, const Thread& t, Access a) {
    if (!w.hopper_on || w.hopper->clocks.empty()) return false;
    const Segment& s = segment_at(w, a);
    const Clock& clock = w.hopper->clocks[t.id];
    if (!s.agent) return a.segment < clock.seen[a.thread / WARP];
    if (s.epoch == UNDER_WAY) return false;
    return a.segment < clock.seen[s.agent] || s.epoch != w.epoch || a.segment < t.acquired;
}

bool is_fenced(const Worker& w, const Thread& t, Access a) {
    if (a.segment < w.first_segment || segment_at(w, a).agent) return true;
    const Clock& clock = w.hopper->clocks[t.id];
    return a.segment < clock.floor || a.segment < clock.fenced[a.thread / WARP];
}

void publish(Worker& w, Thread& t, Clock& to) {
    Hopper& h = hopper(w);
    if (h.clocks.empty()) return;
    Warp& warp = w.warps[t.warp];
    if (warp.dirty) new_segment(w, warp);
    Clock& own = h.clocks[t.id];
    own.seen[t.warp] = std::max(own.seen[t.warp], warp.segment);
    own.acquired = std::max(own.acquired, t.acquired);
    merge(to, own);
}

void observe(Worker& w, Thread& t, const Clock& from) {
    Hopper& h = hopper(w);
    if (h.clocks.empty()) return;
    merge(h.clocks[t.id], from);
    t.acquired = std::max(t.acquired, from.acquired);
}

void meet(Worker& w, const int* threads, int n) {
    Hopper& h = hopper(w);
    if (h.clocks.empty()) return;
    Clock all = {};
    for (int i = 0; i < n; i++) publish(w, w.threads[threads[i]], all);
    for (int i = 0; i < n; i++) observe(w, w.threads[threads[i]], all);
}

// fence.proxy.async: what this thread has written or seen written is visible to copies and tensor cores.
extern "C" void llmc_fence_proxy() {
    Worker& w = *llmc_worker;
    if (!w.launch->checked) return;
    Hopper& h = hopper(w);
    flush_pending(w);
    Thread& t = *w.current;
    Clock& clock = h.clocks[t.id];
    publish(w, t, clock);
    for (int i = 0; i < WARPS; i++) clock.fenced[i] = std::max(clock.fenced[i], clock.seen[i]);
    clock.floor = std::max({clock.floor, w.epoch_start, t.acquired});
}
