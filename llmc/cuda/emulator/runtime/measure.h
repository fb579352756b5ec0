// What was counted in the launch that was measured last.
#pragma once
#include "records.h"
#include <vector>

struct Measured {
    std::vector<Counted> counts;
    std::vector<Traced> trace;
};
extern Measured measured;
