"""Each policy by itself: what it answers to which situation."""

import dataclasses
from typing import Any

import pytest

from elasticjob_operator.api import status
from elasticjob_operator.core import (
    arriving,
    cleaning,
    closing,
    plans,
    recreating,
    reforming,
    releasing,
    replacing,
    resizing,
    rounds,
)
from elasticjob_operator.core.actions import Create, DeletePod
from elasticjob_operator.core.deciding import SOON, decide
from elasticjob_operator.core.observed import Observed, Round
from elasticjob_rendezvous.round.lease import Failure, SlotLease
from elasticjob_rendezvous.round.record import Phase, Reason, Result
from support import operator_builders as build
from support.operator_builders import NOW, a_job, a_pod, a_round, at, held, known_of, running, seen

# plans: which slots


@pytest.mark.parametrize(("wanted", "plan"), [(1, {0}), (2, {0, 2}), (3, {0, 2, 3}), (4, {0, 1, 2, 3})], ids=str)
def test_the_plan_changes_as_little_as_can_be(wanted: int, plan: set[int]) -> None:
    record = a_round(plan=(0, 2, 3))
    read = running((0, 2, 3), record=record)

    assert plans.target(read, record, wanted=wanted, most=4) == plan


@pytest.mark.parametrize(
    ("what", "given_up"),
    [
        ("nobody is there", {1}),
        ("it is not in the round", {0}),
        ("it is not ready", {1}),
        ("none is worse than another", {2}),
    ],
)
def test_the_slot_that_is_worth_least_is_given_up(what: str, given_up: set[int]) -> None:
    record = a_round(plan=(0, 1, 2), members=(1, 2) if what == "it is not in the round" else (0, 1, 2))
    pods = [a_pod(0), a_pod(1, ready=what != "it is not ready"), a_pod(2)]
    read = running((0, 1, 2), record=record, having=[p for p in pods if what != "nobody is there" or p.slot != 1])

    assert record.plan - plans.target(read, record, wanted=2, most=4) == given_up


def test_a_first_plan_takes_the_slots_that_live() -> None:
    assert plans.first(seen(having=[a_pod(3), a_pod(1)]), wanted=3) == {0, 1, 3}
    assert plans.first(seen(), wanted=3) == {0, 1, 2}


# reforming: a member is lost


@pytest.mark.parametrize(
    "pod", [None, a_pod(1, phase="Failed"), a_pod(1, phase="Succeeded"), a_pod(1, deleting=True), a_pod(1, 1)]
)
def test_without_a_lost_member_a_round_is_opened(pod: Any) -> None:
    step = reforming.step(at(running(having=[a_pod(0), *([pod] if pod else [])])))

    assert step is not None
    assert step.record is not None
    assert (step.record.number, step.record.reason, set(step.record.absent)) == (2, Reason.POD_LOST, {1})
    assert step.record.members == a_round().members


def test_a_member_that_has_finished_is_not_lost() -> None:
    leases = [held(0), held(1, finished=1)]

    assert reforming.step(at(running(leases=leases, having=[a_pod(0), a_pod(1, phase="Succeeded")]))) is None


def test_a_member_whose_living_successor_holds_the_slot_asks_for_itself() -> None:
    leases = [held(0), dataclasses.replace(held(1), nonce="0000ffff", arrived=2)]

    assert reforming.step(at(running(leases=leases))) is None


def test_the_last_that_can_train_does_so_until_it_ends() -> None:
    """Or it would be forgiven in the next round, lost again at once, and a storm of rounds would last as long as it."""
    alone = a_round(number=3, members=(0,))
    leases = [held(0, arrived=3), dataclasses.replace(held(1), pod="", nonce="", arrived=0)]
    ending, new = a_pod(0, deleting=True), a_pod(1, 1, phase="Pending", ready=False, started=False)
    assert reforming.step(at(running(record=alone, leases=leases, having=[ending, new]))) is None

    gone = reforming.step(at(running(record=alone, leases=leases, having=[a_pod(0, phase="Failed"), new])))
    assert gone is not None
    parked = [held(0, arrived=3), held(1, 1, arrived=4)]
    taken_over = reforming.step(at(running(record=alone, leases=parked, having=[ending, a_pod(1, 1)])))
    assert taken_over is not None
    assert taken_over.record is not None
    assert taken_over.record.suspects == {alone.members[0].nonce}


