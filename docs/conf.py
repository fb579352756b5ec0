"""The site: README's course as pages to read, from the stored outputs. `make site` builds it into build/site.

Sphinx reads notebooks/, solutions/ and docs/ where they lie. Links that work in JupyterLab are rewritten for pages:
those to a cell lead to the cell, those to code and to exercises into the repository.
"""

import json
import os
import posixpath
import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = os.environ.get("GITHUB_REPOSITORY", "OWNER/llmc")  # GitHub's workflows say whose this is
SOURCE = f"https://github.com/{REPOSITORY}/blob/main/"
NOTEBOOKS = ("notebooks", "solutions")
LINK = re.compile(r"(\]\()([^)\s:#][^)\s:]*?)(#[^)\s]*)?(?=\))")  # Markdown's, to a file; target and fragment
HREF = re.compile(r"(href=[\"'])([^\"':#][^\"':]*?)(#[^\"']*)?(?=[\"'])")  # the same in HTML
CELL = re.compile(r"([\w./-]+\.ipynb)#cell-id=([\w-]+)")

project, author, copyright = "llmc", "llmc contributors", "llmc contributors, MIT license"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx-mathjax-offline"]
root_doc = "docs/index"
include_patterns = ["docs/*.md", *(f"{folder}/*.ipynb" for folder in NOTEBOOKS)]
exclude_patterns = ["llmc", "exercises", "data", "runs", "build", ".*", "venv"]
nb_execution_mode = "off"
nb_number_source_lines = False
myst_enable_extensions = ["dollarmath", "amsmath", "attrs_inline"]
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type"]  # live panels: their pictures are stored beside them
autodoc_typehints = "none"
smartquotes = False
html_theme = "sphinx_book_theme"
html_title = "llmc"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["index.html"]  # leads to docs/index.html
html_theme_options = {
    "repository_url": f"https://github.com/{REPOSITORY}",
    "repository_branch": "main",
    "use_repository_button": True,
    "use_issues_button": True,
    "show_navbar_depth": 1,
    "navbar_persistent": [],
    "launch_buttons": {"binderhub_url": "https://mybinder.org", "notebook_interface": "jupyterlab"},
}


def name_of(path, cell) -> str:
    """The label of a notebook's cell: "notebooks-01-layernorm--mean-text"."""
    return re.sub(r"[^a-z0-9-]", "-", f"{path.removesuffix('.ipynb')}--{cell}".lower())


def page_link(match, folder) -> str:
    """The same link, for a page that lies in that folder of the checkout."""
    before, target, fragment = match[1], match[2], match[3] or ""
    path = posixpath.normpath(posixpath.join(folder, unquote(target)))
    if not (ROOT / path).exists():
        return match[0]  # brackets that only look like a link
    is_page = Path(path).parent.as_posix() in (*NOTEBOOKS, "docs") and path.endswith((".ipynb", ".md"))
    label = name_of(path, fragment.removeprefix("#cell-id=")) if fragment.startswith("#cell-id=") else ""
    if is_page and before.startswith("href"):
        return f"{before}{posixpath.splitext(target)[0]}.html{f'#{label}' if label else fragment}"
    if is_page:
        return f"{before}#{label}" if label else f"{before}{target}"
    return match[0] if path.endswith((".png", ".svg")) else f"{before}{SOURCE}{path}"


def with_links(text, folder) -> str:
    """A text of Markdown, HTML or both with the links of pages."""
    return HREF.sub(lambda match: page_link(match, folder), LINK.sub(lambda match: page_link(match, folder), text))


def targets() -> set:
    """The labels of all cells that a link leads to."""
    found = set()
    for folder in (*NOTEBOOKS, "docs"):
        for page in (ROOT / folder).glob("*"):
            if page.suffix in (".md", ".ipynb"):
                for path, cell in CELL.findall(page.read_text(encoding="utf-8")):
                    found.add(name_of(posixpath.normpath(posixpath.join(folder, path)), cell))
    return found


