"""Which Leases are believed, what a write in vain means, and what a 404 means: without an API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from elasticjob_rendezvous import kube, mirror, seat
from elasticjob_rendezvous.round import lease

MINE, THEIRS = "0000000a", "0000000b"


def body(name: str, slot: str, *, nonce: str = MINE, version: int = 1, job: str = "a") -> kube.Object:
    found = lease.SlotLease(slot=0, pod="pod", nonce=nonce, arrived=1, store="10.0.0.1:1", seen=1)
    labels = {lease.JOB_LABEL: job, lease.SLOT_LABEL: slot}
    metadata = {
        "name": name,
        "resourceVersion": str(version),
        "labels": labels,
        "annotations": lease.annotations(found),
    }
    return {"metadata": metadata, "spec": {"holderIdentity": lease.holder(found)}}


# Whose they are


def test_a_slots_lease_is_seen() -> None:
    assert seat.sighted(mirror.Seen(body("a-1", "1"), 0.0), default_limit=1).lease.slot == 1


@pytest.mark.parametrize(
    ("name", "slot"), [("b-0", "1"), ("a-0", "1"), ("a--1", "-1"), ("a-1024", "1024"), ("a-x", "x")]
)
def test_a_lease_that_only_says_that_it_is_a_slots_is_not(name: str, slot: str) -> None:
    with pytest.raises(ValueError, match=r"slot|invalid literal"):
        seat.sighted(mirror.Seen(body(name, slot), 0.0), default_limit=1)


# Writes in vain


class Contested:
    """A Lease that somebody else writes first, each time. Its holder is *holder*."""

    namespace = "default"

    def __init__(self, holder: str) -> None:
        self.holder, self.version = holder, 1

    def get(self, *_: Any) -> kube.Object:
        self.version += 1
        return body("a-0", "0", nonce=self.holder, version=self.version)

    def replace(self, *_: Any) -> None:
        return None


def held(api: Any) -> seat.Seat:
    mine = seat.Seat(api, job_name="a", job="run", slot=0, pod="pod", nonce=MINE, limit=10)
    mine._keep(body("a-0", "0"))
    assert mine.held
    return mine


def test_a_lease_that_others_write_first_is_still_ours() -> None:
    mine = held(Contested(MINE))
    with pytest.raises(kube.UnreachableError, match="others wrote it first"):
        mine.write()
    assert not mine.lost


def test_a_lease_that_another_holds_is_lost() -> None:
    mine = held(Contested(THEIRS))
    assert not mine.write()
    assert mine.lost


class Interrupted:
    """A Lease whose writer gets a signal between its request and the reply."""

    namespace = "default"

    def __init__(self) -> None:
        self.body = {"metadata": {"name": "a-0", "resourceVersion": "1"}, "spec": {}}

    def get(self, *_: Any) -> kube.Object:
        return self.body

    def replace(self, _: kube.Kind, new: kube.Object) -> kube.Object:
        self.body = {**new, "metadata": {**new["metadata"], "resourceVersion": "2"}}
        raise SystemExit


def test_a_slot_that_was_taken_when_the_signal_came_is_known_to_be_ours() -> None:
    mine = seat.Seat(Interrupted(), job_name="a", job="run", slot=0, pod="pod", nonce=MINE, limit=10)  # type: ignore[arg-type]
    mine.read()
    with pytest.raises(SystemExit):
        mine.take(1, "10.0.0.1:1")
    assert not mine.held
    mine.settle()
    assert mine.held


# 404


class Response:
    status = 404

    def __init__(self, text: str) -> None:
        self._text = text

    def read(self, _: int) -> bytes:
        return self._text.encode()


STATUS = {"kind": "Status", "reason": "NotFound", "message": "leases 'a-0' not found", "code": 404}


@pytest.mark.parametrize(
    "text",
    [
        "<html>default backend</html>",
        "404 page not found",
        "[]",
        "{}",
        json.dumps({**STATUS, "kind": "Error"}),
        json.dumps({**STATUS, "reason": ""}),
    ],
)
def test_a_proxys_404_is_not_the_absence_of_an_object(text: str) -> None:
    with pytest.raises(kube.UnreachableError, match="a proxy's"):
        kube._check("get leases", "get", kube.LEASE, Response(text))


def test_an_absent_object_is_one_that_the_api_server_calls_so() -> None:
    with pytest.raises(kube._NotFoundError, match="'a-0' not found"):
        kube._check("get leases", "get", kube.LEASE, Response(json.dumps(STATUS)))
