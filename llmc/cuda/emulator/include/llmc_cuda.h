// CUDA's words for the host's compiler: what a kernel may use without an #include of its own.
// Half precision, cooperative groups, wmma and cuda::barrier come with the headers in std/, which have CUDA's names.
#pragma once

#include "llmc_core.h"
#include "llmc_words.h"
#include "llmc_limits.h"
#include "llmc_vectors.h"
#include "llmc_bits.h"
#include "llmc_simd.h"
#include "llmc_math.h"
#include "llmc_special.h"
#include "llmc_fast_math.h"
#include "llmc_casts.h"
#include "llmc_warp.h"
#include "llmc_votes.h"
#include "llmc_memory.h"
#include "llmc_atomics.h"
#include "llmc_std.h"
