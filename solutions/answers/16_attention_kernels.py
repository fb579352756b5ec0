"""Answers to the exercises of lesson 16 as learners write them: right ones that look different, and wrong ones.

Each wrong answer carries words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 16` runs those of this lesson.
All are CUDA C: a function gets the solution's source and returns another.
"""

from llmc.course.old.authoring.answers import replaced, right, wrong


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


# -------------------------------------------------------------------------------------------- 1 masked_softmax

SEEN = "int n = row % T + 1;"
MOST = "top = fmaxf(top, scores[i]);"
ADDED = "for (int i = lane; i < n; i += 32) total += expf(scores[i] - top);"
WRITTEN = "for (int i = lane; i < T; i += 32) p[i] = i < n ? expf(scores[i] - top) / total : 0.0f;"
STATS = "if (lane == 0) stats[row] = top + logf(total);"


@right("masked_softmax")
def softmax_with_indices_of_its_own(code):
    return holes(
        code,
        """
    int t = row % T;
    float m = -INFINITY, s = 0;
    for (int key = lane; key <= t; key += 32) m = max(m, scores[row * T + key]);
    m = warp_max(m);
    for (int key = lane; key < T; key += 32) {
        float e = 0;
        if (key <= t) e = expf(scores[row * T + key] - m);
        p[row * T + key] = e;
        s += e;
    }
    s = warp_sum(s);
    for (int key = lane; key <= t; key += 32) p[row * T + key] /= s;
    if (!lane) stats[row] = logf(s) + m;
""",
    )


@right("masked_softmax")
def softmax_by_its_logarithm(code):
    by_log = "float lse = top + logf(total);\n    for (int i = lane; i < T; i += 32)"
    code = replaced(code, WRITTEN, f"{by_log} p[i] = i < n ? expf(scores[i] - lse) : 0.0f;")
    return replaced(code, STATS, "if (lane == 31) stats[row] = lse;")


@wrong("masked_softmax", says='→ Where to look: lesson 16, section "3.1 · v1: three naive kernels"')
def softmax_with_stats_of_a_block(code):
    return replaced(code, "stats[row]", "stats[blockIdx.x]")


@wrong("masked_softmax", says="without the term `1` in `n = row % T + 1`")
def softmax_without_its_own_key(code):
    return replaced(code, SEEN, "int n = row % T;")


@wrong("masked_softmax", says="p equals the probabilities of a query that sees one key too many")
def softmax_that_sees_one_key_more(code):
    return replaced(code, SEEN, "int n = min(row % T + 2, T);")


@wrong("masked_softmax", says="heads that do not begin again: t is the row % T")
def softmax_whose_heads_go_on(code):
    return replaced(code, SEEN, "int n = min(row + 1, T);")


@wrong("masked_softmax", says="with `n` in place of `T` in `for (… = lane; … < T; … += 32)`")
def softmax_without_zeros(code):
    return replaced(code, WRITTEN, "for (int i = lane; i < n; i += 32) p[i] = expf(scores[i] - top) / total;")


@wrong("masked_softmax", says="a query that sees all T keys")
def softmax_without_a_mask(code):
    return replaced(code, SEEN, "int n = T;")


@wrong("masked_softmax", says="with a mask such as -10,000, which leaks where all scores of a query are lower")
def softmax_with_a_finite_mask(code):
    masked = "(i < n ? scores[i] : -10000.0f)"
    code = replaced(code, f"i < n; i += 32) {MOST}", f"i < T; i += 32) top = fmaxf(top, {masked});")
    code = replaced(code, ADDED, f"for (int i = lane; i < T; i += 32) total += expf({masked} - top);")
    return replaced(
        code, "p[i] = i < n ? expf(scores[i] - top) / total : 0.0f;", f"p[i] = expf({masked} - top) / total;"
    )


@wrong("masked_softmax", says="stats equals the logarithm of the sum of exp(score - top)")
def softmax_whose_stats_lack_the_top(code):
    return replaced(code, STATS, "if (lane == 0) stats[row] = logf(total);")


@wrong("masked_softmax", says="the sum of exp(score")
def softmax_whose_stats_are_a_sum(code):
    return replaced(code, "top + logf(total)", "top + total")


@wrong("masked_softmax", says="`top = -3.4e38f` in place of `top = 0.0f` in line 22")
def softmax_from_zero(code):
    return replaced(code, "float top = -3.4e38f, total", "float top = 0.0f, total")


@wrong("masked_softmax", says="without the line `total = warp_sum(total)`")
def softmax_of_lanes_that_do_not_add_up(code):
    return replaced(code, "    total = warp_sum(total);\n", "")


@wrong("masked_softmax", says="a request of a warp is for 1.0 numbers")
def softmax_of_one_lane(code):
    code = replaced(code, f"int i = lane; i < n; i += 32) {MOST}", f"int i = 0; i < n && lane == 0; i++) {MOST}")
    code = replaced(code, ADDED, "for (int i = 0; i < n && lane == 0; i++) total += expf(scores[i] - top);")
    return replaced(code, "for (int i = lane; i < T; i += 32) p", "for (int i = 0; i < T && lane == 0; i++) p")


@wrong("masked_softmax", says="totals that are relative to each lane's own maximum")
def softmax_with_totals_of_each_lane(code):
    loop = "for (int i = lane; i < n; i += 32) {\n        float m = fmaxf(top, scores[i]);\n"
    loop += "        total = total * expf(top - m) + expf(scores[i] - m), top = m;\n    }\n"
    loop += "    top = warp_max(top);\n"
    before = f"for (int i = lane; i < n; i += 32) {MOST}\n    top = warp_max(top);\n    {ADDED}\n"
    return replaced(code, before, loop)


# ----------------------------------------------------------------------------------------------- 2 merge_parts

HIGHEST = "for (int s = 0; s < parts; s++) highest = fmaxf(highest, top[s]);"
WHOLE = "whole += total[s] * expf(top[s] - highest);"
SUM = "sum += sums[s * hs + c] * expf(top[s] - highest);"


@right("merge_parts")
def merged_online(code):
    return holes(
        code,
        """
    for (int c = lane; c < hs; c += 32) {
        float m = -3.4e38f, l = 0.0f, o = 0.0f;
        for (int s = 0; s < parts; s++) {
            float higher = fmaxf(m, top[s]), old = expf(m - higher), now = expf(top[s] - higher);
            l = l * old + total[s] * now;
            o = o * old + sums[s * hs + c] * now;
            m = higher;
        }
        out[c] = o / l;
        if (c == 0) stats[row] = m + logf(l);
    }
""",
    )


