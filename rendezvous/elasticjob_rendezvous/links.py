"""Plain TCP connections that carry nothing: they tell at once when a peer's process is gone.

The kernel closes a dead process's connections, so a peer's death is an event and no time-out. A connection can also
break for other reasons; whether the peer is gone is asked by connecting again, and only a refusal is taken for a yes.
"""

from __future__ import annotations

import enum
import errno
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
        except (OSError, ValueError, OverflowError):  # the last two: a name or port that no socket takes
            return Peer.UNKNOWN, None
        else:
            link.setblocking(False)  # noqa: FBT003 - the standard library's signature
            return Peer.THERE, link
    return Peer.GONE, None


def asked(address: tuple[str, int]) -> Peer:
    """What a connection to *address* finds. It is not kept."""
    peer, link = probe(address)
    if link is not None:
        link.close()
    return peer


class Links:
    """Connections to some peers, by rank. Making them never waits: who can't be reached must not hold up the others."""

    def __init__(self, addresses: Mapping[int, tuple[str, int]]) -> None:
        self._addresses = addresses
        self._selector = selectors.DefaultSelector()
        for rank in addresses:
            self._connect(rank)

    def gone(self, timeout: float) -> set[int]:
        """Waits for up to *timeout* until a link breaks; returns those whose process is gone.

        Who can't be reached has no link: its silence must tell.
        """
        if not self._selector.get_map():
            time.sleep(timeout)
            return set()
        found = set()
        for key, events in self._selector.select(timeout):
            link: socket.socket = key.fileobj  # type: ignore[assignment]  # only sockets are registered
            connecting = bool(events & selectors.EVENT_WRITE)
            problem = link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if connecting and problem == 0:
                self._selector.modify(link, selectors.EVENT_READ, key.data)
            elif problem or _broken(link):
                self._selector.unregister(link)
                link.close()
                if self._gone(key.data, connected=not connecting, refused=problem == errno.ECONNREFUSED):
                    found.add(key.data)
        return found

    def close(self) -> None:
        for key in list((self._selector.get_map() or {}).values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _connect(self, rank: int) -> None:
        address, port = self._addresses[rank]
        try:
            link = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        except OSError:  # no file descriptor left
            return
        link.setblocking(False)  # noqa: FBT003 - the standard library's signature
        try:
            link.connect_ex((address, port))
        except (OSError, ValueError, OverflowError):  # as in probe
            link.close()
            return
        self._selector.register(link, selectors.EVENT_READ | selectors.EVENT_WRITE, rank)

    def _gone(self, rank: int, *, connected: bool, refused: bool) -> bool:
        """Whether the process is gone. A link that broke while its peer lives is made again."""
        if not connected and not refused:
            return False
        peer, link = probe(self._addresses[rank])
        if link is not None:
            self._selector.register(link, selectors.EVENT_READ, rank)
        return peer is Peer.GONE


def _broken(link: socket.socket) -> bool:
    """Whether the other side has closed. It never sends anything; what it does send is thrown away."""
    try:
        return link.recv(4096) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
