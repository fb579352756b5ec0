"""Ranks over TCP, for CPUs and for start-up: all of them connect to rank 0, which adds and distributes.

Only rank 0 listens, at the one address that it was given, and only until all ranks have connected. Everything passes
through it, which is slower than MPI for many ranks, but needs no installation. Nothing is encrypted: as with MPI and
NCCL, use a network you trust.
"""

import hmac
import select
import socket
import struct
import threading
import time
from contextlib import suppress

import numpy as np

from llmc.distributed.frames import SILENCE, Peer
from llmc.distributed.ranks import RankLost, Ranks, add, as_bytes, chunks, from_text, to_text, wide
from llmc.errors import UserError, why

HELLO = struct.Struct("<12s16sii")  # greeting, token, rank, world
GREETING = b"llmc ranks 2"
PATIENCE = 300.0  # seconds in which all ranks must have connected
NOTICE = 3.0  # seconds in which a rank that is not stuck finds out by itself that another has ended
ANSWER = 5.0  # seconds that whoever connects has to say who it is


class NotThere(UserError):
    """Nothing answers where rank 0 should be."""


class TcpRanks(Ranks):
    """See Ranks. peers: for rank 0, the others in order; for any other rank, only rank 0."""

    def __init__(self, rank, world, peers, local=0, neighbours=1):
        self.rank, self.world, self.peers = rank, world, peers
        self.local, self.neighbours = local, neighbours
        self._leaving = False

    def all_reduce(self, array):
        if self.rank:
            _send(self.peers[0], array)
            _receive(self.peers[0], array)
            return
        self._add_all(array)
        for peer in self.peers:
            _send(peer, array)

    def reduce_scatter(self, out, array):
        if self.rank:
            _send(self.peers[0], array)
            _receive(self.peers[0], out)
            return
        self._add_all(array)
        parts = array.reshape(self.world, -1)  # (world, n / world)
        for peer, part in zip(self.peers, parts[1:]):
            _send(peer, part)
        out[...] = parts[0]

    def _add_all(self, array):
        """*array (n,) += the arrays of all other ranks, in order."""
        for c in chunks(array.size):
            total, other = wide(array[c]), np.empty_like(array[c])  # both (≤ CHUNK,)
            for peer in self.peers:
                peer.receive(as_bytes(other))
                add(total, other)
            array[c] = total

    def all_gather(self, array, part):
        if self.rank:
            _send(self.peers[0], part)
            _receive(self.peers[0], array)
            return
        parts = array.reshape(self.world, -1)  # (world, n / world)
        parts[0] = part
        for peer, place in zip(self.peers, parts[1:]):
            _receive(peer, place)
        for peer in self.peers:
            _send(peer, array)

    def broadcast(self, array):
        if self.rank:
            _receive(self.peers[0], array)
        for peer in self.peers if self.rank == 0 else ():
            _send(peer, array)

    def exchange(self, value, shape=object) -> list:
        if self.rank:
            self.peers[0].send(to_text(value))
            values = from_text(self.peers[0].receive(), [shape])
            if len(values) != self.world:
                raise RankLost(f"rank 0 sent {len(values)} values for {self.world} ranks; start all ranks again.")
            return values
        values = [value, *(from_text(peer.receive(), shape) for peer in self.peers)]
        for peer in self.peers:
            peer.send(to_text(values))
        return values

    def close(self, reason=""):
        self._leaving = True
        if not reason:
            with suppress(RankLost):  # whoever has left already has nothing more to say
                self.barrier()
        for peer in self.peers:
            peer.close(reason)

    def watch(self, lost):
        """Call lost(RankLost), in a separate thread, if a rank hangs up and we do not notice it ourselves in time.

        This is for callers that wait for something that will not come and that we cannot end.
        """
        peers = {peer.connection.fileno(): peer for peer in self.peers}
        hung_up = select.poll()
        for number in peers:
            hung_up.register(number, select.POLLRDHUP)

        def wait():
            number, _ = hung_up.poll()[0]
            time.sleep(NOTICE)
            if not self._leaving:
                lost(RankLost(f"{peers[number].name} has ended, so the run cannot go on."))

        threading.Thread(target=wait, daemon=True).start()


def _send(peer, array):
    for c in chunks(array.size):
        peer.send(as_bytes(array[c]))


def _receive(peer, array):
    for c in chunks(array.size):
        peer.receive(as_bytes(array[c]))


# --------------------------------------------------------------------------------------------------- meeting


