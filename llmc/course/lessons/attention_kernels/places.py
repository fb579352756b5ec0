"""Lesson 16: where to look for each kind of problem, and why numbers are not finite."""

# where to look; a test holds these titles against the headings of the lessons
NAIVE = 'lesson 16, section "3.1 · v1: three naive kernels"'
ONLINE = 'lesson 16, section "3.4 · Online softmax, with its proof"'
WARP = 'lesson 16, section "3.5 · v3: one warp per query"'
FLASH = 'lesson 16, section "3.6 · Flash attention: tiles of keys"'
REUSE = 'lesson 16, section "3.7 · The same number, used more often"'
DERIVED = 'lesson 16, section "4.1 · Derived, one product at a time"'
DELTA = 'lesson 16, section "4.2 · D without the table"'
OWNERS = 'lesson 16, section "4.3 · Two kernels, so that every sum has one owner"'
SPLIT = 'lesson 16, section "6.2 · Split over the keys, then merged"'
LEAK = 'lesson 16, section "7.1 · A mask that leaks"'
RACE = 'lesson 16, section "7.2 · One barrier too few"'
EDGE = 'lesson 12, section "3 · Make it break: one too many"'
BANKS = 'lesson 13, section "3.3 · Shared memory has 32 doors"'
SHUFFLE = 'lesson 13, section "3.4 · v3: the tree by warp shuffles"'
LOCKSTEP = 'lesson 13, section "6.2 · Inside a warp"'

WHERE = {
    "race": RACE,
    "race in global memory": OWNERS,
    "missing-syncwarp": LOCKSTEP,
    "barrier-divergence": RACE,
    "deadlock": RACE,
    "uninitialised": FLASH,
    "inactive-lane": SHUFFLE,
    "out-of-bounds": EDGE,
    "misaligned": REUSE,
    "bank_conflicts": BANKS,
    "rewrites": OWNERS,
    "sectors": FLASH,
    "shared_requests": REUSE,
}

SOFTMAX = WHERE | {
    "never-written": NAIVE,
    "never-written p": f"later keys get a probability of 0; {NAIVE}",
    "rewrites": f"each number of p and stats is written once; {NAIVE}",
}
OF_QUERIES = WHERE | {
    "race in global memory": f"a row of dq and its number of delta belong to one warp; {DERIVED}",
    "rewrites": f"each number of dq and delta is written once; {DELTA}",
}
OF_KEYS = WHERE | {"race in global memory": f"a row of dk and of dv belongs to one warp; {OWNERS}"}

NOT_FINITE = (
    "exp overflows above 88.7, and 0 / 0 is no number; a score - the largest one of the keys that the query sees is "
    "never above 0; "
    f"{ONLINE}"
)
EMPTY_PART = (
    f"a part without a key has top = -3.4e38, total = 0 and sums of 0, and exp(top - highest) is 0 there; {SPLIT}"
)
NO_NUMBER = f"0 / 0 and infinity minus infinity are NaN, and exp of a large number is infinite; {SPLIT}"
NO_STATS = f"exp(score - stats) is a probability, at most 1; {DERIVED}"
