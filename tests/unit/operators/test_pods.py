"""A pod as the API has it, reduced to what decisions need."""

from typing import Any

import pytest

from elasticjob_operator.api import times
from elasticjob_operator.api.failures import FailureClass
from elasticjob_operator.core import building, classing, deciding, pods
from elasticjob_operator.core.actions import DeletePod
from support import operator_builders as build


def parsed(status: dict[str, Any], **meta: Any) -> pods.Pod:
    """A pod with this status."""
    found = pods.parse(
        "digits",
        {
            "metadata": {"name": "digits-1-2", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", **meta},
            "spec": {"containers": [{"name": "side"}, {"name": "trainer"}]},
            "status": status,
        },
    )
    assert found is not None
    return found


def ended(name: str, code: int, **fields: Any) -> dict[str, Any]:
    """A container that has ended."""
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": "Error", **fields}}}


def test_place_and_state() -> None:
    running = {"name": "trainer", "state": {"running": {"startedAt": "now"}}}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [running]}

    pod = parsed(status)

    assert (pod.slot, pod.number, pod.live, pod.ready, pod.started, pod.terminal) == (1, 2, True, True, True, False)


def test_a_pod_of_which_nothing_is_known_is_pending() -> None:
    pod = parsed({})

    assert (pod.phase, pod.live, pod.started) == ("Pending", True, False)


@pytest.mark.parametrize(
    ("statuses", "code", "message"),
    [
        ({"containerStatuses": [ended("side", 9), ended("trainer", 3, message="no data")]}, 3, "no data"),
        ({"containerStatuses": [ended("trainer", 137, reason="OOMKilled")]}, 137, "OOMKilled"),
        ({"containerStatuses": [ended("trainer", 1)]}, 1, ""),
        ({"initContainerStatuses": [ended("fetch", 7)]}, 7, ""),
        ({"message": "The node was low on resource: memory."}, None, "The node was low on resource: memory."),
    ],
)
def test_why_it_has_failed(statuses: dict[str, Any], code: int | None, message: str) -> None:
    pod = parsed({"phase": "Failed", **statuses})

    assert (pod.terminal, pod.live, pod.exit_code, pod.message) == (True, False, code, message)


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
def test_the_trainers_end_is_the_pods_whatever_else_runs_in_it(code: int, phase: str) -> None:
    side = {"name": "side", "state": {"running": {}}}
    end = ended("trainer", code, finishedAt="2026-01-01T00:00:07Z")

    pod = parsed({"phase": "Running", "containerStatuses": [side, end]})
    whole = parsed({"phase": phase, "containerStatuses": [end]})

    assert (pod.phase, pod.terminal, pod.live, pod.started, pod.exit_code) == (phase, True, False, False, code)
    assert pod.trainer_ended == times.parse("2026-01-01T00:00:07Z")
    assert whole.trainer_ended is None


def test_a_webhook_may_put_its_side_car_first() -> None:
    proxy = {"name": "istio-proxy", "state": {"running": {}}}
    env = [{"name": "ELASTICJOB_SLOT", "value": "1"}]
    spec = {"containers": [{"name": "istio-proxy"}, {"name": "main", "env": env}]}
    meta = {"name": "digits-1-2", "uid": "u"}

    def with_trainer(state: dict[str, Any]) -> pods.Pod:
        status = {"phase": "Running", "containerStatuses": [proxy, {"name": "main", "state": state}]}
        found = pods.parse("digits", {"metadata": meta, "spec": spec, "status": status})
        assert found is not None
        return found

    assert with_trainer({"terminated": {"exitCode": 0}}).phase == "Succeeded"
    assert with_trainer({"running": {}}).started
    assert not with_trainer({"waiting": {"reason": "ImagePullBackOff"}}).started


def test_a_side_cars_end_is_not_the_pods() -> None:
    trainer = {"name": "trainer", "state": {"running": {}}}

    pod = parsed({"phase": "Running", "containerStatuses": [ended("side", 1), trainer]})

    assert (pod.phase, pod.live, pod.trainer_ended) == ("Running", True, None)


@pytest.mark.parametrize(
    ("status", "disrupted"),
    [
        ({"phase": "Failed"}, False),
        ({"phase": "Failed", "reason": "Evicted"}, True),
        ({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]}, True),
    ],
)
def test_whether_the_cluster_did_it(status: dict[str, Any], *, disrupted: bool) -> None:
    assert parsed(status).disrupted is disrupted


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}, "Unschedulable"),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "no room (0/3)"}]}, "Unschedulable"),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "A" * 65}]}, "Unschedulable"),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "A" * 64}]}, "A" * 64),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}, "ImagePullBackOff"),
        ({"initContainerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}, "ErrImagePull"),
        ({"initContainerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}, "CrashLoopBackOff"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
    ],
)
def test_what_keeps_it_from_starting(status: dict[str, Any], trouble: str) -> None:
    assert parsed(status).trouble == trouble


def test_a_reason_longer_than_a_status_has_room_for_is_cut() -> None:
    assert parsed({"phase": "Failed", "containerStatuses": [ended("trainer", 1, reason="x" * 999)]}).reason == "x" * 128


def test_a_name_that_we_did_not_give_is_none_of_ours() -> None:
    assert pods.parse("digits", {"metadata": {"name": "digits-one", "uid": "u"}}) is None


@pytest.mark.parametrize(("names", "place"), [(["a"], 0), (["a", "trainer"], 1), (["a", "b"], 0)])
def test_which_container_trains(names: list[str], place: int) -> None:
    assert pods.trainer([{"name": name} for name in names]) == place


def test_a_pod_that_its_cluster_node_never_let_start_is_no_disruption_but_slows_down_the_next() -> None:
    refused = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no healthy devices present"}

    pod = parsed(refused)

    assert (pod.disrupted, pod.exit_code) == (False, None)
    assert classing.of_pod(pod, build.a_spec().failure_policy) is FailureClass.INFRASTRUCTURE


def test_what_the_kubelet_wrote_of_a_container_that_ran_out_of_memory_is_the_programs_failure() -> None:
    terminated = {
        "exitCode": 137,
        "reason": "OOMKilled",
        "startedAt": "2026-01-01T10:00:00Z",
        "finishedAt": "2026-01-01T10:00:07Z",
        "containerID": "containerd://0f5c",
    }
    container = {"name": "trainer", "ready": False, "restartCount": 0, "state": {"terminated": terminated}}
    conditions = [{"type": "Ready", "status": "False", "reason": "PodFailed"}]

    pod = parsed({"phase": "Failed", "conditions": conditions, "containerStatuses": [container]})

    assert (pod.exit_code, pod.reason, pod.message, pod.disrupted) == (137, "OOMKilled", "OOMKilled", False)
    assert classing.of_pod(pod, build.a_spec().failure_policy) is FailureClass.USER_ERROR


def test_what_admission_has_put_into_a_pod_is_no_reason_to_make_it_anew() -> None:
    spec = build.a_spec()
    made = dict(building.pod(build.a_job(), spec, 0, 0))
    container = {**made["spec"]["containers"][0], "resources": {"limits": {"cpu": "1"}}, "image": "mirror/of/it:1"}
    meta = {**made["metadata"], "uid": build.uid(0), "labels": {**made["metadata"]["labels"], "team": "vision"}}
    changed = {**made, "metadata": meta, "spec": {**made["spec"], "containers": [container, {"name": "proxy"}]}}

    pod = pods.parse("digits", changed)

    assert pod is not None
    read = build.running([0], having=[pod])
    assert not [a for a in deciding.decide(read, build.NOW).actions if isinstance(a, DeletePod)]
