// The pool: operating-system threads that run blocks, one launch at a time.
#pragma once
#include "state.h"

void put_to_work(Launch& l, int workers);
extern "C" int llmc_wait(int milliseconds, int nudge);
