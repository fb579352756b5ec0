"""Answers to the exercises of lesson 19 as learners write them: right ones that look different, and wrong ones.

Each wrong answer carries words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 19` runs those of this lesson.
Those of exercises 1, 2, 3 and 5 are CUDA C: a function gets the solution's source and returns another.
"""

import re

import numpy as np

from llmc.course.old.authoring.answers import replaced, right, wrong


def holes(code, *texts):
    """The source with other text in place of each solution, one for each hole."""
    parts = re.split(r"[^\n]*### (?:BEGIN|END) SOLUTION\n", code)  # outside, hole, outside, …
    filled = [text.strip("\n") + "\n" for text in texts]
    return "".join(part for pair in zip(parts[::2], [*filled, ""], strict=True) for part in pair)


# ----------------------------------------------------------------------------------------------- 1 mma_by_hand

STORE = """
    float* place = result + (m0 + lane / 4) * N + n0 + lane % 4 * 2;
    place[0] = d[0];
    place[1] = d[1];
    place[8 * N] = d[2];
    place[8 * N + 1] = d[3];
"""


@right("mma_by_hand")
def fragments_in_loops(code):
    return holes(
        code,
        """
        const int r = threadIdx.x >> 2, j = threadIdx.x & 3;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            int row = m0 + r + (i & 1) * 8, k = k0 + 2 * j + (i >> 1) * 8;
            x[i] = pair(&a[(size_t)row * K + k]);
            if (i < 2) y[i] = pair(&b[(size_t)(n0 + r) * K + k0 + 2 * j + 8 * i]);
        }
""",
        """
        for (int i = 0; i < 4; i++) result[(m0 + lane / 4 + i / 2 * 8) * N + n0 + lane % 4 * 2 + i % 2] = d[i];
""",
    )


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


@wrong("mma_by_hand", says="with registers 1 and 2 of a exchanged: register 1 holds the rows 8 further down")
def fragments_row_after_row(code):
    return replaced(
        code,
        "x[1] = pair(above + 8 * K);",
        "x[1] = pair(above + 8);",
        "x[2] = pair(above + 8);",
        "x[2] = pair(above + 8 * K);",
    )


@wrong("mma_by_hand", says="with row lane % 8 and pair lane / 8 in a and b")
def fragments_by_eights(code):
    code = replaced(code, "a + (m0 + lane / 4) * K + k0 + lane % 4 * 2", "a + (m0 + lane % 8) * K + k0 + lane / 8 * 2")
    return replaced(code, "b + (n0 + lane / 4) * K + k0 + lane % 4 * 2", "b + (n0 + lane % 8) * K + k0 + lane / 8 * 2")


@wrong("mma_by_hand", says="with column lane % 8 and pair lane / 8 in b: a lane's column is lane / 4")
def columns_by_eights(code):
    return replaced(code, "b + (n0 + lane / 4) * K + k0 + lane % 4 * 2", "b + (n0 + lane % 8) * K + k0 + lane / 8 * 2")


@wrong("mma_by_hand", says="with k = lane % 4 in place of lane % 4 * 2 in a: each register holds two numbers")
def one_number_for_each_register(code):
    return replaced(code, "a + (m0 + lane / 4) * K + k0 + lane % 4 * 2", "a + (m0 + lane / 4) * K + k0 + lane % 4")


@wrong("mma_by_hand", says="with both registers of b from its first eight k")
def half_of_b(code):
    return replaced(code, "y[1] = pair(column + 8);", "y[1] = pair(column);")


@wrong("mma_by_hand", says="with all four registers of a from its first eight rows")
def half_of_the_rows(code):
    return replaced(code, "pair(above + 8 * K);", "pair(above);", "pair(above + 8 * K + 8)", "pair(above + 8)")


@wrong("mma_by_hand", says="with the middle two numbers of d exchanged: d[1] is right of d[0]")
def sums_down_first(code):
    return replaced(code, "place[1] = d[1];", "place[1] = d[2];", "place[8 * N] = d[2];", "place[8 * N] = d[1];")


@wrong("mma_by_hand", says="with row lane % 8 and pair lane / 8 in d: a lane's row is lane / 4")
def sums_by_eights(code):
    return replaced(
        code, "result + (m0 + lane / 4) * N + n0 + lane % 4 * 2", "result + (m0 + lane % 8) * N + n0 + lane / 8 * 2"
    )


@wrong("mma_by_hand", says="the first 16 k again and again")
def fragments_without_k0(code):
    return code.replace(" * K + k0 + lane", " * K + lane")


@wrong("mma_by_hand", says="with b read as (K, N), as if the numbers of a column lay N apart")
def factor_b_by_columns(code):
    code = replaced(
        code,
        "const half16* column = b + (n0 + lane / 4) * K + k0 + lane % 4 * 2;",
        "const half16* column = b + (k0 + lane % 4 * 2) * N + n0 + lane / 4;",
    )
    code = replaced(code, "y[0] = pair(column);", "y[0] = column[0].bits | (unsigned)column[N].bits << 16;")
    return replaced(code, "y[1] = pair(column + 8);", "y[1] = column[8 * N].bits | (unsigned)column[9 * N].bits << 16;")


