"""The client: what of an API server's answers it believes, and what it asks for again."""

import asyncio
import dataclasses
import json
from typing import Any

import pytest
from kubernetes.aio.client import configuration

from elasticjob_operator.kube import client as clients
from elasticjob_operator.kube import errors


@dataclasses.dataclass
class Response:
    """One answer of the API server."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = dataclasses.field(default_factory=dict)

    async def read(self) -> bytes:
        return json.dumps(self.body).encode()


class Server:
    """Answers with what it was given, one after the other."""

    def __init__(self, *answers: Response) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def request(self, method: str, url: str, **_: object) -> Response:
        self.asked.append(method)
        return self.answers.pop(0)


def made(monkeypatch: pytest.MonkeyPatch, *answers: Response) -> tuple[clients.Client, Server, list[float]]:
    """A client of such a server, and the pauses that it makes."""
    client, server, pauses = clients.Client(configuration.Configuration()), Server(*answers), list[float]()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(client._client, "rest_client", server)
    monkeypatch.setattr(asyncio, "sleep", pause)
    return client, server, pauses


def busy(status: int = 429, **headers: str) -> Response:
    return Response(status, {"kind": "Status", "message": "busy"}, headers)


def a_list(version: object) -> Response:
    return Response(200, {"metadata": {"resourceVersion": str(version)}, "items": []})


async def test_a_read_is_repeated_when_the_server_says_or_ever_more_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = busy(503), busy(429, **{"Retry-After": "2"}), busy(500), a_list(1)
    client, _, pauses = made(monkeypatch, *answers)

    assert await client.list("Pod", "default") == []
    assert pauses == [0.2, 2.0, 0.8]


@pytest.mark.parametrize("status", [429, 500, 503, 504])
async def test_a_write_is_not_repeated_since_it_may_have_been_carried_out(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    client, server, _ = made(monkeypatch, busy(status))

    with pytest.raises(errors.UnavailableError):
        await client.create("ConfigMap", {"metadata": {"namespace": "default", "name": "x"}})
    assert server.asked == ["POST"]


async def test_a_read_is_given_up_after_a_few_times_and_at_once_where_the_wait_is_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, server, _ = made(monkeypatch, *(busy() for _ in range(9)))
    with pytest.raises(errors.UnavailableError):
        await client.get("Pod", "default", "x")
    assert len(server.asked) == clients.REPEATS + 1

    client, server, pauses = made(monkeypatch, busy(429, **{"Retry-After": "60"}))
    with pytest.raises(errors.UnavailableError, match="busy") as told:
        await client.get("Pod", "default", "x")
    assert (told.value.retry_after, pauses) == (60, [])


async def test_a_list_that_is_older_than_what_was_known_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    made_pod = Response(201, {"metadata": {"resourceVersion": "7"}})
    client, *_ = made(monkeypatch, a_list(5), made_pod, a_list(6), a_list(7))

    await client.list("Pod", "default")
    await client.create("Pod", {"metadata": {"namespace": "default", "name": "x"}})
    with pytest.raises(errors.UnavailableError, match="of Pods is of 6, and 7 was read"):
        await client.list("Pod", "default")
    assert await client.list("Pod", "default") == []


async def test_versions_of_other_kinds_or_of_another_form_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    client, *_ = made(monkeypatch, a_list(9), a_list(5), a_list("x9"), a_list("x5"))

    await client.list("Lease", "default")
    for kind in ("Pod", "Service", "Service"):
        await client.list(kind, "default")


async def test_a_server_that_stays_behind_is_believed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    client, *_ = made(monkeypatch, a_list(9), *(a_list(5) for _ in range(3)))
    monkeypatch.setattr(clients, "LAG_SECONDS", 0.0)

    await client.list("Pod", "default")
    assert await client.list("Pod", "default") == []
    assert await client.list("Pod", "default") == []
