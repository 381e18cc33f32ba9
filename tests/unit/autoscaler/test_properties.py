"""What holds for every snapshot, drawn at random."""

from __future__ import annotations

import collections
import dataclasses

import hypothesis
from hypothesis import strategies as st

from elasticjob_operator.autoscaler import curves, deciding, decision, settings, snapshot
from unit.autoscaler.cases import after

RATES = st.floats(allow_nan=True, allow_infinity=True) | st.floats(0.1, 100)
NAMES = [f"n{i}" for i in range(6)]
SLOW = hypothesis.settings(max_examples=80, deadline=None)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[snapshot.ClusterNode, ...]:
    count = draw(st.integers(0, 6))
    return tuple(
        snapshot.ClusterNode(
            NAMES[i],
            draw(st.integers(-1, 8)),
            kind=draw(st.sampled_from(["", "", "T4"])),
            domain=draw(st.sampled_from(["", "rack"])),
            volatile=draw(st.booleans()),
            schedulable=draw(st.integers(0, 4)) > 0,
        )
        for i in range(count)
    )


@st.composite
def jobs(draw: st.DrawFn, name: str) -> snapshot.Job:
    minimum = draw(st.integers(0, 5))
    spread = draw(st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3), max_size=3))
    return snapshot.Job(
        name=name,
        minimum=minimum,
        maximum=draw(st.integers(minimum - 1, 12)),
        age=draw(st.floats(0, 1e6) | RATES),
        allowed=draw(st.sampled_from([(), (), (1, 2, 4, 8)])),
        accelerators=draw(st.sampled_from([0, 1, 1, 1, 2, 4])),
        candidates=draw(st.none() | st.frozensets(st.sampled_from(NAMES), max_size=4)),
        namespace=draw(st.sampled_from(["a", "b"])),
        queue=draw(st.sampled_from(["", "red"])),
        priority=draw(st.integers(-1, 1)),
        pinned=draw(st.none() | st.integers(-1, 9)),
        held=draw(st.integers(0, 9)) == 0,
        granted=sum(spread.values()),
        placement=tuple(snapshot.Placement(*item) for item in spread.items()),
        ceiling=draw(st.none() | st.integers(0, 6)),
        served=draw(st.floats(0, 1e5)),
        resize_cost=draw(st.sampled_from([0.0, 30.0, 500.0])),
        stood=draw(st.sampled_from([0.0, 1000.0, 1e6])),
        measured=draw(st.frozensets(st.integers(1, 8), max_size=3)),
        curves=draw(st.just({}) | st.lists(RATES, max_size=12).map(lambda r: {"": curves.Curve(tuple(r))})),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> snapshot.Snapshot:
    return snapshot.Snapshot(
        cluster_nodes=draw(clusters()),
        jobs=tuple(draw(jobs(f"j{i}")) for i in range(draw(st.integers(0, 8)))),
        queues=draw(st.just(()) | st.builds(lambda n: (snapshot.Queue(name="red", quota=n),), st.integers(-1, 20))),
        quotas=draw(st.just(()) | st.builds(lambda n: (snapshot.Quota("a", n),), st.integers(-1, 20))),
    )


@SLOW
@hypothesis.given(snapshots(), st.integers(0, 30))
def test_a_decision_depends_on_nothing_else_and_keeps_sizes_places_quotas_and_limits(
    snap: snapshot.Snapshot, limit: int
) -> None:
    """One test, because most of its time goes into drawing snapshots."""
    rules = settings.Settings(pending_limit=limit)
    made = deciding.decide(snap, rules)

    assert made == deciding.decide(snap, rules)
    assert [grant.job for grant in made.grants] == [job.name for job in snap.jobs]
    for job, grant in zip(snap.jobs, made.grants, strict=True):
        keeps_sizes_and_places(snap, job, grant)
    keeps_quotas(snap, made)
    assert sum(grant.ask * job.accelerators for job, grant in zip(snap.jobs, made.grants, strict=True)) <= limit


def keeps_sizes_and_places(snap: snapshot.Snapshot, job: snapshot.Job, grant: decision.Grant) -> None:
    """An allowed size, on allowed cluster nodes of one kind."""
    if job.held and job.granted:
        assert grant.nodes == job.granted
        return
    assert grant.nodes == 0 or not job.allowed or grant.nodes in job.allowed
    nodes = {node.name: node for node in snap.cluster_nodes}
    used = [nodes[placed.cluster_node] for placed in grant.placement]
    before = {placed.cluster_node: placed.pods for placed in job.placement}
    mixed = {nodes[name].kind for name in before if name in nodes}  # pods that are there are not moved
    assert len({node.kind for node in used}) <= max(1, len(mixed))
    for placed in grant.placement:
        node = nodes[placed.cluster_node]
        fresh = placed.pods > before.get(node.name, 0)
        assert not fresh or node.schedulable
        assert not fresh or job.candidates is None or node.name in job.candidates
    if grant.nodes and job.accelerators:
        stable = sum(placed.pods for placed in grant.placement if not nodes[placed.cluster_node].volatile)
        assert stable >= job.minimum


def keeps_quotas(snap: snapshot.Snapshot, made: decision.Decision) -> None:
    """No namespace gets more than it may have."""
    held: dict[str, int] = collections.Counter()
    for job, grant in zip(snap.jobs, made.grants, strict=True):
        held[job.namespace] += 0 if job.held and job.granted else grant.nodes * job.accelerators
    assert all(held[quota.namespace] <= max(quota.free, 0) for quota in snap.quotas)


plain = st.builds(
    lambda sizes, ages, count: snapshot.Snapshot(
        cluster_nodes=tuple(snapshot.ClusterNode(f"n{i}", 4) for i in range(count)),
        jobs=tuple(
            snapshot.Job(name=f"j{i}", minimum=low, maximum=low + more, age=ages[i % len(ages)])
            for i, (low, more) in enumerate(sizes)
        ),
    ),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 8)), min_size=1, max_size=10),
    st.lists(st.floats(0, 1e6), min_size=1, max_size=5),
    st.integers(1, 6),
)


