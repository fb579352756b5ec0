"""Lesson 07: where to look for each kind of problem; a test holds these titles against the headings of the lesson."""

BLOCK = 'lesson 07, section "2.2 · One block"'
COUNT = 'lesson 07, section "4.1 · Every tensor, to the last number"'
FRESH = 'lesson 07, section "3.1 · What a fresh model should say"'
INIT = 'lesson 07, section "3.2 · Why 1/√(2L)"'
FORK = 'lesson 07, section "5.1 · The fork"'
CHAIN = 'lesson 07, section "5.2 · The block, last line first"'
TIED = 'lesson 07, section "5.3 · One table, two places"'
