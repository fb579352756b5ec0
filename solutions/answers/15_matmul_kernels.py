"""Answers to the exercises of lesson 15 as learners write them: right ones that look different, and wrong ones.

Each wrong answer carries words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 15` runs those of this lesson.
Those of exercises 1 to 4 are CUDA C: a function gets the solution's source and returns another.
"""

import re

from llmc.course.old.authoring.answers import replaced, right, wrong

BARRIER = "        __syncthreads();\n"


def holes(code, *texts):
    """The source with other text in place of each solution, one for each hole."""
    parts = re.split(r"[^\n]*### (?:BEGIN|END) SOLUTION\n", code)  # outside, hole, outside, …
    filled = [text.strip("\n") + "\n" for text in texts]
    return "".join(part for pair in zip(parts[::2], [*filled, ""], strict=True) for part in pair)


# ---------------------------------------------------------------------------------------------- 1 tiled_matmul

A_COPY = "as[row][column] = m0 + row < M && k < K ? a[(size_t)(m0 + row) * K + k] : 0.0f;"
B_COPY = "bs[row][column] = n0 + row < N && k < K ? b[(size_t)(n0 + row) * K + k] : 0.0f;"
SUM = "for (int i = 0; i < 16; i++) total += as[row][i] * bs[column][i];"
STORE = "if (m0 + row < M && n0 + column < N) result[(size_t)(m0 + row) * N + n0 + column] = total;"


@right("tiled_matmul")
def tiles_filled_with_ifs(code):
    return holes(
        code,
        """
    float sum = 0;
    const int turns = (K + 15) / 16;
    for (int turn = 0; turn < turns; ++turn) {
        const int c = turn * 16 + column, i = m0 + row, j = n0 + row;
        if (i < M && c < K) as[row][column] = a[i * K + c];
        else as[row][column] = 0;
        if (j < N && c < K) bs[row][column] = b[j * K + c];
        else bs[row][column] = 0;
        __syncthreads();
        #pragma unroll
        for (int e = 0; e < 16; ++e) sum = fmaf(as[row][e], bs[column][e], sum);
        __syncthreads();
    }
    if (m0 + row >= M || n0 + column >= N) return;
    result[(m0 + row) * N + (n0 + column)] = sum;
""",
    )


@right("tiled_matmul")
def tiles_with_k_first(code):
    """The package's layout: [k][row]."""
    code = replaced(code, "as[row][column] =", "as[column][row] =", "bs[row][column] =", "bs[column][row] =")
    return replaced(code, "as[row][i] * bs[column][i]", "as[i][row] * bs[i][column]")


@right("tiled_matmul")
def tiles_that_end_with_k(code):
    """No zeros behind the end of K, but a sum that ends there."""
    code = replaced(code, "m0 + row < M && k < K ?", "m0 + row < M && k < K ?", "i < 16;", "i < 16 && k0 + i < K;")
    return replaced(code, "k0 += 16) {\n", "k0 += 16) {\n        // one slice\n")


@wrong("tiled_matmul", says="Our solution does exactly the same without the condition `n0 + column < N`.")
def tiled_without_the_check_of_the_column(code):
    return replaced(code, "if (m0 + row < M && n0 + column < N) result", "if (m0 + row < M) result")


@wrong("tiled_matmul", says="has 5 rows (0 to 4). No condition around this line mentions `row`: is a check missing")
def tiled_without_a_check_of_the_result(code):
    return replaced(code, "if (m0 + row < M && n0 + column < N) result", "result")


@wrong("tiled_matmul", says="with `n0 + row < N` in place of `n0 + column < N` in line")
def tiles_that_check_the_results_column_for_a_row_of_b(code):
    code = replaced(code, "int k = k0 + column;", "int k = k0 + column;\n        bool has_n = n0 + column < N;")
    return replaced(code, "n0 + row < N && k < K ? b", "has_n && k < K ? b")


@wrong("tiled_matmul", says="race in shared memory")
def tiles_without_the_first_barrier(code):
    return replaced(code, BARRIER + "        for", "        for")


@wrong("tiled_matmul", says="race in shared memory")
def tiles_without_the_last_barrier(code):
    return replaced(code, BARRIER + "    }", "    }")


@wrong("tiled_matmul", says="lead to number 40 here (k0 = 32 and column = 8), but a row of b has 40 numbers (0 to 39).")
def tiles_without_an_edge_of_k_in_b(code):
    code = replaced(code, "        int k = k0 + column;\n", "")
    code = replaced(
        code, "k < K ? a[(size_t)(m0 + row) * K + k]", "k0 + column < K ? a[(size_t)(m0 + row) * K + k0 + column]"
    )
    return replaced(
        code,
        "n0 + row < N && k < K ? b[(size_t)(n0 + row) * K + k]",
        "n0 + row < N ? b[(size_t)(n0 + row) * K + k0 + column]",
    )


@wrong("tiled_matmul", says="out of bounds")
def tiles_without_edges_of_k(code):
    return code.replace(" && k < K", "")


@wrong("tiled_matmul", says="out of bounds")
def tiles_without_an_edge_of_b(code):
    return replaced(code, "n0 + row < N && k < K", "k < K")


@wrong("tiled_matmul", says="what the slice before has left behind the end of K")
def tiles_that_keep_what_is_there(code):
    code = replaced(code, A_COPY, "if (m0 + row < M && k < K) as[row][column] = a[(size_t)(m0 + row) * K + k];")
    code = replaced(code, B_COPY, "if (n0 + row < N && k < K) bs[row][column] = b[(size_t)(n0 + row) * K + k];")
    return replaced(
        code, "    float total = 0.0f;\n", "    float total = 0.0f;\n    as[row][column] = bs[row][column] = 0.0f;\n"
    )


@wrong("tiled_matmul", says="Line 14 writes as only where `m0 + row < M && k < K`.")
def tiles_that_are_not_filled(code):
    return replaced(code, A_COPY, "if (m0 + row < M && k < K) as[row][column] = a[(size_t)(m0 + row) * K + k];")


@wrong("tiled_matmul", says="the sum without the last slice, which is not a whole one")
def tiles_of_whole_slices(code):
    return replaced(code, "k0 < K; k0 += 16", "k0 + 16 <= K; k0 += 16")


@wrong("tiled_matmul", says="the first slice of 16 k again and again")
def tiles_without_k0(code):
    return replaced(code, "int k = k0 + column;", "int k = column;")


@wrong("tiled_matmul", says="ninitialised")
def tiles_whose_threads_leave(code):
    leave = "    if (m0 + row >= M || n0 + column >= N) return;\n    float total = 0.0f;\n"
    return replaced(code, "    float total = 0.0f;\n", leave)


