// Groups of several warps (tiled_partition<64> and more): their threads wait for each other as a warp's do, while the
// rest of the block goes on.
#include "state.h"

static Tile& tile_at(Worker& w, int first, int threads) {
    for (Tile& tile : w.tiles)
        if (tile.first == first && tile.threads == threads) return tile;
    w.tiles.push_back({first, threads, 0, 0, std::vector<void*>(threads)});
    return w.tiles.back();
}

// What each of them did before is visible to all of them now.
static void order(Worker& w, const Tile& tile) {
    for (int i = tile.first / WARP; i < w.num_warps && i * WARP < tile.first + tile.threads; i++) new_segment(w, w.warps[i]);
    uint32_t now = w.warps[tile.first / WARP].segment;
    for (int i = tile.first; i < tile.first + tile.threads && i < w.num_threads; i++) w.threads[i].acquired = now;
}

// As llmc_collective, for the `threads` threads of the block from number `first` on: slots[rank] is what each posted.
extern "C" void llmc_tile_collective(int first, int threads, void* mine, void (*last)(void** slots, int threads)) {
    Worker& w = *llmc_worker;
    flush_pending(w);
    w.current->touched = true;
    int there = std::min(threads, w.num_threads - first);
    Tile& tile = tile_at(w, first, threads);
    tile.slots[w.current->id - first] = mine;
    if (++tile.arrived < there) {
        for (unsigned round = tile.round, i = &tile - w.tiles.data(); w.tiles[i].round == round;) llmc_yield();
        return;
    }
    w.idle = 0;
    if (last) last(tile.slots.data(), there);
    if (w.launch->checked) order(w, tile);
    tile.arrived = 0;
    tile.round++;
}
