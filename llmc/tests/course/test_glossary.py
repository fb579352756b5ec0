"""The glossary: what a learner meets is in it, and it says what it does not know."""

import pytest

from llmc.config import preset
from llmc.course import glossary
from llmc.course.learner.glossary import ROOMS, _names
from llmc.errors import UserError


def test_every_parameter_and_symbol_is_in_it():
    symbols = "B T C NH hs V Vp L maxT qkv rstd dout logits losses".split()
    assert {*symbols, *(parameter.name for parameter in preset("tiny").parameter_table())} <= _names().keys()


def test_gradients_are_d_and_a_name():
    told = str(glossary("dwte"))
    assert "gradient of the loss with respect to wte" in told and "(Vp, C)" in told


def test_all_of_it():
    text, html = str(glossary()), glossary()._repr_html_()
    assert all(room in text for room in ROOMS) and html.count("<tr>") == html.count("</tr>") > 50
    assert "<code>NH</code>" in html


@pytest.mark.parametrize(
    ("name", "words"),
    [("rsdt", "did you mean rstd"), ("gelu", "did you mean GELU"), ("zebra", "glossary()"), (3, "not a")],
)
def test_unknown(name, words):
    with pytest.raises(UserError, match=words.replace("(", r"\(").replace(")", r"\)")) as caught:
        glossary(name)
    assert "\n" not in str(caught.value)
