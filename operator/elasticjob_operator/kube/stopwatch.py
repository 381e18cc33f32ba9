"""Takes the times of all jobs' rounds, in memory: what is lost with the process is a measurement and nothing else."""

import asyncio
import time

from elasticjob_operator.api.failures import FailureClass
from elasticjob_operator.api.status import Status
from elasticjob_operator.core import timing
from elasticjob_operator.core.actions import Event
from elasticjob_operator.core.observed import Observed
from elasticjob_operator.kube.metrics import Metrics
from elasticjob_operator.kube.queue import Key


class Stopwatch:
    """One for the process."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._passages: dict[Key, timing.Passage] = {}

    def look(self, key: Key, observed: Observed) -> Event | None:
        """Take in what was read of a job; when a round's first step was seen, the times in words."""
        before, record = self._passages.get(key), observed.round.record
        now = timing.advanced(before, observed, asyncio.get_running_loop().time(), time.time())
        if now is None:
            return None
        self._passages[key] = now
        if record is None or not timing.over(now) or (timing.over(before) and before and before.number == now.number):
            return None
        for step, seconds in timing.samples(now).items():
            self._metrics.recovery.observe(seconds, rung=timing.rung(now, record), step=step)
        return timing.event(now, record)

    def count(self, before: Status, after: Status) -> None:
        """Failures that were written into a status for the first time."""
        for what, count in (
            (FailureClass.USER_ERROR, after.failures - before.failures),
            (FailureClass.INFRASTRUCTURE, after.infrastructure - before.infrastructure),
            (FailureClass.PREEMPTION, after.disruptions - before.disruptions),
        ):
            if count > 0:
                self._metrics.failures.add(count, **{"class": what.value})

    def forget(self, key: Key) -> None:
        """The job is gone."""
        self._passages.pop(key, None)