@wrong("tiled_matmul", says="with bs[row] in place of bs[column]: a column of the result has its own row of b")
def tiles_multiplied_by_rows(code):
    return replaced(code, "bs[column][i]", "bs[row][i]")


@wrong("tiled_matmul", says="each tile of 16 x 16 turned")
def tiles_with_rows_and_columns_exchanged(code):
    return replaced(code, "as[row][i] * bs[column][i]", "as[column][i] * bs[row][i]")


@wrong("tiled_matmul", says="the first slice of b in all of them")
def tiles_of_b_without_k0(code):
    return replaced(code, "b[(size_t)(n0 + row) * K + k]", "b[(size_t)(n0 + row) * K + column]")


@wrong("tiled_matmul", says="the product with each slice of b turned")
def tiles_of_b_read_as_in_the_lesson(code):
    return replaced(code, "bs[column][i]", "bs[i][column]")


@wrong("tiled_matmul", says="the product with each slice of b turned")
def tiles_of_b_filled_by_columns(code):
    b_copy = "bs[row][column] = n0 + column < N && k0 + row < K ? b[(size_t)(n0 + column) * K + k0 + row] : 0.0f;"
    return replaced(code, B_COPY, b_copy)


@wrong("tiled_matmul", says="with `N` in place of `K` in `(m0 + row) * K`")
def tiles_with_rows_of_N(code):
    return replaced(code, "a[(size_t)(m0 + row) * K + k]", "a[(size_t)(m0 + row) * N + k]")


@wrong("tiled_matmul", says="the product with b read as (K, N)")
def tiles_of_b_as_in_the_textbook(code):
    code = replaced(
        code, B_COPY, "bs[row][column] = k0 + row < K && n0 + column < N ? b[(k0 + row) * N + n0 + column] : 0.0f;"
    )
    return replaced(code, "bs[column][i]", "bs[i][column]")


@wrong("tiled_matmul", says="the sum over the last slice alone")
def tiles_that_forget(code):
    return replaced(code, SUM, f"total = 0.0f;\n        {SUM}")


@wrong("tiled_matmul", says="sectors of 32 bytes are moved")
def tiles_that_are_not_used(code):
    return holes(
        code,
        """
    if (m0 + row >= M || n0 + column >= N) return;
    float total = 0.0f;
    for (int k = 0; k < K; k++) total += a[(m0 + row) * K + k] * b[(n0 + column) * K + k];
    result[(m0 + row) * N + n0 + column] = total;
""",
    )


@wrong("tiled_matmul", says="sectors of 32 bytes are moved")
def tiles_filled_by_columns(code):
    code = replaced(code, "int k = k0 + column;", "int k = k0 + row;", A_COPY, A_COPY.replace("row < M", "column < M"))
    code = replaced(
        code,
        "a[(size_t)(m0 + row) * K + k]",
        "a[(size_t)(m0 + column) * K + k]",
        "as[row][column] =",
        "as[column][row] =",
    )
    code = replaced(code, "n0 + row < N && k < K", "n0 + column < N && k < K", "(n0 + row) * K", "(n0 + column) * K")
    return replaced(code, "bs[row][column] =", "bs[column][row] =")


@wrong("tiled_matmul", says="never written")
def tiles_without_the_last_column(code):
    return replaced(code, "n0 + column < N) result", "n0 + column < N - 1) result")


@wrong("tiled_matmul", says="ninitialised")
def tiles_added_to_what_is_there(code):
    return replaced(code, "n0 + column] = total;", "n0 + column] += total;")


@wrong("tiled_matmul", says="out of bounds")
def tiles_written_below_the_last_row(code):
    return replaced(code, STORE, STORE.replace("m0 + row < M && ", ""))


# ------------------------------------------------------------------------------------------------- 2 turn_tile

TILE = "tile[32][33]"


@right("turn_tile")
def turned_with_a_swizzle(code):
    code = replaced(code, TILE, "tile[32][32]", "tile[row][lane] =", "tile[row][lane ^ row] =")
    return replaced(code, "= tile[lane][k];", "= tile[lane][k ^ lane];")


@right("turn_tile")
def turned_on_the_way_in(code):
    code = replaced(code, "tile[row][lane] =", "tile[lane][row] =")
    return replaced(code, "= tile[lane][k];", "= tile[k][lane];")


@right("turn_tile")
def turned_in_one_axis(code):
    return holes(
        code,
        """
    __shared__ float flat[32 * 33];
    for (int j = threadIdx.x; j < 1024; j += blockDim.x) {
        int y = j >> 5, x = j & 31;
        flat[y * 33 + x] = m0 + y < M && k0 + x < K ? a[(m0 + y) * K + k0 + x] : 0.0f;
    }
    __syncthreads();
    for (int j = threadIdx.x; j < 1024; j += 256) {
        int y = j / 32, x = j % 32;
        if (k0 + y >= K || m0 + x >= M) continue;
        turned[(k0 + y) * M + (m0 + x)] = flat[x * 33 + y];
    }
""",
    )


@wrong("turn_tile", says="extra passes are made for bank conflicts")
def turned_in_a_queue(code):
    return replaced(code, TILE, "tile[32][32]")


@wrong("turn_tile", says="extra passes are made for bank conflicts")
def turned_with_too_much_padding(code):
    return replaced(code, TILE, "tile[32][34]")


@wrong("turn_tile", says="a would be read apart instead. Let a tile pass through shared memory")
def turned_without_a_tile(code):
    return holes(
        code,
        """
    for (int row = warp; row < 32; row += 8) {
        if (m0 + row < M && k0 + lane < K) turned[(k0 + lane) * M + m0 + row] = a[(m0 + row) * K + k0 + lane];
    }
""",
    )


@wrong("turn_tile", says="race in shared memory")
def turned_without_a_barrier(code):
    return replaced(code, "    __syncthreads();\n", "")


@wrong("turn_tile", says="with two loops in place of that on line 9: one for line 10, then `__syncthreads();`, then")
def turned_row_by_row(code):
    return holes(
        code,
        """
    __shared__ float tile[32][33];
    for (int r = warp; r < 32; r += 8) {
        if (m0 + r < M && k0 + lane < K) tile[r][lane] = a[(size_t)(m0 + r) * K + k0 + lane];
        __syncthreads();
        if (k0 + r < K && m0 + lane < M) turned[(size_t)(k0 + r) * M + m0 + lane] = tile[lane][r];
    }
""",
    )


@wrong("turn_tile", says="with `return`, are missing: when they are there after the barrier, all of it is written")
def turned_by_those_who_read(code):
    return replaced(
        code,
        "    for (int row = warp;",
        "    if (lane + k0 >= K) return;\n    for (int row = warp;",
        "if (m0 + row < M && k0 + lane < K) tile",
        "if (m0 + row < M) tile",
    )


