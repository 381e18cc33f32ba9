"""A scene for an end-to-end test: the story's scene in a namespace of the test's own, and a few acts more."""

from __future__ import annotations

import contextlib
import json
import pathlib
from typing import TYPE_CHECKING, Any

import yaml

from cluster import ClusterError
from demo import checks, staging, story
from demo.watching import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.clusters import Cluster
    from demo.rounds import Round
    from demo.story import Scene

SECONDS_PER_STEP = 0.75

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"elasticjob.dev/job-name": story.JOB}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}
"""No two pods of the job on one cluster node."""

SIGNAL_WORKERS = """
import os, pathlib, signal
for process in pathlib.Path("/proc").glob("[0-9]*"):
    words = (process / "cmdline").read_bytes().split(b"\\0")
    if b"-u" in words and b"/workspace/train.py" in words:  # torchrun starts its workers so, and is not started so
        os.kill(int(process.name), signal.{signal})
"""


@contextlib.contextmanager
def scene(cluster: Cluster, namespace: str) -> Iterator[Scene]:
    """A namespace, watched, with nothing in it yet. It goes when the block ends, and nobody waits for that."""
    staging.make_namespace(cluster, namespace)
    with View(cluster.kubeconfig, namespace=namespace, job=story.JOB).watched() as view:
        made = story.Scene(kubectl=cluster.kubectl, view=view, operator_namespace=staging.OPERATOR_NAMESPACE)
        made.await_operator()  # whatever the test before has done to it
        yield made
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def start_with_two(scene: Scene, *, apart: bool = False) -> Round:
    """The example, with fewer and slower steps, for its last ones are trained at full speed; its first round.

    *apart* is for tests of a cluster node's loss: the scheduler may else put both pods on one.
    """
    text = story.MANIFEST.read_text()
    text = text.replace("--epochs=60", "--epochs=20").replace("step=0.25", f"step={SECONDS_PER_STEP}")
    claim, job = yaml.safe_load_all(text)
    if apart:
        job["spec"]["template"]["spec"]["affinity"] = APART
    scene.kubectl("--namespace", scene.view.namespace, "apply", "--filename=-", input=yaml.safe_dump_all([claim, job]))
    return story.first_round(scene)


def kill_workers(scene: Scene, pod: str) -> None:
    """End the worker processes of *pod*, as the kernel's out-of-memory killer would."""
    scene.tell(f"the workers of {pod} are killed")
    _signal_workers(scene, pod, "SIGKILL")


def stop_workers(scene: Scene, pod: str) -> None:
    """Let the worker processes of *pod* stand still, and so all that wait for them."""
    scene.tell(f"the workers of {pod} stand still")
    _signal_workers(scene, pod, "SIGSTOP")


def _signal_workers(scene: Scene, pod: str, signal: str) -> None:
    script = SIGNAL_WORKERS.replace("{signal}", signal)
    scene.kubectl("--namespace", scene.view.namespace, "exec", pod, "--", "python3", "-c", script)


def operators_nodes(scene: Scene) -> set[str]:
    """The cluster nodes that the operator's pods are on."""
    found = scene.kubectl("--namespace", scene.operator_namespace, "get", "pods", story.OPERATOR, "--output=json")
    return {pod["spec"]["nodeName"] for pod in json.loads(found)["items"]}


def processes_of(pod: str) -> list[int]:
    """The agent and the workers of a pod on the local cluster, whose machines are this one's: by its UID."""
    mark = f"ELASTICJOB_POD_UID={pod}".encode()
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended since
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def finish(scene: Scene) -> dict[str, Any]:
    """Let the example train at full speed to its end, and return its result."""
    hurry(scene, story.JOB, "/shared")
    scene.wait("the job to succeed", lambda: scene.status.get("state") == "Succeeded")
    return result(scene, story.JOB)


def hurry(scene: Scene, job: str, folder: str) -> None:
    """Have the workers of *job* run at full speed, by word of any of its pods: some may start or end just now."""

    def told(pod: str) -> bool:
        with contextlib.suppress(ClusterError):
            scene.kubectl("--namespace", scene.view.namespace, "exec", pod, "--", "touch", f"{folder}/full-speed")
            return True
        return False

    scene.wait(f"a pod of {job} to be told to hurry", lambda: any(map(told, scene.pods_of(job))))


def result(scene: Scene, job: str) -> dict[str, Any]:
    """What the example says of itself at its end, in whichever pod; others may have no log any more, or none yet."""
    pods = f"--selector=elasticjob.dev/job-name={job}"
    return checks.result_of(scene.run("logs", pods, "--tail=-1", "--ignore-errors"))


@contextlib.contextmanager
def without_operator(scene: Scene) -> Iterator[None]:
    """The operator is scaled to nothing for as long as the block lasts."""
    where = ("--namespace", scene.operator_namespace)
    scene.kubectl(*where, "scale", "deployment", story.OPERATOR, "--replicas=0")
    scene.kubectl(*where, "wait", "--for=delete", "pod", story.OPERATOR, f"--timeout={story.PATIENCE:g}s")
    try:
        yield
    finally:
        scene.kubectl(*where, "scale", "deployment", story.OPERATOR, "--replicas=1")
        scene.await_operator()


def leftovers(scene: Scene) -> list[str]:
    """Whatever of the job's objects is still there."""
    kinds = "pods,leases,configmaps,serviceaccounts,roles,rolebindings"
    found = scene.kubectl(
        "--namespace", scene.view.namespace, "get", kinds, "--selector=elasticjob.dev/job-name", "--output=json"
    )
    return [f"{one['kind']}/{one['metadata']['name']}" for one in json.loads(found)["items"]]
