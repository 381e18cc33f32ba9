"""What is counted, and what is told of it: counters, conditions, events."""

import dataclasses
import sys
from typing import Any

import pytest

from elasticjob_operator.api import conditions, spec, status, times
from elasticjob_operator.core import counting, deciding, replacing
from elasticjob_operator.core.actions import Decision, Problem
from elasticjob_operator.core.observed import Observed, Round
from elasticjob_rendezvous.round.lease import Failure, Progress, SlotLease
from elasticjob_rendezvous.round.record import Phase, Reason, Result
from support import operator_builders as build
from support.operator_builders import NOW, a_job, a_pod, a_round, held, known_of, running, seen


def counted(read: Observed) -> counting.Counters:
    """The counters."""
    record = read.round.record
    assert record is not None
    assert isinstance(read.job.spec, spec.Spec)
    return counting.count(read, record, read.job.spec.failure_policy, NOW)


# What is counted


@pytest.mark.parametrize(
    ("pod", "failed", "lost"),
    [
        (a_pod(1), 0, 0),
        (a_pod(1, phase="Failed", exit_code=1), 1, 0),
        (a_pod(1, phase="Failed", deleting=True), 0, 1),
        (a_pod(1, phase="Failed", disrupted=True), 0, 1),
        (a_pod(1, deleting=True), 0, 1),
        (a_pod(1, deleting=True, started=False), 0, 1),
        (a_pod(3, phase="Failed"), 0, 0),
        (a_pod(3, deleting=True), 0, 0),
        (a_pod(1, phase="Succeeded"), 0, 0),
        (None, 0, 1),
    ],
)
def test_failures_are_what_pods_did_themselves_and_disruptions_what_was_done_to_them(
    pod: Any, failed: int, lost: int
) -> None:
    pods = [a_pod(0), *([pod] if pod else [])]
    if pod and pod.slot == 3:
        pods.append(a_pod(1))

    found = counted(running(having=pods))

    assert (found.failed_pods, found.disruptions) == (failed, lost)


@pytest.mark.parametrize(
    ("left", "pod", "failed", "lost"),
    [
        ("gone", None, 0, 1),
        ("", None, 0, 0),
        (build.uid(1), a_pod(1), 0, 0),
        (build.uid(1), a_pod(1, phase="Failed", exit_code=1), 1, 0),
        (build.uid(1), a_pod(1, deleting=True, started=False), 0, 1),
        ("", a_pod(1, deleting=True, started=False), 0, 0),
        ("gone", a_pod(1, 1), 0, 1),
        (build.uid(1), a_pod(1, phase="Succeeded", deleting=True, started=False), 0, 1),
    ],
)
def test_who_left_a_slot_that_was_wanted_is_lost_when_its_pod_goes(left: str, pod: Any, failed: int, lost: int) -> None:
    free = SlotLease(1, seen=1, left=left)

    found = counted(running(leases=[held(0), free], having=[a_pod(0), *([pod] if pod else [])]))

    assert (found.failed_pods, found.disruptions) == (failed, lost)
    assert not lost or set(found.lost) <= set(found.counted)


def test_who_left_before_its_slot_was_given_up_and_wanted_again_counts_for_nothing() -> None:
    free = SlotLease(1, seen=1, left="gone")
    away = running((0,), job=a_job(nodes=1, known=known_of(a_round(plan=(0,)))), leases=[held(0), free])
    known = decided(away).status

    again = running(job=a_job(nodes=2, known=known), leases=[held(0), free], having=[a_pod(0)])

    assert counted(again).disruptions == 0


def test_who_has_finished_is_never_lost_whichever_round_is_on_now() -> None:
    leases = [held(0, arrived=5), held(1, finished=4)]

    found = counted(running(record=a_round(number=5, members=(0,)), leases=leases, having=[a_pod(0)]))

    assert found.disruptions == 0


def test_nothing_is_counted_twice() -> None:
    known = known_of(a_round(), counted=(build.uid(1),), failed_pods=1)

    found = counted(running(job=a_job(nodes=2, known=known), having=[a_pod(0), a_pod(1, phase="Failed")]))

    assert (found.failed_pods, found.failed, found.counted) == (1, (), (build.uid(1),))


