"""Answers to the exercises of lesson 14 as learners write them: right ones that look different, and wrong ones.

Each wrong answer carries words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 14` runs those of this lesson.
All are CUDA C: a function gets the solution's source and returns another.
"""

import re

from llmc.course.old.authoring.answers import replaced, right, wrong


def hole(code, text):
    """The source with other text in place of the solution."""
    before, rest = code.split("    // ### BEGIN SOLUTION\n")
    return before + text.strip("\n") + "\n" + rest.split("    // ### END SOLUTION\n")[1]


# --------------------------------------------------------------------------------------------- 1 bias_backward

ROWS = "for (int n = warp; n < N; n += warps) total += dout[(size_t)n * C + c];"
OTHERS = "for (int k = 1; k < warps; k++) total += partial[32 * k + lane];"
BARRIER = "    __syncthreads();\n"


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


@wrong("bias_backward", says="was overwritten instead of accumulated")
def bias_written(code):
    return replaced(code, "db[c] += total;", "db[c] = total;")


@wrong("bias_backward", says="without what warp 0 itself has found")
def bias_of_the_other_warps(code):
    return replaced(replaced(code, OTHERS, "total = 0.0f; " + OTHERS), "if (warp == 0 && c < C)", "if (c < C && !warp)")


@wrong("bias_backward", says="a block need not have 8 warps")
def bias_in_steps_of_eight(code):
    return replaced(code, ROWS, ROWS.replace("n += warps", "n += 8"))


@wrong("bias_backward", says="the sums without the last N % warps rows")
def bias_without_the_last_rows(code):
    return replaced(code, ROWS, ROWS.replace("n < N;", "n < N / warps * warps;"))


@wrong("bias_backward", says="loses some where the warps are no power of two")
def bias_by_halves(code):
    halves = """for (int half = warps / 2; half > 0; half /= 2) {
        if (warp < half) partial[threadIdx.x] += partial[threadIdx.x + 32 * half];
        __syncthreads();
    }
"""
    return replaced(replaced(code, BARRIER, BARRIER + halves), OTHERS, "total = partial[lane];")


@wrong("bias_backward", says="partial[lane * warps + k] added")
def bias_of_neighbouring_places(code):
    return replaced(code, OTHERS, "total = 0; for (int k = 0; k < warps; k++) total += partial[lane * warps + k];")


@wrong("bias_backward", says="with `partial[threadIdx.x] = total` in place of `partial[lane * warps + warp] = total`")
def bias_in_two_layouts(code):
    return replaced(code, "partial[threadIdx.x] = total;", "partial[lane * warps + warp] = total;")


@wrong("bias_backward", says="`blockIdx.x * 32 + lane` in place of `blockIdx.x * blockDim.x + lane`")
def bias_of_columns_too_far_apart(code):
    return replaced(code, "blockIdx.x * 32 + lane", "blockIdx.x * blockDim.x + lane")


@wrong("bias_backward", says="with `k < warps` in place of `k < 8`")
def bias_of_eight_warps(code):
    return replaced(code, "k < warps", "k < 8")


@wrong("bias_backward", says="race in shared memory")
def bias_without_a_barrier(code):
    return replaced(code, BARRIER, "")


@wrong("bias_backward", says="keeps some threads away: take the barrier out of the `if`.")
def bias_with_the_barrier_inside(code):
    return replaced(code, BARRIER, "    if (warp == 0) __syncthreads();\n")


@wrong("bias_backward", says="without the condition `c < C` in front of `for (n = warp; n < N; n += warps)`.")
def bias_without_a_check_of_its_column(code):
    return replaced(code, "    if (c < C) {\n", "    {\n")


@wrong("bias_backward", says="without the condition `c < C` in front of `for (k = 1; k < warps; k++)`.")
def bias_that_writes_beyond_the_columns(code):
    return replaced(code, "if (warp == 0 && c < C)", "if (warp == 0)")


@wrong("bias_backward", says="numbers are added by atomics, in whatever order")
def bias_by_atomics(code):
    return hole(
        code,
        """
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, c = blockIdx.x * 32 + lane;
    float total = 0.0f;
    for (int n = warp; n < N && c < C; n += blockDim.x / 32) total += dout[n * C + c];
    if (c < C) atomicAdd(&db[c], total);
""",
    )


@wrong("bias_backward", says="race in global memory")
def bias_added_by_all_warps(code):
    return replaced(code, "if (warp == 0 && c < C)", "if (c < C)")


@wrong("bias_backward", says="numbers of one array are handled by a single thread; the goal is at most 8")
def bias_of_one_warp(code):
    return hole(
        code,
        """
    int c = blockIdx.x * 32 + threadIdx.x;
    if (threadIdx.x >= 32 || c >= C) return;
    for (int n = 0; n < N; n++) partial[threadIdx.x] = (n ? partial[threadIdx.x] : 0.0f) + dout[n * C + c];
    db[c] += partial[threadIdx.x];
""",
    )


@wrong("bias_backward", says="wrong with 96: blockDim does not occur in the kernel.")
def bias_of_8_warps(code):
    return replaced(code, "warps = blockDim.x / 32", "warps = 256 / 32")


@wrong("bias_backward", says="with `N` in place of `C` in `dout[n * C + c]`")
def bias_with_a_stride_of_N(code):
    return replaced(code, "(size_t)n * C + c", "(size_t)n * N + c")


@wrong("bias_backward", says="the sums without the last row")
def bias_without_the_last_row(code):
    return replaced(code, "n < N;", "n < N - 1;")


@wrong("bias_backward", says="the sums of warp 0 alone")
def bias_without_the_other_warps(code):
    return replaced(code, OTHERS, "")


@wrong("bias_backward", says="of what global memory moves is used")
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


@wrong("bias_backward", says="dout read as if it were (C, N)")
def bias_of_the_transposed(code):
    return replaced(code, "(size_t)n * C + c", "(size_t)c * N + n")


@wrong("bias_backward", says="number `lane` of warp k is at 32 * k + lane")
def bias_from_other_places(code):
    return replaced(code, "partial[32 * k + lane]", "partial[k * warps + lane]")