def test_who_is_being_deleted_must_not_become_a_member_again() -> None:
    step = reforming.step(at(running(having=[a_pod(0), a_pod(1, deleting=True)])))

    assert step is not None
    assert step.record is not None
    assert step.record.suspects == {build.nonce(1)}


def test_suspects_are_not_named_where_too_few_would_be_left() -> None:
    job = a_job(nodes=2, minNodes=2, known=known_of(a_round()))

    step = reforming.step(at(running(job=job, having=[a_pod(0), a_pod(1, phase="Failed")])))

    assert step is not None
    assert step.record is not None
    assert step.record.suspects == frozenset()


def test_slots_outside_of_the_round_are_never_waited_for() -> None:
    record = a_round(plan=(0, 1, 2), members=(0, 1))
    leases = [held(0), held(1), held(2, arrived=2)]

    step = reforming.step(at(running((0, 1, 2), record=record, leases=leases, having=[a_pod(0), a_pod(2)])))

    assert step is not None
    assert step.record is not None
    assert step.record.absent == {1, 2}


@pytest.mark.parametrize("how", ["failure", "arrived", "left"])
def test_a_member_that_gave_up_while_others_finished_makes_the_work_go_on(how: str) -> None:
    other = {
        "failure": held(1, failure=Failure(1, 1, "no")),
        "arrived": held(1, arrived=2),
        "left": SlotLease(1, seen=1),
    }[how]
    read = running(record=a_round(Phase.FINISHING), leases=[held(0, finished=1), other], having=[a_pod(0), a_pod(1)])

    step = reforming.step(at(read))

    assert step is not None
    assert step.record is not None
    assert step.record.phase is Phase.OPEN


def test_nothing_is_opened_while_all_is_well() -> None:
    assert reforming.step(at(running())) is None
    assert reforming.step(at(running(record=a_round(Phase.FINISHING)))) is None


# arriving: a round is open


def opening(number: int = 2, **fields: Any) -> Any:
    """An open round of three slots whose last one had all of them."""
    return a_round(Phase.OPEN, number, **{"plan": (0, 1, 2), "reason": Reason.PEER_SILENT, **fields})


def amended(read: Observed, **fields: Any) -> Any:
    """What the open round becomes."""
    step = arriving.step(at(read, **fields))
    return step.record if step else None


def test_an_open_round_does_not_wait_for_who_is_gone_and_tells_the_real_reason() -> None:
    read = running((0, 1, 2), record=opening(), having=[a_pod(0), a_pod(2)])

    assert amended(read) == dataclasses.replace(
        opening(), absent=frozenset({1}), reason=Reason.POD_LOST, suspects=frozenset({build.nonce(1)})
    )


def test_a_replacement_that_is_no_process_yet_is_no_reason_to_suspect_the_only_one_that_is() -> None:
    record = opening(plan=(0, 1), members=(0, 1), absent=frozenset({1}))
    pods = [a_pod(0, deleting=True), a_pod(1, 1)]

    changed = amended(running((0, 1), record=record, leases=[held(0, arrived=2)], having=pods))

    assert changed.suspects == frozenset()


def test_failed_workers_stay_the_reason_where_no_pod_is_lost() -> None:
    assert amended(running((0, 1, 2), record=opening(reason=Reason.WORKERS_FAILED))) is None


def test_the_first_round_waits_for_pods_that_are_not_there_yet() -> None:
    first = a_round(Phase.OPEN, 1, plan=(0, 1, 2))

    assert amended(running((0, 1, 2), record=first, leases=[], having=[a_pod(0)])) is None


@pytest.mark.parametrize(("arrived", "least", "without"), [((0, 1), 2, {2}), ((0,), 2, set()), ((0,), 1, {1, 2})])
def test_after_its_time_the_first_round_starts_with_who_has_arrived(
    arrived: tuple[int, ...], least: int, without: set[int]
) -> None:
    first = a_round(Phase.OPEN, 1, plan=(0, 1, 2))
    job = a_job(nodes=3, minNodes=least, known=known_of(first, round_time=NOW - 300))
    read = running((0, 1, 2), job=job, record=first, leases=[held(slot) for slot in arrived])

    changed = amended(read)

    assert (changed.absent if changed else frozenset()) == without


