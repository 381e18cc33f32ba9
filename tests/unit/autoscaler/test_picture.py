"""The snapshot of a cluster: what is free for whom, and what each job is taken for."""

from __future__ import annotations

from typing import Any

import pytest

from elasticjob_operator.autoscaler import deciding, snapshot
from elasticjob_operator.autoscaler.seeing import picture
from unit.autoscaler.worlds import GPU, NOW, at, job, node, paint, pod


def nodes_of(seen: picture.Picture) -> dict[str, snapshot.ClusterNode]:
    return {node.name: node for node in seen.snapshot.cluster_nodes if node is not picture.CPUS}


def job_of(seen: picture.Picture, name: str = "a") -> snapshot.Job:
    return next(job for job in seen.snapshot.jobs if job.name == f"default/{name}")


def test_free_is_what_pods_of_others_leave() -> None:
    pods = [pod("x", "n1"), pod("a-0-0", "n1", job="a"), pod("y", "n1", leaving=True), pod("z")]

    seen = paint(job("a"), nodes=[node("n1"), node("n2", 2)], pods=pods)

    assert {name: n.free for name, n in nodes_of(seen).items()} == {f"n1/{GPU}": 2, f"n2/{GPU}": 2}
    assert seen.stock.free() == {f"n1/{GPU}": 1, f"n2/{GPU}": 2}


def test_pods_of_jobs_that_are_over_are_others_while_they_last() -> None:
    over = job("b", status={"conditions": [{"type": "Succeeded", "status": "True", "reason": "AllFinished"}]})

    seen = paint(job("a"), over, nodes=[node("n1")], pods=[pod("b-0-0", "n1", job="b")])

    assert [j.name for j in seen.snapshot.jobs] == ["default/a"]
    assert nodes_of(seen)[f"n1/{GPU}"].free == 3


def test_cluster_nodes_that_are_not_ready_or_cordoned_keep_who_is_there_and_take_nobody_new() -> None:
    pods = [pod(f"a-{n}-0", f"n{n + 1}", job="a") for n in range(2)]
    seen = paint(job("a", granted=2), job("b"), nodes=[node("n1", ready=False), node("n2", cordoned=True)], pods=pods)

    made = deciding.decide(seen.snapshot)

    assert {name: n.schedulable for name, n in nodes_of(seen).items()} == {f"n1/{GPU}": False, f"n2/{GPU}": False}
    assert seen.stock.free() == {}
    assert made.nodes() == {"default/a": 2, "default/b": 0}


@pytest.mark.parametrize(
    "label",
    [{"karpenter.sh/capacity-type": "spot"}, {"cloud.google.com/gke-spot": "true"}],
)
def test_spot_products_and_domains_are_read_from_labels(label: dict[str, str]) -> None:
    labels = {**label, "nvidia.com/gpu.product": "A100", "topology.kubernetes.io/zone": "z1"}

    (one,) = nodes_of(paint(job("a"), nodes=[node("n1", labels=labels)])).values()

    assert (one.volatile, one.kind, one.domain) == (True, f"{GPU}/A100", "z1")


def test_a_cluster_node_with_two_kinds_of_devices_is_two_and_a_job_sees_its_own() -> None:
    both = node("n1")
    both["status"]["allocatable"]["amd.com/gpu"] = "3"

    seen = paint(job("a"), nodes=[both])

    assert {name: n.free for name, n in nodes_of(seen).items()} == {f"n1/{GPU}": 4, "n1/amd.com/gpu": 3}
    assert job_of(seen).candidates == frozenset({f"n1/{GPU}"})


def test_jobs_with_the_same_wishes_share_one_set_of_candidates() -> None:
    seen = paint(job("a"), job("b"), job("c", template={"nodeSelector": {"pool": "x"}}), nodes=[node("n1")])

    assert job_of(seen, "a").candidates is job_of(seen, "b").candidates
    assert job_of(seen, "c").candidates == frozenset()


def test_a_job_without_devices_is_beside_the_counting() -> None:
    one = job_of(paint(job("a", gpus=0), nodes=[node("n1")]))

    assert (one.accelerators, one.candidates) == (0, frozenset({"cpus"}))


def test_sizes_age_priority_and_queue_come_from_the_job() -> None:
    classes = [
        {"metadata": {"name": "high"}, "value": 100},
        {"metadata": {"name": "d"}, "value": 7, "globalDefault": True},
    ]
    parts = job("a", minNodes=2, maxNodes=4, queue="red", template={"priorityClassName": "high"}), job("b")

    seen = paint(*parts, priorities=classes)

    one = job_of(seen)
    assert (one.minimum, one.maximum, one.age, one.queue, one.priority) == (2, 4, 3600, "red", 100)
    assert job_of(seen, "b").priority == 7


def test_allowed_sizes_are_the_jobs_own() -> None:
    some = job("a", maxNodes=8, allowedNodes={"sizes": [1, 2, 8]})

    assert job_of(paint(some)).allowed == (1, 2, 8)
    assert job_of(paint(job("a"))).allowed == ()


