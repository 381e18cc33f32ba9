"""What is read of cluster nodes, pods, quotas: devices, and who may run where."""

from __future__ import annotations

from typing import Any

import pytest

from elasticjob_operator.autoscaler.seeing import matching, objects
from unit.autoscaler.worlds import GPU, container, node, pod


def test_only_whole_devices_of_others_than_kubernetes_are_read() -> None:
    found = objects.devices({GPU: "8", "cpu": "4", "hugepages-2Mi": "1", "example.com/x": "2k", "kubernetes.io/b": "1"})

    assert found == {GPU: 8, "example.com/x": 2000}
    assert objects.devices({GPU: "a lot", "amd.com/gpu": "1.5", "b.c/d": None}) == {}


def test_a_pod_holds_what_all_its_containers_ask_for_or_its_hungriest_init_container() -> None:
    spec = {
        "containers": [container(1), container(2)],
        "initContainers": [container(2), {**container(1), "restartPolicy": "Always"}],
    }

    assert objects.requests(spec) == {GPU: 4}
    assert objects.requests({**spec, "initContainers": [container(7)]}) == {GPU: 7}
    assert objects.requests({"containers": [container(0)]}) == {}


def test_pods_that_hold_nothing_do_not_matter_unless_they_are_ours() -> None:
    assert objects.pod(pod("a", "n", phase="Succeeded")) is None
    assert objects.pod(pod("a", "n", gpus=0)) is None
    ours = objects.pod(pod("a", "n", gpus=0, job="j"))
    assert ours is not None
    assert ours.owner == "uid-j"


def test_a_quota_counts_devices_in_either_of_its_words_and_none_with_scopes() -> None:
    data: dict[str, Any] = {
        "metadata": {"namespace": "a"},
        "spec": {"hard": {f"requests.{GPU}": "4", f"limits.{GPU}": "3", "pods": "9"}},
    }

    assert objects.quota(data) == objects.Quota("a", {GPU: 3})
    assert objects.quota({**data, "spec": {**data["spec"], "scopes": ["BestEffort"]}}) is None
    assert objects.quota({"metadata": {"namespace": "a"}, "spec": {"hard": {"cpu": "4"}}}) is None


def allowed(spec: dict[str, Any], **fields: Any) -> bool:
    return matching.wishes(spec).allow(objects.node(node("n1", **fields)))


@pytest.mark.parametrize(
    ("selector", "fits"), [({}, True), ({"pool": "a"}, True), ({"pool": "b"}, False), ({"other": "a"}, False)]
)
def test_a_node_selector_is_met_whole(selector: dict[str, str], *, fits: bool) -> None:
    assert allowed({"nodeSelector": selector}, labels={"pool": "a"}) is fits


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ({"key": "pool", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "pool", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "other", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "pool", "operator": "Exists"}, True),
        ({"key": "other", "operator": "DoesNotExist"}, True),
        ({"key": "memory", "operator": "Gt", "values": ["15"]}, True),
        ({"key": "memory", "operator": "Lt", "values": ["15"]}, False),
        ({"key": "pool", "operator": "Gt", "values": ["15"]}, False),
        ({"key": "pool", "operator": "Unheard", "values": []}, False),
    ],
)
def test_affinity_expressions_mean_what_the_scheduler_means(expression: dict[str, Any], *, fits: bool) -> None:
    terms = [{"matchExpressions": [expression]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}

    assert allowed({"affinity": affinity}, labels={"pool": "a", "memory": "16"}) is fits


def test_any_term_does_an_empty_one_never_and_a_name_is_a_field() -> None:
    def required(*terms: dict[str, Any]) -> dict[str, Any]:
        wanted = {"nodeSelectorTerms": list(terms)}
        return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}}

    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    there = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}

    assert allowed(required(there, here))
    assert not allowed(required(there))
    assert not allowed(required({}))
    assert not allowed(required())


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_taints_keep_away_whom_they_are_not_tolerated_by(toleration: dict[str, Any], *, fits: bool) -> None:
    assert allowed({"tolerations": [toleration]}, taints=[TAINT]) is fits
    assert not allowed({}, taints=[TAINT])
    assert allowed({}, taints=[{**TAINT, "effect": "PreferNoSchedule"}])