@wrong("bias_backward", says="so a thread's column is blockIdx.x * 32 + lane")
def bias_with_a_column_for_each_thread(code):
    return replaced(code, "c = blockIdx.x * 32 + lane", "c = blockIdx.x * blockDim.x + threadIdx.x")


@wrong("bias_backward", says="in every turn, as an int holds them")
def bias_of_ints(code):
    return replaced(code, "float total = 0.0f;", "int total = 0;")


# ----------------------------------------------------------------------------------------------- 2 layernorm_dx

RESULT = "dx[c] += (dout[c] * w[c] - dnorms - norm * products) * r;"
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


@wrong("layernorm_dx", says="lane that takes no part, line 4, called at lines 21 and 25.")
def dx_with_a_warps_sum_in_the_loop(code):
    return replaced(code, "dnorms += dnorm;", "dnorms += warp_sum(dnorm);", "warp_sum(dnorms) / C", "dnorms / C")


@wrong("layernorm_dx", says="`w += (size_t)row * C;` in line 17")
def dx_with_a_w_for_each_row(code):
    return replaced(code, "    x += (size_t)row * C;\n", "    x += (size_t)row * C;\n    w += (size_t)row * C;\n")


@wrong("layernorm_dx", says="overwritten instead of accumulated")
def dx_written(code):
    return replaced(code, "dx[c] += (dout", "dx[c] = (dout")


@wrong("layernorm_dx", says="without the mean(dnorm) term")
def dx_without_the_first_mean(code):
    return replaced(code, " - dnorms - norm", " - norm")


@wrong("layernorm_dx", says="without the norm · mean(dnorm · norm) term")
def dx_without_the_second_mean(code):
    return replaced(code, " - norm * products)", ")")


@wrong("layernorm_dx", says="mean(dnorm · norm) not multiplied by norm")
def dx_with_the_second_mean_alone(code):
    return replaced(code, "norm * products)", "products)")


@wrong("layernorm_dx", says="with sums over C in place of means")
def dx_of_sums(code):
    return replaced(code, "warp_sum(dnorms) / C", "warp_sum(dnorms)", "warp_sum(products) / C", "warp_sum(products)")


@wrong("layernorm_dx", says="the reference without rstd")
def dx_without_rstd(code):
    return replaced(code, "norm * products) * r;", "norm * products);")


@wrong("layernorm_dx", says="means of dout in place of dnorm")
def dx_with_means_of_dout(code):
    return replaced(code, "float dnorm = dout[c] * w[c];", "float dnorm = dout[c];")


@wrong("layernorm_dx", says="in place of `v += __shfl_down_sync(0xffffffff, v, gap)` in line 4")
def dx_with_sums_in_lane_0(code):
    return replaced(code, SHUFFLE, "v += __shfl_down_sync(0xffffffff, v, gap);")


@wrong("layernorm_dx", says="`16` in place of `8` in line 4")
def dx_of_16_lanes(code):
    return replaced(code, "int gap = 16;", "int gap = 8;")


@wrong("layernorm_dx", says="Our solution does exactly the same without the check `if (row >= N)`")
def dx_without_a_check(code):
    return replaced(code, "    if (row >= N) return;\n", "")


@wrong("layernorm_dx", says="lane that takes no part")
def dx_whose_lanes_leave(code):
    return replaced(code, "if (row >= N) return;", "if (row >= N || lane >= C) return;")


@wrong("layernorm_dx", says="without the line `x += row * C`")
def dx_with_x_of_row_0(code):
    return replaced(code, "    x += (size_t)row * C;\n", "")


@wrong("layernorm_dx", says="One thread at a time asks for one number")
def dx_by_lane_0(code):
    code = code.replace("for (int c = lane; c < C; c += 32)", "for (int c = 0; c < C && lane == 0; c++)")
    return code


@wrong("layernorm_dx", says="barriers are passed by a block")
def dx_with_a_barrier(code):
    return replaced(code, "    if (row >= N) return;\n", "    __syncthreads();\n    if (row >= N) return;\n")


@wrong("layernorm_dx", says="the first sum divided by 32, not by C")
def dx_divided_by_the_lanes(code):
    return replaced(code, "warp_sum(dnorms) / C", "warp_sum(dnorms) / 32")


@wrong("layernorm_dx", says="own sums, divided by C")
def dx_of_each_lanes_own_sums(code):
    return replaced(code, "warp_sum(dnorms)", "dnorms", "warp_sum(products)", "products")


@wrong("layernorm_dx", says="mean[0] in place of mean[row]")
def dx_with_the_mean_of_row_0(code):
    return replaced(code, "float m = mean[row]", "float m = mean[0]")


@wrong("layernorm_dx", says="at one place, in the second mean or in front of it: rstd is missing there")
def dx_without_r_in_the_norm(code):
    return replaced(code, "float norm = (x[c] - m) * r;", "float norm = x[c] - m;")


@wrong("layernorm_dx", says="No result uses mean[1] to mean[4] or rstd[1] to rstd[4].")
def dx_with_the_mean_of_the_block(code):
    return replaced(code, "mean[row], r = rstd[row]", "mean[blockIdx.x], r = rstd[blockIdx.x]")


@wrong("layernorm_dx", says="mean(dout) in place of mean(dnorm): w is missing in the first sum")
def dx_with_a_first_sum_of_dout(code):
    return replaced(code, "dnorms += dnorm;", "dnorms += dout[c];")


@wrong("layernorm_dx", says="mean(dout · norm) in place of mean(dnorm · norm): w is missing in the second sum")
def dx_with_a_second_sum_of_dout(code):
    return replaced(code, "products += dnorm * ", "products += dout[c] * ")


# ----------------------------------------------------------------------------------------- 3 layernorm_partials

ADD_DW = "dw += d * (x[(size_t)n * C + c] - mean[n]) * rstd[n];"
STORE_DW = "partial[(size_t)(2 * blockIdx.x + 0) * C + c] = dw;"
STORE_DB = "partial[(size_t)(2 * blockIdx.x + 1) * C + c] = db;"


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


