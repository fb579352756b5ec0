"""Lesson 24: where to look for each kind of problem; a test holds these titles against the headings of the lesson."""

NAMES = 'lesson 24, section "1 · One number, three names"'
TOKENIZERS = 'lesson 24, section "2 · Why tokenizers confuse perplexity"'
SHIFT = 'lesson 24, section "3.2 · The mask, and a shift by one"'
SUM_OR_MEAN = 'lesson 24, section "3.3 · Sum or mean"'
FIT = 'lesson 24, section "4.2 · The fit"'
BOOTSTRAP = 'lesson 24, section "4.3 · Error bars"'
FLOPS = 'lesson 24, section "5.1 · What a token costs"'
CHINCHILLA = 'lesson 24, section "5.2 · A large model, or many tokens"'
BILL = 'lesson 24, section "6 · The bill"'