@wrong("mma_by_hand", says="never written")
def only_the_first_eight_rows(code):
    return replaced(code, "    place[8 * N] = d[2];\n    place[8 * N + 1] = d[3];\n", "")


@wrong("mma_by_hand", says="Your kernel passes this whole check without `if (lane > 0) return;` in line 37.")
def one_lane_stores(code):
    return replaced(code, "    place[0] = d[0];", "    if (lane > 0) return;\n    place[0] = d[0];")


# --------------------------------------------------------------------------------------------------- 2 swizzle


@right("swizzle")
def groups_shifted_by_their_line(code):
    return replaced(code, "return group ^ line % 8;", "return (group + line) % 8;")


@right("swizzle")
def groups_shifted_back(code):
    code = replaced(code, "return group ^ line % 8;", "int to = group - (line & 7);\n    return to < 0 ? to + 8 : to;")
    return replaced(
        code,
        "        int square = first + lane / 8, line = square / 8 * 8 + lane % 8;\n"
        "        load_turned(squares, &tile[line][place(line, square % 8)]);\n",
        "        const int group = (first & 4) + (lane >> 3), row = (first >> 3) * 8 + (lane & 7);\n"
        "        const uint4* from = tile[row];\n        load_turned(squares, from + place(row, group));\n",
    )


@right("swizzle")
def groups_by_an_odd_step(code):
    return replaced(code, "return group ^ line % 8;", "return (group + 3 * line) & 7;")


@wrong("swizzle", says="extra passes are made for bank conflicts; the goal is at most 0")
def no_swizzle(code):
    return replaced(code, "return group ^ line % 8;", "return group;")


@wrong("swizzle", says="they take only 4: 0, 1, 2, 3")
def a_swizzle_of_four(code):
    return replaced(code, "group ^ line % 8", "group ^ line % 4")


@wrong("swizzle", says="extra passes are made for bank conflicts; the goal is at most 0")
def a_swizzle_by_squares(code):
    return replaced(code, "group ^ line % 8", "group ^ line / 8")


@wrong("swizzle", says="extra passes are made for bank conflicts; the goal is at most 0")
def a_swizzle_by_even_steps(code):
    return replaced(code, "return group ^ line % 8;", "return (group + 2 * line) % 8;")


@wrong("swizzle", says="with groups read where others are kept")
def no_place_where_it_is_read(code):
    return replaced(code, "&tile[line][place(line, square % 8)]", "&tile[line][square % 8]")


@wrong("swizzle", says="with groups read where others are kept, which a sum has moved")
def no_place_after_a_sum(code):
    code = replaced(code, "return group ^ line % 8;", "return (group + line) % 8;")
    return replaced(code, "&tile[line][place(line, square % 8)]", "&tile[line][square % 8]")


@wrong("swizzle", says="place(0, 0) and place(0, 1) are both 0: two groups of a line")
def all_groups_at_one_place(code):
    return replaced(code, "return group ^ line % 8;", "return line % 8;")


@wrong("swizzle", says="place(8, 0) is 8, but a line has the places 0 to 7")
def a_swizzle_beyond_the_line(code):
    return replaced(code, "group ^ line % 8", "group ^ line")


@wrong("swizzle", says="with line l / 4 of square l % 4 given by lane l, not line l % 8 of square l / 8")
def lanes_by_fours(code):
    return replaced(
        code,
        "int square = first + lane / 8, line = square / 8 * 8 + lane % 8;",
        "int square = first + lane % 4, line = square / 8 * 8 + lane / 4;",
    )


@wrong("swizzle", says="extra passes are made for bank conflicts; the goal is at most 0")
def squares_down_first_and_no_swizzle(code):
    code = replaced(code, "return group ^ line % 8;", "return group;")
    return replaced(code, "line = square / 8 * 8 + lane % 8", "line = (first + lane / 8) / 8 * 8 + (lane & 7)")


# -------------------------------------------------------------------------------------------- 3 ring_of_stages

PRODUCER = """
            wait(&used[stage], round / STAGES % 2 ^ 1);
            expect(&there[stage], BYTES);
            copy(lines[stage], x + round * N, BYTES, &there[stage]);
"""
CONSUMER = """
            wait(&there[stage], round / STAGES % 2);
            total = total / 2 + lines[stage][t];
            arrive(&used[stage]);
"""


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
def copies_in_two_halves(code):
    return replaced(
        code,
        "            copy(lines[stage], x + round * N, BYTES, &there[stage]);\n",
        "            for (int half = 0; half < 2; half++) {\n"
        "                copy(lines[stage] + half * N / 2, x + round * N + half * N / 2, BYTES / 2, &there[stage]);\n"
        "            }\n",
    )


@right("ring_of_stages")
def parities_in_variables(code):
    code = replaced(
        code,
        "            wait(&there[stage], round / STAGES % 2);\n",
        "            const int parity = (round / STAGES) & 1;\n            wait(&there[stage], parity);\n",
    )
    return replaced(
        code, "wait(&used[stage], round / STAGES % 2 ^ 1);", "wait(&used[stage], 1 - (round / STAGES) % 2);"
    )


