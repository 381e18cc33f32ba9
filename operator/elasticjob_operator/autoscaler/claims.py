"""Who may have how much: queues with weights, quotas and borrowing, and namespaces' ResourceQuotas. Counts, decides
nothing.

A job that names no queue belongs to its namespace's, so 500 jobs of one namespace share what one namespace deserves.
"""

from __future__ import annotations

import collections
import math
from typing import TYPE_CHECKING

from elasticjob_operator.autoscaler import nominating, room, snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable


class Claims:
    """What each queue and namespace holds in this decision, against what it may."""

    def __init__(self, snap: snapshot.Snapshot, jobs: Iterable[snapshot.Job]) -> None:
        total = capacity(snap)
        named = {queue.name: queue for queue in snap.queues}
        present = {name: named.get(name) or snapshot.Queue(name=name) for name in sorted({home(job) for job in jobs})}
        self._deserved = _deserved(present, total)
        self._limit = {name: queue.limit for name, queue in present.items() if queue.limit is not None}
        self._quota = {quota.namespace: max(quota.free, 0) for quota in snap.quotas}
        self.unlimited = not self._limit and not self._quota and len(present) == 1 and not snap.queues
        self._queues: dict[str, int] = collections.Counter()
        self._namespaces: dict[str, int] = collections.Counter()

    def pods(self, job: snapshot.Job, *, borrowing: bool) -> int | float:
        """How many more pods it may have: within what its queue deserves, or with what others leave unused."""
        if not job.accelerators or self.unlimited:
            return math.inf
        queue = home(job)
        bounds = [self._quota.get(job.namespace, math.inf) - self._namespaces[job.namespace]]
        bounds.append(max(self._limit.get(queue, math.inf), 0) - self._queues[queue])
        if not borrowing:
            bounds.append(self._deserved[queue] - self._queues[queue])
        left = min(bounds)
        return left if math.isinf(left) else max(int(left) // job.accelerators, 0)

    def take(self, job: snapshot.Job, pods: int) -> None:
        """Count so many more pods."""
        if self.unlimited:
            return
        self._queues[home(job)] += pods * job.accelerators
        self._namespaces[job.namespace] += pods * job.accelerators


def capacity(snap: snapshot.Snapshot) -> int:
    """Accelerators that our jobs can have: of cordoned cluster nodes those that they have already."""
    closed = {node.name: max(node.free, 0) for node in snap.cluster_nodes if not node.schedulable}
    there = room.occupied(snap.jobs) if closed else {}
    kept = sum(min(free, there.get(name, 0)) for name, free in closed.items())
    return kept + sum(max(node.free, 0) for node in snap.cluster_nodes if node.schedulable)


def home(job: snapshot.Job) -> str:
    """The queue it counts for. Queues' names have no colon in Kubernetes, so a namespace's own cannot be taken for
    one.
    """
    return job.queue or f"namespace:{job.namespace}"


def _deserved(queues: dict[str, snapshot.Queue], total: int) -> dict[str, int]:
    """Its quota where there is one, else its weight's part of what the quotas leave. Quotas above the cluster are
    scaled.
    """
    quotas = {name: max(queue.quota, 0) for name, queue in queues.items() if queue.quota is not None}
    promised = sum(quotas.values())
    part = min(1.0, total / promised) if promised else 1.0
    rest = total - part * promised
    weights = {
        name: queue.weight if nominating.possible(queue.weight) else 0.0
        for name, queue in queues.items()
        if name not in quotas
    }
    sum_of_weights = sum(weights.values()) or 1.0
    shares = {name: rest * weight / sum_of_weights for name, weight in weights.items()}
    return {name: math.floor(1e-9 + (part * quotas[name] if name in quotas else shares[name])) for name in queues}