@SLOW
@hypothesis.given(plain)
def test_no_job_waits_while_the_sum_of_the_minimums_fits(snap: snapshot.Snapshot) -> None:
    if sum(job.minimum for job in snap.jobs) <= sum(node.free for node in snap.cluster_nodes):
        assert all(grant.nodes for grant in deciding.decide(snap).grants)


@SLOW
@hypothesis.given(plain)
def test_nothing_is_left_that_somebody_could_use(snap: snapshot.Snapshot) -> None:
    made = deciding.decide(snap)
    left = sum(node.free for node in snap.cluster_nodes) - sum(grant.nodes for grant in made.grants)

    assert left == 0 or all(
        grant.nodes == job.maximum or (not grant.nodes and job.minimum > left)
        for job, grant in zip(snap.jobs, made.grants, strict=True)
    )


@SLOW
@hypothesis.given(plain)
def test_a_decision_carried_out_is_the_next_decision(snap: snapshot.Snapshot) -> None:
    """No oscillation: with nothing new, nothing changes."""
    first = deciding.decide(snap)
    again = dataclasses.replace(snap, jobs=after(snap.jobs, {grant.job: grant for grant in first.grants}))

    assert deciding.decide(again).nodes() == first.nodes()


@SLOW
@hypothesis.given(snapshots())
def test_decisions_settle_in_the_worst_of_clusters(snap: snapshot.Snapshot) -> None:
    for _ in range(8):
        made = deciding.decide(snap)
        done = after(snap.jobs, {grant.job: grant for grant in made.grants})
        if done == snap.jobs:
            return
        snap = dataclasses.replace(snap, jobs=done)
    raise AssertionError("eight decisions on the same cluster, and still changing")
