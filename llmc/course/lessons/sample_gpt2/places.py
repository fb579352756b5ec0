"""Lesson 23: where to look for each kind of problem; a test holds these titles against the headings of the lesson."""

TOP_P = 'lesson 23, section "3.2 · A share instead of a number: top-p"'
CACHE = 'lesson 23, section "6 · What a token costs"'
BLOCK = 'lesson 07, section "2.2 · One block"'
BEAM = 'lesson 23, section "3.3 · The most probable text"'
