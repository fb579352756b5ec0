"""Answers to the exercises of lesson 15 as strangers write them, with words that wrong ones must get."""

import re

from llmc.course.authoring.answers import replaced, right, wrong


def holes(code, *texts):
    """The source with other text in place of each solution, one for each hole."""
    parts = re.split(r"[^\n]*### (?:BEGIN|END) SOLUTION\n", code)  # outside, hole, outside, …
    filled = [text.strip("\n") + "\n" for text in texts]
    return "".join(part for pair in zip(parts[::2], [*filled, ""], strict=True) for part in pair)


@right("tiled_matmul")
def tiles_filled_with_ifs(code):
    hole = """
    float sum = 0;
    const int turns = (K + 15) / 16;
    for (int turn = 0; turn < turns; ++turn) {
        const int c = turn * 16 + column, i = m0 + row, j = n0 + row;
        if (i < M && c < K) as[row][column] = a[i * K + c]; else as[row][column] = 0;
        if (j < N && c < K) bs[row][column] = b[j * K + c]; else bs[row][column] = 0;
        __syncthreads();
        for (int e = 0; e < 16; ++e) sum = fmaf(as[row][e], bs[column][e], sum);
        __syncthreads();
    }
    if (m0 + row >= M || n0 + column >= N) return;
    result[(m0 + row) * N + (n0 + column)] = sum;
"""
    return holes(code, hole)


FETCHED_AHEAD = """
    float total = 0.0f;
    float next_a = m0 + row < M && column < K ? a[(size_t)(m0 + row) * K + column] : 0.0f;
    float next_b = n0 + row < N && column < K ? b[(size_t)(n0 + row) * K + column] : 0.0f;
    for (int k = 16 + column; k - column < K + 16; k += 16) {
        as[row][column] = next_a, bs[row][column] = next_b;
        __syncthreads();
        next_a = m0 + row < M && k < K ? a[(size_t)(m0 + row) * K + k] : 0.0f;
        next_b = n0 + row < N && k < K ? b[(size_t)(n0 + row) * K + k] : 0.0f;
        for (int i = 0; i < 16; i++) total += as[row][i] * bs[column][i];
        __syncthreads();
    }
    if (m0 + row < M && n0 + column < N) result[(size_t)(m0 + row) * N + n0 + column] = total;
"""


@right("tiled_matmul")
def tiles_fetched_one_slice_ahead(code):
    return holes(code, FETCHED_AHEAD)


@wrong("tiled_matmul", says="result is all zeros")
def tiles_without_the_slice_fetched_last(code):
    return holes(code, FETCHED_AHEAD.replace("K + 16;", "K;"))


@wrong("tiled_matmul", says="out of bounds, line 17.")
def tiled_with_pointers_that_move_on_as_well(code):
    code = replaced(code, "float total", "a += (size_t)m0 * K;\n    b += (size_t)n0 * K;\n    float total")
    code = replaced(code, "a[(size_t)(m0 + row) * K + k]", "a[(size_t)row * K + k]")
    code = replaced(code, "b[(size_t)(n0 + row) * K + k]", "b[(size_t)row * K + k]")
    return replaced(code, "__syncthreads();\n    }", "__syncthreads();\n        a += 16, b += 16;\n    }")


@right("turn_tile")
def turned_with_a_swizzle(code):
    code = replaced(code, "tile[32][33]", "tile[32][32]", "tile[row][lane] =", "tile[row][lane ^ row] =")
    return replaced(code, "= tile[lane][k];", "= tile[lane][k ^ lane];")


@right("turn_tile")
def turned_on_the_way_in(code):
    return replaced(code, "tile[row][lane] =", "tile[lane][row] =", "= tile[lane][k];", "= tile[k][lane];")


