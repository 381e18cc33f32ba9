"""What answers the API's requests may be no API server: whatever it says is an error of ours, or a value."""

from __future__ import annotations

import contextlib
import json
import pathlib
import socket
import types
from typing import TYPE_CHECKING, Any

import pytest

from elasticjob_rendezvous import kube, stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OPEN = pathlib.Path("/proc/self/fd")


def api(text: bytes) -> kube.Kube:
    """A client whose every request is answered with *text*."""
    mine = object.__new__(kube.Kube)
    mine.namespace = "default"

    @contextlib.contextmanager
    def response(*_: Any, **__: Any) -> Iterator[Any]:
        yield types.SimpleNamespace(read=lambda _most: text)

    mine._response = response  # type: ignore[method-assign]
    return mine


@pytest.mark.parametrize("answer", [{}, [], None, 7, {"metadata": {}}, {"metadata": None}, {"items": []}])
@pytest.mark.parametrize(
    "call",
    [
        lambda mine: mine.get(kube.LEASE, "x"),
        lambda mine: mine.create(kube.LEASE, {"metadata": {"name": "x"}}),
        lambda mine: mine.replace(kube.LEASE, {"metadata": {"name": "x"}}),
        lambda mine: mine.list(kube.LEASE, {}),
    ],
)
def test_json_that_is_no_object_of_the_api_is_no_answer(answer: Any, call: Callable[[kube.Kube], Any]) -> None:
    with pytest.raises(kube.UnreachableError, match="not an API server's answer"):
        call(api(json.dumps(answer).encode()))


@pytest.mark.parametrize(
    ("text", "seconds"), [("7", 7.0), ("900", 60.0), ("nan", 0.0), ("-1", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0)]
)
def test_a_wish_to_wait_is_a_bounded_number_of_seconds(text: str, seconds: float) -> None:
    assert kube._retry_after({"Retry-After": text}) == seconds
    assert kube._retry_after({}) == 0.0


def test_connections_that_are_cut_off_cost_no_descriptor(tmp_path: pathlib.Path) -> None:
    with (
        (tmp_path / "file").open("wb"),
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as mine,
    ):
        mine.settimeout(30)
        before = len(list(_OPEN.iterdir()))
        stores.cut_off({server.getsockname()[1]})

        assert mine.recv(1) == b""
        assert len(list(_OPEN.iterdir())) == before
