// The list of what went wrong: each kind at each pair of places once, with the first thread that did it and how many did.
#include "state.h"
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

static std::mutex& writing = *new std::mutex;
constexpr size_t MOST = 64;

Problem blank(Worker& w, int kind) {
    Problem p;
    memset(&p, 0, sizeof p);
    p.kind = kind;
    p.argument = -1;
    p.block = w.block;
    p.thread = w.current ? w.current->id : ~0u;
    p.block2 = p.thread2 = ~0u;
    p.count = 1;
    return p;
}

// What a thread that was ended early leaves undone is no news: from then on only further bad addresses are.
static bool is_news(const Worker& w, int kind) {
    return !w.tainted || kind <= INVALID_POINTER || kind == BOUNDS || kind == DIVISION_BY_ZERO || kind == ASSERT;
}

Problem& report(Worker& w, Problem p) {
    static Problem dropped;
    if (!is_news(w, p.kind)) return dropped = p;
    std::lock_guard<std::mutex> hold(writing);
    auto& all = w.launch->problems;
    for (auto& known : all)
        if (known.kind == p.kind && known.pc == p.pc && known.pc2 == p.pc2 && known.line == p.line &&
            known.line2 == p.line2 && known.argument == p.argument) {
            known.count++;
            return known;
        }
    if (all.size() >= MOST) return dropped = p;
    all.push_back(p);
    return all.back();
}

extern "C" int llmc_printf(const char* format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    std::lock_guard<std::mutex> hold(writing);
    auto& out = llmc_worker->launch->printed;
    size_t length = strlen(text);
    if (out.size() < (1 << 20)) out.insert(out.end(), text, text + length);  // a GPU's buffer is 1 MB too
    return n;
}
