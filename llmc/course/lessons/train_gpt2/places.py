"""Lesson 22: where to look for each kind of problem; a test holds these titles against the headings of the lesson."""

FINDER = 'lesson 22, section "9.2 · A finder"'
BUDGET = 'lesson 22, section "1 · What fits into three minutes?"'
LOGS = 'lesson 22, section "7.1 · The log"'
SICK = 'lesson 22, section "9.1 · Three logs side by side"'
