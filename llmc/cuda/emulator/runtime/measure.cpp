// What a GPU's memory system would see. A warp executes an instruction for all its lanes at once. Here lanes come one after
// the other, so accesses are gathered by (instruction, how often this lane has executed it since the last synchronisation)
// and counted when the warp is together again.
//
// Global memory moves in sectors of 32 bytes. Shared memory has 32 banks of 4 bytes; lanes that want different words of one
// bank take turns. 16-byte accesses are served by quarter-warps, 8-byte ones by half-warps.
#include "measure.h"
#include "state.h"

Measured measured;

struct Group {
    unsigned lanes = 0;
    uint64_t at[WARP];
};
struct Site {  // one instruction, for one warp
    uint32_t times[WARP] = {};
    std::vector<Group> groups;
};
static std::vector<Site> sites[MAX_THREADS / WARP];
constexpr size_t MOST_GROUPS = 1 << 16;

void measure_begin() {
    measured.counts.clear();
    measured.trace.clear();
    for (auto& s : sites) s.clear();
}

static int site_of(const Region& r, int64_t pc, int size, bool write, bool atomic) {
    static int last = 0;
    auto same = [&](const Counted& c) {
        return c.pc == pc && c.argument == r.argument && c.write == write && c.space == r.space;
    };
    if (last < int(measured.counts.size()) && same(measured.counts[last])) return last;
    for (size_t i = 0; i < measured.counts.size(); i++)
        if (same(measured.counts[i])) return last = i;
    Counted c = {};
    c.pc = pc, c.space = r.space, c.argument = r.argument, c.write = write, c.atomic = atomic, c.size = size;
    measured.counts.push_back(c);
    return last = measured.counts.size() - 1;
}

void measure_access(Worker& w, const Region& r, const char* address, int size, bool write, bool atomic, const char* pc) {
    Thread& t = *w.current;
    uint64_t offset = address - r.data;
    int site = site_of(r, pc - w.launch->library, size, write, atomic);
    auto& mine = sites[t.warp];
    if (int(mine.size()) <= site) mine.resize(site + 1);
    Site& s = mine[site];
    uint32_t n = s.times[t.lane]++;
    if (n < MOST_GROUPS) {
        if (s.groups.size() <= n) s.groups.resize(n + 1);
        s.groups[n].lanes |= 1u << t.lane;
        s.groups[n].at[t.lane] = offset;
    }
    if (measured.trace.size() < MOST_TRACED)
        measured.trace.push_back({pc - w.launch->library, int64_t(offset), w.block, uint32_t(t.id), r.argument, size,
                                  write, r.space});
}

// A piece of a bulk copy. The copy is one request, whoever asked for it, and the pieces of a row share sectors.
void measure_piece(Worker& w, const Region& r, const char* address, int size, bool write, bool first, const char* pc) {
    static uint64_t sector, bytes;
    Counted& c = measured.counts[site_of(r, pc - w.launch->library, size, write, false)];
    if (first) c.requests++, c.lanes++, sector = ~0ull, bytes = 0;
    uint64_t from = (address - r.data) / 32, to = (address - r.data + size - 1) / 32;
    c.sectors += to - from + (from != sector);
    c.ideal += (bytes + size + 31) / 32 - (bytes + 31) / 32;
    sector = to, bytes += size;
}

static int distinct(uint64_t* values, int n) {
    std::sort(values, values + n);
    return std::unique(values, values + n) - values;
}

// The 32-byte sectors that the lanes touch, and how few could hold the same bytes.
static void count_global(Counted& c, const Group& g) {
    uint64_t sectors[2 * WARP], addresses[WARP];
    int n = 0, lanes = 0;
    for (unsigned m = g.lanes; m; m &= m - 1) {
        uint64_t at = g.at[__builtin_ctz(m)];
        addresses[lanes++] = at;
        for (uint64_t s = at / 32; s <= (at + c.size - 1) / 32; s++) sectors[n++] = s;
    }
    int moved = distinct(sectors, n), bytes = distinct(addresses, lanes) * c.size;
    c.sectors += moved;
    c.ideal += std::min(moved, (bytes + 31) / 32);
}

// Passes that shared memory needs for the lanes.
static void count_shared(Counted& c, const Group& g) {
    int together = c.size == 16 ? 8 : c.size == 8 ? 16 : 32, passes = 0;
    for (int from = 0; from < WARP; from += together) {
        uint64_t words[WARP * 4];
        int n = 0, load[32] = {}, most = 0;
        for (int lane = from; lane < from + together; lane++)
            if (g.lanes >> lane & 1)
                for (int k = 0; k < std::max(1, c.size / 4); k++) words[n++] = g.at[lane] / 4 + k;
        n = distinct(words, n);
        for (int i = 0; i < n; i++) most = std::max(most, ++load[words[i] % 32]);
        passes += most;
    }
    int least = 0;
    for (int from = 0; from < WARP; from += together) least += (g.lanes >> from & ((1ull << together) - 1)) != 0;
    c.passes += passes;
    c.ideal += least;
    c.worst = std::max<int64_t>(c.worst, passes);
}

void measure_warp(int warp) {
    for (size_t i = 0; i < sites[warp].size(); i++) {
        Site& s = sites[warp][i];
        Counted& c = measured.counts[i];
        for (const Group& g : s.groups) {
            if (!g.lanes) continue;
            c.requests++;
            c.lanes += __builtin_popcount(g.lanes);
            if (c.space == GLOBAL) count_global(c, g);
            else count_shared(c, g);
        }
        s.groups.clear();
        std::fill(s.times, s.times + WARP, 0);
    }
}
