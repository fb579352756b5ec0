"""Lesson 05: where to look.

A test compares these titles with the headings of notebooks/05_softmax_crossentropy.ipynb.
"""

SOFTMAX = 'lesson 05, section "2.1 · Softmax"'
MAXIMUM = 'lesson 05, section "2.2 · Overflow"'
LSE = 'lesson 05, section "2.3 · Log-sum-exp"'
LOSS = 'lesson 05, section "2.4 · Cross-entropy"'
TRAP = 'lesson 05, section "A trap"'
FRESH = 'lesson 05, section "3 · The loss of a fresh model"'
JACOBIAN = 'lesson 05, section "4.2 · The softmax Jacobian"'
PRODUCT = 'lesson 05, section "4.3 · Jacobian times vector"'
P_MINUS_Y = 'lesson 05, section "4.4 · Everything cancels"'
IN_PLACE = 'lesson 05, section "5.1 · One buffer"'
PADDING = 'lesson 05, section "5.2 · A padded vocabulary"'
