"""Answers to the exercises of lesson 14 as strangers write them, with words that wrong ones must get."""

from llmc.course.authoring.answers import replaced, right, wrong


def hole(code, text):
    """The source with other text in place of the solution."""
    before, rest = code.split("    // ### BEGIN SOLUTION\n")
    return before + text.strip("\n") + "\n" + rest.split("    // ### END SOLUTION\n")[1]


@right("bias_backward")
def bias_with_a_tree(code):
    return hole(
        code,
        """
    const unsigned t = threadIdx.x, col = 32 * blockIdx.x + (t & 31);
    partial[t] = 0;
    if (col < C)
        for (int n = t >> 5; n < N; n += blockDim.x >> 5)
            partial[t] += *(dout + n * C + col);
    for (unsigned rest = blockDim.x >> 5; rest > 1;) {
        unsigned half = (rest + 1) / 2;
        __syncthreads();
        if (t + 32 * half < 32 * rest) partial[t] += partial[t + 32 * half];
        rest = half;
    }
    __syncthreads();
    if (t < 32 && col < C) db[col] = db[col] + partial[t];
""",
    )


@right("bias_backward")
def bias_with_a_stretch_for_each_warp(code):
    return hole(
        code,
        """
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, c = blockIdx.x * 32 + lane;
    int each = (N + warps - 1) / warps, end = min(N, (warp + 1) * each);
    float total = 0.0f;
    for (int n = warp * each; n < end && c < C; n++) total += dout[n * C + c];
    partial[32 * warp + lane] = total;
    __syncthreads();
    if (warp > 0 || c >= C) return;
    total = db[c];
    for (int k = 0; k < warps; k++) total += partial[32 * k + lane];
    db[c] = total;
""",
    )


@wrong("bias_backward", says="of what global memory moves is used; the goal is")
def bias_with_neighbouring_rows(code):
    return hole(
        code,
        """
    int warps = blockDim.x / 32, lane = threadIdx.x / warps, share = threadIdx.x % warps, c = blockIdx.x * 32 + lane;
    float total = 0.0f;
    for (int n = share; n < N && c < C; n += warps) total += dout[n * C + c];
    partial[32 * share + lane] = total;
    __syncthreads();
    if (share > 0 || c >= C) return;
    for (int k = 1; k < warps; k++) total += partial[32 * k + lane];
    db[c] += total;
""",
    )


SHUFFLE = "v += __shfl_xor_sync(0xffffffff, v, gap);"


@right("layernorm_dx")
def dx_with_three_sums(code):
    return hole(
        code,
        """
    int lane = threadIdx.x & 31, row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (row < N) {
        const float* d = dout + row * C;
        const float* v = x + row * C;
        float s1 = 0, s2 = 0;
        for (int c = lane; c < C; c += 32) s1 += d[c] * w[c], s2 += d[c] * w[c] * v[c];
        for (int g = 1; g < 32; g *= 2) {
            s1 += __shfl_xor_sync(~0u, s1, g);
            s2 += __shfl_xor_sync(~0u, s2, g);
        }
        float k = (s2 - s1 * mean[row]) * rstd[row] / C;
        for (int c = lane; c < C; c += 32) {
            float g = d[c] * w[c] - s1 / C - k * (v[c] - mean[row]) * rstd[row];
            dx[row * C + c] = dx[row * C + c] + rstd[row] * g;
        }
    }
""",
    )


@right("layernorm_dx")
def dx_with_down_and_broadcast(code):
    code = replaced(code, SHUFFLE, "v += __shfl_down_sync(0xffffffff, v, gap);")
    return replaced(code, "    return v;", "    return __shfl_sync(0xffffffff, v, 0);")


@wrong("layernorm_dx", says="lane that takes no part, line 4, called from line 25. `for (int")
def dx_with_a_warps_sum_in_the_loop(code):
    return replaced(code, "dnorms += dnorm;", "dnorms += warp_sum(dnorm);", "warp_sum(dnorms) / C", "dnorms / C")


