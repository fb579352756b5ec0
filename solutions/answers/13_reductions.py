"""Answers to the exercises of lesson 13 as learners write them: right ones that look different, and wrong ones.

Each wrong answer carries words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 13` runs those of this lesson.
All are CUDA C: a function gets the solution's source and returns another.
"""

from llmc.course.old.authoring.answers import replaced, right, wrong

BARRIER = "        __syncthreads();\n"
MASK = "0xffffffff"


def holes(code, *texts):
    """The source with other text in place of each solution, one for each hole."""
    filled, inside, texts = [], False, iter(texts)
    for line in code.split("\n"):
        if "### BEGIN SOLUTION" in line:
            inside = True
            filled += next(texts).strip("\n").split("\n")
        elif "### END SOLUTION" in line:
            inside = False
        elif not inside:
            filled.append(line)
    return "\n".join(filled)


# -------------------------------------------------------------------------------------------------- 1 tree_sum

LOOP = """    for (int c = t; c < C; c += blockDim.x) {
        sum += x[c];
    }
"""
STEP = """        if (t < half) {
            partial[t] += partial[t + half];
        }
        __syncthreads();
"""
HALVES = "for (int half = blockDim.x / 2; half > 0; half /= 2)"


@right("tree_sum")
def tree_with_while(code):
    return holes(
        code,
        """
    partial[t] = 0;
    for (unsigned c = t; c < (unsigned)C; c += blockDim.x)
        partial[t] += x[c];
    unsigned n = blockDim.x;
    while (n > 1) {
        __syncthreads();
        n >>= 1;
        if (t < n) partial[t] = partial[t] + partial[t + n];
    }
    if (threadIdx.x == 0) *(out + blockIdx.x) = *partial;
""",
    )


@right("tree_sum")
def tree_that_ends_in_shuffles(code):
    return holes(
        code,
        """
    float v = 0.0f;
    for (int c = t; c < C; c += blockDim.x) v += x[c];
    for (int gap = 16; gap > 0; gap >>= 1) v += __shfl_down_sync(0xffffffff, v, gap);
    if (t % 32 == 0) partial[t / 32] = v;
    __syncthreads();
    if (t == 0) {
        v = 0.0f;
        for (int k = 0; k < blockDim.x / 32; k++) v += partial[k];
        out[blockIdx.x] = v;
    }
""",
    )


@right("tree_sum")
def tree_of_one_warp(code):
    return holes(
        code,
        """
    float sum = 0.0f;
    for (int c = t; c < C; c += blockDim.x) sum += x[c];
    partial[t] = sum;
    __syncthreads();
    if (t < 32) {
        sum = 0.0f;
        for (int k = t; k < blockDim.x; k += 32) sum += partial[k];
        for (int gap = 1; gap < 32; gap *= 2) sum += __shfl_xor_sync(0xffffffff, sum, gap);
        if (t == 31) out[blockIdx.x] = sum;
    }
""",
    )


@right("tree_sum")
def tree_of_warps_that_add_by_atomics(code):
    return holes(
        code,
        """
    __shared__ float total;
    if (t == 0) total = 0.0f;
    __syncthreads();
    float v = 0.0f;
    for (int c = t; c < C; c += blockDim.x) v += x[c];
    for (int gap = 16; gap > 0; gap >>= 1) v += __shfl_xor_sync(0xffffffff, v, gap);
    if (t % 32 == 0) atomicAdd(&total, v);
    __syncthreads();
    if (t == 0) out[blockIdx.x] = total;
""",
    )


ONE_PLACE = """
    float sum = 0.0f;
    for (int c = t; c < C; c += blockDim.x) sum += x[c];
    if (t == 0) partial[0] = 0.0f;
    __syncthreads();
    atomicAdd(&partial[0], sum);
    __syncthreads();
    if (t == 0) out[blockIdx.x] = partial[0];
"""
OF_A_WARP = """
    float sum = 0.0f;
    for (int c = t; c < C; c += blockDim.x) sum += x[c];
    for (int gap = 16; gap > 0; gap /= 2) sum += __shfl_down_sync(0xffffffff, sum, gap);
    if (t == 0) out[blockIdx.x] = sum;
"""


@wrong("tree_sum", says="with `t == 0` in place of `t == 0 && blockIdx.x < N - 1` in line 21")
def tree_without_the_last_row(code):
    return replaced(code, "    if (t == 0) {", "    if (t == 0 && blockIdx.x < N - 1) {")


@wrong("tree_sum", says="`t` in place of `t + blockDim.x` in line 10")
def tree_without_its_first_numbers(code):
    return replaced(code, "int c = t; c", "int c = t + blockDim.x; c")


@wrong("tree_sum", says="with `threadIdx.x` in place of `blockIdx.x` in `out[blockIdx.x]`")
def tree_whose_blocks_all_write_one_number(code):
    return replaced(code, "out[blockIdx.x] = partial[0]", "out[t] = partial[0]")


@wrong("tree_sum", says="atomic operations go to shared memory; the goal is at most 16")
def tree_of_atomics(code):
    return holes(code, ONE_PLACE)


@wrong("tree_sum", says="the sum of what the first 32 threads have: what the others have is missing")
def tree_of_the_first_warp(code):
    return holes(code, OF_A_WARP)


@wrong("tree_sum", says="each cut to a whole number in every turn, as an int holds it")
def tree_of_ints(code):
    return replaced(code, "float sum = 0.0f;", "int sum = 0;")


@wrong("tree_sum", says="the sum without the first number of the row")
def tree_that_begins_at_1(code):
    return replaced(code, "int c = t;", "int c = t + 1;")


@wrong("tree_sum", says="each result is written 256 times")
def tree_written_by_everybody(code):
    return replaced(code, "if (t == 0) {", "{")  # every thread writes the same number


@wrong("tree_sum", says="One thread at a time asks for one number")
def tree_of_one_thread(code):
    alone = "    if (t > 0) return;\n    float sum = 0.0f;\n    for (int c = 0; c < C; c++) sum += x[c];\n"
    return holes(code, alone + "    out[blockIdx.x] = sum;\n")


@wrong("tree_sum", says="All threads of a warp ask for the same number")
def tree_of_threads_that_do_all(code):
    each = "    float sum = 0.0f;\n    for (int c = 0; c < C; c++) sum += x[c];\n"
    return holes(code, each + "    if (t == 0) out[blockIdx.x] = sum;\n")


@wrong("tree_sum", says="the warps read from global memory 256 times a row, where 32 times are enough")
def tree_of_warps_that_do_all(code):
    each = "    float sum = 0.0f;\n    for (int c = t % 32; c < C; c += 32) sum += x[c];\n"
    each += "    for (int gap = 16; gap > 0; gap /= 2) sum += __shfl_xor_sync(0xffffffff, sum, gap);\n"
    return holes(code, each + "    if (t == 0) out[blockIdx.x] = sum;\n")


@wrong("tree_sum", says="requests a row to shared memory, where a tree makes about 50")
def tree_added_up_by_thread_0(code):
    added = "    float sum = 0.0f;\n    for (int c = t; c < C; c += blockDim.x) sum += x[c];\n"
    added += "    partial[t] = sum;\n    __syncthreads();\n    if (t == 0) {\n        sum = 0.0f;\n"
    return holes(
        code,
        added + "        for (int k = 0; k < blockDim.x; k++) sum += partial[k];\n"
        "        out[blockIdx.x] = sum;\n    }\n",
    )


@wrong("tree_sum", says="race in shared memory")
def tree_without_a_barrier_in_the_loop(code):
    return replaced(code, STEP, STEP.replace(BARRIER, ""))


@wrong("tree_sum", says="race in shared memory")
def tree_without_the_first_barrier(code):
    return replaced(code, "partial[t] = sum;\n    __syncthreads();", "partial[t] = sum;")


@wrong("tree_sum", says="keeps some threads away: end the `if` before it.")
def tree_with_the_barrier_inside_of_if(code):
    inside = "            partial[t] += partial[t + half];\n    " + BARRIER
    return replaced(code, STEP, "        if (t < half) {\n" + inside + "        }\n")