@wrong("layernorm_partials", says="and of dout · rstd: rstd belongs to norm, and db is the sum of dout")
def partials_with_rstd_in_dout(code):
    code = replaced(code, "float d = dout[(size_t)n * C + c];", "float d = dout[(size_t)n * C + c] * rstd[n];")
    return replaced(code, "- mean[n]) * rstd[n];", "- mean[n]);")


@wrong("layernorm_partials", says="dw is the first of each chunk")
def partials_swapped(code):
    return replaced(code, "= dw;", "= db_;", "= db;", "= dw;").replace("= db_;", "= db;")


@wrong("layernorm_partials", says="with x in place of norm")
def partials_with_x(code):
    return replaced(code, ADD_DW, "dw += d * x[(size_t)n * C + c];")


@wrong("layernorm_partials", says="without rstd in norm")
def partials_without_rstd(code):
    return replaced(code, " * rstd[n];", ";")


@wrong("layernorm_partials", says="norm is missing in dw")
def partials_without_norm(code):
    return replaced(code, ADD_DW, "dw += d;")


@wrong("layernorm_partials", says="all rows in every chunk")
def partials_of_all_rows(code):
    return replaced(code, "int n = blockIdx.x; n < N; n += gridDim.x", "int n = 0; n < N; n++")


@wrong("layernorm_partials", says="the block's first row alone.\n")
def partials_of_one_row(code):
    loop = "for (int n = blockIdx.x; n < N; n += gridDim.x) {"
    return replaced(code, loop, "for (int n = blockIdx.x; n < N && n < gridDim.x; n += gridDim.x) {")


@wrong("layernorm_partials", says="ninitialised")
def partials_added(code):
    return replaced(code, "= dw;", "+= dw;")


SHARES = "int n = blockIdx.x; n < N; n += gridDim.x"


@wrong("layernorm_partials", says="without the last 3 of 11 rows, N % gridDim.x")
def partials_of_whole_shares(code):
    first = "blockIdx.x * (N / gridDim.x)"
    return replaced(code, SHARES, f"int n = {first}; n < {first} + N / gridDim.x; n++")


@wrong("layernorm_partials", says="No result uses rows 9 to 10 of dout or rows 9 to 10 of x")
def partials_of_shares_that_overlap(code):
    first = "(int)blockIdx.x * (N / (int)gridDim.x)"
    return replaced(code, SHARES, f"int n = {first}; n < min(N, {first} + N / (int)gridDim.x + 1); n++")


@wrong("layernorm_partials", says="laid out as (gridDim.x, C, 2): first all numbers of dw, then all of db")
def partials_side_by_side(code):
    to_dw, to_db = (f"partial[(size_t)(2 * blockIdx.x + {k}) * C + c]" for k in (0, 1))
    beside = (f"partial[2 * ((size_t)blockIdx.x * C + c) + {k}]" for k in (0, 1))
    return replaced(code, to_dw, next(beside), to_db, next(beside))


@wrong("layernorm_partials", says="ever written")
def partials_without_db(code):
    return replaced(code, STORE_DB, "")


@wrong("layernorm_partials", says="race")
def partials_in_one_place(code):
    return code.replace("(2 * blockIdx.x + 0) * C", "0 * C").replace("(2 * blockIdx.x + 1) * C", "1 * C")


@wrong("layernorm_partials", says="ut of bounds")
def partials_two_columns_apart(code):
    return replaced(
        code,
        "(size_t)(2 * blockIdx.x + 1) * C + c",
        "2 * ((size_t)blockIdx.x * C + c) + 1",
        "(size_t)(2 * blockIdx.x + 0) * C + c",
        "2 * ((size_t)blockIdx.x * C + c) + 2",
    )


@wrong("layernorm_partials", says="ever written")
def partials_of_one_column_each(code):
    return replaced(code, "c < C; c += blockDim.x", "c < C && c < blockDim.x; c += blockDim.x")


@wrong("layernorm_partials", says="ut of bounds")
def partials_with_the_mean_of_the_column(code):
    return replaced(code, "mean[n]", "mean[c]")


@wrong("layernorm_partials", says="laid out as (2, gridDim.x, C)")
def partials_with_dw_of_all_blocks_first(code):
    return replaced(
        code, "(2 * blockIdx.x + 0) * C", "blockIdx.x * C", "(2 * blockIdx.x + 1) * C", "(gridDim.x + blockIdx.x) * C"
    )


@wrong("layernorm_partials", says="blocks 3 to 4 have no row of x, because there are only 3, and must write zeros")
def partials_written_inside_the_loop(code):
    stores = f"        {STORE_DW}\n        {STORE_DB}\n"
    code = replaced(code, stores, "")
    return replaced(code, "            db += d;\n", "            db += d;\n" + stores)


@wrong("layernorm_partials", says="writes go to numbers that another thread has written already")
def partials_of_threads_that_do_all(code):
    return replaced(code, "int c = threadIdx.x; c < C; c += blockDim.x", "int c = 0; c < C; c++")


@wrong("layernorm_partials", says="db goes on from one column of a thread to its next, 96 = blockDim.x further")
def partials_with_one_db_for_all_columns(code):
    code = replaced(code, "float dw = 0.0f, db = 0.0f;", "float dw = 0.0f;")
    return replaced(code, "    for (int c = threadIdx.x;", "    float db = 0.0f;\n    for (int c = threadIdx.x;")


@wrong("layernorm_partials", says="dw and db go on from one column of a thread to its next, 96 = blockDim.x further")
def partials_in_an_array_that_nobody_clears(code):
    code = replaced(code, "float dw = 0.0f, db = 0.0f;", "float& dw = sums[0]; float& db = sums[1];")
    return replaced(code, "    for (int c = threadIdx.x;", "    float sums[2] = {};\n    for (int c = threadIdx.x;")


@wrong("layernorm_partials", says="wrong only at indices 96 to 128, the last: those from blockDim.x = 96 on.")
def partials_of_one_turn_of_dout(code):
    return replaced(code, "float d = dout[(size_t)n * C + c];", "float d = dout[(size_t)n * C + c % blockDim.x];")


