"""One sentence a line: what is split. That all else is left alone, test_house.py sees in every notebook."""

import pytest

from llmc.course.authoring.wrapping import sentences, wrap


@pytest.mark.parametrize(
    "text, expected",
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Call `a. B` or [x. Y](z. A) or $a. B$. End.", ["Call `a. B` or [x. Y](z. A) or $a. B$.", "End."]),
        ("E.g. this one, i.e. All of it.", ["E.g. this one, i.e. All of it."]),
        ("Tokens 8 … 12. (So there.) *Really.* Yes", ["Tokens 8 … 12.", "(So there.)", "*Really.*", "Yes"]),
        ("Guess. 1. What is it? 2. Why?", ["Guess. 1. What is it? 2. Why?"]),  # no line may begin a list by accident
        ("version 3.11 is 0.5 wide", ["version 3.11 is 0.5 wide"]),
    ],
)
def test_sentences(text, expected):
    assert sentences(text) == expected


@pytest.mark.parametrize(
    "text, wrapped",
    [
        ("One sentence that\nruns on. Another.", "One sentence that runs on.\nAnother."),
        (
            "- an item. With two\n  sentences.\n1. Numbered. Too",
            "- an item.\n  With two sentences.\n1. Numbered.\n   Too",
        ),
    ],
)
def test_prose_is_wrapped_and_stays_so(text, wrapped):
    assert wrap(text) == wrap(wrapped) == wrapped