@wrong("tree_sum", says="shared memory ends before this place")
def tree_from_the_whole_block(code):
    return replaced(code, HALVES, "for (int half = blockDim.x; half > 0; half /= 2)")


@wrong("tree_sum", says="passes this whole check with `t < half && t + half < blockDim.x` in place of")
def tree_with_one_thread_too_many(code):
    return replaced(code, "if (t < half) {", "if (t <= half && t + half < blockDim.x) {")


@wrong("tree_sum", says="the launch, which is given, has enough, so the index is too large. This thread has t = 224.")
def tree_that_begins_with_the_whole_block(code):
    return replaced(code, "half = blockDim.x / 2", "half = blockDim.x")


@wrong(
    "tree_sum", says="thread 0 reads x[0] (row 0, column 0) and thread 1 x[4] (row 0, column 4). Neighbouring threads"
)
def tree_of_pieces_side_by_side(code):
    pieces = (
        "int per = (C + blockDim.x - 1) / blockDim.x;\n    for (int c = t * per; c < (t + 1) * per && c < C; c++) {"
    )
    return replaced(code, "for (int c = t; c < C; c += blockDim.x) {", pieces)


@wrong("tree_sum", says="Do threads leave by the `return` on line 9 before they have written theirs?")
def tree_that_threads_without_a_number_leave(code):
    return replaced(code, "    float sum = 0.0f;\n", "    if (t >= C) return;\n    float sum = 0.0f;\n")


@wrong("tree_sum", says="does it assume how many threads a block has")
def tree_of_256_threads(code):
    return replaced(code, HALVES, "for (int half = 256 / 2; half > 0; half /= 2)")


@wrong("tree_sum", says="in steps of blockDim.x no number is left out.")
def tree_with_a_stride_of_256(code):
    return replaced(code, "c += blockDim.x", "c += 256")


@wrong("tree_sum", says="the sum of the first blockDim.x numbers")
def tree_of_one_number_each(code):
    return replaced(code, LOOP, "    if (t < C) sum = x[t];\n")


@wrong("tree_sum", says="another element should be read. Line 13 writes partial only where `t < C`.")
def tree_with_holes_in_it(code):
    return replaced(code, "partial[t] = sum;", "if (t < C) partial[t] = sum;")


@wrong("tree_sum", says="At other turns they are 4, 8, 16, … apart. Let neighbouring lanes take")
def tree_of_neighbours(code):
    pairs = "        if (2 * step * t < blockDim.x) partial[2 * step * t] += partial[2 * step * t + step];\n"
    return replaced(code, HALVES, "for (int step = 1; step < blockDim.x; step *= 2)", STEP, pairs + BARRIER)


@wrong("tree_sum", says="of what global memory moves")
def tree_with_a_stretch_for_each_thread(code):
    stretch = "    int each = (C + blockDim.x - 1) / blockDim.x;\n"
    stretch += "    for (int c = t * each; c < (t + 1) * each && c < C; c++) sum += x[c];\n"
    return replaced(code, LOOP, stretch)


@wrong("tree_sum", says="what the others have is missing")
def tree_that_is_not_asked(code):
    return replaced(code, "out[blockIdx.x] = partial[0];", "out[blockIdx.x] = sum;")


@wrong("tree_sum", says="what the others have is missing")
def tree_whose_loop_never_runs(code):
    return replaced(code, "half > 0; half /= 2", "half < 0; half /= 2")


@wrong("tree_sum", says="what threads 0, 2, 4, … have: what the others have is missing")
def tree_that_ends_early(code):
    return replaced(code, "half > 0; half /= 2", "half > 1; half /= 2")


@wrong("tree_sum", says="with `out[blockIdx.x] = partial[0]` in place of `out[blockIdx.x] += partial[0]`")
def tree_added_to_what_was_there(code):
    return replaced(code, "out[blockIdx.x] = partial[0];", "out[blockIdx.x] += partial[0];")


@wrong("tree_sum", says="out of bounds")
def tree_beyond_the_row(code):
    return replaced(code, "c < C;", "c <= C;")


@wrong("tree_sum", says="Let neighbouring lanes take neighbouring numbers at every turn")
def tree_whose_gaps_grow(code):
    head = "for (int half = blockDim.x / 2; half > 0; half /= 2)"
    growing = "for (int gap = 1, at = 2 * t; gap < blockDim.x; gap *= 2, at *= 2)"
    code = replaced(code, head, growing, "if (t < half)", "if (at + gap < blockDim.x)")
    return replaced(code, "partial[t] += partial[t + half]", "partial[at] += partial[at + gap]")


# ---------------------------------------------------------------------------------------------- 2 warp_softmax

GAPS = "for (int gap = 16; gap > 0; gap /= 2) "
TOP = "top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, gap));"
TOTAL = "total += __shfl_xor_sync(0xffffffff, total, gap);"
ROW = "int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;"
LEAVE = "if (row >= N) return;"
RESULT = "for (int c = lane; c < C; c += 32) out[c] = expf(x[c] - top) / total;"


@right("warp_softmax")
def warp_with_down_and_broadcast(code):
    code = replaced(code, TOP, "top = fmaxf(top, __shfl_down_sync(~0u, top, gap));")
    code = replaced(code, TOTAL, "total += __shfl_down_sync(~0u, total, gap);")
    code = replaced(code, "    float total = 0.0f;", "    top = __shfl_sync(~0u, top, 0);\n    float total = 0.0f;")
    return replaced(code, f"    {RESULT}", f"    total = __shfl_sync(~0u, total, 0);\n    {RESULT}")


@right("warp_softmax")
def warp_that_is_online(code):
    return holes(
        code,
        """
    const unsigned everybody = 0xffffffffu;
    int lane = threadIdx.x & 31, row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (row < N) {
        const float* in = x + row * C;
        float m = -1e30f, s = 0;
        for (int c = lane; c < C; c += 32) {
            if (in[c] > m) { s *= expf(m - in[c]); m = in[c]; }
            s += expf(in[c] - m);
        }
        for (int k = 1; k < 32; k *= 2) {
            float m2 = __shfl_xor_sync(everybody, m, k), s2 = __shfl_xor_sync(everybody, s, k), big = fmaxf(m, m2);
            s = s * expf(m - big) + s2 * expf(m2 - big);
            m = big;
        }
        for (int c = lane; c < C; c += 32) out[row * C + c] = expf(in[c] - m) / s;
    }
""",
    )


@right("warp_softmax")
def warp_with_groups(code):
    head = "\n#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n"
    head += "namespace cg = cooperative_groups;\n"
    code = replaced(code, f"{GAPS}{TOP}", "top = cg::reduce(warp, top, cg::greater<float>());")
    code = replaced(code, f"{GAPS}{TOTAL}", "total = cg::reduce(warp, total, cg::plus<float>());")
    return head + replaced(code, LEAVE, f"auto warp = cg::tiled_partition<32>(cg::this_thread_block()); {LEAVE}")


@right("warp_softmax")
def warp_that_divides_at_the_end(code):
    stored = "float e = expf(x[c] - top);\n        total += out[c] = e;\n    }"
    code = replaced(code, "total += expf(x[c] - top);", "{\n        " + stored)
    return replaced(code, "out[c] = expf(x[c] - top) / total;", "out[c] /= total;")


@wrong("warp_softmax", says="One thread at a time asks for one number")
def warp_whose_first_lane_does_all(code):
    return holes(
        code,
        f"""
    {ROW}
    if (row >= N || threadIdx.x % 32 > 0) return;
    x += row * C, out += row * C;
    float top = -3.4e38f, total = 0.0f;
    for (int c = 0; c < C; c++) top = fmaxf(top, x[c]);
    for (int c = 0; c < C; c++) total += expf(x[c] - top);
    for (int c = 0; c < C; c++) out[c] = expf(x[c] - top) / total;
""",
    )


