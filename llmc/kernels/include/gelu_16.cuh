// GELU after a product, to float's precision but for its last bits, in few instructions.

__device__ float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ float inverse(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)) with u = sqrt(2/pi) (x + 0.044715 x^3); the constants are those of -2 u / ln 2.
// The power may be infinite: then this is 0.
__device__ float gate(float x)
{
    float square = x * x;
    return inverse(1.0f + power_of_2(x * (-2.302208198f - 0.1029432397f * square)));
}

__device__ float gelu(float x) { return x * gate(x); }

// gate + x gate', where gate' = 2 gate (1 - gate) u'.
__device__ float gelu_slope(float x)
{
    float g = gate(x), square = x * x, twice_du = 1.5957691216f + 0.2140644f * square;
    return g + x * twice_du * (g - g * g);
}