@wrong("turn_tile", says="of what global memory moves is used; the goal is at least 90%")
def turned_without_a_tile(code):
    hole = """
    for (int row = warp; row < 32; row += 8) {
        if (m0 + row < M && k0 + lane < K) turned[(k0 + lane) * M + m0 + row] = a[(m0 + row) * K + k0 + lane];
    }
"""
    return holes(code, hole)


@wrong("turn_tile", says="race in shared memory, lines 10 and 12.")
def turned_row_by_row(code):
    hole = """
    __shared__ float tile[32][33];
    for (int r = warp; r < 32; r += 8) {
        if (m0 + r < M && k0 + lane < K) tile[r][lane] = a[(size_t)(m0 + r) * K + k0 + lane];
        __syncthreads();
        if (k0 + r < K && m0 + lane < M) turned[(size_t)(k0 + r) * M + m0 + lane] = tile[lane][r];
    }
"""
    return holes(code, hole)


@wrong("turn_tile", says="reads tile[11][7], which nothing has written yet")
def turned_by_warps_that_take_neighbours(code):
    code = replaced(code, "for (int row = warp; row < 32; row += 8)", "for (int row = warp; row < warp + 4; row++)")
    return replaced(code, "for (int k = warp; k < 32; k += 8)", "for (int k = warp; k < warp + 4; k++)")


LAST = """
    for (int e = 0; e < 16; e++) {
        int m = m0 + row + e / 4, n = n0 + column + e % 4;
        if (m >= M || n >= N) continue;
        float* place = result + (size_t)m * N + n;
        *place = *place + totals[e / 4][e % 4];
    }
"""


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
    return holes(replaced(code, "__shared__ float as", "__shared__ __align__(16) float as"), first, LAST)


@right("register_tile")
def square_row_by_row(code):
    first = """
        for (int k = 0; k < 8; k++) {
            float y[4] = {bs[k][column], bs[k][column + 1], bs[k][column + 2], bs[k][column + 3]};
            for (int i = 0; i < 4; i++) {
                float x = as[k][row + i];
                for (int j = 4; j-- > 0;) totals[i][j] = fmaf(x, y[j], totals[i][j]);
            }
        }
"""
    return holes(code, first, LAST)


@wrong("register_tile", says="the last k of each slice alone")
def registers_whose_products_stand_behind_the_loop(code):
    hole = """
        float x[4], y[4];
        for (int k = 0; k < 8; k++)
            for (int i = 0; i < 4; i++) x[i] = as[k][row + i], y[i] = bs[k][column + i];
            for (int e = 0; e < 16; e++) totals[e / 4][e % 4] += x[e / 4] * y[e % 4];
"""
    return holes(code, hole, LAST)


@wrong("register_tile", says="result was overwritten instead of accumulated")
def square_that_overwrites(code):
    return replaced(code, "+= totals[i][j];", "= totals[i][j];")


@wrong("register_tile", says="race in global memory, line 39.")
def tile_checked_by_its_size(code):
    return replaced(code, "if (m < M && n < N) result", "size_t at = (size_t)m * N + n;\nif (at < M * N) result")


@right("double_buffer")
def buffers_that_wait_at_the_end(code):
    hole = """
    ask(as[0], a, m0, 0, M, K, true), ask(bs[0], b, n0, 0, N, K, false), end_batch();
    wait_but<0>(), __syncthreads();
    for (int k0 = 0, now = 0; k0 < K; k0 += 8, now ^= 1) {
        if (k0 + 8 < K) ask(as[now ^ 1], a, m0, k0 + 8, M, K, true);
        end_batch();
        if (k0 + 8 < K) ask(bs[now ^ 1], b, n0, k0 + 8, N, K, false);
        end_batch();
        multiply(totals, as[now], bs[now], row, column);
        wait_but<0>(), __syncthreads();
    }
"""
    return holes(code, hole)