@wrong("warp_softmax", says="All threads of a warp ask for the same number")
def warp_whose_lanes_all_do_all(code):
    code = replaced(code, f"    {GAPS}{TOP}\n", "", f"    {GAPS}{TOTAL}\n", "")
    code = replaced(code, "for (int c = lane; c < C; c += 32) top", "for (int c = 0; c < C; c++) top")
    return replaced(code, "for (int c = lane; c < C; c += 32) total", "for (int c = 0; c < C; c++) total")


@wrong("warp_softmax", says="is what is subtracted before exp the largest of them all?")
def warp_with_the_maximum_of_the_first_32(code):
    return replaced(
        code, "for (int c = lane; c < C; c += 32) top = fmaxf(top, x[c]);", "if (lane < C) top = fmaxf(top, x[lane]);"
    )


@wrong("warp_softmax", says="with `N` in place of `C` in `x += row * C`")
def warp_with_rows_of_n(code):
    return replaced(code, "x += (size_t)row * C;", "x += (size_t)row * N;")


@wrong("warp_softmax", says="without the line `x += row * C`")
def warp_that_reads_row_0(code):
    return replaced(code, "x += (size_t)row * C;", "")


@wrong("warp_softmax", says="Our solution does exactly the same without the line `out += row * C`.")
def warp_that_writes_row_0(code):
    return replaced(code, "out += (size_t)row * C;", "")


@wrong("warp_softmax", says="Our solution does exactly the same without the check `if (row >= N)`.")
def warp_without_a_check_of_its_row(code):
    return replaced(code, "if (row >= N) return;", "")


@wrong("warp_softmax", says="Our solution does exactly the same with `blockDim.x` in place of 32 in `(blockIdx.x * b")
def warp_with_a_row_for_each_block(code):
    return replaced(code, "int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;", "int row = blockIdx.x;")


@wrong("warp_softmax", says="Our solution does exactly the same with 16 in place of 32 in `threadIdx.x % 32`.")
def warp_of_lanes_modulo_16(code):
    return replaced(code, "threadIdx.x % 32", "(threadIdx.x & 15)")


@wrong(
    "warp_softmax",
    says="with `__shfl_xor_sync(0xffffffff, …, gap)` alone in place of "
    "`fmaxf(…, __shfl_xor_sync(0xffffffff, …, gap))`, where the lanes' maxima are compared.",
)
def warp_whose_shuffles_overwrite_the_maximum(code):
    return replaced(code, TOP, "top = __shfl_xor_sync(0xffffffff, top, gap);")


@wrong("warp_softmax", says="`total = 0.0f` in place of `total = one` in line 16")
def warp_whose_sum_begins_at_1(code):
    code = replaced(code, "float total = 0.0f;", "float total = 0.0f, one = 1.0f;")
    return replaced(code, "float total = 0.0f, one = 1.0f;", "float one = 1.0f, total = one;")


@wrong("warp_softmax", says="its last argument is a lane, not a distance")
def warp_that_reads_one_lane(code):
    return replaced(code, TOTAL, TOTAL.replace("_xor", ""))


@wrong("warp_softmax", says="the maximum that __shfl_down_sync leaves in each lane")
def warp_with_the_maximum_down(code):
    return replaced(code, TOP, TOP.replace("xor", "down"))


@wrong("warp_softmax", says="and the same is true of the sum")
def warp_with_both_down(code):
    return replaced(code, TOP, TOP.replace("xor", "down"), TOTAL, TOTAL.replace("xor", "down"))


@wrong("warp_softmax", says="the sum over every second lane")
def warp_whose_sum_misses_the_last_gap(code):
    return replaced(code, f"{GAPS}{TOTAL}", f"{GAPS}{TOTAL}".replace("gap > 0", "gap > 1"))


@wrong("warp_softmax", says="the maximum of every second lane")
def warp_whose_maximum_misses_the_last_gap(code):
    return replaced(code, f"{GAPS}{TOP}", f"{GAPS}{TOP}".replace("gap > 0", "gap > 1"))


@wrong("warp_softmax", says="the sum over every second lane")
def warp_that_misses_the_last_gap(code):
    return code.replace("gap > 0", "gap > 1")


@wrong("warp_softmax", says="the sum over 16 of the 32 lanes, 0 to 15 or 16 to 31")
def warp_of_16_lanes(code):
    return replaced(code, f"{GAPS}{TOTAL}", f"for (int gap = 8; gap > 0; gap /= 2) {TOTAL}")


@wrong("warp_softmax", says="only lane 0 has the whole sum")
def warp_without_a_broadcast(code):
    return replaced(code, TOTAL, TOTAL.replace("xor", "down"))


@wrong("warp_softmax", says="the lane's own sum, not that of all lanes")
def warp_that_does_not_add_up(code):
    return replaced(code, f"    {GAPS}{TOTAL}\n", "")


@wrong("warp_softmax", says="exp(x - the lane's maximum) divided by the total of the lanes' sums")
def warp_with_a_maximum_for_each_lane(code):
    return replaced(code, f"    {GAPS}{TOP}\n", "")


@wrong("warp_softmax", says="it asks for `row`, which differs between the lanes of a warp (line 6). If a whole warp")
def warp_of_rows_by_thread(code):
    return replaced(code, ROW, "int row = blockIdx.x * blockDim.x + threadIdx.x;")


@wrong("warp_softmax", says="Our solution does exactly the same with `blockDim.x` in place of 32 in `(blockIdx.x * b")
def warp_of_one_row_a_block(code):
    return replaced(code, ROW, "int row = blockIdx.x;")


@wrong("warp_softmax", says="does it assume how many")
def warp_of_eight_rows_a_block(code):
    return replaced(code, ROW, "int row = blockIdx.x * 256 / 32 + threadIdx.x / 32;")


@wrong("warp_softmax", says="with `32` in place of `blockDim.x` in lines 13, 17 and 20.")
def warp_that_strides_by_the_block(code):
    return code.replace("c += 32", "c += blockDim.x")


@wrong("warp_softmax", says="ut of bounds")
def warp_without_a_check(code):
    return replaced(code, f"    {LEAVE}\n", "")


@wrong("warp_softmax", says="lane that takes no part")
def warp_whose_lanes_leave_early(code):
    return replaced(code, LEAVE, "if (row >= N || lane >= C) return;")


@wrong("warp_softmax", says="lane that takes no part")
def warp_with_half_a_mask(code):
    return replaced(code, f"{GAPS}{TOTAL}", f"{GAPS}{TOTAL}".replace(MASK, "0x0000ffff"))


@wrong("warp_softmax", says="`-3.4e38f` in place of `0.0f`")
def warp_with_a_maximum_from_zero(code):
    return replaced(code, "float top = -3.4e38f;", "float top = 0.0f;")


@wrong("warp_softmax", says="barriers are passed by a block")
def warp_with_a_barrier_for_luck(code):
    return replaced(code, f"    {LEAVE}\n", "    __syncthreads();\n    " + LEAVE + "\n")


@wrong("warp_softmax", says="`lane == 0`")
def warp_in_which_lane_0_writes(code):
    return replaced(code, RESULT, f"if (lane == 0) {RESULT}")


@wrong("warp_softmax", says="`row >= N` in place of `row > N` in line 8")
def warp_with_one_row_too_many(code):
    return replaced(code, "row >= N", "row > N")


@wrong("warp_softmax", says="in place of `blockIdx.x * 8 + threadIdx.x / 32`")
def warp_of_eight_rows_whatever_the_block(code):
    return replaced(code, ROW, "int row = blockIdx.x * 8 + threadIdx.x / 32;")


@wrong("warp_softmax", says="it asks for `row`, which differs between the lanes of a warp (line 6). If a whole warp")
def warp_with_row_and_lane_exchanged(code):
    row = "int row = blockIdx.x * blockDim.x / 32 + threadIdx.x % 32;"
    return replaced(code, ROW, row, "int lane = threadIdx.x % 32;", "int lane = threadIdx.x / 32;")


@wrong("warp_softmax", says="`out[row * C + c] = expf(x[c] - top) / total` in place of")
def warp_with_rows_of_32(code):
    return replaced(code, "    out += (size_t)row * C;\n", "", "out[c] =", "out[row * 32 + c] =")