@right("merge_parts")
def merged_by_logarithms(code):
    return holes(
        code,
        """
    float m = top[0];
    for (int s = 1; s < parts; ++s) if (top[s] > m) m = top[s];
    float z = 0;
    for (int s = 0; s < parts; ++s) z += total[s] * __expf(top[s] - m);
    float lse = m + __logf(z);
    for (int c = lane; c < hs; c += 32) {
        out[c] = 0;
        for (int s = 0; s < parts; ++s) out[c] += sums[s * hs + c] * expf(top[s] - lse);
    }
    if (lane == 0) stats[row] = lse;
""",
    )


@wrong("merge_parts", says="the sums as they are, divided by the totals as they are")
def merged_without_correction(code):
    return replaced(code, SUM, "sum += sums[s * hs + c];", WHOLE, "whole += total[s];")


@wrong("merge_parts", says="corrected sums, divided by totals as they are")
def merged_with_corrected_sums_alone(code):
    return replaced(code, WHOLE, "whole += total[s];")


@wrong("merge_parts", says="the exponent is top - highest, never above 0")
def merged_with_the_sign_turned(code):
    return replaced(code, SUM, SUM.replace("top[s] - highest", "highest - top[s]"))


@wrong("merge_parts", says="a part with larger scores weighs more")
def merged_as_a_mean(code):
    return replaced(code, SUM, "sum += sums[s * hs + c] / total[s];", "sum / whole", "sum / parts")


@wrong("merge_parts", says="do not shrink when a part brings a larger top")
def merged_by_the_top_so_far(code):
    return holes(
        code,
        """
    for (int c = lane; c < hs; c += 32) {
        float m = -3.4e38f, l = 0.0f, o = 0.0f;
        for (int s = 0; s < parts; s++) {
            m = fmaxf(m, top[s]);
            l += total[s] * expf(top[s] - m);
            o += sums[s * hs + c] * expf(top[s] - m);
        }
        out[c] = o / l;
        if (c == 0) stats[row] = m + logf(l);
    }
""",
    )


@wrong("merge_parts", says="the sums without division")
def merged_without_division(code):
    return replaced(code, "out[c] = sum / whole;", "out[c] = sum;")


@wrong("merge_parts", says="with the first turn of `for (… = lane; … < hs; … += 32)` alone")
def merged_with_the_first_lanes_alone(code):
    return replaced(code, "for (int c = lane; c < hs; c += 32) {", "if (int c = lane; c < hs) {")


@wrong("merge_parts", says="channels are the last axis, so it is sums[s * hs + c]")
def merged_with_strides_exchanged(code):
    return replaced(code, "sums[s * hs + c] * expf", "sums[c * parts + s] * expf")


@wrong("merge_parts", says="`0` in place of `1` in line 14")
def merged_with_the_first_part_left_out(code):
    return replaced(code, HIGHEST, HIGHEST.replace("s = 0", "s = 1"))


@wrong("merge_parts", says="writes go to numbers that another thread has written already")
def merged_by_every_lane(code):
    return replaced(code, "for (int c = lane; c < hs; c += 32) {", "for (int c = 0; c < hs; c++) {")


@wrong("merge_parts", says="the logarithm of the sum of exp(score - highest)")
def merged_without_the_highest_in_stats(code):
    return replaced(code, "stats[row] = highest + logf(whole)", "stats[row] = logf(whole)")


# --------------------------------------------------------------------------------------------- 3 flash_forward

BEFORE = "        __syncthreads();  // every warp is done with the tile before\n"
AFTER = "        __syncthreads();  // the tile is there\n"
MASK = "score = k0 + lane <= t ? score * rsqrtf((float)HS) : -3.4e38f;"
STEP = "float higher = fmaxf(top, warp_max(score)), old = expf(top - higher), p = expf(score - higher);"


@right("flash_forward")
def flash_with_a_sum_that_is_online_key_by_key(code):
    return holes(
        code,
        """
        __syncthreads();
        for (int row = threadIdx.x / 32; row < 32; row += warps) {
            bool there = k0 + row < T;
            keys[row * 33 + lane] = there ? k[(k0 + row) * HS + lane] : 0;
            values[row * 33 + lane] = there ? v[(k0 + row) * HS + lane] : 0;
        }
        __syncthreads();
""",
        """
        for (int i = 0; i < 32; i++) {
            if (k0 + i > t) break;
            float score = warp_sum(mine * keys[i * 33 + lane]) / sqrtf(HS);
            float m = fmaxf(top, score), old = expf(top - m), now = expf(score - m);
            if (lane == 0) total = total * old + now;
            sum = sum * old + now * values[i * 33 + lane];
            top = m;
        }
""",
    )


@right("flash_forward")
def flash_with_infinity(code):
    code = replaced(code, MASK, "score *= 0.17677669f;\n        if (k0 + lane > t) score = -INFINITY;")
    code = replaced(code, "keys[row * 33 + c] = k0", "keys[33 * row + c] = k0")
    return replaced(code, "        sum *= old;\n", "        sum = old * sum;\n")


@wrong("flash_forward", says="keys[32] between them is not: is it the padding behind a row?")
def flash_with_rows_of_32_where_it_reads(code):
    return replaced(code, "keys[lane * 33 + c];", "keys[lane * 32 + c];")


@wrong("flash_forward", says="clashes with line 28 of the next: put a second `__syncthreads();`")
def flash_without_the_first_barrier(code):
    return replaced(code, BEFORE, "")


@wrong("flash_forward", says="race in shared memory, lines 29 and 36")
def flash_without_the_second_barrier(code):
    return replaced(code, AFTER, "")


@wrong("flash_forward", says="`k0` and `row` lead to number 37 here (k0 = 32 and row = 5), but axis 1 of k, whose")
def flash_that_reads_behind_the_last_row(code):
    return replaced(code, "k0 + row < T ? k[(k0 + row) * HS + c] : 0.0f", "k[(k0 + row) * HS + c]")


@wrong("flash_forward", says="mentions `row`, and only a loop's own bound limits `k0`")
def flash_that_reads_behind_the_last_value(code):
    return replaced(code, "k0 + row < T ? v[(k0 + row) * HS + c] : 0.0f", "v[(k0 + row) * HS + c]")


@wrong("flash_forward", says="So far keys[0] to keys[1023] are written, and none of the 32 behind them")
def flash_whose_rows_are_stored_without_a_gap(code):
    code = replaced(code, "keys[row * 33 + c] = k0", "keys[i] = k0")
    return replaced(code, "values[row * 33 + c] = k0", "values[i] = k0")


@wrong("flash_forward", says="out equals the result without the scale")
def flash_without_scale(code):
    return replaced(code, MASK, MASK.replace(" * rsqrtf((float)HS)", ""))


