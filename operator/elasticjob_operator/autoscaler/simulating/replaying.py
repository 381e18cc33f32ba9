"""The replay itself: a fixed step, the policy at each, and progress in between.

Model (after Pollux's artifact, so that its published figures can be compared): decisions every `interval`; whoever's
pods change makes no progress for `resize_cost` seconds, the first start included; giving up all pods is free; a job
ends in the middle of a step, its room is seen by the next decision.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Protocol

from elasticjob_operator.autoscaler import curves, snapshot
from elasticjob_operator.autoscaler.simulating import jobs, results

Allocation = dict[str, dict[str, int]]
"""Pods by job and cluster node."""
Policy = Callable[[snapshot.Snapshot], Allocation]


class Knowledge(Protocol):
    """What the allocator is told of throughputs."""

    def curve(self, run: jobs.Running) -> curves.Curve:
        """What is known now."""

    def measured(self, run: jobs.Running) -> frozenset[int]:
        """Sizes that it rests on; none where there is nothing to learn."""

    def report(self, run: jobs.Running, seconds: float) -> None:
        """The job has run for so long as it stands."""


class Measured:
    """Everything is known from the start."""

    def curve(self, run: jobs.Running) -> curves.Curve:
        """The true one."""
        return run.job.profile.curve

    def measured(self, run: jobs.Running) -> frozenset[int]:
        """Nothing to learn."""
        del run
        return frozenset()

    def report(self, run: jobs.Running, seconds: float) -> None:
        """Nothing to learn."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The model's constants."""

    interval: float = 60.0
    resize_cost: float = 30.0
    checkpoint_interval: float = 600.0
    """Seconds of progress lost at most when pods vanish without notice; planned changes lose none."""
    volatile_lifetime: float = math.inf
    """What the allocator is told of how long volatile cluster nodes last, seconds."""
    until: float = 30 * 24 * 3600.0
    """End of the replay: nothing in the traces takes longer."""
    queues: tuple[snapshot.Queue, ...] = ()


@dataclasses.dataclass(frozen=True)
class Event:
    """From `at` seconds on these are the cluster nodes."""

    at: float
    cluster_nodes: tuple[snapshot.ClusterNode, ...]
    speeds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Of cluster nodes by name, times what the jobs' profiles say; 1 where none is given."""

    @functools.cached_property
    def accelerators(self) -> int:
        """Of all cluster nodes."""
        return sum(node.free for node in self.cluster_nodes)

    @functools.cached_property
    def of_kind(self) -> Mapping[str, frozenset[str]]:
        """Names of the cluster nodes of each kind of accelerator."""
        found: dict[str, set[str]] = {}
        for node in self.cluster_nodes:
            found.setdefault(node.kind, set()).add(node.name)
        return {kind: frozenset(names) for kind, names in found.items()}