def rewrite(app, docname, source):
    """Links, labels, folded cells and alt texts of one page."""
    folder = posixpath.dirname(docname)
    if folder not in NOTEBOOKS:
        source[0] = with_links(source[0], folder)
        return
    notebook, cells = json.loads(source[0]), []
    for cell in notebook["cells"]:
        label = name_of(f"{docname}.ipynb", cell["id"])
        if cell["cell_type"] == "markdown":
            text = with_links("".join(cell["source"]), folder)
            cell["source"] = f"({label})=\n{text}" if label in app.llmc_targets else text
        else:
            if label in app.llmc_targets:
                cells.append({"cell_type": "markdown", "metadata": {}, "source": f"({label})=\n<p></p>"})
            hidden = cell["metadata"].get("jupyter", {}).get("source_hidden")
            cell["metadata"] = {"tags": ["hide-input"] * bool(hidden)}
            for output in cell["outputs"]:
                show_as_page(output, folder)
        cells.append(cell)
    source[0] = json.dumps({**notebook, "cells": cells})


def show_as_page(output, folder):
    """HTML with the links of pages; a picture as HTML, which has room for its alt text and its size."""
    data, about = output.get("data", {}), output.get("metadata", {}).get("image/png")
    if "text/html" in data:
        data["text/html"] = with_links("".join(data["text/html"]), folder)
    if about:
        picture = "".join(data.pop("image/png")).replace("\n", "")
        size = f'width="{about["width"]}" height="{about["height"]}"'
        data["text/html"] = f'<img alt="{escape(about["alt"])}" {size} src="data:image/png;base64,{picture}">'
        output["metadata"] = {}


PARAMETERS = re.compile(r"(\w+(?:\(\w+\))?(?:, \w+)*): ")  # how the line of a parameter, or of several, begins


def as_plain_text(app, what, name, thing, options, lines):
    """Docstrings are text with `code` in it: stars and bars mean themselves, and lines of indented code stay lines.

    A paragraph in which every line begins with a parameter, or is indented, becomes a list.
    """
    paragraphs = "\n".join(lines).split("\n\n")
    lines.clear()
    for paragraph in paragraphs:
        given, was_code = paragraph.split("\n"), False
        is_list = all(line.startswith("  ") or PARAMETERS.match(line) for line in given) and PARAMETERS.match(given[0])
        for line in given:
            parts, is_indented = line.split("`"), line.startswith(" ")
            parts[::2] = [re.sub(r"([*|_\\\\])", r"\\\1", part) for part in parts[::2]]
            parts[1::2] = [f"\\ ``{part}``\\ " for part in parts[1::2]]
            text = "".join(parts).strip()
            if is_list:
                lines.append(("  " if is_indented else "* ") + text)
                continue
            lines += [""] * (is_indented != was_code) + ["| " * is_indented + text]
            was_code = is_indented
        lines.append("")


class Page(HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        """Collect them."""
        found = dict(attributes)
        self.ids.update(value for name, value in attributes if name in ("id", "name"))
        self.links.update(found[name] for name in ("href", "src") if found.get(name))


def check_links(app, error):
    """Fail unless every link inside of the site leads to a file, and to a place that is in it."""
    if error:
        return
    folder = Path(app.outdir)
    pages = {path: Page(path) for path in folder.rglob("*.html") if "_static" not in path.parts}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            target, _, place = unquote(link.split("?")[0]).partition("#")
            goal = Path(os.path.normpath(path.parent / target)) if target else path
            if ":" in link or (goal.exists() and (not place or goal not in pages or place in pages[goal].ids)):
                continue
            broken.append(f"{path.relative_to(folder)}: {link}")
    print(f"{sum(len(page.links) for page in pages.values()):,} links on {len(pages)} pages are looked at.")
    if broken:
        raise ExtensionError("these links lead nowhere:\n" + "\n".join(sorted(broken)))


def setup(app):
    """Sphinx calls this."""
    app.llmc_targets = targets()
    app.connect("source-read", rewrite)
    app.connect("autodoc-process-docstring", as_plain_text)
    app.connect("build-finished", check_links, priority=900)  # after MathJax has been copied
