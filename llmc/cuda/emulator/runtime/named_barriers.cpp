// Barriers with a number and a count, `bar.sync 1, 64;`: that many of the block's threads meet, while the others go on.
#include "hopper.h"

static NamedBarrier& named(Worker& w, int name) {
    for (NamedBarrier& barrier : w.named)
        if (barrier.name == name) return barrier;
    w.named.push_back({name, 0, 0, 0, nullptr, {}});
    return w.named.back();
}

// What those that have arrived did before is visible to all of them now.
static void order(Worker& w, const std::vector<int>& threads) {
    uint32_t now = 0;
    for (int i = 0; i < w.num_warps; i++) {
        new_segment(w, w.warps[i]);
        if (!i) now = w.warps[i].segment;
    }
    for (int id : threads) w.threads[id].acquired = now;
    if (w.hopper_on) meet(w, threads.data(), threads.size());
}

extern "C" void llmc_named_barrier(int line, int name, int threads, bool wait) {
    Worker& w = *llmc_worker;
    flush_pending(w);
    w.current->touched = true;
    if (threads <= 0 || threads % WARP) llmc_stop(LLMC_ASSERT, line, "a barrier counts the threads of whole warps");
    NamedBarrier& barrier = named(w, name);
    barrier.threads = threads, barrier.line = line, barrier.pc = (char*)__builtin_return_address(0);
    barrier.arrived.push_back(w.current->id);
    if (int(barrier.arrived.size()) < threads) {
        for (unsigned round = barrier.round; wait && named(w, name).round == round;) llmc_yield();
        return;
    }
    w.idle = 0;
    if (w.launch->checked) order(w, barrier.arrived);
    barrier.arrived.clear();
    barrier.round++;
}
