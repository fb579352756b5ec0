"""Answers to the exercises of lesson 16 as strangers write them, with words that wrong ones must get."""

import re

from llmc.course.authoring.answers import replaced, right, wrong

SOLUTION = re.compile(r"[ ]*// ### BEGIN SOLUTION.*?### END SOLUTION\n", re.DOTALL)


def holes(code, *texts):
    """The source with other text in place of each solution, one for each hole."""
    texts = iter(texts)
    return SOLUTION.sub(lambda _: next(texts), code)


SOFTMAX_WITH_INDICES_OF_ITS_OWN = """\
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
"""


@right("masked_softmax")
def softmax_with_indices_of_its_own(code):
    return holes(code, SOFTMAX_WITH_INDICES_OF_ITS_OWN)


WRITTEN = "for (int i = lane; i < T; i += 32) p[i] = i < n ? expf(scores[i] - top) / total : 0.0f;"
STATS = "if (lane == 0) stats[row] = top + logf(total);"


@right("masked_softmax")
def softmax_by_its_logarithm(code):
    by_log = "float lse = top + logf(total);\n    for (int i = lane; i < T; i += 32)"
    code = replaced(code, WRITTEN, f"{by_log} p[i] = i < n ? expf(scores[i] - lse) : 0.0f;")
    return replaced(code, STATS, "if (lane == 31) stats[row] = lse;")


@wrong("masked_softmax", says="never written. Nothing writes p[1]")
def softmax_without_zeros(code):
    return replaced(code, WRITTEN, "for (int i = lane; i < n; i += 32) p[i] = expf(scores[i] - top) / total;")


MOST = "top = fmaxf(top, scores[i]);"
ADDED = "for (int i = lane; i < n; i += 32) total += expf(scores[i] - top);"


@wrong("masked_softmax", says="5,175 requests of a warp go to global memory; the goal is at most 1,200")
def softmax_of_one_lane(code):
    code = replaced(code, f"int i = lane; i < n; i += 32) {MOST}", f"int i = 0; i < n && lane == 0; i++) {MOST}")
    code = replaced(code, ADDED, "for (int i = 0; i < n && lane == 0; i++) total += expf(scores[i] - top);")
    return replaced(code, "for (int i = lane; i < T; i += 32) p", "for (int i = 0; i < T && lane == 0; i++) p")


@wrong("masked_softmax", says="44 of 45 entries are infinite, the first at [0, 0]")
def softmax_with_a_lowest_score(code):
    masked = "fmaxf(top, i < n ? scores[i] : -12000.0f);"
    return replaced(
        code, f"for (int i = lane; i < n; i += 32) {MOST}", f"for (int i = lane; i < T; i += 32) top = {masked}"
    )


MERGED_ONLINE = """\
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
"""


@right("merge_parts")
def merged_online(code):
    return holes(code, MERGED_ONLINE)


MERGED_BY_LOGARITHMS = """\
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
"""


@right("merge_parts")
def merged_by_logarithms(code):
    return holes(code, MERGED_BY_LOGARITHMS)


SUM = "sum += sums[s * hs + c] * expf(top[s] - highest);"


@wrong("merge_parts", says="the mean of what the parts have found")
def merged_as_a_mean(code):
    return replaced(code, SUM, "sum += sums[s * hs + c] / total[s];", "sum / whole", "sum / parts")


WHOLE = "whole += total[s] * expf(top[s] - highest);"


@wrong("merge_parts", says="with a total of the lane's own parts, from s = lane on")
def merge_with_totals_of_single_lanes(code):
    return replaced(code, f"for (int s = 0; s < parts; s++) {WHOLE}", f"for (int s = lane; s < parts; s += 32) {WHOLE}")


@wrong("merge_parts", says="2,480 writes go to numbers that another thread has written already")
def merged_by_every_lane(code):
    return replaced(code, "for (int c = lane; c < hs; c += 32) {", "for (int c = 0; c < hs; c++) {")


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


MASK = "score = k0 + lane <= t ? score * rsqrtf((float)HS) : -3.4e38f;"


@right("flash_forward")
def flash_with_infinity(code):
    code = replaced(code, MASK, "score *= 0.17677669f;\n        if (k0 + lane > t) score = -INFINITY;")
    code = replaced(code, "keys[row * 33 + c] = k0", "keys[33 * row + c] = k0")
    return replaced(code, "        sum *= old;\n", "        sum = old * sum;\n")


@wrong("flash_forward", says="reads keys[1024], which nothing has written yet")
def flash_whose_rows_are_stored_without_a_gap(code):
    code = replaced(code, "keys[row * 33 + c] = k0", "keys[i] = k0")
    return replaced(code, "values[row * 33 + c] = k0", "values[i] = k0")


