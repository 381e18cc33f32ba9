"""The operator's and the agents' decisions together, in a cluster in memory, interrupted anywhere."""

import dataclasses
import itertools
import random
from typing import Any

import pytest

from elasticjob_rendezvous.round.record import Phase, Reason, Result
from support.operator_world import World


def trains(world: World, nodes: int) -> None:
    """The job trains on exactly so many nodes, none of them twice, and nobody else is there."""
    record = world.record
    assert record is not None
    assert record.phase is Phase.SEALED
    assert len(record.members) == len(record.plan) == nodes
    training = [p for p in world.processes.values() if p.training == record.number]
    assert sorted(p.me.nonce for p in training) == sorted(m.nonce for m in record.members)
    assert len([p for p in world.pods.values() if p.live]) == nodes
    assert world.status["nodes"] == world.status["wantedNodes"] == nodes
    assert world.status["state"] == "Running"


def started(**fields: Any) -> World:
    world = World(**fields)
    world.settle()
    return world


def test_a_new_job_starts_with_all_its_nodes_in_one_round() -> None:
    world = started(nodes=3)

    trains(world, 3)
    assert [r.reason for r in world.history] == [Reason.STARTED]


def test_a_job_grows_in_one_round_and_training_goes_on_until_then() -> None:
    world = started(nodes=1)

    world.scale(4)
    world.settle()

    trains(world, 4)
    assert [(r.number, r.reason, len(r.members)) for r in world.history] == [
        (1, Reason.STARTED, 1),
        (2, Reason.RESIZED, 4),
    ]
    assert world.status["lastResize"]["completionTime"]
    assert world.status["failures"] == world.status["disruptions"] == 0


def test_a_job_shrinks_in_one_round_and_its_pods_end_by_themselves() -> None:
    world = started(nodes=4)

    world.scale(2)
    world.settle()

    trains(world, 2)
    assert [(r.number, r.reason, len(r.members)) for r in world.history][1:] == [(2, Reason.RESIZED, 2)]
    assert sorted(p.slot for p in world.pods.values()) == [0, 1]
    assert world.status["failures"] == world.status["disruptions"] == 0


@pytest.mark.parametrize("slot", [0, 1, 2])
def test_a_lost_pod_costs_one_round_without_it_and_one_with_its_replacement(slot: int) -> None:
    world = started(nodes=3)

    world.kill(f"digits-{slot}-0")
    world.settle()

    trains(world, 3)
    assert [(r.reason, len(r.members)) for r in world.history][1:] == [(Reason.POD_LOST, 2), (Reason.NODE_JOINED, 3)]
    assert (world.status["failures"], world.status["disruptions"]) == (0, 1)


def test_a_failed_pod_is_counted_once_and_replaced() -> None:
    world = started(nodes=2)

    world.fail("digits-1-0", 137)
    world.settle()

    trains(world, 2)
    assert (world.status["failedPods"], world.status["disruptions"]) == (1, 0)
    assert world.status["lastFailure"]["exitCode"] == 137


def test_failed_workers_start_again_in_the_same_pods() -> None:
    world = started(nodes=2)

    world.workers_fail("digits-1-0")
    world.settle()

    trains(world, 2)
    assert [r.reason for r in world.history][1:] == [Reason.WORKERS_FAILED]
    assert (world.status["failures"], world.status["failedPods"]) == (1, 0)
    assert sorted(world.pods) == ["digits-0-0", "digits-1-0"]


def test_more_failures_than_allowed_end_the_job() -> None:
    world = started(nodes=2, failurePolicy={"maxFailures": 1})

    for _ in range(2):
        world.workers_fail("digits-1-0")
        world.settle()

    assert world.record is not None
    assert world.record.result is Result.FAILED
    assert world.status["state"] == "Failed"
    assert world.status["reason"] == "TooManyFailures"
    assert not world.processes


def test_a_finished_job_has_succeeded_and_stays_so() -> None:
    world = started(nodes=3)

    world.finish()
    world.settle()

    assert world.status["state"] == "Succeeded"
    assert world.status["completionTime"]
    assert [p.phase for p in world.pods.values()] == ["Succeeded"] * 3
    world.scale(1)
    world.settle()
    world.record = None
    world.settle()
    assert world.status["state"] == "Succeeded"
    assert len(world.pods) == 3


