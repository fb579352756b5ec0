"""Lesson 13: where to look for each kind of problem, and why numbers are not finite."""

# where to look; a test holds these titles against the headings of the lessons
EDGE = 'lesson 12, section "3 · Make it break: one too many"'
PICTURE = 'lesson 13, section "1 · Many numbers in, one out"'
TREE = 'lesson 13, section "3.2 · v2: one block per row"'
BANKS = 'lesson 13, section "3.3 · Shared memory has 32 doors"'
SHUFFLE = 'lesson 13, section "3.4 · v3: the tree by warp shuffles"'
WARP = 'lesson 13, section "3.5 · v4: one warp per row"'
ONLINE = 'lesson 13, section "3.6 · v5: online"'
CACHED = 'lesson 13, section "3.7 · v6: 128-bit loads"'
TRAP = 'lesson 13, section "4.1 · Two sums, and a trap"'
MERGE = 'lesson 13, section "4.2 · Merging moments"'
RACE = 'lesson 13, section "6.1 · A race"'
LOCKSTEP = 'lesson 13, section "6.2 · Inside a warp"'
FUSED = 'lesson 13, section "7 · Into the package"'

WHERE = {
    "race": RACE,
    "race in global memory": WARP,
    "missing-syncwarp": LOCKSTEP,
    "barrier-divergence": PICTURE,
    "deadlock": PICTURE,
    "uninitialised": TREE,
    "never-written": WARP,
    "inactive-lane": SHUFFLE,
    "out-of-bounds": EDGE,
    "misaligned": CACHED,
    "bank_conflicts": BANKS,
    "shared_atomics": PICTURE,
    "rewrites": FUSED,
    "efficiency": TREE,
    "barriers": WARP,
    "shared_requests": WARP,
    "sectors": CACHED,
    "requests": CACHED,
}

BY_BLOCKS = WHERE | dict.fromkeys(("race in global memory", "never-written"), TREE)  # exercise 1

OWN_PLACE = WHERE | {  # exercise 5
    "race": f"shared memory has room for 8 rows, one for each warp; {CACHED}",
}

CANCELS = (
    f"rows with a large mean: E[x²] - E[x]² subtracts two large numbers that agree in nearly all their digits; {TRAP}"
)
NO_MAXIMUM = (
    f"exp overflows above 88.7 and vanishes below -103.9, and x - the maximum of the whole row is never above 0; {WARP}"
)
NO_TOP = (
    "exp overflows above 88.7, and neither x[c] - a maximum that counts x[c] nor old maximum - new maximum is ever "
    f"above 0; {ONLINE}"
)
NO_NUMBER = f"0 / 0 is NaN, and a part may be empty, and so may both; {MERGE}"
NO_ROOT = f"the root of a negative number is NaN, and so is 0 / 0; {MERGE}"
