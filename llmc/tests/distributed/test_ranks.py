"""What ranks tell one another, over TCP, between threads of this process."""

import socket
import sys
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from llmc.distributed import tcp
from llmc.distributed.frames import END, HEAD
from llmc.distributed.ranks import CHUNK, RankLost, Ranks
from llmc.distributed.start import connect
from llmc.errors import UserError
from llmc.precision import bfloat16
from llmc.tests.distributed.threads import HERE, together


def arrays(world, size, dtype):
    return [np.random.default_rng(rank).standard_normal(size).astype(dtype) for rank in range(world)]


def in_order(parts):
    """Their sum, in the order of ranks; those of 16 bits in float32, rounded once."""
    dtype = parts[0].dtype
    total = parts[0].astype(np.float32 if dtype.itemsize == 2 else dtype)
    for part in parts[1:]:
        total = total + part.astype(total.dtype)
    return total.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, bfloat16()])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_sums_and_parts(world, dtype):
    size = 2 * CHUNK + 12 if world == 2 and dtype == np.float32 else 24
    given, expected = arrays(world, size, dtype), in_order(arrays(world, size, dtype))
    each = size // world

    def work(ranks):
        whole, scattered, part = given[ranks.rank].copy(), given[ranks.rank].copy(), np.empty(each, dtype)
        ranks.all_reduce(whole)
        ranks.reduce_scatter(part, scattered)
        gathered = np.zeros(size, dtype)
        place = gathered.reshape(world, -1)[ranks.rank]
        place[...] = part
        ranks.all_gather(gathered, place)
        first = given[ranks.rank].copy()
        ranks.broadcast(first)
        return whole, part, gathered, first

    results = [work(Ranks())] if world == 1 else together(world, work)
    for rank, (whole, part, gathered, first) in enumerate(results):
        assert (whole == expected).all() and (gathered == expected).all()
        assert (part == expected[rank * each : (rank + 1) * each]).all()
        assert (first == given[0]).all()


def test_values():
    def work(ranks):
        shared = ranks.share({"step": 3} if ranks.rank == 0 else "ignored")
        return ranks.exchange(ranks.rank), ranks.sum(ranks.rank, 0.5), ranks.mean(ranks.rank), shared, ranks.neighbours

    assert together(3, work) == [([0, 1, 2], [3.0, 1.5], 1.0, {"step": 3}, 3)] * 3
    assert work(Ranks()) == ([0], [0.0, 0.5], 0.0, {"step": 3}, 1)


def test_ranks_that_differ_are_told_apart():
    results = together(2, lambda ranks: ranks.agree({"B": 4, "seed": 42 + ranks.rank}))
    assert all("rank 0 has seed 42 and rank 1 43" in str(result) for result in results)


def test_a_rank_that_leaves_too_early_says_why():
    def work(ranks):
        if ranks.rank == 1:
            raise UserError("the disk is full.")
        ranks.barrier()

    lost, full, other = together(3, work)
    assert isinstance(lost, RankLost) and str(lost) == "rank 1 has ended: the disk is full."
    assert (
        isinstance(other, RankLost) and str(other) == f"rank 0 has ended: {lost}" and str(full) == "the disk is full."
    )


def test_a_rank_that_just_vanishes():
    def work(ranks):
        if ranks.rank == 1:
            ranks.peers[0].connection.close()
            raise UserError("gone")
        ranks.all_reduce(np.zeros(10))

    assert str(together(2, work)[0]) == "rank 1 has ended, so the run cannot go on."


def test_a_rank_that_is_stuck():
    found = threading.Event()

    def work(ranks):
        for peer in ranks.peers:
            peer.silence = 0.6 if ranks.rank == 0 else 30.0
            peer.connection.settimeout(peer.silence)
        if ranks.rank == 1:
            assert found.wait(10)  # as if it were stopped
            return
        try:
            ranks.barrier()
        finally:
            found.set()

    stuck, _, other = together(3, work)
    assert str(stuck) == "rank 1 has been silent for 1 seconds, so it seems stuck; start all ranks again."
    assert str(other) == f"rank 0 has ended: {stuck}"