@wrong("turn_tile", says="out of bounds")
def turned_without_an_edge(code):
    return replaced(code, "if (m0 + row < M && k0 + lane < K) tile", "if (m0 + row < M) tile")


@wrong(
    "turn_tile",
    says="a, copied as it lies: rows must become columns.\n"
    "turned[0, 1] is made from a[0, 1]; it should be made from a[1, 0].\n"
    "Line 11 puts a[1, 0] into tile[1][0]; line 15 reads tile[0][1] for turned[0, 1].",
)
def turned_not_at_all(code):
    second = "if (k0 + k < K && m0 + lane < M) turned[(size_t)(k0 + k) * M + m0 + lane] = tile[lane][k];"
    return replaced(
        code, second, "if (m0 + k < M && k0 + lane < K) turned[(size_t)(m0 + k) * K + k0 + lane] = tile[k][lane];"
    )


@wrong("turn_tile", says="for the tiles, and not inside of each: the tile is turned twice")
def turned_but_for_the_tile(code):
    return replaced(code, "= tile[lane][k];", "= tile[k][lane];")


@wrong("turn_tile", says="without the term `k0` in `(m0 + row) * K + k0 + lane`")
def turned_from_the_first_columns(code):
    return replaced(code, "a[(size_t)(m0 + row) * K + k0 + lane]", "a[(size_t)(m0 + row) * K + lane]")


@wrong("turn_tile", says="in place of `turned[(size_t)(k0 + k) * K + m0 + lane] = tile[lane][k]` in line 15")
def turned_with_rows_of_K(code):
    return replaced(code, "(size_t)(k0 + k) * M", "(size_t)(k0 + k) * K")


@wrong("turn_tile", says="ever written")
def turned_with_a_row_for_each_warp(code):
    return replaced(code, "for (int k = warp; k < 32; k += 8) {", "for (int k = warp; k < 8; k += 8) {")


@wrong("turn_tile", says="the 8 warps fill the 32 rows of a tile, 4 each")
def turned_with_only_some_rows(code):
    return replaced(code, "for (int row = warp; row < 32; row += 8) {", "for (int row = warp; row < 24; row += 8) {")


@wrong("turn_tile", says="ever written")
def turned_with_the_edges_exchanged(code):
    return replaced(
        code, "if (k0 + k < K && m0 + lane < M)", "if (m0 + k < M && k0 + lane < K && k0 + k < K && m0 + lane < M)"
    )


@wrong("turn_tile", says="line 9 declares tile[32][31]: does `lane` go too far, or is the array too small?")
def turned_in_a_tile_that_is_too_small(code):
    return replaced(code, TILE, "tile[32][31]")


# --------------------------------------------------------------------------------------------- 3 register_tile

LOAD = "for (int i = 0; i < 4; i++) x[i] = as[k][row + i], y[i] = bs[k][column + i];"
MULTIPLY = "totals[i][j] += x[i] * y[j];"
ADD = "if (m < M && n < N) result[(size_t)m * N + n] += totals[i][j];"


@right("register_tile")
def square_of_quads(code):
    first = """
        for (int k = 0; k < 8; k++) {
            alignas(16) float x[4], y[4];
            *(float4*)x = *(const float4*)&as[k][row];
            *(float4*)y = *(const float4*)&bs[k][column];
            for (int e = 0; e < 16; e++) totals[e / 4][e % 4] += x[e / 4] * y[e % 4];
        }
"""
    last = """
    for (int e = 0; e < 16; e++) {
        int m = m0 + row + e / 4, n = n0 + column + e % 4;
        if (m >= M || n >= N) continue;
        float* place = result + (size_t)m * N + n;
        *place = *place + totals[e / 4][e % 4];
    }
"""
    code = replaced(code, "__shared__ float as", "__shared__ __align__(16) float as")
    return holes(code, first, last)


@right("register_tile")
def square_row_by_row(code):
    first = """
        for (int k = 0; k < 8; k++) {
            float y0 = bs[k][column], y1 = bs[k][column + 1], y2 = bs[k][column + 2], y3 = bs[k][column + 3];
            for (int i = 0; i < 4; i++) {
                float x = as[k][row + i];
                totals[i][0] += x * y0, totals[i][1] += x * y1, totals[i][2] += x * y2, totals[i][3] += x * y3;
            }
        }
"""
    last = """
    for (int i = 0; i < 4 && m0 + row + i < M; i++)
        for (int j = 0; j < 4 && n0 + column + j < N; j++)
            result[(m0 + row + i) * N + n0 + column + j] += totals[i][j];
"""
    return holes(code, first, last)


@wrong("register_tile", says="What a thread needs more than once it can keep in a variable")
def registers_that_are_not_used(code):
    code = replaced(code, "            float x[4], y[4];\n", "            // no variables\n")
    code = replaced(code, "x[i] = as[k][row + i], y[i] = bs[k][column + i]", "")
    return replaced(code, "x[i] * y[j]", "as[k][row + i] * bs[k][column + j]")


@wrong("register_tile", says="was overwritten instead of accumulated")
def square_that_overwrites(code):
    return replaced(code, "+= totals[i][j];", "= totals[i][j];")


@wrong("register_tile", says="requests of a warp go to shared memory")
def square_without_registers(code):
    code = replaced(code, f"            {LOAD}\n", "", "            float x[4], y[4];\n", "")
    return replaced(code, MULTIPLY, "totals[i][j] += as[k][row + i] * bs[k][column + j];")


@wrong("register_tile", says="the product with as read at this thread's column, not its row")
def square_on_the_diagonal(code):
    return replaced(code, "as[k][row + i]", "as[k][column + i]")


@wrong("register_tile", says="with the first row of each thread's square all over it: row i has numbers of its own")
def square_of_one_row(code):
    return replaced(code, "as[k][row + i]", "as[k][row]")


@wrong("register_tile", says="out of bounds")
def square_without_an_edge(code):
    return replaced(code, "if (m < M && n < N) ", "if (m < M) ")


@wrong("register_tile", says="out of bounds")
def square_with_rows_of_M(code):
    return replaced(code, "result[(size_t)m * N + n]", "result[(size_t)m * M + n]")


@wrong("register_tile", says='lesson 15, section "3.1 · v1: one thread for each result"')
def square_that_is_too_large(code):
    code = replaced(
        code, "int m = m0 + row + i, n = n0 + column + j;", "int m = m0 + row + i, n = n0 + column / 4 + j;"
    )
    return code


@wrong("register_tile", says="each thread's square of 4 x 4 turned")
def square_with_i_and_j_exchanged(code):
    return replaced(code, MULTIPLY, "totals[j][i] += x[i] * y[j];")


@wrong("register_tile", says="with `totals[i][j] += x[i] * y[j]` in place of `totals[i][j] = x[i] * y[j]`")
def square_that_forgets(code):
    return replaced(code, MULTIPLY, "totals[i][j] = x[i] * y[j];")


