"""Do the threads of a learner's Numba kernel race? find.py watches it, watched.py notes it, guards/threads.py says so."""
