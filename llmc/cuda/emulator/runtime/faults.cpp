// When a thread must be stopped from outside: a bad address that the processor refuses, a division by zero, a kernel that
// never ends. The handler leaves the fiber for good by switching to the worker's own stack.
#ifdef __APPLE__
#define _XOPEN_SOURCE 700  // for ucontext.h
#define _DARWIN_C_SOURCE
#endif
#include "state.h"
#include "fiber.h"
#include <csignal>
#include <cstdio>
#include <cstring>
#include <pthread.h>
#include <ucontext.h>

[[noreturn]] void end_thread(Worker& w);

static char* program_counter(void* context) {
    ucontext_t* c = (ucontext_t*)context;
#if defined(__APPLE__) && defined(__aarch64__)
    return (char*)c->uc_mcontext->__ss.__pc;
#elif defined(__APPLE__)
    return (char*)c->uc_mcontext->__ss.__rip;
#elif defined(__x86_64__)
    return (char*)c->uc_mcontext.gregs[REG_RIP];
#else
    return (char*)c->uc_mcontext.pc;
#endif
}

static bool in_kernel(const Launch& l, const char* pc) { return pc >= l.library && pc < l.library_end; }

static struct sigaction before_segv, before_bus, before_fpe;

static void pass_on(int signal, siginfo_t* info, void* context) {
    struct sigaction& old = signal == SIGSEGV ? before_segv : signal == SIGBUS ? before_bus : before_fpe;
    if (old.sa_flags & SA_SIGINFO) old.sa_sigaction(signal, info, context);
    else if (old.sa_handler != SIG_IGN && old.sa_handler != SIG_DFL) old.sa_handler(signal);
    else sigaction(signal, &old, nullptr);  // the instruction runs again and has its usual end
}

static void on_fault(int signal, siginfo_t* info, void* context) {
    Worker* w = llmc_worker;
    if (!w || !w->current || !w->launch) return pass_on(signal, info, context);
    char *address = (char*)info->si_addr, *pc = program_counter(context), *stack = w->current->stack;
    bool overflow = signal != SIGFPE && address < stack + 256 && address >= stack - (64 << 10);
    Problem p = blank(*w, signal == SIGFPE ? DIVISION_BY_ZERO : overflow ? STACK_OVERFLOW : CRASH);
    if (in_kernel(*w->launch, pc)) p.pc = pc - w->launch->library + 1;  // +1: others are return addresses
    p.offset = (int64_t)address;
    report(*w, p);
    w->launch->abort = 1;
    leave(*w);
}

// Sent by the launching thread every few milliseconds once a kernel has run for some: to stop it, or to let another
// thread of the block run, in case this one spins until that one has done something.
static void on_timer(int, siginfo_t*, void* context) {
    Worker* w = llmc_worker;
    if (!w || !w->current || !w->launch) return;
    char* pc = program_counter(context);
    if (!in_kernel(*w->launch, pc)) return;  // in the middle of the runtime or the C library: the next signal
    if (w->launch->abort == 0) return llmc_yield();
    give_up(*w, pc + 1);
}

void give_up(Worker& w, const char* pc) {
    if (w.launch->abort == 2) {  // took too long
        Problem p = blank(w, RUNAWAY);
        if (in_kernel(*w.launch, pc)) p.pc = pc - w.launch->library;
        report(w, p);
        w.launch->abort = 1;  // said once
    }
    leave(w);
}

static thread_local bool has_alternative_stack = false;

void alternative_stack() {
    if (has_alternative_stack) return;
    has_alternative_stack = true;
    stack_t s = {};
    s.ss_size = 64 << 10;
    s.ss_sp = new char[s.ss_size];
    sigaltstack(&s, nullptr);
}

void install_handlers() {
    struct sigaction a = {};
    a.sa_sigaction = on_fault;
    a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &a, &before_segv);
    sigaction(SIGBUS, &a, &before_bus);
    sigaction(SIGFPE, &a, &before_fpe);
    a.sa_sigaction = on_timer;
    a.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;  // on the fiber's own stack: it may go on later
    sigaction(SIGVTALRM, &a, nullptr);
}

void restore_handlers() {
    sigaction(SIGSEGV, &before_segv, nullptr);
    sigaction(SIGBUS, &before_bus, nullptr);
    sigaction(SIGFPE, &before_fpe, nullptr);
    // SIGVTALRM stays ours: one may still be on its way, and its default is to end the process
}

void interrupt(Worker& w) { pthread_kill((pthread_t)w.thread_handle, SIGVTALRM); }

// ------------------------------------------------------------------------------------------------ stopped by itself

extern "C" void llmc_stop(int why, int line, const char* detail) {
    Worker& w = *llmc_worker;
    Problem p = blank(w, why == LLMC_ASSERT ? ASSERT : CRASH);
    p.line = line;
    snprintf(p.detail, sizeof p.detail, "%s", detail);
    report(w, p);
    w.launch->abort = 1;
    leave(w);
}

extern "C" void llmc_inactive_lane(int line, int lane) {
    Worker& w = *llmc_worker;
    Problem p = blank(w, INACTIVE_LANE);
    p.line = line;
    p.offset = lane;
    strcpy(p.detail, "read from an absent lane");
    report(w, p);
}

// ---------------------------------------------------------------------------- the undefined-behaviour sanitizer's calls

struct Location {
    const char* file;
    uint32_t line, column;
};
struct TypeName {
    uint16_t kind, info;
    char name[1];
};
struct BoundsCheck {
    Location at;
    const TypeName *array, *index;
};
struct Arithmetic {
    Location at;
    const TypeName* type;
};

static int64_t value_of(const TypeName& type, uintptr_t value) {
    int bits = 1 << (type.info >> 1);
    if (bits > 64) return *(int64_t*)value;
    int unused = 64 - bits;
    return type.info & 1 ? int64_t(uint64_t(value) << unused) >> unused : int64_t(value);
}

extern "C" void __ubsan_handle_out_of_bounds(BoundsCheck* d, uintptr_t index) {
    Worker* w = llmc_worker;
    if (!w || !w->current) return;
    Problem p = blank(*w, BOUNDS);
    p.line = d->at.line;
    p.offset = value_of(*d->index, index);
    snprintf(p.detail, sizeof p.detail, "%s", d->array->name);
    report(*w, p);
    end_thread(*w);
}

extern "C" void __ubsan_handle_divrem_overflow(Arithmetic* d, uintptr_t, uintptr_t) {
    Worker* w = llmc_worker;
    if (!w || !w->current) return;
    Problem p = blank(*w, DIVISION_BY_ZERO);
    p.line = d->at.line;
    report(*w, p);
    end_thread(*w);
}

static void overflow(Arithmetic* d, const char* operation) {
    Worker* w = llmc_worker;
    if (!w || !w->current) return;
    Problem p = blank(*w, INTEGER_OVERFLOW);
    p.line = d->at.line;
    snprintf(p.detail, sizeof p.detail, "%s of %s", operation, d->type->name);
    report(*w, p);
}
extern "C" void __ubsan_handle_add_overflow(Arithmetic* d, uintptr_t, uintptr_t) { overflow(d, "sum"); }
extern "C" void __ubsan_handle_sub_overflow(Arithmetic* d, uintptr_t, uintptr_t) { overflow(d, "difference"); }
extern "C" void __ubsan_handle_mul_overflow(Arithmetic* d, uintptr_t, uintptr_t) { overflow(d, "product"); }
extern "C" void __ubsan_handle_negate_overflow(Arithmetic* d, uintptr_t) { overflow(d, "negative"); }
