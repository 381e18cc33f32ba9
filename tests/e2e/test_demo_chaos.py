"""Whatever happens in whatever order: the job ends well, and each image was trained exactly once in each epoch."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from cluster import ClusterError
from demo import checks, story
from support import e2e_scenes
from support.e2e_chaos import Chaos

if TYPE_CHECKING:
    from demo.story import Scene

ACTS = int(os.environ.get("CHAOS_ACTS", "6"))
"""Few, because the whole suite is to be quick; more for who hunts: CHAOS_ACTS=60 CHAOS_SEED=7."""

ROUNDS_PER_ACT = 3
"""One without who was lost, one with its successor, one for what that interrupted; more would be a storm."""

SEED = int(os.environ.get("CHAOS_SEED", "1"))


def test_each_image_is_trained_once_an_epoch_whatever_happens(scene: Scene) -> None:
    e2e_scenes.start_with_two(scene)
    chaos = Chaos(scene, SEED)
    for _ in range(ACTS):
        chaos.act()

    scene.run("scale", f"elasticjob/{story.JOB}", "--replicas=2")
    last = scene.current
    scene.wait_round("the job to train again", lambda one: one.number >= last.number)
    scene.wait("a pod to be told to hurry", lambda: any(_hurried(scene, pod) for pod in scene.pods))
    scene.wait("the job to succeed", lambda: scene.job["status"].get("state") == "Succeeded")
    logs = [scene.run("logs", pod) for pod in scene.pods]
    [log] = [log for log in logs if "result: {" in log]
    checks.learned(checks.result_of(log))
    assert len(scene.view.history.rounds) <= ROUNDS_PER_ACT * (ACTS + 3)  # its start, the last resize, its end
    print(chaos.done)


def _hurried(scene: Scene, pod: str) -> bool:
    """Whether the pod has made the example run at full speed; one that starts or ends just now can't."""
    with contextlib.suppress(ClusterError):
        scene.kubectl("--namespace", scene.view.namespace, "exec", pod, "--", "touch", "/shared/full-speed")
        return True
    return False
