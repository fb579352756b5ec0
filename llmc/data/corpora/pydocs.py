"""The corpus that every Python ships with: its own documentation, 2.4 MB of English and Python. No download needed.

It has two sources: `pydoc_data.topics` (the language reference that `help("for")` shows) and the docstrings of the
standard library, read from its source files with `ast`, so that no module is imported or run. The same Python gives the
same text everywhere; another version gives a slightly different one.
"""

import ast
import os
import sysconfig
import textwrap
import time
import warnings
from pathlib import Path

from llmc.data.corpora.build import build_corpus
from llmc.data.corpora.cleaning import clean, heading, is_new, pack, sections
from llmc.data.corpus import Corpus
from llmc.errors import UserError

# Folders that do not document the library: tests, installed packages, generated code tables.
SKIPPED = {"test", "tests", "idle_test", "idlelib", "lib2to3", "turtledemo", "site-packages", "dist-packages"}
SKIPPED |= {"encodings", "pydoc_data", "ensurepip", "__pycache__"}
SMALLEST_CORPUS = 100_000  # characters; less is too little to learn from


def prepare(options, say=None) -> Corpus:
    """Write train.bin, val.bin and tokenizer.bin; see `build_corpus`."""
    start = time.perf_counter()
    documents = collect_documents()
    size = sum(len(d.encode()) for d in documents)
    if say:
        say(f"collected {len(documents):,} documents, {size:,} bytes, in {time.perf_counter() - start:.1f} s")
    return build_corpus(documents, options, say)


def collect_documents(library=None) -> list[str]:
    """The corpus as documents: sections of the language reference, docstrings of modules and functions, and classes.

    library: a folder of .py files, by default the running Python's standard library. Each document ends with a newline.
    Raises UserError if this Python comes with too little documentation to learn from.
    """
    seen = set()
    documents = topic_documents(seen)
    for path, tree in parsed_modules(Path(library or sysconfig.get_path("stdlib"))):
        documents += module_documents(path, tree, seen)
    documents = list(dict.fromkeys(documents))  # "Stub." methods and the like must not be in both train and val
    if sum(map(len, documents)) < SMALLEST_CORPUS:
        raise UserError(
            "this Python comes with almost no documentation (no pydoc_data, no .py files of the standard"
            " library); use a Python from python.org, from conda, or from your system's full package."
        )
    return documents


# --------------------------------------------------------------------------------------------------- language reference


def topic_documents(seen: set) -> list[str]:
    """The sections of all topics, each once, since topics overlap: "compound" includes "for", "if" and "while"."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return []
    documents = []
    for name in sorted(topics):
        for title, body in sections(topics[name]):
            body = clean(body)
            paragraphs = [p for p in body.split("\n\n") if is_new(p, seen)]
            if 2 * sum(map(len, paragraphs)) > len(body):  # otherwise the section is mostly a repetition
                documents += pack(heading(title), paragraphs)
    return documents


# ----------------------------------------------------------------------------------------------------- standard library


def parsed_modules(library: Path):
    """(path inside the library, syntax tree) of every module worth reading, in the same order on every system."""
    for path in sorted(source_files(library), key=lambda p: p.as_posix()):
        tree = parse(library / path)
        if tree:
            yield path, tree


def source_files(library: Path):
    """Paths inside the library, in any order. Skipped folders are not even listed, as site-packages can be large."""
    for folder, inside, names in os.walk(library):
        inside[:] = [name for name in inside if name not in SKIPPED]
        for name in names:
            if name.endswith(".py") and not name.startswith("_sysconfigdata"):
                yield Path(folder, name).relative_to(library)


def parse(path: Path):
    """The module's syntax tree, or None if this Python cannot read or parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old modules hold odd escapes
            return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def module_documents(path: Path, tree, seen: set) -> list[str]:
    """The module's docstring, then its functions and classes."""
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")  # json/__init__.py is "json"
    paragraphs = clean(ast.get_docstring(tree) or "").split("\n\n")
    documents = pack(heading(name), [p for p in paragraphs if is_new(p, seen)])
    for node in definitions(tree.body):
        documents += definition_documents(node, seen)
    return documents


def definition_documents(node, seen: set) -> list[str]:
    """A function with its docstring, or a class with all its documented methods, as Python code."""
    own = entry(node, seen)
    if not isinstance(node, ast.ClassDef):
        return [own + "\n"] if own else []
    inside = list(definitions(node.body))
    methods = [entry(n, seen) for n in inside if not isinstance(n, ast.ClassDef)]
    methods = [textwrap.indent(method, "    ") for method in methods if method]
    documents = pack(own or signature(node), methods, repeat=signature(node))
    if own and not methods:
        documents.append(own + "\n")
    for inner in inside:
        if isinstance(inner, ast.ClassDef):
            documents += definition_documents(inner, seen)
    return documents


def definitions(body):
    """The functions and classes in a block, including those under `if` and `try`, in source order."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
        elif isinstance(node, ast.If | ast.Try):
            yield from definitions([*node.body, *node.orelse, *getattr(node, "handlers", ())])
        elif isinstance(node, ast.ExceptHandler):
            yield from definitions(node.body)


def entry(node, seen: set) -> str:
    """Signature and docstring of a function or class, or "" if it has no docstring or one seen before."""
    doc = clean(ast.get_docstring(node) or "")
    if not is_new(doc, seen):
        return ""
    end = '\n"""' if "\n" in doc or doc.endswith('"') else '"""'
    return signature(node) + "\n" + textwrap.indent(f'"""{doc}{end}', "    ")


def signature(node) -> str:
    """The lines up to the colon: "@property", "def name(self, x=1):"."""
    lines = [f"@{ast.unparse(decorator)}" for decorator in node.decorator_list]
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in [*node.bases, *node.keywords])
        return "\n".join([*lines, f"class {node.name}({bases}):" if bases else f"class {node.name}:"])
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return "\n".join([*lines, f"{kind} {node.name}({ast.unparse(node.args)}){returns}:"])
