"""Between rounds whose workers fail one after the other: the status says that it waits, for what, and until when."""

import dataclasses

import pytest

from elasticjob_operator.api import conditions, status
from elasticjob_operator.core import actions, counting, deciding, hanging
from elasticjob_operator.core.observed import Observed
from elasticjob_rendezvous.round.lease import Failure, Pause
from elasticjob_rendezvous.round.record import Phase, Reason, Record
from support import operator_builders as build
from support.operator_builders import NOW, a_job, a_pod, a_round, at, held, known_of, running

FAILED = Failure(3, 1, "ValueError: no data", 20.1, "Traceback\n  File train.py\nValueError: no data\n")


def pausing(*, number: int = 3, code: int = 1, policy: int = 10, **known: object) -> Observed:
    """A job of two in round 3, the second in a row that its workers have ended, whose agents wait for 16 s."""
    record = a_round(number=3, reason=Reason.WORKERS_FAILED, failures=1)
    pause = Pause(number, NOW + 16)
    leases = [held(0, arrived=3, pause=pause), held(1, arrived=3, pause=pause)]
    leases[1] = dataclasses.replace(leases[1], failure=dataclasses.replace(FAILED, exit_code=code))
    before = {"failures": 1, "failed_rounds": 1, **known}
    exit_codes = [{"codes": [3], "class": "Fatal"}]
    rules = {"maxFailures": policy, "exitCodes": exit_codes, "progressDeadlineSeconds": 30}
    return running(
        job=a_job(nodes=2, known=known_of(record, **before), failurePolicy=rules), record=record, leases=leases
    )


def told(read: Observed) -> status.Status:
    return deciding.decide(read, NOW).status


def test_a_group_that_waits_after_failures_does_not_run() -> None:
    new = told(pausing())

    condition = conditions.find(new.conditions, conditions.RUNNING)
    assert (new.state, new.reason, new.nodes) == ("BackingOff", "WorkersFailed", 0)
    assert condition is not None
    assert (condition.holds, condition.reason) == (False, "BackingOff")
    assert condition.message.startswith(
        "the workers of round 3 failed without progress; the next round begins at 2027-"
    )
    assert "ValueError: no data" in condition.message


def test_its_failure_counts_at_once_and_the_next_round_does_not_count_it_again() -> None:
    first = told(pausing())
    again = told(pausing(failures=2, failed_rounds=2, last_failure=first.last_failure))
    sealed = a_round(number=4, reason=Reason.WORKERS_FAILED, failures=2)
    leases = [held(0, arrived=4), held(1, arrived=4, failure=FAILED)]
    after = told(running(job=a_job(nodes=2, known=first), record=sealed, leases=leases))

    assert [(s.failures, s.failed_rounds) for s in (first, again, after)] == [(2, 2)] * 3
    assert after.state == "Running"


def test_it_is_told_once() -> None:
    read = pausing()
    first = deciding.decide(read, NOW)
    again = deciding.decide(dataclasses.replace(read, job=dataclasses.replace(read.job, status=first.status)), NOW + 9)

    assert [e.reason for e in first.events] == ["WorkersFailed"]
    assert (again.events, again.status) == ((), first.status)


@pytest.mark.parametrize(
    ("fields", "reason"), [({"policy": 1}, "TooManyFailures"), ({"code": 3}, "FatalExitCode"), ({}, "")]
)
def test_a_job_that_has_failed_enough_does_not_wait_and_start_once_more(fields: dict[str, int], reason: str) -> None:
    assert told(pausing(**fields)).end_reason == reason


def test_the_pause_of_an_earlier_round_says_nothing() -> None:
    assert told(pausing(number=2)).state == "Running"


def test_a_lost_member_is_why_the_others_failed() -> None:
    read = pausing()
    lost = dataclasses.replace(read, pods=(a_pod(0),))

    assert counting.count(lost, lost.round.record, build.a_spec().failure_policy, NOW).failures == 1  # type: ignore[arg-type]


def test_a_group_that_waits_does_not_hang_unless_it_never_ends() -> None:
    """However wrong the clock is by which the agents say until when."""
    assert hanging.left(at(pausing(last_progress_time=NOW - 29 - 60))) == 31
    assert hanging.left(at(pausing(last_progress_time=NOW - 600))) == 30 + 90 - 600


def test_a_round_that_came_for_another_reason_carries_the_failure_that_was_counted() -> None:
    """Or the next failure would be taken for that one."""
    first = told(pausing())
    for_the_size = a_round(number=4, reason=Reason.RESIZED, failures=1)
    read = running(
        job=a_job(nodes=2, known=first), record=for_the_size, leases=[held(0, arrived=4), held(1, arrived=4)]
    )

    decision = deciding.decide(read, NOW)

    written = [action.record for action in decision.actions if isinstance(action, actions.WriteRound)]
    assert [(one.number, one.phase, one.failures) for one in written] == [(4, Phase.SEALED, 2)]
    assert decision.status.failures == 2


def records(read: Observed) -> list[Record]:
    return [action.record for action in deciding.decide(read, NOW).actions if isinstance(action, actions.WriteRound)]


def test_nothing_is_written_into_the_round_that_waits() -> None:
    first = told(pausing())

    assert records(pausing()) == []
    assert records(pausing(failures=2, failed_rounds=2, last_failure=first.last_failure)) == []


def test_a_pause_before_a_failed_pod_is_replaced_says_how_long_it_lasts() -> None:
    record = a_round(Phase.OPEN, plan=[0])
    last = status.Failure(0, 1, "no", NOW - 3, pod="digits-0-2")
    job = a_job(nodes=1, known=known_of(record, failures=3, failed_pods=3, last_failure=last))

    new = deciding.decide(running([0], job=job, record=record, leases=[], having=[]), NOW).status

    ready = conditions.find(new.conditions, conditions.PODS_READY)
    assert (new.state, new.reason) == ("BackingOff", "PodFailed")
    assert ready is not None
    assert (ready.reason, ready.message) == (
        "BackingOff",
        "pods ready: 0 of 1; 3 pods failed so far, the next is made at 2027-01-15T08:00:07Z",
    )