@wrong("flash_forward", says="dot products divided by hs: the scale is 1/√hs")
def flash_that_divides_by_hs(code):
    return replaced(code, MASK, MASK.replace("* rsqrtf((float)HS)", "/ HS"))


@wrong("flash_forward", says="a query that does not see its own key")
def flash_without_its_own_key(code):
    return replaced(code, "k0 + lane <= t ?", "k0 + lane < t ?")


@wrong("flash_forward", says="a mask that forgets the tile: lane `lane` has key k0 + lane")
def flash_that_forgets_the_tile(code):
    return replaced(code, "k0 + lane <= t ?", "lane <= t ?")


@wrong("flash_forward", says="leaks where all scores of a query are lower in each tile")
def flash_with_a_finite_mask(code):
    return replaced(code, MASK, MASK.replace("-3.4e38f", "-10000.0f"))


@wrong("flash_forward", says="a sum of values that does not shrink when a tile brings a larger score")
def flash_whose_sum_never_shrinks(code):
    return replaced(code, "        sum *= old;\n", "")


@wrong("flash_forward", says="a total that does not shrink when a tile brings a larger score")
def flash_whose_total_never_shrinks(code):
    return replaced(code, "total = total * old + p;", "total += p;")


@wrong("flash_forward", says="a larger score")
def flash_that_moves_top_too_early(code):
    early = "top = fmaxf(top, warp_max(score));\n        "
    return replaced(code, STEP, early + STEP.replace("fmaxf(top, warp_max(score))", "top"))


@wrong("flash_forward", says="1/32 of the result")
def flash_whose_lanes_count_all_keys(code):
    return replaced(code, "total = total * old + p;", "total = total * old + warp_sum(p);")


@wrong("flash_forward", says="a largest score of each lane's own")
def flash_with_the_maximum_of_each_lane(code):
    seen = "p = score > -3e38f ? expf(score - higher) : 0.0f"
    return replaced(code, "fmaxf(top, warp_max(score))", "fmaxf(top, score)", "p = expf(score - higher)", seen)


@wrong("flash_forward", says="the result of the last tile alone")
def flash_that_keeps_the_old_top(code):
    return replaced(code, "        top = higher;\n", "")


@wrong("flash_forward", says="key i's is in lane i")
def flash_without_a_shuffle_of_p(code):
    return replaced(code, "__shfl_sync(0xffffffff, p, i)", "p")


@wrong("flash_forward", says="channel c is in lane c")
def flash_without_a_shuffle_of_q(code):
    return replaced(code, "__shfl_sync(0xffffffff, mine, c)", "mine")


@wrong("flash_forward", says="row i belongs to a key and the lane to a channel")
def flash_with_values_turned(code):
    return replaced(code, "values[i * 33 + lane]", "values[lane * 33 + i]")


@wrong("flash_forward", says="row `row` of a tile is key k0 + row")
def flash_with_the_first_keys_in_every_tile(code):
    return replaced(code, "k[(k0 + row) * HS + c]", "k[row * HS + c]")


@wrong("flash_forward", says="extra passes are made for bank conflicts")
def flash_with_rows_of_32(code):
    code = code.replace("row * 33", "row * 32").replace("lane * 33", "lane * 32")
    return replaced(code, "values[i * 33 + lane]", "values[i * 32 + lane]")


@wrong("flash_forward", says="sectors from global memory, where")
def flash_of_warps_that_load_for_themselves(code):
    return replaced(code, "int i = threadIdx.x; i < 32 * HS; i += blockDim.x", "int i = lane; i < 32 * HS; i += 32")


@wrong("flash_forward", says="out of bounds, line 30")
def flash_beyond_the_last_key(code):
    return replaced(
        code,
        "values[row * 33 + c] = k0 + row < T ? v[(k0 + row) * HS + c] : 0.0f;",
        "values[row * 33 + c] = v[(k0 + row) * HS + c];",
    )


# ---------------------------------------------------------------------------------------------- 4 attention_dq

PROBABILITY = "float p = expf(warp_sum(query * key) * scale - stats[row]);"
GROWS = "sum += p * (dp - D) * scale * key;"


@right("attention_dq")
def dq_in_two_sums(code):
    return holes(
        code,
        """
    const float scale = 1.0f / sqrtf(HS);
    q += (size_t)row * HS, dout += (size_t)row * HS, out += (size_t)row * HS;
    float D = warp_sum(dout[lane] * out[lane]), with_dp = 0, with_p = 0;
    for (int i = t; i >= 0; --i) {
        float s = warp_sum(q[lane] * k[i * HS + lane]);
        float p = expf(s * scale - stats[row]);
        with_dp += p * warp_sum(dout[lane] * v[i * HS + lane]) * k[i * HS + lane];
        with_p += p * k[i * HS + lane];
    }
    if (lane == 0) delta[row] = D;
    dq[row * HS + lane] = scale * (with_dp - D * with_p);
""",
    )


@right("attention_dq")
def dq_scaled_at_the_end(code):
    code = replaced(code, "(dp - D) * scale * key", "(dp - D) * key")
    return replaced(code, "dq[row * HS + lane] = sum;", "dq[row * HS + lane] = sum * scale;")


@wrong("attention_dq", says="in place of `expf(warp_sum(query * key) * scale) / stats[row]`")
def dq_divides_by_the_logarithm(code):
    return replaced(code, "* scale - stats[row])", "* scale) / stats[row]")


@wrong("attention_dq", says="dq has NaN or infinite entries.\nThe same launch is right with stats divided by")
def dq_of_a_quotient_of_two_exponentials(code):
    return replaced(code, "* scale - stats[row])", "* scale) / expf(stats[row])")


@wrong("attention_dq", says="as many turns, and with the same `i` if it puts together what they have for one")
def dq_of_keys_shared_by_the_lanes(code):
    return replaced(code, "for (int i = 0; i <= t; i++)", "for (int i = lane; i <= t; i += 32)")


@wrong("attention_dq", says="p · dp without D: ds is p · (dp - D)")
def dq_without_d(code):
    return replaced(code, "p * (dp - D)", "p * dp")


@wrong("attention_dq", says="everywhere.\nOur solution gives the same numbers without the factor `scale` in `p * (dp")
def dq_without_the_outer_scale(code):
    return replaced(code, "(dp - D) * scale * key", "(dp - D) * key")


@wrong("attention_dq", says="without the factor `scale` in `warp_sum(query * key) * scale - stats[row]`")
def dq_without_the_inner_scale(code):
    return replaced(code, "warp_sum(query * key) * scale - stats[row]", "warp_sum(query * key) - stats[row]")


@wrong("attention_dq", says="exp(score), not divided by the sum")
def dq_without_stats(code):
    return replaced(code, " * scale - stats[row]", " * scale")


