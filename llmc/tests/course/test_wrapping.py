"""One sentence a line: what is split, and what is left alone."""

import pytest

from llmc.course.authoring.wrapping import sentences, wrap


@pytest.mark.parametrize(
    "text, expected",
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Call `a. B` or [x. Y](z. A) or $a. B$. End.", ["Call `a. B` or [x. Y](z. A) or $a. B$.", "End."]),
        ("E.g. this one, i.e. All of it.", ["E.g. this one, i.e. All of it."]),
        (
            "Tokens 8 … 12 are whole. (So there.) *Really.* Yes",
            ["Tokens 8 … 12 are whole.", "(So there.)", "*Really.*", "Yes"],
        ),
        (
            "Guess. 1. What is it? 2. Why?",
            ["Guess. 1. What is it? 2. Why?"],
        ),  # a line must not begin a list by accident
        ("version 3.11 is 0.5 wide", ["version 3.11 is 0.5 wide"]),
    ],
)
def test_sentences(text, expected):
    assert sentences(text) == expected


MARKDOWN = """# A title. With a full stop

One sentence that
runs on. Another.

- an item. With two
  sentences.
1. Numbered. Too

| a. B | c. D |
|---|---|

$$
a. B
$$

```python
x. Y
```

    llmc a. B
      c.   D

<pre>
a. B
c = 1       d
</pre>
<details><summary>A. B</summary>
</details>"""

WRAPPED = """# A title. With a full stop

One sentence that runs on.
Another.

- an item.
  With two sentences.
1. Numbered.
   Too

| a. B | c. D |
|---|---|

$$
a. B
$$

```python
x. Y
```

    llmc a. B
      c.   D

<pre>
a. B
c = 1       d
</pre>
<details><summary>A. B</summary>
</details>"""


def test_only_prose_is_wrapped():
    assert wrap(MARKDOWN) == WRAPPED
    assert wrap(WRAPPED) == WRAPPED
