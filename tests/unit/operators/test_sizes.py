"""Sizes that a job may have, and how long it is left alone between two of them."""

import random
from typing import Any

import pytest

from elasticjob_operator.api import spec
from elasticjob_operator.core import resizing, sizing
from elasticjob_operator.core.resizing import Stage
from elasticjob_rendezvous.round.record import Phase, Reason
from support import operator_builders as build
from support.operator_builders import NOW, a_job, a_pod, a_round, at, held, known_of, running
from support.operator_world import World

POWERS = {"sizes": [1, 2, 4, 8]}


@pytest.mark.parametrize(
    ("allowed", "nodes", "size"),
    [
        ({}, 5, 5),
        (POWERS, 5, 4),
        (POWERS, 8, 8),
        (POWERS, None, 8),
        ({"step": 3}, 5, 3),
        ({"step": 3}, 2, 3),
        ({"step": 3}, None, 9),
        ({"sizes": [99, 7]}, 2, 7),
    ],
)
def test_the_next_lower_allowed_size_is_wanted(allowed: dict[str, Any], nodes: int | None, size: int) -> None:
    wish = build.a_spec(minNodes=1, maxNodes=10, nodes=nodes, allowedNodes=allowed)

    assert sizing.wanted(wish).nodes == size


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        ({"step": 5}, "must allow a number"),
        ({"sizes": [9]}, "must allow a number"),
        ({"sizes": "2"}, "must be a list"),
        ({"step": "2"}, "spec.step"),
        ([2], "spec.allowedNodes must be an object"),
    ],
)
def test_sizes_that_leave_none_are_refused(allowed: Any, message: str) -> None:
    with pytest.raises(spec.SpecError, match=message):
        build.a_spec(maxNodes=4, allowedNodes=allowed)


def test_a_job_that_loses_a_node_goes_on_with_an_allowed_number_and_grows_back() -> None:
    world = World(nodes=4, maxNodes=4, allowedNodes=POWERS)
    world.settle()

    world.kill("digits-1-0")
    world.settle()

    assert [len(r.members) for r in world.history] == [4, 2, 4]
    assert sorted(world.pods) == ["digits-0-0", "digits-1-0", "digits-2-0", "digits-3-0"]
    assert (world.status["failures"], world.status["disruptions"], world.status["nodes"]) == (0, 1, 4)


@pytest.mark.parametrize("seed", range(12))
def test_a_round_never_has_another_size_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same chances at each run
    policy = {"maxFailures": 1000}
    world = World(nodes=6, minNodes=2, maxNodes=6, allowedNodes={"step": 2}, failurePolicy=policy, warming=1)
    for _ in range(60):
        what, live = chance.random(), sorted(world.processes)
        if what < 0.85:
            world.operate()
            world.agents(lambda names: [n for n in names if chance.random() < 0.6])
        elif what < 0.9:
            world.scale(chance.randint(2, 6))
        elif live:
            chance.choice([world.kill, world.fail, world.delete, world.workers_fail])(chance.choice(live))
    world.settle()

    assert {len(r.members) for r in world.history} <= {2, 4, 6}
    assert world.status["nodes"] == world.fields["nodes"] // 2 * 2


def the_stage(*, age: int, parked: int, waiting: int = 0, **fields: Any) -> Stage:
    """Where a job of one node stands that wants four, whose round was sealed *age* seconds ago."""
    record = a_round(plan=range(4), members=(0,), absent=frozenset({1, 2, 3}))
    known = known_of(record, round_time=NOW - age, waiting_since=NOW - waiting)
    leases = [held(0), *(held(slot, arrived=2) for slot in range(1, 1 + parked))]
    pods = [a_pod(slot) for slot in range(4)]
    sized = build.a_round(
        plan=range(4), members=(0,), absent=frozenset({1, 2, 3}), sizes=build.a_spec(**fields).sizes, min_nodes=1
    )
    job = a_job(nodes=4, known=known, **fields)
    return resizing.stage(at(running((0,), record=sized, job=job, leases=leases, having=pods)))


@pytest.mark.parametrize(
    ("age", "parked", "waiting", "fields", "stage"),
    [
        (0, 2, 0, {}, Stage.NEWCOMERS),
        (0, 3, 0, {}, Stage.CHECKPOINT),
        (59, 3, 0, {"resizePolicy": {"cooldownSeconds": 60}}, Stage.COOL_DOWN),
        (60, 3, 0, {"resizePolicy": {"cooldownSeconds": 60}}, Stage.CHECKPOINT),
        (0, 3, 0, {"resizePolicy": {"checkpointGraceSeconds": 0}}, Stage.REFORM),
        (999, 2, 300, {}, Stage.CHECKPOINT),
        (999, 2, 300, {"allowedNodes": {"sizes": [1, 4]}}, Stage.NEWCOMERS),
        (999, 1, 300, {"allowedNodes": POWERS}, Stage.CHECKPOINT),
    ],
)
def test_where_a_resize_stands_is_read_off_the_round(
    age: int, parked: int, waiting: int, fields: dict[str, Any], stage: Stage
) -> None:
    assert the_stage(age=age, parked=parked, waiting=waiting, **fields) is stage


def test_a_job_cools_down_before_it_takes_nodes_in_and_takes_all_that_came_meanwhile() -> None:
    world = World(nodes=2, maxNodes=4, resizePolicy={"cooldownSeconds": 600})
    world.settle(minutes=3)

    world.scale(3)
    world.settle(minutes=1)
    assert world.status["nodes"] == 2
    told = {c["type"]: c["reason"] for c in world.status["conditions"]}
    assert told["Resizing"] == "CoolingDown"
    world.scale(4)
    world.settle(minutes=20)

    assert [(r.reason, len(r.members)) for r in world.history] == [(Reason.STARTED, 2), (Reason.RESIZED, 4)]


def test_a_job_that_shrinks_does_not_wait() -> None:
    record = a_round(plan=(0, 1))
    job = a_job(nodes=1, known=known_of(record), resizePolicy={"cooldownSeconds": 600, "checkpointGraceSeconds": 0})

    assert resizing.stage(at(running((0, 1), record=record, job=job))) is Stage.REFORM
    assert resizing.stage(at(running(record=a_round(Phase.FINISHING)))) is Stage.STEADY
