"""Answers to the exercises of lesson 12 as strangers write them, with words that wrong ones must get."""

import math

from llmc.course.authoring.answers import replaced, right, wrong


def body(code):
    """A function that gives the kernel another body; the text ends with the bracket that closes it."""
    head = code[: code.index("{\n", code.index("__global__")) + 1]
    return lambda text: head + text


@right("grid_for")
def grid_with_ceil(rows, cols, block):
    return math.ceil(cols / block[0]), math.ceil(rows / block[1])


@right("grid_for")
def grid_with_a_rest(rows, cols, block):
    blocks_x, rest_x = divmod(cols, block[0])
    blocks_y, rest_y = divmod(rows, block[1])
    return blocks_x + (rest_x > 0), blocks_y + (rest_y > 0)


@wrong("grid_for", says="a grid is made of whole numbers, and this one is (2.25, 2.5)")
def grid_of_floats(rows, cols, block):
    return cols / block[0], rows / block[1]


@wrong("grid_for", says="grid has the values that our solution gives without `+ block[1]`")
def grid_without_the_one_in_y(rows, cols, block):
    return (cols - 1) // block[0] + 1, (rows - 1) // block[1]


@wrong("grid_for", says="grid equals the reference with the rows divided by block[0]")
def grid_with_x_for_both_axes(rows, cols, block):
    return len(range(0, cols, block[0])), len(range(0, rows, block[0]))


@right("leaky_relu")
def leaky_with_a_helper_and_pointers(code):
    helper = "__device__ float leaky(float v, float slope) { if (v > 0) return v; else return v * slope; }\n"
    return helper + body(code)("""
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    const float *from = x + i;
    if (i < n) *(out + i) = leaky(*from, slope);
}
""")


@right("leaky_relu")
def leaky_written_twice_by_its_own_thread(code):
    return replaced(code, "x[i] > 0.0f ? x[i] : slope * x[i]", "x[i]; if (out[i] < 0) out[i] *= slope")


@wrong("leaky_relu", says="out equals the reference with slope · x also where x is between 0 and 1")
def leaky_by_the_sign_of_an_int(code):
    return replaced(code, "x[i] > 0.0f ?", "(int)x[i] > 0 ?")


@wrong("leaky_relu", says="never written. Nothing writes out[2] or 9 other elements of out")
def leaky_that_stores_one_branch(code):
    return body(code)("""
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    if (v > 0.0f) out[i] = v;
    else v = slope * v;
}
""")


@wrong("leaky_relu", says="right, but 16 writes go to numbers that another thread has written already")
def leaky_in_a_loop(code):
    return body(code)("""
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    for (; i < n; i += blockDim.x) out[i] = x[i] * (x[i] > 0 ? 1 : slope);
}
""")


@right("swap_axes")
def swap_from_the_outputs_side(code):
    return body(code)("""
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // flat index of out
    if (i >= B * C * T) return;
    int t = i % T, c = (i / T) % C, b = i / T / C;
    out[i] = x[b * T * C + t * C + c];
}
""")


@right("swap_axes")
def swap_by_subtraction(code):
    return body(code)("""
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B * T * C) {
        unsigned b = i / (T * C), in_sequence = i - b * T * C;
        unsigned t = in_sequence / C, c = in_sequence - t * C;
        float* sequence = out + b * C * T;
        sequence[c * T + t] = x[i];
    }
}
""")


@wrong("swap_axes", says="right, but 2 numbers of one array are handled by a single thread")
def swap_with_the_first_sequence_s_threads(code):
    return body(code)("""
    int i = blockIdx.x * blockDim.x + threadIdx.x, plane = T * C;
    if (i < plane)
        for (int b = 0; b < B; b++)
            out[b * plane + i % C * T + i / C] = x[b * plane + i];
}
""")


@wrong("swap_axes", says="Other elements of this array are written by no thread, so the index is wrong")
def swap_with_t_and_c_exchanged(code):
    return body(code)("""
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * T * C) return;
    int t = i % C, c = i / C % T, b = i / (T * C);
    out[b * C * T + c * T + t] = x[i];
}
""")


@right("residual_vec4")
def vec4_by_arrays_of_float4(code):
    return body(code)("""
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    float4* out4 = (float4*)out;
    if (q < n / 4) {
        float4 a = ((const float4*)x1)[q], b = ((const float4*)x2)[q], c;
        c.x = a.x + b.x, c.y = a.y + b.y, c.z = a.z + b.z, c.w = a.w + b.w;
        out4[q] = c;
    }
    int rest = n / 4 * 4 + q;
    if (rest < n) out[rest] = x1[rest] + x2[rest];
}
""")


@right("residual_vec4")
def vec4_with_a_tail_by_the_first_thread(code):
    return body(code)("""
    int thread = threadIdx.x + blockIdx.x * blockDim.x, threads = blockDim.x * gridDim.x;
    int whole = n & ~3;
    for (int i = thread * 4; i < whole; i += threads * 4) {
        float4 a = __ldg(reinterpret_cast<const float4*>(x1 + i));
        const float4 b = reinterpret_cast<const float4*>(x2)[i / 4];
        a.x += b.x; a.y += b.y; a.z += b.z; a.w += b.w;
        reinterpret_cast<float4*>(out)[i / 4] = a;
    }
    if (thread == 0)
        for (int i = whole; i < n; i++) out[i] = x1[i] + x2[i];
}
""")


