"""How each broken kernel is launched, so that its mistake happens: {file: {kernel: Launch}}."""

import ml_dtypes
import numpy as np

from llmc.cuda import empty, tensor_map
from llmc.tests.emulator.gallery import draw, integers, launch, zeros

I32, U32, U64, F64 = np.int32, np.uint32, np.uint64, np.float64
WILD = np.array([0xDEAD_BEEF_0000] * 2, U64)  # an address that belongs to nobody


def floats(n, *more):
    """out, x of n floats each, and what else the kernel takes."""
    return lambda: [zeros(n), draw(n), *more]


def ints(n, values, *more):
    return lambda: [zeros(n, dtype=I32), np.resize(np.array(values, I32), n), *more]


BOUNDS = {
    "missing_bounds_check": launch(2, 64, floats(100)),
    "missing_bounds_check_on_write": launch(2, 64, lambda: [zeros(100), np.float32(1.5)]),
    "less_or_equal": launch(2, 64, floats(100, 100)),
    "negative_index": launch(2, 64, floats(100, 100)),
    "last_neighbour": launch(2, 64, floats(100, 100)),
    "transposed_index": launch(1, (32, 8), floats(80, 4, 20)),
    "swapped_axes": launch(1, (20, 4), lambda: [zeros(80), 4, 20]),
    "strided_overrun": launch(1, 32, lambda: [zeros(102), 102]),
    "float4_past_the_end": launch(1, 32, floats(102, 102)),
    "float4_misaligned": launch(1, 8, floats(64)),
    "float4_on_odd_rows": launch(2, 1, floats(64, 7)),
    "floats_read_as_doubles": launch(1, 64, lambda: [zeros(64, dtype=F64), draw(64), 64]),
    "bytes_taken_for_elements": launch(1, 64, floats(64, 64)),
    "null_pointer": launch(2, 32, lambda: [zeros(64), zeros(2, dtype=U64)]),
    "wild_pointer": launch(2, 32, lambda: [zeros(64), WILD.copy()]),
    "static_shared_column": launch(1, (32, 32), floats(1024)),
    "shared_through_a_pointer": launch(1, 65, floats(65)),
    "dynamic_shared_too_small": launch(1, 64, floats(64), shared_mem=64 * 2),
    "local_array_index": launch(1, 32, floats(64, 4)),
    "constant_past_the_end": launch(1, 32, floats(64, 3)),
    "index_overflows_int": launch(1, 32, floats(64, 50000)),
    "block_size_assumed": launch(2, 512, floats(1024)),
    "atomic_out_of_bounds": launch(1, 32, lambda: [zeros(10, dtype=I32), np.arange(32, dtype=I32) % 11]),
}

RACES = {
    "missing_barrier_after_load": launch(1, 64, floats(64)),
    "fence_is_not_a_barrier": launch(1, 64, floats(64)),
    "missing_barrier_at_the_end_of_a_tile": launch(
        (2, 2), (8, 8), lambda: [zeros(16, 16), draw(16, 16), draw(16, 16), 16]
    ),
    "tree_without_barriers": launch(1, 128, lambda: [zeros(1), draw(128)]),
    "first_thread_reads_too_early": launch(1, 64, floats(64)),
    "different_values_to_one_place": launch(1, 64, lambda: [zeros(64, dtype=I32)]),
    "scan_in_place": launch(1, 64, lambda: [draw(64)]),
    "double_buffer_without_the_swap": launch(1, 64, lambda: [draw(64), 3]),
    "result_broadcast_too_early": launch(1, 64, floats(192, 3)),
    "histogram_across_blocks": launch(16, 32, ints(16, [1, 1, 2, 1])),
    "histogram_in_a_block": launch(1, 128, ints(128, [1, 1, 2, 1])),
    "counters_cleared_too_late": launch(1, 64, ints(64, [0, 1, 2, 3])),
    "sum_read_too_early": launch(1, 64, lambda: [zeros(1), draw(64)]),
    "sum_read_by_the_last_thread": launch(1, 64, lambda: [zeros(1), draw(64)]),
    "histogram_read_too_early": launch(1, 64, lambda: [zeros(4, dtype=I32), integers(4, 64)]),
    "maximum_used_too_early": launch(1, 64, lambda: [zeros(64), integers(100, 64)]),
    "place_read_before_it_is_taken": launch(
        1, 64, lambda: [zeros(64, dtype=I32), zeros(1, dtype=I32), integers(2, 64)]
    ),
    "total_read_in_the_same_launch": launch(4, 64, lambda: [zeros(4), zeros(1), draw(256)]),
    "total_cleared_in_the_same_launch": launch(4, 64, lambda: [zeros(1), draw(256)]),
    "total_scaled_by_the_last_thread": launch(4, 64, lambda: [zeros(1), draw(256), 256]),
    "counter_cleared_before_all_have_read_it": launch(1, 64, lambda: [zeros(64, dtype=I32), integers(4, 64)]),
    "flag_read_plainly": launch(1, 64, lambda: [zeros(1), zeros(1), zeros(1, dtype=I32)]),
    "merged_without_atomics": launch(4, 64, ints(256, [0, 1, 2, 3])),
    "sum_without_atomics": launch(1, 128, lambda: [zeros(1), draw(128)]),
    "bits_without_atomics": launch(2, 64, lambda: [zeros(2, dtype=U32), np.abs(draw(128)) + 1]),
    "last_block_without_an_atomic": launch(8, 32, lambda: [zeros(1), zeros(8), draw(8), zeros(1, dtype=I32)]),
    "last_block_flag_without_a_barrier": launch(2, 64, lambda: [zeros(64), draw(64), zeros(1, dtype=U32)]),
    "blocks_do_not_wait_for_each_other": launch(4, 32, floats(128)),
    "stencil_in_place": launch(4, 64, lambda: [draw(256), 256]),
    "grid_stride_without_the_grid": launch(4, 32, floats(256, 256)),
    "rows_that_overlap": launch(4, 1, floats(40, 10)),
}

