// __half and __half2: 1 bit of sign, 5 of exponent, 10 of mantissa.
#pragma once

#include "llmc_narrow.h"

#define LLMC_JOINED(a, b, c) a##b##c
#define LLMC_NAMED(a, b, c) LLMC_JOINED(a, b, c)
#define LLMC_T __half
#define LLMC_T2 __half2
#define LLMC_RAW __half_raw
#define LLMC_NAME half
#define LLMC_LETTER 'f'
#define LLMC_TO(x) llmc_half_bits(x)
#define LLMC_FROM(bits) llmc_half_value(bits)
#define LLMC_ROUND(x, way) llmc_narrow<5, 10>(x, way)
#include "llmc_16bit_type.h"
#include "llmc_16bit_moves.h"
#include "llmc_16bit_end.h"

typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;

#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7C00U)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7FFFU)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001U)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7BFFU)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000U)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000U)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3C00U)
