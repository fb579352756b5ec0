"""Answers to the exercises of lesson 19 as strangers write them, with words that wrong ones must get."""

import re

import numpy as np

from llmc.course.authoring.answers import replaced, right, wrong


def holes(code, *texts):
    """The source with other text in place of each solution, one for each hole."""
    parts = re.split(r"[^\n]*### (?:BEGIN|END) SOLUTION\n", code)  # outside, hole, outside, …
    filled = [text.strip("\n") + "\n" for text in texts]
    return "".join(part for pair in zip(parts[::2], [*filled, ""], strict=True) for part in pair)


# ----------------------------------------------------------------------------------------------- 1 mma_by_hand

LOOPS = """
        const int r = threadIdx.x >> 2, j = threadIdx.x & 3;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            int row = m0 + r + (i & 1) * 8, k = k0 + 2 * j + (i >> 1) * 8;
            x[i] = pair(&a[(size_t)row * K + k]);
            if (i < 2) y[i] = pair(&b[(size_t)(n0 + r) * K + k0 + 2 * j + 8 * i]);
        }
"""
STORES = (
    "        for (int i = 0; i < 4; i++) result[(m0 + lane / 4 + i / 2 * 8) * N + n0 + lane % 4 * 2 + i % 2] = d[i];"
)


@right("mma_by_hand")
def fragments_in_loops(code):
    return holes(code, LOOPS, STORES)


@right("mma_by_hand")
def fragments_as_words(code):
    """Pairs begin at even numbers, so a register can be read at once."""
    return holes(
        code,
        """
        const unsigned* words = (const unsigned*)(a + m0 * K + k0);
        const unsigned* others = (const unsigned*)(b + n0 * K + k0);
        int r = lane / 4, j = lane % 4, wide = K / 2;
        x[0] = words[r * wide + j], x[1] = words[(r + 8) * wide + j];
        x[2] = words[r * wide + j + 4], x[3] = words[(r + 8) * wide + j + 4];
        y[0] = others[r * wide + j], y[1] = others[r * wide + j + 4];
""",
        """
        float2* low = (float2*)(result + (m0 + lane / 4) * N + n0) + lane % 4;
        low[0] = make_float2(d[0], d[1]);
        low[4 * N] = make_float2(d[2], d[3]);
""",
    )


@wrong("mma_by_hand", says="right, but 3,072 numbers are written to result, which has 768: write each once, after the")
def sums_stored_in_every_step(code):
    step = "        mma(d, x, y);\n"
    return replaced(holes(code, LOOPS, ";"), step, f"{step}{STORES}\n")


@wrong("mma_by_hand", says="multiplies by `K`, which is 16, but a row of result has 8 numbers: with `N` in its place")
def sums_in_rows_of_k(code):
    return holes(code, LOOPS, STORES.replace("* N", "* K"))


@wrong("mma_by_hand", says="result equals the reference with row lane % 8 and pair lane / 8 in a and b")
def fragments_by_columns_of_lanes(code):
    return holes(code, LOOPS.replace("threadIdx.x >> 2", "lane % 8").replace("threadIdx.x & 3", "lane / 8"), STORES)


# --------------------------------------------------------------------------------------------------- 2 swizzle


@right("swizzle")
def groups_shifted_back(code):
    return holes(
        code,
        "    int to = group - (line & 7);\n    return to < 0 ? to + 8 : to;",
        """
        const int group = (first & 4) + (lane >> 3), row = (first >> 3) * 8 + (lane & 7);
        const uint4* from = tile[row];
        load_turned(squares, from + place(row, group));
""",
    )


@right("swizzle")
def groups_by_an_odd_step(code):
    return replaced(code, "return group ^ line % 8;", "return (group + 3 * line) & 7;")


@wrong("swizzle", says="192 extra passes are made for bank conflicts; the goal is 0")
def groups_by_even_steps(code):
    return replaced(code, "return group ^ line % 8;", "return (group + 2 * line) % 8;")


@wrong("swizzle", says="index outside a fixed array, line 25.")
def groups_beyond_the_line(code):
    return replaced(code, "group ^ line % 8", "group ^ line")


@wrong(
    "swizzle", says="turned equals the reference with groups kept at (group + line) % 8 and read at group ^ line % 8"
)
def a_sum_where_it_is_kept_and_a_sign_where_it_is_read(code):
    code = replaced(code, "return group ^ line % 8;", "return (group + line) % 8;")
    return replaced(code, "place(line, square % 8)", "(square % 8 ^ lane % 8)")


# -------------------------------------------------------------------------------------------- 3 ring_of_stages


@right("ring_of_stages")
def laps_counted(code):
    return holes(
        code,
        """
            const int lap = round / STAGES;
            if (lap > 0) wait(used + stage, (lap - 1) & 1);
            expect(there + stage, sizeof(lines[0]));
            copy(&lines[stage][0], &x[(size_t)round * N], sizeof(lines[0]), there + stage);
""",
        """
            const int lap = round / STAGES;
            wait(there + stage, lap & 1);
            float mine = lines[stage][t];
            arrive(used + stage);  // it is in a register now
            total = fmaf(0.5f, total, mine);
""",
    )


@right("ring_of_stages")
def two_halves_before_they_are_expected(code):
    """Bytes may arrive before they are expected: the phase cannot end without the arrival."""
    expect = "            expect(&there[stage], BYTES);\n"
    copy = "            copy(lines[stage], x + round * N, BYTES, &there[stage]);\n"
    halves = (
        "            for (int half = 0; half < 2; half++) {\n"
        "                copy(lines[stage] + half * N / 2, x + round * N + half * N / 2, BYTES / 2, &there[stage]);\n"
        "            }\n"
    )
    return replaced(code, expect, "", copy, halves + expect)


