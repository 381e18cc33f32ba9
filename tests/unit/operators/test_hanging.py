"""A round that gets nowhere: stacks, then another round, and in the end enough of it."""

from typing import Any

import pytest

from elasticjob_operator.core import deciding, hanging
from elasticjob_operator.core.actions import Decision, WriteRound
from elasticjob_rendezvous.round.lease import Failure, Progress
from elasticjob_rendezvous.round.record import Phase, Reason
from support import operator_builders as build
from support.operator_builders import NOW, a_job, a_notice, a_round, at, held, known_of, running
from support.operator_world import World

ASKED = a_notice(f"stacks.1.{NOW - 5}", grace=5)
STEP = Progress(1, 7, 70, None)


def decided(
    quiet: int, *, record: Any = None, step: Progress | None = STEP, deadline: int | None = 600, **known: Any
) -> Decision:
    """The decision about a job that has been seen to get on so long ago, and whose Lease says *step*."""
    record = record or a_round()
    defaults = {"last_progress_time": NOW - quiet, "progress": STEP, "notice_time": NOW - 5 if record.notice else None}
    policy: dict[str, Any] = {"failurePolicy": {"progressDeadlineSeconds": deadline}} if deadline else {}
    job = a_job(nodes=2, known=known_of(record, **{**defaults, **known}), **policy)
    leases = [held(0, arrived=record.sealed, progress=step), held(1, arrived=record.sealed)]
    return deciding.decide(running(job=job, record=record, leases=leases), NOW)


def written(decision: Decision) -> Any:
    """The round that is written, if one is."""
    return next((a.record for a in decision.actions if isinstance(a, WriteRound)), None)


@pytest.mark.parametrize(
    ("quiet", "fields", "asks"),
    [
        (599, {}, False),
        (600, {}, True),
        (600, {"deadline": None}, False),
        (600, {"step": Progress(1, 8, 80, None)}, False),
        (600, {"step": None}, True),
        (600, {"last_progress_time": None}, False),
        (600, {"record": a_round(Phase.OPEN, 2)}, False),
        (600, {"record": a_round(Phase.FINISHING)}, False),
        (600, {"round": 0}, False),
    ],
    ids=["in time", "hung", "no deadline", "a step", "never one", "not seen", "open", "finishing", "another round"],
)
def test_a_round_that_gets_nowhere_is_asked_for_its_stacks(quiet: int, fields: dict[str, Any], *, asks: bool) -> None:
    decision = decided(quiet, **fields)

    record = written(decision)
    assert (record is not None and record.notice == a_notice(f"stacks.1.{NOW}", grace=5)) is asks
    assert ("NoProgress" in [event.reason for event in decision.events]) is asks


def test_it_is_looked_at_in_time() -> None:
    assert decided(590).wake_after == 10


def test_what_gets_on_again_is_left_alone() -> None:
    record = written(decided(600, record=a_round(notice=ASKED), step=Progress(1, 8, 80, None)))

    assert (record.number, record.notice) == (1, None)


def test_then_the_group_starts_again_and_it_counts_and_says_why() -> None:
    decision = decided(600, record=a_round(notice=ASKED))

    record, last = written(decision), decision.status.last_failure
    assert (record.number, record.reason, record.plan) == (2, Reason.WORKERS_FAILED, {0, 1})
    assert last is not None
    assert (last.reason, last.round) == ("NoProgress", 1)

    sealed = a_round(number=2, reason=Reason.WORKERS_FAILED, failures=1)
    leases = [held(0, arrived=2, failure=Failure(1, -15, "stopped")), held(1, arrived=2)]
    counters = at(running(job=a_job(nodes=2, known=decision.status), record=sealed, leases=leases)).counters
    assert (counters.failures, counters.last_failure) == (1, last)
    assert counters.new_failure == last


def test_the_stacks_have_their_time() -> None:
    decision = decided(600, record=a_round(notice=a_notice(ASKED.id, grace=9)))

    assert written(decision) is None
    assert decision.wake_after == 4


def test_a_job_that_never_gets_on_ends() -> None:
    world = World(nodes=2, failurePolicy={"maxFailures": 2, "progressDeadlineSeconds": 100})
    world.settle()

    assert (world.status["state"], world.status["reason"]) == ("Failed", "TooManyFailures")
    assert (world.status["failedRounds"], world.status["failedPods"]) == (3, 0)
    assert "no progress for 100 s" in world.status["endMessage"]


def test_a_round_that_is_not_running_has_no_progress_to_be_seen() -> None:
    assert hanging.seen(at(running(record=a_round(Phase.OPEN, 2)))) is None
    assert hanging.left(at(running(job=a_job(nodes=2, known=build.known_of(a_round()))))) is None
