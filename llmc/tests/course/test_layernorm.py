"""Lesson 01's references, against each other: nothing of llmc.backends is used in them."""

import numpy as np

from llmc.course import gradient_check
from llmc.course.figures.showing import use_style
from llmc.course.figures.style import SETTINGS
from llmc.course.lessons.layernorm import rows as lesson

RNG = np.random.default_rng(3)
X, W, B, DOUT = (RNG.normal(2, 1.5, shape) for shape in [(3, 5, 7), (7,), (7,), (3, 5, 7)])


def test_backward_is_the_derivative_of_forward_in_the_dtype_of_x():
    dx, dw, db = lesson.backward(DOUT, X, W)
    assert gradient_check(lambda x: lesson.forward(x, W, B).out, X, dx, DOUT, report=False) < 1e-8
    assert gradient_check(lambda w: lesson.forward(X, w, B).out, W, dw, DOUT, report=False) < 1e-8
    assert gradient_check(lambda b: lesson.forward(X, W, b).out, B, db, DOUT, report=False) < 1e-8
    x = X.astype(np.float32)
    assert {array.dtype for array in (*lesson.forward(x, W, B), *lesson.backward(DOUT, x, W))} == {x.dtype}


def test_style_is_white_and_quiet(recwarn):
    import matplotlib

    with matplotlib.rc_context():
        use_style()
        assert matplotlib.rcParams["figure.facecolor"] == SETTINGS["figure.facecolor"] == "white"
    assert not recwarn.list
