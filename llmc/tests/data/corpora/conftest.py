"""The documents of pydocs, collected once for all the tests that read them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from llmc import data


@pytest.fixture(scope="session")
def collected():
    """(the documents, whether collecting them imported their modules), from a process of its own."""
    code = (
        "import json, sys; from llmc.data.corpora import pydocs; documents = pydocs.collect_documents();"
        "json.dump((documents, 'turtle' in sys.modules), sys.stdout)"
    )
    root = Path(data.__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def documents(collected):
    return collected[0]
