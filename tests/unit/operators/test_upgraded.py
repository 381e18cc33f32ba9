"""Another version of the operator goes on with a job that trains: what it finds was written by one that knew less.

Its pods stay, and so does their round, whatever field was not written yet, or has been added since.
"""

import copy
import dataclasses
from typing import Any

import pytest

from elasticjob_operator.api import conditions, status
from elasticjob_operator.api.failures import FailureClass
from elasticjob_operator.core import deciding
from elasticjob_operator.core.observed import Round
from elasticjob_rendezvous.round.record import Reason
from support.operator_world import World


def trained() -> World:
    """A job with something to tell: it has grown, a pod of it has failed and another was lost, and it trains again."""
    world = World(nodes=2, warming=2)
    world.settle()
    world.scale(3)
    world.settle()
    world.fail("digits-1-0")
    world.settle()
    world.kill("digits-2-0")
    world.settle()
    return world


FIELDS = sorted(trained().status)


def _undisturbed(before: World, after: World) -> None:
    assert before.record is not None
    assert after.record is not None
    assert after.record.members == before.record.members
    assert after.record.number == before.record.number
    assert after.pods.keys() == before.pods.keys()
    assert after.status["state"] == "Running"


@pytest.mark.parametrize("field", FIELDS)
def test_what_an_older_version_has_not_written_disturbs_no_training(field: str) -> None:
    before = trained()
    after = copy.deepcopy(before)
    del after.status[field]

    after.settle()

    _undisturbed(before, after)


def newer(world: World) -> World:
    """The same, with a round that a newer version of the operator has opened, and its agents have sealed."""
    assert world.record is not None
    world.record = dataclasses.replace(world.record, reason=Reason("NodeDefragmented"), more='{"zones":[1,2]}')
    return world


def test_a_round_of_a_newer_version_goes_on_and_is_told_in_its_words() -> None:
    before = newer(trained())
    after = copy.deepcopy(before)

    after.settle()

    _undisturbed(before, after)
    assert after.status["roundReason"] == "NodeDefragmented"


def test_what_a_newer_version_has_added_to_the_round_outlasts_all_that_an_older_one_does() -> None:
    world = newer(trained())

    world.kill("digits-0-0")
    world.settle()
    world.scale(2)
    world.settle()

    assert world.record is not None
    assert (world.record.more, len(world.record.members)) == ('{"zones":[1,2]}', 2)


def test_a_round_of_a_version_to_come_is_left_to_those_who_can_read_it() -> None:
    world = trained()
    read = dataclasses.replace(world.read(), round=Round(version="7", error="a round record of version 2", newer=True))

    decision = deciding.decide(read, world.now)

    found = conditions.find(decision.status.conditions, conditions.PODS_READY)
    assert found is not None
    assert (decision.actions, found.reason, found.message) == ((), "RoundTooNew", "a round record of version 2")
    assert decision.status.counted == read.job.status.counted


def test_how_a_newer_version_has_ended_a_job_is_no_crash() -> None:
    world = trained()
    world.status["result"], world.record = "Migrated", None

    world.settle()

    assert world.status["state"] == "Running"


def test_a_failure_of_a_class_to_come_is_told_all_the_same() -> None:
    data = {**trained().status["lastFailure"], "class": "Cosmic"}

    found = status.parse({"lastFailure": data}).last_failure

    assert found is not None
    assert (found.message, found.what) == (data["message"], FailureClass.USER_ERROR)


@pytest.mark.parametrize("data", [None, {}, {"round": 3, "ofTheNextVersion": {"much": "more"}}])
def test_what_a_newer_version_has_added_to_the_status_is_named(data: Any) -> None:
    assert status.unknown(data) == {key: value for key, value in (data or {}).items() if key != "round"}
    assert status.unknown(trained().status) == {}


def test_what_a_newer_version_has_added_disturbs_no_training() -> None:
    before = trained()
    after = copy.deepcopy(before)
    after.status["ofTheNextVersion"] = {"much": "more"}

    after.settle()

    _undisturbed(before, after)
