"""How long each thing that can happen to a job takes, on the real local cluster: `python -m bench.lifecycle`.

Seconds from an event to the first training step after it, as the watch of a bystander tells; one line a figure in
`build/bench/lifecycle.jsonl` (figure, value, unit). Each figure is the median of its runs, where it has several. The
cluster is this checkout's own, made for it and taken down.
"""

from __future__ import annotations

import json
import pathlib
import re
import statistics
import sys
import time
from typing import TYPE_CHECKING

import yaml

from cluster import LocalCluster
from demo import staging, story
from elasticjob_operator.core import timing
from support import checkout, e2e_scenes

if TYPE_CHECKING:
    from collections.abc import Callable

    from demo.rounds import Round
    from demo.story import Scene

OUT = pathlib.Path(__file__).parents[2] / "build/bench/lifecycle.jsonl"
MANY = 30
RUNS = 3
PATIENCE = 240.0
"""Seconds; the machine may be a busy one."""

GOALS = {
    "pod_deleted_to_open": 1.0,
    "dead_node_to_step": 15.0,
    "resize_pause": 5.0,
    "recreate_30_pods": 15.0,
}


class Figures:
    """What was measured."""

    def __init__(self) -> None:
        self.found: dict[str, list[float]] = {}

    def add(self, figure: str, seconds: float) -> None:
        """One run's value."""
        self.found.setdefault(figure, []).append(seconds)
        print(f"{figure}: {seconds:.2f} s", flush=True)

    def write(self) -> None:
        """All of them, each in a line."""
        OUT.parent.mkdir(parents=True, exist_ok=True)
        with OUT.open("w") as file:
            for figure, values in self.found.items():
                line = {
                    "figure": figure,
                    "value": round(statistics.median(values), 3),
                    "unit": "s",
                    "runs": len(values),
                }
                goal = {"goal": GOALS[figure]} if figure in GOALS else {}
                file.write(json.dumps({**line, **goal}) + "\n")


def trained(scene: Scene, what: str, fits: Callable[[Round], bool]) -> tuple[Round, float]:
    """The first round that fits, and when it took its first step."""
    found = scene.wait_round(what, fits)
    assert found.trained is not None
    return found, found.trained


def whole(scene: Scene, size: int) -> Round:
    """The round in which the job is whole, a few steps on."""
    now = scene.wait("a whole round", lambda: scene.current if _trains(scene.current, size) else None, seconds=PATIENCE)
    scene.wait("a few steps", lambda: now.last_step > now.first_step or now is not scene.current)
    return now


def _trains(one: Round, size: int) -> bool:
    return one.size == size and one.trained is not None


def scaled(scene: Scene, figures: Figures) -> None:
    """Two nodes become three: from the command to the first step, and how long training stood still for it."""
    before, began = whole(scene, 2), time.monotonic()
    scene.run("scale", f"elasticjob/{story.JOB}", "--replicas=3")
    after, step = trained(scene, "three nodes", lambda one: one.number > before.number and one.size == 3)
    figures.add("scale_to_step", step - began)
    figures.add("resize_pause", step - after.opened)


def workers_killed(scene: Scene, figures: Figures) -> None:
    """Rung 1: torchrun starts the worker processes again."""
    before = whole(scene, 3)
    e2e_scenes.kill_workers(scene, scene.pod_of(before.members[1]))
    began = time.monotonic()
    _, step = trained(scene, "the same nodes", lambda one: one.number > before.number)
    figures.add("rung_processes", step - began)


def pod_lost(scene: Scene, figures: Figures) -> None:
    """Rungs 3 and 4: the others go on without the pod, and its replacement joins."""
    before = whole(scene, 3)
    gone = story.lose_pod(scene, scene.pod_of(before.members[1]))
    after, step = trained(scene, "the others", lambda one: one.number > before.number)
    figures.add("pod_deleted_to_open", max(0.0, after.opened - gone))
    figures.add("rung_shrink", step - gone)
    _, step = trained(scene, "all of them", lambda one: one.number > before.number and one.size == 3)
    figures.add("rung_pod", step - gone)


