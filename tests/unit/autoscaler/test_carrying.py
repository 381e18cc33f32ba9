"""From decisions to grants: who gives goes first, who gets waits for room, and what is written says why."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from elasticjob_operator.api import allocation
from elasticjob_operator.autoscaler import deciding, settings
from elasticjob_operator.autoscaler.seeing import carrying, ceilings, objects, picture
from unit.autoscaler.worlds import NOW, at, job, node, paint, pod

RULES = settings.Settings(moves=False)


def carried(
    seen: picture.Picture, promises: carrying.Promises | None = None
) -> tuple[dict[str, allocation.Allocation], carrying.Promises]:
    made = deciding.decide(seen.snapshot, RULES)
    return carrying.carried(made, seen, {}, promises or {}, NOW)


def sizes(found: dict[str, allocation.Allocation]) -> dict[str, int]:
    return {uid.removeprefix("uid-"): one.nodes for uid, one in found.items()}


def pods_of(name: str, count: int, on: str = "n1", **fields: Any) -> list[dict[str, Any]]:
    return [pod(f"{name}-{n}-0", on, job=name, **fields) for n in range(count)]


def test_what_is_free_is_given_at_once() -> None:
    found, promises = carried(paint(job("a", maxNodes=4), nodes=[node("n1")]))

    assert sizes(found) == {"a": 4}
    assert found["uid-a"].message == "starts with 4 of at most 4 nodes"
    assert not promises


def test_a_newcomer_waits_until_what_was_freed_for_it_is_free() -> None:
    old, new = job("a", maxNodes=4, granted=4), job("b", minNodes=2, maxNodes=2)

    found, promises = carried(paint(old, new, nodes=[node("n1")], pods=pods_of("a", 4)))

    assert sizes(found) == {"a": 2, "b": 0}
    assert found["uid-a"].message.endswith("accelerators to default/b (2)")
    assert (found["uid-b"].reason, found["uid-b"].message) == (
        "Waiting",
        "waits until the accelerators for 2 nodes are free",
    )

    old["status"]["allocation"] |= {"nodes": 2}
    leaves = [*pods_of("a", 2), pod("a-2-0", "n1", job="a", leaving=True)]
    assert sizes(carried(paint(old, new, nodes=[node("n1")], pods=leaves), promises)[0]) == {"a": 2, "b": 0}
    assert sizes(carried(paint(old, new, nodes=[node("n1")], pods=pods_of("a", 2)), promises)[0]) == {"a": 2, "b": 2}


def test_growth_that_had_to_wait_keeps_the_words_that_promised_it() -> None:
    slow, fast = job("a", maxNodes=4, granted=3), job("b", maxNodes=3, granted=1)
    pods = [*pods_of("a", 3), *pods_of("b", 1)]
    seen = paint(slow, fast, nodes=[node("n1")], pods=pods)
    made = deciding.decide(seen.snapshot, RULES)
    grants = {"default/a": (1, "3 → 1"), "default/b": (3, "1 → 3: accelerators freed by default/a (2)")}
    made = dataclasses.replace(
        made,
        grants=tuple(dataclasses.replace(g, nodes=grants[g.job][0], message=grants[g.job][1]) for g in made.grants),
    )

    found, promises = carrying.carried(made, seen, {}, {}, NOW)
    assert sizes(found) == {"a": 1, "b": 1}

    slow["status"]["allocation"] |= {"nodes": 1}
    seen = paint(slow, fast, nodes=[node("n1")], pods=[*pods_of("a", 1), *pods_of("b", 1)])
    made = dataclasses.replace(
        made, grants=tuple(dataclasses.replace(g, before=1, message="free capacity") for g in made.grants)
    )
    found, promises = carrying.carried(made, seen, {}, promises, NOW)
    assert sizes(found) == {"a": 1, "b": 3}
    assert found["uid-b"].message == "1 → 3: accelerators freed by default/a (2)"
    assert not promises


def test_room_that_was_granted_and_is_not_bound_yet_is_not_given_twice() -> None:
    starts = job("a", maxNodes=3, minNodes=3, granted=3, priority=1)

    found, _ = carried(paint(starts, job("b", minNodes=2, maxNodes=2), nodes=[node("n1")], pods=[]))

    assert sizes(found) == {"a": 3, "b": 0}


def test_of_two_that_wait_the_more_important_is_given_first() -> None:
    classes = [{"metadata": {"name": "high"}, "value": 100}]
    first = job("a", minNodes=2, maxNodes=2)
    second = job("b", minNodes=2, maxNodes=2, template={"priorityClassName": "high"})
    blocked = [pod("c-0-0", "n1", gpus=2, job="c", leaving=True)]

    seen = paint(first, second, job("c", granted=0), nodes=[node("n1")], pods=blocked, priorities=classes)

    assert sizes(carried(seen)[0]) == {"a": 0, "b": 2, "c": 0}


def test_a_persons_size_stands_whatever_was_decided() -> None:
    found, _ = carried(paint(job("a", nodes=3, maxNodes=9), nodes=[node("n1", 1)]))

    assert (found["uid-a"].nodes, found["uid-a"].reason, found["uid-a"].message) == (
        3,
        "Pinned",
        "spec.nodes is 3, so the autoscaler leaves it at that",
    )


def test_a_size_that_stands_keeps_its_words_and_its_time() -> None:
    had = job("a", maxNodes=2, granted=2)
    had["status"]["allocation"] |= {"reason": "Grown", "message": "1 → 2: +74 % throughput, free capacity"}

    seen = paint(had, nodes=[node("n1")], pods=pods_of("a", 2))

    found = carried(seen)[0]["uid-a"]
    assert dataclasses.replace(found, firm=False) == seen.seen["default/a"].job.status.allocation


def test_a_minimum_is_not_for_spot_where_the_autoscaler_decides_and_spot_may_not_hold_it() -> None:
    some = job("ours"), job("theirs", nodes=1), job("cpus", gpus=0)
    seen = paint(*some, nodes=[node("n1")])
    made = deciding.decide(seen.snapshot, RULES)

    assert {uid for uid, one in carrying.carried(made, seen, {}, {}, NOW)[0].items() if one.firm} == {"uid-ours"}
    assert not any(one.firm for one in carrying.carried(made, seen, {}, {}, NOW, firm=False)[0].values())


def test_who_gave_way_goes_on_saying_to_whom() -> None:
    had = job("a", minNodes=2, granted=0)
    had["status"]["allocation"] |= {"reason": "Preempted", "message": "2 → 0: gives way to default/b (2)"}
    pods = [pod("x", "n1", gpus=4)]

    one = carried(paint(had, nodes=[node("n1")], pods=pods))[0]["uid-a"]

    assert (one.reason, one.message) == ("NoCapacity", "no cluster node it may run on has room for one of its pods")
    other = carried(paint(had, job("b", nodes=4), nodes=[node("n1")], pods=pods_of("b", 4)))[0]["uid-a"]
    assert (other.reason, other.message) == ("Preempted", "2 → 0: gives way to default/b (2)")


# Ceilings: pods that the scheduler has no room for


def judged(
    before: dict[str, ceilings.Ceiling], now: int, *, waits: bool = True, gpus: int = 4, leaves: bool = False
) -> dict[str, ceilings.Ceiling]:
    pods = [*pods_of("a", 2), pod("a-2-0", job="a", unschedulable=waits)]
    pods += [pod("b-0-0", "n1", job="b", leaving=True)] if leaves else []
    parts = job("a", granted=3), job("b", granted=1)
    seen = paint(*parts, nodes=[node("n1", gpus)], pods=pods)
    parsed = tuple(one for one in map(objects.pod, pods) if one)
    return ceilings.judged(before, seen, parsed, now)


def test_a_pod_that_stays_unschedulable_sets_a_ceiling_for_a_while() -> None:
    seen = judged({}, NOW)
    assert seen["uid-a"].pods is None
    seen = judged(seen, NOW + 15)
    assert (seen["uid-a"].pods, seen["uid-a"].until) == (2, NOW + 75)
    seen = judged(seen, NOW + 76, waits=False)
    assert seen["uid-a"].pods is None
    seen = judged(judged(seen, NOW + 80), NOW + 95)
    assert seen["uid-a"].until == NOW + 95 + 120


def test_more_room_lifts_a_ceiling_at_once() -> None:
    seen = judged(judged({}, NOW), NOW + 15)

    assert judged(seen, NOW + 16, waits=False, gpus=8)["uid-a"].pods is None


def test_nobody_is_judged_while_others_pods_are_leaving() -> None:
    seen = judged({}, NOW, leaves=True)

    assert judged(seen, NOW + 60, leaves=True) == {}


@pytest.mark.parametrize("known", [{"granted": 0}, {"nodes": 3}])
def test_pods_left_pending_on_purpose_or_by_a_person_set_none(known: dict[str, Any]) -> None:
    pods = [pod("a-2-0", job="a", unschedulable=True)]
    seen = paint(job("a", **known), nodes=[node("n1")], pods=pods)
    parsed = tuple(one for one in map(objects.pod, pods) if one)

    first = ceilings.judged({}, seen, parsed, NOW)

    assert ceilings.judged(first, seen, parsed, NOW + 60) == {}


def test_a_ceiling_makes_the_grant_smaller() -> None:
    seen = paint(job("a", maxNodes=4), nodes=[node("n1")], ceilings={"uid-a": 2})
    below = paint(job("a", minNodes=3, maxNodes=4), nodes=[node("n1")], ceilings={"uid-a": 2})

    assert sizes(carried(seen)[0]) == {"a": 2}
    assert carried(below)[0]["uid-a"].reason == "NoCapacity"


def test_an_allocation_survives_the_api() -> None:
    point = allocation.Throughput(4, across=True, rate=123.456789, reports=17.0)
    full = allocation.Allocation(4, "Grown", "2 → 4", NOW, 1, dry_run=True, served=9, tried=8, resize_seconds=0)
    full = dataclasses.replace(full, throughput=(point,))

    assert allocation.parse(allocation.dump(full)).throughput[0].rate == pytest.approx(123.457)
    assert dataclasses.replace(allocation.parse(allocation.dump(full)), throughput=(point,)) == full
    plain = allocation.Allocation(0, "Waiting", time=NOW)
    assert allocation.parse(allocation.dump(plain)) == plain
    assert allocation.dump(plain) == {"nodes": 0, "reason": "Waiting", "message": "", "time": at(NOW)}


@pytest.mark.parametrize(("limit", "machines", "size"), [(8, 2, 6), (5, 1, 0), (0, 1, 0)])
def test_pods_left_pending_bring_cluster_nodes_up_to_the_limit_and_the_grant_follows(
    limit: int, machines: int, size: int
) -> None:
    """A pretended cluster autoscaler adds a cluster node of four wherever a pod finds no room."""
    wish, nodes, pods = job("a", minNodes=6, maxNodes=6), [node("n1")], list[dict[str, Any]]()
    for _ in range(6):
        seen = paint(wish, nodes=nodes, pods=pods)
        made = deciding.decide(seen.snapshot, settings.Settings(moves=False, pending_limit=limit))
        found = carrying.carried(made, seen, {}, {}, NOW)[0]["uid-a"]
        wish["status"] = {"allocation": allocation.dump(found)}
        hosts = [f"n{n // 4 + 1}" if n // 4 < len(nodes) else "" for n in range(found.wanted)]
        pods = [pod(f"a-{n}-0", host, job="a", unschedulable=not host) for n, host in enumerate(hosts)]
        if "" in hosts:
            nodes.append(node(f"n{len(nodes) + 1}"))

    assert (len(nodes), found.nodes, found.pending) == (machines, size, 0)