@wrong("attention_dq", says="has the scale in the scores twice")
def dq_scaled_twice(code):
    return replaced(
        code, "float query = q[row * HS + lane], d", "float query = q[row * HS + lane] * rsqrtf((float)HS), d"
    )


@wrong("attention_dq", says="a row of dq and its number of delta belong to one warp")
def dq_of_head_0(code):
    return replaced(code, "dq[row * HS + lane] = sum;", "dq[t * HS + lane] = sum;")


@wrong("attention_dq", says="the stats of head 0 in every head")
def dq_with_the_stats_of_the_head(code):
    return replaced(code, "stats[row]", "stats[t]")


@wrong("attention_dq", says="a query that does not see its own key")
def dq_without_its_own_key(code):
    return replaced(code, "i <= t", "i < t")


@wrong("attention_dq", says="a query that sees all T keys")
def dq_that_sees_all_keys(code):
    return replaced(code, "i <= t", "i < T")


@wrong("attention_dq", says="dq is ds times the keys")
def dq_with_values_for_keys(code):
    return replaced(code, "scale * key;", "scale * value;")


@wrong("attention_dq", says="what key t, the last one, brings alone")
def dq_of_the_last_key(code):
    return replaced(code, GROWS, GROWS.replace("+=", "="))


@wrong("attention_dq", says="dout times out of channel 0 alone, which lane 0 has")
def dq_with_a_d_for_each_lane(code):
    return replaced(code, "float D = warp_sum(d * out[row * HS + lane]);", "float D = d * out[row * HS + lane];")


@wrong("attention_dq", says="dp is a sum over the lanes")
def dq_with_a_dp_for_each_lane(code):
    return replaced(code, "float dp = warp_sum(d * value);", "float dp = d * value;")


@wrong("attention_dq", says="D with dout of head 0 in every head")
def dq_with_dout_of_the_head(code):
    return replaced(code, "d = dout[row * HS + lane];", "d = dout[t * HS + lane];")


# -------------------------------------------------------------------------------------------- 5 attention_dkdv


@right("attention_dkdv")
def dkdv_from_the_last_query(code):
    return holes(
        code,
        """
    float a = 0, b = 0;
    for (int t = T - 1; t >= i; --t) {
        const float* qt = q + t * HS;
        const float* dt = dout + t * HS;
        float e = expf(warp_sum(qt[lane] * key) / sqrtf(HS) - stats[t]);
        a += e * dt[lane];
        b += e * (warp_sum(dt[lane] * value) - delta[t]) * qt[lane];
    }
    dv[row * HS + lane] = a;
    dk[row * HS + lane] = b / sqrtf(HS);
""",
    )


@right("attention_dkdv")
def dkdv_with_a_mask(code):
    code = replaced(code, "for (int t = i; t < T; t++) {", "for (int t = 0; t < T; t++) {")
    return replaced(
        code,
        "float p = expf(warp_sum(query * key) * scale - stats[t]);",
        "float s = warp_sum(query * key) * scale, p = t < i ? 0.0f : expf(s - stats[t]);",
    )


@wrong("attention_dkdv", says="has NaN or infinite entries.\nThe same launch is right with stats divided by")
def dkdv_of_a_quotient_of_two_exponentials(code):
    return replaced(code, "* scale - stats[t])", "* scale) / expf(stats[t])")


@wrong("attention_dkdv", says="the sum over all queries: key i is seen by the queries i to T - 1")
def dkdv_of_all_queries(code):
    return replaced(code, "int t = i; t < T", "int t = 0; t < T")


@wrong("attention_dkdv", says="key i is seen by query i, too")
def dkdv_of_later_queries(code):
    return replaced(code, "int t = i; t < T", "int t = i + 1; t < T")


@wrong("attention_dkdv", says="the sum over the queries 0 to i")
def dkdv_of_earlier_queries(code):
    return replaced(code, "int t = i; t < T", "int t = 0; t <= i")


@wrong("attention_dkdv", says="stats belong to the query")
def dkdv_with_the_stats_of_the_key(code):
    return replaced(code, "scale - stats[t]", "scale - stats[i]")


@wrong("attention_dkdv", says="delta belongs to the query")
def dkdv_with_the_delta_of_the_key(code):
    return replaced(code, "- delta[t]", "- delta[i]")


@wrong("attention_dkdv", says="p · dp without D: ds is p · (dp - D)")
def dkdv_without_delta(code):
    return replaced(code, "(warp_sum(d * value) - delta[t])", "warp_sum(d * value)")


@wrong("attention_dkdv", says="ds times dout: dv is p times dout")
def dkdv_with_ds_for_p(code):
    return replaced(code, "dvalue += p * d;", "dvalue += ds * d;")


@wrong("attention_dkdv", says="dp is the sum of dout · v over the lanes")
def dkdv_with_a_sum_of_dout(code):
    return replaced(code, "warp_sum(d * value)", "warp_sum(d) * value")


@wrong("attention_dkdv", says="a row of dk and of dv belongs to one warp")
def dkdv_of_head_0(code):
    return replaced(code, "dv[row * HS + lane] = dvalue;", "dv[i * HS + lane] = dvalue;")


@wrong("attention_dkdv", says="dk is √32 times what it should be")
def dkdv_without_scale(code):
    return replaced(code, "delta[t]) * scale;", "delta[t]);")


@wrong("attention_dkdv", says="ds times the keys: dk is ds times the queries")
def dkdv_with_keys_for_queries(code):
    return replaced(code, "dkey += ds * query;", "dkey += ds * key;")


@wrong("attention_dkdv", says="q belongs to the query")
def dkdv_with_the_query_of_the_key(code):
    return replaced(code, "q[t * HS + lane]", "q[i * HS + lane]")


@wrong("attention_dkdv", says="dv equals what dk should be")
def dkdv_exchanged(code):
    return replaced(
        code,
        "dk[row * HS + lane] = dkey;",
        "dk[row * HS + lane] = dvalue;",
        "dv[row * HS + lane] = dvalue;",
        "dv[row * HS + lane] = dkey;",
    )


@wrong("attention_dkdv", says="what query T - 1, the last one, brings alone")
def dkdv_of_the_last_query(code):
    return replaced(code, "dvalue += p * d;", "dvalue = p * d;")


@wrong("attention_dkdv", says="dk equals the result with 32 · D")
def dkdv_with_d_in_every_lane(code):
    return replaced(code, "(warp_sum(d * value) - delta[t])", "warp_sum(d * value - delta[t])")


@wrong("attention_dq", says="dq equals the result with 32 · D")
def dq_with_d_in_every_lane(code):
    code = replaced(code, "float dp = warp_sum(d * value);", "float dp = warp_sum(d * value - D);")
    return replaced(code, "(dp - D)", "dp")


