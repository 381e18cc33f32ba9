"""What is left of a job that is over, and for how long."""

from typing import Any

import pytest

from elasticjob_operator.api.conditions import Condition
from elasticjob_operator.core import cleaning, deciding
from elasticjob_operator.core.actions import Decision, DeleteJob
from elasticjob_rendezvous.round.record import Phase
from support import operator_builders as build
from support.operator_builders import NOW, a_job, a_pod, a_round, at, known_of, running
from support.operator_world import World

PODS = {
    "pending": a_pod(0, phase="Pending", started=False),
    "running": a_pod(1),
    "done": a_pod(2, phase="Succeeded", started=False),
    "with a side car": a_pod(3, phase="Succeeded", started=False, trainer_ended=NOW - 60),
    "deleted": a_pod(4, deleting=True),
}


@pytest.mark.parametrize(
    ("policy", "early", "late"),
    [
        ("Running", {"pending", "with a side car"}, {"pending", "with a side car", "running"}),
        ("All", {"pending", "with a side car", "done"}, {"pending", "with a side car", "done", "running"}),
        ("None", {"pending"}, {"pending"}),
    ],
)
def test_which_pods_go_is_the_jobs_own_choice(policy: str, early: set[str], late: set[str]) -> None:
    record = a_round(Phase.CLOSED)
    job = a_job(nodes=2, cleanPodPolicy=policy, known=known_of(record))
    situation = at(running(record=record, job=job, having=PODS.values()))
    names = {pod.name: what for what, pod in PODS.items()}

    def gone(age: int) -> set[str]:
        return {names[a.name] for a in cleaning.actions(situation, NOW - age) if hasattr(a, "name")}

    assert gone(0) == early
    assert gone(60) == late


def test_pods_that_are_left_as_they_are_do_not_hold_up_the_end() -> None:
    record = a_round(Phase.CLOSED)

    def state(age: int) -> str:
        job = a_job(nodes=2, cleanPodPolicy="None", known=known_of(record, round_time=NOW - age))
        return deciding.decide(running(record=record, job=job), NOW).status.state

    assert (state(59), state(60)) == ("Finishing", "Succeeded")


def finished(ttl: int | None, *, ago: int, **fields: Any) -> Decision:
    """What is decided about a job that ended so long *ago*."""
    ended = (Condition("Succeeded", holds=True, reason="AllFinished"),)
    record = a_round(Phase.CLOSED)
    known = known_of(record, conditions=ended, completion_time=NOW - ago, result="Succeeded", **fields)
    return deciding.decide(
        running(record=record, job=a_job(nodes=2, known=known, ttlSecondsAfterFinished=ttl), having=[]), NOW
    )


@pytest.mark.parametrize(
    ("ttl", "ago", "goes", "wake"),
    [(60, 59, False, 1), (60, 60, True, None), (0, 0, True, None), (None, 999, False, None)],
)
def test_a_finished_job_is_deleted_after_its_time_to_live(
    ttl: int | None, ago: int, *, goes: bool, wake: int | None
) -> None:
    decision = finished(ttl, ago=ago)

    assert (DeleteJob(build.UID) in decision.actions, decision.wake_after) == (goes, wake)


def test_a_clock_that_is_set_back_deletes_no_job_early() -> None:
    decision = finished(60, ago=-3600)

    assert DeleteJob(build.UID) not in decision.actions
    assert (decision.wake_after, decision.status.completion_time) == (60, NOW)


def test_time_to_live_begins_with_the_end_and_not_before() -> None:
    world = World(ttlSecondsAfterFinished=300)
    world.settle()
    assert not world.deleted

    world.finish()
    world.settle(minutes=3)
    assert (world.status["state"], world.deleted) == ("Succeeded", False)
    world.settle(minutes=6)

    assert world.deleted