@wrong("residual_vec4", says="This pointer counts vectors of 4")
def residual_with_quads_of_floats(code):
    return body(code)("""
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 a = reinterpret_cast<const float4*>(x1)[i], b = reinterpret_cast<const float4*>(x2)[i];
        reinterpret_cast<float4*>(out)[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    } else
        for (; i < n; i++) out[i] = x1[i] + x2[i];
}
""")


@wrong("residual_vec4", says="never written. Nothing writes out[18]")
def fours_whose_tail_is_left_to_one_block(code):
    return body(code)("""
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x), rest = n % 4, end = n - rest;
    if (i < end) {
        float4 a = *(const float4*)(x1 + i), b = *(const float4*)(x2 + i);
        *(float4*)(out + i) = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }
    if (blockIdx.x == 0 && threadIdx.x < rest) out[end + threadIdx.x] = x1[end + threadIdx.x] + x2[end + threadIdx.x];
}
""")


@right("axpy")
def axpy_by_whole_blocks(code):
    return body(code)("""
    for (int block = blockIdx.x; block * blockDim.x < n; block += gridDim.x) {
        int i = block * blockDim.x + threadIdx.x;
        if (i < n) y[i] += a * x[i];
    }
}
""")


@right("axpy")
def axpy_four_at_a_time(code):
    return body(code)("""
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int q = thread; q < n / 4; q += threads) {
        float4 u = reinterpret_cast<float4*>(y)[q], v = reinterpret_cast<const float4*>(x)[q];
        u.x += a * v.x, u.y += a * v.y, u.z += a * v.z, u.w += a * v.w;
        reinterpret_cast<float4*>(y)[q] = u;
    }
    if (thread == 0)
        for (int i = n / 4 * 4; i < n; i++) y[i] += a * x[i];
}
""")


@wrong("axpy", says="what was added to y equals a · x plus what the thread's turns before have added")
def axpy_carries_its_sum_on(code):
    return body(code)("""
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        sum += a * x[i];
        y[i] += sum;
    }
}
""")


@wrong("axpy", says="a * x was added to the first 8 numbers alone, as many as the grid has threads")
def axpy_without_a_loop(code):
    return replaced(code, "for (int i = thread; i < n; i += threads) {", "int i = thread; if (i < n) {")


@wrong("axpy", says="right, but only the first time: a second launch on the same numbers")
def axpy_from_a_queue(code):
    counter = "// the numbers that somebody has taken\n__device__ unsigned taken;\n"
    return counter + body(code)("""
    unsigned i;
    while ((i = atomicAdd(&taken, 1u)) < n) y[i] = fmaf(a, x[i], y[i]);
}
""")


@right("split_heads")
def split_from_the_inputs_side(code):
    return body(code)("""
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    int C = NH * hs;
    if (q >= B * T * 3 * C / 4) return;
    int c = q * 4 % (3 * C), bt = q * 4 / (3 * C);
    int s = c / C, h = c % C / hs, j = c % hs;
    int b = bt / T, t = bt - b * T;
    float4* to = (float4*)(out + (((s * B + b) * NH + h) * T + t) * hs + j);
    *to = ((const float4*)qkv)[q];
}
""")


@right("split_heads")
def split_with_a_loop(code):
    return body(code)("""
    int n = 3 * B * NH * T * hs;
    for (int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x); i < n; i += 4 * gridDim.x * blockDim.x) {
        int r = i, j = r % hs, t = (r /= hs) % T, h = (r /= T) % NH, b = (r /= NH) % B, s = r / B;
        float4 v = *(float4*)(qkv + ((b * T + t) * 3 + s) * NH * hs + h * hs + j);
        *(float4*)&out[i] = v;
    }
}
""")


@wrong("split_heads", says="right, but 768 requests of a warp go to global memory")
def split_two_at_a_time(code):
    return body(code)("""
    int n = 3 * B * NH * T * hs;
    for (int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x); i < n; i += 2 * gridDim.x * blockDim.x) {
        int j = i % hs, t = i / hs % T, h = i / (hs * T) % NH, b = i / (hs * T * NH) % B, s = i / (hs * T * NH * B);
        *(float2*)(out + i) = *(const float2*)(qkv + ((b * T + t) * 3 + s) * NH * hs + h * hs + j);
    }
}
""")


@wrong("split_heads", says="Divide by 4 whatever counts single elements")
def split_heads_with_a_guard_of_single_numbers(code):
    return body(code)("""
    int thread = blockIdx.x * blockDim.x + threadIdx.x, C = NH * hs;
    if (thread >= 3 * B * T * C) return;
    int i = thread * 4, j = i % hs, t = (i /= hs) % T, h = (i /= T) % NH, b = (i /= NH) % B, s = i / B;
    const float4* from = (const float4*)(qkv + (b * T + t) * 3 * C + s * C + h * hs + j);
    ((float4*)out)[thread] = *from;
}
""")


@wrong("split_heads", says="out equals the reference laid out as (B, 3, NH, T, hs): out is (3, B, NH, T, hs)")
def heads_with_b_in_front(code):
    code = replaced(code, "int b = i / (hs * T * NH) % B;", "int s = i / (hs * T * NH) % 3;")
    return replaced(code, "int s = i / (hs * T * NH * B);", "int b = i / (hs * T * NH * 3);")
