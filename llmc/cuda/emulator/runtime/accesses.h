// What a checked kernel does to memory: hooks.cpp calls these before every load and store.
#pragma once
#include "state.h"

// again: a further piece of the access before
void ordinary_access(char* address, int size, bool write, bool vol, const char* pc, bool again = false);
void require_alignment(Worker& w, const char* address, int size, const char* pc);  // of what is about to be read
// The region that an access belongs to; null for memory that is not watched. A wrong access does not return.
Region* admit(Worker& w, char* address, int size, bool write, const char* pc);
enum Atomic { STORE, UPDATE, COMPARE };  // replaces what was there; adds to it; looks at it, and perhaps changes nothing
void atomic_access(char* address, int size, Atomic what, const char* pc);
