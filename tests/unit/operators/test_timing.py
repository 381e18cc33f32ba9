"""How long a round takes, step by step, in metrics and in an event."""

import dataclasses
from typing import Any

import pytest

from elasticjob_operator.api.status import Status
from elasticjob_operator.core import timing
from elasticjob_operator.core.observed import Observed
from elasticjob_operator.core.timing import Passage
from elasticjob_operator.kube.metrics import Metrics
from elasticjob_operator.kube.queue import Key
from elasticjob_operator.kube.stopwatch import Stopwatch
from elasticjob_rendezvous.round.lease import Failure, Progress
from elasticjob_rendezvous.round.record import Phase, Reason
from support.operator_builders import a_round, held, nonce, running

FAILURE = Failure(1, 1, "no", time=1000.0)


def at(phase: Phase, *arrived: int, reason: Reason = Reason.WORKERS_FAILED, step: int = 0, **fields: Any) -> Observed:
    """Round 2 of a job of two in a phase; who has arrived for it, and how far training is."""
    progress = Progress(2, step, step, None) if step else None
    leases = [held(s, arrived=2 if s in arrived else 1, progress=progress, failure=FAILURE) for s in (0, 1)]
    return running(record=a_round(phase, 2, reason=reason, **fields), leases=leases)


def followed(*seen: tuple[Observed, float]) -> Passage | None:
    """What is known after this was seen at these times."""
    known: Passage | None = None
    for observed, now in seen:
        known = timing.advanced(known, observed, now, 1000.0 + now)
    return known


WHOLE = (
    (at(Phase.OPEN), 0.5),
    (at(Phase.OPEN, 0), 1.0),
    (at(Phase.OPEN, 0, 1), 2.5),
    (at(Phase.SEALED, 0, 1), 3.0),
    (at(Phase.SEALED, 0, 1), 4.0),
    (at(Phase.SEALED, 0, 1, step=7), 9.0),
    (at(Phase.SEALED, 0, 1, step=8), 20.0),
)


def test_each_step_of_a_round_is_timed() -> None:
    known = followed(*WHOLE)

    assert known is not None
    assert timing.samples(known) == {"detect": 0.5, "stop": 2.0, "form": 0.5, "step": 6.0}
    event = timing.event(known, a_round(number=2, reason=Reason.WORKERS_FAILED))
    assert event.message == (
        "round 2 trains 9.0 s after WorkersFailed: "
        "noticed 0.5 s, all nodes there 2.0 s, round formed 0.5 s, first step 6.0 s"
    )


@pytest.mark.parametrize(("told", "parts"), [(4.5, (4.5, 1.5)), (60.0, (6.0, 0.0))])
def test_restoring_is_timed_where_the_script_says_so(told: float, parts: tuple[float, float]) -> None:
    last = at(Phase.SEALED, 0, 1)
    reported = Progress(2, 7, 7, None, restored=told)

    known = followed(*WHOLE[:5], (dataclasses.replace(last, leases={0: held(0, arrived=2, progress=reported)}), 9.0))

    assert known is not None
    samples = timing.samples(known)
    assert (samples["restore"], samples["step"]) == parts
    assert "state restored" in timing.event(known, a_round(number=2)).message


def test_a_silent_node_is_noticed_since_its_last_sign_of_life() -> None:
    silent = running(record=a_round(Phase.OPEN, 2, reason=Reason.PEER_SILENT, suspects=frozenset({nonce(1)})))
    silent = dataclasses.replace(silent, renewed={0: 1009, 1: 993})

    known = followed((silent, 0.5))

    assert known is not None
    assert known.detected_in == 7.5


def test_the_time_without_wanted_nodes_is_no_part_of_it() -> None:
    def resumed(phase: Phase, *, step: int = 0, **fields: Any) -> Observed:
        return at(phase, 0, 1, reason=Reason.RESUMED, step=step, **fields)

    known = followed(
        (resumed(Phase.OPEN, plan=()), 1.0),
        (at(Phase.OPEN, reason=Reason.RESUMED), 101.0),
        (resumed(Phase.OPEN), 103.0),
        (resumed(Phase.SEALED), 104.0),
        (resumed(Phase.SEALED, step=7), 109.0),
    )

    assert known is not None
    assert timing.samples(known) == {"stop": 2.0, "form": 1.0, "step": 5.0}


def test_what_began_unseen_is_not_timed() -> None:
    assert followed((at(Phase.SEALED, 0, 1), 1.0), (at(Phase.SEALED, 0, 1, step=3), 2.0)) is None
    half = followed(*WHOLE[:4])
    assert half is not None
    assert timing.samples(half) == {}


def test_a_round_that_was_sealed_between_two_looks_is_timed_all_the_same() -> None:
    third = running(
        record=a_round(number=3, reason=Reason.POD_LOST), leases=[held(0, progress=Progress(3, 9, 9, None))]
    )

    known = followed(*WHOLE, (third, 30.0))

    assert known is not None
    assert (known.number, known.before, timing.samples(known)) == (3, 2, {"stop": 0.0, "form": 0.0, "step": 0.0})


@pytest.mark.parametrize(
    ("reason", "members", "rung"),
    [
        (Reason.STARTED, (0, 1), "start"),
        (Reason.WORKERS_FAILED, (0, 1), "processes"),
        (Reason.POD_LOST, (0,), "shrink"),
        (Reason.PEER_SILENT, (0,), "shrink"),
        (Reason.POD_LOST, (0, 1), "wait"),
        (Reason.NODE_JOINED, (0, 1), "pod"),
        (Reason.RESIZED, (0,), "resize"),
    ],
)
def test_a_rounds_reason_and_size_tell_the_rung(reason: Reason, members: tuple[int, ...], rung: str) -> None:
    record = a_round(number=2, reason=reason, members=members)

    assert timing.rung(Passage(2, 2, 0.0), record) == rung
    assert rung in timing.RUNGS


async def test_a_round_is_told_and_counted_once() -> None:
    metrics, key = Metrics(), Key("ns", "digits")
    stopwatch = Stopwatch(metrics)

    told = [stopwatch.look(key, observed) for observed, _ in WHOLE]
    stopwatch.count(Status(failures=1), Status(failures=3, disruptions=1))

    assert [event.reason for event in told if event] == ["RoundTrains"]
    text = metrics.text()
    assert 'elasticjob_recovery_seconds_count{rung="processes",step="step"} 1\n' in text
    assert 'elasticjob_recovery_seconds_bucket{rung="processes",step="step",le="+Inf"} 1\n' in text
    assert 'elasticjob_failures_total{class="UserError"} 2\n' in text
    assert 'elasticjob_failures_total{class="Preemption"} 1\n' in text
    stopwatch.forget(key)
    assert stopwatch.look(key, WHOLE[-1][0]) is None


def test_buckets_count_all_that_is_no_longer() -> None:
    metrics = Metrics()
    for seconds in (0.05, 0.2, 7.0, 1000.0):
        metrics.recovery.observe(seconds, rung="pod", step="stop")

    lines = metrics.recovery.text().splitlines()

    counts = {line.split('le="')[1].split('"')[0]: line.split()[-1] for line in lines if "_bucket" in line}
    assert (counts["0.1"], counts["0.25"], counts["5"], counts["10"], counts["300"]) == ("1", "2", "2", "3", "3")
    assert counts["+Inf"] == "4"
    assert lines[-2:] == [
        'elasticjob_recovery_seconds_sum{rung="pod",step="stop"} 1007.25',
        'elasticjob_recovery_seconds_count{rung="pod",step="stop"} 4',
    ]
