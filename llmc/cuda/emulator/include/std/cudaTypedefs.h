// For CUtensorMap.
#pragma once
#include "../llmc_tensor_map.h"
