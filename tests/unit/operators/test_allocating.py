"""A job whose size the autoscaler says: how it is brought to it, and what its status and events tell."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from elasticjob_operator.api import allocation, conditions
from elasticjob_operator.core import actions, deciding, sizing
from elasticjob_rendezvous.round.lease import Progress
from support import operator_builders as build
from support.operator_builders import NOW, a_job, held, known_of, running, seen
from support.operator_world import World

UNDECIDED = allocation.Allocation(0, allocation.UNDECIDED)


def given(nodes: int, reason: str = "Grown", **fields: Any) -> allocation.Allocation:
    return allocation.Allocation(nodes, reason, f"because of {reason}", NOW - 60, **fields)


@pytest.mark.parametrize(
    ("fields", "allocated", "size"),
    [
        ({}, given(3), sizing.Size(3, "Allocated")),
        ({}, given(0, "Waiting"), sizing.Size(0, "Waiting")),
        ({}, given(0, "Waiting", pending=2), sizing.Size(2, "Allocated")),
        ({}, given(9), sizing.Size(4, "Allocated")),
        ({"minNodes": 2}, given(1), sizing.Size(2, "Allocated")),
        ({"nodes": 2}, given(3), sizing.Size(2, "Nodes")),
        ({"suspend": True}, given(3), sizing.Size(0, "Suspended")),
        ({}, given(3, dry_run=True), sizing.Size(4, "MaxNodes")),
        ({}, UNDECIDED, sizing.Size(1, "Allocated")),
    ],
)
def test_the_autoscaler_says_the_size_where_nobody_else_does(
    fields: dict[str, Any], allocated: allocation.Allocation, size: sizing.Size
) -> None:
    assert sizing.wanted(build.a_spec(**fields), allocated, planned=1) == size


def test_a_new_job_is_not_touched_until_the_autoscaler_has_decided() -> None:
    decision = deciding.decide(seen(job=a_job(), allocation=UNDECIDED), NOW)

    assert not decision.actions
    assert (decision.status.state, decision.status.reason) == ("Suspended", "Undecided")


def test_a_job_that_runs_stays_as_it_is_until_the_autoscaler_has_decided() -> None:
    record = build.a_round()
    job = a_job(known=known_of(record))

    decision = deciding.decide(running(record=record, job=job, allocation=UNDECIDED), NOW)

    assert decision.status.wanted == 2
    assert decision.status.allocation is None


def decided(known: allocation.Allocation | None, new: allocation.Allocation, **fields: Any) -> actions.Decision:
    record = build.a_round()
    job = a_job(known=dataclasses.replace(known_of(record), allocation=known), **fields)
    return deciding.decide(running(record=record, job=job, allocation=new), NOW)


def test_a_decision_is_a_condition_and_an_event_once() -> None:
    first = decided(None, given(2))
    again = decided(given(2), given(2))

    told = conditions.find(first.status.conditions, "Allocated")
    assert told is not None
    assert (told.holds, told.reason, told.message) == (True, "Grown", "because of Grown")
    assert [e for e in first.events if e.reason == "Grown"]
    assert not [e for e in again.events if e.reason == "Grown"]
    assert first.status.allocation == given(2)


def test_a_wait_is_told_again_when_its_reason_is_another() -> None:
    assert "NoCapacity" in [e.reason for e in decided(given(0, "Waiting"), given(0, "NoCapacity")).events]
    assert "Waiting" not in [e.reason for e in decided(given(0, "Waiting"), given(0, "Waiting")).events]


def test_a_dry_run_says_that_it_is_one() -> None:
    (event,) = [e for e in decided(None, given(3, dry_run=True)).events if e.reason == "Grown"]

    assert event.message == "dry run, nothing is done: because of Grown"


def test_a_suspended_job_gives_back_what_it_was_given() -> None:
    decision = decided(given(2), given(2), suspend=True)

    given_back = decision.status.allocation
    assert given_back is not None
    assert (given_back.nodes, given_back.reason) == (0, "Suspended")
    assert decision.events == (), "that it is suspended is told when its pods are gone, once"


def test_without_an_autoscaler_nothing_is_said_of_one() -> None:
    record = build.a_round()
    job = a_job(nodes=2, known=dataclasses.replace(known_of(record), allocation=given(2)))

    status = deciding.decide(running(record=record, job=job), NOW).status

    assert status.allocation is None
    assert conditions.find(status.conditions, "Allocated") is None


def test_progress_keeps_the_time_at_which_it_was_written() -> None:
    leases = [held(0, progress=Progress(1, 5, 40, None)), held(1)]
    first = deciding.decide(running(leases=leases, renewed={0: 500, 1: 600}), NOW).status
    job = a_job(nodes=2, known=first)

    later = deciding.decide(running(job=job, leases=leases, renewed={0: 510}), NOW + 10).status

    assert (first.progress_time, later.progress_time) == (500, 500)


def test_of_a_maximum_far_above_the_cluster_only_what_was_granted_is_made() -> None:
    world = World(nodes=None, maxNodes=1024)
    world.allocation = given(4, "Started")

    world.settle()

    assert (world.status["state"], world.status["nodes"], len(world.pods)) == ("Running", 4, 4)


def test_grants_lead_through_growth_preemption_and_return() -> None:
    world = World(nodes=None)
    world.allocation = given(2, "Started")
    world.settle()
    assert world.status["nodes"] == 2

    for size, reason in ((4, "Grown"), (0, "Preempted"), (1, "Started")):
        world.allocation = given(size, reason)
        world.settle()
        assert (world.status["nodes"], world.status["wantedNodes"]) == (size, size)
        if not size:
            assert (world.status["state"], world.status["reason"]) == ("Suspended", "Preempted")
            assert not world.pods

    assert (world.status["failures"], world.status["disruptions"]) == (0, 0)


class Manifests(World):
    """Keeps the pods that it is told to make."""

    def _start(self, manifest: Mapping[str, Any]) -> None:
        self.made = {**getattr(self, "made", {}), manifest["metadata"]["name"]: manifest["spec"]}
        super()._start(manifest)


@pytest.mark.parametrize(("dry_run", "firm"), [(False, [True, True, False]), (True, [False] * 4)])
def test_a_minimums_pods_are_for_cluster_nodes_that_stay_where_spot_may_not_hold_them(
    *, dry_run: bool, firm: list[bool]
) -> None:
    world = Manifests(nodes=None, minNodes=2)
    world.allocation = given(3, "Started", firm=True, dry_run=dry_run)
    world.settle()
    affinities = [world.made[name].get("affinity") or {} for name in sorted(world.made)]

    required = "requiredDuringSchedulingIgnoredDuringExecution"
    assert [required in one.get("nodeAffinity", {}) for one in affinities] == firm
