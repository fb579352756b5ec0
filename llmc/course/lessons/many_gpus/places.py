"""Lesson 21: where to look for each kind of problem; a test holds these titles against the headings of the lesson."""

RING = 'lesson 21, section "3 · Around the ring"'
COST = 'lesson 21, section "4 · What it costs"'
FIT = 'lesson 21, section "5 · Real processes"'
BUCKETS = 'lesson 21, section "6.3 · Hiding it"'
ZERO = 'lesson 21, section "7 · Whose memory?"'
QUIET = 'lesson 21, section "8.2 · Three mistakes that do not hang"'
HANG = 'lesson 21, section "8.1 · A hang"'
