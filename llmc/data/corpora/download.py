"""Downloading a file safely: resumed where it broke off, checked, and renamed only once it is complete.

Until then it is called NAME.part, and a later call continues it (HTTP Range). The standard library is enough: pooch
cannot resume, and huggingface_hub downloads only from its hub.
"""

import socket
import time
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from llmc.errors import UserError, cannot, why
from llmc.files.checked_json import LARGEST, parse_json
from llmc.files.digest import digest

HUB = "https://huggingface.co"
BLOCK = 1 << 20  # bytes
TIMEOUT = 30  # seconds without a byte
TRIES = 5  # in a row without a byte of progress
PAUSE = 1.0  # seconds after the first failure, then 2, 4, 8
PASSING = {408, 425, 429, 500, 502, 503, 504}  # statuses that may be gone in a moment
ADVICE = "give a copy of the file with --file, or train on pydocs, which needs no network."


def download(url: str, path, sha256: str | None = None, say=None, advice=ADVICE) -> Path:
    """Download url to path, unless the file is already there; returns the path.

    sha256: the file's checksum, in hex; without one, only the length is checked, and an interrupted download starts
    from the beginning. say(line), if given, receives progress · advice: what else the error should suggest. Raises
    UserError if there is no network, no such file or no space for it, or if the wrong file arrives.
    """
    path = Path(path)
    part = path.with_name(path.name + ".part")
    with _writing(part):
        if path.is_file() and sha256 in (None, digest(path)):
            return path
        if path.is_file():
            advice = f"{path} exists, but is a different file (wrong SHA-256); {advice}"
        part.parent.mkdir(parents=True, exist_ok=True)
    if say:
        say(f"fetching {url}")
    start, resumed = time.perf_counter(), part.exists()
    with progress_bar(say, desc=path.name, unit="B") as bar:
        _insist(url, lambda: _fetch(url, part, bar, resume=sha256 is not None), lambda: _size(part), advice)
    with _writing(part):
        if sha256 not in (None, digest(part)):
            part.unlink()
            if resumed:  # the part that was there may have belonged to another file
                return download(url, path, sha256, say, advice)
            raise UserError(
                f"{url} has changed, or was damaged during the download (wrong SHA-256); try again, or {advice}"
            )
        part.replace(path)
    if say:
        say(f"fetched {path.name}, {_size(path) / 1e6:,.1f} MB, in {time.perf_counter() - start:.1f} s")
    return path


def hub_files(repository: str, folder: str = ""):
    """[(name, url, sha256)] of the large files in a folder of a Hugging Face dataset, sorted by name.

    Raises UserError if there is no network, or no such folder.
    """
    url = f"{HUB}/api/datasets/{repository}/tree/main/{folder}".rstrip("/")

    def listing():
        with urlopen(Request(url, headers={"User-Agent": "llmc"}), timeout=TIMEOUT) as response:
            return parse_json(response.read(LARGEST + 1), [{"path": str, "lfs": ({"oid": str}, None)}])

    found = [entry for entry in _insist(url, listing, lambda: 0) if entry.get("lfs")]
    base = f"{HUB}/datasets/{repository}/resolve/main/"
    files = [(Path(entry["path"]).name, base + entry["path"], entry["lfs"]["oid"]) for entry in found]
    if not files:
        raise UserError(f"{url} no longer lists any data files; {ADVICE}")
    return sorted(files)


def progress_bar(say, desc, unit):
    """A tqdm bar of so many units, visible only on a terminal and only if progress is wanted at all."""
    from tqdm import tqdm

    return tqdm(desc=desc, unit=unit, unit_scale=True, leave=False, disable=None if say else True)


def _insist(url, fetch, progress, advice=ADVICE):
    """Call fetch() until it succeeds and return its result; give up after TRIES failures in a row without progress.

    progress() grows as bytes arrive.
    """
    tries, most = 0, 0
    while True:
        try:
            return fetch()
        except UserError:
            raise
        except HTTPError as error:
            reason, final = f"{error.code} {error.reason}", error.code not in PASSING
        except (OSError, HTTPException, ValueError) as error:  # ValueError: a listing that is none
            cause = getattr(error, "reason", error) if isinstance(error, URLError) else error
            reason = why(cause) if isinstance(cause, OSError) else str(cause) or type(cause).__name__
            final = isinstance(cause, socket.gaierror) and not most  # the name is not found: there is no network
        tries, most = (tries + 1, most) if progress() <= most else (1, progress())
        if final or tries == TRIES:
            raise UserError(f"cannot fetch {url}: {reason}; {advice}")
        time.sleep(PAUSE * 2 ** (tries - 1))


def _fetch(url, part, bar, resume):
    """Make one attempt to append the missing bytes to `part`. Raises OSError if the connection ends too soon."""
    have = _size(part) if resume else 0
    headers = {"User-Agent": "llmc", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        response = urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        if error.code == 416 and have:  # nothing is missing: the file is whole, or its checksum will be wrong
            return
        raise
    with response:
        if response.status != 206:  # the server ignores Range and sends the whole file
            have = 0
        length = response.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        bar.total, bar.n = total, have
        _append(response, part, have, bar)
    if total is not None and _size(part) != total:
        raise ConnectionError("the connection was cut")


def _append(response, part, have, bar):
    """Write the bytes that arrive after the first `have` bytes of part."""
    with _writing(part):
        file = open(part, "ab")
    with file:
        with _writing(part):
            file.truncate(have)
        while block := response.read(BLOCK):
            with _writing(part):
                file.write(block)
                file.flush()
            bar.update(len(block))


def _size(path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def _writing(part):
    """Turn an OSError into a UserError about the disk; outside this block, an OSError is about the network."""
    try:
        yield
    except OSError as error:
        raise cannot(f"write {part}", error) from error
