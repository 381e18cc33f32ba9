"""What progress tells: throughput at a size, the cost of a change, and nothing where it tells nonsense."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from elasticjob_operator.api import allocation, job, status
from elasticjob_operator.autoscaler import learning
from elasticjob_operator.autoscaler.seeing import measuring
from elasticjob_rendezvous.round.lease import Progress
from support import operator_builders as build

NOW = build.NOW


def told(samples: int, at: int, *, nodes: int = 2, number: int = 1, step: int | None = None, **fields: Any) -> job.Job:
    """The job's status with a report."""
    progress = Progress(number, samples // 8 if step is None else step, samples, None)
    known = {"round": number, "round_phase": "Sealed", "round_time": NOW, "nodes": nodes, "progress": progress}
    return build.a_job(known=status.Status(progress_time=NOW + at, **{**known, **fields}))


def after(*reports: job.Job, memory: measuring.Memory | None = None) -> measuring.Memory:
    memory = memory or measuring.Memory(learning.Knowledge.new(1))
    for report in reports:
        memory = measuring.observed(memory, report, across=False, host=4, maximum=8, now=NOW + 60)
    return memory


def test_the_rate_is_what_was_done_between_two_reports_of_one_round() -> None:
    memory = after(told(8, 0), told(100, 10), told(300, 20), told(700, 40))

    (point,) = memory.knowledge.points
    assert (point.nodes, point.across, point.weight) == (2, False, 2)
    assert point.rate == pytest.approx(20)


def test_the_first_stretch_of_a_round_is_warming_up() -> None:
    assert not after(told(8, 0), told(100, 10)).knowledge.points
    assert not after(told(8, 0), told(100, 10), told(200, 20, number=2)).knowledge.points


def test_reports_too_close_to_tell_are_waited_out() -> None:
    memory = after(told(0, 0), told(80, 10), told(160, 14), told(240, 19), told(280, 20))

    (point,) = memory.knowledge.points
    assert point.rate == pytest.approx(20)


def test_a_job_that_counts_no_samples_is_measured_in_steps() -> None:
    reports = [told(0, at, step=at * 3) for at in (1, 11, 21)]

    assert after(*reports).knowledge.points[0].rate == pytest.approx(3)


@pytest.mark.parametrize("absurd", [-(10**9), 10**30, 100, 0])
def test_absurd_progress_changes_nothing_or_only_its_own_size(absurd: int) -> None:
    memory = after(told(8, 0), told(100, 10), told(300, 20), told(absurd, 30, step=10**6))

    assert len(memory.knowledge.points) == 1
    assert memory.knowledge.curve.log(2) < 40
    assert measuring.observed(memory, told(1, 5), across=False, host=4, maximum=8, now=NOW).knowledge.points


def test_a_clock_that_goes_back_is_no_report() -> None:
    memory = after(told(8, 0), told(100, 10), told(300, 5))

    assert memory == after(told(8, 0), told(100, 10))


def test_a_change_costs_what_lies_between_the_rounds_opening_and_its_first_step() -> None:
    opened = told(900, 90, number=1, round=2, round_phase="Open", round_time=NOW + 100, nodes=0)
    first = told(910, 112, number=2)

    assert after(opened, first).resize_seconds == 12
    again = [dataclasses.replace(opened, status=dataclasses.replace(opened.status, round=3)), told(920, 120, number=3)]
    assert after(*again, memory=after(opened, first)).resize_seconds == 16
    assert after(first).resize_seconds is None
    assert after(opened, told(910, 90, number=2)).resize_seconds is None


def test_a_job_that_never_reports_has_tried_its_size_after_a_while() -> None:
    silent = build.a_job(known=status.Status(round=1, round_phase="Sealed", round_time=NOW - 200, nodes=4))
    young = build.a_job(known=status.Status(round=1, round_phase="Sealed", round_time=NOW, nodes=4))

    assert after(silent).knowledge.tried == 4
    assert after(silent).knowledge.curve.reach == 8
    assert after(young).knowledge.tried == 0


def test_a_new_process_goes_on_from_what_is_in_the_status() -> None:
    known = allocation.Allocation(
        4,
        "Kept",
        tried=4,
        resize_seconds=17,
        throughput=(
            allocation.Throughput(2, across=False, rate=20.0, reports=9),
            allocation.Throughput(4, across=False, rate=1e300, reports=9),
        ),
    )

    memory = measuring.recalled(known, first=1, host=4, maximum=8)

    assert [(p.nodes, p.rate) for p in memory.knowledge.points] == [(2, 20.0)]
    assert (memory.knowledge.tried, memory.knowledge.curve.reach, memory.resize_seconds) == (4, 8, 17)
    assert measuring.recalled(None, first=3, host=4, maximum=8).knowledge.curve.reach == 3


def test_the_status_is_written_anew_only_when_the_evidence_has_doubled() -> None:
    memory = after(*(told(100 * n, 10 * n) for n in range(1, 7)))
    first = memory.points(())
    more = after(told(700, 70), memory=memory)

    assert [p.reports for p in first] == [4]
    assert more.points(first) is first
    assert after(*(told(100 * n, 10 * n) for n in range(7, 11)), memory=memory).points(first)[0].reports == 8


def test_who_is_slower_on_two_cluster_nodes_is_not_believed_to_be_cured_by_a_packing_that_nobody_does() -> None:
    """The scheduler spread two pods that one cluster node could hold: it would spread them again."""
    alone = told(8, 0), told(100, 10), told(300, 20), told(500, 30)
    memory = after(*(dataclasses.replace(one, status=dataclasses.replace(one.status, nodes=1)) for one in alone))
    spread = [told(600, 0, number=2), told(610, 10, number=2), told(710, 20, number=2), told(810, 30, number=2)]

    def twice(*, across: bool) -> float:
        seen = memory
        for report in spread:
            seen = measuring.observed(seen, report, across=across, host=4, maximum=8, now=NOW)
        curve = seen.knowledge.curve
        return curve.log(2) - curve.log(1)

    assert twice(across=True) == pytest.approx(twice(across=False), abs=0.1)
    assert twice(across=True) < 0
    known = allocation.Allocation(
        1, "Kept", "m", NOW, throughput=tuple(allocation.Throughput(n, n > 1, 3.0 - n, 4) for n in (1, 2))
    )
    again = measuring.recalled(known, first=4, host=4, maximum=8).knowledge.curve
    assert again.log(2) < again.log(1)


def test_looks_that_were_kept_are_read_in_their_order_and_a_jobs_first_recalls_what_its_status_says() -> None:
    reports = [told(8, 0), told(100, 10), told(300, 20), told(700, 40)]
    looks = [measuring.Look(job=one, first=1, across=False, host=4, maximum=8, now=NOW + 60) for one in reports]
    uid = reports[0].uid

    assert measuring.read({}, looks)[uid].knowledge == after(*reports).knowledge
    assert measuring.read({"other": measuring.Memory(learning.Knowledge.new(1))}, []).keys() == {"other"}
