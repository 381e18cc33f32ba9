"""What only real pods show: a drain, a group that hangs, too much memory, an image that can't be pulled at first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cluster import LocalCluster, cgroups
from demo import checks, story
from support import e2e_scenes

if TYPE_CHECKING:
    from cluster.clusters import Cluster
    from demo.story import Scene

IMAGE = "docker.io/elasticjob/digits:dev"
LIMIT = 2**30
"""Bytes of memory for a container: more than an agent needs, which is torch and little else."""


def apply(scene: Scene, container: dict[str, Any], **spec: Any) -> None:
    """A job of one node whose container is this one."""
    template = {"spec": {"containers": [{"name": "trainer", **container}]}}
    job = {
        "apiVersion": "elasticjob.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": story.JOB},
        "spec": {"maxNodes": 1, "template": template, **spec},
    }
    scene.kubectl("-n", scene.view.namespace, "apply", "-f", "-", input=yaml.safe_dump(job))


def test_a_drain_waits_for_a_checkpoint_and_takes_the_pod_then(scene: Scene) -> None:
    before = e2e_scenes.start_with_two(scene, apart=True)
    moved = before.members[1]
    node = scene.cluster_node_of(moved)
    answers = set[str]()

    def hear(kind: str, event: str, item: dict[str, Any], at: float) -> None:
        if kind == "leases":  # it says so only until its holder arrives for the next round
            answers.add((item["metadata"].get("annotations") or {}).get("elasticjob.dev/checkpointed", ""))

    scene.view.listeners.append(hear)
    here = f"--pod-selector=elasticjob.dev/job-name={story.JOB}"

    try:
        scene.run(
            "drain", node, here, "--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={story.PATIENCE:g}s"
        )
        scene.wait("the answer to the notice", lambda: any(one.startswith("leaving.") for one in answers))
        after = scene.wait_round("two nodes again", lambda one: one.number > before.number and one.size > 1)
        assert node not in map(scene.cluster_node_of, after.members)
    finally:
        scene.run("uncordon", node)
    checks.learned(e2e_scenes.finish(scene))
    checks.equal("disruptions", expected=1, seen=scene.status["disruptions"])
    checks.equal("failures", expected=0, seen=scene.status["failures"])


def test_a_group_that_hangs_leaves_its_stacks_and_starts_again(scene: Scene) -> None:
    before = e2e_scenes.start_with_two(scene)
    hangs = scene.pod_of(before.members[0])
    e2e_scenes.stop_workers(scene, scene.pod_of(before.members[1]))

    patience(scene, 5)
    scene.wait("the next round", lambda: scene.current.number > before.number)
    patience(scene, None)  # a busy machine may take longer to start

    scene.wait("the reason to be told", lambda: scene.status.get("lastFailure", {}).get("reason") == "NoProgress")
    scene.wait("the stacks", lambda: "most recent call first" in scene.run("logs", hangs))
    scene.wait_round("the group to train again", lambda one: one.number > before.number)
    checks.learned(e2e_scenes.finish(scene))


def patience(scene: Scene, seconds: int | None) -> None:
    """How long the job may go without a step."""
    patch = {"spec": {"failurePolicy": {"progressDeadlineSeconds": seconds}}}
    scene.run("patch", f"elasticjob/{story.JOB}", "--type=merge", "-p", json.dumps(patch))


def test_an_image_that_can_not_be_pulled_is_told_and_heals_when_it_is_mended(scene: Scene) -> None:
    apply(
        scene,
        {"image": "docker.io/elasticjob/digits:none", "imagePullPolicy": "IfNotPresent", "command": ["sleep", "99"]},
    )

    scene.wait("the trouble", lambda: scene.status.get("reason") in ("ErrImagePull", "ImagePullBackOff"))
    mended = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": IMAGE}]
    scene.run("patch", f"elasticjob/{story.JOB}", "--type=json", "-p", json.dumps(mended))

    ready = scene.wait("a ready pod", lambda: _ready(scene))
    checks.equal("status of PodsReady", expected="True", seen=ready["status"])
    checks.equal("failures", expected=0, seen=scene.status["failures"])


def _ready(scene: Scene) -> dict[str, Any] | None:
    found = [c for c in scene.status.get("conditions", ()) if c["type"] == "PodsReady" and c["status"] == "True"]
    return found[0] if found else None


def test_a_worker_that_needs_more_memory_than_it_may_have_is_told_so_and_starts_again_while_the_budget_lasts(
    cluster: Cluster, scene: Scene
) -> None:
    if isinstance(cluster, LocalCluster) and not cgroups.limiting():
        pytest.skip("this host's cgroups are of version 2, in which the local cluster limits nothing")
    greedy = ["torchrun", "--no-python", "python3", "-c", f"bytearray({2 * LIMIT})"]
    limits = {"resources": {"limits": {"memory": str(LIMIT)}}}

    apply(scene, {"image": IMAGE, "command": greedy, **limits}, failurePolicy={"maxFailures": 1})

    scene.run("wait", f"elasticjob/{story.JOB}", "--for=condition=Failed", f"--timeout={story.PATIENCE:g}s")
    status = json.loads(scene.run("get", f"elasticjob/{story.JOB}", "--output=json"))["status"]
    [failed] = [one for one in status["conditions"] if one["type"] == "Failed"]
    checks.equal("reason", expected="TooManyFailures", seen=failed["reason"])
    assert "OOMKilled [UserError]" in failed["message"], failed
    assert "raise resources.limits.memory" in failed["message"], failed
    checks.equal("failures", expected=2, seen=status["failures"])
    checks.equal("failures of machines", expected=0, seen=status.get("infrastructureFailures", 0))
    scene.view.wait(
        "the events", lambda: scene.run("events", "--types=Warning").count("OOMKilled") > 1, seconds=story.PATIENCE
    )