@wrong("warp_softmax", says="Line 14 takes the smaller of two numbers; our solution takes only larger ones.")
def warp_that_shuffles_the_minimum(code):
    return replaced(code, TOP, TOP.replace("fmaxf", "fminf"))


@wrong("warp_softmax", says="with `top` rather than `total` in `__shfl_xor_sync(0xffffffff, total, gap)`")
def warp_whose_sum_shuffles_the_maximum(code):
    return replaced(code, TOTAL, TOTAL.replace("total, gap", "top, gap"))


@wrong("warp_softmax", says="with `total` rather than `top` in `__shfl_xor_sync(0xffffffff, top, gap)`")
def warp_whose_maximum_shuffles_the_sum(code):
    code = replaced(code, "    float total = 0.0f;\n", "", TOP, TOP.replace("top, gap", "total, gap"))
    return replaced(code, "float top = -3.4e38f;", "float top = -3.4e38f, total = 0.0f;")


@wrong("warp_softmax", says="`out += (size_t)row * C;` in line 10")
def warp_with_the_row_twice(code):
    return replaced(code, "out[c] = expf(x[c] - top) / total;", "out[row * C + c] = expf(x[c] - top) / total;")


@wrong("warp_softmax", says="`row >= N` in place of `row >= N - 1` in line 8")
def warp_without_the_last_row(code):
    return replaced(code, "row >= N", "row >= N - 1")


@wrong("warp_softmax", says="plus the maxima of the lanes: the sum begins at 0 in each lane")
def softmax_with_one_variable_for_both(code):
    text = """
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= N) return;
    x += (size_t)row * C;
    out += (size_t)row * C;
    float v = -3.4e38f;
    for (int c = lane; c < C; c += 32) v = fmaxf(v, x[c]);
    float top = v;
    for (int gap = 16; gap > 0; gap /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, gap));
    for (int c = lane; c < C; c += 32) v += expf(x[c] - top);
    for (int gap = 16; gap > 0; gap /= 2) v += __shfl_xor_sync(0xffffffff, v, gap);
    for (int c = lane; c < C; c += 32) out[c] = expf(x[c] - top) / v;
"""
    return holes(code, text)


@wrong("warp_softmax", says="NaN or infinite")
def softmax_with_the_maximum_of_the_first_row(code):  # whose rows have maxima that are far apart
    return replaced(code, "top = fmaxf(top, x[c]);", "top = fmaxf(top, x[c - row * C]);")


# -------------------------------------------------------------------------------------------- 3 online_softmax

RESCALED = "total = total * expf(top - higher) + expf(x[c] - higher);"
MERGED = "total = warp_sum(total * expf(top - of_row));"


@right("online_softmax")
def online_with_a_branch(code):
    loop = """
        float v = x[c];
        if (v > top) {
            total *= expf(top - v);
            top = v;
        }
        total += expf(v - top);
"""
    merged = "    float mine = top;\n    top = warp_max(mine);\n    total = warp_sum(total * expf(mine - top));\n"
    return holes(code, loop, merged)


@right("online_softmax")
def online_pair_by_pair(code):
    loop = "        float m = fmaxf(top, x[c]);\n        total = expf(x[c] - m) + expf(top - m) * total, top = m;\n"
    merged = """
    for (int gap = 1; gap < 32; gap *= 2) {
        float t = __shfl_xor_sync(0xffffffff, top, gap), s = __shfl_xor_sync(0xffffffff, total, gap), m = fmaxf(t, top);
        total = total * expf(top - m) + s * expf(t - m);
        top = m;
    }
"""
    return holes(code, loop, merged)


@wrong(
    "online_softmax",
    says="Line 23 declares a second `total`, which ends with the braces around it and leaves the one of line 19 as it "
    "is. Without the type in front, your kernel passes this whole check.",
)
def online_with_a_second_total(code):
    return replaced(code, "        " + RESCALED, "        float " + RESCALED)


@wrong("online_softmax", says="rescaled after the new number was added")
def online_rescaled_too_late(code):
    return replaced(code, RESCALED, "total = (total + expf(x[c] - higher)) * expf(top - higher);")


@wrong("online_softmax", says="a sum of each lane's new maxima alone: every other number counts, too")
def online_that_adds_up_new_maxima(code):
    return replaced(code, RESCALED, "if (x[c] > top) total = total * expf(top - x[c]) + 1.0f;")


@wrong("online_softmax", says="a sum that begins again at each new maximum")
def online_that_forgets(code):
    return replaced(code, RESCALED, "total = x[c] > top ? 1.0f : total + expf(x[c] - higher);")


@wrong("online_softmax", says="with `… expf(x[c] - higher); top = higher` in place of")
def online_whose_top_stays(code):
    return replaced(code, "        top = higher;\n", "")


@wrong("online_softmax", says="a sum that is not rescaled when the maximum grows")
def online_never_rescaled(code):
    return replaced(code, RESCALED, "total += expf(x[c] - higher);")


@wrong("online_softmax", says="a sum that is not rescaled when the maximum grows")
def online_with_the_maximum_overwritten(code):
    return replaced(code, RESCALED, "top = higher; total = total * expf(top - higher) + expf(x[c] - higher);")


@wrong("online_softmax", says="relative to each lane's own maximum")
def online_lanes_not_rescaled(code):
    return replaced(code, MERGED, "total = warp_sum(total);")


@wrong("online_softmax", says="Line 29: `expf(top - of_row)` is always 1, because line 28 has made the two the same")
def online_lanes_with_the_maximum_overwritten(code):
    return replaced(code, "float of_row = warp_max(top);", "float of_row = top = warp_max(top);")


@wrong("online_softmax", says="own sum, not that of all lanes")
def online_lanes_not_added(code):
    return replaced(code, MERGED, "total = total * expf(top - of_row);")


@wrong("online_softmax", says="exp(x - the lane's maximum, not the row's)")
def online_with_the_lanes_maximum(code):
    return replaced(code, "    top = of_row;\n", "")


@wrong("online_softmax", says="neither in the loop nor between the lanes")
def online_not_rescaled_at_all(code):
    return replaced(code, RESCALED, "total += expf(x[c] - higher);", MERGED, "total = warp_sum(total);")


@wrong("online_softmax", says="all zeros, and each row should add up to 1")
def online_relative_to_the_old_maximum(code):
    return replaced(code, RESCALED, "total = total * expf(top - higher) + expf(x[c] - top);")


@wrong("online_softmax", says="in place of `total = total * expf(higher - top) + expf(x[c] - higher)` in line 23")
def online_with_the_sign_wrong(code):
    return replaced(code, "total * expf(top - higher)", "total * expf(higher - top)")


@wrong("online_softmax", says="divided by the total of the lanes' sums")
def online_lanes_rescaled_after_adding(code):
    return replaced(code, MERGED, "total = warp_sum(total) * expf(top - of_row);")


@wrong("online_softmax", says="one factor, exp(the lane's own maximum - the higher one): the other's sum needs that of")
def online_pairs_with_one_factor(code):
    return pairs(code, "total = (total + s) * expf(top - m);")


@wrong("online_softmax", says="the lane's own as it is: it, too, must be rescaled")
def online_pairs_with_the_top_overwritten(code):
    return pairs(code, "top = m;\n        total = total * expf(top - m) + s * expf(t - m);")


@wrong("online_softmax", says="each other's factors")
def online_pairs_with_factors_exchanged(code):
    return pairs(code, "total = total * expf(t - m) + s * expf(top - m);")


@wrong("online_softmax", says="each sum needs the factor of its own maximum")
def online_pairs_with_the_factor_of_the_other_sum(code):
    return pairs(code, "total += s * expf(top - m);")


@wrong("online_softmax", says="with 1 added for every number")
def online_that_counts(code):
    return replaced(code, "expf(x[c] - higher);", "1.0f;")


