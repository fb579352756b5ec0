// Stages of shared memory that are used one after the other, again and again: which one is next, and the parity of its
// barriers' phase.
template <int COUNT>
struct Ring {
    int stage = 0, parity = 0;

    __device__ void next()
    {
        if (++stage == COUNT) stage = 0, parity ^= 1;
    }

    __device__ void skip(int count)
    {
        parity ^= (stage + count) / COUNT & 1;
        stage = (stage + count) % COUNT;
    }
};
