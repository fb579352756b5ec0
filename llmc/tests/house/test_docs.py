"""README and docs/: their links lead somewhere, and the commands that they name exist, with those options."""

import re
from pathlib import Path

import pytest
import yaml

import llmc
from llmc.cli import COMMANDS, make_parser

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(r"`llmc ([^`]+)`|^ {4}(?:mpirun .*?|srun .*?)?llmc (.*?)(?:  |$)", re.MULTILINE)
every_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)


@every_page
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\(([^)#]+)", path.read_text(encoding="utf-8"))
    assert not [link for link in links if ":" not in link and not (path.parent / link).exists()]


@every_page
def test_commands_and_their_options_exist(path):
    for words in COMMAND.findall(path.read_text(encoding="utf-8")):
        name, *options = "".join(words).replace(",", "").split()
        assert name in COMMANDS, f"llmc {name}"
        known = make_parser(name).commands[name]._option_string_actions
        assert not [word for word in options if word.startswith("-") and word.split("=")[0] not in known], words


def test_readme_is_short_and_all_pages_together_no_longer_than_it_was():
    words = {path.stem: len(path.read_text(encoding="utf-8").split()) for path in PAGES}
    assert words["README"] <= 1500 and sum(words.values()) <= 5229, words


def test_the_citation_is_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == llmc.__version__ and cited["license"] == "MIT"


def test_syllabi_say_how_long_their_weeks_are():
    readme, page = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/teaching.md"))
    minutes = {int(n): int(a) + int(b) for n, a, b in re.findall(r"^\| \[(\d\d)_.*\| (\d+) \+ (\d+) min", readme, re.M)}
    for weeks, lessons, least, most in re.findall(r"^\| (\d+) \| (.*) \| (\d+) to (\d+) \|", page, re.M):
        spans = [[list(map(int, part.split("–"))) for part in week.split(",")] for week in lessons.split("·")]
        hours = [sum(minutes[n] for a, *b in week for n in range(a, (b or [a])[0] + 1)) / 60 for week in spans]
        assert len(hours) == int(weeks) and (round(min(hours)), round(max(hours))) == (int(least), int(most)), hours
