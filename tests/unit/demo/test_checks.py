"""What the story's checks let pass and what not, and that they say what was expected and what was seen."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from demo import checks
from demo.rounds import Round
from elasticjob_rendezvous.round.record import Reason
from support.e2e_records import member

TWO = (member(0), member(1))
THREE = (*TWO, member(2))


def round_(number: int, reason: Reason, *members: Any, first_step: int = 1, opened: float = 0.0) -> Round:
    return Round(number=number, reason=reason, opened=opened, members=members, first_step=first_step, trained=opened)


FIRST = round_(1, Reason.STARTED, *TWO)
GROWN = dataclasses.replace(round_(2, Reason.RESIZED, *THREE, first_step=40, opened=50.0), arrived={2: 49.0})
LOST = member(0).nonce
REFORMED = round_(3, Reason.POD_LOST, member(1), member(2), first_step=60)
REPLACED = round_(4, Reason.NODE_JOINED, member(0, 2), member(1), member(2), first_step=80)
SHRUNK = round_(5, Reason.RESIZED, member(0, 2), first_step=120)


def test_a_story_as_it_should_be_passes() -> None:
    checks.started(FIRST)
    checks.grown(FIRST, GROWN)
    checks.reformed(GROWN, REFORMED, lost=LOST)
    checks.replaced(REFORMED, REPLACED, lost=LOST)
    checks.undisturbed(REPLACED, REPLACED, {"digits-1-0": "uid"}, {"digits-1-0": "uid"})
    checks.shrunk(REPLACED, SHRUNK)
    checks.exited_well({"digits-0-1": 0, "digits-1-0": 0, "other": 1}, {"digits-0-1", "digits-1-0"})


def test_a_failure_says_what_was_expected_and_what_was_seen() -> None:
    with pytest.raises(checks.UnexpectedError) as failure:
        checks.started(dataclasses.replace(FIRST, reason=Reason.POD_LOST))

    assert str(failure.value) == "reason of the first round: expected Started, saw PodLost"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"number": 3}, "rounds that a resize takes"),
        ({"reason": Reason.POD_LOST}, "reason of the round"),
        ({"members": TWO}, "slots of the round"),
        ({"members": (member(1), member(0), member(2))}, "ranks of the members that stay"),
        ({"arrived": {2: 55.0}}, "seconds by which the newcomer waited"),
        ({"first_step": 1}, "step at which round 2 resumed: expected at least 2, saw 1"),
    ],
)
def test_growing_must_take_one_round_with_the_newcomer_waiting(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(checks.UnexpectedError, match=complaint):
        checks.grown(FIRST, dataclasses.replace(GROWN, **change))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"number": 4}, "rounds that the loss of a pod takes"),
        ({"reason": Reason.RESIZED}, "expected PodLost or AgentLeft or PeerSilent or WorkersFailed, saw Resized"),
        ({"members": (member(2), member(1))}, "members of the round, by slot"),
        ({"members": THREE}, "members of the round, by slot"),
    ],
)
def test_the_others_must_go_on_without_the_lost_one(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(checks.UnexpectedError, match=complaint):
        checks.reformed(GROWN, dataclasses.replace(REFORMED, **change), lost=LOST)


def test_the_lost_process_must_not_come_back() -> None:
    with pytest.raises(checks.UnexpectedError, match="lost process is a member"):
        checks.replaced(REFORMED, dataclasses.replace(REPLACED, members=THREE), lost=LOST)


@pytest.mark.parametrize(
    ("change", "pods", "complaint"),
    [
        ({"number": 5}, {"a": "1"}, "number of the round"),
        ({"members": TWO}, {"a": "1"}, "members of the round"),
        ({}, {"a": "2"}, "pods, by UID"),
    ],
)
def test_an_operator_that_restarts_must_leave_the_job_alone(
    change: dict[str, Any], pods: dict[str, str], complaint: str
) -> None:
    with pytest.raises(checks.UnexpectedError, match=complaint):
        checks.undisturbed(REPLACED, dataclasses.replace(REPLACED, **change), {"a": "1"}, pods)


@pytest.mark.parametrize("codes", [{"a": 1}, {}])
def test_a_pod_that_a_resize_ends_must_succeed(codes: dict[str, int]) -> None:
    with pytest.raises(checks.UnexpectedError, match="exit codes"):
        checks.exited_well(codes, {"a"})


def result(**changes: Any) -> dict[str, Any]:
    epochs = [{"epoch": n, "samples": 10, "least": 1, "most": 1} for n in range(3)]
    return {"accuracy": 0.97, "images": 10, "samples": 30, "epochs": epochs, **changes}


def test_a_result_is_found_in_a_log_and_passes() -> None:
    log = f"epoch 2: …\n[rank0]: result: {json.dumps(result())}\n"

    assert checks.result_of(log) == result()
    checks.learned(result())


def test_a_log_without_a_result_is_shown() -> None:
    with pytest.raises(checks.UnexpectedError, match="saw killed"):
        checks.result_of("killed")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"accuracy": 0.94}, "held-out accuracy: expected at least 0.95"),
        ({"epochs": [{"epoch": 0, "samples": 11, "least": 1, "most": 2}]}, "samples trained in an epoch"),
        ({"epochs": [{"epoch": 0, "samples": 9, "least": 0, "most": 1}]}, "samples trained in an epoch"),
        ({"epochs": [{"epoch": 1, "samples": 10, "least": 1, "most": 1}]}, "samples trained in an epoch"),
        ({"samples": 31}, "samples trained in all"),
    ],
)
def test_books_that_do_not_add_up_are_found(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(checks.UnexpectedError, match=complaint):
        checks.learned(result(**changes))