def pairs(code, merging):
    """The kernel that merges maximum and sum of two lanes at once, by `t` and `s` of the other and `m` of both."""
    loop = """
    for (int gap = 16; gap > 0; gap /= 2) {
        float t = __shfl_xor_sync(0xffffffff, top, gap), s = __shfl_xor_sync(0xffffffff, total, gap), m = fmaxf(t, top);
"""
    merged = code[code.index("    float of_row = warp_max(top);") : code.index("    top = of_row;\n")]
    return replaced(code, merged + "    top = of_row;\n", f"{loop}        {merging}\n        top = m;\n    }}\n")


@wrong("online_softmax", says="sectors of 32 bytes are moved")
def online_in_two_passes(code):
    merged = "    top = warp_max(top), total = 0.0f;\n"
    merged += "    for (int c = lane; c < C; c += 32) total += expf(x[c] - top);\n    total = warp_sum(total);\n"
    return holes(code, "        top = fmaxf(top, x[c]);\n", merged)


@wrong("online_softmax", says="lane that takes no part")
def online_merged_in_the_loop(code):
    return replaced(code, "        top = higher;\n", "        top = warp_max(higher);\n")


# ----------------------------------------------------------------------------------------- 4 welford_layernorm

SHARE = "float share = b.count / count;"
SQUARES = "a.squares + b.squares + gap * gap * a.count * share"
STATISTICS = "float m = seen.mean, r = rsqrtf(seen.squares / C + 1e-5f);"


@right("welford_layernorm")
def welford_by_cases(code):
    merging = """
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    Moments both;
    both.count = a.count + b.count;
    both.mean = (a.count * a.mean + b.count * b.mean) / both.count;
    both.squares = a.squares + b.squares + (a.mean - b.mean) * (a.mean - b.mean) * a.count * b.count / both.count;
    return both;
"""
    return holes(code, merging, "    float m = seen.mean;\n    float r = 1.0f / sqrtf(seen.squares / C + 1e-5f);\n")


@right("welford_layernorm")
def welford_around_the_new_mean(code):
    merging = """
    float count = fmaxf(a.count + b.count, 1.0f);
    float mean = a.mean + (b.mean - a.mean) * (b.count / count);
    float from_a = a.count * (a.mean - mean) * (a.mean - mean), from_b = b.count * (b.mean - mean) * (b.mean - mean);
    Moments both = {a.count + b.count, mean, a.squares + from_a + b.squares + from_b};
    return both;
"""
    return holes(code, merging, STATISTICS)


@wrong(
    "welford_layernorm",
    says="is nothing added up, or is what is added up lost?\nLine 10 returns `a` just where `a` is empty",
)
def welford_that_returns_the_empty_part(code):
    return replaced(code, "if (count == 0.0f) return a;", "if (a.count == 0.0f) return a;")


@wrong("welford_layernorm", says="without __shfl_sync around `seen.mean` in `seen.mean = __shfl_sync(0xffffffff, s")
def welford_without_a_broadcast(code):
    return code.replace("__shfl_sync(0xffffffff, seen.mean, 0)", "seen.mean")


@wrong("welford_layernorm", says="rstd equals 1 / √eps: the squares are 0")
def welford_without_the_gap(code):
    return replaced(code, SQUARES, "a.squares + b.squares")


@wrong("welford_layernorm", says="the means of two parts are not added, but weighted")
def welford_adds_the_means(code):
    return replaced(code, "a.mean + gap * share", "a.mean + b.mean")


@wrong("welford_layernorm", says="gap² · n_b / n: n_a is missing")
def welford_with_one_weight(code):
    return replaced(code, "gap * gap * a.count * share", "gap * gap * share")


@wrong("welford_layernorm", says="count, mean and squares")
def welford_without_the_square(code):
    return replaced(code, SQUARES, "a.squares + b.squares - fabsf(gap) * a.count * share")


@wrong("welford_layernorm", says="seen.count, which only lane 0 has of the whole row")
def welford_with_the_lanes_count(code):
    return replaced(code, "seen.squares / C", "seen.squares / seen.count")


@wrong("welford_layernorm", says="the reference with 1e-06 in place of 1e-5")
def welford_with_another_eps(code):
    return replaced(code, "1e-5f", "1e-6f")


@wrong("welford_layernorm", says="squares with gap² · n_a · n_b, which must be divided by n")
def welford_without_a_division(code):
    return replaced(code, SQUARES, "a.squares + b.squares + gap * gap * a.count * b.count")


@wrong("welford_layernorm", says="the last number that lane 0 has seen")
def welford_that_counts_only_a(code):
    return replaced(code, "return {count, a.mean", "return {a.count, a.mean")


@wrong("welford_layernorm", says="`merge({0, 0, 0}, {0, 0, 0})` gives")
def welford_divides_nothing_by_nothing(code):
    return replaced(code, "    if (count == 0.0f) return a;\n", "")


@wrong("welford_layernorm", says="the part with more numbers counts for more")
def welford_halves_the_means(code):
    return replaced(code, "a.mean + gap * share", "(a.mean + b.mean) / 2")


@wrong("welford_layernorm", says="moving the mean by a's share")
def welford_weighted_by_the_other(code):
    return replaced(code, "a.mean + gap * share", "a.mean + gap * a.count / count")


@wrong("welford_layernorm", says="divided by C - 1 instead of C")
def welford_unbiased(code):
    return replaced(code, "seen.squares / C", "seen.squares / (C - 1)")


@wrong("welford_layernorm", says="the reference without eps")
def welford_without_eps(code):
    return replaced(code, " + 1e-5f", "")


@wrong("welford_layernorm", says="the sum of the squares in place of their mean")
def welford_with_a_sum(code):
    return replaced(code, "seen.squares / C", "seen.squares")


@wrong("welford_layernorm", says="the variance, not 1 / √(variance + eps)")
def welford_without_a_root(code):
    return replaced(code, "rsqrtf(seen.squares / C + 1e-5f)", "seen.squares / C")


@wrong("welford_layernorm", says="subtracts two large numbers that agree")
def welford_from_school(code):
    merging = """
    float n = a.count + b.count, sum = a.count * a.mean + b.count * b.mean;
    if (n == 0.0f) return a;
    float of_a = a.squares + a.count * a.mean * a.mean, of_b = b.squares + b.count * b.mean * b.mean;
    return {n, sum / n, of_a + of_b - sum * sum / n};
"""
    return holes(code, merging, STATISTICS)


# ------------------------------------------------------------------------------------------- 5 fused_layernorm

PLACE = "float4* mine = kept + threadIdx.x / 32 * quads;"
SUMS = "u = make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w);"
FUSED_RESULT = "float4 u = mine[i], s"


@wrong(
    "fused_layernorm",
    says="`((const float4*)w)[i]` in place of `((const float4*)w)[row * quads + i]` in line 33",
)
def fused_with_a_w_for_each_row(code):
    return replaced(code, "((const float4*)w)[i]", "((const float4*)w)[row * quads + i]")


@wrong(
    "fused_layernorm",
    says="in place of `blockIdx.x * 4 + threadIdx.x / 32` in line 8",
)
def fused_with_blocks_of_four_rows(code):
    row = "int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32,"
    return replaced(code, row, "int row = blockIdx.x * 4 + threadIdx.x / 32,")


@wrong("fused_layernorm", says="the result of squares with the mean not subtracted from .x")
def fused_with_one_square_of_the_number_itself(code):
    return replaced(code, "squares += (u.x - m) * (u.x - m)", "squares += u.x * u.x")


@wrong("fused_layernorm", says="the squares of x1 around the mean of the sum")
def fused_that_keeps_x1_alone(code):
    return replaced(code, "mine[i] = u;", "mine[i] = a4[i];")


@wrong("fused_layernorm", says="residual passes through global memory in lines")
def fused_that_reads_residual_again(code):
    return replaced(code, "float4 u = mine[i], s", "float4 u = sum4[i], s")


@wrong("fused_layernorm", says="mean equals rstd, and rstd equals the mean: they are exchanged.")
def fused_with_mean_and_rstd_exchanged(code):
    return replaced(code, "mean[row] = m", "mean[row] = r", "rstd[row] = r", "rstd[row] = m")