def test_a_lost_configmap_is_succeeded_by_a_higher_round() -> None:
    world = started(nodes=2)
    world.kill("digits-0-0")
    world.settle()
    before = world.highest

    world.record = None
    world.settle()

    trains(world, 2)
    assert world.history[-1].number > before
    assert "StateLost" in {event.reason for event in world.events}


def test_scaled_to_and_fro_the_last_word_counts() -> None:
    world = started(nodes=2)

    for nodes in (4, 1, 3, 2, 4, 2):
        world.scale(nodes)
        world.operate()
        world.agents()
    world.settle()

    trains(world, 2)


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_a_pod_that_ignores_its_end_while_no_other_is_left_causes_no_storm(nodes: int) -> None:
    world = started(nodes=nodes)
    world.stubborn, world.warming = True, 1000

    world.delete("digits-0-0")
    for slot in range(1, nodes):
        world.kill(f"digits-{slot}-0")
    for _ in range(100):
        world.operate()
        world.agents()

    assert world.highest <= 3
    world.reap()
    for process in world.processes.values():
        process.warming = 0
    world.stubborn, world.warming = False, 0
    world.settle()
    trains(world, nodes)


def test_nothing_is_written_when_nothing_happens() -> None:
    world = started(nodes=3)
    writes = world.writes

    for _ in range(20):
        world.now += 1000
        world.operate()

    assert world.writes == writes


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_in_whatever_order_the_job_trains_again(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same chances at each run
    least = chance.choice([1, 1, 2])
    world = World(nodes=chance.randint(least, 4), minNodes=least, failurePolicy={"maxFailures": 1000})
    world.stubborn = chance.random() < 0.5
    acts = 0
    for _ in range(60):
        live = sorted(world.processes)
        what = chance.random()
        if what < 0.45:
            world.operate(writes=chance.choice([None, None, 0, 1, 2, 3]))
        elif what < 0.85:
            world.agents(lambda names: [n for n in names if chance.random() < 0.6])
        elif what < 0.88:
            world.scale(chance.randint(least, 4))
        elif what < 0.90:
            world.now += chance.choice([1, 30, 400])
        elif what < 0.91:
            world.reap()
        elif what < 0.92 and world.record and world.record.phase is Phase.SEALED and chance.random() < 0.3:
            world.record = None
        elif live:
            chance.choice([world.kill, world.fail, world.delete, world.workers_fail])(chance.choice(live))
            acts += 1
    world.settle()

    assert world.highest <= 12 + 4 * acts, "a storm of rounds"

    trains(world, world.fields["nodes"])
    world.finish()
    world.settle()
    assert world.status["state"] == "Succeeded"


def test_what_happened_while_no_operator_ran_is_made_up_for_and_counted_once() -> None:
    world = started(nodes=4)

    world.fail("digits-3-0")
    world.fail("digits-2-0", 137)
    world.kill("digits-1-0")
    world.scale(3)
    world.now += 600
    for _ in range(20):
        world.agents()
    world.settle()

    trains(world, 3)
    assert (world.status["failedPods"], world.status["disruptions"]) == (2, 1)


def test_pods_that_never_start_are_made_ever_more_slowly_and_counted_once_each() -> None:
    world = World(nodes=1, warming=1000, failurePolicy={"maxInfrastructureFailures": 100})
    world.operate()
    made = []
    for second in range(200):
        world.now += 1
        for name in [name for name, pod in world.pods.items() if pod.live]:
            made.append(second)
            world.pods[name] = dataclasses.replace(
                world.pods[name], phase="Failed", ready=False, started=False, reason="UnexpectedAdmissionError"
            )
            world.processes.pop(name)
        world.operate()
        world.reap()

    pauses = [after - before for before, after in itertools.pairwise(made)]
    assert len(made) < 10
    assert pauses[1:] == sorted(pauses[1:])
    assert world.status["failedPods"] in (len(made), len(made) - 1)
    assert len(world.pods) <= 3


def test_a_pod_that_succeeded_and_turns_failed_afterwards_changes_nothing() -> None:
    world = started(nodes=2)
    world.finish()
    world.settle()

    world.pods["digits-0-0"] = dataclasses.replace(world.pods["digits-0-0"], phase="Failed", exit_code=137)
    world.settle()

    assert (world.status["state"], world.status["failures"], world.status["failedPods"]) == ("Succeeded", 0, 0)
    assert len(world.pods) == 2
