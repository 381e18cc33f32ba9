"""The watched namespace: events change what is seen, wake who waits, and survive a server that goes away."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import pytest

from demo import watching
from demo.api import UnreachableError
from elasticjob_rendezvous.round import lease, record
from support.e2e_records import lease as slot_lease
from support.e2e_records import sealed_record

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

END = object()


class Response:
    """What ends a watch from outside."""

    def __init__(self, events: queue.Queue[Any]) -> None:
        self._events = events

    def shutdown(self) -> None:
        self._events.put(END)


class FakeApi:
    """An API server with one namespace: lists what it is told to, streams what is put on the kind's queue."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {kind: [] for kind in watching.KINDS}
        self.queues: dict[str, queue.Queue[Any]] = {kind: queue.Queue() for kind in watching.KINDS}
        self.failures = 0

    def get(self, path: str) -> dict[str, Any]:
        if self.failures:
            self.failures -= 1
            raise UnreachableError(path)
        return {"metadata": {"resourceVersion": "1"}, "items": self.lists[path.rpartition("/")[2]]}

    def events(self, path: str, *, resource_version: str, opened: Callable[[Any], None]) -> Iterator[dict[str, Any]]:
        assert resource_version == "1"
        events = self.queues[path.rpartition("/")[2]]
        opened(Response(events))
        while (event := events.get()) is not END:
            if isinstance(event, Exception):
                raise event
            yield event

    def send(self, kind: str, event: str, one: dict[str, Any]) -> None:
        self.queues[kind].put({"type": event, "object": one})


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    monkeypatch.setattr(watching, "Api", lambda _kubeconfig: fake)
    monkeypatch.setattr(watching, "RETRY_SECONDS", 0.001)
    return fake


@pytest.fixture
def view(api: FakeApi, tmp_path: pathlib.Path) -> Iterator[watching.View]:
    with watching.View(tmp_path, namespace="ns", job="digits").watched() as view:
        yield view


def pod(name: str, *, code: int | None = None) -> dict[str, Any]:
    state = {"running": {}} if code is None else {"terminated": {"exitCode": code}}
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "status": {"containerStatuses": [{"state": state}]}}


def config_map(number: int) -> dict[str, Any]:
    return {"metadata": {"name": "digits-rendezvous"}, "data": {record.KEY: record.dump(sealed_record(number))}}


def lease_object(*, round_: int, step: int) -> dict[str, Any]:
    value = slot_lease(0, round_=round_, step=step)
    labels = {lease.JOB_LABEL: "digits", lease.SLOT_LABEL: "0"}
    metadata = {"name": "digits-0", "labels": labels, "annotations": lease.annotations(value)}
    return {"metadata": metadata, "spec": {"holderIdentity": lease.holder(value)}}


def test_what_was_listed_and_what_comes_is_seen(api: FakeApi, view: watching.View) -> None:
    api.send("pods", "ADDED", pod("b"))
    view.wait("b", lambda: "b" in view.objects["pods"], seconds=5)
    api.send("pods", "MODIFIED", pod("b", code=3))
    view.wait("its end", lambda: view.exit_codes == {"b": 3}, seconds=5)
    api.send("pods", "DELETED", pod("b", code=3))
    view.wait("it to be gone", lambda: not view.objects["pods"], seconds=5)

    assert view.exit_codes == {"b": 3}
    assert view.deleted.keys() == {"b"}


def test_rounds_are_followed(api: FakeApi, view: watching.View) -> None:
    api.send("configmaps", "ADDED", config_map(4))
    api.send("leases", "ADDED", lease_object(round_=4, step=17))

    view.wait("the first step", lambda: view.history.rounds and view.history.current.trained, seconds=5)
    assert view.history.current.first_step == 17


def test_what_went_while_no_watch_was_open_is_noticed(api: FakeApi, view: watching.View) -> None:
    api.send("pods", "ADDED", pod("a"))
    view.wait("a", lambda: "a" in view.objects["pods"], seconds=5)
    api.lists["pods"] = [pod("b")]
    api.failures = 2
    api.queues["pods"].put(UnreachableError("the server went away"))

    view.wait("b instead", lambda: view.objects["pods"].keys() == {"b"}, seconds=5)
    assert "a" in view.deleted


def test_a_fault_of_the_product_reaches_who_waits(api: FakeApi, view: watching.View) -> None:
    api.send("configmaps", "ADDED", config_map(4))
    api.send("configmaps", "MODIFIED", config_map(3))

    with pytest.raises(AssertionError, match="round 3 after round 4"):
        view.wait("the impossible", lambda: None, seconds=5)


def test_waiting_ends(view: watching.View) -> None:
    told: list[str] = []
    view.impatient = lambda what, _seconds: told.append(what)

    with pytest.raises(watching.WaitError, match=r"waited 0\.05 s for Godot, in vain"):
        view.wait("Godot", lambda: None, seconds=0.05)
    assert told[0] == "Godot"
