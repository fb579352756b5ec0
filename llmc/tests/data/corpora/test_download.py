"""Fetching: a broken download is resumed, a wrong file is never used. The server runs here, in a thread."""

import hashlib
import json
import socket
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest

from llmc.data.corpora import download as module
from llmc.data.corpora.download import download, hub_files
from llmc.errors import UserError

CONTENT = np.random.default_rng(0).bytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT at any path. `asked`: the Range header of each request, None if it had none."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.content, self.ranges, self.cuts, self.answers = [], CONTENT, True, [], []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/file.bin"


class Handler(BaseHTTPRequestHandler):
    """cuts: number of bytes after which a response ends, one per request · answers: status codes to send instead."""

    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        server.asked.append(wanted)
        if server.answers:
            return self.send_error(server.answers.pop(0))
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and server.ranges else 0
        if start and start >= len(server.content):
            return self.send_error(416)
        body = server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.cuts.pop(0)] if server.cuts else body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.01)
    monkeypatch.setenv("no_proxy", "*")
    with Server() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "file.bin"


def names(path):
    return sorted(p.name for p in path.parent.iterdir())


def test_a_file_is_fetched_once_and_reported(server, path):
    said = []
    assert download(server.url, path, SHA256, said.append) == path and path.read_bytes() == CONTENT
    assert said[0] == f"fetching {server.url}" and said[1].startswith("fetched file.bin, 0.3 MB, in ")
    download(server.url, path, SHA256)
    download(server.url, path)
    assert len(server.asked) == 1 and names(path) == ["file.bin"]


def test_an_existing_wrong_file_is_fetched_again(server, path):
    path.parent.mkdir()
    path.write_bytes(b"an old one")
    assert download(server.url, path, SHA256).read_bytes() == CONTENT


def test_a_cut_connection_is_continued(server, path):
    server.cuts = [100_000, 0, 0, 50_000, 0, 0, 0, 10]  # as long as something arrives now and then, it continues
    assert download(server.url, path, SHA256).read_bytes() == CONTENT
    starts = [None, *(f"bytes={n}-" for n in 3 * [100_000] + 4 * [150_000] + [150_010])]
    assert server.asked == starts and names(path) == ["file.bin"]


def test_it_gives_up_and_the_next_call_continues(server, path):
    server.cuts = [100_000, 0, 0, 0, 0]
    with pytest.raises(
        UserError, match="cannot fetch http.*: the connection was cut; give a copy of the file with --file"
    ):
        download(server.url, path, SHA256)
    assert len(server.asked) == 5 and names(path) == ["file.bin.part"]
    download(server.url, path, SHA256)
    assert server.asked[5:] == ["bytes=100000-"] and path.read_bytes() == CONTENT


def test_a_server_that_knows_no_ranges_sends_all_again(server, path):
    server.ranges, server.cuts = False, [100_000, 200_000]
    assert download(server.url, path, SHA256).read_bytes() == CONTENT and len(server.asked) == 3


def test_without_a_checksum_a_download_starts_over(server, path):
    path.parent.mkdir()
    path.with_name("file.bin.part").write_bytes(b"who knows of what")
    server.cuts = [100_000]
    assert download(server.url, path).read_bytes() == CONTENT and server.asked == [None, None]


def test_wrong_checksum(server, path):
    with pytest.raises(
        UserError, match=r"has changed, or was damaged during the download \(wrong SHA-256\); try again"
    ):
        download(server.url, path, "0" * 64)
    assert len(server.asked) == 1 and names(path) == []


def test_a_part_of_another_file_is_thrown_away(server, path):
    path.parent.mkdir()
    path.with_name("file.bin.part").write_bytes(b"something else")
    assert download(server.url, path, SHA256).read_bytes() == CONTENT
    assert server.asked == ["bytes=14-", None]


@pytest.mark.parametrize("extra", [b"", b"more"])
def test_416_when_all_or_more_is_there(server, path, extra):
    """After a kill between the last byte and the renaming, or for a file that has become shorter."""
    path.parent.mkdir()
    path.with_name("file.bin.part").write_bytes(CONTENT + extra)
    assert download(server.url, path, SHA256).read_bytes() == CONTENT
    assert server.asked == [f"bytes={len(CONTENT + extra)}-", None][: 1 + bool(extra)]


def test_404_is_final_and_503_is_not(server, path):
    server.answers = [503, 429]
    download(server.url, path, SHA256)
    assert len(server.asked) == 3
    server.answers = [404]
    with pytest.raises(UserError, match="cannot fetch .*: 404 Not Found; give a copy .* or train on pydocs"):
        download(server.url, path.with_name("b"))
    assert len(server.asked) == 4


def test_refused_connection(server, path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/x"
    with pytest.raises(UserError, match="cannot fetch .*: Connection refused; .* pydocs, which needs no network"):
        download(url, path)


def test_without_a_network_there_is_no_waiting(path, monkeypatch):
    def no_name(*_, **__):
        raise urllib.request.URLError(socket.gaierror(-3, "Temporary failure in name resolution"))

    monkeypatch.setattr(module, "urlopen", no_name)
    monkeypatch.setattr(module.time, "sleep", lambda _: pytest.fail("waited"))
    for fetch in (lambda: download("https://example.org/x", path), lambda: hub_files("a/b")):
        with pytest.raises(UserError, match="Temporary failure in name resolution; give a copy"):
            fetch()


def test_a_disk_that_refuses_is_not_the_networks_fault(server, tmp_path):
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    with pytest.raises(UserError, match="cannot write .*file.x.part: "):
        download(server.url, tmp_path / "file" / "x")
    assert server.asked == []


def test_the_files_of_a_hub_folder(server, monkeypatch):
    listing = [{"type": "file", "path": f"s/{name}", "lfs": {"oid": name * 2}} for name in ("b.parquet", "a.parquet")]
    server.content = json.dumps([{"type": "file", "path": "s/README.md"}, *listing]).encode()
    monkeypatch.setattr(module, "HUB", server.url.removesuffix("/file.bin"))
    files = hub_files("who/what", "s")
    base = module.HUB + "/datasets/who/what/resolve/main/s/"
    assert files == [(name, base + name, name * 2) for name in ("a.parquet", "b.parquet")]
    server.content = b"[]"
    with pytest.raises(UserError, match="no longer lists any data files"):
        hub_files("who/what", "s")
    server.content = b"<html>"
    with pytest.raises(UserError, match="cannot fetch .*/api/datasets/who/what/tree/main/s: "):
        hub_files("who/what", "s")