@wrong("ring_of_stages", says="no consumer waits for there, so they read before")
def consumers_do_not_wait(code):
    return replaced(code, "            wait(&there[stage], round / STAGES % 2);\n", "")


@wrong("ring_of_stages", says="the producer never waits for used: line 55 asks for the next copy")
def the_producer_does_not_wait(code):
    return replaced(code, "            wait(&used[stage], round / STAGES % 2 ^ 1);\n", "")


@wrong("ring_of_stages", says="in rounds 0, 1, 2, …: 0 0 0 1 1 1 0 0; right are 1 1 1 0 0 0 1 1.")
def the_producer_waits_for_phase_0(code):
    return replaced(code, "wait(&used[stage], round / STAGES % 2 ^ 1);", "wait(&used[stage], round / STAGES % 2);")


@wrong("ring_of_stages", says="no consumer arrives at used, so its phases never end")
def consumers_never_say_used(code):
    return replaced(code, "            arrive(&used[stage]);\n", "")


@wrong("ring_of_stages", says="in round 3, a consumer waits for parity 0 of there[0] (line 65), and it should be 1")
def the_same_parity_in_every_lap(code):
    return replaced(code, "wait(&there[stage], round / STAGES % 2);", "wait(&there[stage], 0);")


@wrong("ring_of_stages", says="in round 1, a consumer waits for parity 1 of there[1] (line 65), and it should be 0")
def a_parity_for_each_round(code):
    return replaced(code, "wait(&there[stage], round / STAGES % 2);", "wait(&there[stage], round % 2);")


@wrong("ring_of_stages", says="line 55 expects 1,024 bytes a round at there[0], more than the 512 that line 56 copies")
def twice_the_bytes(code):
    return replaced(code, "expect(&there[stage], BYTES);", "expect(&there[stage], 2 * BYTES);")


@wrong("ring_of_stages", says="nobody expects the bytes of the copies")
def arrives_without_bytes(code):
    return replaced(code, "expect(&there[stage], BYTES);", "arrive(&there[stage]);")


@wrong("ring_of_stages", says="all of them, at an mbarrier at which each of them arrives after its last read, not")
def used_before_it_is_used(code):
    line = "            total = total / 2 + lines[stage][t];\n"
    return replaced(code, line, "", "            arrive(&used[stage]);\n", "            arrive(&used[stage]);\n" + line)


@wrong("ring_of_stages", says="the sum of the first line again and again")
def the_first_line_again(code):
    return replaced(code, "x + round * N, BYTES", "x, BYTES")


@wrong("ring_of_stages", says="the sum of the first line again and again")
def the_first_line_is_read_again(code):
    return replaced(code, "total / 2 + lines[stage][t]", "total / 2 + lines[0][t]")


@wrong("ring_of_stages", says="the sum without halving")
def lines_only_added(code):
    return replaced(code, "total / 2 + lines", "total + lines")


@wrong("ring_of_stages", says="right, but never more than 1 of 3 stages held a line at once")
def one_line_at_a_time(code):
    code = replaced(code, "            wait(&used[stage], round / STAGES % 2 ^ 1);\n", "")
    line = "            copy(lines[stage], x + round * N, BYTES, &there[stage]);\n"
    return replaced(code, line, line + "            wait(&used[stage], round / STAGES % 2);\n")


@wrong("ring_of_stages", says="only 1 of the 128 consumers arrives at used (line 67), and a phase needs all 128")
def one_consumer_says_used(code):
    return replaced(code, "arrive(&used[stage]);", "if (t == 0) arrive(&used[stage]);")


# -------------------------------------------------------------------------------------------- 4 tiles_of_block


