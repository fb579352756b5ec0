"""wgmma in its forms, against NumPy: shapes, types, layouts in shared memory, A from registers, signs."""

import numpy as np
import pytest

from llmc.tests.emulator.wgmma import Form, module, result

pytestmark = pytest.mark.usefixtures("emulator")

FORMS = (
    *(Form(n=n) for n in (8, 24, 256)),
    *(Form(swizzle=swizzle) for swizzle in (0, 32, 64)),
    *(Form(n=16, type="f16", sum=sums) for sums in ("f32", "f16")),
    *(Form(n=40, type="tf32", swizzle=swizzle) for swizzle in (0, 128)),
    *(Form(n=128, m_major=True, n_major=True, swizzle=swizzle) for swizzle in (0, 32, 64, 128)),
    Form(n=72, m_major=True),
    Form(n=192, n_major=True, type="f16"),
    *(Form(n=32, from_registers=True, type=type) for type in ("bf16", "f16", "tf32")),
    Form(n=64, from_registers=True, n_major=True),
    Form(adds=False, minus_a=True),
    Form(minus_a=True, minus_b=True),
    Form(minus_b=True, type="tf32"),
)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_product(form):
    got, expected = result(form, module(FORMS, True).get_function(form.name))
    np.testing.assert_array_equal(got, expected)


def test_product_without_checks():
    form = FORMS[1]
    np.testing.assert_array_equal(*result(form, module((form,), False).get_function(form.name)))
