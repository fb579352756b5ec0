"""Answers to the exercises of lesson 13 as strangers write them, with words that wrong ones must get."""

from llmc.course.authoring.answers import replaced, right, wrong


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


@wrong("tree_sum", says="uninitialised, line 17. `partial[t] += partial[t + half];`")
def tree_with_holes_in_it(code):
    return replaced(code, "partial[t] = sum;", "if (t < C) partial[t] = sum;")


@wrong("tree_sum", says="right, but 210 extra passes are made for bank conflicts; the")
def tree_whose_gaps_grow(code):
    head = "for (int half = blockDim.x / 2; half > 0; half /= 2)"
    growing = "for (int gap = 1, at = 2 * t; gap < blockDim.x; gap *= 2, at *= 2)"
    code = replaced(code, head, growing, "if (t < half)", "if (at + gap < blockDim.x)")
    return replaced(code, "partial[t] += partial[t + half]", "partial[at] += partial[at + gap]")


GAPS = "for (int gap = 16; gap > 0; gap /= 2) "
TOP = "top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, gap));"
TOTAL = "total += __shfl_xor_sync(0xffffffff, total, gap);"
LEAVE = "if (row >= N) return;"


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


@wrong("warp_softmax", says="lane that takes no part, line 14. `for (int gap = 16; gap > 0;")
def warp_whose_lanes_leave_early(code):
    return replaced(code, LEAVE, "if (row >= N || lane >= C) return;")


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


@wrong("online_softmax", says="out is wrong. Your kernel passes this whole check without `top")
def online_pairs_with_the_top_overwritten(code):
    return pairs(code, "top = m;\n        total = total * expf(top - m) + s * expf(t - m);")


def pairs(code, merging):
    """The kernel that merges maximum and sum of two lanes at once, by `t` and `s` of the other and `m` of both."""
    loop = """
    for (int gap = 16; gap > 0; gap /= 2) {
        float t = __shfl_xor_sync(0xffffffff, top, gap), s = __shfl_xor_sync(0xffffffff, total, gap), m = fmaxf(t, top);
"""
    merged = code[code.index("    float of_row = warp_max(top);") : code.index("    top = of_row;\n")]
    return replaced(code, merged + "    top = of_row;\n", f"{loop}        {merging}\n        top = m;\n    }}\n")


@wrong("online_softmax", says="right, but 4,096 sectors of 32 bytes are moved; the goal is at")
def online_in_two_passes(code):
    merged = "    top = warp_max(top), total = 0.0f;\n"
    merged += "    for (int c = lane; c < C; c += 32) total += expf(x[c] - top);\n    total = warp_sum(total);\n"
    return holes(code, "        top = fmaxf(top, x[c]);\n", merged)


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


PLACE = "float4* mine = kept + threadIdx.x / 32 * quads;"


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


@wrong("fused_layernorm", says="out of bounds, line 21. `mine[i] = u;` writes shared memory,")
def fused_with_places_four_times_apart(code):
    return replaced(code, PLACE, "float4* mine = kept + threadIdx.x / 32 * C;")


@wrong("warp_softmax", says="race in global memory, line 20. In `for (int c = lane; c < C; c")
def softmax_with_rows_of_32(code):
    return replaced(code, "out += (size_t)row * C;", "out += (size_t)row * 32;")


@wrong("warp_softmax", says="right, but 12% of what global memory moves is used; the goal is")
def warp_whose_lanes_take_pieces(code):
    code = replaced(code, "int lane = threadIdx.x % 32;", "int lane = threadIdx.x % 32, each = (C + 31) / 32;")
    mine = "for (int c = lane * each; c < (lane + 1) * each && c < C; c++)"
    return code.replace("for (int c = lane; c < C; c += 32)", mine)


@wrong("welford_layernorm", says="mean equals the reference with n_b / n cut off to a whole")
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


@wrong("fused_layernorm", says="out equals the reference with one w and one b for each four")
def fused_with_one_scale_for_four_numbers(code):
    single, four = "float s = w[i], t = b[i];", ", ".join(f"(u.{k} - m) * r * s + t" for k in "xyzw")
    start, end = code.index("out4[i] = make_float4("), code.index("    if (lane == 0) {")
    code = f"{code[:start]}{single}\n        out4[i] = make_float4({four});\n    }}\n{code[end:]}"
    return replaced(
        code, "float4 u = mine[i], s = ((const float4*)w)[i], t = ((const float4*)b)[i];", "float4 u = mine[i];"
    )


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


@wrong("tree_sum", says="race within a warp, line 17. In `partial[warp] = mine;`, two")
def tree_whose_lanes_share_a_place(code):
    return tree_of_warps(code, "partial[warp] = mine;")


@wrong("welford_layernorm", says="mean is no number: `merge` must also work if one part is empty")
def welford_divides_by_a_alone(code):
    return replaced(
        code,
        "if (count == 0.0f) return a;\n    float share = b.count / count;",
        "if (b.count == 0.0f) return a;\n    float share = b.count / a.count;",
    )


@wrong("welford_layernorm", says="never written. Nothing writes mean[0] or 4 other elements of")
def mean_that_is_never_stored(code):
    return replaced(code, "if (lane == 0) mean[row] = m, rstd[row] = r;", "if (lane == 0) rstd[row] = r;")
