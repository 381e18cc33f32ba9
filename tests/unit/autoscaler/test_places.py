"""Where pods go: packing, topology, kinds of accelerators, cordons, spot."""

from __future__ import annotations

import pytest

from elasticjob_operator.autoscaler import curves, decision, settings, snapshot
from unit.autoscaler.cases import after, decide, job, linear, nodes, sizes

REASON = decision.Reason
LOCAL = {"": curves.Curve((1.0, 1.9, 2.8, 3.7), (1.0, 1.2, 1.3, 1.4))}
"""Loses most of its speed when its pods are not on one cluster node."""


def where(grant: decision.Grant) -> dict[str, int]:
    return {placed.cluster_node: placed.pods for placed in grant.placement}


def test_a_job_that_fits_on_one_cluster_node_is_put_on_one_the_tightest() -> None:
    cluster = (*nodes(2, 4), *nodes(1, 3, prefix="b"))

    assert where(decide(cluster, job("j", 3, 3))["j"]) == {"b0": 3}


def test_a_larger_one_is_put_in_one_domain() -> None:
    cluster = tuple(snapshot.ClusterNode(f"n{i}", 4, domain=f"rack{i % 3}") for i in range(9))
    grants = decide(cluster, job("j", 12, 12))

    assert {name[1:] for name in where(grants["j"])} == {"0", "3", "6"}


def test_running_pods_stay_where_nothing_changes() -> None:
    running = job("a", 2, 2, on={"a0": 1, "a1": 1}), job("b", 3, 3, on={"a1": 3})
    grants = decide(nodes(3), *running)

    assert where(grants["a"]) == {"a0": 1, "a1": 1}
    assert grants["a"].reason is REASON.KEPT
    assert after(running, grants) == running


def test_growing_adds_pods_beside_the_running_ones() -> None:
    assert where(decide(nodes(4), job("j", 4, 8, on={"a2": 4}))["j"])["a2"] == 4


def test_shrinking_leaves_the_pods_that_are_together() -> None:
    grants = decide(nodes(2), job("j", 1, 5, on={"a0": 4, "a1": 1}), job("k", 4, 4, priority=1))

    assert where(grants["j"]) == {"a0": 4}
    assert where(grants["k"]) == {"a1": 4}


def test_a_scattered_job_moves_together_once_that_earns_its_cost() -> None:
    scattered = job("j", 4, 4, on={"a0": 2, "a1": 2}, curves=LOCAL)

    assert decide(nodes(2), scattered)["j"].reason is REASON.MOVED
    assert len(where(decide(nodes(2), scattered)["j"])) == 1
    costly = job("j", 4, 4, on={"a0": 2, "a1": 2}, curves=LOCAL, resize_cost=900.0)
    assert where(decide(nodes(2), costly)["j"]) == {"a0": 2, "a1": 2}


def test_a_cluster_node_is_cleared_of_a_small_job_for_one_that_would_be_scattered() -> None:
    small = job("small1", 1, 1, on={"a0": 1}), job("small2", 1, 1, on={"a1": 1})
    grants = decide(nodes(2), *small, job("j", 4, 4, curves=LOCAL, age=0.0))

    assert len(where(grants["j"])) == 1
    assert grants["j"].nodes == 4


def test_a_smaller_size_together_is_preferred_to_a_larger_one_scattered() -> None:
    slow = {"": curves.Curve((1.0, 1.9, 2.8), (1.0, 0.7, 0.9))}
    others = [job(f"o{i}", 3, 3, on={f"a{i}": 3}, resize_cost=9000.0) for i in range(3)]

    assert sizes(decide(nodes(3), *others, job("j", 1, 3, curves=slow)))["j"] == 1


def test_pods_of_several_accelerators_that_do_not_fit_become_fewer_nodes_not_pending_pods() -> None:
    assert sizes(decide(nodes(3, each=3), job("j", 1, 4, accelerators=2))) == {"j": 3}