def test_whoever_waits_elsewhere_is_called(monkeypatch):
    monkeypatch.setattr(tcp, "NOTICE", 0.05)
    called = threading.Event()

    def work(ranks):
        if ranks.rank == 1:
            ranks.peers[0].connection.close()
            raise UserError("gone")
        ranks.watch(lambda lost: "rank 1 has ended" in str(lost) and called.set())
        assert called.wait(10)

    assert together(2, work)[0] is None


# --------------------------------------------------------------------------------------------------- strangers


def speak(port, text):
    with socket.create_connection((HERE, port)) as connection:
        connection.sendall(text)
        connection.settimeout(5)
        try:
            return connection.recv(100)
        except OSError:
            return b""


@pytest.mark.parametrize(
    "text", [b"GET / HTTP/1.1\r\n\r\n", b"", tcp.HELLO.pack(tcp.GREETING, b"wrong", 1, 2), b"llmc"]
)
def test_a_stranger_is_named_and_ignored(monkeypatch, text):
    monkeypatch.setattr(tcp, "ANSWER", 0.2)
    server, said = tcp.listen(HERE), []
    port = server.getsockname()[1]
    found = []
    rank0 = threading.Thread(target=lambda: found.append(tcp.serve(server, 2, b"secret", said.append, 20)), daemon=True)
    rank0.start()
    assert speak(port, text) == b""
    rank1 = tcp.join(HERE, port, 1, 2, b"secret", 10)
    rank0.join(10)
    assert said == [f"ignored a connection to {HERE}:{port} from {HERE}, which is not a rank of this run."]
    with pytest.raises(OSError):
        socket.create_connection((HERE, port), timeout=1)  # nobody listens once all ranks are there
    threading.Thread(target=found[0].close, daemon=True).start()
    rank1.close()


def test_another_program_where_rank_0_should_be():
    server = tcp.listen(HERE)

    def answer():
        connection, _ = server.accept()
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        time.sleep(1)

    threading.Thread(target=answer, daemon=True).start()
    with pytest.raises(tcp.NotThere, match="the process listening at .* is not rank 0 of this run"):
        tcp.join(HERE, server.getsockname()[1], 1, 2, patience=5)


@pytest.mark.parametrize("head", [HEAD.pack(b"D", 1 << 40), HEAD.pack(END, 1 << 40), HEAD.pack(b"x", 4)])
def test_a_message_of_absurd_length_takes_no_memory(head):
    server = tcp.listen(HERE)

    def answer():
        connection, _ = server.accept()
        connection.sendall(tcp.GREETING + head)
        time.sleep(1)

    threading.Thread(target=answer, daemon=True).start()
    with pytest.raises(RankLost, match="does not expect"):
        tcp.join(HERE, server.getsockname()[1], 1, 2, patience=5)


def test_two_worlds_and_two_of_a_kind():
    for rank, world, words in ((1, 3, "--world 3, but rank 0 with --world 2"), (0, 2, "two processes")):
        server = tcp.listen(HERE)
        errors = []

        def serve(server=server, errors=errors):
            try:
                tcp.serve(server, 2, patience=10)
            except UserError as error:
                errors.append(str(error))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(RankLost, match=words):
            tcp.join(HERE, server.getsockname()[1], rank, world, patience=5)
        thread.join(10)
        assert words in errors[0]


def test_ranks_that_do_not_come():
    with pytest.raises(UserError, match="after 0 seconds, rank 1, 2 of 3 has not connected to 127.0.0.1:"):
        tcp.serve(tcp.listen(HERE), 3, patience=0.05)
    port = (closed := tcp.listen(HERE)).getsockname()[1]
    closed.close()
    with pytest.raises(UserError, match=f"rank 1 cannot reach rank 0 at 127.0.0.1:{port}: Connection refused"):
        tcp.join(HERE, port, 1, 2, patience=0.05)


# ---------------------------------------------------------------------------------------------------- start-up


