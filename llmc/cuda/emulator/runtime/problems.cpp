// The list of what went wrong. A kind at a pair of places is listed once, with the first thread that did it and a
// count; and what the kernel prints.
#include "state.h"
#include <cstdarg>

static std::mutex& writing = *new std::mutex;
constexpr size_t MOST_PROBLEMS = 64;
constexpr size_t MOST_PRINTED = 1 << 20;  // bytes; a GPU's buffer has 1 MB too

// An instruction's offset in the kernel's library; 0 for one that is elsewhere.
int64_t offset_of(const Launch& l, const char* pc) { return pc >= l.library && pc < l.library_end ? pc - l.library : 0; }

Problem blank(Worker& w, int kind, const char* pc) {
    Problem p = {};
    p.pc = offset_of(*w.launch, pc);
    p.kind = kind;
    p.argument = NO_ARGUMENT;
    p.block = w.block;
    p.thread = w.current ? w.current->id : NOBODY;
    p.block2 = p.thread2 = NOBODY;
    p.count = 1;
    return p;
}

static void note(Launch& l, const Problem& p, uint64_t access) {
    l.problems.push_back(p);
    l.met_by.push_back(access);
}

Problem* report(Worker& w, const Problem& p, uint64_t access) {
    if (w.tainted && REPORTED[p.kind] == FIRST) return nullptr;
    std::lock_guard<std::mutex> hold(writing);
    auto& all = w.launch->problems;
    for (size_t i = 0; i < all.size(); i++) {
        Problem& known = all[i];
        if (known.kind == p.kind && known.pc == p.pc && known.pc2 == p.pc2 && known.line == p.line &&
            known.line2 == p.line2 && known.argument == p.argument) {
            uint64_t& last = w.launch->met_by[i];
            if (!access || last != access) known.count++;
            last = access;
            return nullptr;
        }
    }
    if (all.size() >= MOST_PROBLEMS) return nullptr;
    note(*w.launch, p, access);
    if (w.launch->first && p.kind != BARRIER_DIVERGENCE && p.kind < EARLY_RETURN) w.launch->abort = AFTER_PROBLEM;
    return &all.back();
}

void add_problem(Worker& w, const Problem& p) {
    std::lock_guard<std::mutex> hold(writing);
    if (w.launch->problems.size() < MOST_PROBLEMS) note(*w.launch, p, 0);
}

extern "C" int llmc_printf(const char* format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int n = vsnprintf(nullptr, 0, format, arguments);
    std::vector<char> text(n < 0 ? 1 : n + 1);
    vsnprintf(text.data(), text.size(), format, again);
    va_end(again);
    va_end(arguments);
    std::lock_guard<std::mutex> hold(writing);
    Launch& l = *llmc_worker->launch;
    size_t length = text.size() - 1;
    if (l.printed.size() + length <= MOST_PRINTED) l.printed.insert(l.printed.end(), text.begin(), text.end() - 1);
    else l.unprinted += length;
    return n;
}
