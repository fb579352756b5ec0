"""From a hub's files to a trained and measured model, over the command line: FineWeb's parquet, TinyStories' archive.

The hub is a server of this process, with the addresses of the real one.
"""

import hashlib
import io
import json
import tarfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest

from llmc import cli, data
from llmc.config import PRESETS, GPT2Config
from llmc.data.corpora import download
from llmc.data.tokens import read_tokens
from llmc.training import read_log

SHARD = 2000  # tokens


class Handler(BaseHTTPRequestHandler):
    """Serves server.files, {path: bytes}; what is not there is a 404."""

    def do_GET(self):
        body = self.server.files.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


@pytest.fixture
def publish(monkeypatch):
    """publish(repository, folder, {name: bytes}): what the hub of this test has."""
    monkeypatch.setenv("no_proxy", "*")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.files = {}
        monkeypatch.setattr(download, "HUB", f"http://127.0.0.1:{server.server_address[1]}")
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()

        def run(repository, folder, files):
            at = f"{folder}/" if folder else ""
            listing = [
                {"path": at + name, "lfs": {"oid": hashlib.sha256(raw).hexdigest()}} for name, raw in files.items()
            ]
            base = f"/api/datasets/{repository}/tree/main"
            server.files[f"{base}/{folder}" if folder else base] = json.dumps(listing).encode()
            for name, raw in files.items():
                server.files[f"/datasets/{repository}/resolve/main/{at}{name}"] = raw

        yield run
        server.shutdown()
        thread.join()


@pytest.fixture
def llmc(tmp_path, monkeypatch, capsys):
    """llmc("train", …) -> what it printed; the model is a very small one."""
    monkeypatch.setitem(PRESETS, "nano", GPT2Config(maxT=16, L=1, NH=2, C=16))

    def run(*words):
        assert cli.main([str(word) for word in words]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


def trained(llmc, corpus, run):
    """Train a few steps in llm.c's order and measure: (losses of training, what `llmc eval` says)."""
    shape = ["--batch-size", 2, "--sequence-length", 16, "--backend", "numpy"]
    llmc("train", "--preset", "nano", "--data", corpus, *shape, "--order", "llm.c", "--steps", 150, "--out", run)
    found = json.loads(llmc("eval", run, "--json", "--backend", "numpy"))
    log = read_log(run / "main.log")
    assert found["loss"] == pytest.approx(log["val"][-1][1], abs=1e-3)  # on the same tokens
    return [loss for _, loss, *_ in log["train"]], found


def test_fineweb_from_parquet_to_a_measured_model(publish, llmc, tmp_path, tokenizer):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    pages = [f"Page {i} of the web: " + "the words of it. " * (1 + i % 5) for i in range(300)]
    files = {}
    for number, part in enumerate((pages[:170], pages[170:])):
        raw = io.BytesIO()
        columns = {"text": part, "id": [f"<urn:{i}>" for i in range(len(part))], "token_count": [9] * len(part)}
        pyarrow.parquet.write_table(pyarrow.table(columns), raw, row_group_size=64)
        files[f"{number:03d}_00000.parquet"] = raw.getvalue()
    publish("HuggingFaceFW/fineweb-edu", "sample/10BT", files)
    said = llmc("data", "fineweb", "--kind", "edu", "--tokenizer", tokenizer, "--shard-size", SHARD)
    assert "fetched 001_00000.parquet" in said and f"wrote edu_fineweb_val_000000.bin: {SHARD:,} tokens" in said
    made = data.find_corpus("edu_fineweb10B")
    shards = sorted(made.folder.glob("edu_fineweb_*.bin"))
    stream = [i for page in pages for i in [256, *page.encode()]]
    assert np.concatenate([read_tokens(p) for p in (shards[-1], *shards[:-1])]).tolist() == stream  # val comes first
    assert len(shards) == -(-len(stream) // SHARD) > 5 and data.count_tokens(made.val) == SHARD
    losses, found = trained(llmc, "edu_fineweb10B", tmp_path / "run")
    assert losses[0] > 5.3 and np.mean(losses[-20:]) < 4.0 and found["tokens"] == (SHARD - 1) // 32 * 32


def test_tinystories_from_the_archive_to_a_measured_model(publish, llmc, tmp_path, tokenizer):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for number in range(3):
            text = json.dumps([{"story": f"\nOnce there was cat {number}.{k}. "} for k in range(80)]).encode()
            entry = tarfile.TarInfo(f"data{number:02d}.json")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
    publish("roneneldan/TinyStories", "", {"TinyStories_all_data.tar.gz": raw.getvalue()})
    llmc("data", "tinystories", "--tokenizer", tokenizer)
    made = data.find_corpus("tinystories")
    assert read_tokens(made.val).size == sum(1 + len(f"Once there was cat 0.{k}.") for k in range(80))
    losses, found = trained(llmc, "tinystories", tmp_path / "run")
    assert losses[0] > 5.3 and np.mean(losses[-20:]) < 4.0 and found["loss"] < 4.0