def listen(host, port=0):
    """A socket that listens only at this address; port 0 takes a free one. Raises UserError if that is impossible."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        server = socket.socket(family, kind)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(address)
        server.listen()
        return server
    except (OSError, OverflowError) as error:
        reason = why(error) if isinstance(error, OSError) else error
        raise UserError(f"rank 0 cannot listen at {host}:{port}: {reason}; give another --server HOST:PORT.") from None


def serve(server, world, token=b"", say=print, patience=PATIENCE) -> TcpRanks:
    """Rank 0: wait for the others at a listening socket, then close it.

    token: 16 bytes that they must know · say(line): is told about strangers that are not ranks of this run. Raises
    UserError if not all have connected after `patience` seconds, and if the ranks do not agree on who they are.
    """
    end, peers = time.monotonic() + patience, {}
    where = "{}:{}".format(*server.getsockname()[:2])
    try:
        while len(peers) < world - 1:
            server.settimeout(max(0.01, end - time.monotonic()))
            try:
                connection, (stranger, *_) = server.accept()
            except TimeoutError:
                missing = ", ".join(str(rank) for rank in range(1, world) if rank not in peers)
                raise UserError(
                    f"after {patience:.0f} seconds, rank {missing} of {world} has not connected to {where}; start all"
                    " ranks with the same --server, --world and LLMC_SECRET."
                ) from None
            rank, its_world = _hello(connection, token)
            if rank is None:
                say(f"ignored a connection to {where} from {stranger}, which is not a rank of this run.")
                connection.close()
                continue
            with suppress(OSError):  # whoever hangs up so early is missed in a moment
                connection.sendall(GREETING)
            peer = Peer(connection, f"rank {rank}")
            wrong = _wrong(rank, its_world, world, peers)
            if wrong:
                peer.close(wrong)
                raise UserError(wrong)
            peers[rank] = peer
        ranks = TcpRanks(0, world, [peers[rank] for rank in range(1, world)])
    except UserError as error:
        for peer in peers.values():
            peer.close(str(error))
        raise
    finally:
        server.close()
    return _with_neighbours(ranks)


def _hello(connection, token):
    """(rank, world) of a new connection; (None, None) unless it sends the greeting that ranks send."""
    connection.settimeout(ANSWER)
    said = b""
    try:
        while len(said) < HELLO.size and (more := connection.recv(HELLO.size - len(said))):
            said += more
            if not said.startswith(GREETING[: len(said)]):
                break
    except OSError:
        pass
    if len(said) < HELLO.size:
        return None, None
    greeting, its_token, rank, world = HELLO.unpack(said)
    known = greeting == GREETING and hmac.compare_digest(its_token, token.ljust(16, b"\0"))
    return (rank, world) if known else (None, None)


def _wrong(rank, its_world, world, peers):
    """What is wrong with a rank that has connected; "" if nothing is."""
    if its_world != world:
        return (
            f"rank {rank} was started with --world {its_world}, but rank 0 with --world {world}; give all ranks the"
            " same."
        )
    if not 0 < rank < world or rank in peers:
        return f"two processes were started as rank {rank}; give each its own --rank, from 0 to {world - 1}."
    return ""


def join(host, port, rank, world, token=b"", patience=PATIENCE, still=None) -> TcpRanks:
    """Any other rank: connect to rank 0, which may not be there yet. Raises NotThere if it does not appear.

    still(): whether to keep waiting for an answer from whatever listens there; by default, until patience ends.
    """
    end = time.monotonic() + patience
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=max(1.0, end - time.monotonic()))
            break
        except (OSError, OverflowError) as error:
            if time.monotonic() > end or not isinstance(error, (ConnectionError, TimeoutError)):
                reason = why(error) if isinstance(error, OSError) else error
                raise NotThere(
                    f"rank {rank} cannot reach rank 0 at {host}:{port}: {reason}; check the address, and that rank 0"
                    " has started."
                ) from None
            time.sleep(0.05)
    if not _is_rank_0(connection, HELLO.pack(GREETING, token, rank, world), still or (lambda: time.monotonic() < end)):
        connection.close()
        raise NotThere(
            f"the process listening at {host}:{port} is not rank 0 of this run, or has a different LLMC_SECRET; check"
            " both."
        )
    peer = Peer(connection, "rank 0", 1.1 * SILENCE)  # it waits for the others, and knows sooner which of them is stuck
    return _with_neighbours(TcpRanks(rank, world, [peer]))


def _is_rank_0(connection, hello, still):
    """Whether the other side returns our greeting, as only a rank that knows our token can."""
    said = b""
    connection.settimeout(0.2)
    try:
        connection.sendall(hello)
        while len(said) < len(GREETING):
            try:
                more = connection.recv(len(GREETING) - len(said))
            except TimeoutError:
                if still():
                    continue
                return False
            if not more:
                return False
            said += more
    except OSError:
        return False
    return said == GREETING


def _with_neighbours(ranks):
    """The ranks, after they have found out which of them run on this machine."""
    names = ranks.exchange(socket.gethostname(), str)
    here = [rank for rank, name in enumerate(names) if name == names[ranks.rank]]
    ranks.local, ranks.neighbours = here.index(ranks.rank), len(here)
    return ranks