@wrong("register_tile", says="`k < 8` in place of `k < 4` in line 25")
def square_of_half_a_slice(code):
    return replaced(code, "for (int k = 0; k < 8; k++) {", "for (int k = 0; k < 4; k++) {")


@wrong("register_tile", says="`k` is 8 here, and line 14 declares as[8][64]: does `k` go too far?\n")
def square_with_k_from_k0(code):
    return replaced(code, "for (int k = 0; k < 8; k++) {", "for (int k = k0; k < k0 + 8; k++) {")


PLACE = "int m = m0 + row + i, n = n0 + column + j;"


@wrong(
    "register_tile", says="a thread's 4 columns lie 16 apart where they are written, and side by side where they are m"
)
def square_with_columns_of_a_warp(code):
    return replaced(code, PLACE, "int m = m0 + row + i, n = n0 + threadIdx.x % 16 + j * 16;")


@wrong("register_tile", says="and side by side where they are written.")
def square_that_multiplies_apart(code):
    return replaced(code, "as[k][row + i]", "as[k][row / 4 + 8 * i]", "bs[k][column + i]", "bs[k][column / 4 + 8 * i]")


@wrong(
    "register_tile", says="a thread's 4 rows lie apart where they are multiplied, and side by side where they are wri"
)
def square_of_rows_that_are_not_there(code):
    return replaced(code, "as[k][row + i]", "as[k][row / 4 + 16 * i]")


@wrong("register_tile", says="a thread's 4 rows come in reverse, where they are written or where they are multiplied")
def square_upside_down(code):
    return replaced(code, PLACE, "int m = m0 + row + (3 - i), n = n0 + column + j;")


@wrong(
    "register_tile", says="a thread's 4 columns begin at 4 · t where they are written, and at t where they are multip"
)
def square_without_times_four(code):
    return replaced(code, "bs[k][column + i]", "bs[k][threadIdx.x % 16 + i]")


@wrong("register_tile", says="row and column are exchanged, where it multiplies or where it writes")
def square_written_across_the_diagonal(code):
    return replaced(code, PLACE, "int m = m0 + column + i, n = n0 + row + j;")


# --------------------------------------------------------------------------------------------- 4 double_buffer

FIRST = "    ask(as[0], a, m0, 0, M, K, true);\n    ask(bs[0], b, n0, 0, N, K, false);\n    end_batch();\n"
WAIT = "        wait_but<0>();\n"
SAID = "        __syncthreads();  // this slice is there for all threads, and they are done with the one before\n"
NEXT_A = "        ask(as[1 - now], a, m0, k0 + 8, M, K, true);\n"
NEXT_B = "        ask(bs[1 - now], b, n0, k0 + 8, N, K, false);\n"
NEXT = f"{NEXT_A}{NEXT_B}        end_batch();\n"
USE = "        multiply(totals, as[now], bs[now], row, column);\n"


@right("double_buffer")
def buffers_with_two_barriers(code):
    loop = f"{NEXT}        wait_but<1>();\n{BARRIER}{USE}{BARRIER}"
    return replaced(
        code,
        f"{WAIT}{SAID}{NEXT}{USE}",
        loop,
    )


@right("double_buffer")
def buffers_that_wait_at_the_end(code):
    """With a batch for each of a and b."""
    return holes(
        code,
        """
    ask(as[0], a, m0, 0, M, K, true); end_batch();
    ask(bs[0], b, n0, 0, N, K, false); end_batch();
    wait_but<0>(); __syncthreads();
    int now = 0;
    for (int k0 = 0; k0 < K; k0 += 8) {
        if (k0 + 8 < K) ask(as[now ^ 1], a, m0, k0 + 8, M, K, true);
        end_batch();
        if (k0 + 8 < K) ask(bs[now ^ 1], b, n0, k0 + 8, N, K, false);
        end_batch();
        multiply(totals, as[now], bs[now], row, column);
        wait_but<0>(); __syncthreads();
        now ^= 1;
    }
""",
    )


@right("double_buffer")
def buffers_that_stop_asking(code):
    asked = "        if (k0 + 8 < K) {\n    " + NEXT_A + "    " + NEXT_B + "            end_batch();\n        }\n"
    return replaced(code, NEXT, asked)


@right("double_buffer")
def buffers_that_begin_before(code):
    """As llmc's v8: the loop begins one slice before the first."""
    return holes(
        code,
        """
    int next = 0;
    for (int k0 = -8; k0 < K; k0 += 8) {
        wait_but<0>();
        __syncthreads();
        ask(as[next], a, m0, k0 + 8, M, K, true);
        ask(bs[next], b, n0, k0 + 8, N, K, false);
        end_batch();
        if (k0 >= 0) multiply(totals, as[next ^ 1], bs[next ^ 1], row, column);
        next ^= 1;
    }
""",
    )


@right("double_buffer")
def three_buffers(code):
    code = replaced(code, "as[2][8][33], bs[2][8][33];  // [buffer]", "as[3][8][33], bs[3][8][33];  // [buffer]")
    return holes(
        code,
        """
    for (int s = 0; s < 2; s++) {
        ask(as[s], a, m0, 8 * s, M, K, true);
        ask(bs[s], b, n0, 8 * s, N, K, false);
        end_batch();
    }
    for (int s = 0; 8 * s < K; s++) {
        wait_but<1>();
        __syncthreads();
        ask(as[(s + 2) % 3], a, m0, 8 * (s + 2), M, K, true);
        ask(bs[(s + 2) % 3], b, n0, 8 * (s + 2), N, K, false);
        end_batch();
        multiply(totals, as[s % 3], bs[s % 3], row, column);
    }
""",
    )


@wrong("double_buffer", says="the later slices of b read as if b were (N, K)")
def buffers_with_b_read_the_other_way_in_the_loop(code):
    return replaced(code, "b, n0, k0 + 8, N, K, false", "b, n0, k0 + 8, N, K, true")


@wrong("double_buffer", says="a thread waits for its own copies alone: after the wait, let the block meet")
def double_buffer_in_which_nobody_waits_for_others(code):
    return replaced(code, "        __syncthreads();  // this slice", "        // this slice")


@wrong("double_buffer", says="the product of slices that begin at k = 0, 1, 9, …")
def buffers_one_k_further(code):
    return code.replace("k0 + 8", "k0 + 1")


@wrong("double_buffer", says="n0 in place of m0 in the call of ask for the later slices of a")
def buffers_whose_later_slices_of_a_begin_at_the_blocks_column(code):
    return replaced(code, "ask(as[1 - now], a, m0,", "ask(as[1 - now], a, n0,")


@wrong("double_buffer", says="m0 in place of n0 in the call of ask for all slices of b")
def buffers_of_b_that_begin_at_the_blocks_row(code):
    return code.replace("b, n0,", "b, m0,")


