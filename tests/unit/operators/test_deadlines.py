"""What time ends: the deadlines of a job, and clocks that are set back."""

import dataclasses
from typing import Any

import pytest

from elasticjob_operator.api import conditions, status
from elasticjob_operator.core import closing, deciding
from elasticjob_operator.core.actions import Problem
from elasticjob_rendezvous.round.record import Phase, Reason
from support import operator_builders as build
from support.operator_builders import NOW, a_job, a_round, at, held, known_of, running
from support.operator_world import World


def why(**fields: Any) -> str | None:
    """The reason for which a job with these fields, started 600 s ago, is given up."""
    record = fields.pop("record", a_round())
    verdict = closing.failed(at(running(record=record, job=a_job(nodes=2, known=known_of(record), **fields))))
    return verdict.reason if verdict else None


@pytest.mark.parametrize(("seconds", "reason"), [(600, "DeadlineExceeded"), (601, None), (None, None)])
def test_a_job_has_so_long_to_be_done(seconds: int | None, reason: str | None) -> None:
    assert why(activeDeadlineSeconds=seconds) == reason


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (a_round(Phase.OPEN, 1), "StartupDeadlineExceeded"),
        (a_round(Phase.OPEN, 2, reason=Reason.POD_LOST), None),
        (a_round(), None),
    ],
)
def test_the_first_round_has_so_long_to_form(record: Any, reason: str | None) -> None:
    assert why(record=record, startupDeadlineSeconds=600) == reason


def test_a_late_start_is_told_with_what_the_pods_lacked() -> None:
    record = a_round(Phase.OPEN, 1)
    lacks = conditions.Condition("PodsReady", holds=False, reason="ImagePullBackOff", message="digits-0-0: no such tag")
    job = a_job(nodes=2, known=known_of(record, conditions=(lacks,)), startupDeadlineSeconds=5)

    verdict = closing.failed(at(running(record=record, job=job, leases=[])))

    assert verdict is not None
    assert verdict.message.endswith("startupDeadlineSeconds, 5 s: ImagePullBackOff: digits-0-0: no such tag")


def test_the_operator_looks_again_when_a_deadline_is_over() -> None:
    job = a_job(nodes=2, known=known_of(a_round()), activeDeadlineSeconds=630)

    assert deciding.decide(running(job=job), NOW).wake_after == 30


def test_a_job_that_is_not_done_in_time_fails_and_keeps_saying_why() -> None:
    world = World(activeDeadlineSeconds=3600)
    world.settle(minutes=30)
    assert world.status["state"] == "Running"

    world.settle(minutes=60)

    assert (world.status["state"], world.status["reason"]) == ("Failed", "DeadlineExceeded")
    assert world.status["failures"] == 0
    world.fields["activeDeadlineSeconds"] = 10**6
    world.settle()
    assert world.status["reason"] == "DeadlineExceeded"


def test_a_clock_that_is_set_back_makes_no_wait_longer_than_it_is() -> None:
    ahead = NOW + 3600
    known = known_of(
        a_round(),
        start_time=ahead,
        round_time=ahead,
        notice_time=ahead,
        last_resize=status.Resize(ahead, 1, 2, end=ahead),
        last_failure=status.Failure(0, 1, "", ahead, pod="digits-0-0"),
    )

    new = status.not_after(known, NOW)

    assert (new.start_time, new.round_time, new.notice_time) == (NOW, NOW, NOW)
    assert (new.last_resize and new.last_resize.end, new.last_failure and new.last_failure.time) == (NOW, NOW)
    assert status.not_after(new, NOW + 1) == new


def test_a_checkpoint_is_awaited_no_longer_for_a_clock_that_was_set_back() -> None:
    record = a_round(notice=build.a_notice(), plan=(0, 1, 2), members=(0, 1))
    known = known_of(record, notice_time=NOW + 3600)
    job = a_job(nodes=3, known=known)
    read = running((0, 1), record=record, job=job, leases=[held(0), held(1), held(2, arrived=2)])
    read = dataclasses.replace(read, pods=(*read.pods, build.a_pod(2)))

    first = deciding.decide(read, NOW)
    then = dataclasses.replace(read, job=dataclasses.replace(job, status=first.status))

    assert first.wake_after == 30
    assert deciding.decide(then, NOW + 30).status.round == 2


REFUSED = [
    Problem("QuotaExceeded", "exceeded quota: count/leases", "Lease"),
    Problem("ConfigMapForbidden", "", "ConfigMap"),
]


@pytest.mark.parametrize("problem", REFUSED, ids=lambda problem: problem.kind)
@pytest.mark.parametrize(
    ("field", "reason"),
    [("startupDeadlineSeconds", "StartupDeadlineExceeded"), ("activeDeadlineSeconds", "DeadlineExceeded")],
)
def test_a_deadline_ends_a_job_none_of_whose_objects_can_be_made(problem: Problem, field: str, reason: str) -> None:
    world = World(**{field: 300})
    world.refused = problem

    world.settle(minutes=1)
    assert (world.status["state"], world.status["reason"]) == ("Starting", problem.reason)

    world.settle(minutes=9)
    assert (world.status["state"], world.status["reason"]) == ("Failed", reason)
    assert problem.reason in world.status["endMessage"] or field != "startupDeadlineSeconds"


def test_a_group_goes_on_without_a_lost_pod_while_an_object_for_more_nodes_is_refused() -> None:
    world = World(nodes=2)
    world.settle()
    world.refused = REFUSED[0]
    world.edit(maxNodes=6)
    world.settle(minutes=1)

    world.kill("digits-1-0")
    world.settle(minutes=1)

    assert (world.status["state"], world.status["nodes"]) == ("Running", 1)
    assert [c["reason"] for c in world.status["conditions"] if c["type"] == "PodsReady"] == ["QuotaExceeded"]


def test_a_deadline_that_is_set_into_the_past_ends_the_job_at_once() -> None:
    world = World()
    world.settle(minutes=30)

    world.edit(activeDeadlineSeconds=10)
    world.settle(minutes=2)

    assert (world.status["state"], world.status["reason"]) == ("Failed", "DeadlineExceeded")
