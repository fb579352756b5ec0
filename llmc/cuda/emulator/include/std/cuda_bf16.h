// __nv_bfloat16 and __nv_bfloat162: the upper half of a float, 1 bit of sign, 8 of exponent, 7 of mantissa.
#pragma once

#include "llmc_narrow.h"

#define LLMC_JOINED(a, b, c) a##b##c
#define LLMC_NAMED(a, b, c) LLMC_JOINED(a, b, c)
#define LLMC_T __nv_bfloat16
#define LLMC_T2 __nv_bfloat162
#define LLMC_RAW __nv_bfloat16_raw
#define LLMC_NAME bfloat16
#define LLMC_LETTER 'b'
#define LLMC_TO(x) llmc_bfloat16_bits(x)
#define LLMC_FROM(bits) llmc_bfloat16_value(bits)
#define LLMC_ROUND(x, way) llmc_narrow<8, 7>(x, way)
#include "llmc_16bit_type.h"
#include "llmc_16bit_moves.h"
#include "llmc_16bit_end.h"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7F80U)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7FFFU)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001U)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7F7FU)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000U)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000U)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3F80U)
