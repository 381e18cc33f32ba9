"""How much is left while sizes are chosen: accelerators counted by pool, not yet by cluster node.

A pool is the cluster nodes that no job can tell apart: one kind, stable or volatile, wanted by the same jobs.
Counting is what makes a decision cheap; whether pods of several accelerators really fit is for `placing.py` to find
out.
"""

from __future__ import annotations

import collections
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elasticjob_operator.autoscaler import drafts, snapshot

UNLIMITED = 1 << 30
"""Room for pods that need no accelerator: their CPUs are the Kubernetes scheduler's affair, and `Job.ceiling` tells
us."""
Key = tuple[str, bool, int]


class Pool:
    """Accelerators that are left in one pool."""

    __slots__ = ("free",)

    def __init__(self) -> None:
        self.free = 0


class Room:
    """What is free; taking only lowers it."""

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self._sets = {job.candidates: number for number, job in enumerate(snap.jobs)}
        self._free = _pools(snap, self._sets)
        self._own = _cordoned(snap)
        self.any_volatile = any(node.volatile for node in snap.cluster_nodes)
        self._largest = _volatile(snap)
        self.lifetime = snap.volatile_lifetime if self.any_volatile else math.inf
        self._found: dict[tuple[frozenset[str] | None, str, bool], list[Pool]] = {}

    def pods(self, draft: drafts.Draft, kind: str, *, volatile: bool) -> int:
        """How many more pods of this job fit, on stable or on volatile cluster nodes."""
        each = draft.job.accelerators
        if not each:
            return UNLIMITED
        if volatile and not self.any_volatile:
            return 0
        keys = self._pools(draft, kind, volatile=volatile)
        shared = keys[0].free // each if len(keys) == 1 else sum(pool.free // each for pool in keys)
        return shared if not self._own else shared + self._own.get((draft.job.name, kind, volatile), 0)

    def volatile_hosts(self, kind: str, each: int) -> int:
        """Pods that the largest volatile cluster node of this kind holds; 0 when there is none."""
        return self._largest.get(kind, 0) // each

    def take(self, draft: drafts.Draft, pods: int, *, volatile: bool) -> None:
        """Count so many pods as placed there. The caller has asked `pods` first."""
        each = draft.job.accelerators
        if not each:
            return
        own = draft.job.name, draft.kind, volatile
        if self._own and own in self._own:
            part = min(pods, self._own[own])
            self._own[own] -= part
            pods -= part
        for pool in self._pools(draft, draft.kind, volatile=volatile):
            part = min(pods, pool.free // each)
            pool.free -= part * each
            pods -= part
            if not pods:
                return

    def only(self, draft: drafts.Draft) -> Pool | None:
        """The pool that all its pods come from, where there is but one: then counting is one subtraction."""
        if self._own or self.any_volatile or not draft.job.accelerators:
            return None
        pools = self._pools(draft, draft.kind, volatile=False)
        return pools[0] if len(pools) == 1 else None

    def _pools(self, draft: drafts.Draft, kind: str, *, volatile: bool) -> list[Pool]:
        """Those the fewest jobs can use come first, so that the others' only places are left to them."""
        candidates = draft.job.candidates
        found = self._found.get((candidates, kind, volatile))
        if found is None:
            bit = 1 << self._sets[candidates]
            keys = [key for key in self._free if key[0] == kind and key[1] == volatile and key[2] & bit]
            found = [self._free[key] for key in sorted(keys, key=lambda key: (key[2].bit_count(), key))]
            self._found[candidates, kind, volatile] = found
        return found


def _pools(snap: snapshot.Snapshot, sets: dict[frozenset[str] | None, int]) -> dict[Key, Pool]:
    free: dict[Key, Pool] = collections.defaultdict(Pool)
    for node in snap.cluster_nodes:
        if node.schedulable and node.free > 0:
            wanted = sum(1 << number for names, number in sets.items() if names is None or node.name in names)
            free[node.kind, node.volatile, wanted].free += node.free
    return free


def _volatile(snap: snapshot.Snapshot) -> dict[str, int]:
    largest: dict[str, int] = {}
    for node in snap.cluster_nodes:
        if node.volatile and node.schedulable:
            largest[node.kind] = max(largest.get(node.kind, 0), node.free)
    return largest


def _cordoned(snap: snapshot.Snapshot) -> dict[tuple[str, str, bool], int]:
    """Pods on cordoned cluster nodes: room for the job that has them, and for nobody else."""
    nodes = {node.name: node for node in snap.cluster_nodes if not node.schedulable}
    own: dict[tuple[str, str, bool], int] = collections.Counter()
    for job in snap.jobs:
        for placed in job.placement:
            if (node := nodes.get(placed.cluster_node)) is not None:
                own[job.name, node.kind, node.volatile] += max(placed.pods, 0)
    return own
