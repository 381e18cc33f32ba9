"""A job that rests, and starts again where it was."""

from typing import Any

import pytest

from elasticjob_operator.core import deciding
from elasticjob_operator.core.actions import DeletePod
from elasticjob_rendezvous.round.record import Phase, Reason
from support import operator_builders as build
from support.operator_builders import NOW, a_job, a_pod, a_round, held, known_of, running, seen
from support.operator_world import World


def at_rest(world: World) -> None:
    """No pod is left, and the status says so."""
    assert not [p for p in world.pods.values() if p.live]
    assert not world.processes
    assert (world.status["state"], world.status["nodes"], world.status["wantedNodes"]) == ("Suspended", 0, 0)
    assert "startTime" not in world.status


def test_a_job_that_is_suspended_saves_first_and_has_no_pods_then() -> None:
    world = World(nodes=3)
    world.settle()

    world.edit(suspend=True)
    world.operate()
    assert world.record is not None
    assert world.record.notice is not None
    assert world.record.phase is Phase.SEALED
    world.settle()

    at_rest(world)
    assert (world.record.phase, world.record.reason, world.record.plan) == (Phase.OPEN, Reason.SUSPENDED, frozenset())
    assert (world.status["failures"], world.status["disruptions"], world.status["resizes"]) == (0, 0, 0)
    assert world.operate() is False


def test_a_resumed_job_starts_with_all_its_nodes_and_the_same_counters() -> None:
    world = World(nodes=3, newcomerTimeoutSeconds=60)
    world.settle()
    world.workers_fail("digits-1-0")
    world.fail("digits-2-0")
    world.settle()
    before = {name: world.status[name] for name in ("failures", "failedPods", "lastFailure")}
    world.edit(suspend=True)
    world.settle(minutes=100)

    world.edit(suspend=False)
    world.settle()

    assert world.status["state"] == "Running"
    assert {name: world.status[name] for name in before} == before
    assert (world.history[-1].reason, len(world.history[-1].members)) == (Reason.RESUMED, 3)
    assert [e.reason for e in world.events if e.reason in ("Suspended", "Resumed")] == ["Suspended", "Resumed"]


def test_a_job_that_is_made_suspended_has_no_pods_until_it_is_resumed() -> None:
    world = World(nodes=2, suspend=True, startupDeadlineSeconds=60, activeDeadlineSeconds=3600)
    world.settle(minutes=100)
    at_rest(world)
    assert world.births == 0

    world.edit(suspend=False)
    world.settle()

    assert world.status["state"] == "Running"
    assert [(r.number, r.reason) for r in world.history] == [(1, Reason.STARTED)]


@pytest.mark.parametrize("turns", range(0, 24, 3))
def test_suspended_and_resumed_at_any_moment_it_trains_again(turns: int) -> None:
    world = World(nodes=2, warming=2)
    world.settle()
    world.edit(suspend=True)
    for _ in range(turns):
        world.operate()
        world.agents()

    world.edit(suspend=False)
    world.settle()

    assert (world.status["state"], world.status["nodes"]) == ("Running", 2)
    assert (world.status["failures"], world.status["disruptions"]) == (0, 0)


def test_work_that_is_finished_is_a_success_even_while_the_job_is_suspended() -> None:
    record = a_round(Phase.OPEN, 2, plan=(), members=(0, 1), reason=Reason.SUSPENDED)
    job = a_job(suspend=True, known=known_of(record))

    leases = [held(0, finished=1), held(1, finished=1)]
    new = deciding.decide(seen(record, job=job, leases=leases, having=[a_pod(0, phase="Succeeded")]), NOW).status

    assert new.result == "Succeeded"


def test_the_end_that_has_begun_is_not_interrupted() -> None:
    world = World(nodes=2)
    world.settle()
    world.finish()
    world.agents()
    world.agents()

    world.edit(suspend=True)
    world.settle()

    assert world.status["state"] == "Succeeded"


def test_pods_that_do_not_end_by_themselves_are_deleted() -> None:
    record = a_round(Phase.OPEN, 2, plan=(), members=(0, 1), reason=Reason.SUSPENDED)

    def deleted(age: int) -> list[Any]:
        job = a_job(suspend=True, known=known_of(record, round_time=NOW - age))
        decision = deciding.decide(running(job=job, record=record), NOW)
        return [a.name for a in decision.actions if isinstance(a, DeletePod)]

    assert deleted(59) == []
    assert deleted(60) == ["digits-0-0", "digits-1-0"]


def test_a_pod_that_was_sent_away_counts_for_nothing_though_its_slot_is_wanted_again() -> None:
    away = running(
        (0, 1),
        job=a_job(nodes=1, known=known_of(a_round(plan=(0,)))),
        record=a_round(plan=(0,)),
        having=[a_pod(0), a_pod(1, deleting=True)],
    )
    known = deciding.decide(away, NOW).status

    again = running(
        (0, 1),
        job=a_job(nodes=2, known=known),
        record=a_round(plan=(0, 1), members=(0,)),
        having=[a_pod(0), a_pod(1, deleting=True)],
    )

    assert build.uid(1) in known.counted
    assert deciding.decide(again, NOW).status.disruptions == 0


def test_a_job_that_is_being_suspended_says_why_it_ends() -> None:
    job = a_job(nodes=2, suspend=True, known=known_of(a_round()))

    new = deciding.decide(running(job=job), NOW).status

    assert (new.state, new.reason) == ("Suspending", "Suspended")
