// When a thread must be stopped: at an address that the processor refuses, a division by zero, the kernel's own assert,
// or because the kernel never ends. A signal's handler leaves the fiber for good: it switches to the worker's stack.
#include "state.h"
#include <csignal>
#include <pthread.h>
#include <ucontext.h>

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

static struct sigaction old_segv, old_bus, old_fpe;

static void pass_on(int signal, siginfo_t* info, void* context) {
    struct sigaction& old = signal == SIGSEGV ? old_segv : signal == SIGBUS ? old_bus : old_fpe;
    if (old.sa_flags & SA_SIGINFO) old.sa_sigaction(signal, info, context);
    else if (old.sa_handler != SIG_IGN && old.sa_handler != SIG_DFL) old.sa_handler(signal);
    else sigaction(signal, &old, nullptr);  // the instruction runs again and ends the process, as it would without us
}

static void on_fault(int signal, siginfo_t* info, void* context) {
    Worker* w = llmc_worker;
    if (!w || !w->current || !w->launch) return pass_on(signal, info, context);
    char *address = (char*)info->si_addr, *pc = program_counter(context), *stack = w->current->stack;
    bool overflow = signal != SIGFPE && address < stack + 256 && address >= stack - (64 << 10);
    Problem p = blank(*w, signal == SIGFPE ? DIVISION_BY_ZERO : overflow ? STACK_OVERFLOW : CRASH);
    if (in_kernel(*w->launch, pc)) p.pc = pc - w->launch->library + 1;  // +1: others are return addresses
    p.offset = (int64_t)address;
    if (signal == SIGFPE) strcpy(p.detail, "or the smallest one by -1");
    report(*w, p);
    w->launch->abort = AFTER_PROBLEM;
    leave(*w);
}

// The launching thread sends this signal every few milliseconds to a kernel that takes long: to stop it, or to let
// another thread of the block run, in case this one spins until that one has done something.
static void on_timer(int, siginfo_t*, void* context) {
    Worker* w = llmc_worker;
    if (!w || !w->current || !w->launch) return;
    if (w->launch->abort == NOT_ABORTED) w->seen_block = w->block;
    char* pc = program_counter(context);
    if (!in_kernel(*w->launch, pc)) return;  // in the runtime or the C library: wait for the next signal
    if (w->launch->abort == NOT_ABORTED) return llmc_yield();
    give_up(*w, pc + 1);
}

// Either one block never ends, or there are too many of them: then another one ran a moment ago.
void too_long(Worker& w, const char* pc) {
    if (w.launch->abort != TOO_LONG) return;
    Problem p = blank(w, RUNAWAY, pc);
    if (!p.pc && w.current) p.line = w.current->barrier_line;
    if (w.seen_block != w.block) strcpy(p.detail, "blocks to come");
    report(w, p);
    w.launch->abort = AFTER_PROBLEM;  // reported once is enough
}

void give_up(Worker& w, const char* pc) {
    too_long(w, pc);
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
    sigaction(SIGSEGV, &a, &old_segv);
    sigaction(SIGBUS, &a, &old_bus);
    sigaction(SIGFPE, &a, &old_fpe);
    a.sa_sigaction = on_timer;
    a.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;  // on the fiber's own stack: it may go on later
    sigaction(SIGVTALRM, &a, nullptr);
}

void restore_handlers() {
    sigaction(SIGSEGV, &old_segv, nullptr);
    sigaction(SIGBUS, &old_bus, nullptr);
    sigaction(SIGFPE, &old_fpe, nullptr);
    // SIGVTALRM stays ours: one may still be on its way, and its default is to end the process
}

void interrupt(Worker& w) { pthread_kill((pthread_t)w.thread_handle, SIGVTALRM); }

// The kernel's own assert or __trap, or something that the emulator does not have.
extern "C" void llmc_stop(int why, int line, const char* detail) {
    Worker& w = *llmc_worker;
    Problem p = blank(w, why == LLMC_ASSERT ? ASSERT : why == LLMC_UNSUPPORTED ? UNSUPPORTED : CRASH);
    p.line = line;
    snprintf(p.detail, sizeof p.detail, "%s", detail);
    report(w, p);
    w.launch->abort = AFTER_PROBLEM;
    leave(w);
}
