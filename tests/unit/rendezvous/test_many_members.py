"""What a round costs the API server does not depend on how many come to it: agents in threads, without their stores."""

from __future__ import annotations

import collections
import json
import threading
import time
import types
from typing import TYPE_CHECKING, Any

import pytest

from elasticjob_rendezvous import forming, kube, seat, session, settings, stores, traindir
from elasticjob_rendezvous.round import changing, lease
from elasticjob_rendezvous.round.record import KEY, dump
from support import rendezvous_api

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elasticjob_rendezvous.round.record import Record

SIZE = 100


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> rendezvous_api.FakeApi:
    monkeypatch.setenv(traindir.ENV, "")  # put back afterwards
    monkeypatch.setattr(stores, "bind", lambda _: types.SimpleNamespace(port=1))
    monkeypatch.setattr(forming.Forming, "_check_in", lambda _, record: record)
    return rendezvous_api.FakeApi()


def planned(api: rendezvous_api.FakeApi, size: int) -> None:
    direct = rendezvous_api.Direct(api)
    for slot in range(size):
        labels = {lease.JOB_LABEL: "a", lease.SLOT_LABEL: str(slot)}
        direct.create(kube.LEASE, {"metadata": {"name": seat.name_of("a", slot), "labels": labels}, "spec": {}})
    record = dump(changing.started("job", range(size)))
    direct.create(kube.CONFIG_MAP, {"metadata": {"name": "a-rendezvous"}, "data": {KEY: record}})
    api.requests.clear()


def members(api: rendezvous_api.FakeApi, size: int) -> Iterator[session.Session]:
    for slot in range(size):
        config = settings.parse(
            endpoint="a",
            run_id="job",
            low=1,
            high=size,
            local_addr="10.0.0.1",
            conf={},
            env={settings.SLOT_ENV: str(slot)},
        )
        yield session.Session(config, rendezvous_api.Direct(api, f"{slot}"), api_url="")


@pytest.mark.scenario(71)
def test_requests_per_member_do_not_grow_with_their_number(api: rendezvous_api.FakeApi) -> None:
    planned(api, SIZE)
    formed: list[Any] = []

    def form(mine: session.Session) -> None:
        mine.board.start()
        formed.append(forming.Forming(mine).run())
        mine.board.stop()

    threads = [threading.Thread(target=form, args=(mine,), daemon=True) for mine in members(api, SIZE)]
    for each in threads:
        each.start()
    until = time.monotonic() + 120
    for each in threads:
        each.join(max(0.0, until - time.monotonic()))
    records: list[Record] = formed
    assert {(found.number, len(found.members)) for found in records} == {(1, SIZE)}
    assert len(records) == SIZE
    asked = collections.Counter(request.client for request in api.requests)
    assert max(asked.values()) <= 12
    assert sum(asked.values()) <= 6 * SIZE
    largest = max(len(json.dumps(body)) for body in api._objects.values())
    assert largest < 200_000 / 300 * SIZE
