"""The life of the ranks in one command: they connect, work and leave together, or end together if one of them fails.

They connect through MPI, an address, or a file that all ranks can see. mpirun and Slurm tell each process its number in
environment variables; otherwise, `--rank` and `--world` do. Then the ranks meet at `--server HOST:PORT`, or rank 0
writes its address into `--init-file PATH`. At `--server`, the ranks recognise each other by the secret in LLMC_SECRET.
"""

import hashlib
import os
import secrets
import socket
import sys
import time
import traceback
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from llmc.distributed import mpi, tcp
from llmc.distributed.ranks import RankLost, Ranks
from llmc.errors import UserError, cannot

LAUNCHERS = {  # name -> the variables with our rank and the number of ranks
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    "MPI": ("PMI_RANK", "PMI_SIZE"),
    "Slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
}
PMIX = "PMIX_RANK"  # Slurm has started an MPI program


def _to_stderr(line):
    print(f"llmc: {line}", file=sys.stderr, flush=True)


@contextmanager
def together(rank=None, world=None, server=None, init_file=None, say=_to_stderr):
    """`with together(rank=…, …) as ranks:` connects like `connect`, and leaves at the end.

    If this rank fails, the others learn why: from its UserError or, for any other error, that it was a bug in llmc.
    """
    ranks = connect(rank, world, server, init_file, say)
    try:
        yield ranks
    except BaseException as error:
        ranks.close(_reason(error, ranks))
        ranks.abort()
        raise
    ranks.close()


def _reason(error, ranks):
    """The reason that the other ranks are told."""
    if isinstance(error, RankLost):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "it was interrupted."
    if ranks.ends_when_closed and not isinstance(error, ValueError):  # nobody else will have the time to print it
        traceback.print_exc()
    return str(error) or type(error).__name__


def connect(rank=None, world=None, server=None, init_file=None, say=print, patience=tcp.PATIENCE) -> Ranks:
    """Connect the ranks of this run; without options and a launcher, there is only one.

    rank, world: as in the options · server: "HOST:PORT", or "HOST" with init_file · say(line): is told about strangers
    at the port. Raises UserError for options that do not belong together, and if the ranks cannot connect.
    """
    launcher, *found = _launcher()
    if server is None and init_file is None:
        if rank is not None or world is not None:
            raise UserError(
                "--rank and --world need a place where the ranks can meet; add --server HOST:PORT or --init-file PATH."
            )
        if launcher == "Slurm":
            raise UserError(
                f"Slurm started {found[1]} processes, but not as an MPI program; say where they can meet with"
                " --server HOST:PORT or --init-file PATH."
            )
        return Ranks() if launcher is None else mpi.connect(found[1])
    if (rank is None) != (world is None):
        raise UserError("--rank and --world belong together; give both, or let mpirun or Slurm set them.")
    rank, world = (rank, world) if rank is not None else found
    if rank is None:
        raise UserError("this process does not know which rank it is; give it --rank and --world.")
    if not 0 <= rank < world:
        raise UserError(f"--rank must be a number from 0 to {max(world, 1) - 1}, one less than --world, not {rank}.")
    if init_file is not None:
        return _meet_by_file(Path(init_file), server, rank, world, say, patience)
    host, port = _address(server)
    secret = os.environ.get("LLMC_SECRET", "")
    token = hashlib.sha256(os.fsencode(secret)).digest()[:16] if secret else b""
    if rank:
        return tcp.join(host, port, rank, world, token, patience)
    listening = tcp.listen(host, port)
    if not secret:
        say(
            f"anyone who can reach {server} is trusted to be a rank; to check, set LLMC_SECRET to the same value for"
            " all ranks."
        )
    return tcp.serve(listening, world, token, say, patience)


def _launcher():
    """(what started several processes, our rank, how many there are), or (None, None, None)."""
    for name, variables in LAUNCHERS.items():
        values = [os.environ.get(variable, "") for variable in variables]
        if all(value.isdecimal() for value in values) and int(values[1]) > 1:
            return "MPI" if name == "Slurm" and PMIX in os.environ else name, int(values[0]), int(values[1])
    return None, None, None


def _address(server):
    """("node1", 4000) of "node1:4000"."""
    host, colon, port = server.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(f"--server must be HOST:PORT, such as 127.0.0.1:4000, not {server!r}.")
    return host.strip("[]"), int(port)


# ----------------------------------------------------------------------------------------------------- a file


def _meet_by_file(path, host, rank, world, say, patience):
    """Rank 0 writes its address and a secret into the file, so that only those who can read it can connect."""
    if host is not None and ":" in host.replace("::", ""):
        raise UserError(
            "with --init-file, rank 0 chooses its own port; give --server HOST without a port, or leave it out."
        )
    if path.exists() and not path.is_file():  # to read a pipe would take for ever
        raise UserError(f"{path} is not a regular file; give another --init-file.")
    if rank:
        return _join_by_file(path, rank, world, patience)
    server, token = tcp.listen(host or _own_address()), secrets.token_bytes(16)
    try:
        _write(path, " ".join([*map(str, server.getsockname()[:2]), token.hex()]))
        return tcp.serve(server, world, token, say, patience)
    finally:
        server.close()
        path.unlink(missing_ok=True)


def _write(path, text):
    """Write a file that only its owner can read, all at once."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        raise cannot(f"write {path}", error, "give another --init-file") from None


def _join_by_file(path, rank, world, patience):
    """Wait for the file; one left by an earlier run leads nowhere, or to other ranks, until rank 0 replaces it."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        text = _read(path)
        with suppress(ValueError, tcp.NotThere):
            host, port, token = text.split()
            where = host, int(port), rank, world, bytes.fromhex(token)
            same = partial(lambda text: time.monotonic() < end and _read(path) in (text, ""), text)
            return tcp.join(*where, patience=0, still=same)
        time.sleep(0.05)
    raise UserError(
        f"rank 0 could not be found through {path} in {patience:.0f} seconds; give all ranks the same --init-file."
    )


def _read(path) -> str:
    """What the file says; "" while there is none."""
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""


def _own_address():
    """The address of this machine's name, or the loopback address if the name has none."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
