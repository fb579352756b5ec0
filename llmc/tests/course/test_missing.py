"""What is put into a learner's function: words, and the text that the function then has."""

import ast

import pytest

from llmc.course.old.mutants import missing, moved
from llmc.course.old.mutants.search import changes_of_theirs

CASES = [  # text, what one of the changed texts must have
    ("return x / x.sum()", "return x / x.sum(axis=-1, keepdims=True)"),
    ("return np.zeros(3)", "return np.zeros(3, dtype=x.dtype)"),
    ("return (x + 0.1 * x) ** 3", "return x + 0.1 * x ** 3"),
    ("return np.sqrt(x) + y", "return np.sqrt(x + y)"),
    ("return 1 - x", "return 1 - x ** y"),
    ("return x.reshape(2, 3)", "return x.reshape(3, 2).swapaxes(0, 1)"),
    ("return x[-y:]", "return x[:y]"),
    ("return x // y", "return -(-x // y)"),
    ("return np.isinf(x).any()", "return (~np.isfinite(x)).any()"),
    ("return x.decode('latin-1')", "return x.decode('latin-1', errors='replace')"),
    ("return x + y * x", "return y + x * y"),
    ("x[0] = 1\nreturn x", "x = x.copy()\n    x[0] = 1"),
    ("x = x + y\nreturn 0", "x[...] = x + y"),
    ("np.add(y, y, out=x)", "x += np.add(y, y)"),
    ("d = {}\nfor a in x:\n    d[a] = y", "d[a] = d.get(a, 0) + y"),
    ("for a in x:\n    if a:\n        return 1\n    else:\n        return 2", "return 1\n    return 2"),
    ("for a in x:\n    y[a] += 1", "for a in sorted(x, key=lambda a: y[a]):"),
    ("a = x\nb = a\nc = y * a\nreturn b + c", "c = y * a\n    a = x\n    b = a"),
    ("return x * 2 + y * 3", "return y * 2 + x * 3"),
    ("return np.tanh(x * x)", "return np.tanh(x) ** 2"),
    ("return x.max(axis=2)", "return x.max(axis=-1)"),
    ("x += y", "x[...] = y"),
    ("x = x + y", "x += y"),
    ("a = np.tanh(x)\nreturn a * x", "return a * np.tanh(x)"),
    ("if x:\n    a = 1\n    b = 2\nreturn y", "a = 1\n    b = 2\n    return y"),
]


@pytest.mark.parametrize("text, wanted", CASES, ids=[wanted.split("\n")[0] for _, wanted in CASES])
def test_what_is_missing_is_put_in_and_taken_out_again(text, wanted):
    tree = ast.parse("def answer(x, y):\n" + "".join(f"    {line}\n" for line in text.splitlines()))
    before = ast.unparse(tree)
    texts = []
    for words in changes_of_theirs(tree, None, (missing, moved)):
        texts.append(ast.unparse(tree))
        compile(tree, "<changed>", "exec")
        assert words and not words.endswith("in ")
    assert any(wanted in changed for changed in texts), "no change makes that"
    assert ast.unparse(tree) == before and before not in texts