def test_what_nothing_names_any_more_is_forgotten() -> None:
    known = known_of(a_round(), counted=("gone", build.uid(1)))

    assert counted(running(job=a_job(nodes=2, known=known))).counted == (build.uid(1),)


def test_a_pod_that_ends_without_ever_joining_counts_as_failed() -> None:
    found = counted(
        running(leases=[held(0), SlotLease(1)], having=[a_pod(0), a_pod(1, phase="Succeeded", exit_code=0)])
    )

    assert found.failed_pods == 1
    assert found.last_failure is not None
    assert "torchrun" in found.last_failure.message


@pytest.mark.parametrize(("made", "failures"), [(-5, 0), (5, 1)])
def test_a_pod_that_was_sent_away_before_it_could_join_has_not_failed(made: int, failures: int) -> None:
    known = known_of(a_round(), last_resize=status.Resize(start=NOW - 30, before=1, after=2))
    pod = a_pod(1, phase="Succeeded", exit_code=0, created=times.dump(NOW - 30 + made))
    read = running(job=a_job(nodes=2, known=known), leases=[held(0), SlotLease(1)], having=[a_pod(0), pod])

    assert counted(read).failed_pods == failures


def test_a_finish_is_neither_a_failure_nor_a_loss() -> None:
    leases = [held(0), held(1, finished=1)]

    for pods in ([a_pod(0)], [a_pod(0), a_pod(1, phase="Failed")], [a_pod(0), a_pod(1, deleting=True)]):
        found = counted(running(leases=leases, having=pods))
        assert (found.failed_pods, found.disruptions) == (0, 0)


def test_nothing_counts_when_the_job_is_over() -> None:
    found = counted(running(record=a_round(Phase.CLOSED), having=[a_pod(0, phase="Failed"), a_pod(1, deleting=True)]))

    assert (found.failed_pods, found.disruptions) == (0, 0)


def test_the_worker_failure_that_a_round_counts_is_told_from_its_lease() -> None:
    leases = [held(0, failure=Failure(3, 143, "stopped")), held(1, failure=Failure(4, 1, "CUDA out of memory"))]

    found = counted(running(record=a_round(failures=1), leases=leases))

    assert found.failures == 1
    assert found.last_failure == status.Failure(1, 1, "CUDA out of memory", NOW, pod="digits-1-0", round=4)


# What is said


def decided(read: Observed, *problems: Problem) -> Decision:
    """The whole decision."""
    return deciding.decide(read, NOW, problems)


def said(read: Observed, kind: str, *problems: Problem) -> tuple[bool, str, str]:
    """One condition."""
    found = conditions.find(decided(read, *problems).status.conditions, kind)
    assert found is not None
    return found.holds, found.reason, found.message


def test_a_running_job_says_so_and_nothing_else() -> None:
    new = decided(running()).status

    assert (new.state, new.reason, new.nodes, new.wanted) == ("Running", "Started", 2, 2)
    assert {c.type: c.holds for c in new.conditions} == {
        "Running": True,
        "PodsReady": True,
        "Resizing": False,
        "Suspended": False,
        "Succeeded": False,
        "Failed": False,
    }
    assert all(c.generation == 1 and c.since == NOW and c.reason for c in new.conditions)


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    first = decided(running())
    read = running(job=a_job(nodes=2, known=first.status))

    later = deciding.decide(read, NOW + 100).status

    assert later == first.status


@pytest.mark.parametrize(
    ("pods", "reason", "message"),
    [
        ([], "PodsPending", "pods ready: 0 of 2"),
        ([a_pod(0), a_pod(1, ready=False)], "PodsPending", "pods ready: 1 of 2"),
        (
            [a_pod(0), a_pod(1, ready=False, trouble="Unschedulable", message="0/3 nodes have a GPU")],
            "Unschedulable",
            "digits-1-0: 0/3 nodes have a GPU",
        ),
    ],
)
def test_missing_pods_are_explained(pods: list[Any], reason: str, message: str) -> None:
    holds, found, text = said(running(having=pods, record=a_round(Phase.OPEN, 1)), "PodsReady")

    assert (holds, found) == (False, reason)
    assert message in text


