"""Scenes of docs/operator-scenarios.md that take a whole job's life, played in a cluster in memory."""

import dataclasses
import itertools

from elasticjob_rendezvous.round.record import Phase, Reason, Result
from support.operator_world import World


class Stuck(World):
    """Pods of one slot never start: their image can't be pulled, or no cluster node has room for them."""

    slot = 2

    def operate(self, *, writes: int | None = None) -> bool:
        wrote = super().operate(writes=writes)
        for name, pod in self.pods.items():
            if pod.slot == self.slot:
                self.pods[name] = dataclasses.replace(pod, phase="Pending", started=False, ready=False)
                self.processes.pop(name, None)
        return wrote


def test_a_job_that_gets_only_its_minimum_trains_and_ends_well() -> None:
    world = Stuck(minNodes=2, nodes=3)

    world.settle()
    trained = world.status["nodes"], world.status["state"]
    world.finish()
    world.settle()

    assert trained == (2, "Running")
    assert (world.record and world.record.result, world.status["state"]) == (Result.SUCCEEDED, "Succeeded")
    assert not any(pod.live for pod in world.pods.values()), "nor is the one that never started kept"
    assert (world.status["failures"], world.status["failedPods"], world.status["disruptions"]) == (0, 0, 0)


def test_a_job_that_can_not_have_its_minimum_waits_without_a_round() -> None:
    world = Stuck(minNodes=3, nodes=3)

    world.settle()

    assert (world.history, world.births) == ([], 3)


def test_a_node_that_ends_with_0_while_others_train_on_starts_nothing() -> None:
    world = World(nodes=3)
    world.settle()
    process = world.processes["digits-1-0"]
    process.finished, process.training = process.training, 0

    world.settle()
    waited = world.births, len(world.history), world.record and world.record.phase
    world.finish()
    world.settle()

    assert waited == (3, 1, Phase.FINISHING)
    assert (world.status["state"], world.births, len(world.history)) == ("Succeeded", 3, 1)


def test_a_program_that_crashes_at_once_is_started_ever_more_slowly_and_then_given_up() -> None:
    world = World(nodes=1, warming=0, failurePolicy={"maxFailures": 7})
    crashed = []
    for second in range(500):
        world.now += 1
        world.operate()
        for name in [name for name, pod in world.pods.items() if pod.live]:
            world.fail(name)
            crashed.append(second)
        world.reap()

    pauses = [after - before for before, after in itertools.pairwise(crashed)]
    assert len(crashed) == 8
    assert pauses[1:] == sorted(pauses[1:])
    assert sum(pauses) > 300
    assert (world.status["state"], world.status["failedPods"]) == ("Failed", 8)
    assert len(world.pods) <= 3


def test_limits_that_move_while_a_job_is_being_resized_cost_no_round_more() -> None:
    world = World(nodes=4, warming=2)
    world.settle()

    world.scale(3)
    while world.record and 3 in world.record.plan:
        world.operate()
        world.agents()
    world.edit(maxNodes=2, nodes=2)
    world.settle()
    world.edit(minNodes=2)
    world.settle()

    assert (world.status["state"], world.status["nodes"], sorted(world.leases)) == ("Running", 2, [0, 1])
    assert [(r.reason, len(r.members)) for r in world.history][1:] in (
        [(Reason.RESIZED, 2)],
        [(Reason.RESIZED, 3), (Reason.RESIZED, 2)],
    )
    assert (world.status["failures"], world.status["disruptions"]) == (0, 0)


def test_a_pod_that_somebodys_finalizer_keeps_holds_nothing_up_and_is_counted_once() -> None:
    world = World(nodes=2)
    world.settle()
    gone = world.reap

    world.delete("digits-1-0")
    world.reap = lambda: None  # type: ignore[method-assign]
    world.settle()
    kept = world.status["state"], world.status["nodes"], sorted(world.pods)
    world.reap = gone  # type: ignore[method-assign]
    world.settle()

    assert kept == ("Running", 2, ["digits-0-0", "digits-1-0", "digits-1-1"])
    assert sorted(world.pods) == ["digits-0-0", "digits-1-1"]
    assert (world.status["disruptions"], world.status["failedPods"], len(world.history)) == (1, 0, 3)