# ----------------------------------------------------------------------------------------- 4 embedding_backward

ADD_ROW = "total += dout[(size_t)order[k] * C + c];"


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


@wrong("layernorm_partials", says="Every thread of blocks 3 and 4 leaves on line")
def partials_of_blocks_that_return(code):  # they may not stay either, as they are: the first turn is always made
    loop = "for (int n = blockIdx.x; n < N; n += gridDim.x) {"
    assert loop in code
    at = code.index("{", code.index("__global__"))
    body = code[at + 1 :].replace(loop, "for (int n = blockIdx.x; n == blockIdx.x || n < N; n += gridDim.x) {")
    return f"{code[: at + 1]}\n    if (blockIdx.x >= N) return;{body}"


@wrong("embedding_backward", says="in place of `dwte[(size_t)token * C + c] = total` in line 12")
def embedding_written(code):
    return replaced(code, "+ c] += total;", "+ c] = total;")


@wrong("embedding_backward", says="rows k in place of order[k]")
def embedding_without_the_order(code):
    return replaced(code, ADD_ROW, "total += dout[(size_t)k * C + c];")


@wrong(
    "embedding_backward",
    says="the last row of each bucket alone",
)
def embedding_of_the_last_row(code):
    return replaced(code, ADD_ROW, ADD_ROW.replace("+=", "="))


@wrong("embedding_backward", says="its last place is starts[u + 1] - 1.")
def embedding_that_ends_early(code):
    return replaced(code, "k < end;", "k < end - 1;")


@wrong("embedding_backward", says="the mean of each bucket")
def embedding_of_means(code):
    return replaced(code, "+= total;", "+= total / (end - first);")


@wrong("embedding_backward", says="ut of bounds")
def embedding_beyond_the_bucket(code):
    return replaced(code, "starts[blockIdx.x + 1];", "starts[blockIdx.x + 2];")


@wrong("embedding_backward", says="bucket u belongs to tokens[order[starts[u]]]")
def embedding_in_the_buckets_row(code):
    return replaced(code, "dwte[(size_t)token * C + c]", "dwte[(size_t)blockIdx.x * C + c]")


@wrong("embedding_backward", says="that is a place, and order says which position is there")
def embedding_with_the_token_of_the_place(code):
    return replaced(code, "tokens[order[first]]", "tokens[first]")


@wrong("embedding_backward", says="numbers are added by atomics, in whatever order")
def embedding_by_atomics(code):
    body = """
    for (int k = starts[blockIdx.x]; k < starts[blockIdx.x + 1]; k++)
        for (int c = threadIdx.x; c < C; c += blockDim.x)
            atomicAdd(&dwte[tokens[order[k]] * C + c], dout[order[k] * C + c]);
"""
    return hole(code, body)


@wrong("embedding_backward", says="begin the loop on line 9 at `c = threadIdx.x`, in steps of blockDim.x")
def embedding_by_threads_that_do_all(code):
    return replaced(code, "int c = threadIdx.x; c < C; c += blockDim.x", "int c = 0; c < C; c++")


@wrong("embedding_backward", says="part of dwte was never written")
def embedding_with_too_few_columns(code):
    return replaced(code, "c < C; c += blockDim.x", "c < C && c < blockDim.x; c += blockDim.x")


@wrong("embedding_backward", says="what dwte held, which then counts twice")
def embedding_that_starts_with_the_row_and_adds(code):
    return replaced(code, "float total = 0.0f;", "float total = dwte[(size_t)token * C + c];")


@wrong("embedding_backward", says="each result is written 8 times, where once is enough")
def embedding_place_by_place(code):
    return hole(
        code,
        """
    int u = blockIdx.x;
    float* row = dwte + (size_t)tokens[order[starts[u]]] * C;
    for (int k = starts[u]; k != starts[u + 1]; ++k) {
        const float* d = dout + order[k] * C;
        for (int c = threadIdx.x; c < C; c += blockDim.x) row[c] += d[c];
    }
""",
    )


@wrong("embedding_backward", says="with 0 as the beginning of")
def embedding_from_the_first_place(code):
    return replaced(code, "int k = first;", "int k = 0;")


# ------------------------------------------------------------------------------------------- 5 partial_squares

ADD_SQUARE = "total += (double)values[i] * values[i];"
SHUFFLES = "for (int gap = 16; gap > 0; gap /= 2) total += __shfl_xor_sync(0xffffffff, total, gap);"


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


@wrong("partial_squares", says="as if a float held a sum")
def squares_in_a_float(code):
    return replaced(code, "double total = 0.0;", "float total = 0.0f;")


@wrong("partial_squares", says="the sum of the numbers, not of their squares")
def squares_not_squared(code):
    return replaced(code, ADD_SQUARE, "total += values[i];")


@wrong("partial_squares", says="stage two takes the root")
def squares_with_a_root(code):
    return replaced(code, "partial[blockIdx.x] = total;", "partial[blockIdx.x] = sqrt(total);")


@wrong("partial_squares", says="the other warps' sums are missing")
def squares_of_one_warp(code):
    return replaced(code, "k < warps;", "k < 1;")


@wrong("partial_squares", says="race in shared memory")
def squares_without_a_barrier(code):
    return replaced(code, "    __syncthreads();\n", "")


@wrong("partial_squares", says="the first turn alone")
def squares_of_one_turn(code):
    return replaced(code, "i < n; i += threads", "i < n && i < threads; i += threads")


@wrong("partial_squares", says="ut of bounds")
def squares_one_too_many(code):
    return replaced(code, "i < n;", "i <= n;")


@wrong("partial_squares", says="from the block's first on")
def squares_of_a_block_that_strides_alone(code):
    return replaced(code, "int threads = gridDim.x * blockDim.x;", "int threads = blockDim.x;")


