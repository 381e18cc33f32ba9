"""Policies to compare with: ours, and published ones written from their papers' rules. The operator knows only ours.

Each is called with a snapshot and answers with pods by cluster node. The published ones pack as their artifact does:
who keeps its size keeps its pods, the others go, smallest first, to the emptiest cluster nodes.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Protocol

from elasticjob_operator.autoscaler import deciding, settings, snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from elasticjob_operator.autoscaler.simulating import jobs, replaying

TIRESIAS_QUEUE = 57_600.0
"""Accelerator-seconds (16 GPU-hours) after which a job falls into Tiresias's second queue."""


def ours(rules: settings.Settings = deciding.DEFAULT) -> replaying.Policy:
    """The operator's allocator."""

    def policy(snap: snapshot.Snapshot) -> replaying.Allocation:
        made = deciding.decide(snap, rules)
        return {grant.job: {p.cluster_node: p.pods for p in grant.placement} for grant in made.grants}

    return policy


def tiresias(requested: Mapping[str, int]) -> replaying.Policy:
    """Two queues by attained service, rigid sizes, first come first served in each, later jobs may fill gaps
    (NSDI'19).
    """
    executed: dict[str, float] = {}
    last: dict[str, float] = {}
    queues: tuple[list[str], list[str]] = ([], [])

    def policy(snap: snapshot.Snapshot) -> replaying.Allocation:
        present = {job.name: job for job in snap.jobs}
        for queue in queues:
            queue[:] = [name for name in queue if name in present]
        for name, job in present.items():
            if name not in last:
                queues[0].append(name)
            elif job.granted:
                executed[name] = executed.get(name, 0.0) + job.age - last[name]
            last[name] = job.age
            if name in queues[0] and executed.get(name, 0.0) * requested[name] >= TIRESIAS_QUEUE:
                queues[0].remove(name)
                queues[1].append(name)
        free, sizes = _total(snap), {}
        for name in (*queues[0], *queues[1]):
            if requested[name] <= free:
                sizes[name] = requested[name]
                free -= requested[name]
        return _pack(snap, sizes, [*queues[0], *queues[1]])

    return policy


def optimus(oracle: Mapping[str, jobs.Running]) -> replaying.Policy:
    """The minimum each (one, in the paper), then each next node to the job whose remaining time falls most by it
    (EuroSys'18); knows lengths.
    """

    def policy(snap: snapshot.Snapshot) -> replaying.Allocation:
        free, sizes = _total(snap), {}
        for job in snap.jobs:
            if free >= job.minimum:
                sizes[job.name] = job.minimum
                free -= job.minimum
        return _pack(snap, _grow(snap, sizes, free, lambda job, size: _drop(oracle[job.name], size)), [])

    return policy


def equal(snap: snapshot.Snapshot) -> replaying.Allocation:
    """The same for everybody, node by node, as far as a job has use for it: no size that is not faster than all
    below.
    """
    free, sizes = _total(snap), {}
    for job in sorted(snap.jobs, key=lambda job: -job.age):
        if free >= job.minimum:
            sizes[job.name] = job.minimum
            free -= job.minimum
    useful = {job.name: _useful(job) for job in snap.jobs}
    order = [(sizes[job.name], -job.age, job.name) for job in snap.jobs if job.name in sizes]
    heapq.heapify(order)
    while order and free:
        size, age, name = heapq.heappop(order)
        bigger = next((n for n in useful[name] if n > size), None)
        if bigger is not None and bigger - size <= free:
            free -= bigger - size
            sizes[name] = bigger
            heapq.heappush(order, (bigger, age, name))
    return _pack(snap, sizes, [])


def _useful(job: snapshot.Job) -> list[int]:
    curve, best, out = job.curves[""], -math.inf, []
    for size in range(1, min(job.maximum, curve.reach) + 1):
        if curve.log(size) > best:
            best = curve.log(size)
            out.append(size)
    return out


def _drop(run: jobs.Running, size: int) -> float:
    """Seconds by which one more node would shorten what is left, by the true speeds."""
    if size + 1 > run.job.maximum:
        return 0.0
    return run.left / run.job.profile.packed(size) - run.left / run.job.profile.packed(size + 1)


def _grow(snap: snapshot.Snapshot, sizes: dict[str, int], free: int, gain: Gain) -> dict[str, int]:
    present = {job.name: job for job in snap.jobs}
    heap = [(-gain(present[name], size), rank, name) for rank, (name, size) in enumerate(sizes.items())]
    heapq.heapify(heap)
    while heap and free and heap[0][0] < 0:
        _, rank, name = heapq.heappop(heap)
        sizes[name] += 1
        free -= 1
        heapq.heappush(heap, (-gain(present[name], sizes[name]), rank, name))
    return sizes


class Gain(Protocol):
    """What one more node is worth to a job of a size."""

    def __call__(self, job: snapshot.Job, size: int, /) -> float:
        """Above zero if it is worth anything."""


def _total(snap: snapshot.Snapshot) -> int:
    return sum(node.free for node in snap.cluster_nodes)


def _pack(snap: snapshot.Snapshot, sizes: dict[str, int], order: Iterable[str]) -> replaying.Allocation:
    """One accelerator a pod, as in the traces."""
    free = {node.name: node.free for node in snap.cluster_nodes}
    out: replaying.Allocation = {}
    for job in snap.jobs:
        names = {placed.cluster_node for placed in job.placement}
        if job.granted and job.granted == sizes.get(job.name) and names <= free.keys():
            out[job.name] = {placed.cluster_node: placed.pods for placed in job.placement}
            for name, count in out[job.name].items():
                free[name] -= count
    for name in order or sorted(sizes, key=lambda name: sizes[name]):
        if name in sizes and name not in out:
            out[name] = _emptiest(free, sizes[name])
    return out


def _emptiest(free: dict[str, int], pods: int) -> dict[str, int]:
    out: dict[str, int] = {}
    while pods:
        name = max(free, key=lambda name: free[name])
        out[name] = min(free[name], pods)
        pods -= out[name]
        free[name] -= out[name]
    return out
