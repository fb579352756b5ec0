"""`glossary()`: what every symbol of the course means; `glossary("rstd")`: what one of them means. HTML or text.

The names are those of llm.c and of GPT-2's own code, wherever these have one.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from html import escape

from llmc.course.learner.refusal import Refusal


@dataclass(frozen=True)
class Symbol:
    """names: spellings of it, separated by ", ". where: lessons that introduce it."""

    names: str
    meaning: str
    shape: str = ""
    where: str = ""


TABLE = """
# Sizes
B | 4 to 64 | 00 | batch: the number of sequences that are computed together
T | up to 1024 | 00 | time: the number of tokens (positions) in each sequence, at most maxT
maxT | 1024 in GPT-2 | 02 | the longest sequence that the model has positions for: the rows of wpe
C | 768 in GPT-2 124M | 00 | channels: how many numbers represent one token (the width of the model)
V | 50257 in GPT-2 | 00 | vocabulary: the number of different tokens
Vp | 50304 in GPT-2 | 05 | V padded up to a multiple of 128; tokens V … Vp - 1 never occur
L | 12 in GPT-2 124M | 07 | layers: the number of transformer blocks, one after the other
d12, d6 |  | 07 | llm.c's names for sizes: 12 or 6 blocks, and C = 64 times as many; d12 is GPT-2 124M
NH | 12 in GPT-2 124M | 06 | the number of attention heads
hs | 64 in GPT-2 | 06 | head size, C / NH: the channels of one head
OC |  | 03 | output channels of a linear layer: the rows of its weight
N |  | 03 | a count: of positions (B·T) or of parameters, as the lesson says
# Indices
b, t, c |  | 01 | one sequence, one position, one channel: x[b, t, c]
l | 0 … L - 1 | 07 | one layer
h | 0 … NH - 1 | 06 | one head
i, j |  | 06 | two positions or channels of the same array; in attention, query i looks at key j
# Arrays of the forward pass
tokens, inputs | (B, T) | 00 | ids of the tokens, whole numbers 0 … V - 1
targets | (B, T) | 00 | the token that follows each token: what the model should predict
x | (B, T, C) | 01 | what goes into a layer
out | (B, T, C) | 01 | what comes out of a layer
encoded | (B, T, C) | 02 | token embedding plus position embedding: the input of the first block
residual | (B, T, C) | 04 | the stream that runs through all blocks; each block adds to it
block |  | 00 | attention and MLP, each behind a layernorm and added to the stream (also a group of threads)
MLP |  | 00 | multi-layer perceptron: two linear layers with GELU between them, for each token on its own
GELU | as x | 00 | x times a gate between 0 and 1: large numbers pass, negative ones shrink to almost 0
qkv | (B, T, 3C) | 06 | queries, keys and values of all heads, in this order
q, k, v | (B, NH, T, hs) | 06 | what a position looks for, what it offers, what it passes on
scores, preatt | (B, NH, T, T) | 06 | q · k / √hs, before the softmax; -inf where the key lies in the future
causal mask | (T, T) | 06 | keeps a position from looking at later ones: their scores become -inf before the softmax
probabilities, att | (B, NH, T, T) | 06 | softmax of the scores: how much each query takes from each key's value
stats | (B, NH, T) | 11 | ln Σ exp(scores) of each query, from which the probabilities can be recomputed
softmax | as its input | 00 | e to the power of each number, divided by the sum over the row: shares that add up to 1
logits | (B, T, Vp) | 05 | one number for each possible next token; softmax turns them into probabilities
probs, p | (B, T, V) | 05 | softmax of the logits: rows that add up to 1
lse, log-sum-exp | (B, T) | 05 | log Σ exp(logits), computed after subtracting the row's maximum
losses | (B, T) | 05 | -log p[target] of each position, in nats (1 nat = 1.4427 bits)
loss | one number | 00 | the mean of the losses; ln V for a model that knows nothing
# Layernorm
mean | (B, T) | 01 | mean of a row of C numbers
rstd | (B, T) | 01 | reciprocal standard deviation of a row: 1 / √(variance + eps)
norm | (B, T, C) | 01 | (x - mean) · rstd: the row with mean 0 and variance 1
eps, ε |  | 01 | a small number that prevents a division by 0: 1e-5 in layernorm, 1e-8 in AdamW
# Parameters (learned)
w, weight |  | 01 | a layer's weight: the scale (C,) in layernorm, (OC, C) in a linear layer, out = x @ w.T + b
b, bias | (C,) or (OC,) | 01 | what a layer adds (b is also the index of a sequence)
wte | (Vp, C) | 02 | weights of the token embedding, and also of the last linear layer (tied)
wpe | (maxT, C) | 02 | weights of the position embedding
ln1w, ln1b | (L, C) | 07 | layernorm before the attention
qkvw, qkvb | (L, 3C, C), (L, 3C) | 06 | the linear layer that makes q, k and v
attprojw, attprojb | (L, C, C), (L, C) | 07 | the linear layer after the attention
ln2w, ln2b | (L, C) | 07 | layernorm before the MLP
fcw, fcb | (L, 4C, C), (L, 4C) | 07 | the first linear layer of the MLP, C → 4C
fcprojw, fcprojb | (L, C, 4C), (L, C) | 07 | the second linear layer of the MLP, 4C → C
lnfw, lnfb | (C,) | 07 | the final layernorm
tied |  | 00 | one array in two places: wte looks up the tokens, and also makes the logits
# Gradients
dx, dw, db, dqkv, … |  | 01 | gradient of the loss with respect to x, w, b, qkv: d + name, same shape
dout | as out | 01 | gradient with respect to a layer's output: what arrives from the layer above
dnorm | (B, T, C) | 01 | gradient with respect to norm, dout · w
dlogits | (B, T, Vp) | 05 | gradient with respect to the logits, (p - onehot) / (B·T)
dloss | one number | 05 | the gradient that the backward pass begins with: 1, or 1/n with n accumulation steps
referee, central difference |  | 01 | (f(x + h) - f(x - h)) / 2h in float64: a slope found by trying, to check others
+= |  | 01 | accumulate: add to what a gradient buffer already holds, because a value was used more than once
# Training
lr | 3e-4 or so | 00 | learning rate: how far a step goes
AdamW |  | 09 | the update of this course: a step along m, divided by √v; weight decay is separate
m, v | as the parameter | 09 | AdamW's running means of the gradient and of its square (v also stands for the values)
g | as the parameter | 09 | the gradient (slopes) in one step
SGD |  | 09 | stochastic gradient descent: a step against the slope that a random batch gives
momentum |  | 09 | a step along the running mean m of the slopes
beta, β | 0.9 | 09 | the share of its old value that a running mean keeps in each step
beta1, beta2, β₁, β₂ | 0.9, 0.95 | 09 | how slowly m and v forget
t | 1, 2, 3, … | 09 | number of the optimizer step (t also stands for a position)
m̂, v̂, m_hat, v_hat, bias correction | as the parameter | 09 | m and v divided by 1 - beta^t: they start at 0
weight decay, weight_decay, wd, λ | 0.1 | 09 | matrices shrink by this share of the learning rate in each step
norm of the gradient | one number | 09 | the square root of the sum of all squared gradients; clipped to 1 before a step
max_norm, clipping | 1.0 | 09 | gradients with a larger norm are scaled down to this one
warmup | 700 steps | 09 | the first steps, in which the learning rate rises to its maximum
schedule |  | 09 | how the learning rate changes during a run: warmup, then cosine, linear, constant or wsd
wsd |  | 09 | warmup, stable, decay: a schedule that falls only in the last fifth of a run
final_fraction | 0 to 1 | 09 | the share of its maximum at which the learning rate ends
nats |  | 05 | the unit of a loss computed with the natural logarithm; 1 nat = 1.4427 bits
micro-batch | (B, T) | 10 | a part of a batch that goes forward and backward on its own; the gradients add up
step | one number | 10 | the number of steps so far; AdamW's t counts updates, which are fewer when steps are skipped
z, z-score | one number | 10 | how many standard deviations a loss or norm lies above the mean of the last 128
tel, trl | nats per token | 10 | in main.log: the loss on validation text, and the loss of a training step
bits per byte |  | 10 | the loss in bits, divided by the bytes of text per token: comparable between tokenizers
validation | nats per token | 10 | the loss on text that is set aside, never trained on
perplexity | one number | 05 | e to the power of the loss: as unsure as when choosing among that many tokens
checkpoint | files | 10 | all that a run needs to go on: weights, m, v, t, the step and its place in the text
HellaSwag |  | 24 | a text, four endings, one of them real: a model chooses the one that costs least
length-normalised |  | 24 | the cost of an ending per token, so that a long one has a chance
scaling law | E + A / N^a | 24 | how the loss falls with the number of weights, or of tokens
bootstrap |  | 24 | draw from the measurements with replacement, compute again, and see how much the result moves
tokens per weight | about 20 | 24 | what gives the lowest loss for a number of operations (Chinchilla)
FLOP |  | 03 | one floating-point addition or multiplication; a GFLOP/s is a billion of them a second
intensity, arithmetic intensity | FLOP/byte | 03 | operations for each byte that moves between memory and processor
roofline |  | 03 | the most FLOP/s at each intensity: memory limits the left part, arithmetic the right
BLAS, sgemm |  | 03 | the library that multiplies matrices; its function for float32
# Kernels
kernel, __global__ |  | 12 | a function that runs on the GPU, written for one thread and run by many
thread, threadIdx | x, y, z | 12 | one copy of a kernel; threadIdx is its number in its block
block, blockIdx, blockDim | up to 1024 threads | 12 | threads that run on one multiprocessor; its number; its size
grid, gridDim | blocks | 12 | all the blocks of one launch
launch |  | 12 | to start a kernel: kernel((blocks,), (threads,), (arguments…)); the call returns before the GPU is done
warp | 32 threads | 12 | threads of a block that usually execute the same instruction together
lane | 0 … 31 | 12 | a thread's place in its warp
__device__ |  | 12 | marks a function that kernels call
sector | 32 bytes | 12 | the piece in which memory moves: a warp pays for each sector that it touches
request | 1 per warp | 12 | one load or store of a warp: up to 32 addresses, handled together
coalesced |  | 12 | neighbouring threads touch neighbouring addresses: no more sectors than the bytes fill
stride |  | 12 | the distance between what neighbouring threads, or rounds of a loop, touch
multiprocessor | 132 in an H200 | 12 | a part of the GPU that runs blocks, with its own registers and shared memory
register |  | 12 | holds a variable of one thread; a multiprocessor's 65,536 are divided among its threads
cache, L2 |  | 12 | small, fast memory that keeps what was last read or written; a GPU's L2 has tens of megabytes
atomic, atomicAdd |  | 12 | reads, changes and writes one number without another thread getting in between
occupancy | a share | 12 | the warps that a multiprocessor holds, of the 64 that it has room for
emulator |  | 12 | runs kernels without a GPU, explains their mistakes and counts what they move; it knows no times
memory-bound |  | 12 | limited by the bytes that must move, not by arithmetic; compare it with a copy
row-major |  | 12 | last axis fastest: x[i, j] of a (rows, cols) array lies at i * cols + j
aligned | 4, 8, 16 bytes | 12 | at an address that is a multiple of the access's size
tail |  | 12 | the numbers left over when n is not a multiple of the four (or more) that a thread takes
float4 | 4 floats | 12 | four floats moved by one 128-bit access, at an address that is a multiple of 16
grid-stride loop |  | 12 | for (i = thread; i < n; i += threads): correct for every grid
reduction | n → 1 | 13 | many numbers in, one out: a sum, a maximum
shared memory, __shared__ | 48 KB | 13 | memory on the chip that all threads of a block see
dynamic shared memory | bytes | 13 | extern __shared__ float name[]: the launch sets its size (shared_mem=)
barrier, __syncthreads |  | 13 | each thread waits until its whole block has arrived; __syncwarp: until its warp has
bank | 32 | 13 | one of shared memory's 32 doors, number i behind door i % 32; two numbers behind one door conflict
pass |  | 13 | one trip of a warp to shared memory; a request with bank conflicts needs several
shuffle, __shfl_xor_sync |  | 13 | lanes exchange numbers, from register to register
race |  | 13 | two threads touch the same place, at least one writes, and nothing decides which comes first
online, online softmax |  | 13 | in one pass: each new number corrects the result so far
moments |  | 13 | count, mean and sum of (x - mean)²: what one must know about parts in order to merge them
fused |  | 14 | several steps in one kernel, so that what lies between them never goes through memory
partial sum |  | 14 | the sum of one thread's, warp's or block's share, which another step adds to the others
scratch memory |  | 14 | memory that a function needs only while it runs, such as partial sums
bucket |  | 14 | all positions that hold the same token, next to each other after sorting
tile, slice |  | 15 | the results of one block; the few k of its inputs that lie in shared memory at a time
cp.async, batch |  | 15 | a copy to shared memory in the background; those that a thread waits for together
cuBLAS |  | 15 | NVIDIA's library for matrix products
split-K, part |  | 15 | several blocks share a tile, each sums over its part of K, and another kernel adds
register tile |  | 15 | the results that one thread keeps in registers: each number it reads serves several
padding | a few numbers | 15 | unused places at the end of a row, which spread a column over several banks
swizzle | k ^ row | 15 | another order within each row of shared memory that avoids bank conflicts without padding
autotuning |  | 15 | to try every allowed size of tile on this machine and keep the fastest
TF32, tf32 | 10 bits of fraction | 16 | the format that tensor cores multiply float32 numbers in; they add up in float32
tensor core |  | 16 | the part of a multiprocessor that multiplies small matrices, all threads of a warp together
fragment |  | 19 | the part of a small matrix that one lane holds in its registers for a tensor core
ldmatrix |  | 19 | the instruction that loads four squares of 8 x 8 numbers from shared memory as fragments
stage, ring |  | 19 | one of several tiles that are filled ahead and used in turn; all of them, round and round
TMA, tensor map |  | 19 | Hopper's machine for copies, and the 128 bytes that describe a matrix to it
mbarrier |  | 19 | a word in shared memory that counts arrivals and bytes of copies, phase after phase
phase, parity | 0 or 1 | 19 | a phase ends when all that an mbarrier counts has arrived; the parities are 0, 1, 0, …
wgmma, warpgroup | 4 warps | 19 | Hopper's product, which reads shared memory itself, and the warps that ask for it
descriptor |  | 19 | 64 bits that tell wgmma where a tile lies in shared memory, and how
producer, consumer |  | 19 | threads that only ask for copies, and those that only use what has arrived
cluster |  | 19 | blocks that run at the same time and can reach into each other's shared memory
proxy |  | 19 | a path to shared memory: for ordinary loads and stores, or for TMA and wgmma; a fence lies between
flash attention |  | 16 | attention by tiles of keys and an online softmax, which never stores the scores
D | (B, NH, T) | 16 | the sum of dout · out over each head's channels: what a row's softmax needs in its backward pass
epilogue |  | 17 | what a matrix product does to its results before it stores them: add a bias, GELU, GELU'
arena |  | 17 | one allocation for many tensors; two that are never needed at the same time may share addresses
Hopper |  | 17 | NVIDIA's generation of the H100 and H200, after Ampere (A100), Turing and Volta
floor | ms, bytes | 17 | the least that a step can take: the bytes that must move, at the speed of a copy
event |  | 17 | a time stamp that the GPU writes when it gets there in its queue
CUDA graph |  | 17 | a recording of launches that is started by one call
# Number formats
sign, exponent, mantissa |  | 18 | the fields of a floating-point number: ± 1.mantissa · 2^(exponent - constant)
subnormal |  | 18 | a number with the smallest exponent and a 0 in front of the point: fewer digits, down to 0
eps of a format, u | 2^-7 in bf16 | 18 | the distance from 1 to the next number; rounding errs by half of it, u, at most
fp32 | 8 + 23 bits | 18 | 8 bits of exponent, 23 of mantissa: what NumPy calls float32
bf16 | 8 + 7 bits | 18 | the upper half of an fp32: its range, with two to three decimal digits
fp16 | 5 + 10 bits | 18 | finer steps than bf16, but with all its digits only from 0.00006 to 65504
fp8, e4m3, e5m2 | 8 bits | 18 | 4 bits of exponent and 3 of mantissa, up to 448; 5 and 2, up to 57344
tie |  | 18 | a number exactly halfway between two numbers of a format; it goes to the one whose last bit is 0
underflow, overflow |  | 18 | what is too small for a format becomes 0, what is too large becomes infinity
NaN |  | 18 | not a number: 0/0, inf - inf, and everything that is computed from it
Kahan's sum, Kahan |  | 18 | a sum with a second number: the excess of the last addition, which the next subtracts
loss scale, S | 2^16 or so | 18 | a factor on the loss, so that no gradient underflows in fp16; later divided out
stochastic rounding |  | 18 | up or down by chance, the nearer neighbour more often: right on average
master weights | as the weights | 18 | an fp32 copy of bf16 weights, which the update changes
mixed precision |  | 20 | 16 bits for what is multiplied, float32 for what is added up
recompute | 0 to 3 | 20 | what the backward pass makes again: nothing; GELU's outputs; layernorms' as well; only these
MFU | a share | 20 | the operations that a model needs over those that the device could do in the same time
amax | one number | 18 | the largest absolute value of a tensor
delayed scaling |  | 25 | a scale from the amax of earlier steps, since this step's is not known while it is computed
saturate |  | 25 | what is too large for a format becomes its largest number, in place of infinity or NaN
promotion | every 128 | 25 | a sum of few bits is added to a float32 and begins again, so that little is cut off
quantise |  | 18 | to round a tensor to few bits, with a scale
# Several processes
data parallel |  | 21 | the same weights on every rank, each with its own batches; the gradients are added up
all-reduce | (n,) | 21 | every rank has an array, and gets the sum of all of them
reduce-scatter, all-gather | (n / N,) | 21 | each rank gets one part of the sum; each rank gets the parts of all
latency, bandwidth | seconds, bytes/s | 21 | what even an empty message takes, and what each further byte adds
bucket |  | 21 | gradients of several tensors that travel as one message
overlap |  | 21 | gradients travel while the backward pass goes on with those of earlier layers
DDP |  | 21 | PyTorch's data parallel: buckets of gradients, all-reduced while the backward pass goes on
deadlock |  | 21 | everybody waits for somebody who is also waiting
ZeRO-1 |  | 21 | each rank keeps the moments and master weights of one part of every tensor, and updates that part
# Data
token, id | 0 … V - 1 | 08 | a string of bytes that occurs often, and its number; the model sees only the numbers
merge |  | 08 | two neighbouring tokens become one; a byte-pair encoding is a list of merges, in order
rank | whole number | 08 | a token's id: the lower, the earlier it is merged; a process's number
BPE |  | 08 | byte-pair encoding: tokens made by merging the most frequent pair of neighbours, again and again
EOT | V - 1 | 08 | end of text: the token before every document
unigram |  | 08 | the simplest model: how often each token occurs, whatever precedes it
bigram |  | 08 | a table of which token follows which, counted on the training text: a baseline for every run
world | whole number | 08 | the number of processes of a run; batch i of process number rank is the (i·world + rank)-th
ntok | whole number | 08 | the number of tokens in a file
shard |  | 08 | one of the token files of a large corpus
"""


def _parse(table) -> dict:
    """{room: [Symbol]} of lines "names | shape | lesson | meaning" below "# room"."""
    rooms = {}
    for line in table.strip().split("\n"):
        if line.startswith("# "):
            symbols = rooms[line[2:]] = []
        else:
            names, shape, where, meaning = (part.strip() for part in line.split("|"))
            symbols.append(Symbol(names, meaning, shape, where))
    return rooms


ROOMS = _parse(TABLE)


class Glossary:
    """What `glossary` returns: {room: symbols}."""

    def __init__(self, rooms):
        self.rooms = rooms

    def __str__(self):
        lines = []
        for room, symbols in self.rooms.items():
            lines += [room, *(_line(symbol) for symbol in symbols), ""]
        return "\n".join(lines[:-1])

    __repr__ = __str__

    def _repr_html_(self):
        rows = []
        for room, symbols in self.rooms.items():
            rows.append(f'<tr><th colspan="4" style="text-align:left">{escape(room)}</th></tr>')
            rows += [_row(symbol) for symbol in symbols]
        return f"<table>{''.join(rows)}</table>"


def glossary(name=None) -> Glossary:
    """All symbols, or those with one name. Raises Refusal, a UserError, for a name that the course does not use."""
    if name is None:
        return Glossary(ROOMS)
    found = {room: called for room in ROOMS if (called := [s for s in ROOMS[room] if name in s.names.split(", ")])}
    gradient = isinstance(name, str) and name[:1] == "d" and _names().get(name[1:])
    if not found and gradient:
        meaning = f"gradient of the loss with respect to {name[1:]}: {gradient.meaning}"
        found = {"Gradients": [Symbol(name, meaning, gradient.shape, gradient.where)]}
    if not found:
        spelled = {known.lower(): known for known in _names()}
        close = [spelled[known] for known in get_close_matches(str(name).lower(), spelled, n=3)]
        meant = f"did you mean {' or '.join(close)}?" if close else "glossary() shows them all."
        raise Refusal(f"{name!r} is not a symbol of the course; {meant}")
    return Glossary(found)


def _names() -> dict:
    """{spelling: Symbol}."""
    symbols = [symbol for room in ROOMS.values() for symbol in room]
    return {name: symbol for symbol in symbols for name in symbol.names.split(", ")}


def _line(symbol) -> str:
    """One line of text: "  rstd    (B, T)    reciprocal … [01]"."""
    where = f"  [lesson {symbol.where}]" if symbol.where else ""
    return f"  {symbol.names:<20} {symbol.shape:<20} {symbol.meaning}{where}"


def _row(symbol) -> str:
    """One row of the table, with names as code."""
    names = ", ".join(f"<code>{escape(name)}</code>" for name in symbol.names.split(", "))
    cells = (names, escape(symbol.meaning), escape(symbol.shape), f"lesson {symbol.where}" if symbol.where else "")
    return "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>"
