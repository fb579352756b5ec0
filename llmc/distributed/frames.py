"""Messages over a socket: one byte for the kind of message, the length, then the bytes.

A rank that ends too early sends the reason as its last message, so that the others can tell the user.
"""

import socket
import struct

from llmc.distributed.ranks import RankLost
from llmc.errors import why

HEAD = struct.Struct("<cQ")
DATA, END = b"D", b"E"
SMALL = 1 << 16  # bytes that are sent together with their length
LONGEST_TEXT = 1 << 26  # bytes of a value or a reason; more would be another program's
SILENCE = 600.0  # seconds without a byte after which a rank counts as stuck: longer than any checkpoint takes
ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}  # a machine without power is missed after 30 s


class Peer:
    """The connection to one rank. name: "rank 1", for messages · silence: the seconds to wait for its next byte."""

    def __init__(self, connection, name, silence=SILENCE):
        self.connection, self.name, self.silence = connection, name, silence
        connection.settimeout(silence)
        if connection.family != getattr(socket, "AF_UNIX", None):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in ALIVE.items():
                if hasattr(socket, option):  # not on every system
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def send(self, data, kind=DATA):
        """Send the contents of a bytes-like object."""
        data = memoryview(data)
        head, small = HEAD.pack(kind, data.nbytes), data.nbytes <= SMALL
        try:
            self.connection.sendall(head + bytes(data) if small else head)
            if not small:
                self.connection.sendall(data)
        except OSError as error:
            raise self._lost(error) from None

    def receive(self, into=None):
        """Receive the next message; into: a writable memoryview that it must fill exactly.

        Raises RankLost if the rank has ended, with the reason if it gave one.
        """
        kind, size = HEAD.unpack(self._read(memoryview(bytearray(HEAD.size))))
        if kind == END and size < LONGEST_TEXT:
            reason = bytes(self._read(memoryview(bytearray(size)))).decode("utf-8", "replace")
            raise RankLost(f"{self.name} has ended: {reason}")
        if kind != DATA or (size != into.nbytes if into is not None else size > LONGEST_TEXT):
            raise RankLost(
                f"{self.name} sent something that this run does not expect; use the same version of llmc on all ranks."
            )
        return self._read(memoryview(bytearray(size)) if into is None else into)

    def _read(self, view):
        done = 0
        while done < view.nbytes:
            try:
                count = self.connection.recv_into(view[done:])
            except OSError as error:
                raise self._lost(error) from None
            if not count:
                raise self._lost()
            done += count
        return view

    def _lost(self, error=None):
        """The RankLost for a lost connection; if the rank still had something to say, that comes first."""
        if isinstance(error, TimeoutError) and error.errno is None:  # ours, not that of a machine that is gone
            silence = f"{self.silence:.0f} seconds"
            return RankLost(f"{self.name} has been silent for {silence}, so it seems stuck; start all ranks again.")
        details = f" ({why(error)})" if error and not isinstance(error, (ConnectionError, ValueError)) else ""
        return RankLost(f"{self.name} has ended{details}, so the run cannot go on.")

    def close(self, reason=""):
        """Send the reason, if there is one, and hang up."""
        try:
            if reason:
                self.connection.settimeout(1.0)  # the other side may not be listening
                self.send(reason.encode(), END)
            self.connection.shutdown(socket.SHUT_WR)
            while reason and self.connection.recv(1 << 16):
                pass  # to close with unread bytes would take the reason away again
        except (OSError, RankLost):
            pass
        self.connection.close()