# ------------------------------------------------------------------------------------------- 6 fewest_requests

ONE = "i < 32 && k0 + i <= row"


@right("fewest_requests")
def requests_with_a_tile_of_64(code):
    code = replaced(code, "keys[32 * 8], values[32 * 8]", "keys[64 * 8], values[64 * 8]", "k0 += 32", "k0 += 64")
    code = replaced(code, "i < 32 * 8; i += 64", "i < 64 * 8; i += 64")
    return replaced(code, ONE, "i < 64 && k0 + i <= row")


@right("fewest_requests")
def requests_with_a_correction_only_when_needed(code):
    grown = "float old = 1.0f;\n            if (score > top) old = expf(top - score), top = score;\n"
    grown += "            float p = expf(score - top);"
    step = "float higher = fmaxf(top, score), old = expf(top - higher), p = expf(score - higher);"
    return replaced(code, step, grown, "            top = higher;\n", "")


@wrong("fewest_requests", says="It moves 4 bytes at a time, and the array holds float4s")
def requests_of_single_numbers(code):
    score = "float4 a = mine[c], b = keys[i * 8 + c];"
    one = "const float* b4 = (const float*)&keys[i * 8 + c];\n                float4 a = mine[c], b;\n"
    one += "                b.x = b4[0], b.y = b4[1], b.z = b4[2], b.w = b4[3];"
    return replaced(code, score, one)


@wrong("fewest_requests", says="`top = -3.4e38f` in place of `top = 0.0f` in line 18")
def requests_from_a_maximum_of_0(code):
    return replaced(code, "float top = -3.4e38f", "float top = 0.0f")


@right("fewest_requests")
def requests_of_components(code):
    score = "float4 a = mine[c], b = keys[i * 8 + c];\n"
    return replaced(code, score, "float4 a = mine[c];\n                const float4& b = keys[i * 8 + c];\n")


@wrong("fewest_requests", says="1 block reads 2,048 sectors from global memory, where 768 are enough")
def requests_to_global_memory(code):
    code = replaced(code, "b = keys[i * 8 + c]", "b = ((const float4*)k)[(k0 + i) * 8 + c]")
    return replaced(code, "b = values[i * 8 + c]", "b = ((const float4*)v)[(k0 + i) * 8 + c]")


@wrong("fewest_requests", says="race in shared memory, lines 23 and 30")
def requests_without_the_barrier_after_the_tile(code):
    return replaced(
        code, "        }\n        __syncthreads();\n        for (int i = 0;", "        }\n        for (int i = 0;"
    )


@wrong("fewest_requests", says="race in shared memory, lines 22 and 30")
def requests_with_one_barrier_for_two(code):
    return replaced(
        code, "        __syncthreads();\n        for (int i = threadIdx.x", "        for (int i = threadIdx.x"
    )


@wrong("fewest_requests", says="find a way without `__shfl`")
def requests_replaced_by_shuffles(code):
    return replaced(code, "score *= scale;", "score = __shfl_sync(__activemask(), score, threadIdx.x % 32) * scale;")


@wrong("fewest_requests", says="`i < 32 && k0 + i <= row` in place of `i < 32 && k0 + i < row` in line 28")
def requests_without_their_own_key(code):
    return replaced(code, ONE, "i < 32 && k0 + i < row")


@wrong("fewest_requests", says="the result without the scale")
def requests_without_scale(code):
    return replaced(code, "            score *= scale;\n", "")


@wrong("fewest_requests", says="out of bounds, line 15")
def requests_beyond_the_last_row(code):
    return replaced(code, "row = t < T ? t : T - 1;", "row = t;", "k0 + i <= row", "k0 + i <= row && k0 + i < T")


@wrong("fewest_requests", says="does not shrink when a key brings a larger score")
def requests_whose_sum_never_shrinks(code):
    return replaced(
        code,
        "s.x = s.x * old + p * b.x, s.y = s.y * old + p * b.y;",
        "s.x += p * b.x, s.y += p * b.y;",
        "s.z = s.z * old + p * b.z, s.w = s.w * old + p * b.w;",
        "s.z += p * b.z, s.w += p * b.w;",
    )


@wrong("fewest_requests", says="the result of the first 32 keys")
def requests_of_the_first_tile(code):
    return replaced(code, "k0 < first + 64 && k0 < T", "k0 < 32 && k0 < T")


@wrong("fewest_requests", says="In line 24, thread 0 reads 16 bytes of k, elements 0 to 3 and thread 1")
def requests_of_a_row_for_each_thread(code):
    begin, end = code.index("        for (int i = threadIdx.x; i < 32 * 8"), code.rindex("        __syncthreads();\n")
    rows = """        int line = threadIdx.x % 32;
        const float4* from = (const float4*)(threadIdx.x < 32 ? k : v) + (k0 + line) * 8;
        float4* to = (threadIdx.x < 32 ? keys : values) + line * 8;
        for (int c = 0; c < 8; c++) if (k0 + line < T) to[c] = from[c];
"""
    return code[:begin] + rows + code[end:]


@wrong("fewest_requests", says="The one block of this launch reads k 2 times over: can one loop over its tiles do?")
def requests_in_two_passes(code):
    begin, end = code.index("    for (int k0 = 0;"), code.index("    if (t < T) {")
    step = "float higher = fmaxf(top, score), old = expf(top - higher), p = expf(score - higher);"
    tops = code[begin : code.index(step)] + "top = fmaxf(top, score);\n        }\n    }\n"
    tops = replaced(tops, "                values[i] = ((const float4*)v)[k0 * 8 + i];\n", "")
    after = "float old = 1.0f, p = expf(score - top);"
    sums = replaced(code[begin:end], step, after, "            top = higher;\n", "")
    return code[:begin] + tops + sums + code[end:]


# ------------------------------------------------------------- what only other launches of the kernel can tell


@wrong("masked_softmax", says="a query t = row / T, which is the head: it is row % T")
def softmax_of_the_head_as_a_query(code):
    return replaced(code, SEEN, SEEN.replace("%", "/"))


@wrong("masked_softmax", says="in place of `top = fmaxf(top, i < n ? scores[i] : -12000.0f)`")
def softmax_with_a_lowest_score(code):
    masked = "fmaxf(top, i < n ? scores[i] : -12000.0f);"
    return replaced(
        code, f"for (int i = lane; i < n; i += 32) {MOST}", f"for (int i = lane; i < T; i += 32) top = {masked}"
    )


@wrong("masked_softmax", says="`i < n` in place of `i < T`")
def softmax_with_the_maximum_of_all_keys(code):
    return replaced(code, f"for (int i = lane; i < n; i += 32) {MOST}", f"for (int i = lane; i < T; i += 32) {MOST}")