@wrong("double_buffer", says="the sum without the last slice")
def buffers_whose_last_slice_is_only_asked_for(code):
    return replaced(code, "for (int k0 = 0, now = 0; k0 < K;", "for (int k0 = 0, now = 0; k0 + 8 < K;")


@wrong("double_buffer", says="row in place of m0 in the call of ask for the first slice of a")
def buffers_whose_first_slice_begins_at_the_threads_row(code):
    return replaced(code, "ask(as[0], a, m0,", "ask(as[0], a, row,")


@wrong("double_buffer", says="column in place of n0 in the call of ask for the later slices of b")
def buffers_whose_later_slices_begin_at_the_threads_column(code):
    return replaced(code, "ask(bs[1 - now], b, n0,", "ask(bs[1 - now], b, column,")


@wrong("double_buffer", says="row in place of m0 in the call of ask for all slices of a")
def buffers_that_begin_at_the_threads_row(code):
    return code.replace("a, m0,", "a, row,")


@wrong("double_buffer", says="wait (`wait_but`), then let the block meet at `__syncthreads();`, and only then read.\n")
def buffers_that_do_not_wait(code):
    return replaced(code, WAIT, "")


@wrong("double_buffer", says="passes this whole check with `wait_but<0>()` in place of `wait_but<1>()`")
def buffers_that_wait_for_too_little(code):
    return replaced(code, WAIT, WAIT.replace("<0>", "<1>"))


@wrong("double_buffer", says="The copy is in no batch: `end_batch` has not come since it was asked for")
def buffers_whose_batch_never_ends(code):
    return replaced(code, NEXT, NEXT_A + NEXT_B)


@wrong("double_buffer", says="race in shared memory")
def buffers_without_a_barrier(code):
    return replaced(
        code,
        SAID,
        "",
    )


@wrong("double_buffer", says="race with an asynchronous copy")
def buffers_that_wait_behind_the_barrier(code):
    return replaced(code, WAIT + SAID, SAID + WAIT)


@wrong("double_buffer", says="Between the same two barriers the other thread asks for a new copy into this place")
def buffers_filled_too_early(code):
    return replaced(code, WAIT + SAID + NEXT, WAIT + NEXT + SAID)


TWO_BATCHES = f"{NEXT_A}        end_batch();\n{NEXT_B}        end_batch();\n"  # to a slice


@right("double_buffer")
def buffers_with_two_batches_to_a_slice(code):
    code = replaced(code, "as[0], a, m0, 0, M, K, true);\n", "as[0], a, m0, 0, M, K, true);\n    end_batch();\n")
    return replaced(code, WAIT + SAID + NEXT + USE, f"{TWO_BATCHES}        wait_but<2>();\n{BARRIER}{USE}{BARRIER}")


@wrong(
    "double_buffer",
    says="only 0 of 8 slices come in the background of a multiplication; the goal is all but the first. Of",
)
def buffers_with_two_batches_to_a_slice_that_wait_for_the_next_one(code):
    return buffers_with_two_batches_to_a_slice(code).replace("wait_but<2>()", "wait_but<1>()")


@wrong("double_buffer", says="slices come in the background of a multiplication; the goal is all but the first")
def one_buffer(code):
    loop = "    for (int k0 = 0; k0 < K; k0 += 8) {\n" + BARRIER
    loop += "        ask(as[0], a, m0, k0, M, K, true);\n        ask(bs[0], b, n0, k0, N, K, false);\n"
    loop += "        end_batch();\n"
    return holes(code, loop + WAIT + BARRIER + USE.replace("now", "0") + "    }\n")


@wrong("double_buffer", says="only 0 of")
def buffers_that_wait_at_once(code):
    return replaced(code, NEXT, NEXT + WAIT)


@wrong("double_buffer", says="only 0 of")
def buffers_that_multiply_before_they_ask(code):
    return replaced(code, NEXT + USE, USE + NEXT)


@wrong("double_buffer", says="all slices of b read as if b were (N, K)")
def buffers_of_b_that_lies_otherwise(code):
    return code.replace("N, K, false", "N, K, true")


@wrong("double_buffer", says="race in shared memory")
def buffers_that_multiply_with_the_next_slice(code):
    return replaced(code, USE, USE.replace("now", "1 - now"))


@wrong("double_buffer", says="the first slice of 8 k again and again")
def buffers_without_a_next_slice(code):
    return replaced(code, "m0, k0 + 8,", "m0, 0,", "n0, k0 + 8,", "n0, 0,")


@wrong("double_buffer", says="the product without the second slice")
def buffers_one_slice_too_far(code):
    return replaced(code, "m0, k0 + 8,", "m0, k0 + 16,", "n0, k0 + 8,", "n0, k0 + 16,")


@wrong("double_buffer", says="slices that begin at k = 0, 0, 8, …")
def buffers_that_ask_for_the_same_slice(code):
    return replaced(code, "m0, k0 + 8,", "m0, k0,", "n0, k0 + 8,", "n0, k0,")


@wrong("double_buffer", says="all slices of a read as if a were (K, M)")
def buffers_of_a_that_lies_otherwise(code):
    return code.replace("M, K, true", "M, K, false")


@wrong("double_buffer", says="the first slice of 8 k again and again")
def buffers_that_are_not_exchanged(code):
    return replaced(code, ", now = 1 - now", "")


@wrong("double_buffer", says="the sum without the last slice, which is not a whole one")
def buffers_of_whole_slices(code):
    return replaced(code, "k0 < K; k0 += 8", "k0 + 8 <= K; k0 += 8")


# -------------------------------------------------------------------------------------------------- 5 autotune


@right("autotune")
def tuner_that_looks_at_two_numbers_of_parts(M, N, K, tiles, measure):
    first = {tile: min(measure(tile, 1), measure(tile, 4)) for tile in tiles}
    best, least = None, float("inf")
    for tile in sorted(first, key=first.get)[:7]:
        for parts in range(1, 17):
            us = measure(tile, parts)
            if us < least:
                best, least = (tile, parts), us
    return best


@right("autotune")
def tuner_that_goes_down_the_hill(M, N, K, tiles, measure):
    seen = {}

    def us(tile, parts):
        if (tile, parts) not in seen:
            seen[tile, parts] = measure(tile, parts)
        return seen[tile, parts]

    for tile in tiles:
        us(tile, 1)
    for tile, _ in sorted(seen, key=seen.get)[:12]:
        for parts in range(2, 17):
            us(tile, parts)
    return min(seen, key=seen.get)


@wrong("autotune", says="The best has another tile, and parts = 9; autotune measured that tile with parts = 1 alone.")
def tuner_that_keeps_one_tile(M, N, K, tiles, measure):
    tile = min(tiles, key=lambda each: measure(each, 1))
    us = {parts: measure(tile, parts) for parts in range(1, 17)}
    return tile, min(us, key=us.get)


