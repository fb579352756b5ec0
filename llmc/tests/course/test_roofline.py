"""The roofline of kernels: every row is a point, none above the roof by more than the roof was measured."""

import json

import numpy as np
import pytest

from llmc.course.figures import roofline
from llmc.errors import UserError

BOUNDS = {"copy_gb_s": 4000.0, "sgemm_tflop_s": 50.0, "device": "NVIDIA H200"}
ROWS = [
    {"kernel": "gelu_forward_v1", "bytes": 800, "flops": 900, "tflop_s": 2.0, **BOUNDS},
    {"kernel": "gelu_forward_v2", "bytes": 800, "flops": 900, "tflop_s": 4.0, **BOUNDS},
    {"kernel": "matmul_forward_library", "bytes": 10, "flops": 5000, "tflop_s": 45.0, **BOUNDS},
]


@pytest.fixture
def axes():
    plt = pytest.importorskip("matplotlib.pyplot")
    yield plt.subplots()[1]
    plt.close("all")


def test_every_row_is_a_point_and_the_roof_has_its_corner(axes):
    assert roofline.draw(ROWS, axes) is axes
    points = np.concatenate([collection.get_offsets() for collection in axes.collections])  # (rows, 2)
    assert np.allclose(points, [(1.125, 2), (1.125, 4), (500, 45)])
    assert axes.get_legend_handles_labels()[1] == ["gelu_forward", "matmul_forward"]
    I, roof = max((line.get_data() for line in axes.lines), key=lambda xy: len(xy[0]))  # (200,) both
    assert np.allclose(roof, np.minimum(50, 4 * I)) and I[0] < 1.125 and I[-1] > 500


def test_versions_are_named_while_there_is_room(axes):
    roofline.draw(ROWS, axes)
    assert {"v1", "v2", "library"} <= {text.get_text() for text in axes.texts}


def test_stored_rows_are_chosen_by_function(tmp_path):
    with pytest.raises(UserError, match="llmc bench --kernels --json"):
        roofline.stored(tmp_path / "none.json")
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    assert roofline.stored(tmp_path / "rows.json") == ROWS
    assert roofline.stored(tmp_path / "rows.json", ["gelu_forward"]) == ROWS[:2]