@wrong("masked_softmax", says="is exp taken of these numbers without the largest subtracted?\np is right here.")
def softmax_whose_stats_overflow(code):
    return replaced(code, "top + logf(total)", "logf(expf(top) * total)")


# --------------------------------------------------------------- lanes, factors that vanish, and threads that leave


@wrong(
    "merge_parts",
    says="every lane needs the total of all.\nout[0, 0] depends on total[0, 0]; it should depend on total[0, 0] and",
)
def merge_with_totals_of_single_lanes(code):
    return replaced(code, f"for (int s = 0; s < parts; s++) {WHOLE}", f"for (int s = lane; s < parts; s += 32) {WHOLE}")


@wrong("attention_dq", says="Line 21 makes the call in the `if` on line 20, so only some lanes make it there")
def queries_whose_delta_one_lane_adds_up(code):
    delta = "float D = 0.0f;\n    if (lane == 0)\n        D = warp_sum(d * out[row * HS + lane]);"
    return replaced(code, "float D = warp_sum(d * out[row * HS + lane]);", delta)


@wrong("attention_dq", says="with `expf(warp_sum(query * key * scale) - stats[row])` in place of")
def queries_that_subtract_stats_32_times(code):
    return replaced(code, PROBABILITY, "float p = expf(warp_sum(query * key * scale - stats[row]));")


@wrong("attention_dq", says="in place of `sum += p * (dp - D) * scale * query`")
def queries_times_themselves(code):
    return replaced(code, GROWS, GROWS.replace("key", "query"))


@wrong("fewest_requests", says="the keys 0 to t - first, `first` being the first query of their block")
def requests_with_a_mask_of_the_block(code):
    return replaced(code, ONE, ONE.replace("row", "(int)threadIdx.x && k0 + i < T"))


@wrong("fewest_requests", says="The loop on line 19 has barriers, but `k0 <= row` depends on the thread, by `row`")
def requests_of_threads_that_leave_the_tiles(code):
    return replaced(code, "k0 < first + 64 && k0 < T", "k0 <= row")


@wrong(
    "flash_forward",
    says="out equals the result with a largest score of each lane's own, where later keys count nothing",
)
def flash_with_a_maximum_for_each_lane(code):
    seen = "p = score > -3e38f ? expf(score - higher) : 0.0f"
    return replaced(code, "fmaxf(top, warp_max(score))", "fmaxf(top, score)", "p = expf(score - higher)", seen)


# ---------------------------------------------------------------------------- 7 formulas, exercise by exercise


@wrong("masked_softmax", says="a query t = row / heads")
def softmax_with_row_over_heads(code):
    code = replaced(code, SEEN, "int n = row / heads + 1;")
    return replaced(code, "i < n ?", "i < n && i < T ?")


@wrong("masked_softmax", says="a query t = row % heads")
def softmax_with_row_modulo_heads(code):
    return replaced(code, SEEN, "int n = min(row % heads + 1, T);")


@wrong("masked_softmax", says="with powers of 2, not of e")
def softmax_with_powers_of_two(code):
    code = replaced(code, ADDED, ADDED.replace("expf", "exp2f"))
    return replaced(code, WRITTEN, WRITTEN.replace("expf", "exp2f"))


@wrong("masked_softmax", says="the logarithm of the sum to base 2")
def softmax_whose_stats_are_to_base_two(code):
    return replaced(code, STATS, "if (lane == 0) stats[row] = top + log2f(total);")


@wrong("masked_softmax", says="the logarithm of the sum of exp(score) over lane 0's own keys")
def softmax_with_stats_of_a_lane(code):
    return replaced(
        code, "total = warp_sum(total);", "float whole = warp_sum(total);", "- top) / total", "- top) / whole"
    )


@wrong("masked_softmax", says="exp(score - top), not divided by their sum")
def softmax_that_is_not_divided(code):
    return replaced(code, "expf(scores[i] - top) / total", "expf(scores[i] - top)")


EXP = "expf(top[s] - highest)"


@wrong("merge_parts", says="weighed by exp(top - highest) alone: a part's weight is that times its total")
def merged_with_weights_of_tops_alone(code):
    code = replaced(
        code, "float highest = -3.4e38f, whole = 0.0f;", "float highest = -3.4e38f, whole = 0.0f, weights = 0.0f;"
    )
    code = replaced(
        code,
        "    for (int c = lane",
        f"    for (int s = 0; s < parts; s++) weights += total[s] > 0 ? {EXP} : 0;\n    for (int c = lane",
    )
    code = replaced(code, SUM, "if (total[s] > 0) sum += sums[s * hs + c] / total[s] * expf(top[s] - highest);")
    return replaced(code, "sum / whole", "sum / weights")


@wrong("merge_parts", says="divided by the right total: sums hold no quotients")
def merged_with_quotients_and_the_right_total(code):
    return replaced(code, SUM, "if (total[s] > 0) sum += sums[s * hs + c] / total[s] * expf(top[s] - highest);")


@wrong("merge_parts", says="with each part multiplied by its total, too")
def merged_with_the_total_as_a_weight(code):
    return replaced(code, SUM, "sum += sums[s * hs + c] * total[s] * expf(top[s] - highest);")


@wrong("merge_parts", says="highest plus the logarithm of the totals as they are")
def merged_with_totals_as_they_are_in_stats(code):
    code = replaced(code, "highest + logf(whole)", "highest + logf(plain)")
    code = replaced(code, "whole = 0.0f;", "whole = 0.0f, plain = 0.0f;")
    return replaced(code, WHOLE, "plain += total[s], " + WHOLE)


@wrong("merge_parts", says="with a part of a lower top added as it comes, once a higher one has been met")
def merged_with_later_parts_as_they_come(code):
    return holes(
        code,
        """
    float m = top[0], whole = total[0];
    for (int s = 1; s < parts; s++) {
        if (top[s] > m) {
            whole = whole * expf(m - top[s]) + total[s];
            m = top[s];
        } else {
            whole += total[s];
        }
    }
    for (int c = lane; c < hs; c += 32) {
        float best = top[0], acc = sums[c];
        for (int s = 1; s < parts; s++) {
            float higher = fmaxf(best, top[s]);
            acc = acc * expf(best - higher) + sums[s * hs + c];
            best = higher;
        }
        out[c] = acc / whole;
    }
    if (lane == 0) stats[row] = m + logf(whole);
""",
    )


@wrong("flash_forward", says="shrinks once for each key of a tile")
def flash_whose_sum_shrinks_with_each_key(code):
    code = replaced(code, "        sum *= old;\n", "")
    return replaced(code, "sum += __shfl_sync(0xffffffff, p, i)", "sum = sum * old + __shfl_sync(0xffffffff, p, i)")