@wrong("autotune", says="The tile is wrong: whatever its parts, it takes at least")
def tuner_of_the_three_best_with_one_part(M, N, K, tiles, measure):
    three = sorted(tiles, key=lambda each: measure(each, 1))[:3]
    return min(((tile, parts) for tile in three for parts in range(1, 17)), key=lambda way: measure(*way))


@wrong("autotune", says="whatever its parts; parts = 2 at least 14% longer than the best, with any tile")
def tuner_that_chooses_the_parts_first(M, N, K, tiles, measure):
    parts = min(range(1, 17), key=lambda each: measure(tiles[0], each))
    return min(tiles, key=lambda tile: measure(tile, parts)), parts


@wrong("autotune", says="autotune never tried other parts than 1")
def tuner_without_parts(M, N, K, tiles, measure):
    return min(tiles, key=lambda tile: measure(tile, 1)), 1


@wrong("autotune", says="this tile takes 0% longer than the best; autotune measured that, too")
def tuner_that_gives_the_index_of_the_parts(M, N, K, tiles, measure):
    rows = {tile: [measure(tile, 4)] for tile in tiles}
    for tile in sorted(tiles, key=rows.get)[:12]:
        rows[tile] = [measure(tile, parts) for parts in range(1, 17)]
    tile = min(tiles, key=lambda each: min(rows[each]))
    return tile, max(1, rows[tile].index(min(rows[tile])))


@wrong("autotune", says="the goal is at most 300")
def tuner_that_tries_everything(M, N, K, tiles, measure):
    return min(((tile, parts) for tile in tiles for parts in range(1, 17)), key=lambda way: measure(*way))


@wrong("autotune", says="of which it measured no other parts.")
def tuner_that_takes_the_slowest(M, N, K, tiles, measure):
    promising = sorted(tiles, key=lambda tile: -measure(tile, 1))[20:28]
    return min(((tile, parts) for tile in promising for parts in range(1, 17)), key=lambda way: measure(*way))


@wrong("autotune", says="autotune chose a tile that does not fit: it measures as infinity")
def tuner_that_takes_infinity(M, N, K, tiles, measure):
    return max(tiles, key=lambda tile: measure(tile, 1)), 1


@wrong("autotune", says="should return two things, (tile, parts)")
def tuner_without_the_parts_it_found(M, N, K, tiles, measure):
    return min(tiles, key=lambda tile: measure(tile, 4))


@wrong("autotune", says="should return two things, (tile, parts)")
def tuner_that_returns_the_time_as_well(M, N, K, tiles, measure):
    promising = sorted(tiles, key=lambda tile: measure(tile, 1))[:8]
    return min((measure(tile, parts), tile, parts) for tile in promising for parts in range(1, 17))


@wrong("autotune", says="one of the tiles, and 1 to 16 parts")
def tuner_with_zero_parts(M, N, K, tiles, measure):
    promising = sorted(tiles, key=lambda tile: measure(tile, 1))[:8]
    return min(((tile, parts) for tile in promising for parts in range(16)), key=lambda way: measure(*way))


