// GELU behind a product, to float's precision but for its last bits, in few instructions.

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)) with u = sqrt(2/pi) (x + 0.044715 x^3). exp may overflow: then this is 0.
__device__ float gate(float x)
{
    return __fdividef(1.0f, 1.0f + __expf(-1.5957691216f * (x + 0.044715f * x * x * x)));
}

__device__ float gelu(float x) { return x * gate(x); }

__device__ float gelu_slope(float x)
{
    float g = gate(x), du = 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x);
    return g + 2.0f * x * g * (1.0f - g) * du;
}