@wrong("partial_squares", says="numbers are added by atomics, in whatever order")
def squares_by_atomics(code):
    tail = code[code.index("    if (lane == 0) sums") : code.index("    // ### END")]
    added = "    if (threadIdx.x == 0) sums[0] = 0.0;\n    __syncthreads();\n"
    added += "    if (lane == 0) atomicAdd(&sums[0], total);\n    __syncthreads();\n"
    return replaced(code, tail, added + "    if (threadIdx.x == 0) partial[blockIdx.x] = sums[0];\n")


@wrong("partial_squares", says="`16` in place of `8` in line 13")
def squares_without_the_first_gap(code):
    return replaced(code, "int gap = 16;", "int gap = 8;")


@wrong("partial_squares", says="the sum over all blocks is right, but partial[0] is not the one that the task asks for")
def squares_of_neighbours(code):
    shares = "int threads = gridDim.x * blockDim.x, each = (n + threads - 1) / threads;\n"
    shares += "    int first = (blockIdx.x * blockDim.x + threadIdx.x) * each;"
    loop = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)"
    code = replaced(code, "int threads = gridDim.x * blockDim.x;", shares)
    return replaced(code, loop, "for (int i = first; i < n && i < first + each; i++)")


@wrong("partial_squares", says="writes go to numbers that another thread has written already")
def squares_written_by_all(code):
    tail = (
        "    double sum = 0.0;\n    for (int k = 0; k < warps; k++) sum += sums[k];\n    partial[blockIdx.x] = sum;\n"
    )
    cut = code[code.index("    if (threadIdx.x == 0) {") : code.index("    // ### END")]
    return replaced(code, cut, tail)


# ---------------------------------------------------------------------------------- 6 fused_layernorm_backward

FUSED_DW = "dw[k].x += d.x * v.x, dw[k].y += d.y * v.y, dw[k].z += d.z * v.z, dw[k].w += d.w * v.w;"
FUSED_DB = "db[k].x += d.x, db[k].y += d.y, db[k].z += d.z, db[k].w += d.w;"


@right("fused_layernorm_backward")
def fused_from_the_last_warp(code):
    turns = code[code.index("    for (int turn") : code.index("    for (int i = threadIdx.x; i < 2 * quads")]
    loop = """
    for (int from = 7; from >= 0; from--) {
        if (warp == from) {
            #pragma unroll
            for (int k = 0; k < 8; k++) {
                int i = lane + 32 * k;
                if (i >= quads) continue;
                sums[i] = from < 7 ? plus(sums[i], dw[k]) : dw[k];
                sums[quads + i] = from < 7 ? plus(sums[quads + i], db[k]) : db[k];
            }
        }
        __syncthreads();
    }
"""
    plus = "__device__ float4 plus(float4 a, float4 b)\n{\n    "
    plus += "return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);\n}\n"
    return plus + replaced(code, turns, loop)


@right("fused_layernorm_backward")
def fused_that_reads_w_once(code):
    first = "norm[8], dnorm[8], weights[8];\n"
    first += "    for (int k = 0; k < 8; k++)\n"
    first += "        if (lane + 32 * k < quads) weights[k] = ((const float4*)w)[lane + 32 * k];\n"
    return replaced(code, "norm[8], dnorm[8];\n", first, "s = ((const float4*)w)[i];", "s = weights[k];")


@right("fused_layernorm_backward")
def fused_that_adds_to_components(code):
    turns = code[code.index("            float4 p = dw[k], q") : code.index("        }\n        __syncthreads();")]
    add = "            if (turn == 0) sums[i] = sums[quads + i] = make_float4(0, 0, 0, 0);\n"
    add += "            add4(sums[i], dw[k]);\n            add4(sums[quads + i], db[k]);\n"
    add4 = "__device__ void add4(float4& a, float4 b)\n{\n    "
    add4 += "a.x += b.x;\n    a.y += b.y;\n    a.z += b.z;\n    a.w += b.w;\n}\n"
    return add4 + replaced(code, turns, add)


@wrong("fused_layernorm_backward", says="w belongs to dx, and dw is the sum of dout · norm")
def fused_dw_with_w(code):
    dw = "dw[k].{0} += d.{0} * s.{0} * v.{0}"
    return replaced(code, FUSED_DW, ", ".join(dw.format(slot) for slot in "xyzw") + ";")


@wrong("fused_layernorm_backward", says="of dout · norm and of dout · w: w belongs to dx, and db is the sum of dout")
def fused_db_with_w(code):
    db = re.search(r"db\[k\]\.x \+= d\.x.*;\n", code)[0]
    return replaced(code, db, "", "            dnorms += d.x + d.y", f"            {db}            dnorms += d.x + d.y")


@wrong("fused_layernorm_backward", says="Right with C up to 132; this launch is the first with C = 1024.")
def fused_with_room_for_768_columns(code):
    return code.replace("[8]", "[6]").replace("k < 8", "k < 6")


@wrong("fused_layernorm_backward", says="the last row of each warp alone")
def fused_sums_of_the_last_row(code):
    head = "for (int row = blockIdx.x * 8 + warp; row < N; row += gridDim.x * 8) {\n"
    return replaced(code, head, head + "        for (int k = 0; k < 8; k++) dw[k] = db[k] = make_float4(0, 0, 0, 0);\n")


@wrong("fused_layernorm_backward", says="the last row of each warp alone")
def fused_sums_that_are_assigned(code):
    return re.sub(r"(d[wb]\[k\]\.[xyzw]) \+=", r"\1 =", code)


@wrong("fused_layernorm_backward", says="outside the `if` on line 42, so that all threads reach it. The same")
def fused_with_one_barrier_after_all_turns(code):
    turns = code[code.index("    for (int turn") : code.index("    for (int i = threadIdx.x; i < 2 * quads")]
    return replaced(code, turns, LATE)


LATE = """
    for (int turn = 0; turn < 8; turn++) {
        if (warp == turn) {
            for (int k = 0; k < 8; k++) {
                int i = lane + 32 * k;
                if (i >= quads) break;
                if (turn == 0) {
                    sums[i] = dw[k], sums[quads + i] = db[k];
                } else {
                    float4 u = sums[i], v = sums[quads + i], p = dw[k], q = db[k];
                    sums[i] = make_float4(u.x + p.x, u.y + p.y, u.z + p.z, u.w + p.w);
                    sums[quads + i] = make_float4(v.x + q.x, v.y + q.y, v.z + q.z, v.w + q.w);
                }
            }
        }
    }
    __syncthreads();
"""