@wrong("flash_forward", says="a scale that is applied once more in each tile")
def flash_that_scales_q_in_each_tile(code):
    code = replaced(code, MASK, "score = k0 + lane <= t ? score : -3.4e38f;")
    return replaced(
        code, "        float score = 0.0f;", "        mine *= rsqrtf((float)HS);\n        float score = 0.0f;"
    )


@wrong("flash_forward", says="those from T on, which are zeros")
def flash_without_any_mask(code):
    return replaced(code, MASK, "score *= rsqrtf((float)HS);")


@wrong("flash_forward", says="what the first one of their block sees")
def flash_whose_blocks_share_a_mask(code):
    return replaced(code, "k0 + lane <= t ?", "k0 + lane <= first ?")


@wrong("flash_forward", says="divided by √T")
def flash_with_the_scale_of_T(code):
    return replaced(code, "score * rsqrtf((float)HS)", "score * rsqrtf((float)T)")


@wrong("flash_forward", says="with keys and values exchanged")
def flash_with_keys_and_values_exchanged(code):
    code = replaced(code, "keys[row * 33 + c] =", "VALUES[row * 33 + c] =")
    code = replaced(code, "values[row * 33 + c] =", "keys[row * 33 + c] =")
    return replaced(code, "VALUES", "values")


@wrong("flash_forward", says="stays, times exp(top before the tile - top after it)")
def flash_with_a_total_of_the_last_tile(code):
    return replaced(code, "total = total * old + p;", "total = p;")


@wrong("flash_forward", says="a score of 0 for each later key of a tile")
def flash_with_a_mask_of_zero(code):
    return replaced(code, MASK, "score = k0 + lane <= t ? score * rsqrtf((float)HS) : 0.0f;")


@wrong("attention_dq", says="with p · (1 - p) · dp, which leaves out")
def dq_with_the_derivative_of_a_sigmoid(code):
    return replaced(code, GROWS, "sum += p * (1.0f - p) * dp * scale * key;")


@wrong("attention_dq", says="a D of the keys up to i")
def dq_with_an_incomplete_D(code):
    code = replaced(code, "float D = warp_sum(d * out[row * HS + lane]);", "float D = 0.0f;")
    return replaced(code, GROWS, "D += p * dp;\n        " + GROWS)


@wrong("attention_dq", says="the result with p · dp - D")
def dq_without_brackets(code):
    return replaced(code, GROWS, "sum += (p * dp - D) * scale * key;")


@wrong("attention_dq", says="the result with dp - D alone")
def dq_without_p(code):
    return replaced(code, GROWS, "sum += (dp - D) * scale * key;")


@wrong("attention_dq", says="the result with p · (D - dp)")
def dq_with_the_other_sign(code):
    return replaced(code, GROWS, "sum += p * (D - dp) * scale * key;")


@wrong("attention_dq", says="a score for each lane")
def dq_with_a_score_for_each_lane(code):
    return replaced(code, PROBABILITY, "float p = expf(query * key * scale - stats[row]);")


@wrong("attention_dq", says="with q in place of dout in dp")
def dq_with_dp_from_the_query(code):
    return replaced(code, "float dp = warp_sum(d * value);", "float dp = warp_sum(query * value);")


@wrong("attention_dq", says="the sum of dp, without p")
def dq_with_a_D_of_bare_dp(code):
    return replaced(
        code,
        "float D = warp_sum(d * out[row * HS + lane]);",
        "float D = 0.0f;\n    for (int i = 0; i <= t; i++) D += warp_sum(d * v[i * HS + lane]);",
    )


@wrong("attention_dkdv", says="with p · (1 - p) · dp, which leaves out")
def dkdv_with_the_derivative_of_a_sigmoid(code):
    return replaced(
        code,
        "float ds = p * (warp_sum(d * value) - delta[t]) * scale;",
        "float ds = p * (1 - p) * warp_sum(d * value) * scale;",
    )


@wrong("attention_dkdv", says="the result with p · (dp + D)")
def dkdv_with_D_added(code):
    return replaced(code, ") - delta[t])", ") + delta[t])")


@wrong("attention_dkdv", says="with the values in place of the keys in the score")
def dkdv_with_the_value_in_the_score(code):
    return replaced(code, "expf(warp_sum(query * key)", "expf(warp_sum(query * value)")


@wrong("attention_dkdv", says="p times the values: dv is p times dout")
def dkdv_with_p_times_the_values(code):
    return replaced(code, "dvalue += p * d;", "dvalue += p * value;")


@wrong("fewest_requests", says="sees one key too many")
def requests_that_see_one_key_more(code):
    return replaced(code, "k0 + i <= row", "k0 + i <= row + 1 && k0 + i < T")


@wrong("fewest_requests", says="the logarithm of the sum of exp(score - top)")
def requests_without_the_top_in_stats(code):
    return replaced(code, "top + logf(total)", "logf(total)")


@wrong("flash_forward", says="a largest score of each lane's own, where later keys count nothing")
def flash_with_the_maximum_of_each_lane_and_silent_keys(code):
    code = replaced(code, "warp_max(score)", "score")
    return replaced(code, "p = expf(score - higher);", "p = score > -3e38f ? expf(score - higher) : 0.0f;")


# ------------------------------------------------------------------------------- what is finite, and with which scores


@wrong("merge_parts", says="out is finite as soon as the part without keys has a total of 1, not of 0")
def merge_of_quotients(code):
    share = "sums[s * hs + c] / total[s] * (total[s] * expf(top[s] - highest))"
    return replaced(code, "sums[s * hs + c] * expf(top[s] - highest)", share)


@wrong("merge_parts", says="out equals the result with the factor of part `lane` in every part")
def merge_with_the_factor_of_the_lane(code):
    return holes(
        code,
        """
    float mine = lane < parts ? top[lane] : -3.4e38f, highest = mine;
    for (int gap = 16; gap > 0; gap /= 2) highest = fmaxf(highest, __shfl_xor_sync(0xffffffff, highest, gap));
    float factor = expf(mine - highest), whole = lane < parts ? total[lane] * factor : 0.0f;
    for (int gap = 16; gap > 0; gap /= 2) whole += __shfl_xor_sync(0xffffffff, whole, gap);
    for (int c = lane; c < hs; c += 32) {
        float sum = 0.0f;
        for (int s = 0; s < parts; s++) sum += sums[s * hs + c] * factor;
        out[c] = sum / whole;
    }
    if (lane == 0) stats[row] = highest + logf(whole);
""",
    )