class Replay:
    """One run of one trace under one policy."""

    def __init__(
        self,
        trace: list[jobs.TraceJob],
        events: list[Event],
        policy: Policy,
        knowledge: Knowledge | None = None,
        options: Options | None = None,
    ) -> None:
        self._coming = sorted((jobs.Running(job=job, left=job.work) for job in trace), key=lambda r: r.job.submitted)
        self._events = sorted(events, key=lambda event: event.at)
        self._policy = policy
        self._knowledge = knowledge or Measured()
        self._options = options or Options()
        self._active: dict[str, jobs.Running] = {}
        self._now = Event(0.0, ())
        self.result = results.Result()

    def share(self, oracle: dict[str, jobs.Running]) -> None:
        """Let this hold the jobs that are there, as they really are."""
        self._active = oracle

    def run(self) -> results.Result:
        """Until all jobs have ended."""
        now = 0.0
        while (self._coming or self._active) and now < self._options.until:
            lost = self._happen(now)
            while self._coming and self._coming[0].job.submitted <= now:
                run = self._coming.pop(0)
                self._active[run.job.name] = run
            if self._active and self._now.cluster_nodes:
                self._decide(now, lost)
            if self._stuck:
                break
            self._advance(now)
            now += self._options.interval
        self.result.unfinished = [*self._active.values(), *self._coming]
        return self.result

    @property
    def _stuck(self) -> bool:
        """Nothing runs and nothing more happens: who waits now waits for ever."""
        return not (self._coming or self._events or any(run.pods for run in self._active.values()))

    def _happen(self, now: float) -> set[str]:
        """Cluster nodes come and go; the jobs whose pods went with them."""
        while self._events and self._events[0].at <= now:
            self._now = self._events.pop(0)
        names, lost = {node.name for node in self._now.cluster_nodes}, set()
        for run in self._active.values():
            if not run.pods.keys() <= names:
                run.left = min(run.job.work, run.left + run.rate * run.since_checkpoint)
                self.result.lost_work += run.since_checkpoint * run.nodes * run.job.accelerators
                run.pods = {name: count for name, count in run.pods.items() if name in names}
                lost.add(run.job.name)
        return lost

    def picture(self, now: float) -> snapshot.Snapshot:
        """What the policy sees."""
        return snapshot.Snapshot(
            volatile_lifetime=self._options.volatile_lifetime,
            cluster_nodes=self._now.cluster_nodes,
            jobs=tuple(self._seen(run, now) for run in self._active.values()),
            queues=self._options.queues,
        )

    def _seen(self, run: jobs.Running, now: float) -> snapshot.Job:
        job = run.job
        return snapshot.Job(
            name=job.name,
            minimum=job.minimum,
            maximum=job.maximum,
            age=now - job.submitted,
            accelerators=job.accelerators,
            candidates=self._now.of_kind.get(job.kind, frozenset()) if job.kind else None,
            priority=job.priority,
            queue=job.queue,
            namespace=job.namespace,
            granted=run.nodes,
            stood=now - run.changed,
            placement=tuple(snapshot.Placement(name, count) for name, count in run.pods.items()),
            waited=run.waited,
            served=run.served,
            resize_cost=self._options.resize_cost,
            unsaved=self._options.checkpoint_interval / 2,
            curves={"": self._knowledge.curve(run)},
            measured=self._knowledge.measured(run),
        )

    def _decide(self, now: float, lost: set[str]) -> None:
        given = self._policy(self.picture(now))
        for name, run in self._active.items():
            pods = {node: count for node, count in given.get(name, {}).items() if count}
            if pods == run.pods and name not in lost:
                continue
            self.result.stops += bool(run.nodes or name in lost) and not pods
            if sum(pods.values()) != run.nodes:
                run.changed = now
            run.pods = pods
            if pods:
                run.speed = min(self._now.speeds.get(node, 1.0) for node in pods)  # they wait for the slowest
                run.delay, run.since_checkpoint = self._options.resize_cost, 0.0
                run.changes += 1 if run.starts else 0
                run.starts += 1
            self.result.timeline.append((now, name, sum(pods.values()) * run.job.accelerators))
        needed = sum(run.job.minimum * run.job.accelerators for run in self._active.values())
        if needed <= self._now.accelerators:
            self.result.needless_waits += sum(not run.pods for run in self._active.values())

    def _advance(self, now: float) -> None:
        offered = self._now.accelerators * self._options.interval
        self.result.offered += offered if self._active else 0.0
        for queue in {run.job.home for run in self._active.values()}:
            self.result.offered_to[queue] += offered
        for run in list(self._active.values()):
            step = self._options.interval
            if not run.pods:
                run.waited += step
                continue
            delayed = min(run.delay, step)
            needed = run.left / run.rate
            used = min(step, delayed + needed)
            run.waited, run.delay, run.ran = 0.0, run.delay - delayed, run.ran + used
            run.served += used * run.nodes * run.job.accelerators
            run.left -= (used - delayed) * run.rate
            run.since_checkpoint = (run.since_checkpoint + used - delayed) % self._options.checkpoint_interval
            if used > delayed:
                self._knowledge.report(run, used - delayed)
            if delayed + needed <= step:
                run.finished = now + used
                del self._active[run.job.name]
                self.result.finished.append(run)
                self.result.timeline.append((run.finished, run.job.name, 0))
