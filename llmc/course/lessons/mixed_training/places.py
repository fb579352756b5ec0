"""Lesson 20: where to look for each kind of problem; a test holds these titles against the headings of the lessons."""

PACKED = 'lesson 20, section "2.1 · Eight numbers at a time"'
NORM = 'lesson 20, section "2.2 · Layernorm"'
UPDATE = 'lesson 20, section "4.2 · One kernel"'
CHANCE = 'lesson 20, section "4.1 · Which bits are random?"'
BISECT = 'lesson 20, section "8.1 · How to find it"'
ADAMW = 'lesson 09, section "3.2 · One weight, three steps, by hand"'
GELU = 'lesson 04, section "2 · Forward"'
EDGE = 'lesson 12, section "3 · Make it break: one too many"'
SHUFFLE = 'lesson 13, section "3.4 · v3: the tree by warp shuffles"'
LOCKSTEP = 'lesson 13, section "6.2 · Inside a warp"'

_KERNEL = {
    "missing-syncwarp": LOCKSTEP,
    "inactive-lane": SHUFFLE,
    "out-of-bounds": EDGE,
    "misaligned": PACKED,
    "requests": f"x is read once and out is written once, a whole uint4 at a time; {PACKED}",
}
GELU_PROBLEMS = _KERNEL | dict.fromkeys(("race", "never-written", "sectors", "rewrites", "barriers"), PACKED)
NORM_PROBLEMS = _KERNEL | dict.fromkeys(("race", "never-written", "sectors", "rewrites", "barriers"), NORM)
NORM_PROBLEMS |= {
    "requests": f"x is read three times at most, w, b and out are read or written once, eight numbers at a time; {NORM}"
}
UPDATE_PROBLEMS = _KERNEL | dict.fromkeys(("race", "never-written", "sectors", "rewrites", "barriers"), UPDATE)
