// Device malloc and free: 8 MB for all launches of the process, as much as a GPU's heap has unless it is told otherwise.
// A block is as large as the next power of two; what lies behind the bytes that were asked for belongs to nobody.
#include "heap.h"
#include "arena.h"
#include <map>
#include <sys/mman.h>

constexpr size_t HEAP = 8 << 20;
static std::mutex& heap_lock = *new std::mutex;
static std::map<char*, size_t>& heap_blocks = *new std::map<char*, size_t>;  // what is allocated, and its bytes
static std::vector<char*> heap_free[24];                                     // by the logarithm of the size
static char *heap_start = nullptr, *heap_next = nullptr;

static int size_class(size_t bytes) {
    int k = 5;  // 32 bytes: 16 to use, and a gap
    while ((size_t(1) << k) < bytes + 16) k++;
    return k;
}

void place_heap() {
    Region& r = arena.heap;
    if (!heap_start || r.data) return;
    place(r, heap_start, HEAP, 2, GLOBAL);
    r.written = (uint8_t*)mmap(nullptr, HEAP >> 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

char* heap_end() { return heap_next; }

bool heap_holds(const char* address, int size) {
    auto next = heap_blocks.upper_bound((char*)address);
    if (next == heap_blocks.begin()) return false;
    auto block = std::prev(next);
    return address + size <= block->first + block->second;
}

static char* take(size_t bytes) {
    int k = size_class(bytes);
    if (!heap_start) {
        void* p = mmap(nullptr, HEAP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) return nullptr;
        heap_start = heap_next = (char*)p;
    }
    if (k < 24 && !heap_free[k].empty()) {
        char* p = heap_free[k].back();
        heap_free[k].pop_back();
        return p;
    }
    if (k >= 24 || (size_t(1) << k) > size_t(heap_start + HEAP - heap_next)) return nullptr;
    char* p = heap_next;
    heap_next += size_t(1) << k;
    return p;
}

extern "C" void* llmc_malloc(size_t bytes) {
    std::lock_guard<std::mutex> hold(heap_lock);
    char* p = take(bytes);
    if (!p) return nullptr;
    heap_blocks[p] = bytes;
    place_heap();
    size_t first = (p - heap_start) >> 2, cells = (bytes + 3) >> 2;
    memset(p, 0xff, bytes);  // poison
    memset(arena.heap.written + first, 0, cells);
    if (arena.heap.cells) memset((void*)(arena.heap.cells + first), 0, cells * sizeof(Cell));
    return p;
}

extern "C" void llmc_free(void* p, int line) {
    if (!p) return;
    std::unique_lock<std::mutex> hold(heap_lock);
    auto block = heap_blocks.find((char*)p);
    if (block == heap_blocks.end()) {
        hold.unlock();
        llmc_stop(LLMC_TRAP, line, "free of what malloc did not return, or of what is free already");
    }
    heap_free[size_class(block->second)].push_back(block->first);
    heap_blocks.erase(block);
}
