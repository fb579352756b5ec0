"""Lesson 16's exercises: what is right, what is tried, and which mistakes have a name."""

import re

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.lessons.attention_kernels import references as right
from llmc.kernels import ceil_div

NAIVE = "3.1 · v1: three naive kernels"
FLASH, REUSE = "3.6 · Flash attention: tiles of keys", "3.7 · The same number, used more often"
DERIVED, DELTA = "4.1 · Derived, one product at a time", "4.2 · D without the table"
OWNERS, SPLIT = "4.3 · Two kernels, so that every sum has one owner", "6.2 · Split over the keys, then merged"
SECTIONS = dict.fromkeys(("race", "barrier-divergence", "deadlock"), "7.2 · One barrier too few")
SECTIONS |= dict.fromkeys(("race in global memory", "rewrites"), OWNERS)
SECTIONS |= dict.fromkeys(("uninitialised", "sectors"), FLASH) | dict.fromkeys(("misaligned", "shared_requests"), REUSE)
SECTIONS["out-of-bounds"] = 'lesson 12, section "3 · Make it break: one too many"'
SECTIONS["bank_conflicts"] = 'lesson 13, section "3.3 · Shared memory has 32 doors"'
BLOCKS = 256, 96, 32  # threads
OF_LLMC = "0.78 and 1,040"  # requests a pair and sectors of attention_forward_v5, for a head of T = 64 and hs = 32

# ------------------------------------------------------------------------------------------------------- inputs


