#include "workers.h"
#include <condition_variable>
#include <pthread.h>
#include <sys/mman.h>
#include <thread>

// Never destroyed: at the end of the process idle workers still wait on them.
static std::mutex& pool_lock = *new std::mutex;
static std::condition_variable& pool_begin = *new std::condition_variable;
static std::condition_variable& pool_done = *new std::condition_variable;
static std::vector<Worker*>& workers = *new std::vector<Worker*>;
static Launch* current_launch = nullptr;
static uint64_t generation = 0;
static int wanted = 0, running = 0;

static void run_blocks(Worker& w, Launch& l) {
    w.launch = &l;
    w.tainted = false;
    w.pending.on = false;
    llmc_block_dim = l.block;
    llmc_grid_dim = l.grid;
    if (l.checked) place_regions(w);
    w.seen_block = NOBODY;
    for (uint64_t b; !l.abort.load() && (b = l.next_block++) < l.blocks;) run_block(w, b);
    too_long(w);
    w.current = nullptr;
    w.launch = nullptr;
}

static void serve(Worker* w, int index) {
    llmc_worker = w;
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
        run_blocks(*w, *l);
        std::lock_guard<std::mutex> hold(pool_lock);
        if (--running == 0) pool_done.notify_all();
    }
}

static void start_workers(int n) {
    while (int(workers.size()) < n) {
        Worker* w = new Worker;
        size_t size = AROUND + MAX_SHARED + AROUND;
        w->dynamic_shared = (char*)mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + AROUND;
        mprotect(w->dynamic_shared, MAX_SHARED, PROT_READ | PROT_WRITE);
        std::thread thread(serve, w, int(workers.size()));
        w->thread_handle = (void*)thread.native_handle();  // here: a launch may be interrupted before the thread begins
        thread.detach();
        workers.push_back(w);
    }
}

void put_to_work(Launch& l, int n) {
    std::lock_guard<std::mutex> hold(pool_lock);
    start_workers(n);
    current_launch = &l;
    wanted = running = n;
    generation++;
    pool_begin.notify_all();
}

// ------------------------------------------------------------------------------------------------ called from Python

// Wait up to `milliseconds` for the launch to end; true if it has. A kernel that takes long is interrupted now and then
// (`nudge`), so that a thread that spins lets the one run that it is waiting for.
extern "C" int llmc_wait(int milliseconds, int nudge) {
    std::unique_lock<std::mutex> hold(pool_lock);
    if (pool_done.wait_for(hold, std::chrono::milliseconds(milliseconds), [] { return running == 0; })) return 1;
    if (nudge)
        for (int i = 0; i < wanted; i++) interrupt(*workers[i]);
    return 0;
}

extern "C" void llmc_after_fork() {  // the child has none of the threads and begins again; what the old ones had is lost
    new (&pool_lock) std::mutex;
    new (&pool_begin) std::condition_variable;
    new (&pool_done) std::condition_variable;
    workers.clear();
    running = 0;
}
