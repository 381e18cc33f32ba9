"""Whatever happens to pods, in whatever order, and wherever the operator is killed meanwhile: each that was lost or has
failed is in the counters, once.
"""

import random

import pytest

from support.operator_world import World

WITHOUT_END = {"maxFailures": 10**6, "maxInfrastructureFailures": 10**6}

SEEDS = range(24)


class Life:
    """A job to which things happen at random, and a list of what has to be counted."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a test that can be repeated
        self.world = World(
            warming=self.random.choice([0, 2]), nodes=self.random.randint(1, 4), failurePolicy=WITHOUT_END
        )
        self.world.settle()
        self.must: set[str] = set()
        """Pods that were taken, or failed, while they held a slot that was planned."""
        self.may: set[str] = set()
        """Those, and pods that were not in the job yet, or not any more."""

    def go_on(self) -> None:
        """Something happens."""
        getattr(self, self.random.choice(["_pod", "_pod", "_person", "_operator", "_agents", "_time"]))()

    def _pod(self) -> None:
        act = self.random.choice([self.world.delete, self.world.kill, self.world.fail])
        fit = [p for p in self.world.pods.values() if act != self.world.fail or p.name in self.world.processes]
        if not fit:
            return
        pod = self.random.choice(fit)
        planned = self.world.record is not None and pod.slot in self.world.record.plan
        if planned and self.world.leases[pod.slot].pod == pod.uid:
            self.must.add(pod.uid)
        self.may.add(pod.uid)
        act(pod.name)

    def _person(self) -> None:
        wish = self.random.choice(["scale", "scale", "suspend", "resume"])
        if wish == "scale":
            self.world.scale(self.random.randint(1, 4))
        else:
            self.world.edit(suspend=wish == "suspend")

    def _operator(self) -> None:
        self.world.operate(writes=self.random.choice([None, 0, 1, 2, 3]))

    def _agents(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.world.agents()
        training = [name for name, process in self.world.processes.items() if process.training]
        if training and self.random.random() < 0.3:
            self.world.workers_fail(self.random.choice(training))

    def _time(self) -> None:
        self.world.reap()
        self.world.now += self.random.choice([1, 30, 400, -500])


@pytest.mark.parametrize("seed", SEEDS)
def test_each_lost_or_failed_pod_is_counted_once(seed: int) -> None:
    life = Life(seed)
    for _ in range(life.random.randint(5, 30)):
        life.go_on()
    life.world.edit(suspend=False)
    life.world.settle(turns=2000)

    counted = life.world.status["disruptions"] + life.world.status["failedPods"]
    assert len(life.must) <= counted <= len(life.may)