@right("fused_layernorm")
def fused_in_registers(code):
    return holes(
        code,
        """
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * 8 + warp;
    if (row < N) {
        float4 v[8];  // rows of at most 1024
        float sum = 0, sq = 0;
        for (int k = 0; k < 8; k++) {
            int i = lane + 32 * k;
            if (i < C / 4) {
                float4 p = reinterpret_cast<const float4*>(x1 + row * C)[i], q = ((const float4*)(x2 + row * C))[i];
                v[k] = make_float4(p.x + q.x, p.y + q.y, p.z + q.z, p.w + q.w);
                reinterpret_cast<float4*>(residual + row * C)[i] = v[k];
                sum += v[k].x + v[k].y + v[k].z + v[k].w;
            }
        }
        for (int g = 1; g < 32; g *= 2) sum += __shfl_xor_sync(~0u, sum, g);
        float m = sum / C;
        for (int k = 0; k < 8; k++) {
            float4 d = make_float4(v[k].x - m, v[k].y - m, v[k].z - m, v[k].w - m);
            if (lane + 32 * k < C / 4) sq += d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w;
        }
        for (int g = 1; g < 32; g *= 2) sq += __shfl_xor_sync(~0u, sq, g);
        float r = 1 / sqrtf(sq / C + 1e-5f);
        for (int k = 0; k < 8; k++) {
            int i = lane + 32 * k;
            if (i < C / 4) {
                float4 s = ((const float4*)w)[i], t = ((const float4*)b)[i], u = v[k];
                ((float4*)(out + row * C))[i] = make_float4((u.x - m) * r * s.x + t.x, (u.y - m) * r * s.y + t.y,
                                                            (u.z - m) * r * s.z + t.z, (u.w - m) * r * s.w + t.w);
            }
        }
        if (lane == 31) mean[row] = m, rstd[row] = r;
    }
""",
    )


@right("fused_layernorm")
def fused_that_waits_for_its_warp(code):
    return replaced(code, "    float m = total / C;", "    __syncwarp();\n    float m = total / C;")


@wrong("fused_layernorm", says="E[x²] - E[x]² subtracts two large numbers that agree in nearly all their digits; ")
def fused_from_school(code):
    code = replaced(
        code,
        "for (int i = lane; i < quads; i += 32) {\n        float4 u = mine[i];\n",
        "for (int i = lane; i < quads; i += 32) {\n        float4 u = mine[i];\n        float m = 0.0f;\n",
    )
    return replaced(code, "squares / C + 1e-5f", "squares / C - m * m + 1e-5f")


@wrong("fused_layernorm", says="writes go to numbers that another thread has written already")
def fused_whose_lanes_all_write(code):
    return replaced(code, "    if (lane == 0) {\n", "    {\n")


@wrong("fused_layernorm", says="the mean from what __shfl_down_sync leaves in each lane: only lane 0 has the whole sum")
def fused_with_the_mean_down(code):
    return replaced(code, "total += __shfl_xor_sync", "total += __shfl_down_sync")


@wrong("fused_layernorm", says="the squares of what __shfl_down_sync leaves in each lane")
def fused_with_the_squares_down(code):
    return replaced(code, "squares += __shfl_xor_sync", "squares += __shfl_down_sync")


@wrong("fused_layernorm", says="shared memory has room for 8 rows, one for each warp")
def fused_with_one_place_for_all(code):
    return replaced(code, PLACE, "float4* mine = kept;")


@wrong("fused_layernorm", says="ut of bounds")
def fused_with_places_four_times_apart(code):
    return replaced(code, PLACE, "float4* mine = kept + threadIdx.x / 32 * C;")


@wrong("fused_layernorm", says="sectors of 32 bytes are moved")
def fused_that_reads_the_sum_again(code):
    return code.replace("float4 u = mine[i]", "float4 u = sum4[i]").replace("        mine[i] = u;\n", "")


@wrong("fused_layernorm", says="requests of a warp go to global memory")
def fused_with_single_floats(code):
    return holes(
        code,
        """
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= N) return;
    float* mine = (float*)kept + threadIdx.x / 32 * C;
    float total = 0.0f, squares = 0.0f;
    for (int c = lane; c < C; c += 32) total += residual[row * C + c] = mine[c] = x1[row * C + c] + x2[row * C + c];
    for (int gap = 16; gap > 0; gap /= 2) total += __shfl_xor_sync(0xffffffff, total, gap);
    float m = total / C;
    for (int c = lane; c < C; c += 32) squares += (mine[c] - m) * (mine[c] - m);
    for (int gap = 16; gap > 0; gap /= 2) squares += __shfl_xor_sync(0xffffffff, squares, gap);
    float r = rsqrtf(squares / C + 1e-5f);
    for (int c = lane; c < C; c += 32) out[row * C + c] = (mine[c] - m) * r * w[c] + b[c];
    if (lane == 0) mean[row] = m, rstd[row] = r;
""",
    )


@wrong("fused_layernorm", says="sectors of 32 bytes are moved")
def fused_with_four_single_floats_each(code):
    four = "float4 u = make_float4(x1[at], x1[at + 1], x1[at + 2], x1[at + 3]), v = b4[i];"
    return replaced(code, "float4 u = a4[i], v = b4[i];", f"int at = row * C + 4 * i;\n        {four}")


@wrong("fused_layernorm", says="Our solution does exactly the same without the line that writes float4s to residual.")
def fused_without_the_residual(code):
    return replaced(code, "        sum4[i] = u;\n", "")


@wrong("fused_layernorm", says="residual equals x1 with x2 added to a quarter of the numbers")
def fused_that_adds_one_of_four(code):
    return replaced(code, SUMS, "u.x += v.x;")


@wrong("fused_layernorm", says="mean equals 1 / C times the sum of a quarter of the numbers")
def fused_that_sums_one_of_four(code):
    return replaced(code, "total += u.x + u.y + u.z + u.w;", "total += u.x;")


@wrong("fused_layernorm", says="rstd equals the result with the squares of a quarter of the numbers")
def fused_that_squares_one_of_four(code):
    rest = " + (u.y - m) * (u.y - m) + (u.z - m) * (u.z - m) + (u.w - m) * (u.w - m);"
    return replaced(code, rest, ";")


@wrong("fused_layernorm", says="residual equals x1 alone: x2 is not added")
def fused_without_a_sum(code):
    return replaced(code, f"        {SUMS}\n", "")


@wrong("fused_layernorm", says="Our solution does exactly the same without the check `if (row >= N)`.")
def fused_without_a_check(code):
    return replaced(code, f"    {LEAVE}\n", "")


@wrong("fused_layernorm", says="mean is 4 times what it should be")
def fused_mean_of_the_quads(code):
    return replaced(code, "float m = total / C;", "float m = total / quads;")


@wrong("fused_layernorm", says="mean equals rstd: the mean belongs there.")
def fused_that_writes_rstd_twice(code):
    return replaced(code, "mean[row] = m;", "mean[row] = r;")


@wrong("welford_layernorm", says="mean equals rstd, and rstd equals the mean: they are exchanged.")
def welford_statistics_swapped(code):
    return replaced(code, "mean[row] = m", "mean[row] = r", "rstd[row] = r", "rstd[row] = m")


@wrong("fused_layernorm", says="and no thread writes anything to it in this launch")
def fused_that_forgets_to_keep(code):
    return replaced(code, "        mine[i] = u;\n", "")


@wrong("fused_layernorm", says="out equals norm · b + w: w and b are swapped")
def fused_weights_swapped(code):
    text = "((const float4*){})[i], t = ((const float4*){})[i]"
    return replaced(code, text.format("w", "b"), text.format("b", "w"))


@wrong("fused_layernorm", says="the reference without eps")
def fused_without_eps(code):
    return replaced(code, " + 1e-5f", "")


@wrong("fused_layernorm", says="with b[row] in place of b[c]")
def fused_with_the_shift_of_the_row(code):
    return replaced(code, "t = ((const float4*)b)[i]", "t = make_float4(b[row], b[row], b[row], b[row])")


