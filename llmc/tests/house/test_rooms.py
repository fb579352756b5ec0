"""Arrows between rooms point one way. A room is a folder of the package; each module directly in llmc/ is one too.

Read from the source text, so that imports inside functions count too.
"""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LEVELS = [  # an arrow may point to the same line or to a lower one
    ["cli"],
    ["commands"],
    ["training", "bench", "parity"],
    ["checkpoints", "distributed", "hellaswag"],
    ["model", "blocks", "kv_cache", "sampling", "evaluation", "initialization", "peaks", "optimizer"],
    ["backends"],
    ["kernels", "cuda"],
]
OPEN = ("llmc.data",)  # what still has a circle to lose: it imports corpora/, a folder inside it that imports it
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}


def modules(root):
    """{name: path} of all modules of llmc but the tests."""
    found = {}
    for path in sorted((root / "llmc").rglob("*.py")):
        name = path.relative_to(root).with_suffix("").parts
        if name[1] != "tests":
            found[".".join(name[:-1] if name[-1] == "__init__" else name)] = path
    return found


def imported(name, path, known):
    """Names of the modules of llmc that this one imports, anywhere in its text."""
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            near = package[: len(package) + 1 - node.level] if node.level else []
            source = ".".join([*near, *([node.module] if node.module else [])])
            for alias in node.names:
                yield f"{source}.{alias.name}" if f"{source}.{alias.name}" in known else source


def arrows(root=ROOT):
    """{(module, module that it imports)} within llmc."""
    known = modules(root)
    pairs = ((name, other) for name, path in known.items() for other in imported(name, path, known))
    return {(name, other) for name, other in pairs if other.split(".")[0] == "llmc"}


def room(module, known):
    """The folder that a module is in; of one directly in llmc/ or llmc/course/, the module itself."""
    folder = module if known.get(module, Path()).stem == "__init__" else module.rpartition(".")[0]
    return module if folder in ("llmc", "llmc.course") else folder


def circle(root=ROOT, skip=()):
    """Rooms that import one another, as a list that ends where it began; None when there are none.

    skip: rooms whose own imports do not count.
    """
    known, graph = modules(root), {}
    for one, other in arrows(root):
        one, other = room(one, known), room(other, known)
        if one != other and one not in skip:
            graph.setdefault(one, set()).add(other)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]


def top(module):
    """ "training", of llmc.training.sweep.driver."""
    return module.split(".")[1] if "." in module else "llmc"


def wrong_arrows(root=ROOT):
    """Arrows that a room may not have, one line each."""
    return sorted(
        f"{one} imports {other}"
        for one, other in arrows(root)
        if top(other) == "tests"
        or (top(other) == "course" and top(one) not in ("course", "commands"))
        or LEVEL.get(top(one), -1) > LEVEL.get(top(other), len(LEVELS))
    )


def test_no_rooms_import_one_another():
    assert circle(skip=OPEN) is None


@pytest.mark.xfail(strict=False, reason=f"{OPEN[0]} imports a folder inside it that imports it")
def test_nor_does_the_one_that_is_open():
    assert circle() is None


def test_arrows_point_one_way():
    assert wrong_arrows() == []


def test_the_rules_know_the_rooms():
    rooms = {top(name) for name in modules(ROOT)}
    assert set(LEVEL) | {"course"} <= rooms
    assert len(arrows()) > 300


# --------------------------------------------------------------------------------------- would it be noticed?


@pytest.fixture
def house(tmp_path):
    """house({"training/loop.py": "import …"}) -> root of a package with these modules, and empty ones around them."""

    def build(texts):
        for name, text in texts.items():
            path = tmp_path / "llmc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for folder in {path.parent for path in tmp_path.rglob("*.py")} | {tmp_path / "llmc"}:
            (folder / "__init__.py").touch()
        return tmp_path

    return build


@pytest.mark.parametrize(
    "texts",
    [
        {"files/a.py": "import llmc.data.b", "data/b.py": "def f():\n    from llmc.files import a"},
        {
            "files/a.py": "from llmc.data.b import x",
            "data/b.py": "import llmc.model",
            "model.py": "import llmc.files.a",
        },
        {"files/__init__.py": "from llmc.files.bits import x", "files/bits/x.py": "from .. import y", "files/y.py": ""},
    ],
)
def test_a_circle_is_noticed(house, texts):
    assert circle(house(texts))[0].startswith("llmc.")


def test_what_is_no_circle(house):
    one_room = {"files/a.py": "import llmc.files.b", "files/b.py": "import llmc.files.a"}
    downwards = {"files/bits/c.py": "import llmc.files.a", "model.py": "import llmc.config", "config.py": "import math"}
    assert circle(house(one_room | downwards)) is None and wrong_arrows(house(one_room | downwards)) == []


@pytest.mark.parametrize(
    "name, text",
    [
        ("backends/cpu/a.py", "from llmc.model import GPT2"),
        ("backends/gpu.py", "def f():\n    import llmc.training.loop"),
        ("checkpoints/a.py", "from llmc import parity"),
        ("bench/a.py", "from llmc.tests import cases"),
        ("data/a.py", "from llmc.course.checks import check"),
        ("cli.py", "import llmc.course"),
        ("backends/gpu.py", "from llmc.distributed import nccl"),
        ("model.py", "from llmc.distributed.ranks import Ranks"),
        ("model.py", "from .kernels import a; from .commands import b"),
    ],
)
def test_an_arrow_against_the_rules_is_noticed(house, name, text):
    empty = ["model.py", "training/loop.py", "parity/x.py", "course/checks/check.py", "kernels/a.py", "commands/b.py"]
    empty += ["distributed/nccl.py", "distributed/ranks.py"]
    assert len(wrong_arrows(house({**dict.fromkeys(empty, ""), name: text}))) == 1
