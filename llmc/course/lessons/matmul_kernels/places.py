"""Lesson 15: where to look for each kind of problem."""

# where to look; a test holds these titles against the headings of the lessons
EDGE = 'lesson 12, section "3 · Make it break: one too many"'
COSTS = 'lesson 15, section "1 · What a product costs"'
NAIVE = 'lesson 15, section "3.1 · v1: one thread for each result"'
ALONG = 'lesson 15, section "3.2 · v2: neighbours along a row"'
TILES = 'lesson 15, section "3.3 · v3: tiles in shared memory"'
SQUARE = 'lesson 15, section "3.5 · v5: a square of results"'
BANKS = 'lesson 15, section "3.7 · v7: no queue at the banks"'
BACKGROUND = 'lesson 15, section "3.8 · v8: the next slice in the background"'
BACKWARD = 'lesson 15, section "4 · The two products of the backward pass"'
WAIT = 'lesson 15, section "6.1 · A read before its wait"'
BARRIER = 'lesson 15, section "6.2 · A barrier too few"'
TUNING = 'lesson 15, section "8 · Which tile?"'

WHERE = {
    "race": BARRIER,
    "race in global memory": NAIVE,
    "copy-race": WAIT,
    "missing-syncwarp": BARRIER,
    "barrier-divergence": BARRIER,
    "deadlock": BARRIER,
    "uninitialised": TILES,
    "bounds": TILES,
    "never-written": NAIVE,
    "out-of-bounds": EDGE,
    "bank_conflicts": BANKS,
    "shared_requests": SQUARE,
    "rewrites": NAIVE,
    "efficiency": ALONG,
    "sectors": TILES,
    "barriers": BACKGROUND,
}

TURNED = {  # for exercise 2
    "uninitialised": f"the 8 warps fill the 32 rows of a tile, 4 each; {BANKS}",
    "bank_conflicts": BANKS,
    "efficiency": ALONG,
    "race": BARRIER,
    "race in global memory": BANKS,
}

ASKED = {  # for exercise 4
    "race": WAIT,
    "copy over what is read": BARRIER,
    "uninitialised": "`ask` fills a whole tile, behind the end of K with zeros, if all 256 threads call it; "
    f"{BACKGROUND}",
}