@wrong("warp_softmax", says="The mask, which is the first argument, must name every lane that makes the call")
def softmax_with_a_short_mask(code):
    return replaced(code, TOTAL, TOTAL.replace("0xffffffff", "0xffff"))


@wrong("fused_layernorm", says="in place of `blockIdx.x * 32 + threadIdx.x / 32` in line 8")
def fused_with_blocks_of_32_rows(code):
    return replaced(code, "(blockIdx.x * blockDim.x + threadIdx.x) / 32", "blockIdx.x * 32 + threadIdx.x / 32")


GUARDS = "if (a.count == 0.0f) return b;\n    if (b.count == 0.0f) return a;"


@wrong("welford_layernorm", says="the result of averaging the two means: the part with more numbers counts for more")
def welford_with_guards_and_the_middle(code):
    return replaced(code, "if (count == 0.0f) return a;", GUARDS, "a.mean + gap * share", "(a.mean + b.mean) / 2.0f")


@wrong("welford_layernorm", says="squares with gap² alone: it must be multiplied by n_a · n_b / n")
def welford_with_guards_and_the_gap_alone(code):
    return replaced(code, "if (count == 0.0f) return a;", GUARDS, "gap * gap * a.count * share", "gap * gap")


@wrong("warp_softmax", says="The mask, which is the first argument, must name every lane that makes the call")
def softmax_with_mask_and_value_exchanged(code):
    return replaced(code, TOTAL, TOTAL.replace("0xffffffff, total", "total, 0xffffffff"))


@wrong("warp_softmax", says="`out += (size_t)row * C` in place of `out += (size_t)row * 32`")
def softmax_with_rows_of_32(code):
    return replaced(code, "out += (size_t)row * C;", "out += (size_t)row * 32;")


@wrong("welford_layernorm", says="parts that count n_a + 1 together: they have n_a + n_b numbers")
def welford_that_counts_parts(code):
    return replaced(code, "return {count, a.mean", "return {a.count + 1.0f, a.mean")


@wrong(
    "warp_softmax", says="There is an 8 in the kernel, the warps of 256 threads: does it assume how many warps a block"
)
def warps_of_blocks_of_eight(code):
    return replaced(code, "(blockIdx.x * blockDim.x + threadIdx.x) / 32", "threadIdx.x / 32 + 8 * blockIdx.x")


@wrong("warp_softmax", says="Neighbouring threads should take neighbouring numbers, which share a sector.")
def warp_whose_lanes_take_pieces(code):
    code = replaced(code, "int lane = threadIdx.x % 32;", "int lane = threadIdx.x % 32, each = (C + 31) / 32;")
    mine = "for (int c = lane * each; c < (lane + 1) * each && c < C; c++)"
    return code.replace("for (int c = lane; c < C; c += 32)", mine)


@wrong("warp_softmax", says="put the call after the loop, or let all lanes go through it equally often")
def warp_whose_lanes_talk_in_every_turn(code):
    before = f"top = fmaxf(top, x[c]);\n    {GAPS}{TOP}\n"
    return replaced(code, before, f"{{ top = fmaxf(top, x[c]);\n        {GAPS}{TOP}\n    }}\n")


# ------------------------------------------------------ an order of lines, whole numbers, and fours: by the text alone


@wrong(
    "online_softmax", says="Line 29: `expf(top - top)` is always 1, because line 28 has put the new number into `top`"
)
def online_with_the_old_top_overwritten(code):
    of_row = "float of_row = warp_max(top);\n    total = warp_sum(total * expf(top - of_row));\n    top = of_row;"
    return replaced(code, of_row, "top = warp_max(top);\n    total *= expf(top - top);\n    total = warp_sum(total);")


@wrong("online_softmax", says="Line 30: `expf(top - of_row)` is always 1, because line 29 has made the two the same")
def online_with_the_top_of_the_row_taken_too_early(code):
    merged = "total = warp_sum(total * expf(top - of_row));"
    return replaced(code, f"    {merged}\n    top = of_row;", f"    top = of_row;\n    {merged}")


@wrong("welford_layernorm", says="Line 11: `nb / n` divides whole numbers, so what is behind the point is cut off")
def welford_with_counts_that_are_ints(code):
    return holes(
        code,
        """
    int na = a.count, nb = b.count, n = na + nb;
    if (n == 0) return a;
    float gap = b.mean - a.mean;
    return {(float)n, a.mean + gap * (nb / n), a.squares + b.squares + gap * gap * na * nb / n};
        """,
        f"    {STATISTICS}",
    )


@wrong(
    "welford_layernorm", says="Line 12 multiplies by `a.count` and divides by it, so it cancels: line 10 has changed"
)
def welford_with_the_count_updated_too_early(code):
    return holes(
        code,
        """
    if (b.count == 0.0f) return a;
    float gap = b.mean - a.mean;
    a.count += b.count;
    a.mean += gap * b.count / a.count;
    a.squares += b.squares + gap * gap * a.count * b.count / a.count;
    return a;
        """,
        f"    {STATISTICS}",
    )


@wrong("welford_layernorm", says="with `b.count == 0.0f` in place of `a.count == 0.0f || b.count == 0.0f`")
def welford_that_returns_the_first_part_where_it_is_empty(code):
    return replaced(code, "if (count == 0.0f)", "if (a.count == 0.0f || b.count == 0.0f)")


@wrong("fused_layernorm", says="`w[i]` is a single float, but `i` counts float4s")
def fused_with_one_scale_for_four_numbers(code):
    single, four = "float s = w[i], t = b[i];", ", ".join(f"(u.{k} - m) * r * s + t" for k in "xyzw")
    start, end = code.index("out4[i] = make_float4("), code.index("    if (lane == 0) {")
    code = f"{code[:start]}{single}\n        out4[i] = make_float4({four});\n    }}\n{code[end:]}"
    return replaced(
        code, "float4 u = mine[i], s = ((const float4*)w)[i], t = ((const float4*)b)[i];", "float4 u = mine[i];"
    )


@wrong("fused_layernorm", says="with `kept + threadIdx.x / 32 * (C / 4)` in place of")
def fused_with_rows_of_floats_in_place_of_fours(code):
    return replaced(code, PLACE, PLACE.replace("quads", "C"))


@wrong("tree_sum", says="is gone, but out is still wrong: out[0] is")
def tree_of_squares_without_the_first_barrier(code):
    filled = "    partial[t] = sum;\n"
    return replaced(code, "sum += x[c];", "sum += x[c] * x[c];", filled + "    __syncthreads();\n", filled)


def tree_of_warps(code, put):
    """A kernel whose warps add up their own numbers, put the sums into `partial`, and the first one adds up those."""
    body = f"""
    int lane = t % 32, warp = t / 32;
    float mine = 0.0f;
    for (int c = t; c < C; c += blockDim.x) mine += x[c];
    mine = add_lanes(mine);
    {put}
    __syncthreads();
    if (warp == 0) {{
        float all = add_lanes(lane < blockDim.x / 32 ? partial[lane] : 0.0f);
        if (lane == 0) out[blockIdx.x] = all;
    }}
"""
    shuffles = "for (int gap = 16; gap > 0; gap /= 2) v += __shfl_down_sync(0xffffffff, v, gap);"
    return f"__device__ float add_lanes(float v)\n{{\n    {shuffles}\n    return v;\n}}\n{holes(code, body)}"


@right("tree_sum")
def tree_of_two_stages(code):
    return tree_of_warps(code, "if (lane == 0) partial[warp] = mine;")


@wrong("tree_sum", says="with `partial[warp] = mine` in place of `partial[lane] = mine` in line 17")
def tree_whose_warps_share_a_place(code):
    return tree_of_warps(code, "if (lane == 0) partial[lane] = mine;")


@wrong("tree_sum", says="with `if (threadIdx.x % 32 == 0)` in front of line 17: lane 0 of a warp alone writes there")
def tree_whose_lanes_share_a_place(code):
    return tree_of_warps(code, "partial[warp] = mine;")


