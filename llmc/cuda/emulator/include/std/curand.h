// curandState and its functions: the same as in curand_kernel.h.
#pragma once
#include "curand_kernel.h"
