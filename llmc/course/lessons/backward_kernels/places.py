"""Lesson 14: where to look for each kind of problem."""

# where to look; a test holds these titles against the headings of the lessons
EDGE = 'lesson 12, section "3 · Make it break: one too many"'
BARRIER = 'lesson 13, section "1 · Many numbers in, one out"'
TREE = 'lesson 13, section "3.2 · v2: one block per row"'
BANKS = 'lesson 13, section "3.3 · Shared memory has 32 doors"'
SHUFFLE = 'lesson 13, section "3.4 · v3: the tree by warp shuffles"'
QUADS = 'lesson 13, section "3.7 · v6: 128-bit loads"'
LOCKSTEP = 'lesson 13, section "6.2 · Inside a warp"'
RACE = 'lesson 14, section "1.1 · A race, and an atomic"'
ORDER = 'lesson 14, section "2 · The order of additions"'
SHARED = 'lesson 14, section "3.3 · v2: rows shared"'
STAGES = 'lesson 14, section "3.4 · v3: two stages"'
TWO_DIRECTIONS = 'lesson 14, section "4.1 · Two directions"'
ALONG_ROWS = 'lesson 14, section "4.4 · v4: two readings"'
REGISTERS = 'lesson 14, section "4.5 · v5: sums in registers"'
BUCKETS = 'lesson 14, section "5.2 · Sorted buckets"'
NORM = 'lesson 14, section "6 · The norm of everything"'
ADDED = 'lesson 14, section "8 · Make it break"'

WHERE = {
    "race": SHARED,
    "race in global memory": RACE,
    "missing-syncwarp": LOCKSTEP,
    "barrier-divergence": BARRIER,
    "deadlock": BARRIER,
    "uninitialised": TREE,
    "never-written": STAGES,
    "inactive-lane": SHUFFLE,
    "out-of-bounds": EDGE,
    "misaligned": QUADS,
    "bank_conflicts": BANKS,
    "efficiency": SHARED,
    "busiest": SHARED,
    "rewrites": STAGES,
    "barriers": ALONG_ROWS,
    "shared_requests": ALONG_ROWS,
    "sectors": REGISTERS,
    "requests": QUADS,
}
WHERE_BUCKETS = WHERE | {
    "out-of-bounds starts": f"a block has one bucket, starts[blockIdx.x] to starts[blockIdx.x + 1]; {BUCKETS}"
}