@wrong("tree_sum", says="let all lanes of the warp make the call, those without a number of their own with one that")
def tree_whose_second_stage_has_a_lane_for_each_warp(code):
    body = """
    float mine = 0.0f;
    for (int c = t; c < C; c += blockDim.x) mine += x[c];
    mine = add_lanes(mine);
    if (t % 32 == 0) partial[t / 32] = mine;
    __syncthreads();
    if (t < blockDim.x / 32) {
        float all = add_lanes(partial[t]);
        if (t == 0) out[blockIdx.x] = all;
    }
"""
    shuffles = "for (int gap = 16; gap > 0; gap /= 2) v += __shfl_down_sync(0xffffffff, v, gap);"
    return f"__device__ float add_lanes(float v)\n{{\n    {shuffles}\n    return v;\n}}\n{holes(code, body)}"


@wrong("tree_sum", says="Either what is read here should be written first")
def tree_sum_of_eight_warps(code):
    return """
__device__ float warp_total(float v)
{
    for (int gap = 16; gap > 0; gap /= 2) v += __shfl_xor_sync(0xffffffff, v, gap);
    return v;
}
extern "C" __global__ void tree_sum(float* out, const float* x, int N, int C)
{
    extern __shared__ float partial[];
    int t = threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    x += (size_t)blockIdx.x * C;
    float sum = 0.0f;
    for (int c = t; c < C; c += blockDim.x) sum += x[c];
    sum = warp_total(sum);
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    if (warp > 0) return;
    sum = lane < 8 ? partial[lane] : 0.0f;
    sum = warp_total(sum);
    if (lane == 0) out[blockIdx.x] = sum;
}
"""


@wrong("fused_layernorm", says="the square of the sum of four deviations")
def fused_with_squares_of_four(code):
    away = [f"(u.{slot} - m)" for slot in "xyzw"]
    quad = f"({' + '.join(away)})"
    return replaced(code, " + ".join(f"{each} * {each}" for each in away), f"{quad} * {quad}")


@wrong("warp_softmax", says="is what is subtracted before exp the largest of them all?")
def softmax_with_lane_0s_maximum(code):
    return replaced(
        code,
        "for (int gap = 16; gap > 0; gap /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, gap));",
        "top = __shfl_sync(0xffffffff, top, 0);",
    )


@wrong("tree_sum", says="what thread 0 has added up by itself: what the others have is missing")
def tree_that_adds_the_wrong_way_round(code):
    return replaced(code, "partial[t] += partial[t + half];", "partial[t + half] += partial[t];")


@wrong("online_softmax", says="rescaled by exp(the row's maximum - the lane's)")
def online_rescaled_upwards(code):
    return replaced(
        code, "total = warp_sum(total * expf(top - of_row));", "total = warp_sum(total * expf(of_row - top));"
    )


@wrong("welford_layernorm", says="`merge({0, 0, 0}, {1, 2, 0})` gives {1, inf, nan}")
def welford_divides_by_a_alone(code):
    return replaced(
        code,
        "if (count == 0.0f) return a;\n    float share = b.count / count;",
        "if (b.count == 0.0f) return a;\n    float share = b.count / a.count;",
    )


@wrong("welford_layernorm", says="`merge` itself is right, also for empty parts")
def welford_with_the_root_of_the_mean(code):
    return replaced(
        code,
        "float m = seen.mean, r = rsqrtf(seen.squares / C + 1e-5f);",
        "float m = seen.mean, r = rsqrtf(seen.mean + 1e-5f);",
    )


@wrong("welford_layernorm", says="gap² · n_b in place of gap² · n_a · n_b / n")
def welford_with_a_count_that_is_new(code):
    return replaced(
        code,
        "float share = b.count / count;\n",
        "a.count = count;\n    a.mean += gap * b.count / count;\n",
        "return {count, a.mean + gap * share, a.squares + b.squares + gap * gap * a.count * share};",
        "a.squares += b.squares + gap * gap * a.count * b.count / count;\n    return a;",
    )


@wrong("tree_sum", says="what the others have is missing")
def tree_that_grows_and_ends_early(code):
    return replaced(
        code,
        "for (int half = blockDim.x / 2; half > 0; half /= 2) {\n        if (t < half) {",
        "for (int half = 1; half < blockDim.x / 2; half *= 2) {\n        if (t % (2 * half) == 0) {",
    )


@wrong("welford_layernorm", says="Keep the old number if that is meant.\n→ Where to look")
def merged_into_a_whose_count_has_grown(code):
    return r"""
struct Moments {
    float count, mean, squares;  // how many numbers, their mean, the sum of (x - mean)^2
};
// The moments of both parts together.
__device__ Moments merge(Moments a, Moments b)
{
    a.count += b.count;
    if (a.count == 0.0f) return a;
    float gap = b.mean - a.mean;
    a.mean += gap * b.count / a.count;
    a.squares += b.squares + gap * gap * a.count * b.count / a.count;
    return a;
}
// out: (N, C), mean, rstd: (N,), all written. x: (N, C), w, b: (C,). A warp for each row.
extern "C" __global__ void welford_layernorm(float* out, float* mean, float* rstd, const float* x, const float* w,
                                             const float* b, int N, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= N) return;
    x += (size_t)row * C;  // (C,)
    out += (size_t)row * C;
    Moments seen = {0.0f, 0.0f, 0.0f};
    for (int c = lane; c < C; c += 32) seen = merge(seen, {1.0f, x[c], 0.0f});
    for (int gap = 16; gap > 0; gap /= 2) {
        float count = __shfl_down_sync(0xffffffff, seen.count, gap);
        float centre = __shfl_down_sync(0xffffffff, seen.mean, gap);
        float squares = __shfl_down_sync(0xffffffff, seen.squares, gap);
        if (lane + gap < 32) seen = merge(seen, {count, centre, squares});
    }
    seen.mean = __shfl_sync(0xffffffff, seen.mean, 0);  // lane 0 has all of the row
    seen.squares = __shfl_sync(0xffffffff, seen.squares, 0);
    float m = seen.mean, r = rsqrtf(seen.squares / C + 1e-5f);
    for (int c = lane; c < C; c += 32) out[c] = (x[c] - m) * r * w[c] + b[c];
    if (lane == 0) mean[row] = m, rstd[row] = r;
}
"""


@wrong("welford_layernorm", says="Nothing in your kernel uses the array mean.")
def mean_that_is_never_stored(code):
    return replaced(code, "if (lane == 0) mean[row] = m, rstd[row] = r;", "if (lane == 0) rstd[row] = r;")


@wrong("tree_sum", says="either the index by which it reads is wrong, or the `if` on line 16 lets too many threads in")
def tree_that_reads_at_twice_its_own_place(code):
    return replaced(code, "partial[t] += partial[t + half];", "partial[t] += partial[2 * t];")


@wrong("warp_softmax", says="it asks for `row`, which is made from `warp`, which differs between the lanes")
def warps_and_lanes_counted_the_other_way_round(code):
    return r"""
// out: (N, C), written. x: (N, C). A warp for each row, as many rows in a block as it has warps.
extern "C" __global__ void warp_softmax(float* out, const float* x, int N, int C)
{
    int warps = blockDim.x / 32;  // rows of this block
    int warp = threadIdx.x % warps;
    int lane = threadIdx.x / warps;
    int row = blockIdx.x * warps + warp;
    if (row >= N) return;
    const float* in = x + row * C;
    float m = -3.4e38f;
    for (int c = lane; c < C; c += 32)
        m = fmaxf(m, in[c]);
    for (int gap = 16; gap > 0; gap /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, gap));
    float s = 0.0f;
    for (int c = lane; c < C; c += 32)
        s += expf(in[c] - m);
    for (int gap = 16; gap > 0; gap /= 2)
        s += __shfl_xor_sync(0xffffffff, s, gap);
    for (int c = lane; c < C; c += 32)
        out[row * C + c] = expf(in[c] - m) / s;
}
"""
