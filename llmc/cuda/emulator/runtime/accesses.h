// What a checked kernel does to memory: hooks.cpp calls these before every load and store.
#pragma once
#include <cstddef>

void ordinary_access(char* address, int size, bool write, bool vol, const char* pc);
void atomic_access(char* address, int size, bool reads, const char* pc);