def test_a_job_has_what_it_was_granted_and_waits_since_it_has_nothing() -> None:
    pods = [pod(f"a-{n}-0", "n1", job="a") for n in range(2)]
    had = job("a", granted=3, status={})
    had["status"]["allocation"] |= {"servedSeconds": 500}

    one = job_of(paint(had, nodes=[node("n1")], pods=pods))
    waits = job_of(paint(job("a", granted=0), nodes=[node("n1")]))
    new = job_of(paint(job("a"), nodes=[node("n1")]))

    assert (one.granted, one.served, one.waited) == (3, 500 + 3 * 60, 0)
    assert one.placement == (snapshot.Placement(f"n1/{GPU}", 2),)
    assert (waits.granted, waits.waited, new.waited) == (0, 60, 3600)


def test_pods_beyond_the_grant_are_about_to_leave() -> None:
    pods = [pod(f"a-{n}-0", "n1", job="a") for n in range(4)] + [pod("a-9-0", "n1", job="a", leaving=True)]

    assert job_of(paint(job("a", granted=2), nodes=[node("n1", 8)], pods=pods)).placement[0].pods == 2


def test_a_job_that_ran_before_there_was_an_autoscaler_has_what_it_has() -> None:
    pods = [pod(f"a-{n}-0", "n1", job="a") for n in range(2)]

    assert job_of(paint(job("a"), nodes=[node("n1")], pods=pods)).granted == 2


def test_a_pinned_job_counts_with_what_it_has_and_is_kept_the_rest() -> None:
    pods = [pod(f"a-{n}-0", "n1", job="a") for n in range(2)]

    lacking = job_of(paint(job("a", nodes=3), nodes=[node("n1")], pods=pods))
    whole = job_of(paint(job("a", nodes=2), nodes=[node("n1")], pods=pods))

    assert (lacking.held, lacking.minimum, lacking.maximum, lacking.pinned) == (False, 2, 3, 3)
    assert (whole.held, whole.granted) == (True, 2)


@pytest.mark.parametrize(
    ("status", "held"),
    [
        ({"round": 2, "roundPhase": "Open", "roundTime": at(NOW - 5)}, True),
        ({"round": 2, "roundPhase": "Open", "roundTime": at(NOW - 500)}, False),
        ({"round": 1, "roundPhase": "Open", "roundTime": at(NOW - 5)}, False),
        ({"round": 2, "roundPhase": "Sealed", "roundTime": at(NOW - 5)}, False),
        ({"round": 2, "roundPhase": "Sealed", "roundTime": at(NOW - 500), "noticeTime": at(NOW - 5)}, True),
        ({"round": 2, "roundPhase": "Finishing", "roundTime": at(NOW - 9999)}, True),
    ],
)
def test_a_job_is_left_alone_while_it_re_forms_or_finishes(status: dict[str, Any], *, held: bool) -> None:
    assert job_of(paint(job("a", granted=2, status=status), nodes=[node("n1")])).held is held


def test_what_a_quota_leaves_is_what_others_in_the_namespace_do_not_hold() -> None:
    quota = {"metadata": {"namespace": "default"}, "spec": {"hard": {f"requests.{GPU}": "5"}}}
    pods = [pod("x", "n1", gpus=2), pod("a-0-0", "n1", job="a"), pod("y", "n1", namespace="other")]

    seen = paint(job("a"), nodes=[node("n1", 8)], pods=pods, quotas=[quota])

    assert seen.snapshot.quotas == (snapshot.Quota("default", 3),)


def test_of_quotas_that_contradict_the_smallest_counts() -> None:
    quotas = [
        {"metadata": {"namespace": "default"}, "spec": {"hard": {f"requests.{GPU}": str(count)}}} for count in (5, 0, 9)
    ]

    assert paint(job("a"), nodes=[node("n1")], quotas=quotas).snapshot.quotas == (snapshot.Quota("default", 0),)


@pytest.mark.parametrize(
    "template",
    [
        {"nodeSelector": ["no", "map"]},
        {"tolerations": "all"},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
        {"affinity": "near"},
        {"containers": [{"name": "t", "image": "x", "resources": {"limits": "many"}}]},
        {"containers": [{"name": "t", "image": "x", "resources": {"limits": {GPU: "many"}}}]},
        {"priorityClassName": {"high": 1}},
    ],
)
def test_a_template_that_the_api_will_refuse_is_a_job_without_wishes(template: dict[str, Any]) -> None:
    seen = paint(job("a", template=template), job("b"), nodes=[node("n1")])

    assert len(seen.snapshot.jobs) == 2
    assert job_of(seen, "b").candidates == frozenset({f"n1/{GPU}"})


def test_an_unreadable_spec_is_no_job() -> None:
    assert paint(job("a", minNodes=5, maxNodes=2), nodes=[node("n1")]).snapshot.jobs == ()
