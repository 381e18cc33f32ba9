"""Nonsense in, sense out: who sends it may suffer, nobody else does, and nothing raises."""

from __future__ import annotations

import math
from typing import Any

import pytest

from elasticjob_operator.autoscaler import curves, decision, snapshot
from unit.autoscaler.cases import decide, job, linear, nodes, sizes

REASON = decision.Reason
NORMAL = {"": curves.Curve((1.0, 1.8, 2.5, 3.0, 3.4, 3.7, 3.9, 4.0))}


def test_no_cluster_nodes_no_jobs_nothing() -> None:
    assert decide(()) == {}
    assert decide(nodes(3)) == {}
    assert decide((), job("j"))["j"].reason is REASON.NO_CAPACITY


def test_no_accelerators() -> None:
    grants = decide(nodes(3, each=0), job("j"), job("cpu", maximum=2, accelerators=0))

    assert sizes(grants) == {"j": 0, "cpu": 2}
    assert grants["j"].reason is REASON.NO_CAPACITY


def test_a_minimum_above_the_cluster_is_told_and_holds_nobody_up() -> None:
    grants = decide(nodes(2), job("whale", 9, 20, priority=99), job("minnow"))

    assert sizes(grants) == {"whale": 0, "minnow": 8}
    assert grants["whale"].reason is REASON.TOO_LARGE
    assert "9 nodes" in grants["whale"].message
    assert "8" in grants["whale"].message


@pytest.mark.parametrize(
    "fields",
    [
        {"minimum": 0},
        {"minimum": -3},
        {"minimum": 5, "maximum": 2},
        {"minimum": 2, "maximum": 4, "allowed": (8, 16)},
        {"accelerators": -1},
    ],
)
def test_senseless_sizes_are_told(fields: dict[str, Any]) -> None:
    grants = decide(nodes(2), job("odd", **fields), job("other"))

    assert grants["odd"].reason is REASON.INVALID
    assert sizes(grants) == {"odd": 0, "other": 8}


@pytest.mark.parametrize("absurd", [math.nan, math.inf, -math.inf, -1.0, 0.0, 1e9, 1e300, 1e-300])
@pytest.mark.parametrize("size", [1, 2, 8])
def test_absurd_throughput_harms_nobody_else(absurd: float, size: int) -> None:
    rates = [1.0, 1.8, 2.5, 3.0, 3.4, 3.7, 3.9, 4.0]
    rates[size - 1] = absurd
    rival = job("rival", curves={"": linear(8)})
    honest = sizes(decide(nodes(2), rival, job("victim", curves=NORMAL)))
    grants = sizes(decide(nodes(2), job("odd", curves={"": curves.Curve(tuple(rates))}), job("victim", curves=NORMAL)))

    assert grants["victim"] >= honest["victim"] - 1
    assert grants["odd"] >= 1


@pytest.mark.parametrize("absurd", [math.nan, math.inf, -math.inf, -5.0, 1e300])
@pytest.mark.parametrize("field", ["age", "waited", "served", "resize_cost"])
def test_absurd_numbers_of_one_job_leave_the_others_theirs(field: str, absurd: float) -> None:
    fields: dict[str, Any] = {field: absurd}
    grants = decide(nodes(2), job("odd", **fields), job("good"))

    assert grants["good"].nodes >= 1
    assert grants["odd"].nodes >= 1
    assert sum(sizes(grants).values()) == 8


def test_a_curve_of_nothing_is_an_unmeasured_one() -> None:
    assert sizes(decide(nodes(1), job("j", curves={"": curves.Curve(())}))) == {"j": 1}
    assert sizes(decide(nodes(1), job("j", curves={"": curves.Curve((math.nan,) * 4)}))) == {"j": 4}


def test_quotas_that_contradict_stop_only_their_own() -> None:
    queues = (
        snapshot.Queue(name="negative", quota=-5, limit=-1, weight=-2.0),
        snapshot.Queue(name="greedy", quota=1_000_000, weight=math.nan),
        snapshot.Queue(name="greedy2", quota=1_000_000, limit=3),
    )
    grants = decide(
        nodes(4),
        job("none", queue="negative"),
        job("a", queue="greedy"),
        job("b", queue="greedy2"),
        job("free"),
        queues=queues,
        quotas=(snapshot.Quota("elsewhere", -3),),
    )

    assert grants["none"].reason is REASON.QUOTA
    assert grants["b"].nodes == 3
    assert grants["a"].nodes + grants["free"].nodes == 13


def test_a_namespace_without_quota_left_waits_alone() -> None:
    grants = decide(nodes(1), job("poor", namespace="n"), job("rich"), quotas=(snapshot.Quota("n", -7),))

    assert grants["poor"].reason is REASON.QUOTA
    assert grants["rich"].nodes == 4


def test_a_name_that_comes_twice_is_served_once() -> None:
    grants = decide(nodes(1), job("twin"), job("twin"))

    assert sizes(grants) == {"twin": 4}


def test_pods_on_cluster_nodes_that_are_gone_count_for_nothing() -> None:
    grants = decide(nodes(1), job("j", on={"gone": 4, "a0": 2}))

    assert grants["j"].nodes == 4
    assert grants["j"].placement == (snapshot.Placement("a0", 4),)


def test_more_pods_reported_than_a_cluster_node_holds() -> None:
    grants = decide(nodes(2), job("j", on={"a0": 7}), job("k", on={"a0": 3}))

    assert sum(sizes(grants).values()) == 8


def test_candidates_that_do_not_exist() -> None:
    grants = decide(
        nodes(1), job("lost", candidates=frozenset({"b7"})), job("nowhere", candidates=frozenset()), job("j")
    )

    assert sizes(grants) == {"lost": 0, "nowhere": 0, "j": 4}
    assert grants["lost"].reason is REASON.NO_CAPACITY


def test_a_maximum_of_a_billion() -> None:
    assert sizes(decide(nodes(2), job("j", maximum=10**9, curves={}))) == {"j": 8}