@wrong("layernorm_dx", says="right, but the warps read from global memory 7,170 times a row")
def dx_by_lane_0(code):
    code = code.replace("for (int c = lane; c < C; c += 32)", "for (int c = 0; c < C && lane == 0; c++)")
    return code


@right("layernorm_partials")
def partials_of_stretches(code):
    return hole(
        code,
        """
    int each = (N + gridDim.x - 1) / gridDim.x;
    float* mine = partial + blockIdx.x * 2 * C;
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        float a = 0, b = 0;
        for (int n = blockIdx.x * each; n < N && n < (blockIdx.x + 1) * each; ++n) {
            b += dout[n * C + c];
            a += dout[n * C + c] * ((x[n * C + c] - mean[n]) * rstd[n]);
        }
        mine[c] = a, mine[C + c] = b;
    }
""",
    )


@right("layernorm_partials")
def partials_that_grow_in_place(code):
    return hole(
        code,
        """
    float* dw = partial + (size_t)blockIdx.x * 2 * C;
    float* db = dw + C;
    for (int c = threadIdx.x; c < C; c += blockDim.x) dw[c] = db[c] = 0.0f;
    for (int n = blockIdx.x; n < N; n += gridDim.x) {
        float m = mean[n], r = rstd[n];
        for (int c = threadIdx.x; c < C; c += blockDim.x) {
            float d = dout[n * C + c], norm = (x[n * C + c] - m) * r;
            dw[c] += d * norm;
            db[c] += d;
        }
    }
""",
    )


@wrong("layernorm_partials", says="partial equals the reference plus sums of other columns: dw and")
def partials_in_an_array_that_nobody_clears(code):
    code = replaced(code, "float dw = 0.0f, db = 0.0f;", "float& dw = sums[0]; float& db = sums[1];")
    return replaced(code, "    for (int c = threadIdx.x;", "    float sums[2] = {};\n    for (int c = threadIdx.x;")


@right("embedding_backward")
def embedding_that_looks_everything_up_again(code):
    return hole(
        code,
        """
    int u = blockIdx.x, c = threadIdx.x;
    while (c < C) {
        float sum = 0.0f;
        int k = starts[u];
        do sum += dout[order[k] * C + c]; while (++k != starts[u + 1]);
        dwte[tokens[order[starts[u]]] * C + c] += sum;
        c += blockDim.x;
    }
""",
    )


@right("embedding_backward")
def embedding_that_starts_with_the_row(code):
    return hole(
        code,
        """
    int token = tokens[order[starts[blockIdx.x]]], count = starts[blockIdx.x + 1] - starts[blockIdx.x];
    const int* mine = order + starts[blockIdx.x];
    for (unsigned c = threadIdx.x; c < C; c += blockDim.x) {
        float sum = dwte[token * C + c];
        for (int j = 0; j < count; j++) sum += dout[mine[j] * C + c];
        dwte[token * C + c] = sum;
    }
""",
    )


@wrong("layernorm_partials", says="never written. Nothing writes partial[42] (index 3, 0, 0) or 27")
def partials_of_blocks_that_return(code):  # they may not stay either, as they are: the first turn is always made
    loop = "for (int n = blockIdx.x; n < N; n += gridDim.x) {"
    assert loop in code
    at = code.index("{", code.index("__global__"))
    body = code[at + 1 :].replace(loop, "for (int n = blockIdx.x; n == blockIdx.x || n < N; n += gridDim.x) {")
    return f"{code[: at + 1]}\n    if (blockIdx.x >= N) return;{body}"


@wrong("embedding_backward", says="right, but 2,048 numbers are added by atomics, in whatever")
def embedding_by_atomics(code):
    body = """
    for (int k = starts[blockIdx.x]; k < starts[blockIdx.x + 1]; k++)
        for (int c = threadIdx.x; c < C; c += blockDim.x)
            atomicAdd(&dwte[tokens[order[k]] * C + c], dout[order[k] * C + c]);
"""
    return hole(code, body)


ADD_SQUARE = "total += (double)values[i] * values[i];"


