"""Another version of the operator goes on with a job that trains: what it finds was written by one that knew less.

Its pods stay, and so does their round, whatever field was not written yet, or has been added since.
"""

import copy

import pytest

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


def test_what_a_newer_version_has_added_disturbs_no_training() -> None:
    before = trained()
    after = copy.deepcopy(before)
    after.status["ofTheNextVersion"] = {"much": "more"}

    after.settle()

    _undisturbed(before, after)
