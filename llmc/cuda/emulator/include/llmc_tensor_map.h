// CUtensorMap, 128 bytes that llmc.cuda.tensor_map fills in.
#pragma once
struct __attribute__((aligned(64))) CUtensorMap_st { unsigned long long opaque[16]; };
typedef CUtensorMap_st CUtensorMap;