def test_what_the_api_server_refuses_is_told_word_for_word_and_once() -> None:
    refused = Problem("TemplateInvalid", "spec.containers[0].image: Required value")
    read = running(having=[a_pod(0)])

    first = decided(read, refused)
    again = decided(running(having=[a_pod(0)], job=a_job(nodes=2, known=first.status)), refused)

    assert said(read, "PodsReady", refused) == (False, "TemplateInvalid", refused.message)
    assert [e.reason for e in first.events if e.reason == "TemplateInvalid"] == ["TemplateInvalid"]
    assert not again.events


def test_another_mistake_in_a_mended_spec_is_told_too() -> None:
    first = decided(running(having=[a_pod(0)]), Problem("TemplateInvalid", 'unknown field "spec.nodeSelectr"'))
    mended = a_job(nodes=2, known=first.status, generation=2)

    second = decided(running(having=[a_pod(0)], job=mended), Problem("TemplateInvalid", 'unknown field "spec.tolerat"'))

    assert 'unknown field "spec.tolerat"' in [e.message for e in second.events]


def test_a_resize_says_what_it_waits_for() -> None:
    job = a_job(nodes=3, known=known_of(a_round()))

    holds, reason, message = said(running(job=job), "Resizing")

    assert (holds, reason) == (True, "WaitingForNewcomers")
    assert message == "from 2 nodes to 3; training goes on until newcomers are ready: node 2"


@pytest.mark.parametrize("phase", [Phase.FINISHING, Phase.CLOSED])
def test_a_plan_of_no_nodes_is_read_like_any_other(phase: Phase) -> None:
    read = running(record=a_round(phase, plan=(), members=(0, 1)))

    assert decided(read).status.round_phase == phase.value


def test_the_end_is_told_when_a_side_car_is_left() -> None:
    pods = [a_pod(0, phase="Succeeded", trainer_ended=NOW - 20, started=False), a_pod(1, phase="Succeeded")]

    record = a_round(Phase.CLOSED)
    job = a_job(nodes=2, known=known_of(record, completion_time=NOW - 20))

    decision = decided(running(record=record, having=pods, job=job))

    assert decision.status.state == "Succeeded"
    assert decision.wake_after == replacing.LEAVING_SECONDS - 20


def test_the_end_is_told_when_the_last_pod_has_ended() -> None:
    record = a_round(Phase.CLOSED)
    going = decided(running(record=record)).status
    gone = decided(running(record=record, having=[a_pod(0, phase="Succeeded"), a_pod(1, phase="Succeeded")])).status

    assert (going.state, going.finished, going.completion_time, going.result) == ("Finishing", False, None, "Succeeded")
    assert (gone.state, gone.finished, gone.completion_time) == ("Succeeded", True, NOW)


def test_a_failed_job_says_why() -> None:
    record = a_round(Phase.CLOSED, failures=11, result=Result.FAILED)
    last = status.Failure(1, 9, "CUDA out of memory", NOW, details="Traceback\n  line 7\nCUDA out of memory")
    known = known_of(a_round(), failures=11, failed_rounds=11, last_failure=last)
    before = decided(running(record=a_round(failures=11), job=a_job(nodes=2, known=known), having=[])).status
    job = a_job(nodes=2, known=before)

    decision = decided(running(record=record, job=job, having=[]))

    new = decision.status
    assert (new.state, new.reason) == ("Failed", "TooManyFailures")
    found = conditions.find(new.conditions, "Failed")
    assert found is not None
    assert "maxFailures is 10" in found.message
    assert found.message.endswith("CUDA out of memory\nTraceback\n  line 7\nCUDA out of memory")
    (event,) = [e for e in decision.events if e.reason == "Failed"]
    assert event.message == new.end_message == found.message.splitlines()[0], "in full once: in the condition"


@pytest.mark.parametrize(
    ("record", "reasons"),
    [
        (a_round(Phase.OPEN, 2, reason=Reason.POD_LOST, absent=frozenset({1})), ["RoundOpened"]),
        (a_round(Phase.SEALED, 2, reason=Reason.POD_LOST), ["RoundSealed"]),
        (
            a_round(Phase.OPEN, 9, sealed=0, members=(), store="", reason=Reason.STATE_LOST),
            ["StateLost", "RoundOpened"],
        ),
        (a_round(Phase.SEALED, 1), []),
    ],
)
def test_each_round_is_told_once(record: Any, reasons: list[str]) -> None:
    job = a_job(nodes=2, known=known_of(a_round()))
    read = running(record=record, job=job, leases=[held(slot, arrived=record.number) for slot in (0, 1)])

    first = decided(read)

    assert [e.reason for e in first.events] == reasons
    assert not decided(dataclasses.replace(read, job=a_job(nodes=2, known=first.status))).events