@pytest.fixture
def plain(monkeypatch):
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(rank=0), "need a place where the ranks can meet"),
        (dict(world=2), "need a place where the ranks can meet"),
        (dict(rank=0, server="here:1"), "--rank and --world belong together"),
        (dict(server="here:1"), "does not know which rank it is"),
        (dict(rank=2, world=2, server="here:1"), "a number from 0 to 1"),
        (dict(rank=0, world=0, server="here:1"), "a number from 0 to 0"),
        (dict(rank=0, world=2, server="here"), "must be HOST:PORT"),
        (dict(rank=0, world=2, server="here:port"), "must be HOST:PORT"),
        (dict(rank=0, world=2, server="here:99999"), "must be HOST:PORT"),
        (dict(rank=0, world=2, server="256.1.1.1:4000"), "rank 0 cannot listen at 256.1.1.1:4000"),
        (dict(rank=0, world=2, server="here:1", init_file="x"), "rank 0 chooses its own port"),
        (dict(rank=0, world=2, server=HERE, init_file="/no/such/folder/x"), "cannot write /no/such/folder/x: No such"),
        (dict(rank=1, world=2, init_file="/no/such/folder/x"), "rank 0 could not be found through /no/such/folder/x"),
        (dict(rank=1, world=2, init_file="/dev/null"), "/dev/null is not a regular file; give another --init-file"),
    ],
)
def test_options_that_do_not_belong_together(plain, options, words):
    with pytest.raises(UserError, match=words):
        connect(**options, patience=0.1)


def test_an_mpirun_of_another_mpi(plain, monkeypatch):
    world = SimpleNamespace(Get_size=lambda: 1)
    module = SimpleNamespace(MPI=SimpleNamespace(COMM_WORLD=world, Get_library_version=lambda: "MPICH 5.0, 2026"))
    monkeypatch.setitem(sys.modules, "mpi4py", module)
    plain.setenv("OMPI_COMM_WORLD_RANK", "0"), plain.setenv("OMPI_COMM_WORLD_SIZE", "2")
    with pytest.raises(UserError, match=r"mpirun started 2 processes, but mpi4py sees 1: it uses another MPI \(MPICH"):
        connect()


def test_alone(plain):
    assert connect().world == 1


def test_slurm_sets_rank_and_world(plain):
    for name, value in (("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "2")):
        plain.setenv(name, value)
    plain.delenv("PMIX_RANK", raising=False)
    with pytest.raises(UserError, match="Slurm started 2 processes"):
        connect()
    server = tcp.listen(HERE)
    threading.Thread(target=lambda: tcp.serve(server, 2).close(), daemon=True).start()
    ranks = connect(server=f"{HERE}:{server.getsockname()[1]}")
    assert (ranks.rank, ranks.world, ranks.local) == (1, 2, 1)
    ranks.close()


@pytest.mark.parametrize(
    "secret, words", [("", "anyone who can reach 127.0.0.1:"), ("known", "ignored a connection to 127.0.0.1:")]
)
def test_at_an_address_ranks_know_a_secret_or_rank_0_says_whom_it_trusts(plain, secret, words):
    plain.setenv("LLMC_SECRET", secret)
    with tcp.listen(HERE) as free:
        (_, port), said = free.getsockname(), []
    threading.Thread(target=lambda: connect(0, 2, f"{HERE}:{port}", say=said.append).close(), daemon=True).start()
    with pytest.raises(tcp.NotThere, match="LLMC_SECRET") if secret else nullcontext():
        tcp.join(HERE, port, 1, 2, patience=10).close()
    if secret:
        connect(1, 2, f"{HERE}:{port}", patience=10).close()
    assert len(said) == 1 and said[0].startswith(words)


@pytest.fixture
def silent():
    with tcp.listen(HERE) as server:
        yield server


@pytest.mark.parametrize("port", [1, None])
def test_by_file_also_where_an_old_one_lies(plain, tmp_path, port, silent):
    """Of a run that was killed, and now leads nowhere, or to a program that only listens."""
    path, found = tmp_path / "address", []
    path.write_text(f"{HERE} {port or silent.getsockname()[1]} 00")
    one = threading.Thread(target=lambda: found.append(connect(1, 2, None, path, patience=20)), daemon=True)
    one.start()
    time.sleep(0.2)
    zero = connect(0, 2, HERE, path, patience=20)
    one.join(10)
    assert not path.exists() and found[0].world == 2
    threading.Thread(target=zero.close, daemon=True).start()
    found[0].close()
