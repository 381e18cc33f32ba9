"""The operator killed after every single write of each thing that it does, and a new one that goes on from there."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.operator_outcome import outcome
from support.operator_world import World


def gone_unseen(world: World, *names: str) -> None:
    """Somebody deletes these pods: their agents leave, and all is over before the operator looks."""
    for name in names:
        world.delete(name)
    world.agents()
    world.reap()


def failed_and_deleted(world: World) -> None:
    """A pod fails, and is being deleted for a while before the operator looks."""
    world.stubborn = True
    world.fail("digits-1-0")
    world.delete("digits-1-0")


SCENES: dict[str, tuple[dict[str, Any], Callable[[World], None]]] = {
    "grow": ({}, lambda world: world.scale(4)),
    "grow beyond the most": ({}, lambda world: world.edit(maxNodes=6, nodes=6)),
    "shrink": ({"nodes": 4}, lambda world: world.scale(1)),
    "lower the most": ({"nodes": 4}, lambda world: world.edit(maxNodes=2, nodes=2)),
    "raise the least": ({"nodes": 3}, lambda world: world.edit(minNodes=3)),
    "lose": ({}, lambda world: world.kill("digits-0-0")),
    "delete a pod": ({}, lambda world: world.delete("digits-1-0")),
    "delete a pod unseen": ({}, lambda world: gone_unseen(world, "digits-1-0")),
    "delete all pods unseen": ({}, lambda world: gone_unseen(world, "digits-0-0", "digits-1-0")),
    "delete a failed pod": ({}, failed_and_deleted),
    "fail": ({}, lambda world: world.fail("digits-1-0")),
    "workers fail": ({}, lambda world: world.workers_fail("digits-1-0")),
    "fail too often": ({"failurePolicy": {"maxFailures": 0}}, lambda world: world.fail("digits-1-0")),
    "forget": ({}, lambda world: setattr(world, "record", None)),
    "suspend": ({"nodes": 3}, lambda world: world.edit(suspend=True)),
    "resume": ({"nodes": 3, "suspend": True}, lambda world: world.edit(suspend=False)),
    "finish": ({"cleanPodPolicy": "All"}, lambda world: world.finish()),
    "finish and go": ({"ttlSecondsAfterFinished": 60}, lambda world: world.finish()),
    "time out": ({"activeDeadlineSeconds": 1200}, lambda world: setattr(world, "now", world.now + 1200)),
    "allowed sizes": ({"nodes": 4, "allowedNodes": {"step": 2}}, lambda world: world.kill("digits-3-0")),
}


LOST = {
    "lose": 1,
    "delete a pod": 1,
    "delete a pod unseen": 1,
    "delete all pods unseen": 2,
    "delete a failed pod": 1,
    "suspend": 0,
    "finish": 0,
}
"""Pods that were taken from the job while it wanted them."""


def prepared(scene: str) -> World:
    """A job in the state in which the scene begins."""
    fields, act = SCENES[scene]
    world = World(warming=2, **fields)
    world.settle()
    act(world)
    return world


def deaths(start: World) -> Iterator[tuple[int, World, World]]:
    """What becomes of *start* where the operator is killed after its n-th write: n, that, and the undisturbed one."""
    clean = copy.deepcopy(start)
    clean.settle()
    for write in range(start.writes, clean.writes + 1):
        world = copy.deepcopy(start)
        world.dies_at = write
        world.settle()
        yield write - start.writes, world, clean


@pytest.mark.parametrize("scene", SCENES)
def test_killed_after_any_write_it_ends_where_an_undisturbed_one_does(scene: str) -> None:
    for write, world, clean in deaths(prepared(scene)):
        assert outcome(world) == outcome(clean), f"killed after write {write} of {scene}"


@pytest.mark.parametrize("scene", LOST)
def test_each_lost_pod_counts_once(scene: str) -> None:
    world = prepared(scene)

    world.settle()

    assert world.status["disruptions"] == LOST[scene]


def test_killed_after_any_write_pods_that_were_sent_away_count_for_nothing() -> None:
    start = World(warming=2, nodes=4)
    start.settle()
    start.scale(2)
    while start.record is None or 3 in start.record.plan:
        start.operate()
        start.agents()
    while start.agents():
        pass
    gone_unseen(start, "digits-3-0")
    start.scale(4)

    for write, world, _ in deaths(start):
        assert (world.status["disruptions"], world.status["failures"]) == (0, 0), f"write {write}"


def test_killed_after_any_write_a_job_is_made_whole() -> None:
    for write, world, clean in deaths(World(nodes=3, warming=2)):
        assert outcome(world) == outcome(clean), f"killed after write {write}"


@pytest.mark.parametrize("scene", SCENES)
def test_an_operator_that_lives_for_one_write_at_a_time_gets_there(scene: str) -> None:
    world, clean = prepared(scene), prepared(scene)
    clean.settle()

    while world.operate(writes=1):
        world.agents()
        world.reap()
    world.settle()

    assert outcome(world)["status"]["state"] == clean.status["state"]
    assert {p.slot for p in world.pods.values() if p.live} == {p.slot for p in clean.pods.values() if p.live}
    counters = ("failures", "failedPods", "resizes")
    assert [world.status[name] for name in counters] == [clean.status[name] for name in counters]