@wrong("fused_layernorm_backward", says="but gridDim is no part of its step")
def fused_that_steps_without_the_grid(code):
    return replaced(code, "row += gridDim.x * 8", "row += 8")


@wrong("fused_layernorm_backward", says="brings both threads to `row` = 2: the first begins with 2, the other with 0")
def fused_that_steps_by_single_rows(code):
    return replaced(code, "row += gridDim.x * 8", "row += gridDim.x")


@wrong("fused_layernorm_backward", says="begins with `row` = 1 for both threads: in `blockIdx.x + warp`")
def fused_that_begins_at_neighbouring_rows(code):
    return replaced(code, "row = blockIdx.x * 8 + warp;", "row = blockIdx.x + warp;")


@wrong("fused_layernorm_backward", says="with each lane's own second sum, of dnorm · norm")
def fused_products_not_added_up(code):
    return replaced(code, "            products += __shfl_xor_sync(0xffffffff, products, gap);\n", "")


@right("fused_layernorm_backward")
def fused_whose_warps_lie_a_grid_apart(code):
    return replaced(code, "row = blockIdx.x * 8 + warp;", "row = blockIdx.x + gridDim.x * warp;")


@wrong(
    "fused_layernorm_backward", says="in different turns: the first has quads = 33, lane = 1 and k = 0, the other has"
)
def fused_sums_one_place_further(code):
    return replaced(code, "sums[quads + i] = make_float4", "sums[quads + lane + k] = make_float4")


@wrong("fused_layernorm_backward", says="laid out as (2, gridDim.x, C)")
def fused_in_another_layout(code):  # `old` is set by a function
    load = "__device__ void load(float* to, float4 q)\n{\n    to[0] = q.x, to[1] = q.y, to[2] = q.z, to[3] = q.w;\n}\n"
    start, end = code.index("            float4 old = dx4[i]"), code.index("        }\n    }\n    for (int turn")
    added = "            float old[4];\n            load(old, dx4[i]);\n            float4 d = dnorm[k], v = norm[k];\n"
    added += "".join(f"            old[{k}] += (d.{slot} - a - v.{slot} * b) * r;\n" for k, slot in enumerate("xyzw"))
    added += "            dx4[i] = make_float4(old[0], old[1], old[2], old[3]);\n"
    there = "((float4*)partial)[(size_t)blockIdx.x * 2 * quads + i]"
    place = "((float4*)partial)[(size_t)(i / quads * gridDim.x + blockIdx.x) * quads + i % quads]"
    return load + replaced(code[:start] + added + code[end:], there, place)


@wrong("fused_layernorm_backward", says="overwritten instead of accumulated")
def fused_written(code):
    return replaced(code, "float4 old = dx4[i], d", "float4 old = make_float4(0, 0, 0, 0), d")


@wrong("fused_layernorm_backward", says="a quarter of the numbers")
def fused_means_of_one_of_four(code):
    return replaced(
        code,
        "dnorms += d.x + d.y + d.z + d.w;",
        "dnorms += d.x;",
        "products += d.x * v.x + d.y * v.y + d.z * v.z + d.w * v.w;",
        "products += d.x * v.x;",
    )


@wrong("fused_layernorm_backward", says="divided by C / 4, not by C")
def fused_means_of_quads(code):
    return replaced(code, "a = dnorms / C, b = products / C", "a = dnorms / quads, b = products / quads")


@wrong("fused_layernorm_backward", says="outside the loop on line 41, so that all threads reach it")
def fused_warps_all_at_once(code):
    turn = "        __syncthreads();\n    }\n    for (int i = threadIdx.x"
    return replaced(code, turn, "    }\n    __syncthreads();\n    for (int i = threadIdx.x")


@wrong("fused_layernorm_backward", says="This element is written only after that, by the same thread")
def fused_without_a_beginning(code):
    return replaced(code, "turn ? sums[i] : zero", "sums[i]", "turn ? sums[quads + i] : zero", "sums[quads + i]")


@wrong("fused_layernorm_backward", says="numbers are added by atomics, in whatever order")
def fused_by_atomics(code):
    turns = code[code.index("    for (int turn") : code.index("    for (int i = threadIdx.x; i < 2 * quads")]
    atomics = """
    for (int i = threadIdx.x; i < 2 * quads; i += 256) sums[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    __syncthreads();
    float* flat = (float*)sums;
    for (int k = 0; k < 8; k++) {
        for (int j = 0; j < 4 && lane + 32 * k < quads; j++) {
            int c = 4 * (lane + 32 * k) + j;
            atomicAdd(&flat[c], ((float*)&dw[k])[j]);
            atomicAdd(&flat[C + c], ((float*)&db[k])[j]);
        }
    }
    __syncthreads();
"""
    return replaced(code, turns, atomics)


@wrong("fused_layernorm_backward", says="nothing sets `dw` and `db` before your kernel adds to them")
def fused_onto_anything(code):
    return replaced(code, "dw[8] = {}, db[8] = {},", "dw[8], db[8],")


@wrong("fused_layernorm_backward", says="without `if (blockIdx.x * 8 + warp >= N) return;` in line 10")
def fused_whose_warps_return(code):
    rows = "    for (int row = blockIdx.x * 8 + warp; row < N;"
    return replaced(code, rows, "    if (blockIdx.x * 8 + warp >= N) return;\n" + rows)


@wrong("fused_layernorm_backward", says="line 10 lets whole blocks return. With N = 3 rows, blocks 1 to 4")
def fused_whose_blocks_return(code):  # all warps of a block that has rows stay
    rows = "    for (int row = blockIdx.x * 8 + warp; row < N;"
    return replaced(code, rows, "    if ((int)blockIdx.x * 8 >= N) return;\n" + rows)


