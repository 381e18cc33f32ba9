"""The autoscaler's mirrors: in step by list and watch, whatever the API server says in between."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from elasticjob_operator.kube import errors, mirroring
from elasticjob_operator.kube.client import Client


def item(name: str, value: int = 0) -> dict[str, Any]:
    return {"metadata": {"uid": name, "name": name, "resourceVersion": str(value)}, "value": value}


def event(kind: str, one: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": one}


class Api(Client):
    """Lists and watches as they are scripted, one after the other; then nothing comes any more."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.asked: list[str] = []

    async def pages(self, kind: str, namespace: str | None, query: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        self.asked.append("list")
        found = self.script.pop(0)
        if isinstance(found, Exception):
            raise found
        for page in found:
            yield {"metadata": {"resourceVersion": "7"}, "items": page}

    async def watch(self, kind: str, namespace: str | None, query: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        self.asked.append(f"watch from {query['resourceVersion']}")
        if not self.script:
            await asyncio.Event().wait()
        for one in self.script.pop(0):
            if isinstance(one, Exception):
                raise one
            yield one


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirroring, "FIRST_PAUSE", 0.0)


async def mirrored(api: Api) -> tuple[dict[str, int], list[tuple[Any, Any]]]:
    """What is mirrored when the script has been played, and what was told on the way."""
    told: list[tuple[Any, Any]] = []

    def parse(data: Mapping[str, Any]) -> tuple[str, int] | None:
        return (data["metadata"]["name"], 10 // data["value"]) if data["value"] != 99 else None

    mirror = mirroring.Mirror(api, "Node", parse, lambda old, new: told.append((old, new)))
    task = asyncio.create_task(mirror.run())
    while api.script or not mirror.ready.is_set():  # noqa: ASYNC110 - until the script has been played
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return dict(mirror.items), told


async def test_it_begins_with_the_list_and_follows_the_watch() -> None:
    changes = [event("ADDED", item("c", 5)), event("MODIFIED", item("a", 2)), event("DELETED", item("b", 9))]
    api = Api([[item("a", 1)], [item("b", 10)]], changes)

    found, told = await mirrored(api)

    assert found == {"a": 5, "c": 2}
    assert told[-1] == (("b", 1), None)
    assert api.asked == ["list", "watch from 7", "watch from 9"]


async def test_what_says_the_same_is_no_news_and_a_bookmark_moves_on() -> None:
    api = Api([[item("a", 6)]], [event("MODIFIED", item("a", 7)), event("BOOKMARK", item("", 50))])

    found, told = await mirrored(api)

    assert (found, len(told)) == ({"a": 1}, 1)
    assert api.asked[-1] == "watch from 50"


@pytest.mark.parametrize(
    "end", [event("ERROR", {"code": 410, "message": "too old"}), errors.UnavailableError(0, "cut off")]
)
async def test_a_watch_that_is_lost_is_begun_anew_with_a_list_that_finds_what_is_gone(end: Any) -> None:
    api = Api([[item("a", 1), item("b", 1)]], [end], [[item("b", 1)]])

    found, told = await mirrored(api)

    assert found == {"b": 10}
    assert told[-1] == (("a", 10), None)
    assert api.asked == ["list", "watch from 7", "list", "watch from 7"]


async def test_a_list_that_fails_is_asked_for_again() -> None:
    found, _ = await mirrored(Api(errors.ForbiddenError(403, "no right"), [[item("a", 1)]]))

    assert found == {"a": 10}


async def test_what_cannot_be_read_or_does_not_matter_is_not_there() -> None:
    with_zero = [[item("bad", 0), item("nothing", 99), item("good", 5)]]

    found, _ = await mirrored(Api(with_zero, [event("MODIFIED", item("good", 0))]))

    assert found == {}
