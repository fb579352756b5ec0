// wgmma: products of four warps, asked for now and done when they are waited for. Until then their sums are poison, and
// what they read from shared memory must stay: a real tensor core may read it at any moment up to then.
#include "hopper.h"

enum { FENCE, MULTIPLY, COMMIT, WAIT };  // what a warpgroup does together

// The last of the warpgroup's threads to come to this runs `action`; the others wait for it.
template <class Action>
static void together(Worker& w, int kind, int line, const char* pc, char* frame, const LlmcProduct* mine, Action action) {
    flush_pending(w);
    Thread& t = *w.current;
    t.touched = true;
    int index = t.id / GROUP, first = index * GROUP;
    Warpgroup& group = hopper(w).groups[index];
    if (first + GROUP > w.num_threads) refuse_group(w, of_group(w, PART_OF_A_WARPGROUP, group, pc, line, "not full"));
    if (group.arrived && (group.kind != kind || group.line != line)) {
        Problem p = of_group(w, PART_OF_A_WARPGROUP, group, pc, line, "another instruction");
        p.line2 = group.line, p.pc2 = offset_of(*w.launch, group.pc);
        refuse_group(w, p);
    }
    group.kind = kind, group.line = line, group.pc = pc;
    group.slots[t.id - first] = mine, group.frames[t.id - first] = frame;
    if (++group.arrived == GROUP) {
        w.idle = 0;
        action(group, first);
        group.arrived = 0;
        for (int i = 0; i < GROUP; i++) group.slots[i] = nullptr;
        for (int i = 0; i < 4; i++) w.warps[first / WARP + i].ready = ~0u;
    } else {
        group.came[t.id - first] = true;
        suspend(w);
        return;
    }
    for (bool& came : group.came) came = false;
    suspend(w);
}

// ------------------------------------------------------------------------------------------------ order of registers

// A thread's own code uses something on its stack: perhaps a register that holds a sum.
void use_registers(Worker& w, char* address, int size, const char* pc) {
    int id = w.current->id;
    for (auto& sum : w.hopper->groups[id / GROUP].sums) {
        if (!holds(*sum, id % GROUP, address, size)) continue;
        sum->touched[id % GROUP] = pc;
        if (!sum->under_way) continue;
        Problem p = blank(w, UNFINISHED_PRODUCT, pc);
        p.pc2 = offset_of(*w.launch, sum->pc);
        strcpy(p.detail, sum->committed ? "wait" : "group");
        report(w, p);
    }
}

static void check_fences(Worker& w, const Warpgroup& group, Accumulator& sum, int first, const char* pc, int line) {
    for (int t = 0; t < GROUP; t++) {
        bool& fenced = w.hopper->fenced[first + t];
        if (fenced && !sum.touched[t]) continue;
        Problem p = of_group(w, MISSING_FENCE, group, pc, line, fenced ? "registers" : "first");
        p.thread = first + t, p.pc2 = fenced ? offset_of(*w.launch, sum.touched[t]) : 0;
        report(w, p);
        fenced = true, sum.touched[t] = nullptr;
    }
}

extern "C" void llmc_wgmma_fence() {
    Worker& w = *llmc_worker;
    int id = w.current->id;
    Hopper& h = hopper(w);
    h.fenced[id] = true;
    for (auto& sum : h.groups[id / GROUP].sums) sum->touched[id % GROUP] = nullptr;
}

// ------------------------------------------------------------------------------------------------ called by kernels

// Where the calling kernel's own frame ends: behind the return address and the frame pointer that was saved.
#define FRAME ((char*)__builtin_frame_address(0) + 2 * sizeof(void*))