BARRIERS = {
    "barrier_in_a_branch": launch(1, 64, floats(64)),
    "barrier_in_one_half_of_the_block": launch(1, 64, floats(64)),
    "barrier_in_a_loop": launch(1, 64, floats(64)),
    "barrier_counts_in_a_branch": launch(1, 64, lambda: [zeros(64, dtype=I32), draw(64)]),
    "barrier_of_one_too_many": launch(1, 64, floats(64)),
    "lock_never_released": launch(4, 32, lambda: [zeros(1, dtype=I32), zeros(1, dtype=I32)]),
    "flag_set_behind_a_barrier": launch(1, 32, lambda: [zeros(1, dtype=I32)]),
    "grid_barrier_of_one_too_many": launch(4, 32, lambda: [zeros(1, dtype=I32)]),
    "runs_forever": launch(1, 32, lambda: [zeros(32), np.float32(1)]),
    "binary_search_that_stands_still": launch(
        1, 32, lambda: [zeros(32, dtype=I32), np.arange(0, 64, 2, dtype=I32), 32]
    ),
    "recursion_without_an_end": launch(1, 32, lambda: [zeros(32, dtype=I32), zeros(1, dtype=I32)]),
    "local_array_too_large": launch(1, 32, floats(32, 1000)),
    "divides_by_zero": launch(1, 32, ints(32, [4, 3, 2, 1, 0])),
    "remainder_of_zero": launch(1, 32, ints(32, [1, 2], 0)),
    "asserts": launch(1, 32, floats(32)),
}

WARPS = {
    "shuffle_that_passes_something_else": launch(1, 32, floats(32)),
    "lane_0_works_on_what_others_still_write": launch(1, 32, lambda: [zeros(32, dtype=np.float16), draw(32)]),
    "full_mask_in_a_branch": launch(1, 32, floats(32)),
    "full_mask_after_leaving": launch(1, 32, floats(32)),
    "reads_a_lane_that_returned": launch(1, 64, floats(64, 40)),
    "reads_a_lane_outside_the_mask": launch(1, 32, floats(32)),
    "caller_outside_the_mask": launch(1, 32, floats(32)),
    "partial_warp_full_mask": launch(1, 24, floats(24)),
    "syncwarp_in_a_branch": launch(1, 32, floats(32)),
    "ballot_in_a_loop": launch(1, 32, ints(32, [3, 1, 4, 1, 5])),
    "different_functions_at_once": launch(1, 32, ints(32, [3, 1, 4, 1, 5])),
    "lockstep_assumed": launch(1, 32, lambda: [zeros(1), draw(64)]),
    "warp_transpose_without_syncwarp": launch(1, 32, floats(32)),
}

VALUES = {
    "shared_filled_in_part": launch(1, 64, lambda: [zeros(1), draw(64), 60]),
    "shared_counters_not_cleared": launch(1, 64, lambda: [zeros(8, dtype=I32), integers(8, 64)]),
    "dynamic_shared_not_filled": launch(1, 32, lambda: [zeros(32)], shared_mem=128),
    "halo_not_loaded": launch(1, 64, floats(64)),
    "adds_to_an_empty_output": launch(2, 64, lambda: [empty(100, np.float32), draw(100), 100]),
    "atomic_on_an_empty_output": launch(2, 64, lambda: [empty(1, np.float32), draw(100), 100]),
    "output_as_scratch": launch(1, 64, floats(64, 64), outputs=("out",)),
    "copy": launch(2, 32, floats(100, 100), outputs=("out",)),
    "tail_left_out": launch(1, 32, floats(103, 103), outputs=("out",)),
    "last_element_left_out": launch(2, 64, floats(100, 100), outputs=("out",)),
    "block_size_written_out": launch(4, 128, floats(1000, 1000), outputs=("out",)),
    "helper_without_a_return": launch(1, 64, floats(64)),
    "negative_values_forgotten": launch(2, 64, floats(100, 100), outputs=("out",)),
}

