/* The step of the fused classifier before the kernels of ../classifier.cu.

v1  one block per row, one number at a time
*/

#include "../classifier.cu"

extern "C" __global__ void __launch_bounds__(1024)
    fused_classifier_v1(float* losses, float* logits, const int* targets, int V, int Vp, float dloss, int backward)
{
    __shared__ Seen slots[32];  // one of each warp
    int row = blockIdx.x, target = targets[row];
    logits += (size_t)row * Vp;  // (Vp,)   size_t: N * Vp may exceed 2^31
    float of_target = logits[target];
    Seen s = {LOWEST, 0.0f};
    for (int v = threadIdx.x; v < V; v += blockDim.x) add(s, logits[v]);
    s = merge_block(s, slots);  // has a barrier: from here on the row may be overwritten
    if (threadIdx.x == 0) losses[row] = logf(s.total) + s.top - of_target;
    if (!backward) return;
    float scale = dloss / s.total;
    for (int v = threadIdx.x; v < Vp; v += blockDim.x) {
        logits[v] = gradient(logits[v], v, V, target, s.top, scale, dloss);
    }
}
