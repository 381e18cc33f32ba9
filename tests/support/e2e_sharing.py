"""Several jobs that share the cluster's pretended GPUs, and a record of who had how many, and when."""

from __future__ import annotations

import collections
import copy
import itertools
import pathlib
import time
from typing import TYPE_CHECKING, Any

import yaml

from demo import story
from support import e2e_scenes

if TYPE_CHECKING:
    from demo.story import Scene

WORKER = pathlib.Path(__file__).with_name("e2e_light_worker.py")
PACED = """
mkdir -p /shared/{name}
exec torchrun --no-python python3 -u /scripts/worker.py /shared/{name} {pace} {speedup}
"""

LEARNING = """
mkdir -p /shared/{name}
exec torchrun /workspace/train.py --shared=/shared/{name} --epochs=20 --seconds-per-step=2
"""


class Sharing:
    """The jobs of one scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.grants: list[tuple[float, str, int]] = []
        """When, which job, how many nodes it was given from then on."""
        self.nodes: list[tuple[float, str, int]] = []
        """The same for the nodes that trained."""
        self.reasons = collections.defaultdict[str, list[str]](list)
        """By job, why it was given what it was given, one after the other."""
        self._claim, self._job = yaml.safe_load_all(story.MANIFEST.read_text())
        scene.view.listeners.append(self._heard)

    def prepare(self) -> None:
        """Storage and a script for all, and two priorities."""
        self._apply(self._claim)
        self.scene.run("create", "configmap", "scripts", f"--from-file=worker.py={WORKER}")
        for name, value in (("sharing-normal", 0), ("sharing-urgent", 1000)):
            meta = {"name": name}
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}
            self._apply({**kind, "preemptionPolicy": "Never"})  # the autoscaler makes room, and asks for a checkpoint

    def start(self, name: str, least: int, most: int, *, pace: float, speedup: float, priority: str = "normal") -> None:
        """A job without a size of its own; *pace*: seconds of a step, in which n train n**speedup times as much."""
        self._start(name, least, most, PACED.format(name=name, pace=pace, speedup=speedup), priority)

    def learn(self, name: str, least: int, most: int) -> None:
        """The example itself, that counts how often each image was trained."""
        self._start(name, least, most, LEARNING.format(name=name), "normal")

    def learned(self, name: str) -> dict[str, Any]:
        """What the example says of itself at its end."""
        return e2e_scenes.result(self.scene, name)

    def _start(self, name: str, least: int, most: int, script: str, priority: str) -> None:
        job = copy.deepcopy(self._job)
        job["metadata"]["name"] = name
        job["spec"] |= {"minNodes": least, "maxNodes": most}
        del job["spec"]["nodes"]
        spec = job["spec"]["template"]["spec"]
        spec["priorityClassName"] = f"sharing-{priority}"
        [container] = spec["containers"]
        container["command"] = ["sh", "-c", script]
        container["volumeMounts"].append({"name": "scripts", "mountPath": "/scripts"})
        spec["volumes"].append({"name": "scripts", "configMap": {"name": "scripts"}})
        self._apply(job)

    def status(self, name: str) -> dict[str, Any]:
        """The job's status."""
        return dict(self.scene.view.objects["elasticjobs"].get(name, {}).get("status") or {})

    def given(self, name: str) -> int:
        """The nodes that the autoscaler has given it."""
        return int((self.status(name).get("allocation") or {}).get("nodes", 0))

    def trains(self, name: str) -> bool:
        """Whether exactly those train."""
        status = self.status(name)
        return status.get("state") == "Running" and status.get("nodes") == self.given(name) > 0

    def rests(self, name: str) -> bool:
        """Whether it has come to what it was given, be it nothing."""
        return self.trains(name) or (self.given(name) == 0 and self.status(name).get("state") == "Suspended")

    def settle(self, what: str, *names: str, total: int) -> None:
        """Wait until all of them train with what they were given, together so many; who was given nothing rests."""

        def settled() -> bool:
            return all(map(self.rests, names)) and sum(map(self.given, names)) == total

        self.scene.view.wait(what, settled, seconds=story.PATIENCE)
        self.scene.tell(f"{what}: " + ", ".join(f"{name} {self.given(name)}" for name in names))

    def measure(self, size: int, *names: str) -> None:
        """Wait until the autoscaler has measured, twice, how fast each of these jobs is at this size."""

        def known(name: str) -> bool:
            points = (self.status(name).get("allocation") or {}).get("throughput") or ()
            return any(point["nodes"] == size and point["reports"] > 1 for point in points)

        what = f"the throughput of {' and '.join(names)} at {size}"
        self.scene.view.wait(what, lambda: all(map(known, names)), seconds=story.PATIENCE)

    def host(self, name: str) -> str:
        """A cluster node that has a pod of the job, and no pod of the operator's if there is such a one."""
        hosts = {str(pod["spec"]["nodeName"]) for pod in self._pods(name) if pod["spec"].get("nodeName")}
        return min(hosts, key=lambda one: (one in e2e_scenes.operators_nodes(self.scene), one))

    def stopped(self, *names: str) -> int:
        """How often one of these jobs was left with nothing after it had had something."""
        sizes = [self.resizes(name) for name in names]
        return sum(after == 0 < before for had in sizes for before, after in itertools.pairwise(had))

    def has_left(self, cluster_node: str, name: str) -> bool:
        """Whether the job trains with what it was given, on other cluster nodes."""
        return self.trains(name) and all(pod["spec"].get("nodeName") != cluster_node for pod in self._pods(name))

    def resizes(self, name: str) -> list[int]:
        """The sizes that it was given, one after the other."""
        return [count for _, job, count in self.grants if job == name]

    def idle_share(self, begin: float, end: float, devices: int) -> float:
        """Part of the devices' time in which they did not train."""
        busy, now = 0.0, dict[str, int]()
        moments = [*((at, job, count) for at, job, count in self.nodes if at < end), (end, "", 0)]
        last = begin
        for at, job, count in moments:
            if at > begin:
                busy += (at - last) * sum(now.values())
                last = at
            now[job] = count
        return 1 - busy / ((end - begin) * devices)

    def finish(self, name: str) -> None:
        """To its end."""
        e2e_scenes.hurry(self.scene, name, f"/shared/{name}")
        done = lambda: self.status(name).get("state") == "Succeeded"  # noqa: E731 - said where it is used
        self.scene.view.wait(f"{name} to succeed", done, seconds=story.PATIENCE)

    def _pods(self, name: str) -> list[dict[str, Any]]:
        return [self.scene.view.objects["pods"][pod] for pod in self.scene.pods_of(name)]

    def _heard(self, kind: str, event: str, item: dict[str, Any], at: float) -> None:
        if kind != "elasticjobs":
            return
        name, status = item["metadata"]["name"], item.get("status") or {}
        given = status.get("allocation") or {}
        self.reasons[name].append(f"{given.get('reason')}: {given.get('message')}")
        gone = event == "DELETED" or status.get("state") in ("Succeeded", "Failed")
        for record, count in (
            (self.grants, given.get("nodes", 0)),
            (self.nodes, 0 if gone else status.get("nodes", 0)),
        ):
            last = next((c for _, job, c in reversed(record) if job == name), None)
            if last != count:
                record.append((at, name, count))

    def _apply(self, manifest: dict[str, Any]) -> None:
        where = () if manifest["kind"] == "PriorityClass" else ("--namespace", self.scene.view.namespace)
        self.scene.kubectl(*where, "apply", "--filename=-", input=yaml.safe_dump(manifest))


def now() -> float:
    """The clock of the record."""
    return time.monotonic()