HALF, WORDS = draw(192).astype(np.float16), integers(99, 96, dtype=U32)
PTX = {
    **dict.fromkeys(("copy_without_a_wait", "copy_without_a_commit"), launch(1, 64, floats(64))),
    "waits_for_the_group_before": launch(1, 64, lambda: [zeros(64), draw(128)]),
    "copies_of_others_without_a_barrier": launch(1, 64, floats(64)),
    "next_copy_over_what_is_read": launch(1, 64, lambda: [zeros(128), draw(128)]),
    "copy_from_past_the_end": launch(1, 64, floats(64, 64)),
    "vector_copy_misaligned": launch(1, 3, floats(16)),
    "vector_load_past_the_end": launch(1, 32, floats(126)),
    "store_by_all_to_one_place": launch(1, 32, floats(32)),
    "rows_of_a_matrix_misaligned": launch(1, 32, lambda: [zeros(32, dtype=U32), HALF.copy()]),
    "matrix_read_too_early": launch(1, 32, lambda: [zeros(32, dtype=U32), HALF.copy()]),
    "product_by_half_of_the_warp": launch(1, 32, lambda: [zeros(32), WORDS.copy()]),
    "product_after_some_left": launch(1, 32, lambda: [zeros(32), WORDS.copy(), 31]),
    "product_by_24_threads": launch(1, 24, lambda: [zeros(32), WORDS.copy()]),
    "two_products_at_once": launch(1, 32, lambda: [zeros(32), WORDS.copy()]),
    "numbered_barrier_of_too_few": launch(1, 64, floats(64)),
}

BF16 = ml_dtypes.bfloat16


def tiles(n=256, *, wide=True):
    """out, and the maps of A (64, 128) and, unless `wide` is False, of B (8, 128): tiles of 64 along k."""

    def make():
        a, b = draw(64, 128).astype(BF16), draw(8, 128, seed=1).astype(BF16)
        maps = [tensor_map(a, (64, 64), 128), tensor_map(b, (8, 64), 128)]
        return [zeros(n), *maps[: 1 + wide]]

    return make


def only_out(n=256):
    return lambda: [zeros(n)]


ONE_TILE, TWO_TILES = tiles(wide=False), tiles(1024)
HOPPER = {
    "tile_read_without_a_wait": launch(1, 128, ONE_TILE),
    "only_the_first_thread_waits": launch(1, 128, ONE_TILE),
    "same_parity_in_every_round": launch(1, 128, ONE_TILE),
    "product_of_what_has_not_arrived": launch(1, 128, TWO_TILES),
    "next_tile_over_what_is_read": launch(1, 128, ONE_TILE),
    "stage_given_back_before_the_product_is_done": launch(1, 256, TWO_TILES),
    "sums_read_too_early": launch(1, 128, TWO_TILES),
    "product_in_no_group": launch(1, 128, TWO_TILES),
    "one_group_too_many_left": launch(1, 128, TWO_TILES),
    "product_never_waited_for": launch(1, 128, TWO_TILES),
    "product_without_a_fence": launch(1, 128, TWO_TILES),
    "sums_cleared_without_a_fence": launch(1, 128, TWO_TILES),
    "product_of_ordinary_stores": launch(1, 128, lambda: [zeros(512), draw(4096).astype(BF16)]),
    "bulk_store_of_ordinary_stores": launch(1, 128, only_out()),
    "tile_overwritten_during_a_product": launch(1, 128, TWO_TILES),
    "overwritten_before_it_is_stored": launch(1, 128, only_out()),
    "store_never_waited_for": launch(1, 128, only_out()),
    "another_swizzle": launch(1, 128, TWO_TILES),
    "tile_misaligned": launch(1, 128, ONE_TILE),
    "expects_the_wrong_number_of_bytes": launch(1, 128, ONE_TILE),
    "fewer_arrivals_than_counted": launch(1, 128, only_out()),
    "parity_begins_with_1": launch(1, 128, only_out()),
    "more_arrivals_than_counted": launch(1, 128, only_out()),
    "barrier_not_initialised": launch(1, 128, only_out()),
    "barrier_used_too_early": launch(1, 128, only_out()),
    "barrier_written_over": launch(1, 34, only_out()),
    "product_by_three_warps": launch(1, 128, TWO_TILES),
    "product_by_warps_1_to_4": launch(1, 256, TWO_TILES),
    "product_by_two_warps": launch(1, 64, TWO_TILES),
}

BROKEN = {"bounds": BOUNDS, "races": RACES, "barriers": BARRIERS, "warps": WARPS, "values": VALUES, "ptx": PTX}
BROKEN["hopper"] = HOPPER