def scores(c):
    """grid, block, arguments: later keys have the largest scores; around 200, whose exp is infinite, and -30,000."""
    for heads, T, offset in [(2, 7, 0), (1, 1, 0), (2, 40, 0), (3, 33, 0), (1, 45, 200), (1, 45, -30_000)]:
        c.new(f"scores around {offset:,}" if offset else "")
        for threads in BLOCKS:
            x = np.float32(2) * c.random(heads, T, T) + np.float32(offset)  # (heads, T, T)
            t = np.arange(T)  # (T,)
            x[:, t, np.where(t % 2, 29 * t % (t + 1), t)] += max(offset, 0)  # one key lies far above the others
            x[:, t[:, None] < t] += 500  # later keys: a kernel that reads them sees nothing else
            outputs = c.output(heads, T, T), c.output(heads, T)  # p, stats
            yield ceil_div(heads * T, threads // 32), threads, (*outputs, x, heads, T)


def parts_of_keys(c):
    """grid, block, arguments: parts without keys; scores that rise or fall by 150 from key to key."""
    sizes = [(3, 16, (5, 7), 0), (9, 48, (4, 1, 3), 0), (5, 7, (9,), 0), (6, 33, (6, 0, 5, 0, 2), 0)]
    for rows, hs, parts, far in [*sizes, (4, 20, (3, 4, 5), 150), (4, 20, (5, 4, 3), -150)]:
        far_apart = "parts whose tops are hundreds apart" if far else ""
        c.new("parts without keys: top is -3.4e38, total and sums are 0" if 0 in parts else far_apart)
        for threads in BLOCKS:
            rising = (far * np.arange(sum(parts)) - abs(far)).astype(np.float32)  # (keys,)   from key to key
            x, values = c.random(rows, sum(parts)) + rising, c.random(rows, sum(parts), hs)
            arguments = c.output(rows, hs), c.output(rows), *right.parted(x, values, parts), rows, len(parts), hs
            yield ceil_div(rows, threads // 32), threads, arguments


def heads_of_32(c, sizes, blocks=BLOCKS):
    """grid, block, arguments of a flash forward; a block has as many queries as warps, or 64 where blocks is (64,)."""
    for heads, T, kind in sizes:
        c.new({"large": "scores in the hundreds", "low": "scores around -30,000"}.get(kind, ""))
        q, k = np.float32(2 if kind else 0.2) * c.random(2, heads, T, 32)  # (heads, T, 32)
        if blocks == BLOCKS:
            q[..., 0], k[:, 32:33, 0] = 2, 8  # the second tile has the largest score
        if kind == "low":  # equal, or far apart: float32 has steps of 0.002 there
            steps = np.arange(heads * T).reshape(heads, T, 1) * 7 % 11  # (heads, T, 1)
            q, k = np.full_like(q, 64), np.full_like(k, -83) + steps.astype(np.float32) * 5 / 16  # (heads, T, 32)
        v = c.random(heads, T, 32)  # (heads, T, 32)
        for threads in blocks:
            queries = threads if blocks == (64,) else threads // 32
            outputs = c.output(heads, T, 32), c.output(heads, T)  # out, stats
            yield heads * ceil_div(T, queries), threads, (*outputs, q, k, v, T)


def gradients(c, of_keys):
    """grid, block, arguments: scores that are small, larger, and around 100, whose exp is infinite."""
    for heads, T, scale in [(2, 5, 0.2), (3, 11, 0.2), (1, 37, 0.2), (1, 1, 0.2), (1, 12, 0.6), (1, 9, 0.2)]:
        c.new("scores around 100" if T == 9 else "")
        for threads in BLOCKS:
            q, k, v, dout = c.random(4, heads, T, 32)  # (heads, T, 32) each
            q, k = np.float32(scale) * q, np.float32(scale) * k
            if T == 9:
                q[..., 0], k[..., 0] = 1000, 0.6
            out, stats, delta = right.single(*right.forward(q, k, v), right.backward(q, k, v, dout)["delta"])
            outputs = c.output(heads, T, 32), c.output(*((heads, T, 32) if of_keys else (heads, T)))
            given = (dout, stats, delta) if of_keys else (dout, out, stats)
            yield ceil_div(heads * T, threads // 32), threads, (*outputs, *given, q, k, v, heads, T)


# ------------------------------------------------------------------------------------- what is right, and what is not


def arriving(*names):
    """A reference: these gradients, float32, of the arguments of exercises 4 and 5."""
    return lambda *given: right.single(*map(right.backward(*given[5:8], given[2]).get, names))


def no_shuffles(tried):
    """A sentence about source that moves numbers from lane to lane: the emulator counts no shuffles."""
    code = re.sub(r"//.*|/\*(?:.|\n)*?\*/", "", tried.check.report.raw.code)
    told = "a shuffle serves 32 lanes, as a request to shared memory does, but it is not counted here"
    return f"{told}: find a way without `__shfl`" if "shfl" in code else None


def some_finite(tried):
    """A sentence where an output has no finite number by which mistakes could be told apart."""
    lost = [name for name, array in tried.got.items() if not np.isfinite(array).any()]
    why = "exp overflows above 88.7, it vanishes below -103.9, and 0 / 0 is NaN; what is the largest that it gets?"
    return f"no number of {lost[0]} is finite: {why}" if lost else None


# ---------------------------------------------------------------------------------------------------- exercises

FORWARD = dict(
    reference=lambda out, stats, q, k, v, T: right.single(*right.forward(q, k, v)),
    writes="out stats",
    rtol={"out": 1e-3},
)

Exercise(
    "masked_softmax",
    "16",
    reference=lambda p, stats, scores, heads, T: right.single(*right.probabilities(scores)),
    writes="p stats",
    cases=scores,
    rtol={"p": 1e-3},
    rules=(some_finite,),
    look=SECTIONS | {"": NAIVE, "never-written": NAIVE, "rewrites": NAIVE},
    mistakes=r"""
        of a query that sees one key too many: query t sees the keys 0 to t | row % T + 1 => min(row % T + 2, T)
        of a query that sees all T keys: query t sees the keys 0 to t | row % T + 1 => T
        of heads that do not begin again: t is the row % T, and query 0 of each head sees one key
            | row % T + 1 => min(row + 1, T)
        of a query t = row / heads: it is row % T | row % T + 1 => min(row / heads + 1, T)
        [7.1 · A mask that leaks] with a mask of -10,000, which leaks where all scores of a query are lower
            | int n = row % T + 1 => int seen = row % T + 1, n = T
            ;; fmaxf(top, scores[i]) => fmaxf(top, i < seen ? scores[i] : -1e4f)
            ;; total += expf(scores[i] - top) => total += expf((i < seen ? scores[i] : -1e4f) - top)
            ;; expf(scores[i] - top) / total => expf((i < seen ? scores[i] : -1e4f) - top) / total
        with totals that are relative to each lane's own maximum
            | top = warp_max(top); => ;; total = warp_sum(total); => total = warp_sum(total); top = warp_max(top);
        = the logarithm of the sum of exp(score) over lane 0's own keys (0, 32, …) | float top => float own, top
            ;; total = warp_sum(total) => own = total, total = warp_sum(total) ;; logf(total) => logf(own)
        with the largest score of all T keys: later ones do not count
            | (int i = lane; i < n; i += 32) top => (int i = lane; i < T; i += 32) top
    """,
)

Exercise(
    "merge_parts",
    "16",
    reference=lambda out, stats, top, total, sums, rows, parts, hs: right.single(*right.merged(top, total, sums)),
    writes="out stats",
    cases=parts_of_keys,
    rules=(some_finite,),
    look=SECTIONS | {"": SPLIT},
    mistakes=r"""
        with sums and totals as they are: each part must be multiplied by exp(its top - highest)
            | total[s] * expf(top[s] - highest) => total[s]
            ;; sums[s * hs + c] * expf(top[s] - highest) => sums[s * hs + c]
        with sums[c * parts + s]: channels are the last axis, so it is sums[s * hs + c] | s * hs + c => c * parts + s
        with a total of the lane's own parts, from s = lane on: every lane needs the total of all
            | for (int s = 0; s < parts; s++) whole => for (int s = lane; s < parts; s += 32) whole
        with a highest top of the lane's own parts, from s = lane on: every lane needs that of all
            | for (int s = 0; s < parts; s++) highest => for (int s = lane; s < parts; s += 32) highest
        with the factor of part `lane` in every part, 0 where there is no such part
            | hs + c] * expf(top[s] - highest) => hs + c] * (lane < parts ? expf(top[lane] - highest) : 0.0f)
        with each part multiplied by its total, too: sums are not divided yet | hs + c] * => hs + c] * total[s] *
        = the mean of what the parts have found: a part with larger scores weighs more
            | hs + c] * expf(top[s] - highest) => hs + c] / total[s] ;; sum / whole => sum / parts
    """,
)

Exercise(
    "flash_forward",
    "16",
    **FORWARD,
    cases=lambda c: heads_of_32(c, [(1, 33, ""), (2, 5, ""), (1, 40, ""), (1, 40, "large"), (1, 40, "low")]),
    rules=(some_finite,),
    look=SECTIONS | {"": FLASH},
    mistakes=r"""
        [7.1 · A mask that leaks] with a mask of -10,000, which leaks where all scores of a query are lower
            | HS) : -3.4e38f => HS) : -1e4f
        with dot products divided by hs: the scale is 1/√hs | score * rsqrtf((float)HS) => score / HS
        with a total and a sum that do not shrink when a tile brings a larger score
            | old = expf(top - higher) => old = 1.0f
        with a sum of values that shrinks once for each key of a tile
            | sum *= old; => ;; sum += __shfl_sync(0xffffffff, p, i) => sum = sum * old + __shfl_sync(0xffffffff, p, i)
        with a total that counts each key 32 times: the lanes are added up at the end
            | total * old + p => total * old + warp_sum(p)
        with a largest score of each lane's own, where later keys count nothing
            | fmaxf(top, warp_max(score)) => fmaxf(top, score)
            ;; p = expf(score - higher) => p = score > -3e38f ? expf(score - higher) : 0.0f
        with each lane's own p: key i's is in lane i | __shfl_sync(0xffffffff, p, i) => p
        with each lane's own channel of q: channel c is in lane c | __shfl_sync(0xffffffff, mine, c) => mine
        with each tile of values turned: row i belongs to a key and the lane to a channel
            | values[i * 33 + lane] => values[lane * 33 + i]
        of queries that see what the first one of their block sees | + lane <= t ? => + lane <= first ?
        with dot products divided by √T: the scale is 1/√hs | rsqrtf((float)HS) => rsqrtf((float)T)
    """,
)

Exercise(
    "attention_dq",
    "16",
    reference=arriving("dq", "delta"),
    writes="dq delta",
    cases=lambda c: gradients(c, of_keys=False),
    rtol={"dq": 1e-3},
    atol=lambda *given: {"dq": 1e-3 if given[5].max() > 100 else 1e-4},  # scores around 100 have few digits
    rules=(some_finite,),
    look=SECTIONS | {"": DERIVED, "delta": DELTA, "race in global memory": DERIVED, "rewrites": DELTA},
    mistakes=r"""
        of a query that sees all T keys: query t sees the keys 0 to t | i <= t => i < T
        with exp(score) divided by stats, which are logarithms | * scale - stats[row]) => * scale) / stats[row]
        with q in place of dout in dp: it is dout · v | warp_sum(d * value) => warp_sum(query * value)
        with stats subtracted in each lane, before the lanes are added up
            | query * key) * scale - stats[row] => query * key * scale - stats[row])
        with p · dp - D: ds is p · (dp - D), in brackets | p * (dp - D) => (p * dp - D)
        with p · (1 - p) · dp, which leaves out what a score does to the other p of its row: ds is p · (dp - D)
            | p * (dp - D) => p * (1 - p) * dp
        with a D of the keys up to i: D is a sum over all keys, dout · out
            | float scale => float part = 0.0f, scale ;; sum += p * (dp - D) => part += p * dp, sum += p * (dp - part)
        with 32 · D: each lane subtracts D before the lanes are added up | (dp - D) => (dp - HS * D)
        with a D of lane 0 alone: the other lanes have a 0 | (dp - D) => (lane ? dp : dp - D)
        with ds times the values: dq is ds times the keys | scale * key; => scale * value;
        with ds times the query: dq is ds times the keys | scale * key; => scale * query;
        with the scale twice in the scores: q · k is multiplied by it once
            | query * key) * scale => query * key) * scale * scale
    """,
)

Exercise(
    "attention_dkdv",
    "16",
    reference=arriving("dv", "dk"),
    writes="dv dk",
    cases=lambda c: gradients(c, of_keys=True),
    rtol=1e-3,
    # scores around 100 have few digits, and a column of dk is as large as that of q
    atol=lambda *given: {"dk": 1e-3 * (1 + given[5].max(axis=1, keepdims=True)) if given[5].max() > 100 else 1e-4},
    rules=(some_finite,),
    look=SECTIONS | {"": OWNERS},
    mistakes=r"""
        of all queries: key i is seen by the queries i to T - 1 | int t = i; => int t = 0;
        with p · (1 - p) · dp, which leaves out what a score does to the other p of its row: ds is p · (dp - D)
            | p * (warp_sum(d * value) - delta[t]) => p * (1 - p) * warp_sum(d * value)
        with 32 · D: each lane subtracts D before the lanes are added up | - delta[t] => - HS * delta[t]
        = dk, and dk equals dv: they are exchanged
            | dk[row * HS + lane] = dkey => dk[row * HS + lane] = dvalue
            ;; dv[row * HS + lane] = dvalue => dv[row * HS + lane] = dkey
        of the queries 0 to i: key i is seen by the queries i to T - 1 | int t = i; t < T; => int t = 0; t <= i;
        with the stats of the key's own row: stats belong to the query | - stats[t] => - stats[i]
        with the delta of the key's own row: delta belongs to the query | - delta[t] => - delta[i]
        with dp = warp_sum(dout) * value: dp is the sum of dout · v over the lanes
            | warp_sum(d * value) => warp_sum(d) * value
        = ds times dout: dv is p times dout | dvalue += p * d => dvalue += ds * d
        = p times the values: dv is p times dout | dvalue += p * d => dvalue += p * value
        = ds times the keys: dk is ds times the queries | dkey += ds * query => dkey += ds * key
    """,
)

Exercise(
    "fewest_requests",
    "16",
    **FORWARD,
    cases=lambda c: heads_of_32(c, [(2, 7, ""), (1, 1, ""), (2, 40, ""), (1, 70, "large"), (1, 45, "low")], (64,)),
    rules=(no_shuffles, some_finite),
    look=SECTIONS | {"": FLASH},
    mistakes=r"""
        of a query that sees one key too many: query t sees the keys 0 to t | + i <= row => + i <= min(row + 1, T - 1)
        of queries that see the keys 0 to t - first | + i <= row => + i <= row - first
        with a sum of values that does not shrink when a key brings a larger score
            | s.x * old => s.x ;; s.y * old => s.y ;; s.z * old => s.z ;; s.w * old => s.w
        with a total and a sum that do not shrink when a key brings a larger score
            | old = expf(top - higher) => old = 1.0f
        with the last score in place of the largest one | fmaxf(top, score) => score
        of the first 32 keys alone | k0 < first + 64 && k0 < T => k0 < 32 && k0 < T
        with tiles of which some threads have not loaded their share: k0 <= row ends the loop earlier for them
            | k0 < first + 64 && k0 < T => k0 <= row
    """,
)
