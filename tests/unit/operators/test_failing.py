"""What a job makes of failures: whose doing they are, what they cost, when it is enough, and what is told of them."""

import dataclasses
from typing import Any

import pytest

from elasticjob_operator.api import spec, status
from elasticjob_operator.api.failures import FailureClass
from elasticjob_operator.core import classing, closing, counting, deciding, describing, pods
from elasticjob_operator.core.observed import Observed
from elasticjob_rendezvous.round.lease import Failure, Progress
from elasticjob_rendezvous.round.record import Phase, Reason
from support import operator_builders as build
from support.operator_builders import NOW, a_job, a_pod, a_round, at, held, known_of, running

USER, MACHINE, PREEMPTED, FATAL = (
    FailureClass.USER_ERROR,
    FailureClass.INFRASTRUCTURE,
    FailureClass.PREEMPTION,
    FailureClass.FATAL,
)
OWN = {"exitCodes": [{"codes": [75, 137], "class": "Preemption"}, {"codes": [3], "class": "Fatal"}]}


def counted(read: Observed) -> counting.Counters:
    """The counters."""
    return at(read).counters


# Classes


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"exit_code": 1}, USER),
        ({"exit_code": 139}, USER),
        ({"exit_code": 137}, MACHINE),
        ({"exit_code": 143}, MACHINE),
        ({"exit_code": 135}, MACHINE),
        ({"exit_code": 137, "reason": "OOMKilled"}, USER),
        ({"exit_code": 137, "reason": "ContainerStatusUnknown"}, MACHINE),
        ({"exit_code": 255, "reason": "Unknown"}, MACHINE),
        ({"exit_code": 255}, USER),
        ({"exit_code": None}, MACHINE),
        ({"exit_code": 1, "disrupted": True}, PREEMPTED),
    ],
)
def test_a_failed_pods_class_is_what_is_usual_for_its_end(fields: dict[str, Any], what: FailureClass) -> None:
    assert classing.of_pod(a_pod(1, phase="Failed", **fields), build.a_spec().failure_policy) is what


@pytest.mark.parametrize(("code", "what"), [(75, PREEMPTED), (-9, PREEMPTED), (3, FATAL), (1, USER), (-15, MACHINE)])
def test_the_users_word_for_an_exit_code_comes_first(code: int, what: FailureClass) -> None:
    policy = build.a_spec(failurePolicy=OWN).failure_policy

    assert classing.of_code(code, policy, out_of_memory=False) is what


@pytest.mark.parametrize(("policy", "what"), [({}, USER), (OWN, PREEMPTED)])
def test_who_was_killed_for_want_of_memory_needs_as_much_again(policy: dict[str, Any], what: FailureClass) -> None:
    assert classing.of_code(-9, build.a_spec(failurePolicy=policy).failure_policy, out_of_memory=True) is what


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"exitCodes": [{"codes": [1], "class": "Mine"}]}, "class must be one of UserError"),
        ({"exitCodes": [{"codes": "1", "class": "Fatal"}]}, "must have lists of numbers"),
        ({"exitCodes": 1}, "spec.failurePolicy.exitCodes must be a list"),
        ({"maxDisruptions": -1}, "spec.maxDisruptions must be a whole number from 0"),
    ],
)
def test_a_policy_that_cannot_be_read_names_its_field(policy: dict[str, Any], message: str) -> None:
    with pytest.raises(spec.SpecError, match=message):
        build.a_spec(failurePolicy=policy)


# Counters


def with_failed_pod(code: int | None, *, policy: dict[str, Any] | None = None, **known: Any) -> Observed:
    """A job of two whose node 1 has a pod that failed."""
    job = a_job(nodes=2, failurePolicy=policy or {}, known=known_of(a_round(), **known))
    return running(job=job, having=[a_pod(0), a_pod(1, phase="Failed", exit_code=code)])


@pytest.mark.parametrize(
    ("code", "policy", "counters"),
    [
        (1, {}, (1, 0, 0, 1)),
        (137, {}, (0, 1, 0, 1)),
        (75, OWN, (0, 0, 1, 0)),
        (3, OWN, (1, 0, 0, 1)),
    ],
)
def test_each_class_has_a_counter_of_its_own(
    code: int, policy: dict[str, Any], counters: tuple[int, int, int, int]
) -> None:
    found = counted(with_failed_pod(code, policy=policy))

    assert (found.failures, found.infrastructure, found.disruptions, found.failed_pods) == counters