@right("partial_squares")
def squares_by_two_shuffles(code):
    return hole(
        code,
        """
    double v = 0;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        double x = values[i];
        v = fma(x, x, v);
    }
    for (int g = 16; g > 0; g >>= 1) v += __shfl_down_sync(~0u, v, g);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    v = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0.0;
    for (int g = 16; g > 0; g >>= 1) v += __shfl_down_sync(~0u, v, g);
    if (threadIdx.x == 0) partial[blockIdx.x] = v;
""",
    )


@right("partial_squares")
def squares_in_float_then_double(code):
    return replaced(code, ADD_SQUARE, "float v = values[i]; total += v * v;")


@wrong("partial_squares", says="the sum over all blocks is right, but partial[")
def squares_of_neighbours(code):
    shares = "int threads = gridDim.x * blockDim.x, each = (n + threads - 1) / threads;\n"
    shares += "    int first = (blockIdx.x * blockDim.x + threadIdx.x) * each;"
    loop = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)"
    code = replaced(code, "int threads = gridDim.x * blockDim.x;", shares)
    return replaced(code, loop, "for (int i = first; i < n && i < first + each; i++)")


@right("fused_layernorm_backward")
def fused_that_reads_w_once(code):
    first = "norm[8], dnorm[8], weights[8];\n"
    first += "    for (int k = 0; k < 8; k++)\n"
    first += "        if (lane + 32 * k < quads) weights[k] = ((const float4*)w)[lane + 32 * k];\n"
    return replaced(code, "norm[8], dnorm[8];\n", first, "s = ((const float4*)w)[i];", "s = weights[k];")


@wrong("fused_layernorm_backward", says="uninitialised, line 52. `((float4*)partial)[(size_t)blockIdx.x")
def fused_with_room_for_768_columns(code):
    return code.replace("[8]", "[6]").replace("k < 8", "k < 6")


@wrong("fused_layernorm_backward", says="race in global memory, lines 35 and 37. `float4 old = dx4[i], d")
def fused_that_steps_by_single_rows(code):
    return replaced(code, "row += gridDim.x * 8", "row += gridDim.x")


@right("fused_layernorm_backward")
def fused_whose_warps_lie_a_grid_apart(code):
    return replaced(code, "row = blockIdx.x * 8 + warp;", "row = blockIdx.x + gridDim.x * warp;")


@wrong("fused_layernorm_backward", says="race in shared memory, lines 45 and 46. `float4 u = turn ?")
def fused_warps_all_at_once(code):
    turn = "        __syncthreads();\n    }\n    for (int i = threadIdx.x"
    return replaced(code, turn, "    }\n    __syncthreads();\n    for (int i = threadIdx.x")


@wrong("partial_squares", says="as if a float held a sum")
def squares_shuffled_as_floats(code):
    return replaced(
        code,
        "total += __shfl_xor_sync(0xffffffff, total, gap);",
        "total += __shfl_xor_sync(0xffffffff, (float)total, gap);",
    )


@wrong("layernorm_dx", says="what was added to dx equals the reference with dnorm of each")
def dx_with_the_dnorm_of_the_last_column(code):
    code = replaced(code, "products = 0.0f;", "products = 0.0f, dnorm;", "float dnorm = dout", "dnorm = dout")
    return replaced(code, "(dout[c] * w[c] - dnorms", "(dnorm - dnorms")


@wrong("embedding_backward", says="race in global memory, line 12. In `row[c] += total;`, two")
def embeddings_whose_row_is_that_of_the_place_u(code):
    code = replaced(
        code, "int token = tokens[order[first]];", "float* row = dwte + (size_t)tokens[order[blockIdx.x]] * C;"
    )
    return replaced(code, "dwte[(size_t)token * C + c] += total;", "row[c] += total;")


@wrong("bias_backward", says="race in shared memory, line 13. In `partial[lane] += total;`,")
def warps_that_add_in_one_row_of_shared_memory(code):
    return replaced(code, "partial[threadIdx.x] = total;", "partial[lane] += total;")