def test_a_gang_that_counting_lets_in_but_no_cluster_node_holds_waits_and_leaves_its_room() -> None:
    held = [job(f"h{i}", 1, 1, on={f"a{i}": 1}, held=True) for i in range(2)]
    grants = decide(nodes(2), *held, job("wide", 1, 1, accelerators=4), job("thin", maximum=6))

    assert grants["wide"].reason is REASON.WAITING
    assert grants["thin"].nodes == 6


def test_a_fragmented_cluster_is_repacked_for_a_minimum() -> None:
    small = [job(f"s{i}", 1, 1, on={f"a{i}": 1}) for i in range(2)]
    grants = decide(nodes(2), *small, job("wide", 1, 1, accelerators=4))

    assert grants["wide"].nodes == 1
    assert where(grants["s0"]) == where(grants["s1"])


def test_pods_of_one_job_are_on_one_kind_the_faster_for_a_newcomer() -> None:
    cluster = (*nodes(2, prefix="t", kind="gpu/T4"), *nodes(1, prefix="h", kind="gpu/H100"))
    fast = {"gpu/T4": linear(16), "gpu/H100": linear(16, each=9.0)}

    assert where(decide(cluster, job("j", maximum=12, curves=fast))["j"]) == {"h0": 4}
    assert set(where(decide(cluster, job("j", maximum=12, curves=fast, on={"t0": 4}))["j"])) == {"t0", "t1"}
    assert set(where(decide(cluster, job("j", 5, 12, curves=fast))["j"])) == {"t0", "t1"}


def test_only_candidates_are_used_and_the_free_leave_them_to_who_has_no_choice() -> None:
    only = frozenset({"a0"})
    grants = decide(nodes(2), job("free", 4, 4, age=9000.0), job("bound", 4, 4, candidates=only))

    assert where(grants["bound"]) == {"a0": 4}
    assert where(grants["free"]) == {"a1": 4}


def test_a_cordoned_cluster_node_keeps_its_pods_and_gets_no_new_ones() -> None:
    cluster = (*nodes(1, prefix="c", schedulable=False), *nodes(1))
    grants = decide(cluster, job("there", 2, 2, on={"c0": 2}), job("new", maximum=8))

    assert where(grants["there"]) == {"c0": 2}
    assert where(grants["new"]) == {"a0": 4}


BOTH = pytest.mark.parametrize(
    "rules", [settings.Settings(), settings.Settings(moves=False)], ids=["moving", "operator"]
)


@BOTH
def test_spot_holds_surplus_and_never_a_minimum(rules: settings.Settings) -> None:
    cluster = (*nodes(1), *nodes(2, prefix="spot", volatile=True))
    grants = decide(cluster, job("j", 2, 10), job("k", 2, 2), rules=rules)

    assert grants["j"].nodes == 10
    assert where(grants["j"])["a0"] >= 2
    assert where(grants["k"]) == {"a0": 2}


def test_stable_cluster_nodes_go_to_who_fits_on_one_and_then_to_the_largest() -> None:
    cluster = (*nodes(4), *nodes(4, prefix="spot", volatile=True))
    grants = decide(cluster, job("small", 1, 3), job("middle", 1, 9), job("large", 1, 20))
    stable = {name: sum(n for host, n in where(grant).items() if host[0] == "a") for name, grant in grants.items()}

    assert sizes(grants) == {"small": 3, "middle": 9, "large": 20}
    assert stable == {"small": 3, "middle": 1, "large": 12}


def test_only_as_many_leave_stable_cluster_nodes_as_a_newcomers_minimum_needs() -> None:
    cluster = (*nodes(2), *nodes(2, prefix="spot", volatile=True))
    before = {"a": {"a0": 4}, "b": {"a1": 4}}
    grants = decide(cluster, *(job(name, 1, 4, on=pods) for name, pods in before.items()), job("new", 1, 1))

    assert sizes(grants) == {"a": 4, "b": 4, "new": 1}
    assert [where(grants[name]) == pods for name, pods in before.items()].count(True) == 1