@pytest.mark.parametrize(("code", "counters"), [(1, (1, 0, 0)), (-9, (0, 1, 0)), (75, (0, 0, 1))])
def test_a_round_that_workers_ended_counts_by_the_first_of_them(code: int, counters: tuple[int, int, int]) -> None:
    leases = [held(0, failure=Failure(1, 1, "reset by peer", 20.5)), held(1, failure=Failure(1, code, "first", 20.1))]
    job = a_job(nodes=2, failurePolicy={"exitCodes": [{"codes": [75], "class": "Preemption"}]})

    found = counted(running(job=job, record=a_round(number=2, failures=1), leases=leases))

    assert (found.failures, found.infrastructure, found.disruptions) == counters
    assert found.new_failure is not None
    assert (found.new_failure.slot, found.new_failure.message, found.failed_rounds) == (1, "first", 1)


def test_a_round_whose_failure_nobody_could_tell_counts_all_the_same() -> None:
    found = counted(running(record=a_round(number=2, failures=1)))

    assert found.failures == 1
    assert found.last_failure is not None
    assert found.last_failure.message == describing.UNKNOWN


def test_what_was_counted_before_there_were_classes_is_not_counted_again() -> None:
    old = status.parse({"failures": 5, "failedPods": 2})

    assert counted(running(job=a_job(nodes=2, known=old), record=a_round(failures=3))).failures == 5


