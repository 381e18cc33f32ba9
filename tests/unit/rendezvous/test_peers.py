"""Addresses and sockets that are no good, as a peer's Lease or a full table of file descriptors may bring them."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import pytest

from elasticjob_rendezvous import links, meeting, stores
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Member

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("address", [("a..b", 80), ("10.0.0.1", 99999)])
def test_an_address_that_no_socket_takes_is_unknown(address: tuple[str, int]) -> None:
    assert links.probe(address) == (links.Peer.UNKNOWN, None)
    connections = links.Links({1: address})
    assert connections.gone(0.0) == set()
    connections.close()


def test_without_a_file_descriptor_a_peer_is_not_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socket", full)
    connections = links.Links({1: ("127.0.0.1", 1)})
    assert connections.gone(0.0) == set()
    assert links.probe(("127.0.0.1", 1)) == (links.Peer.UNKNOWN, None)


@pytest.mark.parametrize("error", [OSError("no such address"), UnicodeError("label empty"), RuntimeError("store")])
def test_a_check_in_that_fails_in_any_way_is_tried_again(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    record = changing.sealed(changing.started("job", {0}), [Member(0, "00c0ffee")], "10.0.0.1:1")
    attempt = meeting.Attempt(meeting.Place(record, 0, "10.0.0.1:1"), None)
    tries: list[None] = []

    def fail() -> None:
        tries.append(None)
        if len(tries) == 3:
            attempt.stop()
        raise error

    monkeypatch.setattr(attempt, "_try", fail)
    monkeypatch.setattr(attempt._stopped, "wait", lambda _: False)
    attempt.run()
    assert (len(tries), attempt.problem) == (3, str(error))


def test_workers_get_a_port_where_the_address_is_not_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    create: Callable[..., socket.socket] = socket.create_server

    def noted(address: tuple[str, int], **options: int) -> socket.socket:
        asked.append(address)
        return create(("127.0.0.1", 0), **options)

    monkeypatch.setattr(socket, "create_server", noted)
    monkeypatch.setenv("USE_LIBUV", "0")
    assert stores.port_for_workers("203.0.113.7:29400") > 0
    assert asked == [("", 0)]
