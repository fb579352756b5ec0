"""Do threads of a learner's Numba kernel race? find.py watches, watched.py takes notes, guards/threads.py says so."""
