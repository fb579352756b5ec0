// GELU after a matmul, 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)): one text, so that all products, and the backward pass
// that computes it again, get the same bits.

__device__ float gelu(float x)
{
    float u = 0.7978845608f * (x + 0.044715f * x * x * x);
    return __fdividef(x, 1.0f + expf(-2.0f * u));
}

// For kernels of 16 bits: (1 + tanh(u)) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3). exp may overflow to infinity: then this is 0, as it should.
__device__ float gate(float x) { return 1.0f / (1.0f + expf(-1.5957691216f * (x + 0.044715f * x * x * x))); }
