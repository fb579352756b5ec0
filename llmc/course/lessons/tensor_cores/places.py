"""Lesson 19: where to look for each kind of problem."""

# where to look; a test holds these titles against the headings of the lessons
HOLDS = 'lesson 19, section "2.2 · v3: who holds what"'
TURNED = 'lesson 19, section "2.3 · v4: four squares at once"'
SWIZZLED = 'lesson 19, section "2.4 · v5: swizzled, without a gap"'
ORDER = 'lesson 19, section "2.6 · Which tile comes next?"'
COPIES = 'lesson 19, section "3.1 · A machine for copies"'
PHASES = 'lesson 19, section "3.2 · Barriers with phases"'
ROLES = 'lesson 19, section "3.4 · v8: roles"'
SOFTENED = 'lesson 19, section "5.1 · A softmax in four lanes"'
NO_WAIT = 'lesson 19, section "6.1 · A wait too few"'
NO_PHASE = 'lesson 19, section "6.2 · The wrong phase"'

FRAGMENTS = {"never-written": HOLDS, "out-of-bounds": HOLDS, "race": HOLDS, "uninitialised-local": HOLDS}
FRAGMENTS |= {"rewrites": HOLDS, "requests": HOLDS}
SWIZZLE = {"race": SWIZZLED, "uninitialised": SWIZZLED, "out-of-bounds": SWIZZLED, "bounds": SWIZZLED}
SWIZZLE |= {"bank_conflicts": SWIZZLED, "misaligned": SWIZZLED, "never-written": TURNED}
RING = {"race": ROLES, "copy-race": NO_WAIT, "deadlock": PHASES, "mbarrier": PHASES, "uninitialised": NO_WAIT}
RING |= {"out-of-bounds": COPIES, "never-written": ROLES, "sectors": COPIES, "busiest": COPIES, "wrong-tile": COPIES}
SOFTMAX = {"inactive-lane": SOFTENED, "uninitialised-local": SOFTENED, "barrier-divergence": SOFTENED}
