"""Bad input from the API to the grants: whoever causes it may suffer, nobody else does, and nothing raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from elasticjob_operator.autoscaler import deciding, settings
from elasticjob_operator.autoscaler.seeing import carrying, measuring, picture
from unit.autoscaler.worlds import GPU, NOW, job, node, paint

if TYPE_CHECKING:
    from elasticjob_operator.api import allocation


def grants(seen: picture.Picture) -> dict[str, allocation.Allocation]:
    made = deciding.decide(seen.snapshot, settings.Settings(moves=False))
    found, _ = carrying.carried(made, seen, {}, {}, NOW)
    return {uid.removeprefix("uid-"): one for uid, one in found.items()}


def test_no_cluster_nodes_is_told_and_jobs_on_cpus_run_all_the_same() -> None:
    found = grants(paint(job("a"), job("b", gpus=0, maxNodes=3)))

    assert (found["a"].nodes, found["a"].reason) == (0, "NoCapacity")
    assert found["b"].nodes == 3


def test_cluster_nodes_without_accelerators_are_none() -> None:
    assert grants(paint(job("a"), nodes=[node("n1", 0), node("n2", 0, resource="b.c/d")]))["a"].reason == "NoCapacity"


def test_a_minimum_above_the_cluster_is_told_and_holds_nobody_up() -> None:
    found = grants(paint(job("whale", minNodes=9, maxNodes=9), job("minnow"), nodes=[node("n1")]))

    assert (found["whale"].nodes, found["whale"].reason) == (0, "MinimumAboveCluster")
    assert found["minnow"].nodes == 4


@pytest.mark.parametrize("hard", [{f"requests.{GPU}": "0"}, {f"requests.{GPU}": "-3"}, {f"limits.{GPU}": "1"}])
def test_a_quota_that_leaves_no_room_is_its_namespaces_own_trouble(hard: dict[str, str]) -> None:
    quota = {"metadata": {"namespace": "default"}, "spec": {"hard": hard}}
    other = job("b", minNodes=2)
    other["metadata"]["namespace"] = "elsewhere"

    found = grants(paint(job("a", minNodes=2), other, nodes=[node("n1")], quotas=[quota]))

    assert (found["a"].nodes, found["a"].reason) == (0, "QuotaExceeded")
    assert found["b"].nodes == 4


def test_500_jobs_of_one_namespace_leave_another_its_share() -> None:
    crowd = [job(f"crowd-{n}", maxNodes=2) for n in range(500)]
    other = job("other", maxNodes=8)
    other["metadata"]["namespace"] = "small"

    found = grants(paint(*crowd, other, nodes=[node(f"n{n}") for n in range(4)]))

    assert found["other"].nodes == 8
    assert sum(one.nodes for name, one in found.items() if name != "other") == 8


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), -1.0, 0.0, 1e9, 1e300])
def test_an_absurd_throughput_in_a_status_draws_nothing_from_others(rate: float) -> None:
    liar, other = job("liar", maxNodes=8, granted=2), job("other", maxNodes=8, granted=2)
    points: list[dict[str, Any]] = [{"nodes": 2, "acrossClusterNodes": False, "rate": 1.0, "reports": 9}]
    points.append({"nodes": 4, "acrossClusterNodes": False, "rate": rate, "reports": 9})
    liar["status"]["allocation"] |= {"throughput": points, "triedNodes": 4}
    status = paint(liar).seen["default/liar"].job.status
    assert status.allocation is not None
    assert status.allocation.throughput[0].rate == 1
    memory = measuring.recalled(status.allocation, first=4, host=4, maximum=8)

    found = grants(paint(liar, other, nodes=[node("n1"), node("n2")], memories={"uid-liar": memory}))

    assert found["other"].nodes >= 2
    assert found["liar"].nodes <= 6
