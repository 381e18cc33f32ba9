"""The judge of audit logs: what is right it lets pass, and each thing that must never be it finds."""

import dataclasses
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from elasticjob_rendezvous.round import lease, record
from elasticjob_rendezvous.round.record import Member, Phase
from support import audit_invariants
from support import operator_builders as build

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
OWNER = [{"kind": "ElasticJob", "uid": build.UID, "name": "digits"}]


class Log:
    """An audit log in the making: each write begins a second after the one before, and takes half a second."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def add(
        self, verb: str, resource: str, name: str, answer: dict[str, Any], *, sub: str = "", code: int = 200
    ) -> None:
        began = START + timedelta(seconds=len(self.entries))
        meta = {"resourceVersion": str(len(self.entries) + 1), "name": name, "namespace": "here"}
        meta |= answer.get("metadata") or {}
        self.entries.append({
            "verb": verb,
            "objectRef": {"resource": resource, "namespace": "here", "name": name, "subresource": sub},
            "user": {"username": audit_invariants.OPERATOR},
            "responseStatus": {"code": code},
            "requestReceivedTimestamp": began.isoformat(),
            "stageTimestamp": (began + timedelta(seconds=0.5)).isoformat(),
            "requestObject": answer,
            "responseObject": {**answer, "metadata": meta},
        })  # fmt: skip

    def job(self, verb: str = "update", /, **status: int) -> None:
        meta = {"uid": build.UID}
        found = {"kind": "ElasticJob", "metadata": meta, "spec": {"maxNodes": 2}, "status": status}
        self.add(verb, "elasticjobs", "digits", found, sub="status" if status else "")

    def pod(self, verb: str, slot: int, number: int = 0, *, phase: str = "Pending", sub: str = "") -> None:
        name = f"digits-{slot}-{number}"
        meta = {"uid": name, "labels": {"elasticjob.dev/job-name": "digits"}, "ownerReferences": OWNER}
        self.add(verb, "pods", name, {"kind": "Pod", "metadata": meta, "status": {"phase": phase}}, sub=sub)

    def lease(self, slot: int, number: int = 0, *, finished: int = 0) -> None:
        """The slot is taken by this pod."""
        value = dataclasses.replace(build.held(slot, number), pod=f"digits-{slot}-{number}", finished=finished)
        answer = {
            "metadata": {"annotations": lease.annotations(value)},
            "spec": {"holderIdentity": lease.holder(value)},
        }
        self.add("update", "leases", f"digits-{slot}", answer)

    def round(self, found: record.Record) -> None:
        self.add("update", "configmaps", "digits-rendezvous", {"data": {record.KEY: record.dump(found)}})


@pytest.fixture
def log() -> Log:
    """What a good run has written so far: a job of two nodes that trains."""
    log = Log()
    log.job("create")
    for slot in range(2):
        log.pod("create", slot)
        log.pod("patch", slot, phase="Running", sub="status")
    log.round(build.a_round(Phase.OPEN))
    log.round(build.a_round())
    log.job(failures=0)
    return log


def test_a_good_run_has_nothing_wrong_in_it(log: Log) -> None:
    log.pod("patch", 1, phase="Failed", sub="status")
    log.job(failedPods=1)
    log.pod("create", 1, 1)
    log.round(build.a_round(Phase.OPEN, 2))
    log.round(build.a_round(number=2, members={0: 0, 1: 1}))
    log.pod("delete", 0)
    log.pod("create", 0, 1)
    log.job(failedPods=1, disruptions=1)
    log.round(build.a_round(Phase.CLOSED, 2, members={0: 0, 1: 1}))

    assert audit_invariants.violations(log.entries) == []


def test_one_pod_too_many_is_found(log: Log) -> None:
    log.pod("create", 1, 1)

    assert "3 pods at once where 2 are allowed" in audit_invariants.violations(log.entries)[0]


def test_a_pod_that_the_api_server_has_refused_is_none(log: Log) -> None:
    log.pod("create", 1, 1)
    log.entries[-1]["responseStatus"]["code"] = 409

    assert audit_invariants.violations(log.entries) == []


def test_a_pod_that_may_have_ended_first_is_not_too_many(log: Log) -> None:
    log.pod("create", 1, 1)
    log.pod("delete", 1)
    log.entries[-1]["requestReceivedTimestamp"] = log.entries[-2]["requestReceivedTimestamp"]

    assert audit_invariants.violations(log.entries) == []


@pytest.mark.parametrize(
    "follows",
    [build.a_round(Phase.OPEN, 1), build.a_round(Phase.OPEN, 2)],
    ids=["a round is opened again", "an earlier round comes back"],
)
def test_rounds_that_go_back_are_found(log: Log, follows: record.Record) -> None:
    log.round(build.a_round(number=2) if follows.number == 1 else build.a_round(number=3))
    log.round(follows)

    assert any("follows" in found for found in audit_invariants.violations(log.entries))


def test_a_rank_with_two_holders_is_found(log: Log) -> None:
    log.round(dataclasses.replace(build.a_round(), members=(Member(0, build.nonce(0)), Member(1, build.nonce(1, 7)))))

    assert "two memberships" in audit_invariants.violations(log.entries)[0]


@pytest.mark.parametrize("counter", ["failedPods", "disruptions"])
def test_a_pod_that_is_counted_twice_is_found(log: Log, counter: str) -> None:
    log.pod("patch", 1, phase="Failed", sub="status")
    log.job("update", **{counter: 2})

    assert f"{counter} is 2 where 1 pods could be counted" in audit_invariants.violations(log.entries)[0]


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        (lambda log: log.pod("delete", 1), True),
        (lambda log: log.pod("patch", 1, phase="Failed", sub="status"), True),
        (lambda log: (log.lease(1, finished=1), log.pod("delete", 1)), False),
        (lambda log: (log.round(build.a_round(Phase.OPEN, 2, plan=(0,))), log.pod("delete", 1)), False),
        (lambda log: (log.pod("delete", 1), log.round(build.a_round(Phase.CLOSED))), False),
    ],
)
def test_a_lost_pod_that_is_never_counted_is_found(log: Log, ends: Callable[[Log], None], *, told: bool) -> None:
    log.lease(1)
    log.round(build.a_round())
    ends(log)
    for entry in log.entries:  # the operator's own deletions are another matter
        if entry["verb"] == "delete":
            entry["user"] = {"username": "somebody"}
    log.job(failures=0)
    early = audit_invariants.violations(log.entries)
    for _ in range(5):
        log.job(failures=0)

    found = audit_invariants.violations(log.entries)

    assert early == []
    assert found == (["0 pods are counted where 1 were lost or failed: here/digits-1-0"] if told else [])
    log.job(failures=0, disruptions=1)
    assert [one for one in audit_invariants.violations(log.entries) if "were lost" in one] == []


def test_a_counter_that_goes_back_is_found(log: Log) -> None:
    log.job(failures=2)
    log.job(failures=1)

    assert "failures 2 -> 1" in audit_invariants.violations(log.entries)[0]


def test_what_outlives_its_job_is_found_when_it_has_had_time_to_go(log: Log) -> None:
    log.job("delete")
    log.pod("delete", 0)
    before = audit_invariants.violations(log.entries)
    for _ in range(70):
        log.add("update", "leases", "other", {})

    assert before == []
    assert audit_invariants.violations(log.entries) == [
        f"its job is gone, and it stays: 00:00:03.500000 {audit_invariants.OPERATOR} create pods/here/digits-1-0"
    ]


def test_a_write_that_nothing_called_for_is_found(log: Log) -> None:
    rest = START + timedelta(seconds=len(log.entries) - 0.1)
    log.add("update", "leases", "elasticjob-operator", {})
    assert audit_invariants.unrest(log.entries, "here", rest) == []

    log.job(failures=0)
    assert len(audit_invariants.unrest(log.entries, "here", rest)) == 1
    assert audit_invariants.unrest(log.entries, "elsewhere", rest) == []
