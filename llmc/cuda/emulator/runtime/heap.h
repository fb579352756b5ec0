// What device malloc has given away.
#pragma once
#include <cstddef>

void place_heap();                                  // let a checked launch see it
char* heap_end();                                   // of all that was ever given away
bool heap_holds(const char* address, int size);     // whether all of these bytes lie within one allocation
