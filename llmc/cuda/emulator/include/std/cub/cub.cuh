// CUB's primitives of a warp and of a block. What CUB does for a whole device is called from the host: not here.
#pragma once

#define CUB_VERSION 200200
#define CUB_CPP_DIALECT 2017

#include "../../llmc_cub_warp.h"
#include "../../llmc_cub_block.h"
#include "../../llmc_cub_memory.h"
#include "../../llmc_cub_sort.h"
