// (1 + tanh(u)) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3). exp may overflow to infinity: then this is 0, as it should.
__device__ float gate(float x) { return 1.0f / (1.0f + expf(-1.5957691216f * (x + 0.044715f * x * x * x))); }
