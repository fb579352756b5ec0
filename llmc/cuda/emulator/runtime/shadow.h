// One access, as the shadow of memory sees it, cell by cell.
#pragma once
#include "state.h"

struct Here {  // who accesses what
    Worker& w;
    Thread& t;
    Warp& warp;
    Region& r;
    char* address;
    int size;
    bool vol;
    const char* pc;
    uint32_t first = r.space == SHARED ? w.first_segment : w.launch->first_segment;  // shared memory begins with the block
};

Problem describe(Worker& w, int kind, const Region* r, const char* address, int size, int deed, const char* pc);
void promise_cell(const Here& h, Cell& cell);    // an asynchronous copy will write here
void settle_cell(const Here& h, Cell& cell);     // and now it has
bool published(const Worker& w, const Cell& cell);  // shared memory that was written before the block's last barrier
// Why the copy into this place that p.thread2 asked for is under way, in p.detail: copy_advice.py says what to do
void describe_copy(const Worker& w, const char* address, Problem& p);
void check_written(const Here& h, size_t cell);  // report a read of what nothing has written
// `bytes`: which of a cell's four are accessed. An earlier access that nothing orders with this one is reported.
void read_cell(const Here& h, Cell& cell, unsigned bytes);
void write_cell(const Here& h, Cell& cell, unsigned bytes);
void atomic_cell(const Here& h, Cell& cell, unsigned bytes, bool settles);
// What copies and tensor cores do at their own pace. A bulk copy is asked for, which must not clash with what others did
// before, and arrives; something is read from now on until its segment ends.
void claim_cell(const Here& h, Cell& cell);
void arrive_cell(const Here& h, Cell& cell, uint32_t segment);
void read_cell_later(const Here& h, size_t cell, uint32_t segment);
