// Sums of the columns of results of tensor cores, laid out as in lanes.cuh: each lane has the sums of its own rows of 16 of
// 64 columns, 8 g + 2 j and 8 g + 2 j + 1 in totals[2 g] and totals[2 g + 1].

// Of 2 COUNT totals a lane keeps COUNT, and gives the others to the lane that is STEP away, for what that one gives.
template <int STEP, int COUNT>
__device__ void share_totals(float (&totals)[16])
{
    bool upper = threadIdx.x & STEP;
    #pragma unroll
    for (int e = 0; e < COUNT; e++) {
        float mine = upper ? totals[e + COUNT] : totals[e], other = upper ? totals[e] : totals[e + COUNT];
        totals[e] = mine + __shfl_xor_sync(0xffffffff, other, STEP);
    }
}

// A warp's totals of 64 columns; eight lanes have a part of each. place: of column 0.
__device__ void write_totals(float* place, float (&totals)[16], int columns)
{
    share_totals<16, 8>(totals), share_totals<8, 4>(totals), share_totals<4, 2>(totals);
    int c = 8 * r_of_lane() + 2 * j_of_lane();
    if (c < columns) *reinterpret_cast<float2*>(place + c) = make_float2(totals[0], totals[1]);
}