@wrong("fused_layernorm_backward", says="norm is missing in dw")
def fused_dw_without_norm(code):
    return replaced(code, FUSED_DW, FUSED_DB.replace("db", "dw"))


@wrong("fused_layernorm_backward", says="dw is the first of each chunk")
def fused_swapped(code):
    return replaced(code, "float4 p = dw[k], q = db[k]", "float4 p = db[k], q = dw[k]")


@wrong("fused_layernorm_backward", says="dnorm = dout · w in place of dout")
def fused_sums_of_dnorm(code):
    added = f"            {FUSED_DW}\n            {FUSED_DB}\n"
    dnorm = "            d = make_float4(d.x * s.x, d.y * s.y, d.z * s.z, d.w * s.w);\n"
    return replaced(code, added + dnorm, dnorm + added)


@wrong("fused_layernorm_backward", says="part of dx was never written")
def fused_one_row_a_warp(code):
    return replaced(code, "row < N; row += gridDim.x * 8", "row < N && row < gridDim.x * 8; row += gridDim.x * 8")


@wrong("fused_layernorm_backward", says="sectors of 32 bytes are moved")
def fused_that_reads_twice(code):
    return replaced(
        code,
        "float4 old = dx4[i], d = dnorm[k], v = norm[k];",
        "float4 old = dx4[i], d = d4[i], v = x4[i], s = ((const float4*)w)[i];\n"
        "            v = make_float4((v.x - m) * r, (v.y - m) * r, (v.z - m) * r, (v.w - m) * r);\n"
        "            d = make_float4(d.x * s.x, d.y * s.y, d.z * s.z, d.w * s.w);",
    )


@wrong("fused_layernorm_backward", says="without the factor `2` in `for (… = threadIdx.x; … < 2 * quads; … += block")
def fused_without_db(code):
    return replaced(code, "i < 2 * quads; i += blockDim.x", "i < quads; i += blockDim.x")


@wrong("fused_layernorm_backward", says="without the mean(dnorm) term")
def fused_without_a_mean(code):
    return code.replace(" - a - v.", " - v.")


@wrong("fused_layernorm_backward", says=".w left out of the first mean")
def fused_without_the_fourth(code):
    return replaced(code, "dnorms += d.x + d.y + d.z + d.w;", "dnorms += d.x + d.y + d.z;")


@wrong("fused_layernorm_backward", says="partial equals the reference, except for .y of each float4 of dw")
def fused_with_x_for_y(code):
    return replaced(code, "dw[k].y += d.y * v.y", "dw[k].y += d.x * v.y")


@wrong("partial_squares", says="as if a float held a sum: next to a large sum, it loses small squares.")
def squares_shuffled_as_floats(code):
    return replaced(
        code,
        "total += __shfl_xor_sync(0xffffffff, total, gap);",
        "total += __shfl_xor_sync(0xffffffff, (float)total, gap);",
    )


@wrong("layernorm_dx", says="`products = warp_sum(products) / C` in place of")
def dx_with_the_products_of_lane_0(code):
    return replaced(code, "warp_sum(products)", "__shfl_sync(0xffffffff, products, 0)")


@wrong(
    "embedding_backward",
    says="dwte is written in 32 columns, as many as the block has threads: a loop from threadIdx.x",
)
def embedding_of_one_column_a_thread(code):
    return replaced(
        code, "for (int c = threadIdx.x; c < C; c += blockDim.x) {", "if (int c = threadIdx.x; threadIdx.x < C) {"
    )


@wrong(
    "embedding_backward", says="It depends on `token`: line 7 looks it up, in `tokens[order[u]]`. Does it look where it"
)
def buckets_looked_up_by_their_own_number(code):
    body = """
    int u = blockIdx.x;
    int token = tokens[order[u]];
    float* row = dwte + (size_t)token * C;
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        float sum = 0.0f;
        for (int k = starts[u]; k < starts[u + 1]; k++) sum += dout[(size_t)order[k] * C + c];
        row[c] += sum;
    }
"""
    return hole(code, body)


# ---------------------------------------------------------------------------- 7 divisions and formulas


@wrong("bias_backward", says="warp 0 counted twice")
def bias_with_warp_0_twice(code):
    return replaced(code, "for (int k = 1; k < warps; k++)", "for (int k = 0; k < warps; k++)")


@wrong("bias_backward", says="the sums of all rows, from every warp")
def bias_of_all_rows_from_every_warp(code):
    return replaced(code, "for (int n = warp; n < N; n += warps)", "for (int n = 0; n < N; n++)")


@wrong("bias_backward", says="the sums of rows warp, warp + blockDim.x, …")
def bias_of_the_first_rows(code):
    return replaced(code, "for (int n = warp; n < N; n += warps)", "for (int n = warp; n < N; n += blockDim.x)")


@wrong("layernorm_dx", says="in the second mean or in front of it: rstd is missing there")
def dx_with_a_norm_that_is_not_scaled_in_the_sum(code):
    return replaced(code, "dnorm * (x[c] - m) * r;", "dnorm * (x[c] - m);")


@wrong("layernorm_dx", says="in front of the means")
def dx_with_dout_in_front(code):
    return replaced(code, "(dout[c] * w[c] - dnorms", "(dout[c] - dnorms")


@wrong("layernorm_dx", says="norm = x · rstd - mean")
def dx_with_a_slipped_bracket(code):
    code = replaced(code, "dnorm * (x[c] - m) * r;", "dnorm * (x[c] * r - m);")
    return replaced(code, "float norm = (x[c] - m) * r;", "float norm = x[c] * r - m;")


@wrong("layernorm_dx", says="dnorm is what line 20 has given it in the last turn of the loop on line 19.")
def dx_with_the_dnorm_of_the_last_column(code):
    code = replaced(code, "products = 0.0f;", "products = 0.0f, dnorm;", "float dnorm = dout", "dnorm = dout")
    return replaced(code, "(dout[c] * w[c] - dnorms", "(dnorm - dnorms")


@wrong("layernorm_dx", says="the two means exchanged")
def dx_with_the_means_exchanged(code):
    return replaced(code, "- dnorms - norm * products", "- products - norm * dnorms")


