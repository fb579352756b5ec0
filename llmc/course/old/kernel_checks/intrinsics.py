"""What a kernel finds without defining it, for all threads of a `masked` launch: coordinates, shuffles, functions."""

from typing import NamedTuple

import numpy as np

WARP = 32


class Turns(NamedTuple):
    """`range(start, stop, step)`, in which each thread has turns of its own."""

    start: object
    stop: object
    step: object = 1


class Halves(list):
    """The loop `gap = first; gap > end; gap /= 2`, the same in all threads."""

    def __init__(self, first, end):
        while first > end:
            self.append(first)
            first = first // 2 if first else end  # -1 is never reached: 0 is halved for ever


class Moments(NamedTuple):
    """What `struct Moments` is in lesson 13."""

    count: object
    mean: object
    squares: object


class X(NamedTuple):
    """threadIdx and its like; the kernels of the exercises have one axis."""

    x: object


def intrinsics(launch) -> dict:
    """{name: what it stands for}; launch: which has thread and block (threads, 1), blocks, threads, active."""
    return {
        "threadIdx": X(launch.thread),
        "blockIdx": X(launch.block),
        "blockDim": X(launch.threads),
        "gridDim": X(launch.blocks),
        "ALL": 0xFFFFFFFF,
        "Moments": Moments,
        "range": Turns,
        "halves": Halves,
        "slots": np.arange(4)[None],  # (1, 4)   .x, .y, .z and .w
        "outer": lambda x, y: (x[:, :, None] * y[:, None, :]).reshape(-1, x.shape[1] * y.shape[1]),  # (threads, 16)
        "row_of": lambda v, i: np.take_along_axis(v, 4 * i + np.arange(4), axis=1),  # (threads, 4)   of such a 4 x 4
        "pick": lambda v, j: np.take_along_axis(v, j, axis=1),  # (threads, 1)   of an array in registers
        "fetch": lambda *arguments: _fetched(launch, *arguments),
        "sum4": lambda v: v.sum(axis=1, keepdims=True),
        "expf": lambda v: _single(np.exp(v)),
        "logf": np.log,
        "powf": np.power,
        "isfinite": np.isfinite,
        "sqrtf": np.sqrt,
        "rsqrtf": lambda v: 1 / np.sqrt(v),
        "fmaxf": np.fmax,
        "fminf": np.fmin,
        "__shfl_xor_sync": lambda mask, v, gap: _shuffled(launch, v, lambda lane: lane ^ gap),
        "__shfl_down_sync": lambda mask, v, gap: _shuffled(launch, v, lambda lane: lane + gap),
        "__shfl_up_sync": lambda mask, v, gap: _shuffled(launch, v, lambda lane: lane - gap),
        "__shfl_sync": lambda mask, v, lane: _shuffled(launch, v, lambda mine: mine * 0 + lane % WARP),
    }


def _single(v):
    """v as a float holds it: inf where it is too large, and 0 where it is too small."""
    return np.asarray(v, np.float32).astype(np.float64)


def _shuffled(launch, v, source):
    """v (threads, 1) of the lane that `source` makes of each lane; its own if there is no such lane."""
    lane = launch.thread % WARP
    other = source(lane)
    other = np.where((other >= 0) & (other < WARP), other, lane)
    there = (np.arange(len(lane))[:, None] - lane + other)[:, 0]  # (threads,)
    if (launch.active & ~launch.active[there]).any():
        raise ValueError("a lane that takes no part")
    return (v + launch.zero)[there]


def _fetched(launch, tile, a, first, start, n, K, runs):
    """`fetch` of lesson 15: in every block, tile[k, i] = element (first + i, start + k), or 0. runs: a is (n, K)."""
    depth, width = tile.array.shape[1] // tile.width, tile.width
    first, start = ((x + launch.zero).reshape(launch.blocks, -1)[:, :1, None] for x in (first, start))  # (blocks, 1, 1)
    i, k = first + np.arange(width), start + np.arange(depth)[:, None]  # (blocks, 1, width), (blocks, depth, 1)
    inside, flat = (i < n) & (k < K), i * K + k if runs else k * n + i  # (blocks, depth, width)
    numbers = np.where(inside, a.array[np.where(inside, flat, 0)].astype(np.float64), 0.0)
    taking = launch.active.reshape(launch.blocks, -1).any(axis=1)  # (blocks,)
    tile.array[taking] = numbers.reshape(launch.blocks, -1)[taking]