THREE = """
    for (int s = 0; s < 2; s++) {
        ask(as[s], a, m0, 8 * s, M, K, true), ask(bs[s], b, n0, 8 * s, N, K, false), end_batch();
    }
    for (int s = 0; 8 * s < K; s++) {
        wait_but<1>(), __syncthreads();
        ask(as[(s + 2) % 3], a, m0, 8 * (s + 2), M, K, true);
        ask(bs[(s + 2) % 3], b, n0, 8 * (s + 2), N, K, false);
        end_batch();
        multiply(totals, as[s % 3], bs[s % 3], row, column);
    }
"""


@right("double_buffer")
def three_buffers(code):
    return holes(replaced(code, "as[2][8][33], bs[2][8][33];", "as[3][8][33], bs[3][8][33];"), THREE)


@wrong("double_buffer", says="race with an asynchronous copy")
def three_buffers_and_a_wait_for_too_few(code):
    return three_buffers(code).replace("wait_but<1>", "wait_but<2>")


@wrong("double_buffer", says="only 0 of 8 slices come in the background of a multiplication")
def one_buffer(code):
    hole = """
    for (int k0 = 0; k0 < K; k0 += 8) {
        __syncthreads();
        ask(as[0], a, m0, k0, M, K, true), ask(bs[0], b, n0, k0, N, K, false), end_batch();
        wait_but<0>(), __syncthreads();
        multiply(totals, as[0], bs[0], row, column);
    }
"""
    return holes(code, hole)


@wrong("double_buffer", says="reads as[1][0][28], which nothing has written yet")
def double_buffer_that_multiplies_before_it_asks(code):
    hole = """
    for (int k0 = -8, next = 0; k0 < K; k0 += 8, next = 1 - next) {
        wait_but<0>(), __syncthreads();
        ask(as[next], a, m0, k0 + 8, M, K, true), ask(bs[next], b, n0, k0 + 8, N, K, false), end_batch();
        multiply(totals, as[1 - next], bs[1 - next], row, column);
    }
"""
    return holes(code, hole)


@right("autotune")
def tuner_that_returns_a_list(M, N, K, tiles, measure):
    first = {tile: min(measure(tile, 1), measure(tile, 4)) for tile in tiles}
    found = [[measure(tile, n), n, tile] for tile in sorted(first, key=first.get)[:7] for n in range(1, 17)]
    return min(found)[:0:-1]


@right("autotune")
def tuner_that_goes_down_the_hill(M, N, K, tiles, measure):
    seen = {(tile, 1): measure(tile, 1) for tile in tiles}
    for tile, _ in sorted(seen, key=seen.get)[:12]:
        seen |= {(tile, parts): measure(tile, parts) for parts in range(2, 17)}
    return min(seen, key=seen.get)


@wrong("autotune", says="At best, with parts = 4, its tile takes 26% longer")
def tuner_that_keeps_one_tile(M, N, K, tiles, measure):
    tile = min(tiles, key=lambda each: measure(each, 1))
    us = {parts: measure(tile, parts) for parts in range(1, 17)}
    return tile, min(us, key=us.get)


@wrong("autotune", says="At best, with parts = 2, its tile takes 0% longer")
def tuner_that_gives_the_index_of_the_parts(M, N, K, tiles, measure):
    rows = {tile: [measure(tile, 4)] for tile in tiles}
    for tile in sorted(tiles, key=rows.get)[:12]:
        rows[tile] = [measure(tile, parts) for parts in range(1, 17)]
    tile = min(tiles, key=lambda each: min(rows[each]))
    return tile, max(1, rows[tile].index(min(rows[tile])))


@wrong("autotune", says="autotune measured 560 times, 268 different ways; the goal is at most 300")
def tuner_that_measures_the_best_again(M, N, K, tiles, measure):
    best = min(tiles, key=lambda tile: measure(tile, 4)), 4
    for tile in sorted(tiles, key=lambda tile: measure(tile, 4))[:12]:
        for parts in range(1, 17):
            best = (tile, parts) if measure(tile, parts) < measure(*best) else best
    return best