def test_a_plan_that_changes_while_a_round_is_open_amends_it() -> None:
    record = opening()
    grown = running((0, 1, 2), record=record, job=a_job(nodes=4, known=known_of(record)))
    shrunk = running((0, 1, 2), record=record, job=a_job(nodes=1, known=known_of(record)))

    assert (amended(grown).plan, amended(grown).absent, amended(grown).number) == ({0, 1, 2, 3}, {3}, 2)
    assert (amended(shrunk).plan, amended(shrunk).absent, amended(shrunk).number) == ({0}, set(), 2)


# resizing: a round trains


def resized(read: Observed, **fields: Any) -> Any:
    """What the sealed round becomes."""
    step = resizing.step(at(read, **fields))
    return step.record if step else None


def wishing(nodes: int, *, record: Any = None, known: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A job of two nodes in its first round, for which so many are wanted."""
    record = record or a_round()
    return {"record": record, "job": a_job(nodes=nodes, known=known_of(record, **(known or {})), **fields)}


def test_growth_is_announced_while_training_goes_on() -> None:
    changed = resized(running(**wishing(4)))

    assert (changed.number, changed.phase, changed.plan, changed.absent) == (1, Phase.SEALED, {0, 1, 2, 3}, {2, 3})


@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.SEALED])
def test_a_minimum_that_was_edited_is_written_into_the_round(phase: Phase) -> None:
    record = a_round(phase, number=2)
    read = running(leases=[held(0, arrived=2), held(1, arrived=2)], **wishing(2, record=record, minNodes=2))

    changed = rounds.step(at(read)).record

    assert changed is not None
    assert (changed.number, changed.phase, changed.min_nodes) == (2, phase, 2)


def test_newcomers_are_waited_for_before_anything_stops() -> None:
    record = a_round(plan=(0, 1, 2, 3), members=(0, 1), absent=frozenset({2, 3}))
    pods = [a_pod(slot) for slot in range(4)]
    one = running(leases=[held(0), held(1), held(2, arrived=2)], having=pods, **wishing(4, record=record))
    both = running(
        leases=[held(0), held(1), held(2, arrived=2), held(3, arrived=2)], having=pods, **wishing(4, record=record)
    )

    assert resized(one) is None
    assert resized(both).notice.grace_seconds == 30


@pytest.mark.parametrize(
    ("grace", "checkpointed", "since", "opens"),
    [(0, "", 0, True), (30, "1.1", 0, True), (30, "0.9", 5, False), (30, "", 31, True)],
)
def test_a_round_is_opened_when_the_checkpoint_is_there_or_its_time_is_over(
    grace: int, checkpointed: str, since: int, *, opens: bool
) -> None:
    notice = build.a_notice(grace=grace) if grace else None
    record = a_round(plan=(0, 1, 2), members=(0, 1), absent=frozenset({2}), notice=notice)
    known = {"notice_time": NOW - since, "last_resize": status.Resize(NOW - 60, 2, 3)}
    wish = wishing(3, record=record, known=known, resizePolicy={"checkpointGraceSeconds": grace})
    leases = [held(0, checkpointed=checkpointed), held(1), held(2, arrived=2)]

    changed = resized(running(leases=leases, having=[a_pod(slot) for slot in range(3)], **wish))

    assert (changed is not None) is opens
    if changed:
        assert (changed.number, changed.reason, changed.absent) == (2, Reason.RESIZED, set())


def test_a_replacement_that_waits_is_taken_in_by_the_same_steps() -> None:
    record = a_round(plan=(0, 1), members=(0,), number=2)
    wish = wishing(2, record=record, resizePolicy={"checkpointGraceSeconds": 0})

    changed = resized(
        running(leases=[held(0, arrived=2), held(1, 1, arrived=3)], having=[a_pod(0), a_pod(1, 1)], **wish)
    )

    assert (changed.number, changed.reason) == (3, Reason.NODE_JOINED)


def test_after_their_time_the_newcomers_that_are_ready_join_without_the_others() -> None:
    record = a_round(plan=(0, 1, 2), members=(0,), absent=frozenset({1, 2}))
    wish = wishing(3, record=record, known={"waiting_since": NOW - 300}, resizePolicy={"checkpointGraceSeconds": 0})

    changed = resized(running(leases=[held(0), held(1, arrived=2)], having=[a_pod(0), a_pod(1), a_pod(2)], **wish))

    assert (changed.number, changed.plan, changed.absent) == (2, {0, 1, 2}, {2})


def test_pending_newcomers_go_first_and_without_a_round() -> None:
    record = a_round(plan=(0, 1, 2, 3), members=(0, 1), absent=frozenset({2, 3}))

    changed = resized(running(having=[a_pod(0), a_pod(1)], **wishing(2, record=record)))

    assert (changed.number, changed.plan) == (1, {0, 1})


def test_members_that_leave_are_asked_for_a_checkpoint_first() -> None:
    changed = resized(running(**wishing(1)))

    assert (changed.number, changed.plan, changed.notice) == (1, {0, 1}, build.a_notice(f"1.{NOW}"))


def test_a_wish_that_is_taken_back_takes_the_notice_back() -> None:
    assert resized(running(**wishing(2, record=a_round(notice=build.a_notice())))).notice is None


@pytest.mark.parametrize("phase", [Phase.FINISHING, Phase.CLOSED])
def test_nothing_is_resized_when_the_end_has_begun(phase: Phase) -> None:
    assert resized(running(**wishing(4, record=a_round(phase)))) is None


# closing: the end


@pytest.mark.parametrize(
    ("finished", "plan", "result"),
    [((0, 1), (0, 1), Result.SUCCEEDED), ((0,), (0, 1), None), ((0,), (0,), Result.SUCCEEDED), ((), (0, 1), None)],
)
def test_a_success_is_all_members_that_count(finished: tuple[int, ...], plan: tuple[int, ...], result: Any) -> None:
    record = a_round(Phase.FINISHING, plan=plan, members=(0, 1))
    leases = [held(slot, finished=1 if slot in finished else 0) for slot in (0, 1)]

    step = closing.step(at(running((0, 1), record=record, leases=leases)))

    assert (step.record.result if step and step.record else None) is result


@pytest.mark.parametrize(("failures", "reason"), [(10, None), (11, "TooManyFailures")])
def test_one_failure_more_than_allowed_ends_the_job(failures: int, reason: str | None) -> None:
    why = closing.failed(at(running(record=a_round(failures=failures))))

    assert (why and why.reason) == reason


def test_a_finish_whose_round_is_lost_is_a_failure() -> None:
    record = a_round(Phase.OPEN, 5, members=(), sealed=0, store="", reason=Reason.STATE_LOST)

    why = closing.failed(at(running(record=record, leases=[held(0, finished=4), held(1)])))

    assert why is not None
    assert why.reason == "StateLostWhileFinishing"


def test_a_failure_is_closed_only_when_the_status_says_why() -> None:
    record = a_round(failures=11)
    first = closing.step(at(running(record=record)))
    known = known_of(record, end_reason="TooManyFailures", end_message="11 failures; node 1 failed\nTraceback")
    job = a_job(nodes=2, known=known)
    second = closing.step(at(running(record=record, job=job)))

    assert first is not None
    assert (first.record, first.wake_after) == (None, closing.SOON)
    assert second is not None
    assert second.record is not None
    assert (second.record.result, second.record.end) == (Result.FAILED, "TooManyFailures: 11 failures; node 1 failed")


def test_finished_work_is_a_success_even_if_its_failure_was_decided() -> None:
    job = a_job(nodes=2, known=known_of(a_round(), end_reason="DeadlineExceeded"))

    step = closing.step(at(running(job=job, leases=[held(0, finished=1), held(1, finished=1)])))

    assert step is not None
    assert step.record is not None
    assert step.record.result is Result.SUCCEEDED


# recreating: no record


def test_a_new_job_starts_with_round_one() -> None:
    record = recreating.record(seen(job=a_job(nodes=2)), build.a_spec(nodes=2))

    assert (record.number, record.reason) == (1, Reason.STARTED)
    assert (set(record.plan), set(record.absent)) == ({0, 1}, set())


@pytest.mark.parametrize("trace", ["lease", "status", "unreadable"])
def test_a_lost_record_is_followed_by_a_higher_one(trace: str) -> None:
    job = a_job(
        nodes=2, known=status.Status(round=7, failures=3, failed_pods=1, failed_rounds=2) if trace == "status" else None
    )
    read = seen(job=job, leases=[held(0, arrived=7)] if trace == "lease" else [], having=[a_pod(0)])
    if trace == "unreadable":
        read = dataclasses.replace(read, round=Round(version="5", error="not JSON"))

    record = recreating.record(read, build.a_spec(nodes=2))

    assert record.reason is Reason.STATE_LOST
    assert record.number == (2 if trace == "unreadable" else 8)
    assert record.absent == {1}
    assert record.failures == (2 if trace == "status" else 0)


def test_a_job_that_was_over_stays_over() -> None:
    job = a_job(nodes=2, known=status.Status(round=7, result="Succeeded"))

    record = recreating.record(seen(job=job), build.a_spec(nodes=2))

    assert (record.phase, record.result, record.number) == (Phase.CLOSED, Result.SUCCEEDED, 8)


# releasing: Leases of the dead


@pytest.mark.parametrize(
    ("pod", "counted", "free"),
    [
        (a_pod(1), (), False),
        (a_pod(1, deleting=True), (), False),
        (a_pod(1, phase="Failed"), (), False),
        (a_pod(1, phase="Failed"), (build.uid(1),), True),
        (None, (), False),
        (None, (build.uid(1),), True),
    ],
)
def test_a_lease_is_freed_when_its_holder_is_dead_and_counted(
    pod: Any, counted: tuple[str, ...], *, free: bool
) -> None:
    job = a_job(nodes=2, known=known_of(a_round(), counted=counted))
    read = running(job=job, having=[a_pod(0), *([pod] if pod else [])])

    freed = tuple(releasing.releases(read, read.round.record, at(read).counters.fresh))

    assert [action.lease.slot for action in freed] == ([1] if free else [])


def test_a_finish_that_counts_is_never_wiped_out() -> None:
    read = running(leases=[held(0), held(1, finished=1)], having=[a_pod(0), a_pod(1, phase="Succeeded")])

    assert not list(releasing.releases(read, read.round.record, frozenset()))


# replacing which pods are made and which are taken away


def todo(read: Observed, *, resized: int | None = NOW, closed: int | None = None, **fields: Any) -> list[str]:
    """What happens to pods, in short."""
    situation = at(read, **fields)
    over = situation.record.phase is Phase.CLOSED
    found = cleaning.actions(situation, closed) if over else replacing.actions(situation, resized=resized)
    names = {Create: "+", DeletePod: "-"}
    return [
        names[type(a)] + (a.manifest["metadata"]["name"] if isinstance(a, Create) else a.name)
        for a in found
        if isinstance(a, Create | DeletePod)
    ]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], ["+digits-0-0", "+digits-1-0"]),
        ([a_pod(0), a_pod(1)], []),
        ([a_pod(0), a_pod(1, deleting=True)], ["+digits-1-1"]),
        ([a_pod(0), a_pod(1, 1)], []),
        ([a_pod(0), a_pod(1, 1, deleting=True)], ["+digits-1-0"]),
        ([a_pod(0), a_pod(1, phase="Failed")], ["+digits-1-1"]),
        ([a_pod(0), a_pod(1), a_pod(1, 1)], ["-digits-1-1"]),
        ([a_pod(0), a_pod(1), a_pod(2)], []),
        ([a_pod(0), a_pod(1), a_pod(2, started=False)], ["-digits-2-0"]),
        ([a_pod(0), a_pod(1), a_pod(2, phase="Succeeded")], ["-digits-2-0"]),
        ([a_pod(0), a_pod(1, started=False, template="old")], ["-digits-1-0"]),
        ([a_pod(0), a_pod(1, started=True, template="old")], []),
        ([a_pod(0), a_pod(1, started=False, template="")], []),
        ([a_pod(0), a_pod(1, phase="Succeeded")], ["-digits-1-0", "+digits-1-1"]),
    ],
)
def test_one_living_pod_in_every_slot_of_the_plan(pods: list[Any], expected: list[str]) -> None:
    job = a_job(nodes=2, known=known_of(a_round(), counted=(build.uid(0), build.uid(1), build.uid(1, 1))))

    assert todo(running(job=job, having=pods)) == expected


@pytest.mark.parametrize(
    ("lease", "pods", "made"),
    [
        (held(1), [a_pod(0)], []),
        (held(1), [a_pod(0), a_pod(1, deleting=True)], []),
        (SlotLease(1, left=build.uid(1)), [a_pod(0), a_pod(1, 1, deleting=True, started=False)], []),
        (held(1), [a_pod(0), a_pod(1, phase="Failed")], []),
        (SlotLease(1), [a_pod(0)], ["+digits-1-0"]),
    ],
)
def test_a_lost_pod_is_replaced_when_the_status_counts_it(lease: SlotLease, pods: list[Any], made: list[str]) -> None:
    read = running(leases=[held(0), lease], having=pods)

    assert todo(read) == made
    assert made or decide(read, NOW).wake_after == SOON


def test_a_pod_that_is_not_wanted_is_deleted_when_it_does_not_end_by_itself() -> None:
    assert todo(running(having=[a_pod(0), a_pod(1), a_pod(2)]), resized=NOW - 60) == ["-digits-2-0"]


def test_a_member_that_has_finished_needs_no_pod() -> None:
    leases = [held(0), held(1, finished=1)]

    assert todo(running(leases=leases, having=[a_pod(0), a_pod(1, phase="Succeeded")])) == []
    assert todo(running(leases=leases, having=[a_pod(0)])) == []


def test_only_the_last_failed_pods_are_kept_and_none_uncounted_is_deleted() -> None:
    failed = [a_pod(1, n, phase="Failed") for n in range(4)]
    known = known_of(a_round(), counted=(build.uid(1, 0),))
    job = a_job(nodes=2, known=known)

    assert todo(running(job=job, having=[a_pod(0), *failed, a_pod(1, 4)])) == ["-digits-1-0"]


@pytest.mark.parametrize(
    ("phase", "ago", "counted", "expected"),
    [
        ("Failed", 59, True, []),
        ("Failed", 60, True, ["-digits-1-0"]),
        ("Failed", 60, False, []),
        ("Succeeded", 60, True, ["-digits-1-0"]),
    ],
)
def test_a_pod_that_a_side_car_keeps_is_taken_away_after_a_while(
    phase: str, ago: int, *, counted: bool, expected: list[str]
) -> None:
    kept = a_pod(1, phase=phase, trainer_ended=NOW - ago, started=False, ready=False)
    known = known_of(a_round(), counted=(build.uid(1, 0),) if counted else ())

    assert todo(running(job=a_job(nodes=2, known=known), having=[a_pod(0), kept, a_pod(1, 1)])) == expected


def test_a_pod_that_a_side_car_keeps_does_not_outlive_the_job_for_long() -> None:
    kept = a_pod(0, phase="Succeeded", trainer_ended=NOW - 60, started=False)
    read = running(record=a_round(Phase.CLOSED), having=[kept, a_pod(1, phase="Succeeded", started=False)])

    assert todo(read, closed=NOW - 5) == ["-digits-0-0"]


@pytest.mark.parametrize(
    ("count", "ago", "made"), [(1, 0, True), (2, 4, False), (2, 5, True), (9, 299, False), (9, 300, True)]
)
def test_failing_pods_are_made_again_ever_more_slowly(count: int, ago: int, *, made: bool) -> None:
    last = status.Failure(1, 1, "no", NOW - ago, pod="digits-1-0")

    assert bool(todo(running(leases=[held(0)], having=[a_pod(0)]), failed_pods=count, last_failure=last)) is made


@pytest.mark.parametrize(("age", "expected"), [(0, ["-digits-1-0"]), (60, ["-digits-0-0", "-digits-1-0"])])
def test_when_the_job_is_over_pods_end_by_themselves_or_are_deleted(age: int, expected: list[str]) -> None:
    read = running(
        record=a_round(Phase.CLOSED), having=[a_pod(0), a_pod(1, started=False), a_pod(2, phase="Succeeded")]
    )

    assert todo(read, closed=NOW - age) == expected
