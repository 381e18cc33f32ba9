"""Plain TCP connections that carry nothing: they tell at once when a peer's process is gone.

The kernel closes a dead process's connections, so a peer's death is an event and no time-out. A connection can also
break for other reasons; whether the peer is gone is asked by connecting again, and only a refusal is taken for a yes.
"""

from __future__ import annotations

import contextlib
import enum
import selectors
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PROBE_TIMEOUT = 2.0
"""Seconds for a connection to a peer: some thousand times a round trip."""

_ASK_AGAIN = 0.1
"""Seconds between two refusals, both of which it takes: a server may be about to listen again."""


class Peer(enum.Enum):
    """What a probe found."""

    THERE = "there"
    GONE = "gone"
    UNKNOWN = "unknown"


def probe(address: tuple[str, int]) -> tuple[Peer, socket.socket | None]:
    """Connects to *address*. Gone is a host that answers and a process that does not."""
    for again in (True, False):
        try:
            link = socket.create_connection(address, timeout=PROBE_TIMEOUT)
        except ConnectionRefusedError:
            if again:
                time.sleep(_ASK_AGAIN)
        except OSError:
            return Peer.UNKNOWN, None
        else:
            link.setblocking(False)  # noqa: FBT003 - the standard library's signature
            return Peer.THERE, link
    return Peer.GONE, None


class Links:
    """Connections to some peers, by rank."""

    def __init__(self, addresses: Mapping[int, tuple[str, int]]) -> None:
        self._addresses = addresses
        self._selector = selectors.DefaultSelector()

    def open(self) -> set[int]:
        """Connects to all; returns those who are gone. Who can't be reached has no link: its silence must tell."""
        return {rank for rank in self._addresses if self._link(rank) is Peer.GONE}

    def gone(self, timeout: float) -> set[int]:
        """Waits for up to *timeout* until a link breaks; returns those whose process is gone."""
        if not self._selector.get_map():
            time.sleep(timeout)
            return set()
        found = set()
        for key, _ in self._selector.select(timeout):
            if not _broken(key.fileobj):  # type: ignore[arg-type]  # only sockets are registered
                continue
            self._selector.unregister(key.fileobj)
            key.fileobj.close()  # type: ignore[union-attr]
            if self._link(key.data) is Peer.GONE:
                found.add(key.data)
        return found

    def close(self) -> None:
        for key in list((self._selector.get_map() or {}).values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _link(self, rank: int) -> Peer:
        peer, link = probe(self._addresses[rank])
        if link is not None:
            self._selector.register(link, selectors.EVENT_READ, rank)
        return peer


def _broken(link: socket.socket) -> bool:
    """Whether the other side has closed. It never sends anything; what it does send is thrown away."""
    with contextlib.suppress(BlockingIOError):
        try:
            return link.recv(4096) == b""
        except OSError as error:
            return not isinstance(error, BlockingIOError)
    return False