def test_an_unreadable_round_is_told_and_replaced() -> None:
    read = dataclasses.replace(
        running(job=a_job(nodes=2, known=known_of(a_round()))), round=Round(version="7", error="not JSON")
    )

    decision = decided(read)

    assert [e.reason for e in decision.events if e.warning][:1] == ["RoundUnreadable"]
    assert decision.status.round == 2


def test_progress_is_that_of_the_newest_round() -> None:
    leases = [held(0, progress=Progress(1, 900, 9000, 0.1)), held(1, progress=Progress(2, 500, 5000, 0.2))]

    assert decided(running(leases=leases)).status.progress == Progress(2, 500, 5000, 0.2)


def test_a_job_that_is_being_deleted_or_is_over_is_left_alone() -> None:
    over = known_of(a_round(), conditions=(conditions.Condition("Succeeded", holds=True, reason="AllFinished"),))

    assert not decided(seen(a_round(), job=a_job(deleting=True))).actions
    assert not decided(seen(None, job=a_job(known=over))).actions


def test_a_spec_that_cannot_be_understood_is_told_and_nothing_is_touched() -> None:
    job = dataclasses.replace(a_job(), spec="spec.maxNodes must be a whole number from 1, not 'x'")

    decision = decided(seen(None, job=job))

    assert not decision.actions
    assert (decision.status.state, decision.status.reason) == ("Invalid", "InvalidSpec")
    assert "spec.maxNodes" in decision.events[0].message


# As it is written


def test_a_status_that_is_written_and_read_is_the_same() -> None:
    leases = [held(0, progress=Progress(1, 5, 50, None)), held(1)]
    rich = dataclasses.replace(
        decided(running(leases=leases, having=[a_pod(0), a_pod(1, phase="Failed", exit_code=2)])).status,
        last_resize=status.Resize(NOW, 1, 2, end=NOW + 1),
        waiting_since=NOW,
        notice_time=NOW,
        completion_time=NOW,
        result="Failed",
    )

    assert status.parse(status.dump(rich)) == rich


def test_numbers_are_within_what_the_api_takes() -> None:
    last = status.Failure(1, -(2**40), "no", NOW)

    data = status.dump(status.Status(failures=2**31, round=2**40, last_failure=last))

    assert (data["failures"], data["round"], data["lastFailure"]["exitCode"]) == (2**31 - 1, 2**40, -(2**31))


def steps(nodes: int, *, failed: bool) -> int:
    """Lines of code that run to decide about a job of so many nodes."""
    count = 0

    def trace(*_: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    slots = range(nodes)
    fields: dict[str, Any] = {"phase": "Failed", "started": False, "trainer_ended": NOW - 90} if failed else {}
    read = running(
        slots,
        job=a_job(
            minNodes=1, maxNodes=nodes, failurePolicy={"maxFailures": 10000}, known=known_of(a_round(plan=slots))
        ),
        having=[a_pod(slot, **fields) for slot in slots],
        leases=[held(slot, finished=0 if failed else slot % 2) for slot in slots],
    )
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        decided(read)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("failed", [False, True])
def test_four_times_the_nodes_are_no_more_than_four_times_the_work(*, failed: bool) -> None:
    assert steps(256, failed=failed) < 4.5 * steps(64, failed=failed)


@pytest.mark.parametrize(
    "data",
    [None, {}, {"round": "x", "conditions": None, "lastResize": {"from": 1}, "progress": 7, "roundTime": "soon"}],
)
def test_a_status_that_cannot_be_read_counts_as_none(data: Any) -> None:
    assert status.parse(data) == status.Status()


def test_a_worker_that_left_no_traceback_is_told_with_where_its_log_is() -> None:
    leases = [held(0), held(1, failure=Failure(4, 2, ""))]

    found = counted(running(record=a_round(failures=1), leases=leases))

    assert found.last_failure is not None
    assert found.last_failure.message == "it left no traceback; kubectl logs digits-1-0 says more"
