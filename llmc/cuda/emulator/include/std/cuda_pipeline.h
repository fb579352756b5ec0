// __pipeline_memcpy_async and its batches: each thread asks for copies of 4, 8 or 16 bytes to shared memory, ends a
// batch with __pipeline_commit, and waits. The data is there for the thread itself after the wait, and for the others
// after a barrier that follows it. On a GPU since Ampere this is cp.async, cp.async.commit_group, cp.async.wait_group.
#pragma once

#include "cuda_pipeline_primitives.h"