@wrong("flash_forward", says="11,112 sectors of 32 bytes are moved; the goal is at most 2,235")
def flash_of_warps_that_load_for_themselves(code):
    return replaced(code, "int i = threadIdx.x; i < 32 * HS; i += blockDim.x", "int i = lane; i < 32 * HS; i += 32")


STEP = "float higher = fmaxf(top, warp_max(score)), old = expf(top - higher), p = expf(score - higher);"


@wrong("flash_forward", says="with a total and a sum that do not shrink when a tile brings a larger score")
def flash_that_moves_top_too_early(code):
    early = "top = fmaxf(top, warp_max(score));\n        "
    return replaced(code, STEP, early + STEP.replace("fmaxf(top, warp_max(score))", "top"))


DQ_IN_TWO_SUMS = """\
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
"""


@right("attention_dq")
def dq_in_two_sums(code):
    return holes(code, DQ_IN_TWO_SUMS)


@right("attention_dq")
def dq_scaled_at_the_end(code):
    code = replaced(code, "(dp - D) * scale * key", "(dp - D) * key")
    return replaced(code, "dq[row * HS + lane] = sum;", "dq[row * HS + lane] = sum * scale;")


@wrong("attention_dq", says="lane that takes no part, line 4, called from line 23")
def dq_of_keys_shared_by_the_lanes(code):
    return replaced(code, "for (int i = 0; i <= t; i++)", "for (int i = lane; i <= t; i += 32)")


GROWS = "sum += p * (dp - D) * scale * key;"


@wrong("attention_dq", says="with a D of the keys up to i")
def dq_with_an_incomplete_D(code):
    code = replaced(code, "float D = warp_sum(d * out[row * HS + lane]);", "float D = 0.0f;")
    return replaced(code, GROWS, "D += p * dp;\n        " + GROWS)


@wrong("attention_dq", says="with a D of lane 0 alone: the other lanes have a 0")
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


DKDV_FROM_THE_LAST_QUERY = """\
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
"""


@right("attention_dkdv")
def dkdv_from_the_last_query(code):
    return holes(code, DKDV_FROM_THE_LAST_QUERY)


@right("attention_dkdv")
def dkdv_with_a_mask(code):
    code = replaced(code, "for (int t = i; t < T; t++) {", "for (int t = 0; t < T; t++) {")
    return replaced(
        code,
        "float p = expf(warp_sum(query * key) * scale - stats[t]);",
        "float s = warp_sum(query * key) * scale, p = t < i ? 0.0f : expf(s - stats[t]);",
    )


@wrong("attention_dkdv", says="no number of dv is finite: exp overflows above 88.7")
def dkdv_of_a_quotient_of_two_exponentials(code):
    return replaced(code, "* scale - stats[t])", "* scale) / expf(stats[t])")


@wrong("attention_dkdv", says="with p · (1 - p) · dp, which leaves out what a score does to the other p of its row")
def dkdv_with_the_derivative_of_a_sigmoid(code):
    return replaced(
        code,
        "float ds = p * (warp_sum(d * value) - delta[t]) * scale;",
        "float ds = p * (1 - p) * warp_sum(d * value) * scale;",
    )


@wrong("attention_dkdv", says="race in global memory, line 29")
def dkdv_of_head_0(code):
    return replaced(code, "dv[row * HS + lane] = dvalue;", "dv[i * HS + lane] = dvalue;")


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


@wrong("fewest_requests", says="find a way without `__shfl`")
def requests_replaced_by_shuffles(code):
    return replaced(code, "score *= scale;", "score = __shfl_sync(__activemask(), score, threadIdx.x % 32) * scale;")


@wrong("fewest_requests", says="with a total and a sum that do not shrink when a key brings a larger score")
def requests_whose_top_is_set_too_early(code):
    step = "float higher = fmaxf(top, score), old = expf(top - higher), p = expf(score - higher);"
    early = "top = fmaxf(top, score);\n            float old = expf(top - fmaxf(top, score)), p = expf(score - top);"
    return replaced(code, step, early, "            top = higher;\n", "")


@wrong("fewest_requests", says="2,568 sectors of 32 bytes are moved; the goal is at most 1,600")
def requests_to_global_memory(code):
    code = replaced(code, "b = keys[i * 8 + c]", "b = ((const float4*)k)[(k0 + i) * 8 + c]")
    return replaced(code, "b = values[i * 8 + c]", "b = ((const float4*)v)[(k0 + i) * 8 + c]")
