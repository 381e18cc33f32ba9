"""Things that happen to a job, drawn at random, one after the other, at moments that nothing waits for.

Same seed, same acts; the moments differ from run to run, because the machine does.
"""

from __future__ import annotations

import dataclasses
import random
import time
from typing import TYPE_CHECKING

from cluster import ClusterError
from demo import story
from support import e2e_scenes

if TYPE_CHECKING:
    from collections.abc import Callable

    from demo.story import Scene

LONGEST_PAUSE = 6.0
"""Seconds between two acts: about what a round takes from its opening to its first step, so that acts hit all of it."""


@dataclasses.dataclass
class Chaos:
    """A hand that breaks things."""

    scene: Scene
    seed: int
    done: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - a test that can be repeated
        self._acts: tuple[Callable[[], str], ...] = (
            self.scale,
            self.lose_pod,
            self.delete_pod,
            self.crash_workers,
            self.lose_operator,
        )

    def act(self) -> None:
        """Do one thing, and pause. What it was about may just be gone: that is part of it."""
        act = self._random.choice(self._acts)
        pause = self._random.uniform(0, LONGEST_PAUSE)
        try:
            self.done.append(act())
        except ClusterError as error:
            self.done.append(f"{act.__name__} came too late: {str(error).splitlines()[-1].strip()}")
        time.sleep(pause)

    def scale(self) -> str:
        nodes = self._random.randint(1, 3)
        self.scene.run("scale", f"elasticjob/{story.JOB}", f"--replicas={nodes}")
        return f"scaled to {nodes}"

    def lose_pod(self) -> str:
        pod = self._pod()
        self.scene.run("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
        return f"lost {pod}"

    def delete_pod(self) -> str:
        pod = self._pod()
        self.scene.run("delete", "pod", pod, "--wait=false")
        return f"deleted {pod}"

    def crash_workers(self) -> str:
        pod = self._pod()
        e2e_scenes.kill_workers(self.scene, pod)
        return f"crashed {pod}'s workers"

    def lose_operator(self) -> str:
        self.scene.kubectl(
            "--namespace", self.scene.operator_namespace, "delete", "pod", story.OPERATOR, "--wait=false"
        )
        return "lost the operator"

    def _pod(self) -> str:
        return self._random.choice(sorted(self.scene.pods) or ["none"])
