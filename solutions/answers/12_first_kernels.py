"""Answers to the exercises of lesson 12 as learners write them: right ones that look different, and wrong ones.

Each wrong answer carries words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 12` runs those of this lesson.
The answers of exercises 2 to 6 are CUDA C: a function gets the solution's source and returns another.
"""

import math

from llmc.course.old.authoring.answers import replaced, right, wrong


def body(code, text):
    """The kernel with another body; text is indented by four spaces."""
    head = code[: code.index("{\n", code.index("__global__")) + 2]
    return f"{head}{text.strip(chr(10))}\n}}\n"


# -------------------------------------------------------------------------------------------------- 1 grid_for


@right("grid_for")
def grid_with_minus(rows, cols, block):
    return tuple(-(-n // threads) for n, threads in zip((cols, rows), block))


@right("grid_for")
def grid_with_ceil(rows, cols, block):
    return math.ceil(cols / block[0]), math.ceil(rows / block[1])


@right("grid_for")
def grid_with_a_rest(rows, cols, block):
    blocks_x, rest_x = divmod(cols, block[0])
    blocks_y, rest_y = divmod(rows, block[1])
    return blocks_x + (rest_x > 0), blocks_y + (rest_y > 0)


@wrong("grid_for", says="1 · 4 threads for 7 columns.\nThat is n // d for both axes, which rounds down.")
def grid_rounded_down(rows, cols, block):
    return cols // block[0], rows // block[1]


@wrong("grid_for", says="Too many blocks in x: 1 of them has nothing to do")
def grid_plus_one(rows, cols, block):
    return cols // block[0] + 1, rows // block[1] + 1


@wrong("grid_for", says="These are the threads that are needed, not the blocks")
def grid_of_threads(rows, cols, block):
    return math.ceil(cols / block[0]) * block[0], math.ceil(rows / block[1]) * block[1]


@wrong("grid_for", says="all numbers in one row, but a grid has two axes")
def grid_of_all_numbers(rows, cols, block):
    threads = block[0] * block[1]
    return (rows * cols + threads - 1) // threads, 1


@wrong("grid_for", says="The axes are swapped: x runs along the columns")
def grid_with_rows_in_x(rows, cols, block):
    return -(-rows // block[0]), -(-cols // block[1])


@wrong("grid_for", says="The grid's axes are in the wrong order: x first, then y")
def grid_y_first(rows, cols, block):
    return -(-rows // block[1]), -(-cols // block[0])


@wrong("grid_for", says="a grid is made of whole numbers, and this one is (1.75, 2.5): expected (2, 3).")
def grid_of_floats(rows, cols, block):
    return cols / block[0], rows / block[1]


@wrong("grid_for", says="should be a tuple of two, (blocks in x, blocks in y), but is 6")
def grid_as_one_number(rows, cols, block):
    return -(-cols // block[0]) * -(-rows // block[1])


@wrong("grid_for", says="Too few blocks in y: 1 · 2 threads for 5 rows")
def grid_of_one_row(rows, cols, block):
    return -(-cols // block[0]), 1


@wrong("grid_for", says="Too few blocks in y: 2 · 2 threads for 5 rows")
def grid_with_x_in_both(rows, cols, block):
    return -(-cols // block[0]), -(-rows // block[0])


@wrong("grid_for", says="Too many blocks in x: 5 of them have nothing to do")
def grid_of_numbers_in_place_of_blocks(rows, cols, block):
    return cols, rows


@wrong("grid_for", says="That is round(n / d + 0.5) for both axes: of a half, round goes to the even neighbour")
def grid_that_rounds_halves(rows, cols, block):
    return tuple(round(n / threads + 0.5) for n, threads in zip((cols, rows), block))


@wrong("grid_for", says="2 · 2 threads for 5 rows.\nThat is (n - 1) // d in y.")
def grid_without_the_one_in_y(rows, cols, block):
    return (cols - 1) // block[0] + 1, (rows - 1) // block[1]


@wrong("grid_for", says="for both axes, rounded down, which is n / d to the nearest.")
def grid_rounded_half_up(rows, cols, block):
    return int(cols / block[0] + 0.5), int(rows / block[1] + 0.5)


@wrong("grid_for", says="Both are divided by all threads of a block")
def grid_by_all_threads(rows, cols, block):
    threads = block[0] * block[1]
    return -(-cols // threads), -(-rows // threads)


# ------------------------------------------------------------------------------------------------ 2 leaky_relu

GUARD = "if (i < n) {"
INDEX = "blockIdx.x * blockDim.x + threadIdx.x"


@right("leaky_relu")
def leaky_with_an_early_return(code):
    return body(
        code,
        """
    const unsigned int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n) return;
    float v = x[i];
    out[i] = fmaxf(v, 0.0f) + slope * fminf(v, 0.0f);
""",
    )


@right("leaky_relu")
def leaky_with_a_helper_and_pointers(code):
    helper = "__device__ float leaky(float v, float slope) { if (v > 0) return v; else return v * slope; }\n"
    text = """
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    const float *from = x + i;
    float *to = out + i;
    if (i < n)
        *to = leaky(*from, slope);
"""
    return helper + body(code, text)


@right("leaky_relu")
def leaky_with_a_loop(code):
    return replaced(code, "    if (i < n) {", "    for (; i < n; i += gridDim.x * blockDim.x) {")


@right("leaky_relu")
def leaky_written_twice_by_its_own_thread(code):
    return replaced(
        code, "out[i] = x[i] > 0.0f ? x[i] : slope * x[i];", "out[i] = x[i]; if (out[i] < 0) out[i] *= slope;"
    )


@wrong("leaky_relu", says="x + slope · x where x is below 0: there it is slope · x alone")
def leaky_that_adds_the_slope(code):
    return body(
        code,
        """
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + slope * fminf(x[i], 0.0f);
""",
    )


@wrong("leaky_relu", says="slope · x also where x is between 0 and 1")
def leaky_by_the_sign_of_an_int(code):
    return replaced(code, "x[i] > 0.0f ?", "(int)x[i] > 0 ?")


@right("leaky_relu")
def leaky_with_two_branches(code):
    branches = "if (x[i] > 0) { out[i] = x[i]; } else { out[i] = slope * x[i]; }"
    return replaced(code, "out[i] = x[i] > 0.0f ? x[i] : slope * x[i];", branches)


@wrong("leaky_relu", says="with `x[i] <= 0.0f` in place of `x[i] < 0.0f`")
def leaky_without_zero(code):
    branches = "if (x[i] < 0.0f) out[i] = slope * x[i]; if (x[i] > 0.0f) out[i] = x[i];"
    return replaced(code, "out[i] = x[i] > 0.0f ? x[i] : slope * x[i];", branches)


@wrong("leaky_relu", says="in place of `threadIdx.x * blockDim.x + blockIdx.x` in line 6")
def leaky_with_the_coordinates_exchanged(code):
    return replaced(code, "blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x * blockDim.x + blockIdx.x")


@wrong("leaky_relu", says="-slope · x where x is below 0")
def leaky_of_the_absolute_value(code):
    return replaced(code, ": slope * x[i]", ": slope * fabsf(x[i])")


@wrong("leaky_relu", says="x cut to whole numbers, as an int holds them")
def leaky_in_an_int(code):
    return replaced(
        code, "out[i] = x[i] > 0.0f ? x[i] : slope * x[i];", "int v = x[i]; out[i] = v > 0 ? v : slope * v;"
    )


@wrong("leaky_relu", says="out of bounds, line ")
def leaky_without_a_guard(code):
    return replaced(code, GUARD, "{")


@wrong("leaky_relu", says="`i < n` in place of `i <= n` in line 7")
def leaky_one_too_many(code):
    return replaced(code, GUARD, "if (i <= n) {")


@wrong("leaky_relu", says="with `i < n` in place of `i < n - 1` in line 7")
def leaky_one_too_few(code):
    return replaced(code, GUARD, "if (i < n - 1) {")


@wrong("leaky_relu", says="never written")
def leaky_without_the_block(code):
    return replaced(code, INDEX, "threadIdx.x")


@wrong("leaky_relu", says="never written")
def leaky_with_one_thread_a_block(code):
    return replaced(code, INDEX, "blockIdx.x")


@wrong("leaky_relu", says="There is a 256 in the kernel, and this block has 8 threads")
def leaky_with_256_in_it(code):
    return replaced(code, INDEX, "blockIdx.x * 256 + threadIdx.x")


@wrong("leaky_relu", says="never written")
def leaky_with_the_grid_as_the_factor(code):
    return replaced(code, "blockIdx.x * blockDim.x", "blockIdx.x * gridDim.x")


@wrong("leaky_relu", says="never written")
def leaky_with_indices_added(code):
    return replaced(code, "blockIdx.x * blockDim.x", "blockIdx.x + blockDim.x")


@wrong("leaky_relu", says="out equals max(x, slope · x): the same only while slope is below 1")
def leaky_as_a_maximum(code):
    return replaced(code, "x[i] > 0.0f ? x[i] : slope * x[i]", "fmaxf(x[i], slope * x[i])")


@wrong("leaky_relu", says="out equals the reference with the two branches swapped")
def leaky_the_other_way_round(code):
    return replaced(code, "x[i] > 0.0f", "x[i] < 0.0f")


@wrong("leaky_relu", says="out equals ReLU, 0 for every x below 0")
def leaky_that_does_not_leak(code):
    return replaced(code, ": slope * x[i]", ": 0.0f")


@wrong("leaky_relu", says="the kernel wrote to x, which is an input, in line 8: it must stay as it is.")
def leaky_into_its_input(code):
    return replaced(code, "out[i] = x[i] > 0.0f", "float* y = const_cast<float*>(x); out[i] = y[i] = x[i] > 0.0f")


REWRITES = "writes go to numbers that another thread has written already"


@wrong("leaky_relu", says=REWRITES)
def leaky_by_every_thread(code):
    return replaced(code, f"int i = {INDEX};", "", GUARD, "for (int i = 0; i < n; i++) {")


@wrong("leaky_relu", says=REWRITES)
def leaky_by_every_block(code):
    return replaced(code, f"int i = {INDEX};", "", GUARD, "for (int i = threadIdx.x; i < n; i += blockDim.x) {")


@wrong("leaky_relu", says="20 numbers of one array are handled by a single thread")
def leaky_that_reads_everything(code):
    read = "    float mine = 0.0f;\n    for (int k = 0; k < n; k++) mine += k == i ? x[k] : 0.0f * x[k];\n"
    code = replaced(code, f"    {GUARD}", f"{read}    {GUARD}")
    return replaced(code, "x[i] > 0.0f ? x[i] : slope * x[i]", "mine > 0.0f ? mine : slope * mine")


@wrong("leaky_relu", says="`i < n` in place of `i < n && i < blockDim.x` in line 7")
def leaky_in_the_first_block_alone(code):
    return replaced(code, GUARD, "if (i < n && i < blockDim.x) {")


@wrong("leaky_relu", says="a variable is declared with its type, once: `int i")
def leaky_without_a_type(code):
    return replaced(code, "int i = b", "i = b")


@wrong("leaky_relu", says=".x is missing")
def leaky_without_x(code):
    return replaced(code, INDEX, "blockIdx * blockDim + threadIdx")


@wrong("leaky_relu", says="the condition goes in brackets")
def leaky_with_pythons_if(code):
    return replaced(code, GUARD, "if i < n:\n    {")


@wrong("leaky_relu", says="does not run")
def leaky_without_a_semicolon(code):
    return replaced(code, "threadIdx.x;", "threadIdx.x")


# ------------------------------------------------------------------------------------------------- 3 swap_axes

PARTS = """        int c = i % C;
        int t = i / C % T;
        int b = i / (T * C);
"""


@right("swap_axes")
def swap_from_the_outputs_side(code):
    return body(
        code,
        """
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // flat index of out
    if (i >= B * C * T) return;
    int t = i % T;
    int c = (i / T) % C;
    int b = i / T / C;
    out[i] = x[b * T * C + t * C + c];
""",
    )


@right("swap_axes")
def swap_by_subtraction(code):
    return body(
        code,
        """
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B * T * C) {
        unsigned b = i / (T * C), in_sequence = i - b * T * C;
        unsigned t = in_sequence / C, c = in_sequence - t * C;
        float* sequence = out + b * C * T;
        sequence[c * T + t] = x[i];
    }
""",
    )


@right("swap_axes")
def swap_row_pointer(code):
    return replaced(
        code, "out[(b * C + c) * T + t] = x[i];", "float* row = out + (b * C + c) * T; *(row + t) = *(x + i);"
    )


@wrong("swap_axes", says="`out[b * T * C + c * T + t] = x[i]` in place of `out[b * T * C + c * C")
def axes_with_a_wrong_stride(code):
    return replaced(code, "(b * C + c) * T + t", "b * T * C + c * C + t")


@wrong("swap_axes", says="`t = i / C % T` and `c = i % C` in place of `t = i % C` and `c = i / C % T` in lines 8 and 9")
def axes_with_t_and_c_exchanged(code):
    return replaced(code, "int c = i % C;", "int t = i % C;", "int t = i / C % T;", "int c = i / C % T;")


@wrong("swap_axes", says="Our solution does exactly the same without the condition `i < B * T * C`.")
def swap_without_a_check(code):
    return replaced(code, "if (i < B * T * C)", "")


@wrong("swap_axes", says="Our solution does exactly the same without the factor `B` in `i < B * T * C`.")
def swap_of_the_first_sequence(code):
    return replaced(code, "if (i < B * T * C)", "if (i < T * C)")


@wrong("swap_axes", says="out of bounds")
def swap_without_a_guard(code):
    return replaced(code, "if (i < B * T * C) {", "{")


@wrong("swap_axes", says="never written")
def swap_of_one_sequence(code):
    return replaced(code, "if (i < B * T * C) {", "if (i < T * C) {")


@wrong("swap_axes", says="x in its old order: nothing moved.")
def swap_of_what_comes_as_it_goes(code):
    code = replaced(code, "int c = i % C;", "int c = i / T % C;", "int t = i / C % T;", "int t = i % T;")
    return replaced(code, "out[(b * C + c) * T + t] = x[i];", "out[b * C * T + c * T + t] = x[b * C * T + c * T + t];")


@wrong("swap_axes", says="out equals x in its old order: nothing moved")
def swap_nothing(code):
    return replaced(code, "out[(b * C + c) * T + t]", "out[(b * T + t) * C + c]")


@wrong("swap_axes", says="out equals the reference with T and C exchanged")
def swap_with_lengths_exchanged(code):
    code = replaced(code, "int c = i % C;", "int t = i % T;", "int t = i / C % T;", "int c = i / T % C;")
    return replaced(code, "out[(b * C + c) * T + t]", "out[(b * T + t) * C + c]")


@wrong(
    "swap_axes", says="exchanged in the line that copies, `out[i] = x[j]` for `out[j] = x[i]`, give the same numbers"
)
def swap_in_the_other_direction(code):
    return replaced(code, "out[(b * C + c) * T + t] = x[i]", "out[i] = x[(b * C + c) * T + t]")


@wrong("swap_axes", says="writes out[24], but out has shape (2, 4, 3)")
def swap_with_the_wrong_stride(code):
    return replaced(code, "(b * C + c) * T + t", "(b * C + c) * C + t")


@wrong("swap_axes", says="race in global memory")
def swap_without_the_sequence(code):
    return replaced(code, "(b * C + c) * T + t", "c * T + t")


@wrong("swap_axes", says="out of bounds")
def swap_without_the_rest(code):
    return replaced(code, "i / C % T", "i / C")


@wrong("swap_axes", says="out equals x with all three axes reversed, (C, T, B)")
def swap_all_three(code):
    return replaced(code, "out[(b * C + c) * T + t]", "out[(c * T + t) * B + b]")


@wrong("swap_axes", says="out equals x as (T, B, C): b and t were swapped")
def swap_batch_and_time(code):
    return replaced(code, "out[(b * C + c) * T + t]", "out[(t * B + b) * C + c]")


@wrong("swap_axes", says="Right with 1 block of 128 threads, wrong with 2 of 96.")
def swap_by_block_and_thread(code):
    return replaced(code, "int c = i % C;", "int c = threadIdx.x % C;")


@wrong("swap_axes", says=REWRITES)
def swap_by_every_thread(code):
    index = f"int i = {INDEX};  // flat index of x"
    return replaced(code, index, "", "if (i < B * T * C) {", "for (int i = 0; i < B * T * C; i++) {")


@wrong("swap_axes", says=REWRITES)
def swap_by_every_block(code):
    index = f"int i = {INDEX};  // flat index of x"
    loop = "for (int i = threadIdx.x; i < B * T * C; i += blockDim.x) {"
    return replaced(code, index, "", "if (i < B * T * C) {", loop)


@wrong("swap_axes", says="a comma in an index, line 11: it compiles, but [i, j] means [j]. C has one index")
def swap_with_commas(code):
    return replaced(code, "out[(b * C + c) * T + t]", "out[b, c, t]")


@wrong("swap_axes", says="C has one index: for [p, q, r] of a (P, Q, R) array")
def swap_with_three_pairs_of_brackets(code):
    return replaced(code, "= x[i]", "= x[b][t][c]")


@wrong("swap_axes", says="int b = i // (T * C);\nHint: `//` starts a comment")
def swap_with_floor_division(code):
    return replaced(code, "i / (T * C);", "i // (T * C);")


@wrong("swap_axes", says="in place of `out[(b * T * C + c) * T + t] = x[i]` in line 11")
def swap_with_a_factor_too_much(code):
    return replaced(code, "(b * C + c) * T + t", "(b * T * C + c) * T + t")


@wrong("swap_axes", says="numbers of x, but with another b, t and c than they should have")
def swap_and_turn(code):
    return replaced(code, "(b * C + c) * T + t", "((b * C + c) * T + t + 5) % (B * T * C)")


# --------------------------------------------------------------------------------------------- 4 residual_vec4

FIRST = "4 * (blockIdx.x * blockDim.x + threadIdx.x)"
STORE = "make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w)"
TAIL = """    } else {
        for (int k = i; k < n; k++) {
            out[k] = x1[k] + x2[k];
        }
    }"""


@right("residual_vec4")
def vec4_by_arrays_of_float4(code):
    return body(
        code,
        """
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    const float4* a4 = (const float4*)x1;
    const float4* b4 = (const float4*)x2;
    float4* out4 = (float4*)out;
    if (q < n / 4) {
        float4 a = a4[q], b = b4[q], c;
        c.x = a.x + b.x;
        c.y = a.y + b.y;
        c.z = a.z + b.z;
        c.w = a.w + b.w;
        out4[q] = c;
    }
    int rest = n / 4 * 4 + q;
    if (rest < n) out[rest] = x1[rest] + x2[rest];
""",
    )


@right("residual_vec4")
def vec4_from_braces(code):
    store = "*reinterpret_cast<float4*>(out + i) = " + STORE + ";"
    return replaced(
        code, store, "auto& four = *(float4*)(out + i); four = {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};"
    )


@right("residual_vec4")
def vec4_of_one_condition(code):
    one, other = ("float4{" + ", ".join(f"{p}.{k} + {q}.{k}" for k in "xyzw") + "}" for p, q in ("ab", "ba"))
    return replaced(code, STORE, f"i % 8 ? {one} : {other}")


@right("residual_vec4")
def vec4_with_a_tail_by_the_first_thread(code):
    return body(
        code,
        """
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
""",
    )


@wrong("residual_vec4", says="its 8,192 numbers are whole float4s: which condition sends a thread there?")
def four_with_a_tail_too_early(code):
    return replaced(code, "if (i + 3 < n)", "if (i + 4 < n)")


@wrong("split_heads", says="`i < 3 * B * NH * T * hs` in place of `i < 3 * B * NH * T * hs / 4` in line 7")
def split_with_a_bound_of_quads(code):
    return replaced(code, "i < 3 * B * NH * T * hs", "i < 3 * B * NH * T * hs / 4")


@wrong("residual_vec4", says="`k = i` in place of `k = n` in line 12")
def residual_without_its_last_numbers(code):
    return replaced(code, "for (int k = i; k < n; k++)", "for (int k = n; k < n; k++)")


@wrong("residual_vec4", says="x1 alone behind the last whole four")
def vec4_with_half_a_tail(code):
    return replaced(code, "out[k] = x1[k] + x2[k];", "out[k] = x1[k];")


@wrong("residual_vec4", says="the reference, except for .z of each float4")
def vec4_with_a_wrong_sum_in_one_place(code):
    return replaced(code, "a.z + b.z", "a.z + 2 * b.z")


@right("residual_vec4")
def vec4_read_by_reference(code):  # nvcc makes one access of the four components
    return replaced(code, "float4 b = *", "const float4& b = *")


@wrong("residual_vec4", says="4 bytes at a time: read a whole float4 first, into a variable, and store a whole one.")
def vec4_written_between_the_reads(code):  # out may be the same memory: four requests on a GPU, too
    return replaced(
        code,
        "float4 b = *",
        "const float4& b = *",
        "*reinterpret_cast<float4*>(out + i) = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);",
        "float4& o = *reinterpret_cast<float4*>(out + i);\n        o.x = a.x + b.x;\n        o.y = a.y + b.y;\n"
        "        o.z = a.z + b.z;\n        o.w = a.w + b.w;",
    )


@wrong("residual_vec4", says="without the lines of `for (int k = i; k < n; k++)`.")
def vec4_without_a_tail(code):
    return replaced(code, TAIL, "    }")


@wrong("residual_vec4", says="The vector reaches past the end")
def vec4_with_the_guard_of_one(code):
    return replaced(code, "if (i + 3 < n) {", "if (i < n) {")


@wrong("residual_vec4", says="`i + 3 < n` in place of `i + 3 <= n` in line 7")
def vec4_off_by_one(code):
    return replaced(code, "if (i + 3 < n) {", "if (i + 3 <= n) {")


@wrong("residual_vec4", says="out of bounds")
def vec4_with_a_tail_of_four(code):
    return replaced(code, "for (int k = i; k < n; k++) {", "for (int k = i; k < i + 4; k++) {")


@wrong("residual_vec4", says="misaligned")
def vec4_that_moves_by_one(code):
    return replaced(code, FIRST, "blockIdx.x * blockDim.x + threadIdx.x")


@wrong("residual_vec4", says="out equals the reference with .x in place of .w")
def vec4_with_a_slip_in_the_last(code):
    return replaced(code, "a.w + b.w)", "a.x + b.x)")


@wrong("residual_vec4", says="right, but 768 requests of a warp go to global memory")
def vec4_with_single_floats(code):
    return body(
        code,
        """
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        out[i] = x1[i] + x2[i];
    }
""",
    )


@wrong("residual_vec4", says="Each access moves one float of 4 bytes: a float4 moves four of them.")
def vec4_by_four_single_floats(code):
    return body(
        code,
        f"""
    int i = {FIRST};
    for (int k = i; k < n && k < i + 4; k++) out[k] = x1[k] + x2[k];
""",
    )


@wrong("residual_vec4", says="does it assume how many threads a block has? Take blockDim")
def vec4_with_128_in_it(code):
    return replaced(code, FIRST, "4 * (blockIdx.x * 128 + threadIdx.x)")


@wrong("residual_vec4", says="never written")
def vec4_that_leaves_out_a_thread_before_the_last(code):
    return replaced(code, "for (int k = i; k < n; k++) {", "for (int k = i + 1; k < n; k++) {")


@wrong("residual_vec4", says=REWRITES)
def vec4_with_a_tail_by_every_thread(code):
    text = "    }\n    for (int k = n / 4 * 4; k < n; k++) out[k] = x1[k] + x2[k];"
    return replaced(code, TAIL, text)


@wrong("residual_vec4", says=REWRITES)
def vec4_with_a_tail_by_every_block(code):
    text = "    }\n    if (threadIdx.x == 0) for (int k = n / 4 * 4; k < n; k++) out[k] = x1[k] + x2[k];"
    return replaced(code, TAIL, text)


@wrong("residual_vec4", says="there is no arithmetic on a float4")
def vec4_added_whole(code):
    return replaced(code, STORE, "a + b")


# ------------------------------------------------------------------------------------------------------ 5 axpy

LOOP = "for (int i = thread; i < n; i += threads) {"


@right("axpy")
def axpy_while(code):
    return body(
        code,
        """
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    while (i < n) {
        y[i] = fmaf(a, x[i], y[i]);
        i += (size_t)blockDim.x * gridDim.x;
    }
""",
    )


@right("axpy")
def axpy_by_whole_blocks(code):
    return body(
        code,
        """
    for (int block = blockIdx.x; block * blockDim.x < n; block += gridDim.x) {
        int i = block * blockDim.x + threadIdx.x;
        if (i < n) {
            y[i] += a * x[i];
        }
    }
""",
    )


@right("axpy")
def axpy_four_at_a_time(code):
    return body(
        code,
        """
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int q = thread; q < n / 4; q += threads) {
        float4 u = reinterpret_cast<float4*>(y)[q], v = reinterpret_cast<const float4*>(x)[q];
        u.x += a * v.x, u.y += a * v.y, u.z += a * v.z, u.w += a * v.w;
        reinterpret_cast<float4*>(y)[q] = u;
    }
    if (thread == 0)
        for (int i = n / 4 * 4; i < n; i++) y[i] += a * x[i];
""",
    )


@wrong(
    "axpy",
    says="y equals the reference without the last 4 numbers, n % threads.",
)
def axpy_in_pieces_that_round_down(code):
    return replaced(
        code,
        "for (int i = thread; i < n; i += threads) {",
        "int chunk = n / threads;\n    for (int i = thread * chunk; i < (thread + 1) * chunk; i++) {",
    )


@wrong("axpy", says="y equals a · x, added to what the thread's turns before added")
def axpy_carries_its_sum_on(code):
    return body(
        code,
        """
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        sum += a * x[i];
        y[i] += sum;
    }
""",
    )


@wrong(
    "axpy",
    says="the reference for the first 16 numbers alone, and so it is with n = 19",
)
def axpy_of_two_numbers_a_thread(code):
    loop = "for (int i = 2 * thread; i < 2 * thread + 2 && i < n; i++) {"
    return replaced(code, "for (int i = thread; i < n; i += threads) {", loop)


@wrong("axpy", says="Our solution does exactly the same without the factor `gridDim.x`")
def axpy_in_steps_of_a_block(code):
    return replaced(code, "gridDim.x * blockDim.x", "blockDim.x")


@wrong("axpy", says="numbers of one array are handled by a single thread")
def axpy_by_one_thread_of_each_block(code):
    return body(
        code,
        """
    int each = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
    if (threadIdx.x == 0)
        for (int i = first; i < first + each && i < n; i++) y[i] += a * x[i];
""",
    )


@wrong("axpy", says="numbers of one array are handled by a single thread")
def axpy_by_the_first_block(code):
    return body(
        code, "    if (blockIdx.x == 0)\n        for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] += a * x[i];\n"
    )


@wrong("axpy", says="y equals a · x, added by every thread to every number")
def axpy_by_atomics_of_everybody(code):
    return body(code, "    for (int i = 0; i < n; i++) atomicAdd(&y[i], a * x[i]);\n")


@wrong("axpy", says="what was added to y equals (a - 1) · y + x, so y became a · y + x: y was")
def axpy_with_a_in_the_wrong_place(code):
    return replaced(code, "y[i] += a * x[i];", "y[i] = a * y[i] + x[i];")


@wrong("axpy", says="`kept` keeps what the last launch left")
def axpy_that_keeps_what_it_added(code):
    return "__device__ float kept[1024];\n" + replaced(
        code, "y[i] += a * x[i];", "kept[i] += a * x[i]; y[i] += kept[i];"
    )


@wrong("axpy", says="y equals the reference for the first gridDim.x * blockDim.x numbers alone, one for each thread")
def axpy_without_a_loop(code):
    return replaced(code, LOOP, "int i = thread; if (i < n) {")


@wrong("axpy", says="out of bounds")
def axpy_one_too_many(code):
    return replaced(code, "i < n; i", "i <= n; i")


@wrong("axpy", says="`i += threads` in place of `i += blockDim.x` in line 8")
def axpy_that_strides_by_the_block(code):
    return replaced(code, "i += threads", "i += blockDim.x")


@wrong("axpy", says="`thread` in place of `threadIdx.x` in line 8")
def axpy_that_begins_in_every_block(code):
    return replaced(code, "int i = thread;", "int i = threadIdx.x;")


@wrong("axpy", says="race in global memory, line 11")
def axpy_whose_tail_steps_by_the_block(code):
    loop = code[code.index("    for (int i = thread;") : code.rindex("}")]
    fours = """    int quads = n / 4;
    for (int q = thread; q < quads; q += threads)
        for (int i = 4 * q; i < 4 * q + 4; i++) y[i] += a * x[i];
    for (int i = 4 * quads + thread; i < n; i += blockDim.x) y[i] += a * x[i];
"""
    return replaced(code, loop, fours)


@wrong("axpy", says="without the factor `blockDim.x` in `threads = gridDim.x * blockDim.x`")
def axpy_that_strides_by_the_grid(code):
    return replaced(code, "gridDim.x * blockDim.x", "gridDim.x")


@wrong("axpy", says="y was overwritten instead of accumulated")
def axpy_that_overwrites(code):
    return replaced(code, "y[i] += a * x[i]", "y[i] = a * x[i]")


@wrong("axpy", says="y equals x: it is not multiplied by a")
def axpy_without_a(code):
    return replaced(code, "y[i] += a * x[i]", "y[i] += x[i]")


@wrong("axpy", says="right, but")
def axpy_in_pieces(code):
    return body(
        code,
        """
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    int each = (n + threads - 1) / threads;
    for (int i = thread * each; i < n && i < (thread + 1) * each; i++) {
        y[i] += a * x[i];
    }
""",
    )


@wrong("axpy", says="does it assume how many threads a block has? Take blockDim")
def axpy_with_128_in_it(code):
    return replaced(code, "blockIdx.x * blockDim.x", "blockIdx.x * 128", "gridDim.x * blockDim.x", "gridDim.x * 128")


@wrong("axpy", says="race in global memory")
def axpy_with_a_step_too_short_by_one(code):
    return replaced(code, "i += threads", "i += threads - 1")


# ----------------------------------------------------------------------------------------------- 6 split_heads

PLACE = "((b * T + t) * 3 + s) * NH * hs + h * hs + j"
COPY = "*reinterpret_cast<float4*>(out + i) = *reinterpret_cast<const float4*>(four);"


@right("split_heads")
def split_from_the_inputs_side(code):
    return body(
        code,
        """
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    int C = NH * hs;
    int fours = B * T * 3 * C / 4;
    if (q >= fours) return;
    int c = q * 4 % (3 * C), bt = q * 4 / (3 * C);
    int s = c / C, h = c % C / hs, j = c % hs;
    int b = bt / T, t = bt - b * T;
    float4* to = (float4*)(out + (((s * B + b) * NH + h) * T + t) * hs + j);
    *to = ((const float4*)qkv)[q];
""",
    )


@right("split_heads")
def split_with_a_loop(code):
    return body(
        code,
        f"""
    int n = 3 * B * NH * T * hs;
    for (int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x); i < n; i += 4 * gridDim.x * blockDim.x) {{
        int r = i;
        int j = r % hs; r /= hs;
        int t = r % T; r /= T;
        int h = r % NH; r /= NH;
        int b = r % B;
        int s = r / B;
        float4 v = *(float4*)(qkv + {PLACE});
        *(float4*)&out[i] = v;
    }}
""",
    )


@wrong("split_heads", says="numbers of qkv, but with another t, s and h than they should have (b and j are right)")
def split_with_t_and_h_exchanged(code):
    return replaced(code, "/ hs % T", "/ hs % NH", "/ (hs * T) % NH", "/ (hs * NH) % T")


@wrong("split_heads", says="Our solution does exactly the same without the condition `i < 3 * B * NH * T * hs`.")
def split_without_a_check(code):
    return replaced(code, "if (i < 3 * B * NH * T * hs)", "")


@wrong("split_heads", says="right, but 768 requests of a warp go to global memory")
def split_two_at_a_time(code):
    return body(
        code,
        f"""
    int n = 3 * B * NH * T * hs;
    for (int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x); i < n; i += 2 * gridDim.x * blockDim.x) {{
        int j = i % hs, t = i / hs % T, h = i / (hs * T) % NH, b = i / (hs * T * NH) % B, s = i / (hs * T * NH * B);
        *(float2*)(out + i) = *(const float2*)(qkv + {PLACE});
    }}
""",
    )


def _changed(code, old, new):
    return replaced(code, old, new)


@wrong("split_heads", says="that is the step, 4 * gridDim.x * blockDim.x")
def split_in_steps_of_one_number_a_thread(code):
    return replaced(
        code,
        "if (i < 3 * B * NH * T * hs) {",
        "for (; i < 3 * B * NH * T * hs; i += blockDim.x * gridDim.x) {",
    )


@wrong("split_heads", says="numbers of one array are handled by a single thread")
def split_by_the_first_block(code):
    return replaced(
        code,
        f"int i = {FIRST};  // flat index of out\n    if (i < 3 * B * NH * T * hs) {{",
        "if (blockIdx.x == 0) for (int i = 4 * threadIdx.x; i < 3 * B * NH * T * hs; i += 4 * blockDim.x) {",
    )


@wrong("split_heads", says="but with another t than they should have (b, s, h and j are right)")
def split_with_time_in_reverse(code):
    return replaced(code, "(b * T + t) * 3", "(b * T + T - 1 - t) * 3")


@wrong("split_heads", says="out of bounds")
def split_without_a_guard(code):
    return _changed(code, "if (i < 3 * B * NH * T * hs) {", "{")


@wrong("split_heads", says="without the factor `3`")
def split_only_q(code):
    return _changed(code, "if (i < 3 * B * NH * T * hs) {", "if (i < B * NH * T * hs) {")


@wrong("split_heads", says="out equals the reference with each head's q, k and v side by side")
def split_head_by_head(code):
    return _changed(code, PLACE, "(b * T + t) * 3 * NH * hs + (h * 3 + s) * hs + j")


@wrong("split_heads", says="out equals qkv split, but its heads were not moved")
def split_without_moving_heads(code):
    return _changed(code, PLACE, "(((b * T + (h * T + t) / NH) * 3 + s) * NH + (h * T + t) % NH) * hs + j")


@wrong("split_heads", says="out equals the reference with batch and head swapped")
def split_with_batch_and_head_swapped(code):
    return _changed(
        replaced(code, "h = i / (hs * T) % NH", "b = i / (hs * T) % B"),
        "b = i / (hs * T * NH) % B",
        "h = i / (hs * T * B) % NH",
    )


@wrong("split_heads", says="out equals the reference with k and v swapped")
def split_k_and_v_swapped(code):
    return _changed(code, "int s = i / (hs * T * NH * B);", "int s = i / (hs * T * NH * B); s = s == 0 ? 0 : 3 - s;")


@wrong("split_heads", says="out equals q in all three")
def split_q_three_times(code):
    return _changed(code, "((b * T + t) * 3 + s) * NH", "((b * T + t) * 3) * NH")


@wrong("split_heads", says="right, but 1,536 requests of a warp go to global memory")
def split_with_single_floats(code):
    return body(
        code,
        f"""
    int n = 3 * B * NH * T * hs;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {{
        int j = i % hs, t = i / hs % T, h = i / (hs * T) % NH, b = i / (hs * T * NH) % B, s = i / (hs * T * NH * B);
        out[i] = qkv[{PLACE}];
    }}
""",
    )


@wrong("split_heads", says="an index that counts fours is multiplied by 4 there")
def split_by_one_place_a_thread(code):
    return _changed(code, "int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);", f"int i = {INDEX};")


@wrong("split_heads", says="out of bounds")
def split_with_the_rows_too_long(code):
    return _changed(code, "((b * T + t) * 3 + s) * NH * hs", "((b * T + t) * 3 + s) * NH * hs * 3")


@wrong("split_heads", says="it moves only the first of each four numbers: a thread must move all four, as one float4.")
def split_one_number_of_four(code):
    return _changed(code, COPY, "out[i] = four[0];")


@wrong("split_heads", says="divide by 4 what indexes pointers to vectors, and leave the bound on line 7 as it is.")
def split_with_indices_in_floats(code):
    copy = f"((float4*)out)[i] = ((const float4*)qkv)[{PLACE}];"
    return _changed(code, COPY, copy)


@wrong("split_heads", says="`i + 4 <= 3 * B * NH * T * hs` in place of `i + 4 < 3 * B * NH * T * hs` in line 7")
def split_without_the_last_four(code):
    return _changed(code, "if (i < 3 * B * NH * T * hs) {", "if (i + 4 < 3 * B * NH * T * hs) {")


# ---------------------------------------------------------------------------------------- found by answers of strangers


@wrong("swap_axes", says="numbers of one array are handled by a single thread")
def swap_with_the_first_sequence_s_threads(code):
    return body(
        code,
        f"""
    int i = {INDEX}, plane = T * C;
    if (i < plane)
        for (int b = 0; b < B; b++)
            out[b * plane + i % C * T + i / C] = x[b * plane + i];
""",
    )


@wrong("swap_axes", says="`t = i / C % T` and `c = i % C` in place of `t = i % C` and `c = i / C % T` in line 7")
def swap_with_t_and_c_exchanged(code):
    return body(
        code,
        f"""
    int i = {INDEX};
    if (i >= B * T * C) return;
    int t = i % C, c = i / C % T, b = i / (T * C);
    out[b * C * T + c * T + t] = x[i];
""",
    )


@wrong("swap_axes", says="without the remainder `% T`")
def swap_without_the_remainder(code):
    return body(
        code,
        f"""
    int i = {INDEX};
    if (i < B * T * C) {{
        int b = i / (T * C), t = i / C, c = i % C;
        out[(b * C + c) * T + t] = x[i];
    }}
""",
    )


@wrong("swap_axes", says="`i / (T * C)` in place of `i / T * C` in line 7")
def swap_without_brackets(code):
    return body(
        code,
        f"""
    int i = {INDEX};
    if (i >= B * T * C) return;
    int c = i % C, t = i / C % T, b = i / T * C;
    out[(b * C + c) * T + t] = x[i];
""",
    )


@wrong("leaky_relu", says="writes nothing where x is above 0: what should it do there?")
def leaky_without_the_other_branch(code):
    return body(code, f"    int i = {INDEX};\n    if (i < n && x[i] <= 0.0f) out[i] = slope * x[i];")


@wrong("leaky_relu", says="writes nothing where x is 0 or below: what should it do there?")
def leaky_that_stores_one_branch(code):
    return body(
        code,
        f"""
    int i = {INDEX};
    if (i >= n) return;
    float v = x[i];
    if (v > 0.0f) out[i] = v;
    else v = slope * v;
""",
    )


@wrong("leaky_relu", says="with `i < n` in place of `i < n && x[i] < 0.5f`")
def leaky_for_small_numbers(code):
    return body(code, f"    int i = {INDEX};\n    if (i < n && x[i] < 0.5f) out[i] = x[i] > 0 ? x[i] : slope * x[i];")


@wrong("residual_vec4", says="Divide the index by 4, or add it before the cast")
def residual_with_quads_of_floats(code):
    return body(
        code,
        f"""
    int i = 4 * ({INDEX});
    if (i + 3 < n) {{
        float4 a = reinterpret_cast<const float4*>(x1)[i], b = reinterpret_cast<const float4*>(x2)[i];
        reinterpret_cast<float4*>(out)[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }} else
        for (; i < n; i++) out[i] = x1[i] + x2[i];
""",
    )


@wrong("leaky_relu", says="x + slope · x where x is above 0: there it is x alone")
def leaky_that_adds_both(code):
    return body(code, f"    int i = {INDEX};\n    if (i < n) out[i] = fmaxf(x[i], 0.0f) + slope * x[i];")


@wrong("grid_for", says="The two numbers of the block are swapped: it is (threads in x, threads in y)")
def grid_with_y_first_in_the_block(rows, cols, block):
    y, x = block
    return -(-cols // x), -(-rows // y)


@wrong("grid_for", says="In y a block is added where the columns leave a remainder, not where the rows do")
def grid_with_the_columns_remainder_in_y(rows, cols, block):
    blocks_x, extra = divmod(cols, block[0])
    if extra:
        blocks_x += 1
    blocks_y = rows // block[1]
    if extra:
        blocks_y += 1
    return blocks_x, blocks_y


@wrong("grid_for", says="In x a block is added where the rows leave a remainder, not where the columns do")
def grid_with_the_rows_remainder_in_x(rows, cols, block):
    return cols // block[0] + (rows % block[1] > 0), -(-rows // block[1])


# ------------------------------------------------------------- what only the accesses, or another launch, can tell

WHOLE_FOURS = f"""
    int quad = {INDEX}, quads = n / 4;
    if (quad < quads) {{
        float4 a = ((const float4*)x1)[quad], b = ((const float4*)x2)[quad];
        ((float4*)out)[quad] = {STORE};
    }}
"""


@wrong("residual_vec4", says="behind the whole vectors, need one thread, too, or one each.")
def residual_whose_tail_is_everybodys(code):
    return body(code, WHOLE_FOURS + "    for (int k = 4 * quads; k < n; k++) out[k] = x1[k] + x2[k];")


@wrong("residual_vec4", says="out[16] is made from x1[0] and x2[0]; it should be made from x1[16] and x2[16].")
def residual_whose_tail_reads_the_beginning(code):
    return body(code, WHOLE_FOURS + "    if (quad < n % 4) out[4 * quads + quad] = x1[quad] + x2[quad];")


@wrong("residual_vec4", says="`quad == quads` in place of `quad == quads - 1` in line 10")
def residual_whose_last_four_takes_the_tail(code):
    tail = "    if (quad == quads - 1) {\n        for (int k = 4 * quads; k < n; k++) out[k] = x1[k] + x2[k];\n    }"
    return body(code, WHOLE_FOURS + tail)


@wrong("residual_vec4", says="8 bytes at a time: 16 are possible, with a float4.")
def residual_in_pairs(code):
    return body(
        code,
        f"""
    int i = {FIRST};
    for (int k = i; k < i + 4 && k < n; k += 2) {{
        if (k + 1 < n) {{
            float2 a = *(const float2*)(x1 + k), b = *(const float2*)(x2 + k);
            *(float2*)(out + k) = make_float2(a.x + b.x, a.y + b.y);
        }} else {{
            out[k] = x1[k] + x2[k];
        }}
    }}
""",
    )


@wrong("axpy", says="with `i` in place of `threadIdx.x` in line 8")
def axpy_whose_rest_is_done_by_every_block(code):
    return body(
        code,
        """
    int i = threadIdx.x + blockDim.x * blockIdx.x, step = blockDim.x * gridDim.x, turns = n / step;
    for (int k = 0; k < turns; k++) y[k * step + i] += a * x[k * step + i];
    int rest = n - turns * step;
    if (threadIdx.x < rest) y[turns * step + threadIdx.x] += a * x[turns * step + threadIdx.x];
""",
    )


@wrong("axpy", says="`while (at < n) { … }` in place of `do { … } while (at < n);`")
def axpy_whose_first_turn_is_always_done(code):
    return body(
        code,
        """
    int at = threadIdx.x + blockIdx.x * blockDim.x, step = blockDim.x * gridDim.x;
    do {
        y[at] = y[at] + a * x[at];
        at += step;
    } while (at < n);
""",
    )


@wrong("axpy", says="right, but only the first time: a second launch on the same numbers gives others. `taken` keeps")
def axpy_from_a_queue(code):
    counter = "// the numbers that somebody has taken\n__device__ unsigned taken;\n"
    return counter + body(
        code,
        """
    unsigned i;
    while ((i = atomicAdd(&taken, 1u)) < n) y[i] = fmaf(a, x[i], y[i]);
""",
    )


@wrong("axpy", says="part of y was never written: 1 of 1000 entries, the first at [999]")
def axpy_of_shares_rounded_down(code):
    return body(
        code,
        """
    int each = n / gridDim.x;
    for (int k = threadIdx.x; k < each; k += blockDim.x) y[blockIdx.x * each + k] += a * x[blockIdx.x * each + k];
""",
    )


@wrong(
    "leaky_relu", says="The loop on line 6 begins at the thread's number in the grid and goes on in steps of one block"
)
def leaky_in_a_loop(code):
    return body(
        code,
        """
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    for (; i < n; i += blockDim.x) out[i] = x[i] * (x[i] > 0 ? 1 : slope);
""",
    )


@wrong("split_heads", says="with `thread >= 3 * B * T * C / 4` in place of `thread >= 3 * B * T * C`")
def split_heads_with_a_guard_of_single_numbers(code):
    head, _, rest = code.partition("    // ### BEGIN SOLUTION\n")
    body = """
    int thread = blockIdx.x * blockDim.x + threadIdx.x, C = NH * hs;
    if (thread >= 3 * B * T * C) return;
    int i = thread * 4, j = i % hs, t = (i /= hs) % T, h = (i /= T) % NH, b = (i /= NH) % B, s = i / B;
    const float4* from = (const float4*)(qkv + (b * T + t) * 3 * C + s * C + h * hs + j);
    ((float4*)out)[thread] = *from;
"""
    return head + body + rest.partition("// ### END SOLUTION\n")[2]


# ---------------------------------------------------------------------------- 7 numbers of other places


@wrong("leaky_relu", says="out equals slope · x everywhere: it is x where x is above 0")
def leaky_without_else(code):
    return replaced(
        code,
        "out[i] = x[i] > 0.0f ? x[i] : slope * x[i];",
        "if (x[i] > 0.0f) out[i] = x[i];\n        out[i] = slope * x[i];",
    )


@wrong("swap_axes", says="out equals the reference of b = 0 for every b.")
def axes_read_at_a_remainder(code):
    return replaced(code, "int b = i / (T * C);", "int b = i / (T * C);\n        i %= T * C;")


@wrong("swap_axes", says="x read as if it were (T, B, C)")
def axes_of_rows_taken_apart_by_b(code):
    code = replaced(code, "int t = i / C % T;", "int t = i / C / B;")
    return replaced(code, "int b = i / (T * C);", "int b = i / C % B;")


@wrong("split_heads", says="qkv read as if it were (T, B, 3, NH, hs)")
def heads_of_rows_taken_apart_by_b(code):
    return replaced(code, "((b * T + t) * 3 + s)", "((t * B + b) * 3 + s)")


@wrong("split_heads", says="the reference laid out as (B, 3, NH, T, hs)")
def heads_with_b_in_front(code):
    code = replaced(code, "int b = i / (hs * T * NH) % B;", "int s = i / (hs * T * NH) % 3;")
    return replaced(code, "int s = i / (hs * T * NH * B);", "int b = i / (hs * T * NH * 3);")


@wrong("residual_vec4", says="and the tail begins at n / 4 * 4; lesson 12")
def fours_whose_tail_begins_at_a_quarter(code):
    return body(
        code,
        """
    int thread = blockIdx.x * blockDim.x + threadIdx.x, fours = n / 4;
    if (thread < fours) {
        float4 a = ((const float4*)x1)[thread], b = ((const float4*)x2)[thread];
        ((float4*)out)[thread] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }
    if (thread < n % 4) out[fours + thread] = x1[fours + thread] + x2[fours + thread];
""",
    )


@wrong("residual_vec4", says="Everything before it is written. Work out by hand which thread should write out[")
def fours_whose_tail_is_left_to_one_block(code):
    return body(
        code,
        """
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x), rest = n % 4, end = n - rest;
    if (i < end) {
        float4 a = *(const float4*)(x1 + i), b = *(const float4*)(x2 + i);
        *(float4*)(out + i) = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }
    if (blockIdx.x == 0 && threadIdx.x < rest) out[end + threadIdx.x] = x1[end + threadIdx.x] + x2[end + threadIdx.x];
""",
    )


@wrong("leaky_relu", says="There is a 256 in the kernel, and this block has")
def leaky_in_blocks_of_256(code):
    i = "int i = blockIdx.x * blockDim.x"
    return replaced(code, i, "const int threads = 256;\n    int i = blockIdx.x * threads")


@wrong("residual_vec4", says="The very first thread comes here, so it is the index that is wrong")
def vec4_with_a_tail_counted_back_from_n(code):
    back = "for (int k = 0; k < n % 4; k++) out[n - k] = x1[n - k] + x2[n - k];"
    return replaced(code, TAIL, f"    }}\n    if (i == 0)\n        {back}")


@wrong("swap_axes", says="the reference with x[i / (T * C)] in place of x[i]")
def axes_read_at_what_is_left_of_i(code):
    return replaced(
        code,
        "int t = i / C % T;",
        "i /= C;\n        int t = i % T;",
        "int b = i / (T * C);",
        "i /= T;\n        int b = i;",
    )


@wrong("grid_for", says="The rows are divided by the block's threads along x, too")
def grid_with_x_for_both_axes(rows, cols, block):
    width = block[0]
    full_x, rest_x = divmod(cols, width)
    full_y, rest_y = divmod(rows, width)
    if rest_x:
        full_x += 1
    if rest_y:
        full_y += 1
    return full_x, full_y


@wrong("swap_axes", says="out equals the reference of b = 0 for every b.")
def axes_with_b_divided_by_everything(code):
    return r"""
// out: (B, C, T), written. x: (B, T, C).
extern "C" __global__ void swap_axes(float* out, const float* x, int B, int T, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * T * C) return;
    int t = i % T, c = i / T % C, b = i / (B * T * C);
    out[i] = x[(b * T + t) * C + c];
}
"""