@wrong("layernorm_partials", says="norm = x · rstd - mean")
def partials_whose_norm_has_a_slipped_bracket(code):
    return replaced(code, "(x[(size_t)n * C + c] - mean[n]) * rstd[n]", "(x[(size_t)n * C + c] * rstd[n] - mean[n])")


@wrong("layernorm_partials", says="every row from the block's first on")
def partials_of_all_rows_from_the_first_on(code):
    return replaced(code, "n += gridDim.x", "n++")


@wrong("embedding_backward", says="`tokens[order[first]]` in place of `tokens[order[blockIdx.x]]`")
def embeddings_of_the_token_at_place_u(code):
    return replaced(code, "int token = tokens[order[first]];", "int token = tokens[order[blockIdx.x]];")


@wrong("embedding_backward", says="once for each of its positions")
def embeddings_of_the_first_position_again(code):
    return replaced(code, "dout[(size_t)order[k] * C + c]", "dout[(size_t)order[first] * C + c]")


@wrong("partial_squares", says="warp 0 counted twice")
def squares_with_warp_0_twice(code):
    return replaced(code, "for (int k = 1; k < warps; k++)", "for (int k = 0; k < warps; k++)")


@wrong("partial_squares", says="what lane 0 of each warp has")
def squares_of_lane_0(code):
    return replaced(code, "for (int gap = 16; gap > 0; gap /= 2) total += __shfl_xor_sync(0xffffffff, total, gap);", "")


@wrong("partial_squares", says="from the block's first on")
def squares_in_steps_of_a_block(code):
    return replaced(code, "i += threads)", "i += blockDim.x)")


@wrong("embedding_backward", says="passes this whole check with `dwte + (size_t)tokens[order[first]] * C` in place of")
def embeddings_whose_row_is_that_of_the_place_u(code):
    code = replaced(
        code, "int token = tokens[order[first]];", "float* row = dwte + (size_t)tokens[order[blockIdx.x]] * C;"
    )
    return replaced(code, "dwte[(size_t)token * C + c] += total;", "row[c] += total;")


@wrong(
    "fused_layernorm_backward", says="where only those meet whose turn it is: put `__syncthreads();` behind the `if`"
)
def fused_with_a_barrier_in_each_turn_alone(code):
    loop = "for (int k = 0; k < 8 && warp == turn; k++) {"
    code = replaced(code, loop, f"if (warp == turn) {{\n        {loop.replace(' && warp == turn', '')}")
    return replaced(
        code, "        }\n        __syncthreads();\n    }\n", "        }\n        __syncthreads();\n        }\n    }\n"
    )


@wrong("embedding_backward", says="Each thread then needs all turns of the loop on line 7")
def embedding_of_shared_places(code):
    body = """
    int first = starts[blockIdx.x], end = starts[blockIdx.x + 1], token = tokens[order[first]];
    for (int k = first + threadIdx.x; k < end; k += blockDim.x) {
        for (int c = 0; c < C; c++) dwte[(size_t)token * C + c] += dout[(size_t)order[k] * C + c];
    }
"""
    return hole(code, body)


@wrong("layernorm_partials", says="divided by how many rows the block has: these are sums, to be added up later")
def partials_that_are_means(code):
    code = replaced(code, "float dw = 0.0f, db = 0.0f;", "float dw = 0.0f, db = 0.0f;\n        int rows = 0;")
    code = replaced(code, "n += gridDim.x)", "n += gridDim.x, rows++)")
    first, means = "partial[(size_t)(2 * blockIdx.x + 0)", "if (rows > 0) {\n dw /= rows;\n db /= rows;\n }\n"
    return replaced(code, first, f"{means}        {first}")


@wrong("layernorm_dx", says="the mean of the lanes' own means, which are of different counts")
def dx_of_means_of_means(code):
    return replaced(
        code,
        "float dnorms = 0.0f",
        "int count = lane < C ? (C - lane + 31) / 32 : 1;\n    float dnorms = 0.0f",
        "warp_sum(dnorms) / C",
        "warp_sum(dnorms / count) / 32",
        "warp_sum(products) / C",
        "warp_sum(products / count) / 32",
    )


@wrong("bias_backward", says="write the same element in line 13, and no barrier in front of that line")
def warps_that_add_in_one_row_of_shared_memory(code):
    return replaced(code, "partial[threadIdx.x] = total;", "partial[lane] += total;")


@wrong("bias_backward", says="it should depend on numbers from dout[0, 0] to dout[10, 0].\n→ Where to look")
def tree_of_whole_rows_for_any_number_of_warps(code):
    return r"""
// db: (C,), added to. dout: (N, C). A block for every 32 columns; blockDim.x is a multiple of 32.
extern "C" __global__ void bias_backward(float* db, const float* dout, int N, int C)
{
    extern __shared__ float partial[];  // (blockDim.x,)
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    int c = blockIdx.x * 32 + lane;
    float total = 0.0f;
    if (c < C) {
        for (int n = warp; n < N; n += warps) total += dout[(size_t)n * C + c];
    }
    partial[threadIdx.x] = total;
    __syncthreads();
    for (int half = blockDim.x / 2; half >= 32; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (warp == 0 && c < C) db[c] += partial[lane];
}
"""


@wrong("partial_squares", says="every third one; it should.\n→ Where to look")
def tree_that_threads_leave_for_96_of_them(code):
    return r"""
// partial: (gridDim.x,) double, written. values: (n,). blockDim.x is a multiple of 32, at most 1024.
extern "C" __global__ void partial_squares(double* partial, const float* values, int n)
{
    __shared__ double sums[32];  // one of each warp
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    int threads = gridDim.x * blockDim.x;
    double total = 0.0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
        total += (double)values[i] * values[i];
    }
    __shared__ double tree[1024];
    int t = threadIdx.x;
    tree[t] = total;
    __syncthreads();
    for (int half = blockDim.x / 2; t < half; half /= 2) {
        tree[t] += tree[t + half];
        __syncthreads();
    }
    if (t == 0) partial[blockIdx.x] = tree[0];
}
"""
