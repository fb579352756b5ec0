// What inline PTX becomes: ../compiling/ptx/ turns each instruction of an asm statement into a call of a function here.
// A kernel's text includes this only if it has asm statements.
#pragma once

#include "llmc_hopper.h"
#include "ptx/types.h"
#include "ptx/arithmetic.h"
#include "ptx/conversions.h"
#include "ptx/memory.h"
#include "ptx/copies.h"
#include "ptx/matrices.h"
#include "ptx/threads.h"
#include "ptx/barriers.h"
#include "ptx/bulk.h"
#include "ptx/warpgroups.h"