@wrong("merge_parts", says="has moved `top` by `(size_t)row * parts` already, and line 21 passes `top + base`")
def merge_whose_helper_gets_a_pointer_that_was_moved_twice(code):
    helper = """__device__ float top_of(const float* numbers, int n)
{
    float highest = -3.4e38f;
    for (int i = 0; i < n; i++) highest = fmaxf(highest, numbers[i]);
    return highest;
}
"""
    code = replaced(code, "// out: (rows, hs)", f"{helper}// out: (rows, hs)")
    code = replaced(code, "+= total[s] * expf(top[s] - highest)", "+= total[base + s] * expf(top[base + s] - highest)")
    code = replaced(code, "sums[s * hs + c] * expf(top[s]", "sums[(base + s) * hs + c] * expf(top[base + s]")
    calls = "size_t base = (size_t)row * parts;\n    highest = top_of(top + base, parts);"
    return replaced(code, "for (int s = 0; s < parts; s++) highest = fmaxf(highest, top[s]);", calls)


@wrong(
    "flash_forward", says="for just those queries whose block goes on to a tile in which they see no key, the first of"
)
def flash_with_the_maximum_of_each_tile(code):
    return replaced(code, "fmaxf(top, warp_max(score))", "warp_max(score)")


@wrong("flash_forward", says="Later keys count neither in the largest score nor in a sum.")
def flash_that_masks_after_the_maximum(code):
    code = replaced(
        code, "score = k0 + lane <= t ? score * rsqrtf((float)HS) : -3.4e38f;", "score *= rsqrtf((float)HS);"
    )
    return replaced(code, "p = expf(score - higher);", "p = k0 + lane <= t ? expf(score - higher) : 0.0f;")


@wrong(
    "fewest_requests", says="but not if they fall by 100 from one to the next. Is the largest one that of all so far"
)
def fewest_requests_with_the_last_score_as_maximum(code):
    return replaced(code, "higher = fmaxf(top, score)", "higher = score")


@wrong("fewest_requests", says="1 block reads 2,048 sectors from global memory, where 768 are enough")
def fewest_requests_without_tiles(code):
    key, value = "((const float4*)k)[(k0 + i) * 8 + c]", "((const float4*)v)[(k0 + i) * 8 + c]"
    code = replaced(code, "b = keys[i * 8 + c];", f"b = {key};", "b = values[i * 8 + c];", f"b = {value};")
    loop = code[code.index("        for (int i = threadIdx.x;") : code.index("        for (int i = 0; i < 32 && k0")]
    return replaced(code, loop, "")


@wrong("flash_forward", says="and the `if` on line 32 keeps some threads away: end the `if` before it.")
def flash_whose_queries_alone_meet(code):
    tile, turn = (text.split("// ### END")[0].split("\n", 1)[1] for text in code.split("// ### BEGIN SOLUTION")[1:])
    meet = "            __syncthreads();\n        }\n"
    return holes(code, tile.replace(BEFORE, "").rstrip(), f"        if (t < T) {{\n{turn.rstrip()}\n{meet}")


@wrong("fewest_requests", says="stats equals top · log2(e) plus the logarithm of the sum")
def requests_with_powers_of_2_and_a_natural_logarithm(code):
    code = replaced(code, "scale = rsqrtf((float)HS)", "scale = rsqrtf((float)HS) * 1.4426950408889634f")
    return replaced(code, "old = expf(top - higher), p = expf(", "old = exp2f(top - higher), p = exp2f(")


@wrong("fewest_requests", says="`expf(top - fmaxf(top, score))` is always 1, because line 35 has made the two the same")
def requests_whose_top_is_set_too_early(code):
    step = "float higher = fmaxf(top, score), old = expf(top - higher), p = expf(score - higher);"
    early = "top = fmaxf(top, score);\n            float old = expf(top - fmaxf(top, score)), p = expf(score - top);"
    return replaced(code, step, early, "            top = higher;\n", "")


@wrong("merge_parts", says="with a total that is not multiplied by exp(old - new) when the highest grows")
def merge_in_one_loop_for_total_and_highest(code):
    return replaced(
        code,
        "    for (int s = 0; s < parts; s++) highest = fmaxf(highest, top[s]);\n"
        "    for (int s = 0; s < parts; s++) whole += total[s] * expf(top[s] - highest);\n",
        "    for (int s = 0; s < parts; s++) {\n        highest = fmaxf(highest, top[s]);\n"
        "        whole += total[s] * expf(top[s] - highest);\n    }\n",
    )


@wrong("merge_parts", says="are finite, and there are")
def merged_by_the_highest_of_each_lane(code):
    return replaced(code, HIGHEST, HIGHEST.replace("s = 0", "s = lane").replace("s++", "s += 32"))


@wrong("merge_parts", says="divided by a total that each channel of a lane has added to, never set back to 0")
def parts_whose_total_goes_on(code):
    apart = "    for (int s = 0; s < parts; s++) whole += total[s] * expf(top[s] - highest);\n"
    start = "float sum = 0.0f;"
    return replaced(code, apart, "", start, f"{start}\n    {apart}")


@wrong("fewest_requests", says="top of the unscaled products plus the logarithm of the sum")
def requests_with_an_unscaled_top(code):
    return replaced(
        code,
        "score *= scale;",
        "",
        "old = expf(top - higher), p = expf(score - higher)",
        "old = expf((top - higher) * scale), p = expf((score - higher) * scale)",
    )


@wrong("attention_dq", says="p * (dp - product) * scale * key")
def dq_with_a_sum_of_lane_0(code):
    product = "float D = warp_sum(d * out[row * HS + lane]);"
    later = "if (lane == 0) delta[row] = D;"
    return replaced(
        code,
        product,
        f"float product = {product.removeprefix('float D = ')}\n    float D = 0.0f;\n"
        "    if (lane == 0) {\n        D = product;\n        delta[row] = D;\n    }",
        later,
        "",
    )


@wrong("attention_dkdv", says="and so it has if all scores are 0")
def dkdv_divided_by_the_later_queries(code):
    return replaced(code, "dv[row * HS + lane] = dvalue;", "dv[row * HS + lane] = dvalue / (T - 1 - i);")


@wrong("fewest_requests", says="480 sectors of v are read, and 256 in our solution.\nline")
def tile_copied_twice_over(code):
    return replaced(
        code, "for (int i = threadIdx.x; i < 32 * 8; i += 64) {", "for (int i = threadIdx.x; i < 32 * 8; i += 32) {"
    )


@wrong("flash_forward", says="Shared memory is written with 10,944 requests of a warp, and with 384 in our solution.")
def tile_copied_by_all_warps_in_steps_of_their_number(code):
    return replaced(
        code,
        "for (int i = threadIdx.x; i < 32 * HS; i += blockDim.x) {",
        "for (int i = threadIdx.x; i < 32 * HS; i += warps) {",
    )
