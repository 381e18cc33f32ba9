"""The simulator: its model to the second, and its figures."""

from __future__ import annotations

from typing import Any

import pytest

from elasticjob_operator.autoscaler import snapshot
from elasticjob_operator.autoscaler.simulating import comparing, jobs, learned, policies, replaying, results
from unit.autoscaler.cases import nodes

LINEAR = jobs.Profile({n: (float(n),) for n in range(1, 9)}, dict.fromkeys(range(1, 9), 1))
FIVE = jobs.Profile({n: (float(n), n / 2) for n in range(1, 6)}, {n: (n + 3) // 4 for n in range(1, 6)})


def job(name: str, submitted: float = 0.0, work: float = 800.0, **fields: Any) -> jobs.TraceJob:
    sizes: dict[str, Any] = {"minimum": 1, "maximum": 8, "requested": 4} | fields
    return jobs.TraceJob(name=name, submitted=submitted, work=work, profile=LINEAR, **sizes)


def run(*trace: jobs.TraceJob, policy: replaying.Policy | None = None, **fields: Any) -> results.Result:
    events = [replaying.Event(0.0, nodes(2))]
    return replaying.Replay(list(trace), events, policy or policies.ours(), None, replaying.Options(**fields)).run()


def test_a_job_alone_takes_its_start_and_its_work() -> None:
    assert run(job("a")).times == [30 + 800 / 8]


def test_a_job_is_seen_by_the_next_decision_and_its_room_too() -> None:
    assert run(job("a", submitted=61.0)).times == [59 + 30 + 100]


def test_a_change_costs_its_time_and_is_counted() -> None:
    result = run(job("a", work=8000.0), job("b", submitted=50.0, work=100.0, minimum=4))

    assert result.finished[0].job.name == "b"
    assert result.finished[1].changes == 2
    assert result.changes == 1.0


def test_lost_cluster_nodes_cost_what_was_done_since_the_last_checkpoint() -> None:
    events = [replaying.Event(0.0, nodes(2)), replaying.Event(120.0, nodes(1))]
    result = replaying.Replay([job("a", work=2400.0)], events, policies.ours()).run()

    # 90 s at 8 are lost, then 30 s of change, and 2400 at 4.
    assert result.times == [120 + 30 + 600]
    assert result.lost_work == 90 * 8


def test_scattered_pods_are_slower() -> None:
    assert FIVE.rate(4, 1) == 4.0
    assert FIVE.rate(4, 2) == 2.0
    assert FIVE.rate(5, 2) == 5.0
    assert FIVE.curve.reach == 5


@pytest.mark.parametrize("name", ["ours", "equal", "tiresias", "optimus"])
def test_every_policy_finishes_everything(name: str) -> None:
    trace = [job(f"j{i}", submitted=100.0 * i, work=500.0 * (1 + i % 3)) for i in range(12)]
    result = comparing.run(name, trace, [replaying.Event(0.0, nodes(2))], replaying.Options())

    assert len(result.finished) == 12
    assert result.busy > 0
    assert max(result.unfairness(8, 30)) > 0


def test_a_job_learned_on_the_way_finishes_a_little_later() -> None:
    knowledge = learned.Learned(lambda: 0.0, host=4)
    events = [replaying.Event(0.0, nodes(2))]
    result = replaying.Replay([job("a", work=8000.0)], events, policies.ours(), knowledge).run()

    assert 30 + 1000 < result.times[0] < 2 * 1030
    assert result.changes == 3


def test_a_job_is_as_fast_as_the_slowest_cluster_node_it_is_on() -> None:
    events = [replaying.Event(0.0, nodes(2), {"a0": 2.0, "a1": 0.5})]
    result = replaying.Replay([job("a")], events, policies.ours()).run()

    assert result.times == [30 + 800 / (8 * 0.5)]


def test_a_job_that_needs_a_type_of_accelerator_waits_for_it_alone() -> None:
    events = [replaying.Event(0.0, (*nodes(1, kind="T4"), *nodes(1, kind="A100", prefix="b")))]
    trace = [job("picky", kind="A100"), job("lost", kind="H100"), job("any")]
    result = replaying.Replay(trace, events, policies.ours()).run()

    assert [one.job.name for one in result.unfinished] == ["lost"]
    assert {one.job.name for one in result.finished} == {"picky", "any"}


def test_queues_are_shared_out_and_counted_as_in_the_operator() -> None:
    queues = (snapshot.Queue(name="red", quota=6), snapshot.Queue(name="blue", limit=1))
    result = run(job("a", queue="red"), job("b", queue="blue"), job("c", work=10.0, submitted=9000.0), queues=queues)
    shares = {name: result.of(name).busy / result.of(name).offered for name in ("red", "blue")}

    assert {count for _, name, count in result.timeline if name == "b"} == {1, 0}
    assert shares["blue"] == pytest.approx(1 / 8, rel=0.05)
    assert [one.job.name for one in result.of("namespace default").finished] == ["c"]
    assert sum(result.of(name).busy for name in result.offered_to) == result.busy


def test_what_a_job_waited_for_is_all_but_its_time_with_nodes() -> None:
    result = run(job("a", minimum=8), job("b", minimum=8))

    assert result.waits == [0.0, 180.0]  # a ends at 130 s, which the decision at 180 s sees


def test_a_replay_ends_when_nothing_can_happen_any_more() -> None:
    result = run(job("whale", minimum=9, maximum=9), job("minnow"))

    assert [one.job.name for one in result.unfinished] == ["whale"]
    assert result.unfinished[0].waited < 3600
    assert run(job("whale", minimum=9, maximum=9)).finished == []


def test_figures_of_a_result() -> None:
    result = run(job("a"), job("b", submitted=600.0))

    assert result.mean == 130
    assert result.p99 == result.p99_linear == 130
    assert result.makespan == 730
    assert result.needless_waits == 0
    assert result.unfairness(8, 30) == [1.0, 1.0]


def test_a_percentile_lies_between_its_neighbours() -> None:
    assert results.interpolated([0.0, 10.0, 20.0], 0.75) == 15
    assert results.interpolated([7.0], 0.99) == 7


@pytest.mark.parametrize("name", ["equal", "optimus"])
def test_the_other_policies_keep_minimums_too(name: str) -> None:
    trace = [job("a", minimum=5), job("b", minimum=5)]
    result = comparing.run(name, trace, [replaying.Event(0.0, nodes(2))], replaying.Options())

    assert {count for _, _, count in result.timeline if count} == {8}
