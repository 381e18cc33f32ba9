"""Decisions come to rest: where nothing changes but what they change themselves, soon nothing does."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import TYPE_CHECKING, Any

import pytest

from elasticjob_operator.autoscaler import curves, deciding, decision, settings, snapshot
from unit.autoscaler.cases import decide, job, nodes, sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

WORLDS = 60
"""Thousands were gone through once; these are for what comes."""
LONG = 1e5
"""Seconds between two decisions: whoever waits to lend has waited."""
QUIET = 6
"""Decisions alike in a row that count as rest: a trial begins once all have stood long enough."""
MOST = 40
"""Decisions until then: each trial takes two, and there are few sizes to try."""


def full(draw: random.Random) -> snapshot.Snapshot:
    """Jobs that are much alike on a cluster that is nearly full: trials, odd pods, odd cluster nodes, odd costs."""
    cluster = tuple(
        snapshot.ClusterNode(
            f"n{i}",
            draw.choice([2, 3, 4, 8]),
            domain=draw.choice(["", "rack"]),
            volatile=draw.random() < 0.1,
            schedulable=draw.random() < 0.9,
        )
        for i in range(draw.randint(1, 5))
    )
    free = {node.name: node.free for node in cluster}
    usual = draw.choice([1, 1, 2]), draw.choice([1.0, 30.0, 500.0, math.nan])
    jobs = tuple(_some(f"j{i}", draw, free, *usual) for i in range(draw.randint(2, 6)))
    return snapshot.Snapshot(cluster_nodes=cluster, jobs=jobs, volatile_lifetime=draw.choice([math.inf, 6000.0]))


def _some(name: str, draw: random.Random, free: dict[str, int], each: int, cost: float) -> snapshot.Job:
    minimum, each = draw.choice([1, 1, 2, 3]), each if draw.random() < 0.8 else draw.choice([1, 2, 4])
    on, wanted = dict[str, int](), draw.randint(0, 5)
    for host in draw.sample(sorted(free), len(free)):
        if pods := min(free[host] // each, wanted - sum(on.values())):
            on[host] = pods
            free[host] -= pods * each
    size, power = sum(on.values()), draw.choice([0.05, 0.3, 0.8, 1.0])
    rates = tuple(n**power * draw.uniform(0.9, 1.1) for n in range(1, 13))
    return job(
        name,
        minimum,
        minimum + draw.randint(0, 8),
        age=draw.choice([3600.0, draw.uniform(0, 1e5)]),
        accelerators=each,
        allowed=draw.choice([(), (), (), (1, 2, 3, 4, 6, 8)]),
        on=on,
        held=draw.random() < 0.05,
        resize_cost=cost if draw.random() < 0.7 else 30.0,
        stood=draw.choice([LONG, 0.0]),
        measured=frozenset({size} if size and draw.random() < 0.7 else draw.sample(range(1, 9), 2)),
        curves={"": curves.Curve(rates, tuple(rate * draw.uniform(0.4, 1) for rate in rates))},
    )


def later(snap: snapshot.Snapshot, made: decision.Decision) -> snapshot.Snapshot:
    """A decision carried out and a long time gone: what each runs at has been measured, and is as it was thought."""

    def told(one: snapshot.Job, grant: decision.Grant) -> snapshot.Job:
        one = dataclasses.replace(one, granted=grant.nodes, placement=grant.placement)
        if grant.nodes != grant.before:
            return dataclasses.replace(one, stood=0.0)
        return dataclasses.replace(one, stood=one.stood + LONG, measured=one.measured | {grant.nodes} - {0})

    return dataclasses.replace(snap, jobs=tuple(map(told, snap.jobs, made.grants)))


def lives(snap: snapshot.Snapshot, rules: settings.Settings) -> Iterator[snapshot.Snapshot]:
    """The snapshots that follow."""
    while True:
        snap = later(snap, deciding.decide(snap, rules))
        yield snap


def _stands(snap: snapshot.Snapshot) -> list[object]:
    return [(one.granted, one.placement) for one in snap.jobs]


def comes_to_rest(snap: snapshot.Snapshot, rules: settings.Settings) -> bool:
    """Within so many decisions."""
    quiet = 0
    for _, then in zip(range(MOST), lives(snap, rules), strict=False):
        quiet, snap = (quiet + 1 if _stands(snap) == _stands(then) else 0), then
        if quiet == QUIET:
            return True
    return False


@pytest.mark.parametrize("rules", [settings.Settings(), settings.Settings(moves=False)], ids=["moving", "operator"])
def test_full_clusters_come_to_rest_trials_and_all(rules: settings.Settings) -> None:
    worlds = [full(random.Random(seed)) for seed in range(WORLDS)]  # noqa: S311 -- reproducible, no secret

    assert [seed for seed, snap in enumerate(worlds) if not comes_to_rest(snap, rules)] == []


# Kinds of what once did not


def test_pods_of_a_held_job_are_counted_where_they_are() -> None:
    """All of it counted nowhere for want of room, so two others got the same room in turn."""
    held = job("held", 1, 7, accelerators=4, on={"a0": 2, "gone": 5}, held=True)
    cluster = (*nodes(1, 8), *nodes(1, 4, prefix="b"))
    first = decide(cluster, held, job("x", maximum=6), job("y", maximum=6))

    assert sizes(first) == {"held": 7, "x": 2, "y": 2}


def test_a_job_takes_no_surplus_that_only_adding_up_scraps_could_give() -> None:
    """Three cluster nodes hold three pods of two accelerators, though they have eight."""
    cluster = (*nodes(1, 2), *nodes(2, 3, prefix="b"))
    wide = [job(name, maximum=8, accelerators=2) for name in "xyz"]

    assert sizes(decide(cluster, *wide)) == {"x": 1, "y": 1, "z": 1}


def test_a_trial_that_finds_no_place_leaves_all_as_if_nobody_had_thought_of_it() -> None:
    """`x` gains most by one node more, and would have to start it on the cordoned cluster node that `y` leaves."""
    keen, plain = curves.Curve((1.0, 1.8, 2.9, 4.0)), curves.Curve((1.0, 1.8, 2.1, 2.2))
    known: dict[str, Any] = {"measured": frozenset({2}), "stood": 1e6, "maximum": 4}
    cluster = (*nodes(1, 2), *nodes(1, 2, prefix="c", schedulable=False))
    x = job("x", on={"a0": 2}, curves={"": keen}, **known)
    y = job("y", on={"c0": 2}, curves={"": plain}, **known)

    assert sizes(decide(cluster, x, dataclasses.replace(y, maximum=2))) == {"x": 2, "y": 2}
    assert sizes(decide(cluster, x, y)) == {"x": 1, "y": 3}


def test_a_minimum_that_runs_on_spot_where_nothing_moves_takes_no_stable_room() -> None:
    there = job("there", 2, 2, on={"spot0": 2})
    cluster = (*nodes(1, 2), *nodes(1, 2, prefix="spot", volatile=True))
    grants = decide(cluster, there, job("new", 2, 2), rules=settings.Settings(moves=False))

    assert sizes(grants) == {"there": 2, "new": 2}


def test_no_surplus_is_given_while_a_minimum_that_would_fit_has_no_place() -> None:
    """Counted together there is room for five pods of two accelerators; beside the one of four there are four."""
    cluster = (*nodes(3, 3), *nodes(1, 2, prefix="b"), *nodes(1, 4, prefix="c"))
    wide, largest = [job(name, maximum=8, accelerators=2) for name in "wxyz"], job("v", accelerators=4)

    for rules in (settings.Settings(), settings.Settings(moves=False)):
        assert sizes(decide(cluster, largest, *wide, rules=rules)) == dict.fromkeys("vwxyz", 1)


def test_a_cordoned_cluster_node_that_nobody_is_on_is_nobodys_share() -> None:
    """Of a cluster half of which is cordoned each queue would deserve all that is left, and the first would take it."""
    cluster = (*nodes(1, 4), *nodes(1, 4, prefix="c", schedulable=False))
    queues = snapshot.Queue(name="red"), snapshot.Queue(name="blue")
    some = [job(f"{queue}{i}", queue=queue) for queue in ("red", "blue") for i in range(3)]
    had = sizes(decide(cluster, *some, queues=queues))

    assert sum(had[f"red{i}"] for i in range(3)) == sum(had[f"blue{i}"] for i in range(3)) == 2


def test_a_held_job_on_two_kinds_takes_nothing_that_it_is_not_on() -> None:
    cluster = (*nodes(1, 6, kind="gpu/A"), *nodes(1, 3, prefix="b", kind="gpu/B"))
    held = job("held", 1, 8, on={"a0": 3, "b0": 3}, held=True)

    assert sizes(decide(cluster, held, job("x", candidates=frozenset({"a0"})))) == {"held": 6, "x": 3}


def test_more_spot_stops_nobody_whose_minimum_is_on_a_cordoned_cluster_node() -> None:
    cordoned = nodes(1, 2, prefix="c", schedulable=False)
    there = job("there", maximum=5, on={"c0": 2})

    for spot in range(1, 8):
        grants = decide((*cordoned, *nodes(1, spot, prefix="spot", volatile=True)), there)
        assert grants["there"].nodes >= 2


def test_who_found_no_place_takes_none_from_a_higher_priority_that_has_one() -> None:
    """Of four places for pods of two accelerators, counted as five, `low` took the three that it needs, being placed
    first now.
    """
    cluster = tuple(snapshot.ClusterNode(f"n{i}", free) for i, free in enumerate((3, 2, 2, 4)))
    high = [job(name, 1, 4, accelerators=2, priority=1, on=on) for name, on in (("x", {"n0": 1}), ("y", {"n3": 2}))]
    thin, low = job("thin", 1, 1, on={"n2": 1}), job("low", 3, 8, accelerators=2)
    grants = decide(cluster, *high, thin, low, rules=settings.Settings(moves=False))

    assert min(grants["x"].nodes, grants["y"].nodes) > 0