REPORT = """============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  exitcode  : 1 (pid: 15)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
LOGGED = "E1130 20:41:43.080000 1 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1)\n"
FRAMES = "    raise ChildFailedError(\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (f"RuntimeError: no data\n{LOGGED}\n", "RuntimeError: no data"),
        (f"RuntimeError: no data\n{LOGGED}{FRAMES}", "exitcode  : 1 (pid: 15)"),
        ("", "exitcode  : 1 (pid: 15)"),
    ],
)
def test_beside_torchruns_own_report_the_line_is_told_that_says_something(before: str, told: str) -> None:
    failure = describing.pod_failure(a_pod(0, phase="Failed", exit_code=1, message=before + REPORT), USER, NOW)

    assert failure.message == told
    assert failure.details == before + REPORT


# Budgets


def ends(read: Observed) -> str:
    """Why the job ends, if it does."""
    verdict = closing.failed(at(read))
    return verdict.reason if verdict else ""


@pytest.mark.parametrize(
    ("known", "policy", "reason"),
    [
        ({"failures": 10}, {}, ""),
        ({"failures": 11}, {}, "TooManyFailures"),
        ({"infrastructure": 101}, {}, "TooManyInfrastructureFailures"),
        ({"disruptions": 10**6}, {}, ""),
        ({"disruptions": 3}, {"maxDisruptions": 2}, "TooManyDisruptions"),
        ({"failures": 31, "refilled": status.Spent(failures=21)}, {}, ""),
        ({"failures": 32, "refilled": status.Spent(failures=21)}, {}, "TooManyFailures"),
    ],
)
def test_one_more_than_a_budget_allows_ends_the_job(known: dict[str, Any], policy: dict[str, Any], reason: str) -> None:
    job = a_job(nodes=2, failurePolicy=policy, known=known_of(a_round(), **known))

    assert ends(running(job=job)) == reason


def test_a_fatal_exit_code_ends_the_job_whatever_is_left() -> None:
    read = with_failed_pod(3, policy=OWN)

    assert ends(read) == "FatalExitCode"
    (failed,) = [e for e in deciding.decide(read, NOW).events if e.reason == "PodFailed"]
    assert "exit code 3 [Fatal]" in failed.message


def refilled(step: int, *, at_step: int = 1000, **fields: Any) -> status.Spent:
    """What is given back of four failures when training, which was at a step when the last happened, is at another."""
    known = known_of(a_round(), failures=4, failed_pods=4, refilled=status.Spent(failures=1, step=at_step))
    leases = [held(0, progress=Progress(1, step, step, None)), held(1)]
    return counted(running(job=a_job(nodes=2, known=known, **fields), leases=leases)).refilled


@pytest.mark.parametrize(("step", "given"), [(900, 1), (1099, 1), (1100, 4)])
def test_training_that_gets_on_gives_the_budgets_back(step: int, given: int) -> None:
    assert refilled(step).failures == given


def test_a_budget_that_is_never_given_back() -> None:
    assert refilled(10**9, failurePolicy={"refillSteps": 0}).failures == 1


def test_progress_counts_from_the_furthest_step_before_a_failure() -> None:
    """Or a job that crashes at the same step for ever, each time having begun at its last checkpoint, got on."""
    known = known_of(a_round(), progress=Progress(1, 1600, 0, None), refilled=status.Spent(step=500))
    leases = [held(0, progress=Progress(1, 900, 0, None)), held(1)]
    read = running(
        job=a_job(nodes=2, known=known), leases=leases, having=[a_pod(0), a_pod(1, phase="Failed", exit_code=1)]
    )

    assert counted(read).refilled == status.Spent(step=1600)


def test_pods_that_failed_before_training_got_on_no_longer_slow_replacements_down() -> None:
    last = status.Failure(1, 1, "no", NOW, pod="digits-1-0")
    spent = {"failures": 9, "failed_pods": 9, "last_failure": last}

    slow = deciding.decide(running(job=a_job(nodes=2, known=known_of(a_round(), **spent)), having=[a_pod(0)]), NOW)
    given_back = {**spent, "refilled": status.Spent(failures=9, pods=9)}
    quick = deciding.decide(
        running(job=a_job(nodes=2, known=known_of(a_round(), **given_back)), leases=[held(0)], having=[a_pod(0)]), NOW
    )

    assert [action for action in slow.actions if getattr(action, "kind", "") == "Pod"] == []
    assert len([action for action in quick.actions if getattr(action, "kind", "") == "Pod"]) == 1


# What is told


LOG = "step 1\nstep 2\nTraceback (most recent call last):\n  ...\nValueError: no such file\n"


def test_a_pod_that_ran_out_of_memory_is_told_so() -> None:
    pod = pods.parse(
        "digits",
        {
            "metadata": {"name": "digits-1-0", "uid": build.uid(1), "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "node-b", "containers": [{"name": "trainer"}]},
            "status": {
                "phase": "Failed",
                "containerStatuses": [
                    {
                        "name": "trainer",
                        "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": LOG}},
                    }
                ],
            },
        },
    )
    assert pod is not None

    decision = deciding.decide(running(having=[a_pod(0), pod]), NOW)

    last = decision.status.last_failure
    assert last is not None
    assert (last.reason, last.cluster_node, last.what) == ("OOMKilled", "node-b", USER)
    assert (last.message, last.details) == (f"{describing.NEEDS_MEMORY}: ValueError: no such file", LOG)
    (event,) = [e for e in decision.events if e.reason == "PodFailed"]
    assert event.message.startswith("node 1 (digits-1-0) on node-b failed with exit code 137, OOMKilled [UserError]: m")
    assert event.message.endswith(LOG)


def test_a_worker_that_ran_out_of_memory_in_a_pod_that_goes_on_is_told_so() -> None:
    leases = [held(0, arrived=2), held(1, arrived=2, failure=Failure(1, -9, "Signal 9", 20.1, out_of_memory=True))]
    record = a_round(Phase.OPEN, 2, reason=Reason.WORKERS_FAILED)
    sealed = a_round(number=2, reason=Reason.WORKERS_FAILED, failures=1)

    decision = deciding.decide(running(job=a_job(nodes=2, known=known_of(record)), record=sealed, leases=leases), NOW)

    last = decision.status.last_failure
    assert last is not None
    assert (last.reason, last.what, last.message) == ("OOMKilled", USER, f"{describing.NEEDS_MEMORY}: Signal 9")
    assert (decision.status.failures, decision.status.infrastructure) == (1, 0)


def test_the_traceback_of_the_worker_that_failed_first_is_in_event_status_and_condition() -> None:
    report = Failure(1, 1, "ValueError: no such file", 20.1, "Traceback\n  File train.py\nValueError: no such file\n")
    record = a_round(Phase.OPEN, 2, reason=Reason.WORKERS_FAILED)
    leases = [held(0, arrived=2), held(1, arrived=2, failure=report)]

    sealed = a_round(number=2, reason=Reason.WORKERS_FAILED, failures=1)
    job = a_job(nodes=2, known=known_of(record))
    decision = deciding.decide(running(job=job, record=sealed, leases=leases), NOW)

    (event,) = [e for e in decision.events if e.reason == "WorkersFailed"]
    assert "File train.py" in event.message
    assert decision.status.last_failure is not None
    assert decision.status.last_failure.details == report.traceback


def test_what_is_told_is_bounded() -> None:
    failure = status.Failure(1, 1, "m" * 2000, NOW, details="d" * 5000)
    assert len(describing.whole(failure)) == describing.MAX_MESSAGE
    short = dataclasses.replace(failure, message="short")
    assert len(describing.whole(short)) == describing.MAX_MESSAGE
    pod = a_pod(1, phase="Failed", exit_code=1, message="l\n" * 5000)
    details = describing.pod_failure(pod, USER, NOW).details
    assert describing.MAX_DETAILS - 2 <= len(details) <= describing.MAX_DETAILS, "whole lines"
