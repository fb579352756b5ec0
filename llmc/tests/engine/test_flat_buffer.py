"""FlatBuffer: views into one array, by name and by layer, allocated at the first use and only to grow."""

import numpy as np
import pytest

from llmc.backends import get_backend
from llmc.flat_buffer import FlatBuffer, Tensor, plan_table

TABLE = [Tensor("a", (2, 3), stacked=True), Tensor("b", (4,)), Tensor("c", (2, 1, 2), stacked=True)]


@pytest.fixture
def buffer():
    return FlatBuffer(get_backend("numpy"), np.float32, TABLE)


def test_views_lie_side_by_side_in_the_order_of_the_table(buffer):
    assert list(buffer) == ["a", "b", "c"] and len(buffer) == 3
    buffer.flat[...] = np.arange(14)
    assert buffer["a"].tolist() == [[0, 1, 2], [3, 4, 5]] and buffer["b"].tolist() == [6, 7, 8, 9]
    assert buffer["c"].tolist() == [[[10, 11]], [[12, 13]]]


def test_a_layer_has_its_part_of_what_is_stacked_and_all_of_the_rest(buffer):
    buffer.flat[...] = np.arange(14)
    layer = buffer.layer(1)
    assert {name: view.tolist() for name, view in layer.items()} == {"a": [3, 4, 5], "b": [6, 7, 8, 9], "c": [[12, 13]]}
    layer["b"][0] = 77
    assert buffer["b"][0] == buffer.layer(0)["b"][0] == 77


def test_memory_is_replaced_only_to_grow_and_views_follow_it(buffer):
    before, old = buffer.flat, buffer.layer(0)["a"]
    smaller = buffer.allocate([Tensor("a", (1, 2), stacked=True)])
    assert smaller is buffer and buffer.flat is before and buffer.layer(0)["a"].shape == (2,)
    with pytest.raises(KeyError):
        buffer["b"]
    buffer.allocate([*TABLE, Tensor("d", (1,))])
    assert buffer.flat is not before and buffer.flat.size == 15 and not np.shares_memory(buffer.layer(0)["a"], old)


def test_nothing_is_allocated_to_be_zeroed():
    buffer = FlatBuffer(None, np.float32, TABLE)  # no backend: an allocation would fail
    buffer.zero()
    assert "b" in list(buffer)


def test_the_plan_shows_equal_tables_once():
    big = [t._replace(shape=(*t.shape, 2**18)) for t in TABLE]  # a MiB for every number of TABLE
    buffers = [FlatBuffer(None, np.float32, table) for table in (big, big, big[:1])]  # no backend: none is allocated
    plan = plan_table(dict(zip(("one", "two", "three"), buffers)))
    assert plan.count("  b ") == 1 and plan.count("  a ") == 2 and "float" not in plan
    assert plan.splitlines()[-1].split() == ["total", "34.00", "MiB"]


def test_exact_tensors_have_memory_of_their_own_where_the_others_have_16_bits():
    table = [Tensor("a", (2, 3), stacked=True), Tensor("mean", (2, 5), True, "exact"), Tensor("b", (4,))]
    buffer = FlatBuffer(get_backend("numpy"), np.float16, table, {"exact": np.float32})
    assert buffer.nbytes == 2 * 10 + 4 * 10
    assert [flat.dtype for flat in buffer.flats] == [np.float16, np.float32] and buffer.flat is buffer.flats[0]
    buffer.flats[0][...], buffer.flats[1][...] = np.arange(10), np.arange(10)
    assert buffer["b"].tolist() == [6, 7, 8, 9] and buffer.layer(1)["mean"].tolist() == [5, 6, 7, 8, 9]
    assert [line.split()[-1] for line in plan_table({"both": buffer}).splitlines()[:3]] == [
        "float16",
        "0.00",
        "float32",
    ]
    buffer.zero()
    assert not buffer["a"].any() and not buffer["mean"].any()
    one = FlatBuffer(get_backend("numpy"), np.float32, table)  # nothing to keep apart
    assert len(one.flats) == 1 and one.flat.size == 20