@wrong("autotune", says="longer than the best")
def tuner_that_guesses(M, N, K, tiles, measure):
    blocks = {tile: -(-M // tile.BM) * -(-N // tile.BN) for tile in tiles}
    tile = max(tiles, key=lambda tile: tile.BM * tile.BN)
    return tile, max(1, min(16, 132 // blocks[tile]))


@wrong("autotune", says="a whole number (an int) from 1 to 16, but it is the float 1.0.")
def tuner_with_a_float(M, N, K, tiles, measure):
    tile, parts = min(((tile, parts) for tile in tiles for parts in (1, 4, 7)), key=lambda way: measure(*way))
    return tile, parts / 1


# ------------------------------------------------------------- what only the accesses, or another launch, can tell


@wrong(
    "turn_tile", says="neighbouring lanes are 32 floats apart: they fall into the same bank. With an odd distance, 33,"
)
def turned_through_one_bank(code):
    return replaced(code, TILE, "tile[32][32]")


@wrong("turn_tile", says="neighbouring lanes are 36 floats apart: they fall into only 8 of the 32 banks.")
def turned_with_four_more(code):
    return replaced(code, TILE, "tile[32][36]")


@wrong("turn_tile", says="`… = tile[lane][k ^ lane]` in place of `… = tile[lane][k ^ warp]` in line 15")
def turned_with_two_swizzles(code):
    code = replaced(code, TILE, "tile[32][32]", "tile[row][lane] =", "tile[row][row ^ lane] =")
    return replaced(code, "= tile[lane][k];", "= tile[lane][k ^ warp];")


@wrong(
    "turn_tile", says="A thread writes at most 1 number of turned (line 16), but there are 2,048 for the 512 threads"
)
def turned_once_for_each_warp(code):
    return replaced(code, "for (int k = warp; k < 32; k += 8) {", "{\n        int k = warp;")


@wrong("turn_tile", says="passes this whole check without the `return` in line 9")
def turned_without_the_lanes_beyond(code):
    return replaced(code, "    __shared__ float tile", "    if (lane + k0 >= K) return;\n    __shared__ float tile")


@wrong("tiled_matmul", says="should depend on numbers from b[16, 0] to b[16, 39].")
def tiles_with_m0_for_both(code):
    return replaced(code, B_COPY, B_COPY.replace("n0 + row", "m0 + row"))


@wrong(
    "tiled_matmul",
    says="the sum over the last slice alone",
)
def tiles_with_a_sum_for_each(code):
    code = replaced(code, "    float total = 0.0f;\n", "", f"    {STORE}\n", "")
    return replaced(code, SUM, f"float total = 0;\n        {SUM}\n        {STORE}")


@wrong("register_tile", says="the right numbers of whole squares of 4 x 4 alone")
def only_whole_squares(code):
    return replaced(code, "if (m < M && n < N) result", "if (m0 + row + 3 < M && n0 + column + 3 < N) result")


@wrong("register_tile", says="the totals so far added after every slice")
def adds_after_every_slice(code):
    end = code.index("    for (int i = 0; i < 4; i++) {\n        for (int j = 0; j < 4; j++) {\n            int m")
    written = code[end : code.rindex("}")]
    code = code[:end] + "}\n"
    inside = code.rindex("    }\n")
    return code[:inside] + written + code[inside:]


@wrong("tiled_matmul", says="`… = n0 + row < N && k < K ? b[(size_t)(n0 + row) * K + k] : 0.0f` in place of")
def tiles_of_b_by_their_columns(code):
    line = "bs[row][column] = n0 + row < N && k < K ? b[(size_t)(n0 + row) * K + k] : 0.0f;"
    return replaced(code, line, line.replace("n0 + row", "n0 + column"))


@wrong("double_buffer", says="race with an asynchronous copy, lines 6 and 25")
def buffers_of_b_filled_while_they_are_multiplied(code):
    return replaced(code, "ask(bs[1 - now], b", "ask(bs[now], b")


@wrong("double_buffer", says="then starts another copy into the place in as that line 47 is about to read: a copy for")
def buffers_that_are_one(code):
    return code.replace("[1 - now]", "[0]").replace("[now]", "[0]")


@wrong("autotune", says="and the tile is that of the last one")
def autotune_returns_the_last_tile(M, N, K, tiles, measure):
    promising = sorted(tiles, key=lambda tile: measure(tile, 4))[:12]
    found = {}  # {µs: parts}
    for tile in promising:
        for parts in range(1, 17):
            found[measure(tile, parts)] = parts
    fastest = min(found)
    return tile, found[fastest]


# ---------------------------------------------------------------------------- 6 numbers of other places


@wrong("tiled_matmul", says="the last k added again for each one that the last slice has no number for")
def tiles_clamped_to_the_last_k(code):
    return replaced(code, "int k = k0 + column;", "int k = min(k0 + column, K - 1);")


@wrong("tiled_matmul", says="k % K for each k that the last slice has no number for")
def tiles_wrapped_around_K(code):
    return replaced(code, "int k = k0 + column;", "int k = (k0 + column) % K;")


@wrong("tiled_matmul", says="the product with the first rows of a in every tile")
def tiles_without_m0(code):
    return replaced(code, "a[(size_t)(m0 + row) * K + k]", "a[(size_t)row * K + k]")


@wrong("tiled_matmul", says="each slice of a turned")
def tiles_of_a_turned(code):
    return replaced(code, "as[row][i] * bs", "as[i][row] * bs")


@wrong("tiled_matmul", says="the product with the first slice of a in all of them")
def tiles_with_the_first_slice_of_a(code):
    return replaced(code, "a[(size_t)(m0 + row) * K + k]", "a[(size_t)(m0 + row) * K + column]")


@wrong("tiled_matmul", says="although a and b are read: is nothing added up, or is what is added up lost?")
def tiles_without_the_slice_fetched_last(code):
    return holes(
        code,
        """
    float total = 0.0f;
    float next_a = m0 + row < M && column < K ? a[(size_t)(m0 + row) * K + column] : 0.0f;
    float next_b = n0 + row < N && column < K ? b[(size_t)(n0 + row) * K + column] : 0.0f;
    for (int k = 16 + column; k - column < K; k += 16) {
        as[row][column] = next_a;
        bs[row][column] = next_b;
        __syncthreads();
        next_a = m0 + row < M && k < K ? a[(size_t)(m0 + row) * K + k] : 0.0f;
        next_b = n0 + row < N && k < K ? b[(size_t)(n0 + row) * K + k] : 0.0f;
        for (int i = 0; i < 16; i++) total += as[row][i] * bs[column][i];
        __syncthreads();
    }
    if (m0 + row < M && n0 + column < N) result[(size_t)(m0 + row) * N + n0 + column] = total;
""",
    )


@wrong("turn_tile", says="with number lane ^ row in place of number lane")
def turned_with_half_a_swizzle(code):
    code = replaced(code, "tile[32][33];", "tile[32][32];")
    return replaced(code, "tile[row][lane] =", "tile[row][lane ^ row] =")


@wrong("turn_tile", says="moved on by its number: (lane + row) % 32 of a tile")
def turned_with_half_a_rotation(code):
    code = replaced(code, "tile[32][33];", "tile[32][32];")
    return replaced(code, "tile[row][lane] =", "tile[row][(lane + row) % 32] =")


@wrong("turn_tile", says="rows and columns exchanged for the tiles, and not inside of each")
def turned_by_tiles_alone(code):
    return replaced(code, "tile[lane][k];", "tile[k][lane];")


# --------------------------------------------------------------------------------- what other launches or calls show


@wrong("autotune", says="These are only 268 different ways, and 378 times one of them again.")
def tuner_that_measures_the_best_again(M, N, K, tiles, measure):
    best = None
    for tile in tiles:
        if best is None or measure(tile, 4) < measure(*best):
            best = tile, 4
    ranked = sorted(tiles, key=lambda tile: measure(tile, 4))[:12]
    for tile in ranked:
        for parts in range(1, 17):
            if measure(tile, parts) < measure(*best):
                best = tile, parts
    return best


@wrong("double_buffer", says="`ask` fills a whole tile, behind the end of K with zeros, if all 256 threads call it")
def double_buffer_that_multiplies_before_it_asks(code):
    return holes(
        code,
        """
    for (int k0 = -8, next = 0; k0 < K; k0 += 8, next = 1 - next) {
        wait_but<0>();
        __syncthreads();
        ask(as[next], a, m0, k0 + 8, M, K, true);
        ask(bs[next], b, n0, k0 + 8, N, K, false);
        end_batch();
        multiply(totals, as[1 - next], bs[1 - next], row, column);
    }
""",
    )


@wrong("double_buffer", says="has moved `b` by `n0`, and line 44 passes it: do the other arguments count from there")
def double_buffer_of_moved_pointers(code):
    return holes(
        code,
        """
    a += (size_t)m0 * K;
    b += n0;
    ask(as[0], a, 0, 0, M, K, true), ask(bs[0], b, 0, 0, N, K, false);
    end_batch();
    for (int k0 = 0, now = 0; k0 < K; k0 += 8, now = 1 - now) {
        wait_but<0>();
        __syncthreads();
        ask(as[1 - now], a, 0, k0 + 8, M, K, true), ask(bs[1 - now], b, 0, k0 + 8, N, K, false);
        end_batch();
        multiply(totals, as[now], bs[now], row, column);
    }
""",
    )


@wrong(
    "turn_tile", says="moved on by twice its number: the swizzle is written with a plus, (lane + row) % 32, and read"
)
def turned_by_a_swizzle_of_two_signs(code):
    code = replaced(code, "tile[32][33]", "tile[32][32]", "tile[row][lane]", "tile[row][(lane + row) % 32]")
    return replaced(code, "tile[lane][k]", "tile[lane][(k - lane + 32) % 32]")


@wrong("turn_tile", says="the 8 warps fill the 32 rows of a tile, 4 each")
def turned_by_warps_that_take_neighbours(code):
    code = replaced(code, "for (int row = warp; row < 32; row += 8)", "for (int row = warp; row < warp + 4; row++)")
    return replaced(code, "for (int k = warp; k < 32; k += 8)", "for (int k = warp; k < warp + 4; k++)")


@wrong("tiled_matmul", says="a sum that is kept in an int, which cuts it off to a whole number after each k")
def tiled_sum_of_whole_numbers(code):
    return replaced(code, "float total = 0.0f;", "int total = 0;")


@wrong("tiled_matmul", says="Line 18 writes 4 times as many numbers as result has: each is needed once")
def tiled_result_written_in_each_slice(code):
    last = "    if (m0 + row < M && n0 + column < N) result[(size_t)(m0 + row) * N + n0 + column] = total;\n"
    products = "total += as[row][i] * bs[column][i];\n"
    return replaced(code, last, "", products, f"{products}    {last}")


@wrong("double_buffer", says="M in place of N, the size, in the call of ask for the later slices of b")
def buffers_of_b_with_rows_of_m(code):
    return replaced(code, "k0 + 8, N, K, false", "k0 + 8, M, K, false")


@wrong("tiled_matmul", says="has been moved by line 12, `b += (size_t)n0 * K;` and line 22, `b += 16;`")
def tiled_with_pointers_that_move_on_as_well(code):
    code = replaced(
        code,
        "    float total = 0.0f;\n",
        "    a += (size_t)m0 * K;\n    b += (size_t)n0 * K;\n    float total = 0.0f;\n",
    )
    code = replaced(code, "a[(size_t)(m0 + row) * K + k]", "a[(size_t)row * K + k]")
    code = replaced(code, "b[(size_t)(n0 + row) * K + k]", "b[(size_t)row * K + k]")
    barrier = "        __syncthreads();\n    }\n"
    return replaced(code, barrier, barrier.replace("    }\n", "        a += 16;\n        b += 16;\n    }\n"))


@wrong("double_buffer", says="starts another copy into the place in as that line 49 is about to read: a copy for a")
def buffers_exchanged_before_the_product(code):
    code = replaced(code, "k0 += 8, now = 1 - now)", "k0 += 8)")
    code = replaced(
        code, "ask(as[1 - now], a", "now = 1 - now;\n        ask(as[now], a", "bs[1 - now], b", "bs[now], b"
    )
    return replaced(code, "for (int k0 = 0, now = 0;", "int now = 0;\n    for (int k0 = 0;")


@wrong(
    "register_tile",
    says="is indented as if it belonged to the loop on line 25, which ends with line 29, because it has no braces",
)
def registers_whose_products_stand_behind_the_loop(code):
    hole = """
        float x[4], y[4];
        for (int k = 0; k < 8; k++)
            for (int i = 0; i < 4; i++) {
                x[i] = as[k][row + i];
                y[i] = bs[k][column + i];
            }
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    totals[i][j] += x[i] * y[j];
    """
    last = code[code.rindex("### BEGIN SOLUTION") : code.rindex("### END SOLUTION")].split("\n", 1)[1]
    return holes(code, hole, last.rsplit("\n", 1)[0])


@wrong("register_tile", says="with `at += N` in place of `at += 64`")
def registers_that_go_on_by_a_tile(code):
    code = replaced(
        code,
        "            int m = m0 + row + i, n = n0 + column + j;\n",
        "",
        "if (m < M && n < N) result[(size_t)m * N + n] += totals[i][j];\n        }\n",
        "if (m0 + row + i < M && n0 + column + j < N) at[j] += totals[i][j];\n        }\n        at += 64;\n",
    )
    start = "    for (int i = 0; i < 4; i++) {\n        for (int j = 0; j < 4; j++) {\n"
    return replaced(code, start, f"    float* at = result + (size_t)(m0 + row) * N + n0 + column;\n{start}")


@wrong("register_tile", says="`column` is 28 in one of them, but a row of result has 7 numbers (0 to 6)")
def tile_checked_by_its_size(code):
    line = "if (m < M && n < N) result[(size_t)m * N + n] += totals[i][j];"
    return replaced(
        code, line, "size_t at = (size_t)m * N + n;\n            if (at < M * N) result[at] += totals[i][j];"
    )


@wrong("double_buffer", says='lesson 15, section "6.2 · A barrier too few"')
def one_barrier_for_two_buffers_and_one_batch_under_way(code):
    return r"""
// Copy one float to shared memory in the background, or a zero where there is none.
__device__ void copy_async(float* to, const float* from, bool inside)
{
    unsigned place = __cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(place), "l"(from), "r"(inside ? 4 : 0));
}
__device__ void end_batch() { asm volatile("cp.async.commit_group;"); }
// Wait for all batches of this thread but the last BATCHES.
template <int BATCHES>
__device__ void wait_but() { asm volatile("cp.async.wait_group %0;" ::"n"(BATCHES) : "memory"); }

// Start the copies of tile[k][i] = element (first + i, start + k), one for each thread; 0 outside. runs: a is (n, K).
__device__ void ask(float (*tile)[33], const float* a, int first, int start, int n, int K, bool runs)
{
    int k = runs ? threadIdx.x % 8 : threadIdx.x / 32, i = runs ? threadIdx.x / 8 : threadIdx.x % 32;
    bool inside = start + k < K && first + i < n;
    size_t at = runs ? (size_t)(first + i) * K + start + k : (size_t)(start + k) * n + first + i;
    copy_async(&tile[k][i], inside ? a + at : a, inside);
}
// Add the products of a slice to the totals of rows row ... row + 3 in one column.
__device__ void multiply(float (&totals)[4], float (*as)[33], float (*bs)[33], int row, int column)
{
    for (int k = 0; k < 8; k++) {
        for (int i = 0; i < 4; i++) totals[i] += as[k][row + i] * bs[k][column];
    }
}
// result: (M, N), written. a: (M, K), b: (K, N). A block of 256 threads for 32 x 32 results, 4 x 1 per thread.
extern "C" __global__ void __launch_bounds__(256)
double_buffer(float* result, const float* a, const float* b, int M, int N, int K)
{
    __shared__ float as[2][8][33], bs[2][8][33];  // [buffer][k][row], [buffer][k][column]
    int across = (N + 31) / 32;
    int m0 = blockIdx.x / across * 32, n0 = blockIdx.x % across * 32;
    int row = threadIdx.x / 32 * 4, column = threadIdx.x % 32;
    float totals[4] = {};
    ask(as[0], a, m0, 0, M, K, true);
    ask(bs[0], b, n0, 0, N, K, false);
    end_batch();
    int now = 0;
    for (int k0 = 0; k0 < K; k0 += 8) {
        ask(as[1 - now], a, m0, k0 + 8, M, K, true);
        ask(bs[1 - now], b, n0, k0 + 8, N, K, false);
        end_batch();
        wait_but<1>();  // the present slice
        __syncthreads();
        multiply(totals, as[now], bs[now], row, column);
        now = 1 - now;
    }
    for (int i = 0; i < 4; i++) {
        if (m0 + row + i < M && n0 + column < N) result[(size_t)(m0 + row + i) * N + n0 + column] = totals[i];
    }
}
"""
