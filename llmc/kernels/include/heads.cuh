// The order in which blocks take the tiles of attention: TOGETHER heads at a time, so that what the tiles of a head
// share is still in L2, and of their tiles the longest first.
#ifndef TOGETHER
#define TOGETHER 44
#endif

struct Place {
    int head, shorter;  // how many tiles of the head are longer
};

__device__ Place place_of(int number, int heads, int tiles)
{
    int group = number / (TOGETHER * tiles), place = number % (TOGETHER * tiles);
    int here = min(TOGETHER, heads - group * TOGETHER);
    return {group * TOGETHER + place % here, place / here};
}