@wrong("ring_of_stages", says="nobody had asked for that copy yet, so the wait for its mbarrier ended too early")
def a_parity_for_each_round(code):
    return code.replace("round / STAGES % 2", "round % 2")


@wrong("ring_of_stages", says="waits for phase 1 of the mbarrier there[0] to end, but 0 of its 1 arrivals come")
def one_arrival_a_warp(code):
    return replaced(code, "arrive(&used[stage]);", "__syncwarp();\n            if (t % 32 == 0) arrive(&used[stage]);")


@wrong("ring_of_stages", says="at an mbarrier at which each of them arrives after its last read, not before it.")
def used_before_it_is_used(code):
    line = "            total = total / 2 + lines[stage][t];\n"
    return replaced(code, line, "", "            arrive(&used[stage]);\n", "            arrive(&used[stage]);\n" + line)


@wrong("ring_of_stages", says="right, but never more than 1 of 3 stages hold a line while nothing is used up")
def one_line_at_a_time(code):
    code = replaced(code, "            wait(&used[stage], round / STAGES % 2 ^ 1);\n", "")
    line = "            copy(lines[stage], x + round * N, BYTES, &there[stage]);\n"
    return replaced(code, line, line + "            wait(&used[stage], round / STAGES % 2);\n")


@wrong("ring_of_stages", says="for phase 0 of used[0]: 2 of its 128 arrivals come")
def waits_after_the_copy(code):
    line = "            wait(&used[stage], round / STAGES % 2 ^ 1);\n"
    copy = "            copy(lines[stage], x + round * N, BYTES, &there[stage]);\n"
    return replaced(code, line, "", copy, copy + line)


# -------------------------------------------------------------------------------------------- 4 tiles_of_block


@right("tiles_of_block")
def bands_as_an_array(block, blocks, down, across):
    rows, columns = np.divmod(np.arange(down * across), across)
    order = np.lexsort((rows, columns, rows // 8))
    return np.stack([rows[order], columns[order]], axis=1)[block::blocks]


@right("tiles_of_block")
def bands_of_columns(block, blocks, down, across):
    """The same the other way round."""
    found = []
    for number in range(down * across)[block::blocks]:
        band, place = number // (6 * down), number % (6 * down)
        width = min(6, across - 6 * band)
        found.append((place // width, 6 * band + place % width))
    return found


@wrong("tiles_of_block", says="tile (8, 0) belongs to no block, with 1 block and 11 x 3 tiles")
def only_full_bands(block, blocks, down, across):
    height = min(8, down)
    tiles = []
    for band in range(down // height):
        tiles += [(height * band + i % height, i // height) for i in range(height * across)]
    return [tiles[number] for number in range(block, len(tiles), blocks)]


@wrong("tiles_of_block", says="a block has 9 tiles where 7 would do")
def the_rest_for_the_last_block(block, blocks, down, across):
    tiles = [(r, c) for top in range(0, down, 8) for c in range(across) for r in range(top, min(top + 8, down))]
    full = len(tiles) // blocks * blocks
    return tiles[:full][block::blocks] + (tiles[full:] if block == blocks - 1 else [])


@wrong("tiles_of_block", says="every tile once, but the turns read 468 bands, with 12 blocks")
def rows_for_each_block(block, blocks, down, across):
    return [(row, column) for row in range(block, down, blocks) for column in range(across)]


# -------------------------------------------------------------------------------------- 5 softmax_in_fragments


@right("softmax_in_fragments")
def one_row_after_the_other(code):
    return holes(
        code,
        """
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        float s[4] = {scores[0][2 * n], scores[0][2 * n + 1], scores[1][2 * n], scores[1][2 * n + 1]};
        float m = fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3]));
        for (int step = 2; step > 0; step /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, step));
        m = fmaxf(m, top[n]);
        const float old = __expf(top[n] - m);
        float more = 0.0f;
        for (int e = 0; e < 4; ++e) more += scores[e / 2][2 * n + e % 2] = __expf(s[e] - m);
        total[n] = total[n] * old + more;
        sums[2 * n] *= old, sums[2 * n + 1] *= old;
        top[n] = m;
    }
""",
        """
        float mine = total[n];
        mine += __shfl_xor_sync(0xffffffffu, mine, 2);
        mine += __shfl_xor_sync(0xffffffffu, mine, 1);
        whole = mine;
""",
    )


@right("softmax_in_fragments")
def powers_of_two(code):
    code = replaced(code, "expf(top[n] - higher)", "exp2f((top[n] - higher) * 1.44269504f)")
    return replaced(code, "expf(score - higher)", "exp2f((score - higher) * 1.44269504f)")


@wrong("softmax_in_fragments", says="out has NaN or infinite entries: exp overflows above 88.7")
def no_maximum(code):
    code = replaced(code, "        top[n] = higher;\n", "        higher = 0.0f;\n        top[n] = higher;\n")
    return replaced(code, "float shrink = expf(top[n] - higher);", "float shrink = 1.0f;")


@wrong("softmax_in_fragments", says="out equals the reference with neither sums nor total shrinking")
def shrinks_by_one(code):
    line, store = "        float shrink = expf(top[n] - higher);\n", "        top[n] = higher;\n"
    return replaced(code, line + store, store + line)