def test_a_stable_cluster_node_keeps_whole_whom_it_can() -> None:
    """One more pod there makes the small one whole, and would leave the larger one split as it is."""
    cluster = (*nodes(1, 3), *nodes(1, prefix="spot", volatile=True))
    grants = decide(cluster, job("larger", 1, 3), job("small", 1, 2))

    assert where(grants["small"]) == {"a0": 2}
    assert where(grants["larger"]) == {"a0": 1, "spot0": 2}


@BOTH
def test_a_minimum_for_which_only_spot_is_free_waits(rules: settings.Settings) -> None:
    cluster = (*nodes(1), *nodes(2, prefix="spot", volatile=True))
    grants = decide(cluster, job("j", 4, 4), job("k", 2, 2, age=10.0), rules=rules)

    assert sizes(grants) == {"j": 4, "k": 0}


def test_a_cluster_of_nothing_but_spot_can_be_allowed() -> None:
    cluster = nodes(2, volatile=True)

    assert decide(cluster, job("j"))["j"].reason is REASON.TOO_LARGE
    assert sizes(decide(cluster, job("j"), rules=settings.Settings(volatile_minimum=True))) == {"j": 8}


def test_a_job_whose_minimum_lost_its_stable_pods_is_put_right() -> None:
    cluster = (*nodes(1), *nodes(2, prefix="spot", volatile=True))
    grants = decide(cluster, job("j", 2, 4, on={"spot0": 4}))

    assert where(grants["j"])["a0"] >= 2


def test_cluster_nodes_are_asked_for_up_to_the_limit() -> None:
    rules = settings.Settings(pending_limit=6)
    grants = decide(nodes(1), job("a", 4, 4), job("b", 4, 4, age=60.0), job("c", 3, 3, age=30.0), rules=rules)

    assert {name: grant.ask for name, grant in grants.items()} == {"a": 0, "b": 4, "c": 0}
    assert all(grant.ask == 0 for grant in decide(nodes(1), job("a", 4, 4), job("b", 4, 4)).values())


def test_a_quota_is_no_reason_to_ask_for_cluster_nodes() -> None:
    grants = decide(
        nodes(1),
        job("a", 4, 4, namespace="n"),
        quotas=(snapshot.Quota("n", 0),),
        rules=settings.Settings(pending_limit=9),
    )

    assert grants["a"].ask == 0


def test_messages_say_what_changes_what_it_is_worth_and_who_pays() -> None:
    grants = decide(nodes(2), job("b", on={"a0": 4, "a1": 4}), job("a", 2, 2, age=0.0))

    assert grants["a"].message == "starts with 2 of at most 2 nodes"
    assert grants["b"].message == "8 → 6: −25 % throughput, accelerators to a (2)"  # noqa: RUF001 -- a minus sign
    alone = decide(nodes(2), job("b", on={"a0": 4}))["b"]
    assert alone.message == "4 → 8: +100 % throughput, free capacity"


def test_who_has_no_accelerators_neither_frees_nor_takes_any() -> None:
    others = [job("c", 3, 3, granted=1, accelerators=0), job("d", 1, 1, granted=3, accelerators=0)]
    grants = decide(nodes(2), *others, job("b", on={"a0": 4, "a1": 4}), job("a", 2, 2, age=0.0))

    assert grants["b"].message.endswith("accelerators to a (2)")


def test_the_shorter_volatile_cluster_nodes_live_the_fewer_are_used() -> None:
    cluster = (*nodes(1), *nodes(8, prefix="spot", volatile=True))
    tree = {"": curves.Curve(tuple(float(n) ** 0.7 for n in range(1, 33)))}
    running = job("j", 4, 32, curves=tree, unsaved=300.0)
    sizes_by_life = [decide(cluster, running, volatile_lifetime=life)["j"].nodes for life in (1e9, 6000.0, 600.0, 0.0)]

    assert sizes_by_life[0] == 32
    assert sizes_by_life == sorted(sizes_by_life, reverse=True)
    assert sizes_by_life[-1] == 4