@right("tiles_of_block")
def bands_of_columns(block, blocks, down, across):
    """The same the other way round."""
    found = []
    for number in range(down * across)[block::blocks]:
        band, place = number // (6 * down), number % (6 * down)
        width = min(6, across - 6 * band)
        found.append((place // width, 6 * band + place % width))
    return found


@right("tiles_of_block")
def a_list_of_all_tiles(block, blocks, down, across):
    every = [(r, c) for r0 in range(0, down, 8) for c in range(across) for r in range(r0, min(r0 + 8, down))]
    return every[block::blocks]


@right("tiles_of_block")
def bands_as_an_array(block, blocks, down, across):
    rows, columns = np.divmod(np.arange(down * across), across)
    order = np.lexsort((rows, columns, rows // 8))
    return np.stack([rows[order], columns[order]], axis=1)[block::blocks]


@wrong("tiles_of_block", says="The tiles of the first turn lie in 1 row and 12 columns")
def row_by_row(block, blocks, down, across):
    return [divmod(number, across) for number in range(block, down * across, blocks)]


@wrong("tiles_of_block", says="The tiles of the first turn lie in 12 rows and 1 column")
def column_by_column(block, blocks, down, across):
    return [(number % down, number // down) for number in range(block, down * across, blocks)]


@wrong("tiles_of_block", says="gets each tile once: the last band has 3 rows here, and 8 there")
def bands_without_an_edge(block, blocks, down, across):
    tiles = []
    for number in range(block, down * across, blocks):
        band, place = divmod(number, 8 * across)
        tiles.append((8 * band + place % 8, place // 8))
    return tiles


@wrong("tiles_of_block", says="belongs to no block")
def bands_that_leave_out_the_edge(block, blocks, down, across):
    tiles = []
    for number in range(block, down * across, blocks):
        band, place = divmod(number, 8 * across)
        if 8 * band + place % 8 < down:
            tiles.append((8 * band + place % 8, place // 8))
    return tiles


@wrong("tiles_of_block", says="A block's own tiles are neighbours, but those of a turn are far apart.")
def each_block_a_piece(block, blocks, down, across):
    each = -(-down * across // blocks)
    tiles = []
    for number in range(block * each, min((block + 1) * each, down * across)):
        band, place = divmod(number, 8 * across)
        height = min(8, down - 8 * band)
        tiles.append((8 * band + place % height, place // height))
    return tiles


@wrong("tiles_of_block", says="tile (0, 0) belongs to block 0 and to block 1")
def all_tiles_for_every_block(block, blocks, down, across):
    tiles = []
    for number in range(down * across):
        band, place = divmod(number, 8 * across)
        height = min(8, down - 8 * band)
        tiles.append((8 * band + place % height, place // height))
    return tiles


@wrong("tiles_of_block", says="Each block has rows of its own, so a turn has tiles in 12 rows.")
def rows_for_each_block(block, blocks, down, across):
    return [(row, column) for row in range(block, down, blocks) for column in range(across)]


@wrong("tiles_of_block", says="belongs to no block")
def a_turn_too_few(block, blocks, down, across):
    tiles = []
    for turn in range(down * across // blocks):
        band, place = divmod(block + turn * blocks, 8 * across)
        height = min(8, down - 8 * band)
        tiles.append((8 * band + place % height, place // height))
    return tiles


@wrong("tiles_of_block", says="tile (0, 0) belongs twice to block 0")
def columns_counted_by_across(block, blocks, down, across):
    tiles = []
    for number in range(block, down * across, blocks):
        band, place = divmod(number, 8 * across)
        tiles.append((8 * band + place % min(8, down - 8 * band), place % across))
    return tiles


@wrong("tiles_of_block", says="tiles_of_block should return a list of (row, column)")
def one_tile(block, blocks, down, across):
    return divmod(block, across)


# -------------------------------------------------------------------------------------- 5 softmax_in_fragments

MEET = "        higher = fmaxf(higher, __shfl_xor_sync(ALL, higher, {}));\n"
WHOLE = """        whole = total[n] + __shfl_xor_sync(ALL, total[n], 1);
        whole += __shfl_xor_sync(ALL, whole, 2);
"""


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
def totals_that_meet_in_every_tile(code):
    code = replaced(
        code,
        "            total[n] += score;\n        }\n",
        "            more += score;\n        }\n        more += __shfl_xor_sync(ALL, more, 1);\n"
        "        total[n] += more + __shfl_xor_sync(ALL, more, 2);\n",
    )
    code = replaced(code, "        total[n] *= shrink;\n", "        total[n] *= shrink;\n        float more = 0.0f;\n")
    return replaced(code, WHOLE, "        whole = total[n];\n")


@right("softmax_in_fragments")
def powers_of_two(code):
    code = replaced(code, "expf(top[n] - higher)", "exp2f((top[n] - higher) * 1.44269504f)")
    return replaced(code, "expf(score - higher)", "exp2f((score - higher) * 1.44269504f)")


@wrong("softmax_in_fragments", says="with a maximum of each lane's own numbers: four lanes share a row")
def lanes_with_maxima_of_their_own(code):
    return replaced(code, MEET.format(1), "", MEET.format(2), "")


@wrong("softmax_in_fragments", says="with a maximum of two of the four lanes of a row (xor 1 alone)")
def maxima_of_two_lanes(code):
    return replaced(code, MEET.format(2), "")


@wrong("softmax_in_fragments", says="with maxima exchanged between other rows")
def maxima_of_other_rows(code):
    return replaced(code, MEET.format(1), MEET.format(4), MEET.format(2), MEET.format(8))


@wrong("softmax_in_fragments", says="with each lane's own total: four lanes share a row")
def lanes_with_totals_of_their_own(code):
    return replaced(code, WHOLE, "        whole = total[n];\n")


@wrong("softmax_in_fragments", says="with the total of two of the four lanes of a row")
def totals_of_two_lanes(code):
    return replaced(code, "        whole += __shfl_xor_sync(ALL, whole, 2);\n", "")


@wrong("softmax_in_fragments", says="with sums that do not shrink when the maximum grows")
def sums_that_do_not_shrink(code):
    return replaced(code, "        for (int i = 0; i < 2; i++) sums[2 * n + i] *= shrink;\n", "")


@wrong("softmax_in_fragments", says="with a total that does not shrink when the maximum grows")
def a_total_that_does_not_shrink(code):
    return replaced(code, "        total[n] *= shrink;\n", "")


@wrong("softmax_in_fragments", says="with neither sums nor total shrinking when the maximum grows")
def nothing_shrinks(code):
    return replaced(code, "float shrink = expf(top[n] - higher);", "float shrink = 1.0f;")


@wrong("softmax_in_fragments", says="with scores[i][1] and scores[i][2] taken for each other")
def rows_and_columns_of_a_lane_exchanged(code):
    return code.replace("scores[i / 2][2 * n + i % 2]", "scores[i / 2][n + i % 2 * 2]")


@wrong("softmax_in_fragments", says="exp(200) is infinite in float32: is the largest one subtracted in every exp?")
def no_maximum(code):
    return replaced(code, "        top[n] = higher;\n", "        higher = 0.0f;\n        top[n] = higher;\n").replace(
        "float shrink = expf(top[n] - higher);", "float shrink = 1.0f;"
    )


@wrong("softmax_in_fragments", says="out is not finite even if all scores are 0.")
def shrinks_the_wrong_way(code):
    return replaced(code, "expf(top[n] - higher)", "expf(higher - top[n])")


@wrong("softmax_in_fragments", says="with sums[1] and sums[2] taken for each other")
def sums_of_the_other_row(code):
    return replaced(code, "sums[2 * n + i] *= shrink", "sums[n + 2 * i] *= shrink")


@wrong("softmax_in_fragments", says="a maximum of this tile alone, without top[n]")
def the_maximum_of_this_tile_alone(code):
    return replaced(code, "float higher = top[n];", "float higher = -INFINITY;")


@wrong("softmax_in_fragments", says="a quarter of the result")
def totals_that_meet_twice(code):
    return replaced(totals_that_meet_in_every_tile(code), "        whole = total[n];\n", WHOLE)


@wrong("softmax_in_fragments", says="with each lane's own total: four lanes share a row")
def sums_divided_by_the_lane(code):
    return replaced(code, WHOLE, "        whole = 0.0f;\n        whole += total[n];\n")


@wrong("ring_of_stages", says="only 1 of the 128 consumers (thread 32 first) waits for there, in line 65")
def one_consumer_waits(code):
    return replaced(
        code, "wait(&there[stage], round / STAGES % 2);", "if (t == 0) wait(&there[stage], round / STAGES % 2);"
    )


@right("ring_of_stages")
def copies_before_it_expects(code):
    """Bytes may arrive before they are expected: the phase cannot end without the arrival."""
    line = "            expect(&there[stage], BYTES);\n"
    copy = "            copy(lines[stage], x + round * N, BYTES, &there[stage]);\n"
    return replaced(code, line, "", copy, copy + line)


# ------------------------------------------------------------------------------------------- of a second reader


@wrong("mma_by_hand", says="with k = lane % 4 in place of lane % 4 * 2 in a and b")
def one_number_for_each_register_of_both(code):
    return code.replace("+ k0 + lane % 4 * 2", "+ k0 + lane % 4")


@wrong("mma_by_hand", says="with the first 16 k of b again and again")
def columns_without_k0(code):
    return replaced(code, "b + (n0 + lane / 4) * K + k0", "b + (n0 + lane / 4) * K")


@wrong("mma_by_hand", says="it sends two threads to one place")
def sums_to_the_right(code):
    return replaced(code, "place[8 * N] = d[2];", "place[8] = d[2];", "place[8 * N + 1]", "place[9]")


@wrong("mma_by_hand", says="of the last 16 k alone")
def sums_that_begin_again(code):
    return replaced(code, "mma(d, x, y);", "for (int i = 0; i < 4; i++) d[i] = 0;\n        mma(d, x, y);")


@wrong("swizzle", says="with the first line of each square in place of all eight")
def one_line_of_each_square(code):
    return replaced(code, "square / 8 * 8 + lane % 8", "square / 8 * 8")


@wrong("swizzle", says="with the first of four squares four times")
def the_first_square_alone(code):
    return replaced(code, "first + lane / 8", "first")


@wrong(
    "ring_of_stages",
    says="begins a copy at x[1] (index 0, 0, 1), which is not at a multiple of 16 bytes.\n"
    "Thread (0, 0, 0) of block (0, 0, 0) did it.\n"
    "A bulk copy begins at a multiple of 16 bytes, in global memory too, and so does every array: is the index counted "
    "in single elements, where it should be counted in whole rows?",
)
def lines_counted_as_numbers(code):
    return replaced(code, "x + round * N", "x + round")


@wrong("ring_of_stages", says="only one copy is under way at a time")
def a_producer_that_waits_for_its_copy(code):
    copy = "copy(lines[stage], x + round * N, BYTES, &there[stage]);"
    return replaced(code, copy, f"{copy} wait(&there[stage], round / STAGES % 2);")


@wrong("ring_of_stages", says="in rounds 0, 1, 2, …: 1 0 1 0 1 0 1 0; right are 1 1 1 0 0 0 1 1.")
def a_parity_for_each_round_for_all(code):
    return code.replace("round / STAGES % 2", "round % 2")


@wrong("ring_of_stages", says="each new line halved, too: only `total`, which was there before it, counts half")
def the_line_halved_too(code):
    return replaced(code, "total / 2 + lines[stage][t]", "(total + lines[stage][t]) / 2")


@wrong("ring_of_stages", says="and a line has 512 bytes: 128 numbers of 4 bytes each. Its size is given in bytes")
def numbers_taken_for_bytes(code):
    return replaced(code, "x + round * N, BYTES", "x + round * N, N", "&there[stage], BYTES", "&there[stage], N")


@wrong(
    "ring_of_stages", says="the producer asks for a copy (line 55) before it waits for its stage to be free (line 56)"
)
def waits_after_the_copy(code):
    line = "            wait(&used[stage], round / STAGES % 2 ^ 1);\n"
    copy = "            copy(lines[stage], x + round * N, BYTES, &there[stage]);\n"
    return replaced(code, line, "", copy, copy + line)


@wrong("tiles_of_block", says="With row and column exchanged, a block that is alone gets each tile once")
def columns_before_rows(block, blocks, down, across):
    tiles = [(c, r) for top in range(0, down, 8) for c in range(across) for r in range(top, min(top + 8, down))]
    return tiles[block::blocks]


@wrong("tiles_of_block", says="has 9 tiles where 7 would do")
def the_rest_for_the_last_block(block, blocks, down, across):
    tiles = [(r, c) for top in range(0, down, 8) for c in range(across) for r in range(top, min(top + 8, down))]
    full = len(tiles) // blocks * blocks
    return tiles[:full][block::blocks] + (tiles[full:] if block == blocks - 1 else [])


@wrong("softmax_in_fragments", says="with powers of 2 in place of powers of e")
def powers_of_another_base(code):
    return code.replace("expf(", "exp2f(")


@wrong("softmax_in_fragments", says="with a total of the last tile alone")
def a_total_that_begins_again(code):
    return replaced(code, "total[n] *= shrink;", "total[n] = 0;")


# ------------------------------------------------------------------------------------------- of strangers


@wrong("mma_by_hand", says="with b read as if it were (K, N): the numbers of a column lie side by side along k")
def b_taken_for_its_transpose(code):
    old = "b + (n0 + lane / 4) * K + k0 + lane % 4 * 2"
    new = "b + (k0 + lane % 4 * 2) * N + n0 + lane / 4"
    return replaced(code, old, new, "pair(column + 8)", "pair(column + 8 * N)")


@wrong("softmax_in_fragments", says="with neither sums nor total shrinking when the maximum grows")
def shrinks_by_one(code):
    line, store = "        float shrink = expf(top[n] - higher);\n", "        top[n] = higher;\n"
    return replaced(code, line + store, store + line)


@wrong("softmax_in_fragments", says="what was added up before is then counted 4, 16, … times")
def totals_met_after_every_tile(code):
    end = "            total[n] += score;\n        }\n"
    met = "        for (int far = 1; far < 4; far *= 2) total[n] += __shfl_xor_sync(ALL, total[n], far);\n"
    return replaced(code, end, end + met)


# -------------------------------------------------------------------------- the index is not as in the lines beside it


@wrong("ring_of_stages", says="x + round * N, BYTES, &there[stage])` in place of `copy(lines[stage], x + stage * N")
def the_line_of_the_stage(code):
    return replaced(code, "x + round * N", "x + stage * N")


@wrong("swizzle", says="with the lines of square % 8 and group square / 8")
def lines_and_groups_of_squares_exchanged(code):
    return replaced(
        code,
        "line = square / 8 * 8 + lane % 8;",
        "line = square % 8 * 8 + lane % 8;",
        "place(line, square % 8)",
        "place(line, square / 8)",
    )


@wrong("softmax_in_fragments", says="totals of other rows added (xor 8 and 16)")
def totals_over_sixteen(code):
    return replaced(
        code,
        "__shfl_xor_sync(ALL, total[n], 1)",
        "__shfl_xor_sync(ALL, total[n], 16)",
        "__shfl_xor_sync(ALL, whole, 2)",
        "__shfl_xor_sync(ALL, whole, 8)",
    )


@wrong("tiles_of_block", says="Here the last band has 3 rows, and is numbered as if it had 8")
def tiles_beyond_the_edge_are_left_out(block, blocks, down, across):
    tiles = []
    for number in range(block, (down + 7) // 8 * 8 * across, blocks):
        band, place = divmod(number, 8 * across)
        tiles.append((8 * band + place % 8, place // 8))
    return [tile for tile in tiles if tile[0] < down]


@wrong("tiles_of_block", says="gets each tile once: the last band has 3 rows here, and 8 there")
def only_full_bands(block, blocks, down, across):
    height = min(8, down)
    tiles = []
    for band in range(down // height):
        tiles += [(height * band + i % height, i // height) for i in range(height * across)]
    return [tiles[number] for number in range(block, len(tiles), blocks)]


@wrong("tiles_of_block", says="with 8 x 3 tiles, a block gets in column 1 the rows 8, 7, 6, 5, 4, 3, 2, 1.")
def a_snake_one_row_too_low(block, blocks, down, across):
    def tile(number):
        band, place = divmod(number, 8 * across)
        height = min(8, down - 8 * band)
        column, step = divmod(place, height)
        return 8 * band + (step if column % 2 == 0 else height - step), column

    return [tile(number) for number in range(block, down * across, blocks)]


@right("tiles_of_block")
def a_snake(block, blocks, down, across):
    def tile(number):
        band, place = divmod(number, 8 * across)
        height = min(8, down - 8 * band)
        column, step = divmod(place, height)
        return 8 * band + (step if column % 2 == 0 else height - 1 - step), column

    return [tile(number) for number in range(block, down * across, blocks)]


@wrong("tiles_of_block", says="a block gets in column 0 the rows 0, 1, 2, 3, 4, 5, 6.")
def bands_without_their_last_row(block, blocks, down, across):
    every = [(r, c) for r0 in range(0, down, 8) for c in range(across) for r in range(r0, min(r0 + 8, down) - 1)]
    return every[block::blocks]


@wrong(
    "swizzle",
    says="group 7: place(1, 1) is 2, and place(1, 7) is 0. In all calls the line of the tile is right, and only",
)
def a_sum_where_it_is_kept_and_a_sign_where_it_is_read(code):
    code = replaced(code, "return group ^ line % 8;", "return (group + line) % 8;")
    return replaced(code, "place(line, square % 8)", "(square % 8 ^ lane % 8)")


@wrong("swizzle", says="and place(1, 6) is 7. In all calls the line of the tile is right, and only")
def a_sum_taken_back_where_it_is_read(code):
    code = replaced(code, "return group ^ line % 8;", "return (group + line) % 8;")
    return replaced(code, "place(line, square % 8)", "(square % 8 - line % 8 + 8) % 8")


@wrong("swizzle", says="call 1 of load_turned, lane 0 should say where line 0, group 4 is kept, for line 0 of square 4")
def turned_with_the_same_squares_in_every_turn(code):
    return replaced(code, "int square = first + lane / 8", "int square = warp * 16 + lane / 8")


@wrong("mma_by_hand", says="multiplies by `K`, which is 16, but a row of result has 8 numbers: with `N` in its place")
def sums_in_rows_of_k(code):
    return code.replace("lane / 4) * N", "lane / 4) * K").replace("place[8 * N", "place[8 * K")


FREE = "            wait(&used[stage], round / STAGES % 2 ^ 1);\n"


@wrong("ring_of_stages", says="in round 3, the producer does not wait for used[0], although consumers may still need")
def the_producer_waits_from_round_4_on(code):
    return replaced(code, FREE, f"            if (round > STAGES)\n    {FREE}")


@wrong("ring_of_stages", says="It waits in rounds 4 6 of 8, counted from 0")
def the_producer_waits_in_every_other_round(code):
    return replaced(code, FREE, f"            if (round >= STAGES && round % 2 == 0)\n    {FREE}")


@wrong("ring_of_stages", says="in round 0, a consumer does not wait for there[0], so it reads before the copy has")
def consumers_begin_at_once(code):
    return replaced(code, "            wait(&there", "            if (round > 0) wait(&there")


# --------------------------------------------------------------------- which lanes meet, and which sums shrink by what

ROW_MEETS = """
        higher = fmaxf(higher, __shfl_xor_sync(ALL, higher, 1));
        higher = fmaxf(higher, __shfl_xor_sync(ALL, higher, 2));
"""
ROW_ADDS = """
        whole = total[n] + __shfl_xor_sync(ALL, total[n], 1);
        whole += __shfl_xor_sync(ALL, whole, 2);
"""
ROW_SHRINKS = "for (int i = 0; i < 2; i++) sums[2 * n + i] *= shrink;"


@wrong("softmax_in_fragments", says="a maximum over all 32 lanes, which hold eight rows: four lanes share a row")
def maxima_of_the_warp(code):
    loop = "for (int gap = 16; gap > 0; gap /= 2) higher = fmaxf(higher, __shfl_xor_sync(ALL, higher, gap));"
    return replaced(code, ROW_MEETS, f"\n        {loop}\n")


@wrong("softmax_in_fragments", says="totals of all 32 lanes, which hold eight rows: four lanes share a row")
def totals_of_the_warp(code):
    loop = "for (int gap = 16; gap > 0; gap /= 2) whole += __shfl_xor_sync(ALL, whole, gap);"
    return replaced(code, ROW_ADDS, f"\n        whole = total[n];\n        {loop}\n")


@wrong("softmax_in_fragments", says="a total of three of the four lanes of a row")
def totals_of_three_lanes(code):
    three = "total[n] + __shfl_xor_sync(ALL, total[n], 1) + __shfl_xor_sync(ALL, total[n], 2)"
    return replaced(code, ROW_ADDS, f"\n        whole = {three};\n")


@wrong("softmax_in_fragments", says="each lane's maximum made with the lanes after it (__shfl_down_sync)")
def maxima_from_the_lanes_after(code):
    return replaced(code, ROW_MEETS, ROW_MEETS.replace("xor", "down"))


@wrong("softmax_in_fragments", says="the result with sums[2 * n] shrunk, and sums[2 * n + 1] not")
def one_of_two_sums_shrinks(code):
    return replaced(code, ROW_SHRINKS, "sums[2 * n] *= shrink;")


@wrong("softmax_in_fragments", says="the result with all four sums shrunk for each row")
def all_sums_shrink_for_each_row(code):
    return replaced(code, ROW_SHRINKS, "for (int i = 0; i < 4; i++) sums[i] *= shrink;")


@wrong("softmax_in_fragments", says="a total of the first of each two columns alone, without scores[i][2 * n + 1]")
def totals_of_every_second_column(code):
    return replaced(code, "            total[n] += score;", "            if (i % 2 == 0) total[n] += score;")


@wrong("mma_by_hand", says="with row lane % 4 and k = lane / 4 * 2 in a: they are exchanged")
def rows_and_pairs_of_a_exchanged(code):
    return replaced(code, "(m0 + lane / 4) * K + k0 + lane % 4 * 2", "(m0 + lane % 4) * K + k0 + lane / 4 * 2")


@wrong("mma_by_hand", says="written as if it were (N, M): row m, column n is at m * N + n")
def a_result_written_by_columns(code):
    code = replaced(code, "(m0 + lane / 4) * N + n0 + lane % 4 * 2", "(n0 + lane % 4 * 2) * M + m0 + lane / 4")
    return replaced(code, "place[8 * N + 1]", "place[M + 8]", "place[8 * N]", "place[8]", "place[1]", "place[M]")


@wrong("swizzle", says="with groups 0 to 3 of each line also for its groups 4 to 7: the group is square % 8")
def groups_by_lanes(code):
    return replaced(code, "place(line, square % 8)", "place(line, lane / 8)")


@wrong("swizzle", says="with place of the square's row, square / 8, in place of the line")
def a_place_of_the_squares_row(code):
    return replaced(code, "place(line, square % 8)", "place(square / 8, square % 8)")


@wrong("swizzle", says="the first eight lines of each tile for all of them: lines begin at square / 8 * 8")
def lines_of_the_first_squares(code):
    return replaced(code, "line = square / 8 * 8 + lane % 8", "line = lane % 8")


@wrong(
    "tiles_of_block", says="block 0 has 48 tiles where 24 would do, with 8 blocks and 16 x 12 tiles: 4 of the blocks"
)
def a_square_in_every_turn(block, blocks, down, across):
    side, mine = int(blocks**0.5), []
    for top in range(0, down, side):
        for left in range(0, across, side):
            rows, columns = range(top, min(top + side, down)), range(left, min(left + side, across))
            mine += [(r, c) for r in rows for c in columns][block : block + 1]
    return mine


@wrong("mma_by_hand", says="with four numbers of d side by side, in row lane / 2")
def sums_side_by_side(code):
    code = replaced(code, "(m0 + lane / 4) * N + n0 + lane % 4 * 2", "(m0 + lane / 2) * N + n0 + lane % 2 * 4")
    return replaced(code, "place[8 * N + 1]", "place[3]", "place[8 * N]", "place[2]")


@wrong("mma_by_hand", says="with rows lane / 4 * 2 and the next one of a: a lane has row lane / 4, and in registers 1")
def fragments_of_two_rows_side_by_side(code):
    code = replaced(code, "a + (m0 + lane / 4) * K", "a + (m0 + lane / 4 * 2) * K")
    return replaced(code, "pair(above + 8 * K + 8)", "pair(above + K + 8)", "pair(above + 8 * K)", "pair(above + K)")


@wrong("mma_by_hand", says="with rows lane / 4 * 2 and the next one of d: d[0] and d[1] are in row lane / 4")
def sums_in_two_rows_side_by_side(code):
    code = replaced(code, "result + (m0 + lane / 4) * N", "result + (m0 + lane / 4 * 2) * N")
    return replaced(code, "place[8 * N + 1]", "place[N + 1]", "place[8 * N]", "place[N]")


@wrong("tiles_of_block", says="are 8 columns wide, but have 8 · across tiles, as bands of 8 rows do")
def tiles_in_bands_of_columns_as_long_as_rows(block, blocks, down, across):
    tiles = []
    for number in range(block, down * across, blocks):
        band, place = divmod(number, 8 * across)
        width = min(8, across - 8 * band)
        tiles.append((place // width, 8 * band + place % width))
    return tiles


@wrong("softmax_in_fragments", says="with `2` in place of `4` in line")
def fragments_of_eight_lanes(code):
    loop = (
        "        for (int step = 4; step > 0; step /= 2) higher = fmaxf(higher, __shfl_xor_sync(ALL, higher, step));\n"
    )
    return replaced(code, MEET.format(1) + MEET.format(2), loop)


@wrong("mma_by_hand", says="with four neighbours a lane in a, k = lane % 4 * 4 and the next three")
def mma_with_four_neighbours_in_a(code):
    return replaced(
        code,
        "const half16* above = a + (m0 + lane / 4) * K + k0 + lane % 4 * 2;",
        "const half16* above = a + (m0 + lane / 4) * K + k0 + lane % 4 * 4;",
        "pair(above + 8);",
        "pair(above + 2);",
        "pair(above + 8 * K + 8);",
        "pair(above + 8 * K + 2);",
    )


@wrong("swizzle", says="with groups read where others are kept")
def swizzle_that_asks_for_the_first_line(code):
    return replaced(
        code,
        "tile[line][place(line, square % 8)]",
        "tile[line][place(square / 8 * 8, square % 8)]",
    )


@wrong("ring_of_stages", says="expects bytes at used, but the copies are counted by there.")
def ring_that_expects_at_used(code):
    return replaced(code, "expect(&there[stage], BYTES)", "expect(&used[stage], BYTES)")