def node_dies(cluster: LocalCluster, scene: Scene, figures: Figures) -> None:
    """A cluster node loses power that the operator is not on; then its pod is given up and replaced elsewhere."""
    before = whole(scene, 3)
    taken = e2e_scenes.operators_nodes(scene)
    node = next(place for place in map(scene.cluster_node_of, before.members[1:]) if place not in taken)
    cluster.kill_node(node)
    off = time.monotonic()
    _, step = trained(scene, "the others", lambda one: one.number > before.number)
    figures.add("dead_node_to_step", step - off)
    _, step = trained(scene, "all of them", lambda one: one.number > before.number and one.size == 3)
    figures.add("dead_node_replaced", step - off)
    cluster.start_node(node)


def only_pod_lost(scene: Scene, figures: Figures) -> None:
    """Rung 5: nobody is left to go on, so the job waits for the replacement."""
    before = whole(scene, 1)
    gone = story.lose_pod(scene, scene.pod_of(before.members[0]))
    _, step = trained(scene, "the replacement", lambda one: one.number > before.number)
    figures.add("rung_wait", step - gone)


def steps(scene: Scene, figures: Figures) -> None:
    """What the operator itself says of each round: where its time went."""
    notes = "jsonpath={range .items[*]}{.message}{'\\n'}{end}"
    told = scene.kubectl(
        "-n", scene.view.namespace, "get", "events", "--field-selector=reason=RoundTrains", "-o", notes
    )
    print(told)
    for step, words in timing.STEPS.items():
        for seconds in re.findall(rf"{words} ([0-9.]+) s", told):
            figures.add(f"{step}_of_all_rounds", float(seconds))


def many_recreated(scene: Scene, figures: Figures) -> None:
    """Thirty pods that train nothing are lost at once: until as many others are there, and run."""
    container = {"name": "trainer", "image": "docker.io/elasticjob/digits:dev", "command": ["sleep", "3600"]}
    job = {
        "apiVersion": "elasticjob.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": story.JOB},
        "spec": {"minNodes": 1, "maxNodes": MANY, "template": {"spec": {"containers": [container]}}},
    }
    scene.kubectl("-n", scene.view.namespace, "apply", "-f", "-", input=yaml.safe_dump(job))

    scene.wait("thirty pods", lambda: _there(scene, set(), "Running"), seconds=PATIENCE)
    for _ in range(RUNS):
        all_lost(scene, figures)


def all_lost(scene: Scene, figures: Figures) -> None:
    """All pods go at once, without grace."""
    lost = set(scene.pods.values())
    scene.run("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false")
    began = time.monotonic()
    scene.wait("thirty others", lambda: _there(scene, lost, ""), seconds=PATIENCE)
    figures.add("recreate_30_pods", time.monotonic() - began)
    scene.wait("thirty that run", lambda: _there(scene, lost, "Running"), seconds=PATIENCE)
    figures.add("recreate_30_pods_running", time.monotonic() - began)


def _there(scene: Scene, known: set[str], phase: str) -> bool:
    """Whether thirty pods beside those that are known are in this phase, or in any."""
    pods = scene.view.objects["pods"].values()
    found = [p for p in pods if p["metadata"]["uid"] not in known and not p["metadata"].get("deletionTimestamp")]
    return len([p for p in found if phase in ("", p["status"].get("phase"))]) == MANY


def main() -> int:
    """Measure all; what was found is written even if something comes to nothing."""
    figures = Figures()
    cluster = staging.bring_up(checkout.cluster_name("lifecycle"))
    try:
        staging.install_operator(cluster)
        with e2e_scenes.scene(cluster, "bench-lifecycle") as scene:
            story.start_with_two(scene)
            for _ in range(RUNS):
                scene.run("scale", f"elasticjob/{story.JOB}", "--replicas=2")
                scaled(scene, figures)
            for _ in range(RUNS):
                workers_killed(scene, figures)
                pod_lost(scene, figures)
            if isinstance(cluster, LocalCluster):
                for _ in range(RUNS):
                    node_dies(cluster, scene, figures)
            scene.run("scale", f"elasticjob/{story.JOB}", "--replicas=1")
            for _ in range(RUNS):
                only_pod_lost(scene, figures)
            steps(scene, figures)
            scene.run("delete", f"elasticjob/{story.JOB}", "--wait=false")
        with e2e_scenes.scene(cluster, "bench-many") as scene:
            many_recreated(scene, figures)
    finally:
        figures.write()
        cluster.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
