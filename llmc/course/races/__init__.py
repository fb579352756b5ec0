"""Do the threads of a learner's Numba kernel race? find.py watches it, watched.py takes notes, refusal.py says so."""