extern "C" void llmc_wgmma(const LlmcProduct* mine, int line) {
    Worker& w = *llmc_worker;
    const char* pc = (const char*)__builtin_return_address(0);
    together(w, MULTIPLY, line, pc, FRAME, mine, [&](Warpgroup& group, int first) {
        const LlmcProduct& asked = *group.slots[0];
        Product p = {asked, {}, nullptr, pc, 0};
        int size = size_of(asked.type);
        p.sum = sum_of(group);
        if (w.launch->checked) {
            check_fences(w, group, *p.sum, first, pc, line);
            p.segment = begin_asynchronous(w, PRODUCTS + first / GROUP);
            if (!asked.a) check_matrix(w, matrix_of(w, asked.from_a, !asked.along_m, size), 64, 32 / size, pc, p.segment);
            check_matrix(w, matrix_of(w, asked.from_b, !asked.along_n, size), asked.n, 32 / size, pc, p.segment);
        }
        if (asked.a)
            for (int t = 0; t < GROUP; t++) p.a.insert(p.a.end(), group.slots[t]->a, group.slots[t]->a + 4);
        if (!p.sum->under_way++) take_from_registers(*p.sum);
        p.sum->pc = pc, p.sum->committed = false;
        group.products.push_back(p);
        group.asked++;
    });
}

extern "C" void llmc_wgmma_commit(int line) {
    Worker& w = *llmc_worker;
    together(w, COMMIT, line, (const char*)__builtin_return_address(0), FRAME, nullptr, [&](Warpgroup& group, int) {
        group.ends.push_back(group.asked);
        for (Product& p : group.products) p.sum->committed = true;
    });
}

extern "C" void llmc_wgmma_wait(unsigned pending, int line) {
    Worker& w = *llmc_worker;
    together(w, WAIT, line, (const char*)__builtin_return_address(0), FRAME, nullptr, [&](Warpgroup& group, int first) {
        uint32_t seen = 0;
        while (group.ends.size() > pending) {
            for (; group.finished < group.ends[0]; group.finished++) {
                Product p = group.products[0];
                group.products.erase(group.products.begin());
                multiply_now(w, p);
                if (!--p.sum->under_way) put_into_registers(w, group, *p.sum, first);
                if (w.launch->checked) end_asynchronous(w, p.segment);
                seen = p.segment + 1;
            }
            group.ends.erase(group.ends.begin());
        }
        if (!w.launch->checked || !seen) return;
        for (int t = first; t < first + GROUP; t++) {
            uint32_t& known = w.hopper->clocks[t].seen[PRODUCTS + first / GROUP];
            known = std::max(known, seen);
        }
    });
}

// ------------------------------------------------------------------------------------------------ what is left

bool describe_stuck_group(Worker& w, Problem& p) {
    for (int i = 0; i < GROUPS; i++) {
        Warpgroup& group = w.hopper->groups[i];
        if (!group.arrived) continue;
        char said[64];
        int absent = 0, warps = 0;
        bool elsewhere = false;  // one that does not come waits for something itself: that is what is to be said
        for (int k = 0; k < 4; k++) {
            bool whole = true;
            for (int t = 0; t < WARP; t++)
                if (!group.came[k * WARP + t]) {
                    whole = false, absent = k * WARP + t;
                    for (const MBarrier& barrier : w.hopper->barriers)
                        elsewhere |= std::count(barrier.waiters.begin(), barrier.waiters.end(), i * GROUP + absent);
                }
            warps += whole;
        }
        if (elsewhere) continue;
        snprintf(said, sizeof said, "%d of 4 warps", warps);
        p = of_group(w, PART_OF_A_WARPGROUP, group, group.pc, group.line, said);
        p.thread = i * GROUP + (std::find(group.came, group.came + GROUP, true) - group.came);
        p.thread2 = i * GROUP + absent, p.block2 = w.block;
        return true;
    }
    return false;
}

void report_products(Worker& w) {
    for (Warpgroup& group : w.hopper->groups)
        if (group.products.size()) {
            Problem p = blank(w, NEVER_WAITED_FOR, group.products[0].pc);
            p.thread = (&group - w.hopper->groups) * GROUP;
            strcpy(p.detail, group.ends.empty() ? "wgmma without a group" : "wgmma");
            report(w, p);
        }
}
